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
               "nlohmann_json": "nlohmann-json", "CLI11": "cli11", "MPICH": "mpich", "PkgConfig": "pkgconfig", "CUDAToolkit": "cuda"}
# Of the compiler, of tests, and what StarPU brings with itself.
NOT_SPACKS = {"Threads", "GTest", "OpenCL"}
# What the sources take without asking for it there.
TOOLS = {"c", "cxx", "cmake", "python"}

WITHOUT_TOMLPLUSPLUS = """#!/bin/sh
case "$*" in *tomlplusplus*) exit 1 ;; esac
exec pkg-config "$@"
"""

SPACKS_TOMLPLUSPLUS = """
add_library(tomlplusplus::tomlplusplus INTERFACE IMPORTED)
set_target_properties(tomlplusplus::tomlplusplus PROPERTIES INTERFACE_COMPILE_DEFINITIONS SPACKS_TOMLPLUSPLUS)
"""


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


class Recorder:
    """Spack as far as the recipe uses it: remembers what the recipe says."""

    def __init__(self):
        self.depended, self.variants, self.refused = [], {}, []

    def modules(self):
        """{name: module} of what the recipe imports."""
        def module(name, **members):
            made = types.ModuleType(name)
            made.__dict__.update(members)
            return made

        class CMakePackage:
            def define(self, name, value):
                return f"-D{name}={'ON' if value is True else 'OFF' if value is False else value}"

        systems = "spack_repo.builtin.build_systems"
        self.variants["cuda"] = False  # of CudaPackage
        return {name: module(name) for name in ("spack", "spack_repo", "spack_repo.builtin", systems)} | {
            f"{systems}.cmake": module("cmake", CMakePackage=CMakePackage, generator=lambda _: None),
            f"{systems}.cuda": module("cuda", CudaPackage=type("CudaPackage", (), {})),
            "spack.package": module("package", license=lambda _: None, version=self.version, variant=self.variant,
                                    depends_on=self.depends_on, conflicts=lambda spec, msg: self.refused.append(spec))}

    def version(self, *_, **__):
        raise AssertionError("tools/release writes versions")

    def variant(self, name, default, description):
        assert description
        self.variants[name] = default

    def depends_on(self, spec, type=("build", "link"), when=""):
        self.depended.append((spec, when))


def conditions_of(spec):
    """Versions, variants and their values: all words of a spec but the name of its package."""
    return set(re.findall(r"@[\w.:,]+|[+~]\w+|\w+=\w+", spec))


class Chosen:
    """A concrete spec as far as the recipe asks it."""

    def __init__(self, variants, architectures):
        known = {f"+{name}" for name in variants} | ({"cuda_arch=none"} if "cuda" in variants and not architectures else set())
        self.satisfies = known.__contains__
        self.variants = {"cuda_arch": types.SimpleNamespace(value=architectures)}

    def __getitem__(self, name):
        assert name == "python", name
        return types.SimpleNamespace(command=types.SimpleNamespace(path=sys.executable))


