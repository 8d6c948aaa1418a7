#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tools/check_machine with programs that answer as a machine would where something is wrong. install.prefix runs it
with the real ones."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

from scratch import InScratchFolder

CHECK = Path(__file__).resolve().parents[2] / "tools" / "check_machine"
# What each program does besides ending well.
TRAIN = """#!/bin/sh
case "$*" in *--print-topology*) echo 'rank 0 of 1 on vm: cores 0-1{gpu}'; exit ;; esac
while [ $# -gt 1 ]; do [ "$1" != --out ] || out=$2; shift; done
mkdir -p "$out"
loss=5.0
case $STARPU_SCHED,$out in {odd}) loss={loss} ;; esac
echo "{{\\"step\\":4,\\"loss\\":$loss,\\"busy_cpu\\":1{busy}}}" >"$out/metrics.jsonl"
"""
GOOD = "#!/bin/sh\necho 'to be or not'\n"


class CheckMachine(InScratchFolder):
    def setUp(self):
        super().setUp()
        (self.folder / "apps").mkdir()
        for name in ("prepare_data", "checkpoints", "generate"):
            self.write(name, GOOD)
        self.train()

    def write(self, name, text):
        path = self.folder / "apps" / name
        path.write_text(text)
        path.chmod(0o755)

    def train(self, gpu="", odd="none", loss="5.0", busy=""):
        self.write("train_gpt", TRAIN.format(gpu=gpu, odd=odd, loss=loss, busy=busy))

    def check(self, *arguments, status=0):
        result = subprocess.run([sys.executable, CHECK, *arguments], cwd=self.folder, capture_output=True, text=True, check=False,
                                timeout=60, env=os.environ | {"DOS_BUILD": str(self.folder), "TMPDIR": str(self.folder)})
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def expect_failure(self, stage, *parts):
        result = self.check(status=1)
        self.assertIn(f"{stage:<11} failed\n", result.stdout)
        self.assertTrue(result.stderr.startswith(f"check_machine: error: {stage}: "), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_a_good_machine(self):
        self.train(odd="twinflow,bf16-*", loss="5.01")  # within what BF16 rounds
        told = self.check().stdout.splitlines()
        self.assertEqual([line.split(" passed: ")[0].strip() for line in told], ["topology", "policies", "checkpoint", "text"])
        self.assertEqual([path.name for path in self.folder.iterdir()], ["apps"])
        self.check("--output", "kept")
        self.assertTrue((self.folder / "kept/fp32-dos/metrics.jsonl").exists())

    def test_a_policy_that_computes_something_else(self):
        self.train(odd="twinflow,fp32-*", loss="5.01")
        self.expect_failure("policies", "fp32: the loss under twinflow is 5.01, under dos 5.0")
        self.train(odd="gpu-only,bf16-*", loss="null")
        self.expect_failure("policies", "bf16: the loss under gpu-only is no number")

    def test_a_gpu_that_does_nothing(self):
        self.train(gpu=", GPU 0000:17:00.0")
        self.expect_failure("policies", "no GPU took part")
        self.train(gpu=", GPU 0000:17:00.0", busy=',\\"busy_cuda0\\":1')
        self.check()

    def test_programs_that_fail(self):
        self.write("checkpoints", "#!/bin/sh\necho 'checkpoints: error: a is damaged' >&2\nexit 1\n")
        self.expect_failure("checkpoint", "checkpoints: error: a is damaged")
        self.write("checkpoints", GOOD)
        self.write("generate", "#!/bin/sh\nkill -9 $$\n")
        self.expect_failure("text", "generate ended with status -9")
        (self.folder / "apps/train_gpt").unlink()
        self.expect_failure("topology", "apps/train_gpt: No such file or directory: build it, or install it again")

    def test_a_folder_that_cannot_be_made(self):
        for output in ("apps", "none/kept/", "apps/generate/kept"):
            with self.subTest(output):
                if output.startswith("none"):
                    (self.folder / "none").write_text("")
                result = self.check("--output", output, status=1)
                self.assertTrue(result.stderr.startswith("check_machine: error: --output "), result.stderr)
                self.assertIn("name a new folder", result.stderr)
                self.assertEqual(result.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
