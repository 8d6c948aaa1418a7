#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What programs say of themselves: help with an example, version, manual pages and completions that have every option."""

import json
import re
import shutil
import subprocess
import unittest

from prefix import SOURCE, PrefixTest
from shells import completed_by_fish, completed_by_zsh

PROGRAMS = ("train_gpt", "plan", "prepare_data", "generate", "evaluate", "export", "checkpoints", "calibrate", "report",
            "sampling", "watch_run")
TOOLS = ("check_machine", "corpus", "deep-optimizer-states", "plot_metrics", "quickstart", "to_tensorboard")
VERSION = (SOURCE / "VERSION").read_text(encoding="utf-8").strip()


class Pages(PrefixTest):
    def help_of(self, name):
        return self.run_program(name, "--help").stdout

    def options_of(self, name):
        return set(re.findall(r"^  (?:-\w, ?)?(--[a-z][a-z-]*)", self.help_of(name), re.MULTILINE))

    def described(self, name):
        return json.loads(self.run_program(name, "--describe").stdout)

    def completed(self, *words):
        """What bash offers for the last of the words, as it cuts them."""
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                  'complete -p "$1" >/dev/null || exit 3; set -- $(complete -p "$1"); "$3"; printf "%s\\n" "${COMPREPLY[@]}"')
        file = self.prefix / "share/bash-completion/completions/deep-optimizer-states"
        result = subprocess.run(["bash", "-c", script, "bash", file, *words], capture_output=True, text=True, check=False,
                                cwd=self.work)
        self.assertEqual((result.returncode, result.stderr), (0, ""), words)
        return set(result.stdout.split())

    def test_what_is_compared_is_there(self):
        self.assertLessEqual({"--set", "--out", "--resume", "--version"}, self.options_of("train_gpt"))
        self.assertLessEqual({"--output", "--version"}, self.options_of("plot_metrics"))

    def test_every_help_ends_with_an_example_that_the_program_can_read(self):
        for name in PROGRAMS:
            with self.subTest(program=name):
                self.assertRegex(self.help_of(name), rf"\nExamples?:\n  .*\b{name} ?.*\n      \S")
                known = self.options_of(name) | {"-n"}
                for example in self.described(name)["examples"]:
                    used = re.findall(r"(?<=\s)--?[a-z][a-z-]*", example["command"])
                    self.assertLessEqual(set(used), known, example["command"])
        for name in TOOLS:
            self.assertRegex(self.help_of(name), rf"(?m)^Example: .*{name}", name)

    def test_a_description_is_the_same_everywhere_and_always(self):
        other = self.work / "other"
        other.mkdir(exist_ok=True)
        other.chmod(0o777)
        for name in PROGRAMS:
            first = self.run_program(name, "--describe").stdout
            self.assertNotRegex(first, r"\b20\d\d-?[01]\d-?[0-3]\d\b", name)
            self.assertNotIn(str(self.work), first)
            elsewhere = self.run_program(name, "--describe", env={"HOME": str(other), "TZ": "Asia/Tokyo", "STARPU_NCPU": "1"})
            self.assertEqual(elsewhere.stdout, first, name)

    def test_every_version_is_that_of_the_sources(self):
        for name in (*PROGRAMS, *TOOLS):
            self.assertIn(VERSION, self.run_program(name, "--version").stdout, name)

    def test_pages_have_every_option_and_no_fault(self):
        if shutil.which("groff") is None:
            self.skipTest("no groff on this machine")
        for name in (*PROGRAMS, *TOOLS):
            with self.subTest(page=name):
                path = self.prefix / "share/man/man1" / f"{name}.1"
                made = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-P-c", str(path)], capture_output=True, check=True)
                self.assertEqual(made.stderr.decode(), "")
                text = re.sub(r".\x08", "", made.stdout.decode()).replace("\u2010", "-").replace("\u2212", "-")
                for option in self.options_of(name):
                    self.assertIn(option, text)
                self.assertIn("EXIT STATUS", text)
                self.assertIn(VERSION, text)
                for key in self.described(name)["keys"] if name in PROGRAMS else ():
                    self.assertIn(key["name"], text)

    def make_files(self):
        (self.work / "runs").mkdir(exist_ok=True)
        (self.work / "runs.txt").write_text("")

    def test_completion_knows_options_words_and_keys(self):
        for name in PROGRAMS:
            with self.subTest(program=name):
                self.assertLessEqual(self.options_of(name), self.completed("deep-optimizer-states", name, "--"))
        self.assertEqual(self.completed("evaluate", "run", "--precision", ""), {"fp32", "bf16"})
        self.assertIn("train.batch=", self.completed("train_gpt", "--set", "train.b"))
        # bash cuts at "=".
        self.assertEqual(self.completed("train_gpt", "--set", "train.precision", "=", "b"), {"bf16"})
        self.assertEqual(self.completed("train_gpt", "--set", "train.precision", "="), {"bf16", "fp32"})
        self.assertEqual(self.completed("deep-optimizer-states", "pl"), {"plan", "plot_metrics"})
        self.make_files()
        self.assertEqual(self.completed("train_gpt", "--out", "run"), {"runs"})
        file = self.prefix / "share/bash-completion/completions"
        self.assertFalse((file / "export").exists(), "bash completes its own export")
        self.assertTrue((file / "plan").exists())

    def files_of_shell(self, folder):
        """{name: text}, every program's options among them."""
        texts = {path.name: path.read_text(encoding="utf-8") for path in (self.prefix / "share" / folder).iterdir()}
        self.assertTrue(texts)
        for text in texts.values():
            self.assertIn("SPDX-License-Identifier", "".join(text.splitlines(keepends=True)[:2]))
        return texts

    def test_files_of_zsh_and_fish_have_every_option_and_key(self):
        zsh = self.files_of_shell("zsh/site-functions")
        fish = self.files_of_shell("fish/vendor_completions.d")
        self.assertEqual(zsh["_deep-optimizer-states"].splitlines()[0], "#compdef deep-optimizer-states")
        own = set(zsh["_deep-optimizer-states-programs"].splitlines()[0].split()[1:])
        self.assertEqual(own, {*PROGRAMS, *TOOLS} - {"export", "deep-optimizer-states"})
        self.assertEqual({name.removesuffix(".fish") for name in fish}, own | {"deep-optimizer-states"})
        for name in (*PROGRAMS, *TOOLS):
            for option in self.options_of(name) if name != "deep-optimizer-states" else ():
                with self.subTest(program=name, option=option):
                    function = zsh["_deep-optimizer-states"].partition(f"_dos_{name}() {{")[2].partition("\n}\n")[0]
                    self.assertRegex(function, rf"(?m)^ +'[*]?(\([^)]*\))?{option}(=?\[|'|[=:])")
                    self.assertRegex(fish["deep-optimizer-states.fish"], rf"(?m)subcommand_from {name}' .*-l {option[2:]}\b")
        for key in self.described("train_gpt")["keys"]:
            self.assertIn(f"\n    '{key['name']}:", zsh["_deep-optimizer-states"])
            self.assertIn(f"\n    '{key['name']}=\t", fish["deep-optimizer-states.fish"])

    def test_zsh_offers_what_bash_offers(self):
        if shutil.which("zsh") is None:
            self.skipTest("no zsh on this machine")
        self.make_files()
        for line, offered in (("train_gpt --", self.options_of("train_gpt")),
                              ("deep-optimizer-states export --", self.options_of("export")),
                              ("deep-optimizer-states pl", {"plan", "plot_metrics"}),
                              ("evaluate run --precision ", {"fp32", "bf16"}),
                              ("train_gpt --set train.batc", {"train.batch"}),
                              ("train_gpt --quiet --set train.precision=", {"fp32", "bf16"}),
                              ("train_gpt --set=train.precision=b", {"bf16"}),
                              ("train_gpt --out run", {"runs"}),
                              ("prepare_data --output a run", {"runs", "runs.txt"}),
                              ("plan --ranks ", set())):
            with self.subTest(line=line):
                self.assertEqual(completed_by_zsh(self.prefix / "share/zsh/site-functions", line, self.work), offered)

    def test_fish_offers_what_bash_offers(self):
        if shutil.which("fish") is None:
            self.skipTest("no fish on this machine")
        self.make_files()
        for line, offered in (("train_gpt --", self.options_of("train_gpt")),
                              ("deep-optimizer-states export --", self.options_of("export")),
                              ("deep-optimizer-states pl", {"plan", "plot_metrics"}),
                              ("evaluate run --precision ", {"fp32", "bf16"}),
                              ("train_gpt --set train.batc", {"train.batch="}),
                              ("train_gpt --quiet --set train.precision=b", {"train.precision=bf16"}),
                              ("train_gpt --out run", {"runs/"}),
                              ("prepare_data --output a run", {"runs/", "runs.txt"}),
                              ("plan --ranks ", set())):
            with self.subTest(line=line):
                found = completed_by_fish(self.prefix / "share/fish/vendor_completions.d", self.prefix / "bin", line, self.work)
                self.assertEqual(set(found), offered)


if __name__ == "__main__":
    unittest.main()