class Spack(unittest.TestCase):
    def setUp(self):
        self.spack = Recorder()
        modules = self.spack.modules()
        sys.modules.update(modules)
        self.addCleanup(lambda: [sys.modules.pop(name) for name in modules])
        specification = importlib.util.spec_from_file_location("recipe", PACKAGING / "package.py")
        self.recipe = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(self.recipe)

    def arguments(self, chosen, architectures=()):
        package = self.recipe.DeepOptimizerStates()
        package.spec = Chosen(chosen, architectures)
        return package.cmake_args()

    def test_everything_that_cmake_looks_for_is_named(self):
        text = "".join((SOURCE / "cmake" / name).read_text(encoding="utf-8") for name in ("DosDependencies.cmake", "DosCuda.cmake"))
        wanted = {re.sub(r"-1[.]\d$", "", name) for found in re.findall(r"MODULES ([a-z][\w. -]*?)(?: HINT| CONFIG|\n|\))", text)
                  for name in found.split()}
        wanted |= set(re.findall(r"(?:IMPORTED_TARGET(?: GLOBAL)?) ([a-z]\w*)\)", text))
        wanted |= set(re.findall(r"find_package\((\w+)", text))
        self.assertLessEqual({"starpu", "hwloc", "fmt", "libisal", "liburing", "mpich", "CLI11"}, wanted)
        named = {re.match(r"[\w-]+", spec)[0] for spec, _ in self.spack.depended}
        self.assertEqual({SPACK_NAMES.get(library, library) for library in wanted - NOT_SPACKS}, named - TOOLS)

    def test_the_environment_of_the_page_has_what_the_recipe_names(self):
        page = (SOURCE / "docs/install.md").read_text(encoding="utf-8")
        block = re.search(r"```yaml\n# spack[.]yaml(.*?)```", page, re.DOTALL)[1]
        listed = {re.match(r"[\w-]+", spec)[0]: spec for spec in re.findall(r'(?m)^    - "?([a-z][^"\n]*)', block)}
        named = set()
        for spec, _ in self.spack.depended:
            name = re.match(r"[\w-]+", spec)[0]
            if name not in ("c", "cxx", "python"):
                name = "pkgconf" if name == "pkgconfig" else name
                named.add(name)
                self.assertLessEqual(conditions_of(spec), conditions_of(listed.get(name, "")), name)
        self.assertEqual(named, set(listed) - {"ninja", "googletest"})

    def test_its_choices_are_options_of_the_sources(self):
        known = "".join(path.read_text(encoding="utf-8") for path in (SOURCE / "CMakeLists.txt", *(SOURCE / "cmake").glob("*.cmake")))
        names = list(self.spack.variants)
        self.assertEqual(sorted(names), ["cuda", "mpi", "onednn"])
        for count in range(len(names) + 1):
            for chosen in itertools.combinations(names, count):
                words = self.arguments(chosen)
                self.assertIn("-DDOS_WERROR=OFF", words)
                self.assertIn(f"-DDOS_PYTHON3={sys.executable}", words)
                for word in words:
                    name, value = re.fullmatch(r"-D(\w+)=(\S+)", word).groups()
                    self.assertRegex(known, rf"(option|set|find_program)\({name}\b")
                    if name.removeprefix("DOS_").lower() in names:
                        self.assertEqual(value == "ON", name.removeprefix("DOS_").lower() in chosen)

    def test_it_asks_for_the_versions_that_the_pages_ask_for(self):
        demanded = re.search(r"CMake ([\d.]+), Ninja, pkg-config, g\+\+ (\d+) or clang (\d+)", (SOURCE / "README.md").read_text(encoding="utf-8"))
        cmake, gcc, clang = demanded.groups()
        self.assertIn((f"cmake@{cmake}:", ""), self.spack.depended)
        self.assertEqual(self.spack.refused, [f"%[virtuals=cxx] gcc@:{int(gcc) - 1}", f"%[virtuals=cxx] llvm@:{int(clang) - 1}"])

    def test_kernels_are_for_the_gpus_that_are_named(self):
        self.assertNotIn("CMAKE_CUDA_ARCHITECTURES", " ".join(self.arguments(("cuda",))))
        self.assertIn("-DCMAKE_CUDA_ARCHITECTURES=80;90", self.arguments(("cuda",), ("80", "90")))

    def test_its_tarball_is_that_of_a_release(self):
        where = self.recipe.DeepOptimizerStates().url_for_version("1.2.0")
        self.assertEqual(where, f"file://{Path.cwd()}/deep-optimizer-states-1.2.0.tar.gz")
        self.assertIn(f'NAME = "{NAME}"', (SOURCE / "tools/release").read_text(encoding="utf-8"))
        self.assertEqual((PACKAGING / "package.py").read_text(encoding="utf-8").count("# A version for each release: "), 1)

    def configured(self, folder, **variables):
        """The rules of a build with the recipe's arguments and what this machine has."""
        result = subprocess.run([os.environ["DOS_CMAKE"], "-S", SOURCE, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                                 *self.arguments(())], capture_output=True, text=True, check=False, env=os.environ | variables)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("Manually-specified variables", result.stderr)
        self.assertIn("MPICH (none: one rank)", result.stdout)
        return (folder / "build.ninja").read_text(encoding="utf-8")

    def scratch(self):
        folder = Path(os.environ["DOS_BINARY_DIR"]) / "recipe"
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        folder.mkdir(exist_ok=True)
        return folder

    def test_they_configure_the_sources(self):
        """With a toml++ of which pkg-config knows nothing."""
        folder = self.scratch()
        (folder / "pkg-config").write_text(WITHOUT_TOMLPLUSPLUS)
        (folder / "pkg-config").chmod(0o755)
        rules = self.configured(folder, PKG_CONFIG=str(folder / "pkg-config"))
        # Spack's type of build is Release; libraries' checks stay in.
        self.assertNotIn("-DNDEBUG", rules)

    def test_spacks_tomlplusplus_goes_before_the_systems(self):
        """Spack's has no file for pkg-config, and the system's has one."""
        folder = self.scratch()
        package = folder / "prefix/lib/cmake/tomlplusplus"
        package.mkdir(parents=True)
        (package / "tomlplusplusConfig.cmake").write_text(SPACKS_TOMLPLUSPLUS)
        rules = self.configured(folder, CMAKE_PREFIX_PATH=str(folder / "prefix"))
        self.assertIn("-DSPACKS_TOMLPLUSPLUS", rules)
        self.assertNotRegex(rules, "-ltomlplusplus|libtomlplusplus[.]so")


if __name__ == "__main__":
    if "--chroot" in sys.argv and (reason := reason_to_skip()):
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main(argv=[word for word in sys.argv if word != "--chroot"])
