#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""calibrate measures the CPU of this machine; plan reads what it writes; what is noisy, foreign or
damaged is refused with one line and replaces nothing."""

import os
import re
import shutil
import unittest

from calibration import HOST, QUICK, SIZE, CalibrationTest
from harness import program

MODEL = ".starpu/sampling/codelets/*/dos.update.adamw.f32.f32.v1"


class Calibrate(CalibrationTest):
    def test_a_machine_without_gpu(self):
        for key in ("cpu.update_rate", "cpu.worker_rate", "dram.bandwidth", "node.training_rate",
                    "node.training_rate_fp32", "node.task_latency"):
            self.assertRegex(self.output, rf"\n{key} +[\d.e+-]+ \S+ +[\d.]+ % +3 ")
        self.assertIn("no GPU was measured", self.output)
        self.assertIn("leaves every update on the CPU", self.output)
        self.assertIn("history models of dos.update.adamw.f32.f32.v1 for subgroups of 1000, 2000",
                      self.output)
        models = list(self.shared.glob(MODEL))
        self.assertEqual(len(models), 1)
        # A line a size: footprint, bytes, ..., number of measurements.
        runs = [int(line.split()[-1]) for line in models[0].read_text().splitlines()
                if re.match(r"[0-9a-f]{8}\b", line)]
        self.assertEqual(len(runs), 2, models[0].read_text())
        # Of 32; StarPU drops those that a loaded machine delays.
        self.assertGreaterEqual(min(runs), 1)

    def test_plan_takes_it_as_this_machine(self):
        self.file.write_text(self.cpu)
        for machine in ("this", self.file):
            result = self.plan(machine)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn('"share":0', result.stdout.replace(" ", "").replace("0.0", "0"))

    def test_another_run_says_what_changed(self):
        self.file.write_text(re.sub(r"((?:update|worker)_rate = \{ value = )[\d.]+", r"\g<1>0.00001",
                                    self.cpu))
        result = self.calibrate()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("changed since the calibration of 2", result.stdout)
        self.assertRegex(result.stdout, r"\n  cpu.update_rate     1e-05 Gparam/s -> ")
        self.assertNotIn("0.00001", self.file.read_text())
        self.assertEqual([p.name for p in self.folder.iterdir()], [self.file.name])

    def test_files_that_are_not_its_own(self):
        other = re.sub(r'host = ".*"', 'host = "elsewhere"', self.cpu)
        by_hand = re.sub(r"\[calibration\][^\[]*", "", self.cpu)
        for text, message in ((other, "was calibrated on 'elsewhere'"),
                              (by_hand, "was not written by calibrate"),
                              ("format = 9\n", "format 9 belongs to another version"),
                              ("format =\n", "toml:1: ")):
            with self.subTest(message):
                self.file.write_text(text)
                self.expect_error(self.calibrate(), message, "--force", name="calibrate")
                self.assertEqual(self.file.read_text(), text)
        self.assertEqual(self.calibrate("--force").returncode, 0)
        self.assertIn(f'host = "{HOST}"', self.file.read_text())

    def test_noise_is_refused(self):
        # No three readings of a clock are equal.
        result = program("calibrate", "--quick", "--max-spread", "0", "--output", self.file, *SIZE,
                         cwd=self.folder, env=self.environment)
        self.expect_refused(result, "too noisy to be used: ", "cpu.update_rate = ",
                            "at most 0 % is allowed", "likely reasons: ", "--allow-noise",
                            "nothing was written")
        self.assertIn("cpu.update_rate", result.stdout)

    def test_a_file_of_another_machine_is_stale(self):
        cases = ((r'host = ".*"', 'host = "elsewhere"', "calibrated on host 'elsewhere', this is"),
                 (r"cores = \d+", "cores = 4096", "calibrated with 4096 cores, this process may use"),
                 (r"nvidia_gpus = \d+", "nvidia_gpus = 77", "calibrated with 77 NVIDIA GPUs"))
        for old, new, message in cases:
            with self.subTest(message):
                self.file.write_text(re.sub(old, new, self.cpu))
                self.expect_error(self.plan(), f"{self.file}: ", message, "run calibrate again",
                                  name="plan")
                self.assertEqual(self.plan(self.file).returncode, 0)

    def test_damaged_files(self):
        cases = ((r"(update_rate = \{ value = )[\d.]+", r"\g<1>-1", "cpu.update_rate = -1 must be"),
                 (r"(bandwidth = \{ value = )[\d.]+", r"\g<1>0", "dram.bandwidth = 0 must be above"),
                 (r"(bandwidth = \{ value = )[\d.]+", r"\g<1>0.0001", "one of them is wrong"),
                 ("GB/s", "Gb/s", "unit 'Gb/s', known: GB/s"),
                 ("format = 1", "format = 2", "format 2 belongs to another version"),
                 (r"(gpus = \{ value = )0", r"\g<1>1", "gpu.update_rate is missing"),
                 (r'host = ".*"\n', "", "calibration.host is missing"))
        for old, new, message in cases:
            with self.subTest(message):
                self.file.write_text(re.sub(old, new, self.cpu, count=1))
                self.expect_error(self.plan(), f"{self.file}", message, name="plan")

    def test_wrong_options(self):
        for arguments, parts in (
                (("--rule", "adam"), ("--rule 'adam' is unknown (did you mean 'adamw'?)",)),
                (("--precision", "fp8"), ("--precision 'fp8' is unknown", "fp32, bf16")),
                (("--subgroup-params", "0"), ("--subgroup-params 0: must lie between",)),
                (("--subgroup-params", "999"), ("--subgroup-params 999: must lie between 1000",)),
                (("--max-spread", "-1"), ("--max-spread -1: must be",)),
                (("--workers", "-1"), ("--workers -1: must lie between 0",)),
                (("--workers", "999"), ("--workers 999: StarPU can run", "lower it")),
                (("--cuda-devices", "-2"), ("--cuda-devices -2: must lie between -1",)),
                (("--opencl-devices", "2147483648"), ("--opencl-devices 2147483648: must lie between",)),
                (("--opencl-devices", "77"), ("--opencl-devices 77: StarPU finds", "clinfo")),
                (("--cuda-devices", "77"), ("--cuda-devices 77: StarPU", "finds", "nvidia-smi")),
                (("--subgroup-params", "4294967295", "--precision", "fp32"),
                 ("--subgroup-params 4294967295: one such subgroup takes",))):
            with self.subTest(str(arguments)):
                self.expect_refused(self.calibrate(*arguments), *parts)
        for output, message in ((self.folder / "none" / "m.toml", "there is no folder"),
                                (self.folder / "machine", "ends in .toml")):
            result = program("calibrate", *QUICK, "--output", output, cwd=self.folder)
            self.expect_refused(result, f"--output {output}: ", message)
        (self.folder / "folder.toml").mkdir()
        os.mkfifo(self.folder / "pipe.toml")
        for name in ("folder.toml", "pipe.toml"):
            for arguments in ((), ("--force",)):
                result = program("calibrate", *QUICK, *arguments, "--output", name, cwd=self.folder, timeout=10)
                self.expect_error(result, f"--output {name}: is there already and no file: choose another --output",
                                  name="calibrate")

    def test_history_models_that_cannot_be_read_are_replaced(self):
        shutil.copytree(self.shared / ".starpu", self.folder / "home" / ".starpu")
        model, = (self.folder / "home").glob(MODEL)
        good = model.read_text()
        home = {"STARPU_HOME": str(self.folder / "home")}
        for text, message in ((re.sub(r"^\d+$", "12", good, count=1, flags=re.MULTILINE),
                               "a performance model of version 12"),
                              (good[:len(good) // 2], "a damaged performance model"),
                              (None, "it is no regular file")):
            with self.subTest(message):
                model.unlink()
                if text is None:
                    model.with_name(model.name + ".damaged").unlink()
                    model.mkdir()
                else:
                    model.write_text(text)
                result = self.calibrate(env=home)
                self.assertEqual(result.returncode, 0, result.stderr)
                said = [line for line in result.stdout.splitlines() if str(model) in line]
                self.assertEqual(len(said), 1, result.stdout)
                self.assertIn(message, said[0])
                self.assertIn(f"renamed to {model.name}.damaged", said[0])
                self.assertRegex(model.read_text(), r"\n45\n")


if __name__ == "__main__":
    unittest.main()
