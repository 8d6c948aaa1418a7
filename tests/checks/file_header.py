# SPDX-License-Identifier: Apache-2.0
"""Fails when a source file does not start with the SPDX line or is longer than 400 lines.

Usage: file_header.py ROOT
"""
import os
import sys

import tree

LICENCE = "SPDX-License-Identifier: Apache-2.0"
MOST_LINES = 400
HASH_SUFFIXES = (".py", ".sh", ".cmake", ".supp", ".toml", ".yml", ".yaml", ".sbatch", ".env")
HASH_NAMES = ("CMakeLists.txt",)


def comment_mark(name, first_line):
    """How a comment starts in the file, or None for a file that is no source."""
    if tree.is_cpp(name) or name.endswith((".cl", ".hpp.in", ".h.in")):
        return "//"
    if name.endswith(HASH_SUFFIXES) or os.path.basename(name) in HASH_NAMES:
        return "#"
    return "#" if first_line.startswith("#!") else None


def errors_of(root, name):
    """None for a file that is no source, else what is wrong with it."""
    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    mark = comment_mark(name, lines[0] if lines else "")
    if mark is None:
        return None
    errors = []
    start = lines[1:2] if lines and lines[0].startswith("#!") else lines[:1]
    if start != [f"{mark} {LICENCE}"]:
        errors.append(f"{name}: does not start with '{mark} {LICENCE}'")
    if len(lines) > MOST_LINES:
        errors.append(f"{name}: {len(lines)} lines, at most {MOST_LINES} are allowed: split it")
    return errors


def main():
    root = sys.argv[1]
    results = [errors_of(root, name) for name in tree.source_files(root)]
    results = [r for r in results if r is not None]
    tree.finish([e for r in results for e in r], len(results), "source files")


if __name__ == "__main__":
    main()
