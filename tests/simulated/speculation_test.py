#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole steps on simulated nodes whose GPUs are full: updates that go ahead of the norm hide behind backward, and push
out nothing that forward or backward need, whether they are right or made again. DOS_BUILD names the build folder."""

import csv
import functools
import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

STEP = Path(os.environ["DOS_BUILD"]) / "bench/simulated_step"
NODE = ("--machine", "h100-4x", "--model", "llama-20b", "--micro-batch", "4", "--state-memory", "2.5",
        "--set", "sched.subgroup_params=10000000")


@functools.cache
def simulated(*options):
    """Seconds of the last step, those of its planned update, and bytes of activations and work space that moved."""
    with tempfile.TemporaryDirectory(prefix="dos-ahead-") as folder:
        result = subprocess.run([str(STEP), *NODE, "--trace", folder, *options], capture_output=True, text=True,
                                timeout=200, check=True)
        answer = json.loads(result.stdout)
        with open(Path(folder) / "rank0/transfers.csv", newline="", encoding="utf-8") as file:
            moved = sum(int(row["bytes"]) for row in csv.DictReader(file)
                        if row["category"] in ("activations", "workspace"))
    return answer["step_seconds"][-1], float(re.search(r"([\d.]+) ms, bound", answer["plan"])[1]) / 1e3, moved


class Speculation(unittest.TestCase):
    def test_nothing_of_the_model_is_pushed_out(self):
        for options in ((), ("--ahead",), ("--ahead", "--clipped-every", "1")):
            self.assertEqual(simulated(*options)[2], 0, options)

    def test_updates_ahead_hide_behind_backward(self):
        # What is left of the update that waiting shows: less than half.
        waiting, update, _ = simulated()
        self.assertLess(simulated("--ahead")[0], waiting - update / 4)

    def test_updates_that_are_made_again_cost_one_update(self):
        ahead = simulated("--ahead")[0]
        clipped, update, _ = simulated("--ahead", "--clipped-every", "1")
        self.assertLess(clipped, ahead + 1.1 * update)


if __name__ == "__main__":
    unittest.main()
