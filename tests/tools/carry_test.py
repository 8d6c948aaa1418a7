#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/carry: a small tree with a build goes into an archive, out of it elsewhere, and its tests run there; what it
refuses; and what tools/gpu_check does with carried programs."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import shutil
import subprocess
import sys
import tarfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

from scratch import InScratchFolder

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
import gpu_check_carried  # noqa: E402
import sources  # noqa: E402
from gpu_check_stage import Failed  # noqa: E402

PROGRAM = "tests/codelets/test_codelets_kernels_cuda"


def load():
    loader = importlib.machinery.SourceFileLoader("carry", str(TOOLS / "carry"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("carry", loader))
    loader.exec_module(module)
    return module


class Archives(InScratchFolder):
    def setUp(self):
        super().setUp()
        for tool in ("ctest", "ldd", "strip"):
            if shutil.which(tool) is None:
                self.skipTest(f"{tool} is not on this machine")
        self.module = load()
        self.root, self.build = self.folder / "tree", self.folder / "tree" / "build"
        self.archive = self.folder / "out" / "carried.tar.xz"
        for folder in ("bench", "src", "tools"):
            (self.root / folder).mkdir(parents=True)
        (self.root / "src/data $1").write_text("of a test", encoding="utf-8")
        for file in (TOOLS / "gpu_check", *TOOLS.glob("*.py"), *TOOLS.parent.glob("bench/*deepspeed*.py"),
                     TOOLS.parent / "bench/torch_gpt2.py", TOOLS.parent / "VERSION"):
            shutil.copyfile(file, self.root / file.relative_to(TOOLS.parent))
        self.cache()
        for program in (PROGRAM, *self.module.PROGRAMS):
            (self.build / program).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(shutil.which("env"), self.build / program)
        label = 'set_tests_properties(${x} PROPERTIES LABELS "%s")\n'
        (self.build / f"{PROGRAM}.one_labels.cmake").write_text(label % "gpu", encoding="utf-8")
        (self.build / "tests/test_other.one_labels.cmake").write_text(label % "unit", encoding="utf-8")
        # `env` as a program: it runs what follows. The file's name needs quotes and a backslash.
        (self.build / "CTestTestfile.cmake").write_text(f"""
add_test(found "{self.build}/{PROGRAM}" "DATA={self.root}/src/data \\$1" sh -c "cat \\"\\$DATA\\" && test \\$MORE = a:b")
set_tests_properties(found PROPERTIES LABELS gpu ENVIRONMENT "MORE=a:b;REST=;PLACE={self.build}"
  PASS_REGULAR_EXPRESSION "of a test")
add_test(script /usr/bin/env /usr/bin/python3.9 -c "print(1)")
set_tests_properties(script PROPERTIES LABELS gpu)
add_test(other false)
add_test(without_gpu false)
set_tests_properties(without_gpu PROPERTIES LABELS reference)
""", encoding="utf-8")

    def cache(self, home=None, cuda="1"):
        self.build.mkdir(exist_ok=True)
        (self.build / "CMakeCache.txt").write_text(
            f"CMAKE_HOME_DIRECTORY:INTERNAL={home or self.root}\nCMAKE_CUDA_ARCHITECTURES:STRING=90\n"
            f"DOS_STARPU_HAS_CUDA:INTERNAL={cuda}\n", encoding="utf-8")

    def carry(self, *arguments):
        """(what ended it, standard output)"""
        words = ["carry", "--build", str(self.build), "--output", str(self.archive), *arguments]
        output, ended = io.StringIO(), None
        with mock.patch.object(self.module, "ROOT", self.root), mock.patch.object(sys, "argv", words), \
                contextlib.redirect_stdout(output):
            try:
                self.module.main()
            except SystemExit as error:
                ended = str(error)
        return ended, output.getvalue()

    def expect_refused(self, message, *arguments):
        ended, _ = self.carry(*arguments)
        self.assertRegex(ended or "nothing", message)
        self.assertEqual([*self.archive.parent.glob("*")], [])

    def test_what_is_packed_runs_elsewhere(self):
        ended, said = self.carry()
        self.assertIsNone(ended)
        self.assertRegex(said, r"MB of at most 30 MB, 8 programs, 2 tests, CUDA architectures 90\n$")
        subprocess.run(["tar", "xf", self.archive], cwd=self.folder, check=True)
        shutil.move(self.root, self.folder / "gone")
        carried = self.folder / "dos" / gpu_check_carried.FOLDER
        self.assertNotIn(str(self.root), (carried / gpu_check_carried.TESTS).read_text(encoding="utf-8"))
        carried = carried.parent.rename(self.folder / "an$other \"place\"") / carried.name
        gpu_check_carried.place_tests(carried)
        result = subprocess.run(["ctest", "--test-dir", carried, "--output-on-failure"], capture_output=True, text=True,
                                check=False)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn("100% tests passed, 0 tests failed out of 2", result.stdout)
        result = subprocess.run([sys.executable, carried.parent / "tools/gpu_check", "--version"], capture_output=True,
                                text=True, check=False)
        self.assertRegex(result.stdout, r"^gpu_check \d", result.stderr)
        manifest = gpu_check_carried.manifest_of(carried)
        self.assertEqual(manifest["sources"], sources.checksum(carried.parent))
        self.assertEqual((manifest["architectures"], manifest["starpu_has_cuda"]), ("90", True))
        self.assertIn(PROGRAM, manifest["programs"])
        self.assertTrue((carried.parent / "tools/gpu_check").stat().st_mode & 0o100 == 0)

    def test_an_archive_that_is_too_large_is_not_left(self):
        self.expect_refused(r"more than --limit allows, 0.01 MB; the largest files.*: carried/", "--limit", "0.01")

    def test_wheels_come_along_with_all_that_they_need(self):
        folder = self.folder / "wheels"
        folder.mkdir()
        self.expect_refused("no wheel of deepspeed is there", "--deepspeed", str(folder))

        def wheel(name, requires):
            with zipfile.ZipFile(folder / f"{name}-1-py3-none-any.whl", "w") as archive:
                archive.writestr(f"{name}-1.dist-info/METADATA", f"Requires-Dist: {requires}\n")

        wheel("deepspeed", "hjson\nRequires-Dist: torch>=2.0.0")
        self.expect_refused("no wheel of hjson is there, which another one needs", "--deepspeed", str(folder))
        wheel("hjson", "numpy")
        ended, said = self.carry("--deepspeed", str(folder))
        self.assertIsNone(ended)
        self.assertIn("architectures 90, 2 wheels\n", said)
        with tarfile.open(self.archive) as archive:
            self.assertIn("dos/carried/wheels/hjson-1-py3-none-any.whl", archive.getnames())

    def test_a_program_that_is_not_built_is_named(self):
        (self.build / PROGRAM).unlink()
        self.expect_refused(rf"{PROGRAM} is not built: cmake --build {self.build}")

    def test_a_starpu_without_cuda_is_for_rehearsals_only(self):
        self.cache(cuda="")
        self.expect_refused("its StarPU has no CUDA.*--rehearsal")
        self.assertIsNone(self.carry("--rehearsal")[0])

    def test_another_starpu_than_was_named(self):
        self.expect_refused("configure it with PKG_CONFIG_PATH=/elsewhere/lib/pkgconfig", "--starpu", "/elsewhere")

    def test_a_build_of_other_sources(self):
        self.cache(home="/elsewhere")
        self.expect_refused("a build of /elsewhere, not of")
        self.build = self.folder / "none"
        self.expect_refused("no build folder")


class Carried(InScratchFolder):
    MANIFEST = {"sources": "abc", "architectures": "90", "starpu_has_cuda": True, "mpi": False, "programs": ["a"]}

    def build(self, capability="9.0", ldd="\tliba.so => /a (0x1)\n", log="", **changes):
        check = mock.Mock(rehearses=False, build=self.folder, manifest=self.MANIFEST | changes, sources="abc")
        check.state = {"stages": {"machine": {"result": {"gpus": [{"name": "GPU", "compute_cap": capability}]}}}}
        stage = mock.Mock(log=self.folder / "log")
        stage.log.write_text(log, encoding="utf-8")
        stage.run.return_value = ldd
        return gpu_check_carried.check_carried(check, stage)

    def test_programs_of_these_sources_for_this_gpu_are_taken(self):
        self.assertEqual(self.build(), {"mpi": False, "warnings": 0, "carried": "90"})

    def test_others_are_refused(self):
        for reason, changes in (("built from other sources", {"sources": "def"}),
                                ("the GPU has 8.0", {"capability": "8.0"}),
                                ("without CUDA", {"starpu_has_cuda": False}),
                                ("a lacks libb.so.1 on", {"ldd": "\tlibb.so.1 => not found\n"}),
                                ("a lacks GLIBC_2.99 on", {"log": "./a: version `GLIBC_2.99' not found"})):
            with self.assertRaisesRegex(Failed, reason):
                self.build(**changes)

    def test_which_gpus_code_serves(self):
        for architectures, capability, expected in (
                ("90", "9.0", True), ("90", "10.0", True), ("90-real", "10.0", False), ("90", "8.9", False),
                ("80-real", "8.6", True), ("80-virtual", "9.0", True), ("80-real;89-real;90", "9.0", True),
                ("90a", "9.0", True), ("90a", "10.0", False), ("100", "9.0", False), ("native", "9.0", False)):
            self.assertEqual(gpu_check_carried.serves(architectures, capability), expected, (architectures, capability))

    def test_libraries_that_came_along_are_found_first(self):
        for name in ("lib", "toolkit/lib64", "toolkit/bin", "site/nvidia/cu13/lib"):
            (self.folder / name).mkdir(parents=True)
        with mock.patch.dict("os.environ", {"LD_LIBRARY_PATH": "/mine", "PATH": ""}), \
                mock.patch.object(sys, "path", [str(self.folder / "site")]):
            path = gpu_check_carried.loader_path(self.folder, self.folder / "toolkit/bin")
        self.assertEqual(path.split(":"), [*(str(self.folder / name) for name in
                                             ("lib", "toolkit/lib64", "site/nvidia/cu13/lib")), "/mine"])

    def test_a_build_folder_has_no_manifest(self):
        self.assertIsNone(gpu_check_carried.manifest_of(self.folder))
        (self.folder / gpu_check_carried.MANIFEST).write_text(json.dumps(self.MANIFEST), encoding="utf-8")
        self.assertEqual(gpu_check_carried.manifest_of(self.folder), self.MANIFEST)


if __name__ == "__main__":
    unittest.main()
