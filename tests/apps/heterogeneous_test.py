#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""heterogeneous_test.py opencl|cuda: trains with a device that has a memory of its own (OpenCL: PoCL on the
CPU), under every policy: the plan is followed, and what is trained is what the CPU alone trains."""

import math
import re
import sys
import unittest

from harness import AppTest, PATIENCE, TINY, program, settings

DEVICE = sys.argv.pop(1)
POCL = {"STARPU_OPENCL_ON_CPUS": "1"}
LIMIT = f"STARPU_LIMIT_{DEVICE.upper()}_MEM"
NAME = {"opencl": "train.opencl_devices", "cuda": "train.cuda_devices"}[DEVICE]
# Subgroups of at most 1500 parameters: enough of them to divide.
KEYS = {"train.opencl_devices": 0, "train.cuda_devices": 0, NAME: 1, "train.workers": 1, "train.lanes": 2, "model.width": 32,
        "sched.subgroup_params": 1500, "train.validate_every": 0, "train.stall_timeout_s": PATIENCE}
# States that neither the device nor the host has room for: twice as wide where whole MiB count beside a model.
STATES_EVERYWHERE = {"opencl": {"model.width": 96}, "cuda": {"model.width": 192}}
ROOM_OF_STATES = {"opencl": 1, "cuda": 2}
# 26 MB of states, 8 bytes a parameter, all of which a device may keep, and GB of them that the host lacks room for.
ON_THE_DEVICE_ALONE = {"model.width": 512, "train.batch": 2, "sched.subgroup_params": 40000}
ROOM_ALONE, LACK = 40, 0.02
COMBINATIONS = (("fp32", 0.0001, 1), ("bf16", 0.0003, 1), ("bf16", 0, 0))
# sched::kMemoryReserve
RESERVE = 0.03
POLICIES = ["dos", "dos-stride", "zero-offload", "twinflow", "gpu-only"]
EPS = 2.0 ** -23


class Heterogeneous(AppTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        keys = TINY | KEYS | {"data.path": cls.shared / "data"}
        result = program("train_gpt", *settings(keys), "--dry-run", cwd=cls.shared, env=POCL)
        if NAME in result.stderr:
            print(f"skipped: {result.stderr.strip()}")
            sys.exit(77)

    def run_policy(self, policy, keys=None, env=None, name=None):
        """The shares (planned, done) in percent of the steps that --explain shows, and the output. What was done
        is what was planned, but for updates that were counted as moved, by reason."""
        self.out = self.folder / (name or policy)
        result = self.trained("--explain", keys=KEYS | (keys or {}),
                              env=POCL | {"STARPU_SCHED": policy} | (env or {}))
        rows = re.findall(r"^  (\d+|all) +([\d.]+) % +([\d.]+) % +([\d.]+) % +([\d.]+) % +(\d+)$", result.stdout,
                          re.MULTILINE)
        count = re.search(r"(\d+) of (\d+) updates were taken by an idle device from a late one"
                          r"(?:, (\d+) went where they end first beside backward)?$", result.stdout, re.MULTILINE)
        self.assertIsNotNone(count, result.stdout)
        taken, updates, sooner = (int(each or 0) for each in count.groups())
        self.assertEqual(int(rows[-1][-1]), taken + sooner, result.stdout)
        subgroups = int(re.search(r"parameters in (\d+) subgroups", result.stderr)[1])
        redone = sum(line.get("redone", 0) for line in self.metrics())
        self.assertEqual(updates, subgroups * self.metrics()[-1]["step"] + redone, result.stdout)
        shares = []
        for step, planned, done, to_cpu, to_gpu, moved in rows:
            planned, done, to_cpu, to_gpu = map(float, (planned, done, to_cpu, to_gpu))
            # Four figures in tenths of a percent; the smallest subgroup of all tests is larger.
            self.assertAlmostEqual(done, planned - to_cpu + to_gpu, delta=4 * 0.05, msg=result.stdout)
            if int(moved) == 0:
                self.assertEqual(done, planned, result.stdout)
            if step != "all":
                shares.append((planned, done))
                # What is done once more counts there, but not in the metrics. Tenths of a percent, and three digits.
                told = next(line for line in self.metrics() if line["step"] == int(step) and "loss" in line)
                devices = [value for key, value in told.items() if key.startswith(f"updated_{DEVICE}")]
                if redone == 0:
                    self.assertAlmostEqual(sum(devices), done / 100, delta=1e-3 * len(devices))
                    self.assertAlmostEqual(told["updated_cpu"] + sum(devices), 1, delta=1e-3 * (1 + len(devices)))
        return shares, result.stdout

    def traffic(self, output):
        """((planned, moved) to the device, (planned, moved) to the host) in MB, of --explain."""
        found = re.findall(r"^  .* -> .* +[\d.]+ +([\d.]+) +([\d.]+) +[\d.]+ %$", output, re.MULTILINE)
        self.assertEqual(len(found), 2, output)
        return [tuple(map(float, each)) for each in found]

    def room_for_states(self, keys, mebibytes, device=DEVICE):
        """(keys, environment) with which a device has so many MiB for states, and at most one or two more. An OpenCL
        device holds nothing else. On a GPU they come beside the model, the work space of its kernels and the planner's
        reserve, and StarPU takes no chunks of 32 MiB for buffers of a few KiB."""
        if device == "opencl":
            return {}, {LIMIT: str(mebibytes)}
        plenty = {"train.cuda_devices": 1, "train.gpu_memory": 1}
        report = self.trained("--dry-run", keys=keys | plenty).stdout
        model = float(re.findall(r"^  total +([\d.]+) MiB$", report, re.MULTILINE)[-1])
        whole = math.ceil((model + mebibytes) / (1 - RESERVE))
        # Half a MiB more, which is rounded off, so that no rounding of this figure takes one.
        return {"train.gpu_memory": (whole + 0.5) * 2 ** 20 / 1e9}, {"STARPU_SUBALLOCATOR": "0"}

    def expect_same_training(self, expected, run, precision="fp32"):
        if DEVICE == "cuda":
            self.expect_same_losses(expected, run, precision)
            return
        # Devices that round as IEEE 754 has it make the CPU's bits, whoever updates.
        self.expect_same_state(self.folder / expected, self.folder / run)

    def expect_same_losses(self, expected, run, precision="fp32"):
        # The model runs on the GPU too, whose sums have other orders: some 60 roundings in a row, the
        # same factor of 100 for what they feed back. Weights cannot be compared: where a gradient is
        # zero but for rounding (a key's bias), AdamW makes full steps of it. In BF16 roundings of
        # 2^-8 go the other way (gpt2_precision_test.cpp).
        for on_cpu, here in zip(self.metrics(self.folder / expected), self.metrics(), strict=True):
            if "loss" in here:
                most = 60 * EPS * 100 * on_cpu["loss"] if precision == "fp32" else 0.036
                self.assertLess(abs(here["loss"] - on_cpu["loss"]), most, run)

    def expect_all_on_the_device(self, output):
        """Parameters, gradients and two moments in FP32, and nothing of the model's activations."""
        parameters = float(re.search(r": ([\d.]+) M parameters", output)[1])
        rows = dict(re.findall(r"^  (weights|gradients|activations|states) +[\d.]+ +([\d.]+)$", output, re.MULTILINE))
        for category, each in {"weights": 4, "gradients": 4, "states": 8, "activations": 0}.items():
            # The number of parameters is printed in tenths of a million.
            self.assertAlmostEqual(float(rows[category]), each * parameters, delta=each * 0.05 + 0.01, msg=output)

    def policy_keys(self, policy):
        return {"dos-stride": {"sched.stride": 2}, "twinflow": {"sched.share": 0.4}}.get(policy, {})

    def test_states_live_on_device_host_and_disk(self):
        """In one plan, with a checkpoint a step: what the CPU alone trains, from a run in memory or for one."""
        disk = self.folder / "disk"
        disk.mkdir()
        model = STATES_EVERYWHERE[DEVICE] | {"train.checkpoint_every": 1, "train.keep": 10}
        for precision, host_memory, clip in COMBINATIONS:
            with self.subTest(precision=precision, host_memory=host_memory, clip=clip):
                keys = KEYS | model | {"train.precision": precision, "optim.clip": clip}
                limit, env = self.room_for_states(keys, ROOM_OF_STATES[DEVICE])
                env |= POCL | {"STARPU_SCHED": "dos"}
                here = keys | limit | {"sched.disks": disk, "sched.host_memory": host_memory}
                cpu = self.folder / f"cpu-{precision}-{clip}"
                self.trained(keys=keys | {NAME: 0}, out=cpu)
                self.out = self.folder / f"homes-{precision}-{clip}"
                result = self.trained(keys=here, env=env)
                self.assertRegex(result.stderr, r"on devices for good: states of [0-9.]+ [KM]iB of \d+ subgroups")
                self.assertRegex(result.stderr, r"on disks \(.*\): states of [0-9.]+ [KM]iB of \d+ subgroups")
                lines = [line for line in self.metrics() if "loss" in line]
                self.assertGreater(lines[-1][f"updated_{DEVICE}0"], 0)
                self.assertGreater(lines[-1]["disk_read_bytes"], 0)
                self.expect_same_training(cpu.name, self.out.name, precision)
                self.assertEqual(list(disk.iterdir()), [])
                if host_memory == 0:
                    continue
                # Half of the steps there, half in memory, and the other way round.
                in_memory = keys | {NAME: 0, "train.gpu_memory": 0, "sched.disks": "", "sched.host_memory": "auto"}
                for name, first, second in (("to-memory", here, in_memory), ("from-memory", in_memory, here)):
                    self.out = self.folder / f"{name}-{precision}-{clip}"
                    self.trained(keys=first | {"train.stop_after": 2}, env=env)
                    self.resumed(*settings(second | {"train.stop_after": 0}), env=env)
                    self.expect_same_training(cpu.name, self.out.name, precision)

    def test_states_live_on_the_device_alone(self):
        """Where the host has no room for all and there is no disk: what would be refused trains the same."""
        keys = KEYS | ON_THE_DEVICE_ALONE
        limit, env = self.room_for_states(keys, ROOM_ALONE)
        env |= POCL
        on_cpu = env | {"STARPU_SCHED": "zero-offload"}
        refused = self.train(keys=keys | limit | {"train.host_memory": 0.01}, env=on_cpu)
        enough = float(re.search(r"or raise train.host_memory to ([0-9.]+)$", refused.stderr, re.MULTILINE)[1])
        limited = keys | limit | {"train.host_memory": enough - LACK}
        self.assertIn("limited by train.host_memory", self.train(keys=limited, env=on_cpu).stderr)
        self.trained(keys=keys | {NAME: 0}, out=self.folder / "cpu")
        result = self.trained(keys=limited, env=env | {"STARPU_SCHED": "dos"})
        self.assertRegex(result.stderr, r"on devices for good: states of [0-9.]+ MiB")
        # A loaded machine may say that it waits for a checkpoint.
        warnings = [line for line in result.stderr.splitlines() if " warning " in line and "checkpoint" not in line]
        self.assertEqual(warnings, [], "nothing is left to plan")
        self.expect_same_training("cpu", self.out.name)

    def test_every_policy_trains_the_same(self):
        self.trained(keys=KEYS | {NAME: 0}, out=self.folder / "cpu")
        for policy in POLICIES:
            shares, output = self.run_policy(policy, keys=self.policy_keys(policy))
            self.assertEqual(len(shares), 5, output)
            self.expect_same_training("cpu", policy)
            for line in self.metrics():
                self.assertIn("mb_flushed" if "loss" in line else "val_loss", line)
            if policy == "gpu-only" and DEVICE == "opencl":
                self.expect_all_on_the_device(output)
            if DEVICE == "cuda":
                continue  # a GPU moves more than updates
            if policy == "dos":
                continue  # what it plans depends on the machine: test_a_fixed_share_of_dos
            for planned, done in shares:
                self.assertEqual(planned, done, output)
            # Where memory is plenty, streamed states are still on the device in the next step; where it
            # is not: test_bytes_are_those_of_the_plan.
            planned, moved = self.traffic(output)[0]
            self.assertLessEqual(moved, 1.05 * planned, output)
            expected = {"dos-stride": (40, 60), "twinflow": (30, 50), "gpu-only": (100, 100),
                        "zero-offload": (0, 0)}[policy]
            self.assertGreaterEqual(shares[-1][0], expected[0], output)
            self.assertLessEqual(shares[-1][0], expected[1], output)

    @unittest.skipIf(DEVICE == "cuda", "sums of the model have another order there")
    def test_updates_ahead_of_the_norm(self):
        """Not a bit depends on who updates, and on whether it waits for the norm."""
        keys = KEYS | {"train.precision": "bf16"}
        self.trained(keys=keys | {NAME: 0}, out=self.folder / "norms")
        norms = sorted(line["grad_norm"] for line in self.metrics(self.folder / "norms") if "loss" in line)
        for clip in (1e6, norms[len(norms) // 2]):
            keys["optim.clip"] = clip
            cpu = self.folder / f"cpu-{clip}"
            self.trained(keys=keys | {NAME: 0, "optim.speculate": "off"}, out=cpu)
            for policy in (*POLICIES, "dmdas"):
                out = self.folder / f"{policy}-{clip}"
                self.trained(keys=keys | self.policy_keys(policy) | {"optim.speculate": "on"}, out=out,
                             env=POCL | {"STARPU_SCHED": policy})
                self.expect_same_state(cpu, out)
                lines = [line for line in self.metrics(out) if "loss" in line]
                self.assertEqual(any(line["redone"] for line in lines), clip < 1e6, policy)

    def test_in_bf16(self):
        # Gradients of 2 bytes go to the device, working parameters of 2 bytes come back.
        keys = {"train.precision": "bf16", "train.gradient_precision": "bf16"}
        self.trained(keys=KEYS | keys | {NAME: 0}, out=self.folder / "cpu")
        shares, output = self.run_policy("gpu-only", keys=keys)
        self.assertEqual(shares[-1], (100, 100), output)
        if DEVICE == "opencl":
            self.expect_same_state(self.folder / "cpu", self.out)
        # A rounding of BF16 goes the other way where a GPU sums in another order (gpt2_precision_test.cpp).
        for on_cpu, here in zip(self.metrics(self.folder / "cpu"), self.metrics()):
            if "loss" in here:
                self.assertLess(abs(here["loss"] - on_cpu["loss"]), 0.036, here)
        if DEVICE == "cuda":
            return
        parameters = float(re.search(r": ([\d.]+) M parameters", output)[1])
        for planned, moved in self.traffic(output):
            self.assertLessEqual(abs(moved - planned), 0.05 * planned + 14 * parameters, output)

    def test_a_fixed_share_of_dos(self):
        # Idle workers may take updates of a device that is late, as it may always be on a busy machine.
        for fallback in ("false", "true"):
            keys = {"sched.share": 0.5, "sched.resident": "false", "sched.fallback": fallback}
            shares, output = self.run_policy("dos", keys=keys, name=fallback)
            parameters = 1e6 * float(re.search(r"update plan: dos: ([\d.]+) M parameters", output)[1])
            for planned, done in shares:
                self.assertAlmostEqual(planned, 50, delta=100 * 1500 / parameters, msg=output)
                if fallback == "false":
                    self.assertEqual(planned, done, output)

    if DEVICE == "opencl":
        def test_what_the_form_for_gpus_is_planned_to_do(self):
            """Where no GPU is, train_gpt plans as if there were one: states live where those tests want them."""
            for precision, host_memory, clip in COMBINATIONS:
                keys = KEYS | STATES_EVERYWHERE["cuda"] | {NAME: 0, "train.cuda_devices": 1,
                                                           "train.precision": precision, "optim.clip": clip}
                limit, _ = self.room_for_states(keys, ROOM_OF_STATES["cuda"], "cuda")
                homes = {"sched.disks": self.folder, "sched.host_memory": host_memory}
                plan = self.trained("--dry-run", keys=keys | limit | homes, env={"STARPU_SCHED": "dos"}).stdout
                self.assertRegex(plan, r"on devices for good: states of [0-9.]+ [KM]iB of \d+ subgroups")
                self.assertRegex(plan, r"on disks: states of [0-9.]+ [KM]iB of \d+ subgroups")
                self.assertNotIn("DOES NOT FIT", plan)
            keys = KEYS | ON_THE_DEVICE_ALONE | {NAME: 0, "train.cuda_devices": 1}
            keys |= self.room_for_states(keys, ROOM_ALONE, "cuda")[0]
            refused = self.trained("--dry-run", keys=keys | {"train.host_memory": 0.01}).stdout
            total = float(re.search(r"^  total +([\d.]+) MiB$", refused, re.MULTILINE)[1])
            program_has = float(re.search(r"the program has ([\d.]+) MiB already$", refused, re.MULTILINE)[1])
            enough = math.ceil((total + program_has) * 2 ** 20 / 1e7) / 100
            plan = self.trained("--dry-run", keys=keys | {"train.host_memory": enough - LACK}).stdout
            self.assertRegex(plan, r"on devices for good: states of [0-9.]+ MiB")
            self.assertNotIn("DOES NOT FIT", plan)

        def test_little_device_memory_shrinks_the_window(self):
            # 5 MB of states; 1 MiB, the smallest unit of StarPU's limit, holds 3 subgroups at a time.
            keys = {"model.width": 128, "model.layers": 2, "sched.subgroup_params": 20000,
                    "train.steps": 5}
            shares, output = self.run_policy("gpu-only", keys=keys)
            self.assertIn("(100.0 % resident)", output)
            self.assertAlmostEqual(*self.traffic(output)[0], delta=0.05 * self.traffic(output)[0][0])
            planned, moved = self.traffic(output)[1]
            # The checkpoint at the end reads two moments, which no step moves.
            parameters = float(re.search(r": ([\d.]+) M parameters", output)[1])
            self.assertAlmostEqual(moved, planned + 8 * parameters, delta=0.05 * planned)

            shares, output = self.run_policy("gpu-only", keys=keys,
                                             env={LIMIT: "1"}, name="limited")
            self.assertEqual(shares[-1], (100, 100), output)
            resident, window = re.search(r"\(([\d.]+) % resident\), window (\d+)", output).groups()
            self.assertLess(float(resident), 20, output)
            self.assertIn(int(window), (1, 2, 3), output)
            for planned, moved in self.traffic(output):
                self.assertAlmostEqual(moved, planned, delta=0.05 * planned)

        def test_bytes_are_those_of_the_plan(self):
            # 3.8 M parameters. 1 MiB holds 3 subgroups, and what of them StarPU keeps from one step to the next
            # is less than 5 % of the 30 MB that half of all states are.
            large = {"model.width": 320, "model.layers": 3, "sched.subgroup_params": 20000, "train.steps": 5}
            streamed = {LIMIT: "1"}
            fixed = {"sched.share": 0.5, "sched.resident": "false"}
            for policy, keys, env in (("dos", fixed | {"sched.fallback": "false"}, streamed),
                                      ("dos-stride", {"sched.stride": 2}, streamed),
                                      ("gpu-only", {}, streamed),
                                      ("zero-offload", {}, streamed),
                                      ("twinflow", {"sched.share": 0.4}, {})):
                shares, output = self.run_policy(policy, keys=large | keys, env=env)
                self.assertIn("\n  0 of ", output)
                for planned, done in shares:
                    self.assertEqual(planned, done, output)
                (to_device, moved_there), (to_host, moved_back) = self.traffic(output)
                if policy == "twinflow":
                    # The checkpoint at the end reads the two moments of what stays on the device.
                    parameters = float(re.search(r": ([\d.]+) M parameters", output)[1])
                    to_host += 8 * parameters * shares[-1][0] / 100
                self.assertAlmostEqual(moved_there, to_device, delta=0.05 * to_device, msg=output)
                self.assertAlmostEqual(moved_back, to_host, delta=0.05 * to_host, msg=output)
            # What was taken by the CPU does not travel. If little is left to the device, what it keeps counts.
            _, output = self.run_policy("dos", keys=large | fixed, env=streamed, name="fallback")
            for (needed, moved), kept in zip(self.traffic(output), (5 * 2 ** 20 / 1e6, 0)):
                self.assertLessEqual(moved, 1.05 * needed, output)
                self.assertGreaterEqual(moved, 0.95 * needed - kept, output)

        def test_a_device_too_small_for_an_update(self):
            # Updates of 200,000 parameters take 3.2 MB.
            keys = KEYS | {"model.width": 256, "model.layers": 2, "sched.subgroup_params": 200000, "train.steps": 3,
                           "train.validate_every": 0}
            for policy in ("dos", "gpu-only"):
                self.out = self.folder / policy
                result = self.train(keys=keys, env=POCL | {"STARPU_SCHED": policy, LIMIT: "1"})
                self.expect_error(result, "has 1.00 MiB of memory", "sched.subgroup_params = 200000 needs 3.00 MiB",
                                  "zero-offload", f"{NAME} = 0")
                self.expect_nothing_written()
            shares, output = self.run_policy("zero-offload", keys=keys, env={LIMIT: "1"})
            self.assertEqual(set(shares), {(0, 0)}, output)

        def test_a_task_that_a_device_cannot_hold_ends_the_run(self):
            # Updates of 200,000 parameters take 3.2 MB; a scheduler that knows nothing of memory hands one of them,
            # sooner or later, to a device of 1 MiB, and StarPU then tries for ever.
            keys = KEYS | {"model.width": 256, "model.layers": 2, "sched.subgroup_params": 200000, "train.steps": 2000,
                           "train.stall_timeout_s": 2}
            self.out = self.folder / "full"
            self.trained(keys=keys | {NAME: 0, "train.stop_after": 3})
            before = (self.checkpoint() / "model.safetensors").read_bytes()
            further = settings({"train.stop_after": 0, NAME: 1})
            result = self.resume(*further, env=POCL | {"STARPU_SCHED": "eager", LIMIT: "1"})
            self.expect_error(result, "has no memory for the next task: ", " of 1.00 MiB are free",
                              "train.stall_timeout_s", more_lines=True)
            for words in ("use a sched.subgroup_params below 200000", "STARPU_SCHED=dos", "largest update", "--resume"):
                self.assertIn(words, result.stderr)
            self.assertEqual((self.checkpoint() / "model.safetensors").read_bytes(), before)
            self.resumed(*settings({"train.stop_after": 6, NAME: 0}))
            self.assertEqual(self.metrics()[-1]["step"], 6)

    else:
        def test_little_gpu_memory_makes_states_move(self):
            # 25 M parameters: weights and gradients take 0.2 GB, the kernels' work space 32 MiB; some of 0.3 GB
            # of states fits beside them.
            keys = {"model.width": 1024, "model.layers": 2, "sched.subgroup_params": 1000000, "train.steps": 5}
            shares, output = self.run_policy("gpu-only", keys=keys | {"train.gpu_memory": 0.37}, name="limited")
            self.assertEqual(shares[-1], (100, 100), output)
            self.assertLess(float(re.search(r"\(([\d.]+) % resident\)", output)[1]), 100, output)
            result = self.train(keys=KEYS | keys | {"train.gpu_memory": 0.2}, env=POCL)
            self.expect_error(result, "memory on ", "weights take most", more_lines=True)

    def test_two_devices_train_the_same(self):
        # Each shows its part of the updates; their links are other lines of the report.
        two = {NAME: 2}
        env = {"POCL_DEVICES": "pthread pthread"} if DEVICE == "opencl" else {}
        probe = self.train("--dry-run", keys=KEYS | two, env=POCL | env)
        if NAME in probe.stderr:
            self.skipTest(probe.stderr.strip())
        self.assertEqual(probe.stdout.count("left for states of the optimizer"), 2, probe.stdout)
        short = {"train.steps": 8, "train.validate_every": 0}
        self.trained(keys=KEYS | short | {NAME: 0}, out=self.folder / "cpu")
        for policy in POLICIES:
            shares, output = self.run_policy(policy, keys=two | short | self.policy_keys(policy), env=env)
            self.expect_same_training("cpu", policy)
            moved = re.findall(r"^  host -> .* +[\d.]+ +[\d.]+ +([\d.]+) +[\d.]+ %$", output, re.MULTILINE)
            self.assertEqual(len(moved), 2, output)
            if policy in ("gpu-only", "dos-stride"):
                self.assertGreater(min(map(float, moved)), 0, output)
            if policy == "gpu-only":
                self.assertEqual(shares[-1], (100, 100), output)

    def test_a_limit_of_device_memory(self):
        # 0.3 GB are 286 whole MiB.
        result = self.train("--dry-run", keys=KEYS | {"train.gpu_memory": 0.3}, env=POCL)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"(?m)^  available +286 MiB$")

    def test_more_devices_than_there_are(self):
        self.out = self.folder / "out"
        result = self.train(keys=KEYS | {NAME: 99}, env=POCL)
        self.expect_error(result, f"{NAME} = 99, but StarPU finds")
        self.expect_nothing_written()


if __name__ == "__main__":
    unittest.main()
