# SPDX-License-Identifier: Apache-2.0
"""Objects of one build whose sources another build's targets have not compiled, with the same definitions; one a line.

tools/check has clang read for its warnings what the part asan, with the same clang and warnings, has not compiled."""

import argparse
import json
import re
import subprocess
from pathlib import Path


def read_sources(file, build):
    """What a source joins (CMAKE_UNITY_BUILD), or the source itself."""
    if "Unity" in file.parts:
        return tuple(re.findall(r'^#include "(.*)"$', file.read_text(encoding="utf-8").replace(f"{build}/", ""), re.MULTILINE))
    # What a build makes is named from its folder.
    return (str(file).replace(f"{build}/", ""),)


def ninja(build, *arguments):
    return subprocess.run(["ninja", "-C", str(build), "-t", *arguments], check=True, text=True, capture_output=True).stdout


def compiled(build):
    """{object: (its sources, its definitions)}, objects as ninja names them."""
    found = {}
    for command in json.loads(ninja(build, "compdb")):
        if command["output"].endswith(".o"):
            definitions = re.findall(r" (-D\S+)", command["command"].replace(str(build), ""))
            found[command["output"]] = (read_sources(build / command["file"], build), definitions)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("targets", nargs="+", help="of the other build")
    arguments = parser.parse_args()
    build, other = arguments.build.resolve(), arguments.other.resolve()
    there = compiled(other)
    read = {name: there[name] for name in ninja(other, "inputs", *arguments.targets).splitlines() if name in there}
    for name, what in compiled(build).items():
        if read.get(name) != what:
            print(name)


if __name__ == "__main__":
    main()
