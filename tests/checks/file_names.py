# SPDX-License-Identifier: Apache-2.0
"""Fails when two files of the product have the same name, so that one of them has to be told by its
folder. What may: a layer of src/nn the name of the operation that it submits, and the main file of
a program, which is named by what users type, that of a library's part.

Usage: file_names.py ROOT
"""
import collections
import os
import re
import sys

import tree

PRODUCT = re.compile(r"(src|codelets|apps)/")
MAY_REPEAT = re.compile(r"src/nn/(\w+)\.hpp|apps/\w+\.cpp")


def may_repeat(name, names):
    match = MAY_REPEAT.fullmatch(name)
    if not match:
        return False
    operation = match.group(1)
    return operation is None or f"codelets/{operation}/{operation}.hpp" in names


def main():
    names = [n for n in tree.source_files(sys.argv[1]) if tree.is_cpp(n) and PRODUCT.match(n)]
    places = collections.defaultdict(list)
    for name in names:
        if not may_repeat(name, names):
            places[os.path.basename(name)].append(name)
    errors = [f"{', '.join(same)}: one name for two files: say in it what the file has that the other has not"
              for same in places.values() if len(same) > 1]
    tree.finish(errors, len(names), "C++ files")


if __name__ == "__main__":
    main()
