#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Options out of range end benchmarks with one line that names value and place."""

import json
import os
import subprocess
import tempfile
import unittest


class Options(unittest.TestCase):
    def run_program(self, name, *arguments):
        with tempfile.TemporaryDirectory(prefix="dos-options-") as folder:
            return subprocess.run([os.path.join(os.environ["DOS_BENCH"], name), *arguments], cwd=folder, text=True,
                                  capture_output=True, timeout=120)

    def expect_error(self, name, arguments, *parts):
        with self.subTest(f"{name} {arguments}"):
            result = self.run_program(name, *arguments)
            self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            for part in (f"{name}: error: ", *parts):
                self.assertIn(part, result.stderr)

    def test_sched_graphs(self):
        for option, values in (("--tile-size", ("0", "-3", "99999999")), ("--tiles", ("0", "-1", "10001")),
                               ("--layers", ("0",)), ("--width", ("0",)), ("--lanes", ("0",)), ("--rows", ("0",)),
                               ("--steps", ("0",)), ("--rounds", ("0",)), ("--warm-up", ("-1",)),
                               ("--workers", ("-5", "0")), ("--cpu-gflops", ("0", "-1", "inf")),
                               ("--gpu-gflops", ("nan", "0")), ("--opencl-devices", ("-1",)), ("--gpus", ("-1",))):
            for value in values:
                is_number = value not in ("inf", "nan")
                self.expect_error("sched_graphs", (f"{option}={value}",), f"{option} {value}: must be" if is_number
                                  else f"{option}: {value} is not a finite number")
        small = ("--tiles", "2", "--tile-size", "8", "--rounds", "1", "--schedulers", "eager")
        self.expect_error("sched_graphs", (*small, "--gpus", "1"), "--gpus 1: ", "--simulated")
        self.expect_error("sched_graphs", (*small, "--workers", "999"), "--workers 999: StarPU can run", "lower it")
        self.expect_error("sched_graphs", (*small, "--opencl-devices", "77"), "--opencl-devices 77: StarPU finds")
        self.expect_error("sched_graphs", (*small, "--simulated"),
                          "--simulated: this build's StarPU has no SimGrid")

    def test_sched_overhead(self):
        for option, values in (("--tasks", ("0", "-1", "10000001")), ("--rounds", ("0", "1000001"))):
            for value in values:
                self.expect_error("sched_overhead", (f"{option}={value}",), f"{option} {value}: must be 1 to")

    def test_train_step(self):
        for option, value in (("--steps", "0"), ("--warmup", "-1"), ("--accumulate", "0"), ("--batch", "0")):
            self.expect_error("train_step", ("--model", "tiny", f"{option}={value}"), value)
        self.expect_error("train_step", ("--model", "tiny", "--state-memory", "1", "--cuda-devices", "-1"),
                          "--state-memory 1", "--cuda-devices")

    def test_attention(self):
        for option, values in (("--sequences", ("0",)), ("--tokens", ("0", "-1")), ("--heads", ("0",)),
                               ("--rounds", ("0",)), ("--head-size", ("0", "1025")), ("--product-rows", ("0",)),
                               ("--product-width", ("0",)), ("--kv-heads", ("5", "-1")), ("--window", ("-1",)),
                               ("--type", ("fp16",)), ("--isa", ("sse",))):
            for value in values:
                self.expect_error("attention", (f"{option}={value}",), f"{option} {value}: must")
        for kind in ("fp32", "bf16"):
            result = self.run_program("attention", "--tokens", "70", "--heads", "4", "--kv-heads", "2",
                                      "--head-size", "24", "--window", "50", "--rounds", "1", "--type", kind, "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual([each["pass"] for each in json.loads(result.stdout)["passes"]], ["forward", "backward"])

    def test_io(self):
        self.expect_error("io", ("--gigabytes=nan",), "--gigabytes: nan is not a finite number")
        for option, values in (("--gigabytes", ("0", "-1", "1000")), ("--depth", ("0", "65")),
                               ("--block-mib", ("0", "0.001", "4.0001", "2048")), ("--rounds", ("0",))):
            for value in values:
                self.expect_error("io", (f"{option}={value}",), option, "must")
        self.expect_error("io", ("--backend", "aio"), "--backend", "io_uring")
        self.expect_error("io", ("--folder", "none", "--gigabytes", "0.001"), "none/io_bench", "No such file")
        result = self.run_program("io", "--gigabytes", "0.01", "--rounds", "1", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        values = json.loads(result.stdout)
        for way in ("read", "write"):
            self.assertGreater(values[way]["mb_per_s"] * values[way]["raw_mb_per_s"], 0)


if __name__ == "__main__":
    unittest.main()
