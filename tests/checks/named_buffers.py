# SPDX-License-Identifier: Apache-2.0
"""Fails when a codelet takes a buffer by a literal index instead of its name (codelets/buffers.hpp).

Usage: named_buffers.py ROOT
"""
import os
import re
import sys

import tree

INDEX = r"\s*\d"
BY_INDEX = re.compile(
    rf"\b\w*(?:buffers|handles|interfaces|INTERFACES)\w*\[{INDEX}"
    rf"|\bSTARPU_\w+\(\s*\w+\[{INDEX}"
    rf"|\bpointer<[^;()]*>\({INDEX}"
    rf"|\b(?:add_buffer|opencl_memory|count|address|mode)\({INDEX}")


def errors_of(root, name):
    with open(os.path.join(root, name), encoding="utf-8") as file:
        return [f"{name}:{number}: a buffer by its index: give it a name in Buffers "
                "(docs/adding/codelet.md)"
                for number, line in enumerate(file, start=1) if BY_INDEX.search(line)]


def main():
    root = sys.argv[1]
    names = [n for n in tree.source_files(root) if n.startswith("codelets/") and tree.is_cpp(n)]
    tree.finish([e for n in names for e in errors_of(root, n)], len(names), "C++ files")


if __name__ == "__main__":
    main()
