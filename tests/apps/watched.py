# SPDX-License-Identifier: Apache-2.0
"""The output folder of a run that never was, for the programs that watch runs."""

import fcntl
import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness import APPS

RUN = {"configuration": {"model": {"preset": "small-3m"}, "train": {"steps": 400, "stop_after": 0, "precision": "bf16"}},
       "ranks": 2, "runtime": {"scheduler": "dos"}, "model": {"architecture": "gpt2"}}


def step_line(step, **changes):
    return {"step": step, "loss": 8.0 - step / 100, "lr": 1e-3, "grad_norm": 1.0, "tokens": step * 64, "tokens_per_s": 640.0,
            "ms_step": 100.0, "ms_forward": 10.0, "ms_backward": 20.0, "ms_update": 10.0} | changes


class WatchedRun(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="dos-watched-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.run_folder = self.folder / "mine"
        self.run_folder.mkdir()
        self.describe(RUN)
        self.metrics = self.run_folder / "metrics.jsonl"
        self.write([step_line(step) for step in range(1, 201)])

    def describe(self, run):
        (self.run_folder / "run.json").write_text(json.dumps(run))

    def write(self, lines, end="\n"):
        self.metrics.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + end)

    def hold(self):
        """Has the folder, as a run does, until the file is closed."""
        file = open(self.run_folder / "run.lock", "w", encoding="utf-8")
        self.addCleanup(file.close)
        # struct flock: the whole file. A lock of the open file, so that another process sees it.
        fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))  # F_OFD_SETLK
        return file

    def call(self, name, *arguments, **environment):
        return subprocess.run([APPS / name, *arguments], cwd=self.folder, capture_output=True, text=True, encoding="utf-8",
                              check=False, timeout=60, env=os.environ | environment)

    def expect_refused(self, result, name, *parts):
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assertTrue(result.stderr.startswith(f"{name}: error: "), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)
