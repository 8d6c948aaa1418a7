#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The comparison with DeepSpeed, by itself (bench/compare_deepspeed.py) and as a stage of tools/gpu_check, with
programs that stand in for a Python with DeepSpeed and for train_step."""

import json
import re
import subprocess
import sys
import unittest
import zipfile
from unittest import mock

from gpu_check_harness import GPU_CHECK, check_of
from scratch import InScratchFolder

import gpu_check_deepspeed
import gpu_check_report
import wheels
from gpu_check_rehearsal import PYTHON_WITH_DEEPSPEED
from gpu_check_stage import Failed, Skipped, Stage

ROOT = GPU_CHECK.parents[1]
SCRIPT = ROOT / "bench/compare_deepspeed.py"
OWN_STEP = {"ms_step": 2000, "ms_step_min": 1990, "ms_step_max": 2010, "ms_update": 300, "loss": 10.5,
            "device_memory": [{"name": "CUDA 0", "all but states": {"allocated": 36e9},
                               "states": {"allocated": 2.4e9}}]}


class WithPrograms(InScratchFolder):
    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        return path

    def setUp(self):
        super().setUp()
        self.python = self.write("python_with_deepspeed", PYTHON_WITH_DEEPSPEED)
        self.train_step = self.write("train_step", f"#!/bin/sh\necho '{json.dumps(OWN_STEP)}'\n")

    def change(self, old, new):
        self.assertIn(old, PYTHON_WITH_DEEPSPEED)
        self.write(self.python.name, PYTHON_WITH_DEEPSPEED.replace(old, new))


class Script(WithPrograms):
    def compare(self, *arguments, **options):
        return subprocess.run([SCRIPT, "--python", options.get("python", self.python), "--train-step", self.train_step,
                               "--site", self.folder / "site", *arguments], capture_output=True, text=True, check=False)

    def expect_refused(self, message, *arguments, **options):
        result = self.compare(*arguments, **options)
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assertRegex(result.stderr.splitlines()[-1], f"^compare_deepspeed: error: .*{message}")

    def test_rounds_in_turn_and_their_ratios(self):
        result = self.compare("--rounds", "2", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        *rows, last = map(json.loads, result.stdout.splitlines())
        self.assertEqual([(row["round"], row["mode"]) for row in rows],
                         [(number, mode) for number in (1, 2)
                          for mode in ("dos", "zero3", "superoffload", "zero2", "twinflow")])
        self.assertIn("ended with status 1: AssertionError: rehearsed", rows[2]["fault"])
        self.assertAlmostEqual(rows[0]["peak_gpu_gb"], 38.4)
        self.assertEqual({mode: each["median"] for mode, each in last["ratios"].items()},
                         {"zero3": 1.5, "zero2": 1.45, "twinflow": 1.5})
        text = self.compare("--rounds", "1").stdout
        for part in ("DeepSpeed 0.19.8, torch 2.11.0, NVIDIA H100 Rehearsal", "AssertionError: rehearsed",
                     "1  dos               2000.0 ms (1990.0 to 2010.0), GPU 38.4 GB",
                     "zero2          takes 1.45 times as long (1.45 to 1.45)"):
            self.assertIn(part, text)

    def test_what_is_missing_is_said_in_a_line(self):
        self.expect_refused("/nowhere is not on this machine", python="/nowhere")
        self.change('"torch": "2.11.0"', '"torch": null')
        self.expect_refused("has no torch: name a Python that has by --python")
        self.change('"gpu": "NVIDIA H100 Rehearsal"', '"gpu": null')
        self.expect_refused("sees no GPU: --device cpu")
        self.change('"deepspeed": "0.19.8"', '"deepspeed": null')
        self.expect_refused("has no DeepSpeed: name a folder with its wheels by --wheels")
        self.expect_refused("nor do the wheels of .* that fit it", "--wheels", str(self.folder))

    def test_a_side_that_never_runs_leaves_no_ratio(self):
        self.train_step.write_text("#!/bin/sh\necho 'train_step: error: no memory' >&2\nexit 1\n", encoding="utf-8")
        result = self.compare("--rounds", "1", "--modes", "zero3")
        self.assertEqual(result.returncode, 1)
        self.assertIn("train_step: error: no memory", result.stdout)
        self.assertIn("no round has both sides", result.stderr)

    def test_shapes_are_those_of_the_presets(self):
        sys.path.insert(0, str(SCRIPT.parent))
        from deepspeed_step import zero_optimization
        from torch_gpt2 import PRESETS
        text = (ROOT / "src/shape/model.cpp").read_text(encoding="utf-8")
        for name, shape in PRESETS.items():
            numbers = re.search(rf'\{{"{name}", \{{"gpt2", ([\d, ]+)\}}', text)[1]
            self.assertEqual(list(map(int, numbers.split(","))),
                             [shape[key] for key in ("layers", "width", "heads", "context", "vocab")])
        # A ratio takes whole subgroups: some must be the GPU's, of 1.3 G parameters.
        for mode in ("superoffload", "twinflow"):
            section = zero_optimization(mode, 0.85)
            on_gpu = (1 - section["offload_optimizer"]["ratio"]) * (1.3e9 // section["sub_group_size"])
            self.assertGreaterEqual(on_gpu, 1)


class AsStage(WithPrograms):
    NEEDS = {"host": {"needed": 1, "available": 2}, "devices": []}

    def run_stage(self, seconds=100, rows=None):
        def program(path):
            return self.train_step if path == "bench/train_step" else self.folder / path

        self.write("train_step", f"#!/bin/sh\ncase $* in *--dry-run*) echo '{json.dumps(self.NEEDS)}' ;;\n"
                                 f"*) echo '{json.dumps(OWN_STEP)}' ;; esac\n")
        check = check_of(self.folder, seconds, program=program, stand_ins=self.folder, build=self.folder,
                         loader_path_before="/before")
        check.rehearses = True
        self.stage = Stage(check, "deepspeed", rows=rows)
        return gpu_check_deepspeed.deepspeed(check, self.stage)

    def test_each_run_has_a_row_and_the_page_a_verdict(self):
        result = self.run_stage()
        expected = [f"{number}: {mode}" for number in (1, 2, 3) for mode in ("dos", *gpu_check_deepspeed.MODES)
                    if (number, mode) == (1, "superoffload") or mode != "superoffload"]
        self.assertEqual(list(self.stage.rows), ["versions", "extension", *expected])
        self.assertEqual(len(result["runs"]), 12)
        self.assertIn("AssertionError: rehearsed", result["without"][0])
        page = "\n".join(gpu_check_report.deepspeed_lines(result))
        for part in ("DeepSpeed 0.19.8, torch 2.11.0", "- zero3: 1.50 times as long (1.50 to 1.50)",
                     "- A step under dos is 1.45 times as fast as DeepSpeed's fastest (zero2): the goal of 1.4 is "
                     "reached",
                     "- Without 1: superoffload: ", "| 1 | dos | 2000 | 1990 | 2010 | 300 | 38.4 |  | 10.5 |"):
            self.assertIn(part, page)

    def test_torch_finds_its_own_libraries(self):
        self.change("#!/bin/sh\n", '#!/bin/sh\necho "path=$LD_LIBRARY_PATH" >&2\n')
        with mock.patch.dict("os.environ", LD_LIBRARY_PATH="/carried:/before"):
            self.run_stage()
        self.assertEqual(set(re.findall("path=.*", self.stage.log.read_text(encoding="utf-8"))), {"path=/before"})

    def test_later_rounds_only_as_time_is_left(self):
        with mock.patch.object(Stage, "seconds_left", return_value=0):
            result = self.run_stage()
        self.assertEqual([row["round"] for row in result["runs"]], [1] * 4)

    def test_what_is_missing_skips_the_stage(self):
        self.change('"deepspeed": "0.19.8"', '"deepspeed": null')
        with self.assertRaisesRegex(Skipped, "has no DeepSpeed"):
            self.run_stage()
        with mock.patch.dict(self.NEEDS["host"], available=0), self.assertRaisesRegex(Skipped, "host: "):
            self.run_stage()

    def test_zero_offload_must_run(self):
        self.change("zero2) ms=2900 ;;", "zero2) exit 1 ;;")
        self.assertEqual([*self.run_stage()["ratios"]], ["zero3", "twinflow"])
        self.change("superoffload)", "superoffload | zero2 | zero3)")
        with self.assertRaisesRegex(Failed, "1: zero3: .*rehearsed") as raised:
            self.run_stage()
        self.assertEqual(raised.exception.result["ratios"].keys(), {"twinflow"})
        self.change('"loss": 10.9', '"loss": NaN')
        with self.assertRaisesRegex(Failed, "1: zero3: the loss is nan"):
            self.run_stage()

    def test_an_extension_that_does_not_compile_ends_the_stage(self):
        self.change('echo \'{"extension": "cpu_adam", "seconds": 40.0}\' && exit',
                    "printf 'a.h:1: fatal error: Python.h: No such file\\nninja: build stopped\\n' >&2 && exit 1")
        with self.assertRaisesRegex(Failed, "^extension: .*a.h:1: fatal error: Python.h: No such file$"):
            self.run_stage()


class Wheels(InScratchFolder):
    def wheel(self, name, requires=()):
        with zipfile.ZipFile(self.folder / name, "w") as archive:
            package = name.split("-")[0]
            archive.writestr(f"{package}/__init__.py", "")
            archive.writestr(f"{package}-1.dist-info/METADATA",
                             "".join(f"Requires-Dist: {each}\n" for each in requires))

    def test_which_fit(self):
        for name, python, expected in (
                ("a-1-py3-none-any.whl", (3, 12), True), ("a-1-py2.py3-none-any.whl", (3, 13), True),
                ("a-1-py2-none-any.whl", (3, 12), False), ("a-1-py3-none-manylinux_2_17_x86_64.whl", (3, 12), True),
                ("a-1-cp312-cp312-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", (3, 12), True),
                ("a-1-cp312-cp312-manylinux2014_x86_64.whl", (3, 13), False),
                ("a-1-cp312-cp312-manylinux2014_aarch64.whl", (3, 12), False),
                ("a-1-cp312-cp312-musllinux_1_2_x86_64.whl", (3, 12), False),
                ("a-1-cp36-abi3-manylinux2010_x86_64.whl", (3, 12), True),
                ("a-1-cp313-abi3-manylinux2010_x86_64.whl", (3, 12), False),
                ("a-1-1build-py3-none-any.whl", (3, 12), True), ("a.whl", (3, 12), False)):
            self.assertEqual(wheels.fits(name, python), expected, (name, python))

    def test_they_are_laid_out_once(self):
        self.wheel("a-1-py3-none-any.whl")
        self.wheel("b-1-cp311-cp311-linux_x86_64.whl")
        site = self.folder / "site"
        self.assertEqual(wheels.unpack(self.folder, site, (3, 12)), ["a-1-py3-none-any.whl"])
        (site / "a/__init__.py").write_text("kept", encoding="utf-8")
        wheels.unpack(self.folder, site, (3, 12))
        self.assertEqual((site / "a/__init__.py").read_text(encoding="utf-8"), "kept")
        self.assertFalse((site / "b").exists())

    def test_what_they_lack(self):
        self.wheel("a_b-1-py3-none-any.whl", ["torch>=2.0", "c.d>=1", "e; extra == 'all'", "Numpy"])
        self.assertEqual(wheels.lacks(self.folder, {"torch", "numpy"}), ["c-d"])
        self.wheel("c_d-1-py3-none-any.whl", ["a-b"])
        self.assertEqual(wheels.lacks(self.folder, {"torch", "numpy"}), [])


if __name__ == "__main__":
    unittest.main()
