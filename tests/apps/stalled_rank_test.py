#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One of two ranks has a device (OpenCL: PoCL on the CPU) that cannot hold the next task: both end, and say why."""

import subprocess
import sys
import unittest

from harness import APPS, PATIENCE, TINY, AppTest, environment, program, settings
from ranks_test import MPIEXEC, WATCHED

# Updates of 200,000 parameters take 3 MiB; a scheduler that knows nothing of memory hands one of them, sooner or
# later, to a device of 1 MiB, and StarPU then tries for ever.
KEYS = TINY | {"train.opencl_devices": 0, "train.cuda_devices": 0, "train.workers": 1, "train.batch": 2,
               "train.validate_every": 0, "train.steps": 2000, "train.stall_timeout_s": 2,
               "model.width": 256, "model.layers": 2, "sched.subgroup_params": 200000}
ON_DEVICE = ("--set", "train.opencl_devices=1")
SMALL_DEVICE = {"STARPU_OPENCL_ON_CPUS": "1", "STARPU_SCHED": "eager", "STARPU_LIMIT_OPENCL_MEM": "1"}


class StalledRank(AppTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.keys = KEYS | {"data.path": cls.shared / "data"}
        result = program("train_gpt", *settings(cls.keys), *ON_DEVICE, "--dry-run", cwd=cls.shared, env=SMALL_DEVICE)
        if "train.opencl_devices" in result.stderr:
            print(f"skipped: {result.stderr.strip()}")
            sys.exit(77)

    def test_says_why_and_so_does_the_other(self):
        watched = ["sh", "-c", WATCHED, "sh", str(self.folder / "err")]
        run = [str(APPS / "train_gpt"), *settings(self.keys), "--out", str(self.out), "--quiet"]
        small = ["env", *(f"{name}={value}" for name, value in SMALL_DEVICE.items())]
        subprocess.run([MPIEXEC, "-n", "1", *watched, *run, ":", "-n", "1", *watched, *small, *run, *ON_DEVICE],
                       cwd=self.folder, capture_output=True, timeout=PATIENCE, env=environment(), check=False)
        said = [(self.folder / f"err.{rank}").read_text() for rank in (0, 1)]
        for rank in (0, 1):
            self.assertEqual((self.folder / f"err.status.{rank}").read_text().strip(), "1", said[rank])
            self.assertEqual(said[rank].count("error: "), 1, said[rank])
        stalled = r"OpenCL 0 .* has no memory for the next task: .* of 1\.00 MiB are free; .*train\.stall_timeout_s\)"
        self.assertRegex(said[1], rf"train_gpt: error: {stalled}\nuse a sched\.subgroup_params below 200000 ")
        # The other is told what happened, not what would help there.
        self.assertRegex(said[0], rf"train_gpt: error: rank 1 stopped at step \d+: {stalled}; "
                                  r"this is rank 0, at step \d+\n$")


if __name__ == "__main__":
    unittest.main()
