#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The parts of tools/gpu_check by themselves: commands and their limits, what is kept and continued, verdicts."""

import contextlib
import io
import json
import os
import platform
import time
import unittest
from unittest import mock

from gpu_check_harness import GPU_CHECK, check_of, load
from scratch import InScratchFolder

import gpu_check_kernels
import gpu_check_plan
import gpu_check_report
import gpu_check_samples
import gpu_check_tests
import gpu_check_training
import gpu_check_updates
from gpu_check_stage import CHILD, Failed, OutOfTime, Skipped, Stage, StageOver


def step(policy, loss, whole=None, **more):
    row = {"estimated": 100, "allocated": 100}
    device = {"name": "CUDA 0", "weights": row, "gradients": row, "activations": row | more,
              "all but states": whole or row}
    return {"precision": "fp32", "policy": policy, "state_memory_gb": None, "loss": loss, "device_memory": [device]}


class Keeping(InScratchFolder):
    """What a stage has measured before it is cut short or fails."""

    def test_each_row_is_kept_when_it_comes_and_measured_once(self):
        check, measured = check_of(self.folder), []

        def measure(name):
            measured.append(name)
            if name == "bad" and measured.count("bad") == 1:
                raise Failed("it broke")
            return {"value": name}

        stage = Stage(check, "stage")
        for count, name in enumerate(("first", "bad", "last"), start=1):
            stage.row(name, measure, name)
            self.assertEqual(check.save.call_count, count)
        self.assertEqual(stage.rows, {"first": {"value": "first"}, "bad": {"fault": "it broke"},
                                      "last": {"value": "last"}})
        self.assertEqual(stage.faults(), ["bad: it broke"])
        stage = Stage(check, "stage", rows=stage.rows)
        for name in ("first", "bad", "last"):
            self.assertEqual(stage.row(name, measure, name), {"value": name})
        self.assertEqual(measured, ["first", "bad", "last", "bad"])

    def test_a_stage_without_time_measures_nothing_more(self):
        stage = Stage(check_of(self.folder), "stage", limit=1e-9)
        with self.assertRaises(StageOver):
            stage.row("a", stage.run, "true")
        self.assertEqual(stage.rows, {})

    def run_stages(self, works, minutes=1):
        """A Check after these stages, each in its order, with nothing but rows between them and the next run."""
        module = load()
        with mock.patch.dict(os.environ), mock.patch.dict(module.STAGES, works), \
                contextlib.redirect_stdout(io.StringIO()):
            check = module.Check(mock.Mock(output=self.folder, rehearse=None, again=False, minutes=minutes, pack=None,
                                           resume=None))
            for name in check.order([*works]):
                check.run_stage(name, works[name])
        return check

    def test_what_was_cut_short_goes_on_and_what_failed_goes_last(self):
        def broken(_check, _stage):
            raise Failed("no")

        def cut(_check, stage):
            stage.partial = lambda: {"kept": stage.good_rows()}
            stage.row("a", lambda: {"a": 1})
            raise OutOfTime

        machine = {"cores": 1, "gpus": [], "nvcc": "", "processor": "", "system": ""}
        check = self.run_stages({"machine": lambda *_: machine, "calibrate": broken, "updates": cut,
                                 "losses": cut, "tests": lambda *_: {}})
        stages = json.loads((self.folder / "report.json").read_text(encoding="utf-8"))["stages"]
        self.assertEqual(stages["losses"] | {"seconds": 0}, {"passed": False, "reason": "out of time", "seconds": 0,
                                                             "rows": {"a": {"a": 1}}, "result": {"kept": [{"a": 1}]}})
        names = ["machine", "build", "calibrate", "updates", "losses", "tests"]
        # updates takes what calibrate finds.
        self.assertEqual(check.order(names), ["machine", "build", "losses", "tests", "calibrate", "updates"])
        seen = []

        def again(_check, stage):
            seen.append(stage.row("a", lambda: {"a": 2}))
            return {}

        check = self.run_stages({"losses": again})
        self.assertEqual((seen, check.state["stages"]["losses"]["passed"]), ([{"a": 1}], True))

    def test_what_nobody_foresaw_ends_a_row_or_a_stage_and_no_more(self):
        def surprising(_check, stage):
            stage.row("a", json.loads, "no JSON")
            return stage.rows["b"]

        with mock.patch.object(gpu_check_report, "training_tables", side_effect=ZeroDivisionError("a page")):
            check = self.run_stages({"losses": surprising, "training": lambda *_: {"steps": [1]}, "tests": lambda *_: {}})
        stages = check.state["stages"]
        self.assertIn("JSONDecodeError", stages["losses"]["rows"]["a"]["fault"])
        self.assertEqual(stages["losses"]["reason"], "KeyError: 'b'; see losses.log")
        self.assertIn("Traceback", (self.folder / "losses.log").read_text(encoding="utf-8"))
        self.assertTrue(stages["training"]["passed"] and stages["tests"]["passed"])
        self.assertIn("ZeroDivisionError: a page", (self.folder / "report.md").read_text(encoding="utf-8"))

    def test_limits_are_those_of_the_help(self):
        module = load()
        for name, seconds in module.LIMITS.items():
            self.assertRegex(module.__doc__, rf"(?s)\n  {name} +[^\n]*(\n {{10,}}[^\n]*)*\({seconds}\)")


