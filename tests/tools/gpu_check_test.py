#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/gpu_check on a machine without a GPU: every stage of a rehearsal, and what it must not let pass.

gpu_check_test.py BUILD [unittest's arguments]"""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import unittest
from pathlib import Path
from unittest import mock

from scratch import InScratchFolder

GPU_CHECK = Path(__file__).resolve().parents[2] / "tools" / "gpu_check"
BUILD = Path(sys.argv.pop(1))
sys.path.insert(0, str(GPU_CHECK.parent))
import gpu_check_report  # noqa: E402
import gpu_check_stage  # noqa: E402
import gpu_check_training  # noqa: E402
import sources  # noqa: E402


def load():
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(GPU_CHECK))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


def step(policy, loss, whole=None, **more):
    row = {"estimated": 100, "allocated": 100}
    device = {"name": "CUDA 0", "weights": row, "gradients": row, "activations": row | more,
              "all but states": whole or row}
    return {"precision": "fp32", "policy": policy, "state_memory_gb": None, "loss": loss, "device_memory": [device]}


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
                     "gpt3-1.3b, 8 x 2048 tokens: copy", "7b, 4 x 2048 tokens: copy", "| gelu_forward |", "| attention_forward |",
                     "cpu.update_rate", "| bf16 | gpu-only | 0.5 |", "gpt3-1.3b, bf16, 98304 tokens",
                     "46.5 % of the data sheet's 989 TFLOP/s under dos: the goal of 50 % is missed",
                     "| bf16 | CUDA 0 | all but states | 35694.0 | 35900.0 | +0.6 % |"):
            self.assertIn(text, page)
        self.assertEqual(len(stages["training"]["result"]["steps"]), 12)
        self.assertEqual(len(stages["updates"]["result"]["rows"]), 10)
        again = self.rehearse()
        self.assertEqual(again.stdout.count("passed before"), len(stages) - 1, self.account(again))
        self.assertEqual(self.rehearse("--stages", "machine", "--again").stdout.count("passed before"), 0)

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


