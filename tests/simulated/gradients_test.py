#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole steps on a simulated GPU that cannot hold the model's gradients beside its weights: those of the CPU's updates
leave during backward, weights pass, and updates have their memory. DOS_BUILD names the build folder."""

import functools
import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

STEP = Path(os.environ["DOS_BUILD"]) / "bench/simulated_step"
MACHINE = (STEP.parent.parent / "share/deep-optimizer-states/machines/rtx4090.toml").read_text(encoding="utf-8")


@functools.cache
def simulated(model, gigabytes, policy):
    """Seconds a step, percentage of the updates on the GPU."""
    with tempfile.TemporaryDirectory(prefix="dos-gradients-") as folder:
        machine, count = re.subn(r"(?m)^memory = \{ value = [0-9.]+", f"memory = {{ value = {gigabytes}", MACHINE)
        assert count == 1
        Path(folder, "node.toml").write_text(machine, encoding="utf-8")
        result = subprocess.run([str(STEP), "--machines", folder, "--machine", "node", "--model", model, "--steps", "3",
                                 "--policy", policy, "--trace", str(Path(folder) / "trace")],
                                capture_output=True, text=True, timeout=200, check=True)
    answer = json.loads(result.stdout)
    steps = answer["step_seconds"]
    return sum(steps) / len(steps), float(re.search(r"([\d.]+) % on the GPU", answer["plan"])[1])


class Gradients(unittest.TestCase):
    def expect_gain(self, model, gigabytes, least_share):
        seconds, share = simulated(model, gigabytes, "dos")
        self.assertGreater(share, least_share, gigabytes)
        # Whatever StarPU pushes out meanwhile, half of what the CPU no longer updates is saved.
        all_on_cpu = simulated(model, gigabytes, "zero-offload")[0]
        self.assertLess(seconds, (1 - share / 100 / 2) * all_on_cpu, gigabytes)

    def test_updates_are_on_the_gpu_where_not_all_gradients_fit(self):
        # 12 GB of weights and as much of gradients.
        for gigabytes in (22, 24, 27, 30):
            self.expect_gain("llama-7b", gigabytes, 55)

    def test_updates_are_on_the_gpu_where_not_all_weights_fit(self):
        for gigabytes in (14, 16, 18, 20):
            self.expect_gain("llama-7b", gigabytes, 55)
        # 23 GB of weights.
        self.expect_gain("llama-13b", 24, 55)

    def test_more_memory_is_no_loss(self):
        steps = [simulated("llama-7b", gigabytes, "dos")[0] for gigabytes in (14, 16, 18, 20, 22, 24, 27, 30)]
        for less, more in zip(steps, steps[1:]):
            self.assertLess(more, 1.03 * less, steps)


if __name__ == "__main__":
    unittest.main()