class TestPrograms(InScratchFolder):
    """Tests by CTest, each with its row."""

    def run_tests(self, tests, rows=None, most_seconds=1):
        listed = [{"name": name, "command": ["sh", "-c", script],
                   "properties": [{"name": "TIMEOUT", "value": 600}, {"name": "SKIP_RETURN_CODE", "value": 77}]}
                  for name, script in tests.items()]
        check = check_of(self.folder)
        stage = Stage(check, "conformance", rows=rows)
        try:
            return gpu_check_tests.run_tests(check, stage, listed, most_seconds, 4), stage.rows
        except Failed as failure:
            return failure, stage.rows

    def test_one_that_hangs_or_fails_hides_no_other(self):
        tests = {"codelets.good": f"echo x >> {self.folder}/good", "codelets.bad": "echo words; exit 1",
                 "codelets.hangs": "sleep 60", "codelets.crashes": "kill -SEGV $$",
                 "codelets.cudnn": "echo '[  SKIPPED ] A'; exit 77"}
        failure, rows = self.run_tests(tests)
        self.assertIn("4 of 5 tests did not pass", str(failure))
        self.assertEqual(failure.result["attention"], "own")
        self.assertEqual({name: row["status"] for name, row in rows.items()},
                         {"codelets.good": "passed", "codelets.bad": "failed", "codelets.hangs": "failed",
                          "codelets.crashes": "failed", "codelets.cudnn": "skipped"})
        self.assertIn("Timeout", rows["codelets.hangs"]["fault"])
        self.assertIn("words", rows["codelets.bad"]["fault"])
        # The next run has only what did not pass.
        result, rows = self.run_tests(dict.fromkeys(tests, "true") | {"codelets.good": tests["codelets.good"]}, rows)
        self.assertEqual(result["passed"], 5)
        self.assertEqual((self.folder / "good").read_text(encoding="utf-8"), "x\n")

    def test_one_that_starts_starpu_goes_before_the_others(self):
        others = {f"codelets.{name}": f"test -e {self.folder}/measured" for name in "abcdefgh"}
        first = {f"codelets.conformance_cuda.All/{name}.T/words and # more": f"sleep 0.3; touch {self.folder}/measured"
                 for name in "xy"}
        result, rows = self.run_tests(others | first, most_seconds=30)
        self.assertEqual((result["passed"], list(rows)[0]), (10, [*first][0]))

    def test_rows_come_while_tests_run(self):
        check = check_of(self.folder, 3)
        stage = Stage(check, "conformance")
        tests = [{"name": name, "command": ["sleep", seconds]} for name, seconds in (("a.fast", "0"), ("a.slow", "60"))]
        with self.assertRaises(OutOfTime):
            gpu_check_tests.run_tests(check, stage, tests, 100, 4)
        self.assertEqual(stage.rows, {"a.fast": {"status": "passed"}})