class Commands(InScratchFolder):
    SLEEPS = "sleep 60 & echo $! > {}; wait"

    def expect_gone(self, number):
        state = Path("/proc") / number.read_text(encoding="utf-8").strip() / "stat"
        for _ in range(100):
            try:
                # Gone, or dead and not yet collected.
                if state.read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] == "Z":
                    return
            except (FileNotFoundError, ProcessLookupError):
                return
            time.sleep(0.1)
        self.fail("the command's child still runs")

    def test_out_of_time_ends_what_a_command_has_started(self):
        module = load()
        stage = module.Stage(mock.Mock(output=self.folder, **{"seconds_left.return_value": 2}), "slow")
        number = self.folder / "number"
        with self.assertRaises(subprocess.TimeoutExpired):
            stage.run("sh", "-c", "echo begun; " + self.SLEEPS.format(number))
        self.expect_gone(number)
        self.assertIn("begun", (self.folder / "slow.log").read_text(encoding="utf-8"))

    def test_what_a_command_has_started_ends_with_gpu_check(self):
        for by in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            number = self.folder / f"number{by}"
            # nvidia-smi is the first that it runs.
            stand_in = self.folder / f"bin{by}" / "nvidia-smi"
            stand_in.parent.mkdir()
            stand_in.write_text("#!/bin/sh\n" + self.SLEEPS.format(number), encoding="utf-8")
            stand_in.chmod(0o755)
            path = os.pathsep.join([str(stand_in.parent), os.environ["PATH"]])
            with subprocess.Popen([GPU_CHECK, "--output", self.folder / "results"], env=os.environ | {"PATH": path},
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                for _ in range(300):
                    if number.exists() and number.read_text(encoding="utf-8").strip():
                        break
                    time.sleep(0.1)
                process.send_signal(by)
            self.assertNotEqual(process.returncode, 0)
            self.expect_gone(number)

    def test_memory_that_cuda_does_not_pin_fails(self):
        source = (GPU_CHECK.parents[1] / "src/rt/host_buffer.cpp").read_text(encoding="utf-8")
        self.assertIn(f'"{gpu_check_stage.REFUSED_PINNING} ', source)
        module = load()
        stage = module.Stage(mock.Mock(output=self.folder, **{"seconds_left.return_value": 100}), "pinning")
        self.assertEqual(stage.run("echo", "all is pinned"), "all is pinned\n")
        with self.assertRaisesRegex(module.Failed, "ulimit -l"):
            stage.run("sh", "-c", "echo warning: CUDA refuses to pin 1 GB of host memory >&2; echo figures")
        self.assertEqual(stage.run("echo", "the next one"), "the next one\n")

    def test_a_program_that_is_not_there_is_named(self):
        module = load()
        stage = module.Stage(mock.Mock(output=self.folder, **{"seconds_left.return_value": 9}), "none")
        with self.assertRaisesRegex(module.Failed, "^no-such-program is not on this machine$"):
            stage.run("no-such-program", "--version")


class Builds(InScratchFolder):
    def test_a_starpu_without_cuda_is_found_before_anything_is_compiled(self):
        (self.folder / "CMakeCache.txt").write_text("DOS_STARPU_HAS_CUDA:INTERNAL=\n", encoding="utf-8")
        module, stage = load(), mock.Mock()
        with self.assertRaisesRegex(module.Failed, "without CUDA"):
            module.build(mock.Mock(rehearses=False, build=self.folder, manifest=None), stage)
        self.assertEqual(stage.run.call_count, 1)


class Machines(InScratchFolder):
    def run_on(self, gpu):
        """Which GPU the build was for after a run on this one, and how many passed before."""
        module = load()
        check = module.Check(mock.Mock(output=self.folder, rehearse=None, again=False, minutes=1, pack=None))
        with contextlib.redirect_stdout(io.StringIO()) as said:
            gpus = [{"name": gpu, "memory.total": "1 MiB", "driver_version": "1"}]
            check.run_stage("machine", lambda *_: {"gpus": gpus, "nvcc": "", "processor": "", "cores": 1, "system": ""})
            check.run_stage("build", lambda *_: {"mpi": False, "gpu": gpu})
        return check.state["stages"]["build"]["result"]["gpu"], said.getvalue().count("passed before")

    def test_results_of_another_gpu_are_not_continued(self):
        self.assertEqual(self.run_on("A100"), ("A100", 0))
        self.assertEqual(self.run_on("A100"), ("A100", 1))
        self.assertEqual(self.run_on("H100"), ("H100", 0))


class Sources(InScratchFolder):
    def test_each_change_of_a_source_is_known_and_no_other(self):
        checksum = sources.checksum
        kernel, result = self.folder / "codelets" / "kernel.cu", self.folder / "build" / "result"
        for file in (kernel, result, self.folder / "src" / "__pycache__" / "cached"):
            file.parent.mkdir(parents=True)
            file.write_text("a\n", encoding="utf-8")
        (self.folder / "CMakeLists.txt").write_text("a\n", encoding="utf-8")
        before, seen = checksum(self.folder), set()
        for text in ("a\n", "b\n", "c\n"):
            kernel.write_text(text, encoding="utf-8")
            seen.add(checksum(self.folder))
        kernel.rename(kernel.with_name("other.cu"))
        seen.add(checksum(self.folder))
        self.assertEqual(len(seen), 4, seen)
        self.assertIn(before, seen)
        kernel.with_name("other.cu").rename(kernel)
        kernel.write_text("a\n", encoding="utf-8")
        result.write_text("b\n", encoding="utf-8")
        self.assertEqual(checksum(self.folder), before)


class Packing(InScratchFolder):
    def test_all_results_and_of_long_ones_both_ends(self):
        results = self.folder / "results"
        results.mkdir()
        (results / "report.md").write_text("page", encoding="utf-8")
        (results / "build.log").write_bytes(b"first" + b"." * (3 << 20) + b"last")
        for _ in range(2):
            gpu_check_report.pack(results, self.folder / "out" / "deep")
        packed = self.folder / "out" / "deep" / "gpu_check.tar.gz"
        self.assertEqual([file.name for file in packed.parent.iterdir()], [packed.name])
        with tarfile.open(packed) as archive:
            log = archive.extractfile("gpu_check/build.log").read()
            self.assertEqual(archive.extractfile("gpu_check/report.md").read(), b"page")
        self.assertTrue(log.startswith(b"first") and log.endswith(b"last") and b"[...]" in log)
        self.assertLess(len(log), (1 << 20) + 16)


class Calibration(InScratchFolder):
    def calibrate(self, script):
        program = self.folder / "calibrate"
        program.write_text("#!/bin/sh\n" + script, encoding="utf-8")
        program.chmod(0o755)
        module = load()
        check = mock.Mock(output=self.folder, **{"program.return_value": program, "seconds_left.return_value": 60})
        return module.calibrate(check, module.Stage(check, "calibrate"))

    def test_noise_is_accepted_the_second_time_and_said(self):
        self.assertFalse(self.calibrate("echo quiet")["noise_accepted"])
        noisy = self.calibrate('[ "$4" = --allow-noise ] && echo noisy')
        self.assertEqual((noisy["output"], noisy["noise_accepted"]), ("noisy\n", True))
        with self.assertRaisesRegex(gpu_check_stage.Failed, "ended with status 3"):
            self.calibrate("exit 3")


class WholeSteps(InScratchFolder):
    """The stage mfu with the stand-in of train_step, which each test may change."""

    def run_stage(self, old="", new="", gpu=None):
        """Whether it did not fail, its entry and the page."""
        module = load()
        options = mock.Mock(output=self.folder, rehearse=BUILD, again=True, minutes=4, pack=None)
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
                check.run_stage("kernels", module.kernels)
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


class Verdicts(unittest.TestCase):
    def setUp(self):
        self.module = load()

    def test_policies_must_have_one_loss(self):
        steps = [step("dos", 4.0), step("gpu-only", 4.0 * (1 + 6e-4))]
        self.assertEqual(gpu_check_training.loss_faults(steps), [])
        steps.append(step("twinflow", 4.0 * (1 + 8e-4)))
        self.assertEqual(len(gpu_check_training.loss_faults(steps)), 1)
        self.assertIn("twinflow", gpu_check_training.loss_faults(steps)[0])

    def test_memory_must_be_as_estimated(self):
        self.assertEqual(gpu_check_training.memory_faults([step("zero-offload", 4.0, allocated=114)]), [])
        self.assertEqual(gpu_check_training.memory_faults([step("dos", 4.0, allocated=200)]), [])
        faults = gpu_check_training.memory_faults([step("zero-offload", 4.0, allocated=116)])
        self.assertEqual(len(faults), 1)
        self.assertIn("CUDA 0", faults[0])
        nothing = step("zero-offload", 4.0) | {"device_memory": []}
        self.assertIn("no GPU", gpu_check_training.memory_faults([nothing])[0])

    def test_what_cuda_says_of_a_large_model_must_be_as_estimated_too(self):
        for estimated, allocated, faults in ((20e9, 20.9e9, 0), (20e9, 21.1e9, 1), (20e9, 18.9e9, 1), (1e9, 1.3e9, 0)):
            whole = {"estimated": estimated, "allocated": allocated}
            found = gpu_check_training.memory_faults([step("zero-offload", 4.0, whole=whole)])
            self.assertEqual(len(found), faults, found)

    def test_peaks_are_of_the_forms_in_the_table(self):
        for name, peak in (("NVIDIA A100-SXM4-80GB", 312e3), ("NVIDIA A100 80GB PCIe", 312e3), ("NVIDIA H200", 989e3),
                           ("NVIDIA H100 80GB HBM3", 989e3), ("NVIDIA H100 PCIe", None), ("NVIDIA H200 NVL", None),
                           ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None), ("NVIDIA GH200 480GB", None), (None, None)):
            self.assertEqual(gpu_check_training.peak_gflop_per_s(name), peak, name)

    def test_a_sanitizer_must_have_seen_tests_and_no_fault(self):
        memcheck = "========= COMPUTE-SANITIZER\n[  PASSED  ] 3 tests.\n========= ERROR SUMMARY: {} errors\n"
        racecheck = "========= RACECHECK SUMMARY: {0} hazards displayed (0 errors, {0} warnings)\n"
        skipped = "[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] UpdateCuda.CodeletsConform\n"
        faults = self.module.sanitizer_faults
        self.assertEqual(faults(memcheck.format(0), rehearses=False), [])
        self.assertEqual(faults(racecheck.format(0), rehearses=False), [])
        self.assertEqual(faults(memcheck.format(12), rehearses=False), ["ERROR SUMMARY: 12 errors"])
        self.assertEqual(faults(racecheck.format(1), rehearses=False),
                         ["RACECHECK SUMMARY: 1 hazards displayed (0 errors, 1 warnings)"])
        self.assertEqual(faults(skipped + memcheck.format(0), rehearses=False), ["tests were skipped"])
        self.assertEqual(faults(skipped + memcheck.format(0), rehearses=True), [])
        self.assertEqual(faults("[  PASSED  ] 3 tests.\n", rehearses=False), ["compute-sanitizer gave no summary"])

    def test_a_kernel_program_that_is_not_there_fails_the_stage(self):
        words = ["env", "STARPU_SILENT=1", "/build/test_codelets_kernels_cuda"]
        stage = mock.Mock()
        stage.run.return_value = json.dumps({"tests": [{"command": words}, {"name": "without a command"}]})
        with self.assertRaisesRegex(self.module.Failed, "test_codelets_conformance_cuda, test_codelets_update_cuda"):
            self.module.gpu_programs(mock.Mock(build="/build"), stage, "test_")


if __name__ == "__main__":
    unittest.main()
