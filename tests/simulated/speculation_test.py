#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole steps on simulated nodes whose GPUs are full: updates that go ahead of the norm hide behind backward, and push
out nothing that forward or backward need, whether they are right or made again. DOS_BUILD names the build folder."""

import csv
import functools
import json
import os
import re
import statistics
import subprocess
import tempfile
import unittest
from pathlib import Path

STEP = Path(os.environ["DOS_BUILD"]) / "bench/simulated_step"


def node(machine, model, batch, state_memory, subgroup=None):
    cut = () if subgroup is None else ("--set", f"sched.subgroup_params={subgroup}")
    return ("--machine", machine, "--model", model, "--micro-batch", str(batch), "--state-memory", str(state_memory), *cut)


NODE = node("h100-4x", "llama-20b", 4, 2.5, 10_000_000)
# Subgroups of several sizes, memory for a few updates: what is made again once took 5 GB from weights and gradients.
FULL = (node("rtx4090", "llama-1.3b", 4, 2.5), node("rtx4090", "llama-1.3b", 8, 0.5, 5_000_000),
        node("h100-4x", "llama-7b", 1, 2.5, 10_000_000))


def answer_of(options, folder):
    result = subprocess.run([str(STEP), *options, "--trace", folder], capture_output=True, text=True, timeout=200, check=True)
    return json.loads(result.stdout)


def update_of(answer):
    """Seconds that are planned for it."""
    return float(re.search(r"([\d.]+) ms, bound", answer["plan"])[1]) / 1e3


@functools.cache
def answered(*options):
    """What is printed, with the mean of its steps."""
    with tempfile.TemporaryDirectory(prefix="dos-ahead-") as folder:
        answer = answer_of(options, folder)
    return answer, statistics.fmean(answer["step_seconds"])


@functools.cache
def simulated(*options):
    """Seconds of the last step, those of its planned update, and bytes of activations and work space that moved."""
    with tempfile.TemporaryDirectory(prefix="dos-ahead-") as folder:
        answer = answer_of((*NODE, *options), folder)
        with open(Path(folder) / "rank0/transfers.csv", newline="", encoding="utf-8") as file:
            moved = sum(int(row["bytes"]) for row in csv.DictReader(file)
                        if row["category"] in ("activations", "workspace"))
    return answer["step_seconds"][-1], update_of(answer), moved


class Speculation(unittest.TestCase):
    def test_nothing_of_the_model_is_pushed_out(self):
        for options in ((), ("--ahead",), ("--ahead", "--clipped-every", "1")):
            self.assertEqual(simulated(*options)[2], 0, options)

    def test_updates_hide_behind_backward_or_forward(self):
        # Behind the next forward where they wait for the norm. A fifth of the update is left at most.
        for options in ((), ("--ahead",)):
            step, update, _ = simulated(*options)
            answer = answered(*NODE, *options)[0]
            self.assertLess(step, answer["forward_seconds"] + answer["backward_seconds"] + update / 5, options)

    def test_updates_that_are_made_again_cost_one_update(self):
        ahead = simulated("--ahead")[0]
        clipped, update, _ = simulated("--ahead", "--clipped-every", "1")
        self.assertLess(clipped, ahead + 1.1 * update)

    def test_full_gpus_lose_nothing_to_what_is_made_again(self):
        for each in FULL:
            answer, ahead = answered(*each, "--ahead")
            _, clipped = answered(*each, "--ahead", "--clipped-every", "1")
            self.assertLess(clipped, ahead + 1.1 * update_of(answer), each)

    def test_the_step_ahead_takes_what_is_planned(self):
        # The replay has no sums of squares and no waiting for memory of the runtime: 5 %.
        for each in (NODE, *FULL):
            answer, ahead = answered(*each, "--ahead")
            self.assertAlmostEqual(answer["planned_seconds"], ahead, delta=0.05 * ahead, msg=each)

    def test_ahead_is_between_the_bound_and_waiting(self):
        for each in FULL:
            _, waiting = answered(*each)
            answer, ahead = answered(*each, "--ahead")
            passes = answer["forward_seconds"] + answer["backward_seconds"]
            self.assertGreater(answer["bound_seconds"], passes * (1 - 1e-9), each)
            self.assertGreater(ahead, answer["bound_seconds"], each)
            self.assertLess(ahead, waiting, each)


if __name__ == "__main__":
    unittest.main()
