#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What programs say of themselves: help with an example, version, manual pages and completions that have every option."""

import json
import re
import shutil
import subprocess
import unittest

from prefix import SOURCE, PrefixTest

PROGRAMS = ("train_gpt", "plan", "prepare_data", "generate", "evaluate", "export", "checkpoints", "calibrate", "report",
            "sampling")
TOOLS = ("corpus", "deep-optimizer-states", "plot_metrics", "quickstart", "to_tensorboard", "watch_run")
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
        (self.work / "runs").mkdir(exist_ok=True)
        (self.work / "runs.txt").write_text("")
        self.assertEqual(self.completed("train_gpt", "--out", "run"), {"runs"})
        file = self.prefix / "share/bash-completion/completions"
        self.assertFalse((file / "export").exists(), "bash completes its own export")
        self.assertTrue((file / "plan").exists())


if __name__ == "__main__":
    unittest.main()
