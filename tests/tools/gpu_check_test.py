#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/gpu_check on a machine without a GPU: every stage of a rehearsal, and what it must not let pass.

gpu_check_test.py BUILD [unittest's arguments]"""

import contextlib
import io
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

from gpu_check_harness import GPU_CHECK, load
from scratch import InScratchFolder

import gpu_check_training  # of tools/, where the harness looks

BUILD = Path(sys.argv.pop(1))


class Rehearsal(InScratchFolder):
    def setUp(self):
        super().setUp()
        self.output = self.folder / "results"

    def rehearse(self, *arguments):
        # It ends itself when it takes too long, and says in which stage: busy machines need minutes.
        return subprocess.run([GPU_CHECK, "--rehearse", BUILD, "--output", self.output, "--minutes", "15", *arguments],
                              capture_output=True, text=True, check=False)

    def account(self, result):
        """What it said, and the end of each stage's log: a failure must explain itself."""
        logs = "".join(f"--- {log.name}\n{log.read_text(encoding='utf-8', errors='replace')[-2000:]}\n"
                       for log in sorted(self.output.glob("*.log")))
        return result.stdout + result.stderr + logs

    def report(self):
        return json.loads((self.output / "report.json").read_text(encoding="utf-8"))

    def test_every_stage_and_the_report(self):
        result = self.rehearse()
        self.assertEqual(result.returncode, 0, self.account(result))
        stages = self.report()["stages"]
        self.assertEqual(list(stages), list(load().STAGES))
        self.assertTrue(all(entry["passed"] for entry in stages.values()), stages)
        kernels = {"test_codelets_kernels_cuda", "test_codelets_update_cuda", "test_codelets_conformance_cuda"}
        self.assertEqual(set(stages["memory"]["result"]["programs"]), kernels | {"test_models_gpt2_cuda"})
        self.assertEqual(set(stages["races"]["result"]["programs"]), kernels)
        for stage, tool in (("memory", "memcheck"), ("races", "racecheck")):
            log = (self.output / f"{stage}.log").read_text(encoding="utf-8")
            for program in kernels:
                self.assertRegex(log, f"\\$ compute-sanitizer --tool {tool} .*/{program}\n")
        page = (self.output / "report.md").read_text(encoding="utf-8")
        for text in ("NVIDIA H100 Rehearsal, 81920 MiB, driver 999.99", "gpt2-124m, 16 x 1024 tokens: copy",
                     "gpt3-1.3b, 8 x 2048 tokens: copy", "7b, 4 x 2048 tokens: copy", "| gelu_forward |",
                     "| attention_forward |", "dos with 2.5 GB for states: 91.0 % of the bound",
                     "| dos-stride | fp32 | 2.5 | rehearsed | 2000 |", "| dos | bf16 | 2.5 | rehearsed | 1800 |",
                     "### Steps as planned", "Losses of 5 steps are the same",
                     "cpu.update_rate", "| bf16 | gpu-only | 0.5 |", "gpt3-1.3b, bf16, 98304 tokens",
                     "46.5 % of the data sheet's 989 TFLOP/s under dos: the goal of 50 % is missed",
                     "| bf16 | CUDA 0 | all but states | 35694.0 | 35900.0 | +0.6 % |",
                     "A step under dos is 1.61 times as fast as DeepSpeed's fastest (zero2)"):
            self.assertIn(text, page)
        self.assertEqual(len(stages["training"]["result"]["steps"]), 12)
        self.assertEqual(len(stages["updates"]["result"]["rows"]), 10)
        self.assertEqual(list(stages["updates"]["rows"])[:3], ["dos, 2.5 GB", "dos, all GB", "dos-stride, 2.5 GB"])
        self.assertIn("Data transfer stats", (self.output / "training.log").read_text(encoding="utf-8"))
        self.assertEqual([len(stages[name]["result"]["predictions"]) for name in ("mfu", "policies")], [2, 5])
        self.assertGreater(len(stages["conformance"]["rows"]), 3)
        self.assertEqual({name.split(".")[0] for name in stages["tests"]["rows"]}, {"apps", "models"})
        again = self.rehearse()
        self.assertEqual(again.stdout.count("passed before"), len(stages) - 1, self.account(again))
        self.assertEqual(self.rehearse("--stages", "machine", "--again").stdout.count("passed before"), 0)

    def test_another_machine_goes_on(self):
        packed, measured = self.folder / "packed", "machine,build,kernels,calibrate,updates"
        with mock.patch.dict(os.environ, STARPU_HOME=str(self.folder / "starpu")):
            # Of a name that StarPU does not write itself here.
            file = self.folder / "starpu/.starpu/sampling/codelets/an_update"
            file.parent.mkdir(parents=True)
            file.write_text("measured", encoding="utf-8")
            first = self.rehearse("--stages", measured, "--pack", packed)
        self.assertEqual(first.returncode, 0, self.account(first))
        self.output = self.folder / "elsewhere"
        with mock.patch.dict(os.environ, STARPU_HOME=str(self.folder / "other")):
            go_on = ["--resume", packed / "gpu_check.tar.gz"]
            second = self.rehearse("--stages", measured + ",mfu", *go_on)
            self.assertEqual(second.returncode, 0, self.account(second))
            self.assertEqual(second.stdout.count("passed before"), 4)
            again = self.rehearse("--stages", "machine,mfu", *go_on)
        self.assertIn("is left as it is\n", again.stdout)
        self.assertIn("mfu: passed before", again.stdout)
        moved = self.folder / "other/.starpu/sampling/codelets/an_update"
        self.assertEqual(moved.read_text(encoding="utf-8"), "measured")

    def test_a_stage_that_fails(self):
        self.rehearse("--stages", "machine")
        for name in ("kernels_cuda", "compute-sanitizer"):
            (self.output / "stand_ins" / name).unlink()
        result = self.rehearse("--stages", "nonsense")
        self.assertEqual(result.returncode, 2)
        # stand_ins are written anew, so a stage is made to fail by its time.
        result = self.rehearse("--stages", "training", "--minutes", "0.0001")
        self.assertEqual(result.returncode, 75, self.account(result))
        self.assertFalse(self.report()["stages"].get("training", {}).get("passed", False))

    def test_a_folder_that_is_not_built(self):
        result = subprocess.run([GPU_CHECK, "--rehearse", self.output, "--output", self.output], capture_output=True,
                                text=True, check=False)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("build it first", result.stderr)


class WholeSteps(InScratchFolder):
    """The stage mfu with the stand-in of train_step, which each test may change."""

    def run_stage(self, old="", new="", gpu=None):
        """Whether it did not fail, its entry and the page."""
        module = load()
        options = mock.Mock(output=self.folder, rehearse=BUILD, again=True, minutes=4, pack=None, resume=None)
        check = module.Check(options)
        if gpu:
            check.state["stages"]["machine"] = {"passed": False, "reason": "", "seconds": 0, "result": {"gpus": [
                {"name": gpu, "memory.total": "1 MiB", "driver_version": "1"}]}}
        stand_in = self.folder / "stand_ins" / "train_step"
        text = stand_in.read_text(encoding="utf-8")
        self.assertIn(old, text)
        stand_in.write_text(text.replace(old, new), encoding="utf-8")
        with contextlib.redirect_stdout(io.StringIO()) as said:
            if not gpu:
                check.run_stage("kernels", module.STAGES["kernels"])
            done = check.run_stage("mfu", module.whole_steps)
        page = (self.folder / "report.md").read_text(encoding="utf-8")
        entry = check.state["stages"]["mfu"]
        self.assertIn(entry.get("reason") or entry.get("skipped") or "passed", said.getvalue())
        return done, entry, page

    def test_parts_of_what_the_gpu_can_do(self):
        done, entry, page = self.run_stage("gflop=460000", "gflop=519225")
        self.assertTrue(done and entry["passed"], entry)
        dos, zero_offload = entry["result"]["steps"]
        self.assertAlmostEqual(dos["mfu"], 0.525)
        self.assertAlmostEqual(dos["of_product"], 0.74175)
        self.assertAlmostEqual(zero_offload["mfu"], 350 / 989)
        self.assertEqual((dos["state_memory_gb"], zero_offload["state_memory_gb"]), (2.5, None))
        self.assertIn("52.5 % of the data sheet's 989 TFLOP/s under dos: the goal of 50 % is reached", page)

    def test_a_gpu_without_a_known_peak(self):
        done, entry, page = self.run_stage(gpu="NVIDIA L40S")
        self.assertTrue(done and entry["passed"], entry)
        self.assertEqual([(step["mfu"], step["of_product"]) for step in entry["result"]["steps"]], [(None, None)] * 2)
        self.assertIn("on NVIDIA L40S: no data sheet's peak is known of NVIDIA L40S: no MFU", page)

    def test_too_little_memory_is_a_reason_to_skip(self):
        for old, new, reason in (
                ('"available": 76500000000', '"available": 21500000000',
                 "CUDA 0: 39.3 GB of memory are needed, 21.5 GB are available"),
                ('"available": 120000000000', '"available": 30000000000',
                 "host: 51.5 GB of memory are needed, 30.0 GB are available")):
            done, entry, page = self.run_stage(old, new)
            self.assertEqual((done, entry["passed"], entry.get("skipped")), (True, False, reason))
            self.assertIn(f"| mfu | skipped: {reason} |", page)
            self.assertNotIn("--json\n", (self.folder / "mfu.log").read_text(encoding="utf-8"))

    def test_what_the_real_program_needs(self):
        options = [*gpu_check_training.WHOLE_MODEL[:-1], "0", "--precision", "bf16", "--dry-run"]
        result = subprocess.run([BUILD / "bench/train_step", *options], capture_output=True, check=True)
        needs = json.loads(result.stdout)
        # FP32 p, m, v and gradients, BF16 w.
        self.assertGreater(needs["host"]["needed"], (4 * 4 + 2) * 1_315_723_264)
        needs["host"]["available"] = needs["host"]["needed"]
        self.assertEqual(gpu_check_training.shortage(needs), "")
        needs["host"]["available"] -= 1
        self.assertIn("host: ", gpu_check_training.shortage(needs))

    def test_memory_that_was_not_estimated_fails(self):
        done, entry, page = self.run_stage("all=35900000000", "all=37600000000")
        self.assertEqual((done, entry["passed"]), (False, False))
        self.assertIn("CUDA 0, all but states, as CUDA says: 37600.0 MB, 35694.0 MB were estimated", entry["reason"])
        self.assertIn("| bf16 | CUDA 0 | all but states | 35694.0 | 37600.0 | +5.3 % |", page)
        self.assertIn("46.5 % of the data sheet's", page)

    def test_a_policy_without_a_plan_fails(self):
        _, entry, _ = self.run_stage('"obstacle": ""', '"obstacle": "no rate"')
        self.assertIn("dos has no plan: no rate", entry["reason"])


if __name__ == "__main__":
    unittest.main()
