#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The parts of tools/gpu_check by themselves: commands and their limits, what is kept and continued, verdicts."""

import contextlib
import io
import os
import signal
import subprocess
import tarfile
import time
import unittest
from pathlib import Path
from unittest import mock

from gpu_check_harness import GPU_CHECK, check_of, load
from scratch import InScratchFolder

import gpu_check_archive
import gpu_check_stage
import sources
from gpu_check_stage import Failed, OutOfTime, Stage, StageOver, TooLong


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
        number = self.folder / "number"
        script = "echo begun; " + self.SLEEPS.format(number)
        for error, seconds, of_stage, limit in ((OutOfTime, 1, 50, 60), (StageOver, 100, 1, 60), (TooLong, 100, 50, 1)):
            stage = Stage(check_of(self.folder, seconds), "slow", of_stage)
            lines = []
            with self.assertRaises(error) as raised:
                stage.run("sh", "-c", script, limit=limit, on_line=lines.append)
            self.assertIs(type(raised.exception), error)
            self.expect_gone(number)
            self.assertEqual(lines, ["begun\n"])
            self.assertIn("begun", (self.folder / "slow.log").read_text(encoding="utf-8"))
            if error is not TooLong:
                with self.assertRaises(error):
                    stage.run("true")

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
        stage = Stage(check_of(self.folder), "pinning")
        self.assertEqual(stage.run("echo", "all is pinned"), "all is pinned\n")
        with self.assertRaisesRegex(Failed, "ulimit -l"):
            stage.run("sh", "-c", "echo warning: CUDA refuses to pin 1 GB of host memory >&2; echo figures")
        self.assertEqual(stage.run("echo", "the next one"), "the next one\n")

    def test_a_starpu_for_fewer_processors_fails(self):
        stage = Stage(check_of(self.folder), "workers")
        # As StarPU 1.4 says it.
        said = ("# Warning: 15 CPU cores devices available. Only 2 enabled. Use configure option --enable-maxcpus=xxx to "
                "update the maximum value of supported CPU cores devices.")
        with self.assertRaisesRegex(Failed, "--enable-maxcpus=256"):
            stage.run("sh", "-c", f"echo '{said}' >&2; echo figures")

    def test_a_program_that_is_not_there_is_named(self):
        stage = Stage(check_of(self.folder), "none")
        with self.assertRaisesRegex(Failed, "^no-such-program is not on this machine$"):
            stage.run("no-such-program", "--version")


class Builds(InScratchFolder):
    def test_a_starpu_without_cuda_is_found_before_anything_is_compiled(self):
        (self.folder / "CMakeCache.txt").write_text("DOS_STARPU_HAS_CUDA:INTERNAL=\n", encoding="utf-8")
        module, stage = load(), mock.Mock()
        with self.assertRaisesRegex(Failed, "without CUDA"):
            module.build(mock.Mock(rehearses=False, build=self.folder, manifest=None), stage)
        self.assertEqual(stage.run.call_count, 1)


class WithoutTools(unittest.TestCase):
    def test_carried_programs_need_no_compiler_on_the_machine(self):
        stage = mock.Mock()
        stage.run.return_value = "NVIDIA H100 80GB HBM3, 580.1, 81559 MiB, 9.0\n"
        module = load()
        with mock.patch.object(module.shutil, "which", return_value=None):
            found = module.machine(None, stage)
        self.assertEqual((found["nvcc"], found["gpus"][0]["compute_cap"]), ("no nvcc", "9.0"))


class Machines(InScratchFolder):
    def run_on(self, gpu, driver="1"):
        """Which GPU the build was for after a run on this one, and how many passed before."""
        module = load()
        with mock.patch.dict(os.environ):
            check = module.Check(mock.Mock(output=self.folder, rehearse=None, again=False, minutes=1, pack=None,
                                           resume=None))
        with contextlib.redirect_stdout(io.StringIO()) as said:
            gpus = [{"name": gpu, "memory.total": "1 MiB", "driver_version": driver}]
            check.run_stage("machine", lambda *_: {"gpus": gpus, "nvcc": "", "processor": "", "cores": 1, "system": ""})
            check.run_stage("build", lambda *_: {"mpi": False, "gpu": gpu})
        return check.state["stages"]["build"]["result"]["gpu"], said.getvalue().count("passed before")

    def test_results_of_another_gpu_are_not_continued(self):
        self.assertEqual(self.run_on("A100"), ("A100", 0))
        self.assertEqual(self.run_on("A100"), ("A100", 1))
        self.assertEqual(self.run_on("A100", driver="2"), ("A100", 1))
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
    def test_all_results_and_of_long_logs_both_ends(self):
        results = self.folder / "results"
        results.mkdir()
        (results / "report.md").write_text("page", encoding="utf-8")
        (results / "build.log").write_bytes(b"first" + b"." * (3 << 20) + b"last")
        (results / "profile.csv").write_bytes(b"," * (3 << 20))
        for _ in range(2):
            gpu_check_archive.pack(results, self.folder / "none", self.folder / "out" / "deep")
        packed = self.folder / "out" / "deep" / "gpu_check.tar.gz"
        self.assertEqual([file.name for file in packed.parent.iterdir()], [packed.name])
        with tarfile.open(packed) as archive:
            log = archive.extractfile("gpu_check/build.log").read()
            self.assertEqual(archive.extractfile("gpu_check/report.md").read(), b"page")
            self.assertEqual(archive.getmember("gpu_check/profile.csv").size, 3 << 20)
        self.assertTrue(log.startswith(b"first") and log.endswith(b"last") and b"[...]" in log)
        self.assertLess(len(log), (1 << 20) + 16)

    def test_another_machine_continues_from_what_was_packed(self):
        here, there = self.folder / "here", self.folder / "there"
        for file, text in (("results/report.json", "{}"), ("results/h100.toml", "rates"),
                           ("starpu/bus/gpu_check.bandwidth", "1 2"), ("starpu/codelets/45/update", "3")):
            (here / file).parent.mkdir(parents=True, exist_ok=True)
            (here / file).write_text(text, encoding="utf-8")
        (here / "results/losses").mkdir()
        gpu_check_archive.pack(here / "results", here / "starpu", self.folder)
        gpu_check_archive.unpack(self.folder / "gpu_check.tar.gz", there / "results", there / "starpu")
        found = [{file.relative_to(root): file.read_text(encoding="utf-8") for file in root.rglob("*") if file.is_file()}
                 for root in (here, there)]
        self.assertEqual(*found)
        self.assertEqual(len(found[0]), 4)

    def test_an_archive_of_something_else_is_refused(self):
        for name in ("../outside", "gpu_check/../../outside", "/outside", "other/file", "gpu_check"):
            with tarfile.open(self.folder / "a.tar.gz", "w:gz") as archive:
                archive.addfile(tarfile.TarInfo(name), io.BytesIO())
            with self.assertRaisesRegex(ValueError, "which gpu_check does not write"):
                gpu_check_archive.unpack(self.folder / "a.tar.gz", self.folder / "r", self.folder / "s")
        result = subprocess.run([GPU_CHECK, "--output", self.folder / "o", "--resume", self.folder / "a.tar.gz"],
                                capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("give a file that --pack has written", result.stderr)


if __name__ == "__main__":
    unittest.main()
