#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recipes of tools/packaging: both for containers do the same, and with --chroot each step of them is done in empty Debian
12 systems; Spack's recipe says what the sources need. Exit status 77: skipped."""

import importlib.util
import itertools
import os
import re
import shutil
import subprocess
import sys
import types
import unittest
from pathlib import Path

from chroot import NAME, TRAIN, Chroot, reason_to_skip
from prefix import SOURCE
from recipes import read_containerfile, read_definition

PACKAGING = SOURCE / "tools" / "packaging"
BASE = "debian:12"
# How Spack calls what CMake and pkg-config know under other names.
SPACK_NAMES = {"libxxhash": "xxhash", "libisal": "isa-l", "libpcre2-8": "pcre2", "libutf8proc": "utf8proc", "dnnl": "onednn",
               "nlohmann_json": "nlohmann-json", "CLI11": "cli11", "MPICH": "mpich", "PkgConfig": "pkgconfig"}
# Of the compiler, of tests, and what StarPU brings with itself.
NOT_SPACKS = {"Threads", "GTest", "OpenCL", "CUDAToolkit"}


def containers():
    return (read_containerfile((PACKAGING / "Containerfile").read_text(encoding="utf-8")),
            read_definition((PACKAGING / "apptainer.def").read_text(encoding="utf-8")))


class Containers(unittest.TestCase):
    def test_both_do_the_same(self):
        podman, apptainer = containers()
        self.assertEqual([stage.name for stage in podman], [stage.name for stage in apptainer])
        for one, other in zip(podman, apptainer):
            with self.subTest(stage=one.name):
                self.assertEqual({one.base, other.base}, {BASE})
                self.assertEqual(one.commands, other.commands)
                self.assertEqual(one.path, other.path)
        self.assertEqual(sorted(podman[0].files), sorted(apptainer[0].files))
        # The package alone, or the folder with it.
        self.assertEqual(podman[1].files, [("/package/*.deb", "/package/", "build")])
        self.assertEqual(apptainer[1].files, [("/package", "/package", "build")])

    def test_what_they_copy_is_in_the_sources(self):
        build, _ = containers()[0]
        for source, target, origin in build.files:
            self.assertIsNone(origin)
            self.assertTrue((SOURCE / source).exists(), source)
            self.assertEqual(target, f"/source/{source}")
        self.assertNotIn("tests", [source for source, _, _ in build.files])


@unittest.skipUnless("--chroot" in sys.argv, "takes minutes, root and a mirror: -DDOS_TEST_CHROOT=ON")
class InChroots(unittest.TestCase):
    def test_every_step(self):
        (build, final), (_, definition) = containers()
        systems = {build.name: Chroot()}
        self.addCleanup(lambda: [system.remove() for system in systems.values()])
        systems[final.name] = Chroot(like=systems[build.name])
        for stage in (build, final):
            system = systems[stage.name]
            for source, target, origin in stage.files:
                self.copy(systems[origin].root if origin else SOURCE, source, system.root / target.lstrip("/"), target.endswith("/"))
            system.run("bash", "-e", "-c", "\n".join(stage.commands), timeout=3 * 3600)
        system = systems[final.name]
        path = f"{final.path}:/usr/sbin:/usr/bin:/sbin:/bin"
        self.assertEqual(list((system.root / "package").glob("*")) if (system.root / "package").exists() else [], [])
        self.assertIn("train_gpt", system.run("train_gpt", "--help", path=path))
        system.run("bash", "-c", TRAIN, user="nobody", path=path)
        script = "\n".join(definition.starts)
        planned = system.run("bash", "-c", script, "runscript", "plan", "--machine", "h100", "--model", "llama-7b", path=path)
        self.assertIn("predicted step", planned)
        # Several ranks, for which the image has MPICH.
        ranks = system.run("mpiexec.mpich", "-n", "2", "train_gpt", "--print-topology", path=path, user="nobody")
        self.assertEqual(len(re.findall(r"rank \d of 2", ranks)), 2, ranks)
        self.assertTrue((system.root / "opt" / NAME).exists())

    @staticmethod
    def copy(root, pattern, target, into):
        sources = sorted(root.glob(pattern.lstrip("/")))
        assert sources, pattern
        for source in sources:
            place = target / source.name if into else target
            place.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, place, symlinks=True)
            else:
                shutil.copy(source, place)


