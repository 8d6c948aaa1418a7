# SPDX-License-Identifier: Apache-2.0
"""Objects of one build whose sources no target of other builds has compiled, with the same definitions; one a line.

tools/check has clang read for its warnings what the parts asan and tsan, with the same clang and warnings, have not
compiled."""

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
    parser.add_argument("others", nargs="+", metavar="OTHER:TARGET", help="another build, and what it has built")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    read = {}
    for other in arguments.others:
        folder, target = other.rsplit(":", 1)
        there = compiled(Path(folder).resolve())
        for name in ninja(folder, "inputs", target).splitlines():
            if name in there:
                read.setdefault(name, []).append(there[name])
    for name, what in compiled(build).items():
        if what not in read.get(name, []):
            print(name)


if __name__ == "__main__":
    main()
