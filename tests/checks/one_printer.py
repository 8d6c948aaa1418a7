# SPDX-License-Identifier: Apache-2.0
"""Fails when a program or library prints by another way than base/streams.hpp, which never throws nor ends the program.

Usage: one_printer.py ROOT
"""
import os
import re
import sys

import tree

PRINTER = "src/base/streams."
FOLDERS = ("apps/", "codelets/", "perfmodels/", "src/")
PRINTS = re.compile(r"\bfmt::print\s*\(|\bstd::(?:cout|cerr|clog|puts|putchar|perror|v?f?printf)\b|\bstd(?:out|err)\b(?!_)")


def errors_of(root, name):
    with open(os.path.join(root, name), encoding="utf-8") as file:
        return [f"{name}:{number}: prints by a way that may throw: use base/streams.hpp"
                for number, line in enumerate(file, start=1)
                if PRINTS.search(line) and not line.lstrip().startswith(("//", "#"))]


def main():
    root = sys.argv[1]
    names = [n for n in tree.source_files(root)
             if n.startswith(FOLDERS) and tree.is_cpp(n) and not n.startswith(PRINTER)]
    tree.finish([e for n in names for e in errors_of(root, n)], len(names), "C++ files")


if __name__ == "__main__":
    main()
