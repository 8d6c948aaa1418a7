#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""calibrate measures an OpenCL device that has a memory of its own (PoCL on the CPU) and its link."""

import re
import sys
import unittest

from calibration import QUICK, CalibrationTest
from harness import program

POCL = {"STARPU_OPENCL_ON_CPUS": "1"}


class Device(CalibrationTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        result = program("calibrate", *QUICK, "--opencl-devices", "1", "--output", "device.toml",
                         cwd=cls.shared, env=cls.environment | POCL)
        if "StarPU finds 0 here" in result.stderr:
            print("skipped: no OpenCL device; install pocl-opencl-icd")
            sys.exit(77)
        assert result.returncode == 0, result.stderr
        cls.device, cls.output = (cls.shared / "device.toml").read_text(), result.stdout

    def test_updates_and_links_are_measured(self):
        for key in ("gpu.update_rate", "link.h2d", "link.d2h", "link.both", "link.h2d_cpu_busy",
                    "link.d2h_cpu_busy", "link.both_cpu_busy", "link.latency"):
            self.assertRegex(self.output, rf"\n{key} +[\d.e+-]+ \S+ +[\d.]+ % +3 ")
        self.assertNotIn("no GPU was measured", self.output)

    def test_plan_takes_it(self):
        self.file.write_text(self.device)
        planned = self.plan()
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.file.write_text(re.sub(r"(\ngpus = \{ value = )1", r"\g<1>0", self.device))
        self.expect_error(self.plan(), "is given, but node.gpus is 0", name="plan")
        self.file.write_text(re.sub(r"(h2d = \{ value = )[\d.]+", r"\g<1>1e6", self.device))
        self.expect_error(self.plan(), "link.both", "must lie between the faster direction",
                          name="plan")

    def test_a_device_that_has_gone_is_a_change(self):
        self.file.write_text(self.device)
        result = self.calibrate()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"\n  node.gpus +1 -> 0")
        self.assertRegex(result.stdout, r"\n  link.h2d .*GB/s -> none")


if __name__ == "__main__":
    unittest.main()