class Kernels(InScratchFolder):
    """A kernels_cuda with faults of each kind."""

    PROGRAM = """#!/bin/sh
echo "$*" >> {folder}/calls
echo '{{"gpu": "G", "sizes": "gpt2-124m", "sequences": 1, "context": 1, "type": "bf16", "copy_gb_per_s": 1,' \
     '"product_gflop_per_s": 1, "cases": ["a", "b", "c", "d", "e"]}}'
from=a
[ "$8" = --from ] && from=$9
row() {{ echo '{{"kernel": "'$1'", '"$2"'}}'; }}
case $from in
  a) row a '"finite": true'; row b '"fault": "illegal address", "useless": true'; exit 1 ;;
  c) kill -SEGV $$ ;;
  d) {d} ;;
esac
row e '"finite": false'
exit 1
"""

    def measure(self, d, seconds=1):
        program = self.folder / "kernels_cuda"
        program.write_text(self.PROGRAM.format(folder=self.folder, d=d), encoding="utf-8")
        program.chmod(0o755)
        check = check_of(self.folder, **{"program.return_value": program})
        stage = Stage(check, "kernels")
        with mock.patch.object(gpu_check_kernels, "SECONDS_OF_A_MODEL", seconds), \
                mock.patch.object(gpu_check_kernels, "KERNEL_SIZES", (("gpt2-124m", 16, 1024),)), \
                self.assertRaises(Failed) as raised:
            gpu_check_kernels.kernels(check, stage)
        return str(raised.exception), stage.rows["gpt2-124m"]

    def test_each_kernel_has_a_row_whatever_others_do(self):
        failure, run = self.measure("sleep 60", seconds=5)
        self.assertEqual([row["kernel"] for row in run["kernels"]], ["a", "b", "c", "d", "e"])
        faults = {row["kernel"]: row.get("fault", "") for row in run["kernels"]}
        self.assertEqual((faults["a"], faults["b"], faults["e"]), ("", "illegal address", ""))
        self.assertIn("the program ended with it", faults["c"])
        self.assertIn("kernels_cuda took longer than 5 s", faults["d"])
        for text in ("gpt2-124m: b: illegal address", "gpt2-124m: e: its result is not finite"):
            self.assertIn(text, failure)
        calls = (self.folder / "calls").read_text(encoding="utf-8").splitlines()
        self.assertEqual([call.partition("--from ")[2] for call in calls], ["", "c", "d", "e"])

    def test_a_program_that_measures_nothing_is_named(self):
        with mock.patch.object(self, "PROGRAM", "#!/bin/sh\nexit 1\n"):
            failure, run = self.measure("")
        self.assertIn("kernels_cuda measured nothing", failure)
        self.assertEqual([*run], ["fault"])


class Plans(InScratchFolder):
    STEP = {"model": "gpt3-1.3b", "policy": "dos", "precision": "bf16", "batch": 8, "accumulate": 6, "ms_step": 2000,
            "ms_forward": 600, "ms_backward": 1000, "gflop_per_s": 400000, "state_memory_gb": 2.5}

    def test_a_rate_takes_the_place_of_the_calibrated_one(self):
        # 800 TFLOP in 1.6 s.
        self.assertAlmostEqual(gpu_check_plan.gpu_rate(self.STEP), 500)
        file = GPU_CHECK.parents[1] / "perfmodels/machines/h100.toml"
        text = file.read_text(encoding="utf-8")
        changed = gpu_check_plan.with_rate(text, 500)
        self.assertIn('training_rate = { value = 500, unit = "TFLOP/s"', changed)
        self.assertEqual(len(changed.splitlines()), len(text.splitlines()))
        with self.assertRaisesRegex(Failed, "0 training rates"):
            gpu_check_plan.with_rate("", 500)

    def test_a_step_has_all_micro_batches_and_one_update(self):
        stage = mock.Mock()
        stage.run.return_value = json.dumps({
            "forward_s": 0.1, "backward_s": 0.2, "step_s": 0.35,
            "memory": {"gpu": {"items": {"weights": 2e9, "activations": 30e9, "resident states": 9e9}}}})
        predicted = gpu_check_plan.predicted_ms(check_of(self.folder), stage, "h100.toml", self.STEP)
        self.assertAlmostEqual(predicted, 1000 * (6 * 0.3 + 0.05))
        self.assertEqual(stage.run.call_args.args[-1], "train.gpu_memory=34.5")

    def test_the_verdict_names_who_is_off(self):
        rows = [{"policy": policy, "gradients": "bf16", "state_memory_gb": None, "measured_ms": 100, "predicted_ms": ms}
                for policy, ms in (("dos", 104.9), ("twinflow", 94))]
        self.assertEqual(gpu_check_plan.prediction_verdict(rows[:1]),
                         "Planned steps are within 5 % of the measured ones.")
        self.assertEqual(gpu_check_plan.prediction_verdict(rows),
                         "Planned steps are not all within 5 % of the measured ones: twinflow with bf16 gradients "
                         "-6.0 %.")


class Calibration(InScratchFolder):
    def calibrate(self, script):
        program = self.folder / "calibrate"
        program.write_text("#!/bin/sh\n" + script, encoding="utf-8")
        program.chmod(0o755)
        check = check_of(self.folder, **{"program.return_value": program})
        return gpu_check_updates.calibrate(check, Stage(check, "calibrate"))

    def test_noise_is_accepted_and_said(self):
        self.assertEqual(self.calibrate('[ "$4" = --allow-noise ] && echo "h2d = { value = 1, spread = 0.1 }" > "$2"; '
                                        "echo quiet"), {"machine_file": f"{platform.node()}.toml", "output": "quiet\n",
                                                        "noise": []})
        noisy = self.calibrate('echo "d2h = { value = 1, spread = 0.137, source = \'x\' }" > "$2"; '
                               'echo "# while others had 65 % of the processors\' time" >> "$2"')
        self.assertEqual(noisy["noise"], ["d2h: spread 13.7 %", "others had 65 % of the processors' time"])
        with self.assertRaisesRegex(Failed, "ended with status 3"):
            self.calibrate("exit 3")


