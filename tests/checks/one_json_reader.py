# SPDX-License-Identifier: Apache-2.0
"""Fails when a program or library parses JSON by another way than base/json.hpp, which has bounds.

Usage: one_json_reader.py ROOT
"""
import os
import re
import sys

import tree

READER = "src/base/json.cpp"
FOLDERS = ("apps/", "bench/", "codelets/", "perfmodels/", "src/")
PARSES = re.compile(r"json::(?:parse|accept|sax_parse|from_[a-z]+)\s*\(|\bjson::parser\b|>>\s*json\b")


def errors_of(root, name):
    with open(os.path.join(root, name), encoding="utf-8") as file:
        return [f"{name}:{number}: parses JSON without bounds: use base/json.hpp"
                for number, line in enumerate(file, start=1) if PARSES.search(line)]


def main():
    root = sys.argv[1]
    names = [n for n in tree.source_files(root)
             if n.startswith(FOLDERS) and tree.is_cpp(n) and n != READER]
    tree.finish([e for n in names for e in errors_of(root, n)], len(names), "C++ files")


if __name__ == "__main__":
    main()
