#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole steps on a simulated node whose disk binds: they take what computing or the disk takes, and not much more; without
clipping disks work beside backward, too. DOS_BUILD names the build folder."""

import functools
import json
import os
import statistics
import subprocess
import tempfile
import unittest
from pathlib import Path

STEP = Path(os.environ["DOS_BUILD"]) / "bench/simulated_step"
READ, WRITE = 6e9, 5e9
NODE = ("--machine", "rtx4090", "--model", "llama-3b", "--micro-batch", "4", "--steps", "4", "--set", "train.host_memory=20",
        "--disk", "6:5")


@functools.cache
def simulated(*options):
    with tempfile.TemporaryDirectory(prefix="dos-disks-") as folder:
        result = subprocess.run([str(STEP), *NODE, *options, "--trace", folder], capture_output=True, text=True, timeout=200,
                                check=True)
    answer = json.loads(result.stdout)
    return answer, statistics.fmean(answer["step_seconds"])


def bound(answer):
    """Seconds: what computing or the disk takes, whichever is more."""
    disk = answer["on_disk"] * (1 / READ + 1 / WRITE)
    return max(answer["forward_seconds"] + answer["backward_seconds"], disk)


def drained(answer):
    """Seconds in which all slots are read and written once: 12 bytes a parameter each way."""
    return answer["slots"] * 12 * answer["subgroup_params"] * (1 / READ + 1 / WRITE)


class Disks(unittest.TestCase):
    def test_steps_take_what_the_disk_takes(self):
        answer, seconds = simulated("--unclipped")
        # What is counted ends with the step, not with a write.
        self.assertGreater(seconds, bound(answer) - drained(answer))
        self.assertLess(seconds, bound(answer) + drained(answer))

    def test_with_clipping_disks_wait_for_backward_at_most(self):
        answer, seconds = simulated()
        self.assertLess(seconds, bound(answer) + answer["backward_seconds"] + drained(answer))

    def test_without_clipping_disks_work_beside_backward(self):
        answer, clipped = simulated()
        _, unclipped = simulated("--unclipped")
        self.assertLess(unclipped, clipped - answer["backward_seconds"] / 2)


if __name__ == "__main__":
    unittest.main()
