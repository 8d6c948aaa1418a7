#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where states and activations are, who updates, and where a run stops and goes on: the bits stay those of the plain run."""

import os
import subprocess
import unittest

from campaign import MisuseTest
from harness import APPS, PATIENCE, TINY, environment, settings

MPIEXEC = os.environ.get("DOS_MPIEXEC")
STEPS = 6
POLICIES = ["dos", "dos", "dos", "dos-stride", "twinflow", "zero-offload", "gpu-only", "eager", "lws", "dmdas"]
OPENCL = {"STARPU_OPENCL_ON_CPUS": "1"}


class Placements(MisuseTest):
    def run_on(self, ranks, out, keys, *arguments, env=None):
        start = [MPIEXEC, "-n", str(ranks)] if ranks > 1 else []
        return subprocess.run([*start, str(APPS / "train_gpt"), "--out", str(out), "--quiet", *arguments, *settings(keys)],
                              cwd=self.folder, text=True, capture_output=True, timeout=PATIENCE, env=environment(**(env or {})),
                              check=False)

    def has_opencl(self):
        keys = {"data.path": self.shared / "data"} | TINY | {"train.opencl_devices": 1, "train.steps": 1, "train.workers": 1}
        return self.run_on(1, self.folder / "opencl", keys, env=OPENCL).returncode == 0

    def draw_run(self):
        """What the numbers of a run depend on, and on how many ranks it runs."""
        pick = self.random.choice
        ranks = pick([1, 1, 1, 2, 3]) if MPIEXEC else 1
        batch = self.random.randint(1, 4)
        keys = TINY | {"data.path": self.shared / "data", "model.preset": pick(["tiny", "llama-tiny"]),
                       "model.layers": self.random.randint(1, 4), "model.width": pick([32, 48, 64]), "model.heads": pick([2, 4]),
                       "model.context": pick([8, 16, 33]), "train.batch": batch, "train.accumulate": pick([1, 1, 2, 3]),
                       "train.lanes": self.random.randint(1, min(3, batch)), "train.steps": STEPS, "train.workers": 1,
                       "train.validate_every": pick([0, 3]), "train.seed": self.random.randrange(100),
                       "optim.warmup": pick([0, 2]), "optim.rule": pick(["adamw", "adamw", "lion", "sgd", "adagrad"]),
                       "optim.clip": pick([0, 1, 1e-3, 1e6]), "sched.subgroup_params": pick([500, 1000, 3000, 10_000, 5_000_000])}
        if keys["model.preset"] == "llama-tiny":
            keys |= {"model.kv_heads": pick([1, 2]), "model.ffn": pick([0, 40]), "model.tied_head": pick(["on", "off"])}
        if pick([True, False]):
            keys |= {"train.precision": "bf16", "train.gradient_precision": pick(["fp32", "bf16"])}
        keys |= pick([{}, {}, {"optim.freeze": pick(["*_embedding.*", "blocks.0.*"])},
                      {"lora.rank": pick([1, 4]), "lora.targets": "all-linear"}])
        if ranks > 1:
            keys["dist.zero"] = pick([1, 2, 3])
        return keys, ranks

    def draw_placement(self, run, ranks, has_opencl, name):
        """What the numbers must not depend on, and the environment. A run that goes on has what is not drawn from its checkpoint."""
        pick = self.random.choice
        keys = {"train.opencl_devices": 0, "train.checkpoint_every": pick([0, 1, 2, 3, "auto"]), "train.keep": pick([1, 2]),
                "train.run_ahead": pick([1, 2, 3])}
        env = {"STARPU_SCHED": pick(POLICIES)}
        if pick([True, False]):
            disks = [self.folder / f"{name}-disk{i}" for i in range(pick([1, 2]))]
            for disk in disks:
                disk.mkdir()
            keys |= {"sched.disks": ",".join(map(str, disks)), "sched.host_memory": pick([0, 0, 0.002, "auto"])}
        if pick([True, False]):
            moved = self.folder / f"{name}-activations"
            moved.mkdir()
            part = self.random.randint(1, run["model.layers"])
            keys |= pick([{"train.activations": "selective"}, {"train.activations": "recompute"}, {"train.activations": "auto"}, *(
                {"train.activations": plan, "train.activation_disks": moved} for plan in ("disk", f"disk:{part}"))])
        if run.get("train.precision") == "bf16" and run["optim.clip"] > 0:
            keys["optim.speculate"] = pick(["off", "on", "auto"])
        if ranks > 1 and run["train.accumulate"] == 1:
            keys["dist.zero"] = pick([1, 2, 3])
        if ranks == 1:
            keys["train.workers"] = pick([1, 2])
            if has_opencl and pick([True, False, False]):
                keys |= {"train.opencl_devices": 1, "train.workers": 1, "train.gpu_memory": pick([0, 0.003, 0.01, 0.1])}
                env |= OPENCL
        return keys, env

    def test_drawn_placements(self):
        """a drawn run, placed as drawn and stopped on its way: other bits than all in host memory"""
        has_opencl = self.has_opencl()
        compared = 0
        for number in self.attempts(8):
            run, ranks = self.draw_run()
            plain = self.folder / f"plain{number}"
            result = self.run_on(ranks, plain, run)
            self.assertEqual(result.returncode, 0, result.stderr)
            out = self.folder / f"placed{number}"
            stop = self.random.choice([0, 2, 3])
            first, env = self.draw_placement(run, ranks, has_opencl, f"{number}-first")
            then, env_then = self.draw_placement(run, ranks, has_opencl, f"{number}-then")
            drawn = {"run": run, "ranks": ranks, "stop": stop, "first": first | env} | ({"then": then | env_then} if stop else {})
            with self.attempt(**drawn):
                result = self.run_on(ranks, out, run | first | {"train.stop_after": stop}, env=env)
                if result.returncode == 0 and stop:
                    result = self.run_on(ranks, out, run | then, "--resume", env=env_then)
                if "GB is too little" in result.stderr:  # of memory for what the drawn sizes need
                    self.expect_error(result, more_lines=True)
                    continue
                self.assertEqual(result.returncode, 0, result.stderr)
                self.expect_same_state(plain, out)
                compared += 1
        self.assertGreater(2 * compared, self.tried - len(self.failed), "most drawn sizes were too little")


if __name__ == "__main__":
    unittest.main()
