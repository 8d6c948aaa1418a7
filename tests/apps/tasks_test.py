#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of the pages in docs/tasks, as they stand. A `train_gpt` in front of the program's in PATH adds keys,
so that a run takes seconds: sequences of a step, the step that it stops after, and when it validates."""

import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from folder_runs import FolderTest
from harness import APPS, environment
from model_folder import read_folder, read_safetensors

ROOT = Path(os.environ["DOS_SOURCE_DIR"])
PAGES = ROOT / "docs" / "tasks"
STEPS = 6
SHORTER = """#!/bin/sh
exec "$DOS_APPS/train_gpt" "$@" --set train.batch=1 --set train.stop_after={steps} --set train.validate_every=3
"""


class Tasks(FolderTest):
    def setUp(self):
        super().setUp()
        (self.folder / "text").mkdir()
        for page in sorted((ROOT / "docs").rglob("*.md")):
            name = "-".join(page.relative_to(ROOT / "docs").with_suffix(".txt").parts)
            shutil.copy(page, self.folder / "text" / name)

    def commands_of(self, page):
        blocks = re.findall(r"```sh\n(.*?)```", (PAGES / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL)
        self.assertTrue(blocks)
        return "".join(blocks)

    def run_page(self, page, steps=STEPS):
        """Runs all commands of a page, from the first on, and ends at the first that fails."""
        programs = self.folder / "programs"
        programs.mkdir(exist_ok=True)
        shorter = programs / "train_gpt"
        shorter.write_text(SHORTER.format(steps=steps))
        shorter.chmod(0o755)
        (self.folder / "data").mkdir(exist_ok=True)
        path = ":".join(map(str, (programs, APPS, ROOT / "tools", os.environ["PATH"])))
        return self.run_script(self.commands_of(page), path)

    def run_script(self, commands, path):
        result = subprocess.run(["bash", "-e", "-c", commands], cwd=self.folder, text=True, capture_output=True,
                                timeout=200, check=False,
                                env=environment(PATH=path, DOS_BUILD=str(APPS.parent), STARPU_SCHED=None))
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def make_configuration(self):
        """mine.toml, by the first commands of the page that others refer to."""
        first = self.commands_of("train").partition("> mine.toml\n")
        self.assertTrue(first[1])
        (self.folder / "data").mkdir()
        self.run_script(first[0] + first[1], f"{APPS}:{os.environ['PATH']}")

    def steps_of(self, run):
        return [line["step"] for line in self.metrics(self.folder / "runs" / run) if "loss" in line]

    def test_every_page_is_tested_and_in_the_index(self):
        tested = set(re.findall(r'run_page\("([a-z-]+)"', Path(__file__).read_text(encoding="utf-8")))
        self.assertEqual({page.stem for page in PAGES.glob("*.md")}, tested)
        index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
        self.assertEqual(set(re.findall(r"\(tasks/([a-z-]+)\.md\)", index)), tested)

    def test_train(self):
        told = self.run_page("train").stdout
        self.assertEqual(self.steps_of("mine"), list(range(1, STEPS + 1)))
        self.assertIn("\nOnce", "\n" + told)
        self.assertRegex(told, r"perplexity [0-9.]+")
        self.assertRegex(told, rf"step +{STEPS} of {STEPS}\n")
        self.assertTrue(list((self.folder / "events").iterdir()))

    def test_fine_tune(self):
        shutil.rmtree(self.folder / "text")
        self.make_page_files()
        told = self.run_page("fine-tune").stdout
        self.assertEqual(told.count("perplexity"), 2)
        self.assertTrue((self.folder / "adapters/adapter_config.json").exists())
        self.assertEqual(len(read_safetensors(self.folder / "adapters/adapter_model.safetensors")), 4)
        self.assertEqual(read_folder(self.folder / "merged").keys(), read_folder(self.folder / "model").keys())
        self.assertEqual(self.steps_of("more"), list(range(1, STEPS + 1)))

    def test_fit(self):
        self.make_configuration()
        told = self.run_page("fit").stdout
        self.assertEqual(told.count("host memory of the run:"), 7)
        self.assertIn("memory of GPU 0, planned:", told)
        self.assertEqual(told.count("predicted step"), 3)
        self.assertFalse((self.folder / "runs").exists())

    def test_disks(self):
        self.make_configuration()
        told = self.run_page("disks", steps=12).stdout
        self.assertRegex(told, r"\n  nvme -> ")
        self.assertRegex(told, r"to run so, .*--set sched.disks=/folder/on/nvme,")
        self.assertIn("on disks: states of ", told)
        self.assertEqual(list((self.folder / "states").iterdir()), [])
        self.assertIn("states", (self.folder / "traces/disks/report.html").read_text())

    def test_slow_step(self):
        self.make_configuration()
        told = self.run_page("slow-step", steps=12)
        self.assertIn("median step", told.stdout)
        self.assertIn("zero-offload", told.stdout + told.stderr)
        self.assertIn("rank 0 of 1", told.stdout)
        for file in ("traces/slow/report.html", "compare.html"):
            self.assertIn("<svg", (self.folder / file).read_text())

    def test_node_died(self):
        self.make_configuration()
        steps = 40
        told = self.run_page("node-died", steps=steps)
        self.assertRegex(told.stdout, r"\n +\d+ .*\blast\b.* intact\n")
        self.assertIn("has ended without letting go of it; taken over", told.stderr)
        self.assertNotIn("step 1/", told.stderr)
        self.assertEqual(self.steps_of("lives"), list(range(1, steps + 1)))


if __name__ == "__main__":
    unittest.main()
