#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A whole run, from text to text, with an installation that was moved, is read-only and belongs to somebody else."""

import json
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from prefix import BUILD, CMAKE, IS_ROOT, SOURCE, PrefixTest

TINY = ("model.preset=tiny", "model.layers=1", "model.width=16", "model.heads=2", "model.context=16", "train.batch=4",
        "train.lanes=2", "train.workers=2", "train.steps=4", "train.validate_batches=1", "optim.warmup=1")


class Prefix(PrefixTest):
    def test_text_becomes_a_model_and_text_again(self):
        (self.work / "corpus.txt").write_text("to be or not to be, that is the question\n" * 60)
        self.run_program("prepare_data", "--tokenizer", "bytes", "--output", "data", "corpus.txt")
        keys = [word for key in TINY for word in ("--set", key)]
        self.run_program("train_gpt", "--set", "data.path=data", *keys, "--out", "run", "--trace", "trace", "--quiet")
        losses = [line for line in map(json.loads, (self.work / "run/metrics.jsonl").read_text().splitlines())
                  if "loss" in line]
        self.assertEqual([line["step"] for line in losses], [1, 2, 3, 4])
        told = self.run_program("generate", "run", "--prompt", "to", "--tokens", "5").stdout
        self.assertTrue(told.startswith("to"), told)
        self.assertIn("4 of 4", self.run_program("watch_run", "run").stdout)
        self.run_program("to_tensorboard", "run", "--output", "events")
        self.run_program("report", "trace")
        self.assertIn("<svg", (self.work / "trace/report.html").read_text())
        self.run_program("report", "--live", "run")
        self.assertIn("4 of 4", (self.work / "run/live.html").read_text())
        evaluation = json.loads(self.run_program("evaluate", "run", "--data", "data", "--json").stdout)
        self.assertGreater(evaluation["tokens"], 0)
        self.assertEqual(len(json.loads(self.run_program("checkpoints", "run", "--json").stdout)), 1)
        self.run_program("deep-optimizer-states", "export", "run", "exported")
        self.assertTrue((self.work / "exported/config.json").exists())

    def test_it_says_that_it_works_here(self):
        told = self.run_program("check_machine").stdout
        self.assertEqual(told.count(" passed: "), 4, told)

    def test_machines_come_with_the_programs(self):
        planned = json.loads(self.run_program("plan", "--machine", "h100", "--model", "llama-7b", "--json").stdout)
        self.assertGreater(planned["step_s"], 0)
        told = self.run_program("plan", "--machine", "h101", "--model", "llama-7b", status=1).stderr
        self.assertIn(f"known in {self.data}/machines: ", told)
        self.run_program("sampling", "h100", "--output", "sampling")
        self.assertTrue(list((self.work / "sampling/h100").rglob("*")))

    def test_a_calibration_goes_to_its_user(self):
        self.run_program("plan", "--machine", "this", "--model", "tiny", status=1)
        self.run_program("calibrate", "--quick", "--allow-noise", "--subgroup-params", "65536")
        written = list((self.work / ".local/share/deep-optimizer-states/machines").glob("*.toml"))
        self.assertEqual(len(written), 1, written)
        self.assertIn("predicted step", self.run_program("plan", "--machine", "this", "--model", "tiny").stdout)
        # Who owns a prefix calibrates in it, whatever is in the home.
        own = self.work / "own"
        machines = own / "share/deep-optimizer-states/machines"
        (own / "bin").mkdir(parents=True)
        machines.mkdir(parents=True)
        shutil.copy(self.prefix / "bin/plan", own / "bin")
        text = re.sub('(?m)^description = ".*"', 'description = "calibrated in a prefix"', written[0].read_text())
        (machines / written[0].name).write_text(text)
        for path in [own, *own.rglob("*")]:
            path.chmod(0o777)
        self.assertIn("calibrated in a prefix", self.run_program(own / "bin/plan", "--machine", "this", "--model", "tiny").stdout)

    def test_without_its_machine_files_a_prefix_says_so(self):
        copy = self.scratch / "copy"
        (copy / "bin").mkdir(parents=True)
        self.addCleanup(shutil.rmtree, copy)
        shutil.copy(self.prefix / "bin/plan", copy / "bin/plan")
        told = self.run_program(copy / "bin/plan", "--machine", "h100", "--model", "llama-7b", status=1).stderr
        self.assertEqual(told.count("\n"), 1, told)
        self.assertIn(f"plan: error: machine 'h100': {copy}/share/deep-optimizer-states/machines holds no machine file; ",
                      told)

    def test_a_prefix_that_cannot_be_written_is_named_and_left_alone(self):
        file = self.scratch / "file"
        file.write_text("")
        self.addCleanup(file.unlink)
        result = subprocess.run([CMAKE, "--install", BUILD, "--prefix", file / "prefix"], capture_output=True, text=True, check=False)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(f"{file}/prefix/bin", "".join(result.stderr.split()))
        self.assertEqual(file.read_text(), "")

    @unittest.skipUnless(IS_ROOT, "needs to run programs as somebody else")
    def test_quickstart_needs_a_folder_to_write_to(self):
        result = self.run_program("quickstart", status=1, cwd="/")
        self.assertEqual(result.stderr, "quickstart: error: cannot write in /: call it in a folder where you can\n")

    def test_nothing_in_it_names_the_folders_of_sources_or_build(self):
        looked_at = 0
        for path in self.prefix.rglob("*"):
            if path.is_symlink():
                self.assertFalse(path.readlink().is_absolute(), path)
                self.assertTrue(path.exists(), f"{path} leads nowhere")
            elif path.is_file():
                content = path.read_bytes()
                for folder in (SOURCE, BUILD):
                    at = content.find(bytes(folder) + b"/")
                    self.assertEqual(at, -1, f"{path}: {content[max(at, 0):at + 100]}")
                looked_at += 1
        self.assertGreater(looked_at, 50)

    def test_lmod_loads_it(self):
        start = Path("/usr/share/lmod/lmod/init/bash")
        if not start.exists():
            self.skipTest("no Lmod on this machine")
        script = ('source "$1"; module use "$2"; module load deep-optimizer-states; command -v train_gpt; echo "$DOS_ROOT"; '
                  'module unload deep-optimizer-states; echo "${DOS_ROOT-none}"; command -v train_gpt || echo none')
        result = subprocess.run(["bash", "-c", script, "bash", start, self.data / "modulefiles"], capture_output=True,
                                text=True, check=False, env={"PATH": "/usr/bin:/bin", "HOME": str(self.work)})
        self.assertEqual(result.stdout.splitlines(), [f"{self.prefix}/bin/train_gpt", str(self.data), "none", "none"],
                         result.stderr)

    def test_tools_know_their_version(self):
        version = (SOURCE / "VERSION").read_text().strip()
        for tool in ("check_machine", "corpus", "deep-optimizer-states", "plot_metrics", "quickstart", "to_tensorboard"):
            self.assertIn(version, self.run_program(tool, "--version").stdout, tool)

    def test_a_build_folder_finds_the_machine_files_of_the_sources(self):
        found = (BUILD / "share/deep-optimizer-states/machines").resolve()
        self.assertEqual(found, (SOURCE / "perfmodels/machines").resolve())


if __name__ == "__main__":
    unittest.main()
