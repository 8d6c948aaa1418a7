# SPDX-License-Identifier: Apache-2.0
"""Fails when a program of the build tree loads Open MPI: the project is MPICH's, and two MPI
libraries in one process call each other's functions. Debian's StarPU packages depend on Open MPI,
so that a link line taken over from there would bring it in.

Usage: one_mpi.py BUILD_DIR --with-mpich=PROGRAM
"""
import argparse
import os
import subprocess

import tree

OPEN_MPI = ("libmpi.so.40", "libmpi_cxx.so.40", "libopen-rte.so", "libopen-pal.so")


def is_program(path):
    if not os.access(path, os.X_OK) or os.path.islink(path):
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def programs(build):
    for part in ("apps", "bench", "tests"):
        for folder, folders, names in os.walk(os.path.join(build, part)):
            folders[:] = [f for f in folders if f != "CMakeFiles"]
            for name in sorted(names):
                path = os.path.join(folder, name)
                if is_program(path):
                    yield path


def libraries(program):
    result = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    return [line.split()[0] for line in result.stdout.splitlines() if line.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build_dir")
    parser.add_argument("--with-mpich", required=True)
    options = parser.parse_args()
    errors = []
    if not any(name.startswith("libmpich.so") for name in libraries(options.with_mpich)):
        errors.append(f"{options.with_mpich}: does not load MPICH")
    checked = 0
    for program in programs(options.build_dir):
        checked += 1
        foreign = [n for n in libraries(program) if n.startswith(OPEN_MPI)]
        if foreign:
            errors.append(f"{program}: loads {', '.join(foreign)}")
    tree.finish(errors, checked, "programs")


if __name__ == "__main__":
    main()
