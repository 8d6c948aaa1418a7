# SPDX-License-Identifier: Apache-2.0
"""What the tests of calibrate share: a calibration of this machine, made once a class."""

import shutil
import socket
import tempfile
import unittest
from pathlib import Path

from harness import AppTest, program

SIZE = ("--subgroup-params", "1000,2000")
QUICK = ("--quick", "--allow-noise", *SIZE)
HOST = socket.gethostname()


class CalibrationTest(unittest.TestCase):
    expect_error = AppTest.expect_error

    @classmethod
    def setUpClass(cls):
        cls.shared = Path(tempfile.mkdtemp(prefix="dos-calibrate-"))
        cls.addClassCleanup(shutil.rmtree, cls.shared, ignore_errors=True)
        # Bus benchmarks and history models of these tests alone.
        cls.environment = {"STARPU_HOME": str(cls.shared)}
        result = program("calibrate", *QUICK, "--output", "cpu.toml", cwd=cls.shared,
                         env=cls.environment)
        assert result.returncode == 0, result.stderr
        cls.cpu, cls.output = (cls.shared / "cpu.toml").read_text(), result.stdout

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(dir=self.shared))
        self.file = self.folder / f"{HOST}.toml"

    def calibrate(self, *arguments, env=None):
        return program("calibrate", *QUICK, "--output", self.file, *arguments, cwd=self.folder,
                       env=self.environment | (env or {}))

    def plan(self, machine="this"):
        return program("plan", "--machine", machine, "--machines", self.folder, "--model",
                       "gpt2-124m", "--json", cwd=self.folder)

    def expect_refused(self, result, *parts):
        """One line, and the folder is as it was: no machine file, not even a temporary one."""
        self.expect_error(result, *parts, name="calibrate")
        self.assertEqual(list(self.folder.iterdir()), [])