class Recorder(types.ModuleType):
    """spack.package as far as the recipe uses it: remembers what the recipe says."""

    def __init__(self):
        super().__init__("spack.package")
        self.depended, self.variants = [], {}
        self.__all__ = ["CMakePackage", "license", "generator", "variant", "depends_on"]

    class CMakePackage:
        def define(self, name, value):
            return f"-D{name}={'ON' if value is True else 'OFF' if value is False else value}"

    def license(self, _):
        pass

    def generator(self, _):
        pass

    def variant(self, name, default, description):
        assert description
        self.variants[name] = default

    def depends_on(self, spec, type=("build", "link"), when=""):
        self.depended.append((spec, when))


class Spack(unittest.TestCase):
    def setUp(self):
        self.spack = Recorder()
        sys.modules["spack"], sys.modules["spack.package"] = types.ModuleType("spack"), self.spack
        self.addCleanup(lambda: [sys.modules.pop(name) for name in ("spack", "spack.package")])
        specification = importlib.util.spec_from_file_location("recipe", PACKAGING / "package.py")
        self.recipe = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(self.recipe)

    def arguments(self, chosen):
        package = self.recipe.DeepOptimizerStates()
        package.spec = types.SimpleNamespace(satisfies=lambda text: text[1:] in chosen)
        return package.cmake_args()

    def test_everything_that_cmake_looks_for_is_named(self):
        text = (SOURCE / "cmake/DosDependencies.cmake").read_text(encoding="utf-8")
        wanted = {re.sub(r"-1[.]\d$", "", name) for found in re.findall(r"MODULES ([a-z][\w. -]*?)(?: HINT|\n|\))", text)
                  for name in found.split()}
        wanted |= set(re.findall(r"(?:IMPORTED_TARGET(?: GLOBAL)?) ([a-z]\w*)\)", text))
        wanted |= set(re.findall(r"find_package\((\w+)", text))
        self.assertLessEqual({"starpu", "hwloc", "fmt", "libisal", "liburing", "mpich", "CLI11"}, wanted)
        named = {re.match(r"[\w-]+", spec)[0] for spec, _ in self.spack.depended}
        for library in wanted - NOT_SPACKS:
            self.assertIn(SPACK_NAMES.get(library, library), named)

    def test_its_choices_are_options_of_the_sources(self):
        known = "".join(path.read_text(encoding="utf-8") for path in (SOURCE / "CMakeLists.txt", *(SOURCE / "cmake").glob("*.cmake")))
        names = list(self.spack.variants)
        self.assertEqual(sorted(names), ["cuda", "mpi", "onednn"])
        for count in range(len(names) + 1):
            for chosen in itertools.combinations(names, count):
                words = self.arguments(chosen)
                for word in words:
                    name, value = re.fullmatch(r"-D(\w+)=(ON|OFF)", word).groups()
                    self.assertRegex(known, rf"(option|set)\({name}\b")
                    if name.removeprefix("DOS_").lower() in names:
                        self.assertEqual(value == "ON", name.removeprefix("DOS_").lower() in chosen)

    def test_they_configure_the_sources(self):
        """With what this machine has; the libraries of a choice that it lacks are said to be missing."""
        folder = Path(os.environ["DOS_BINARY_DIR"]) / "recipe"
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        result = subprocess.run([os.environ["DOS_CMAKE"], "-S", SOURCE, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                                 *self.arguments(())], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("Manually-specified variables", result.stderr)
        self.assertIn("MPICH (none: one rank)", result.stdout)


if __name__ == "__main__":
    if "--chroot" in sys.argv and (reason := reason_to_skip()):
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main(argv=[word for word in sys.argv if word != "--chroot"])