class Watching(InScratchFolder):
    def test_samples_are_taken_until_the_stage_ends(self):
        line = "2026/11/27 01:30:00.123, 1980, 3201, 450.10, 55, {}, 100, 0x0000000000000000"
        self.program = self.folder / "nvidia-smi"
        self.program.write_text("#!/bin/sh\n" + "".join(f"echo '{line.format(mib)}'\n" for mib in (1000, 9000, "[N/A]"))
                                + "echo $$ > pid\nexec sleep 60\n", encoding="utf-8")
        self.program.chmod(0o755)
        file = self.folder / "mfu_gpu.csv"
        file.write_text(line.format(99999) + "\n", encoding="utf-8")
        start = file.stat().st_size
        path = f"{self.folder}{os.pathsep}{os.environ['PATH']}"
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        with mock.patch.dict(os.environ, PATH=path), gpu_check_samples.sampled(file, CHILD):
            end = time.monotonic() + 20
            while not (self.folder / "pid").exists() or not (self.folder / "pid").read_text(encoding="utf-8"):
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
        self.assertAlmostEqual(gpu_check_samples.most_memory(file, start), 9000 * 2**20 / 1e9)
        pid = int((self.folder / "pid").read_text(encoding="utf-8"))
        with self.assertRaises(ProcessLookupError):
            # Whoever adopts it takes a moment.
            while time.monotonic() < end:
                os.kill(pid, 0)
                time.sleep(0.01)
        self.assertIsNone(gpu_check_samples.most_memory(self.folder / "none", 0))

    def test_memory_that_grows_is_used_once(self):
        said = [{"host": {"needed": 5, "available": 3}, "devices": []},
                {"host": {"needed": 5, "available": 6}, "devices": []}]
        with mock.patch.object(gpu_check_training, "train_step", side_effect=said):
            stage = Stage(check_of(self.folder), "mfu")
            gpu_check_training.expect_room(stage.check, stage)
        self.assertIn("268435456 bytes were taken", stage.log.read_text(encoding="utf-8"))
        with mock.patch.object(gpu_check_training, "train_step", side_effect=said[:1] * 2), \
                self.assertRaisesRegex(Skipped, "host: 0.0 GB"):
            gpu_check_training.expect_room(stage.check, stage)

    def test_a_plan_that_fails_leaves_what_was_measured(self):
        with mock.patch.object(gpu_check_training, "predictions", side_effect=Failed("no rate")):
            self.assertEqual(gpu_check_training.with_predictions(None, None, {"steps": [1]}, []),
                             {"steps": [1], "predictions": [], "without_predictions": "no rate"})


class Verdicts(unittest.TestCase):
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
        faults = gpu_check_tests.sanitizer_faults
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
        with self.assertRaisesRegex(Failed, "test_codelets_conformance_cuda, test_codelets_update_cuda"):
            gpu_check_tests.gpu_programs(mock.Mock(build="/build"), stage, "test_")

    def test_losses_are_compared_exactly(self):
        stage = mock.Mock(rows={"dos": {"losses": [2.0, 1.5], "updated_on_gpus": 0.5},
                                "zero-offload": {"losses": [2.0, 1.5]}})
        self.assertEqual(gpu_check_training.compared_losses(stage), {"steps": 2, "updated_on_gpus": 0.5, "last": 1.5})
        stage.rows["zero-offload"]["losses"][1] = 1.50000012
        with self.assertRaisesRegex(Failed, "^step 2: the loss is 1.5 under dos and 1.50000012 under zero-offload$"):
            gpu_check_training.compared_losses(stage)

    def test_updates_are_judged_by_the_bound(self):
        rows = [{"policy": policy, "state_memory_gb": memory, "fraction_of_bound": fraction}
                for policy, memory, fraction in (("dos", 2.5, 0.9), ("dos", None, 0.89), ("twinflow", None, 0.1))]
        verdicts = gpu_check_updates.update_verdicts({"goal": 0.9, "rows": rows})
        self.assertEqual(verdicts, ["dos with 2.5 GB for states: 90.0 % of the bound: the goal of 90 % is reached",
                                    "dos with all GB for states: 89.0 % of the bound: the goal of 90 % is missed"])


if __name__ == "__main__":
    unittest.main()
