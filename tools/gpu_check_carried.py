# SPDX-License-Identifier: Apache-2.0
"""Programs that tools/carry has brought, in tools/gpu_check: what stands in their manifest, and whether they run."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

from gpu_check_stage import Failed

# Beside the sources in what tools/carry packs: programs where a build has them, and these.
FOLDER = "carried"
MANIFEST = "manifest.json"
LIBRARIES = "lib"
WHEELS = "wheels"
# What CTest reads, with HERE for the folder, which CTest has no name for.
TESTS, HERE = "tests.in", "@carried@"
# What CTest knows of earlier runs, and what CTest adds to each test.
PROPERTIES_LEFT_OUT = {"COST", "WORKING_DIRECTORY"}


def manifest_of(build):
    """Of a folder of carried programs; None of a build folder."""
    file = build / MANIFEST
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def quoted(text):
    """As CMake wants it between double quotes."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")


def argument(text, places):
    """Of a CMake command, with other names for folders."""
    text = quoted(text)
    for folder, name in places:
        text = re.sub(rf"{re.escape(quoted(folder))}(?=[/:;]|$)", lambda _, new=name: new, text)
    return f'"{text}"'


def ctest_file(tests, places=(), most_seconds=None, first=None):
    """A CTestTestfile.cmake of tests as CTest lists them, with other names for folders. No test may take longer than
    most_seconds, whatever it says itself; all others wait for the end of the one that is named `first`."""
    lines = []
    for test in tests:
        name = argument(test["name"], [])
        lines.append(f"add_test({name} {' '.join(argument(word, places) for word in test['command'])})")
        for each in test.get("properties", []):
            if each["name"] in PROPERTIES_LEFT_OUT:
                continue
            value = each["value"]
            if each["name"] == "TIMEOUT" and most_seconds is not None:
                value = min(value, most_seconds)
            text = ";".join(map(str, value)) if isinstance(value, list) else str(value)
            lines.append(f"set_tests_properties({name} PROPERTIES {each['name']} {argument(text, places)})")
        if first not in (None, test["name"]):
            lines.append(f"set_tests_properties({name} PROPERTIES DEPENDS {argument(first, [])})")
    return "\n".join(lines) + "\n"


def place_tests(build):
    """Lets CTest find the tests where the folder lies now."""
    text = (build / TESTS).read_text(encoding="utf-8").replace(HERE, quoted(str(build)))
    (build / "CTestTestfile.cmake").write_text(text, encoding="utf-8")


def loader_path(build, cuda_folder):
    """LD_LIBRARY_PATH with which carried programs find what came along, then this machine's CUDA: the toolkit's, or
    what Python packages brought."""
    compiler = shutil.which("nvcc")
    toolkits = [Path(compiler).resolve().parent] if compiler else []
    toolkits.append(Path(cuda_folder))
    folders = [build / LIBRARIES, *(toolkit.parent / name for toolkit in toolkits for name in ("lib64", "lib"))]
    folders += [lib for path in sys.path if path for lib in sorted(Path(path).glob("nvidia/*/lib"))]
    before = os.environ.get("LD_LIBRARY_PATH")
    found = dict.fromkeys(str(folder) for folder in folders if folder.is_dir())
    return os.pathsep.join([*found, *([before] if before else [])])


def serves(architectures, capability):
    """Whether code for these (CMAKE_CUDA_ARCHITECTURES) runs on a GPU of this compute capability ("9.0"): machine code
    of its generation that is not newer, or instructions of PTX that are not."""
    major, minor = map(int, capability.split("."))
    for architecture in architectures.split(";"):
        parts = re.fullmatch(r"(\d+)(\d)([af]?)(-real|-virtual)?", architecture)
        if not parts:
            continue
        of_major, of_minor, special, form = int(parts[1]), int(parts[2]), parts[3], parts[4]
        is_machine_code = of_major == major and of_minor <= minor and form != "-virtual"
        is_ptx = (of_major, of_minor) <= (major, minor) and form != "-real"
        if (is_ptx or is_machine_code) if not special else (of_major, of_minor) == (major, minor):
            return True
    return False


def check_carried(check, stage):
    """The stage `build` with carried programs: they are of these sources, for this GPU, and find their libraries."""
    manifest = check.manifest
    if manifest["sources"] != check.sources:
        raise Failed(f"the programs in {check.build} were built from other sources ({manifest['sources']}) than are "
                     f"here ({check.sources}): pack them anew with tools/carry, or build here with --compile")
    for gpu in check.state["stages"]["machine"]["result"]["gpus"]:
        if not check.rehearses and not serves(manifest["architectures"], gpu["compute_cap"]):
            raise Failed(f"the programs in {check.build} are for CUDA architectures {manifest['architectures']}, the "
                         f"{gpu['name']} has {gpu['compute_cap']}: build for it, or here with --compile")
    if not check.rehearses and not manifest["starpu_has_cuda"]:
        raise Failed("the StarPU that was carried was built without CUDA: pack one with CUDA, tools/carry --starpu")
    for program in manifest["programs"]:
        output = stage.run("ldd", check.build / program)
        lacks = re.findall(r"^\s*(\S+) => not found", output, re.MULTILINE)
        lacks += re.findall(r"version `(\S+)' not found", stage.log.read_text(encoding="utf-8", errors="replace"))
        if lacks:
            raise Failed(f"{program} lacks {', '.join(sorted(set(lacks)))} on this machine: name the folder that has "
                         "it in LD_LIBRARY_PATH, or build here with --compile")
    return {"mpi": manifest["mpi"], "warnings": 0, "carried": manifest["architectures"]}
