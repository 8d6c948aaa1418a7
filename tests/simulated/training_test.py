#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole training steps, submitted by the real model and optimizer, on a simulated node with one, two and four GPUs:
lanes are spread over the GPUs, weights are copied to each, updates run where the plan says. DOS_TRAINING_NODE names
the program, DOS_SAMPLING the folder of StarPU's models of machines."""

import functools
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

MACHINE = "h100-4x"


@functools.cache
def trained(gpus, policy="dos", activations="keep", cpus="slow", clip="1"):
    with tempfile.TemporaryDirectory(prefix="dos-training-") as home:
        env = {name: value for name, value in os.environ.items() if not name.startswith("STARPU_")}
        env |= {"STARPU_PERF_MODEL_DIR": str(Path(os.environ["DOS_SAMPLING"]) / MACHINE), "STARPU_HOSTNAME": MACHINE,
                "STARPU_HOME": home, "STARPU_SILENT": "1"}
        result = subprocess.run([os.environ["DOS_TRAINING_NODE"], str(gpus), policy, activations, cpus, clip,
                                 "--log=root.thres:error"],
                                capture_output=True, text=True, timeout=200, env=env, cwd=home, check=True)
    answer = json.loads(result.stdout)
    assert "error" not in answer, answer["error"]
    return answer


def gpu_times(answer):
    """Microseconds of forward and backward on each GPU in the last step."""
    return [worker["pass_microseconds"] for worker in answer["workers"] if worker["is_gpu"]]


class SimulatedTraining(unittest.TestCase):
    def test_lanes_are_spread_over_the_gpus(self):
        for gpus in (1, 2, 4):
            times = gpu_times(trained(gpus))
            self.assertEqual(len(times), gpus)
            for each in times:
                # Equal lanes.
                self.assertAlmostEqual(each / (sum(times) / gpus), 1, delta=0.1, msg=times)

    def test_forward_backward_and_norms_are_the_gpus_alone(self):
        """Also where CPU workers are as fast, and have nothing else to do."""
        for cpus in ("slow", "fast"):
            names = {is_gpu: {name.split(".")[1] for worker in trained(1, cpus=cpus)["workers"]
                              if worker["is_gpu"] == is_gpu for name in worker["codelets"]}
                     for is_gpu in (True, False)}
            self.assertLessEqual(names[False], {"load_tokens", "tell_factor"}, cpus)
            self.assertLessEqual({"linear_forward", "sum_of_squares", "combine_norm"}, names[True], cpus)

    def test_each_gpu_has_all_weights_and_its_lanes_activations(self):
        for gpus in (1, 2, 4):
            answer = trained(gpus)
            for device in answer["devices"]:
                self.assertAlmostEqual(device["weights"] / answer["weights"], 1, delta=0.01)
                self.assertGreater(device["activations"], 0.9 * answer["activations"] / gpus)
                self.assertGreater(device["released"], 0)

    def test_more_gpus_take_less_time(self):
        last = [trained(gpus)["step_microseconds"][-1] for gpus in (1, 2, 4)]
        self.assertLess(last[1], last[0])
        self.assertLess(last[2], last[1])

    def test_updates_are_done_once_each_where_the_policy_says(self):
        for policy, on_gpus in (("dos", None), ("zero-offload", 0), ("gpu-only", 1)):
            answer = trained(2, policy)
            on_each = [worker["updates"] for worker in answer["workers"] if worker["is_gpu"]]
            all_updates = sum(worker["updates"] for worker in answer["workers"])
            self.assertEqual(all_updates, answer["subgroups"], policy)
            if on_gpus is not None:
                self.assertEqual(sum(on_each), on_gpus * all_updates, policy)
            if policy != "zero-offload":
                self.assertTrue(all(on_each), on_each)

    def test_updates_run_beside_backward_where_none_waits_for_the_norm(self):
        waiting, unclipped = trained(1), trained(1, clip="0")
        self.assertEqual(waiting["updates_beside_backward"], 0)
        self.assertGreater(unclipped["updates_beside_backward"], unclipped["subgroups"] / 4)

    def test_activations_are_on_the_host_meanwhile(self):
        kept, moved, recomputed = (trained(1, activations=plan) for plan in ("keep", "host", "recompute"))
        on_gpu = [answer["devices"][0]["activations"] for answer in (kept, moved, recomputed)]
        # Buffers of three blocks of six, and of two.
        self.assertLess(on_gpu[1], 0.7 * on_gpu[0])
        self.assertLess(on_gpu[2], on_gpu[1])
        # Copies go beside the products; to compute again takes a third of forward and backward in addition.
        last = [answer["step_microseconds"][-1] for answer in (kept, moved, recomputed)]
        self.assertLess(last[1], 1.1 * last[0])
        self.assertLess(last[1], last[2])

    def test_gpus_may_ask_for_the_same_as_often_as_they_like(self):
        for plan in ("host", "recompute"):
            self.assertEqual(len(trained(4, activations=plan)["devices"]), 4, plan)

    def test_the_same_run_takes_the_same_time(self):
        again = trained.__wrapped__(2)
        self.assertEqual(again, trained(2))


if __name__ == "__main__":
    unittest.main()
