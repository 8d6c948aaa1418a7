# SPDX-License-Identifier: Apache-2.0
"""Fails when a C++ file of the tree is not as clang-format leaves it.

Usage: format.py ROOT --clang-format=PROGRAM
"""
import argparse
import subprocess
import sys

import tree


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root")
    parser.add_argument("--clang-format", required=True)
    options = parser.parse_args()
    if not options.clang_format or options.clang_format.endswith("NOTFOUND"):
        print("skipped: no clang-format-14 on this machine")
        sys.exit(77)
    files = [name for name in tree.source_files(options.root) if tree.is_cpp(name)]
    result = subprocess.run(
        [options.clang_format, "--dry-run", "-Werror", "--style=file", *files],
        cwd=options.root, capture_output=True, text=True, check=False)
    errors = sorted({line.split(":")[0] for line in result.stderr.splitlines()
                     if ": error:" in line})
    if result.returncode != 0 and not errors:
        errors = [result.stderr.strip() or f"clang-format ended with {result.returncode}"]
    tree.finish([f"{e}: run clang-format-14 -i" for e in errors], len(files), "C++ files")


if __name__ == "__main__":
    main()
