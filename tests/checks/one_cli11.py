# SPDX-License-Identifier: Apache-2.0
"""Fails when a file but apps/parser.cpp includes CLI11, whose headers take seconds to compile.

Usage: one_cli11.py ROOT
"""
import os
import re
import sys

import tree

PARSER = "apps/parser.cpp"
INCLUDES = re.compile(r"\s*#\s*include\s*[<\"]CLI/")


def errors_of(root, name):
    with open(os.path.join(root, name), encoding="utf-8") as file:
        return [f"{name}:{number}: includes CLI11: use apps/parser.hpp"
                for number, line in enumerate(file, start=1) if INCLUDES.match(line)]


def main():
    root = sys.argv[1]
    names = [n for n in tree.source_files(root) if tree.is_cpp(n) and n != PARSER]
    tree.finish([e for n in names for e in errors_of(root, n)], len(names), "C++ files")


if __name__ == "__main__":
    main()
