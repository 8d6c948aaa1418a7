# SPDX-License-Identifier: Apache-2.0
"""Fails when a page shows C++ that is not in the file it names, which is compiled and tested.

On these pages every block of C++ follows a line that ends with "`path`:". Its lines stand in that file in
a row, indented as a whole by any width; "// ..." stands for lines that are left out.

Usage: docs_code.py ROOT
"""
import os
import re
import sys
import textwrap

import tree

PAGES = ("docs/adding/codelet.md", "docs/adding/model.md")
NAMED = re.compile(r"`([^`\n]+)`:$")


def parts_of(code):
    """The runs of lines between "// ..."."""
    return [p for p in re.split(r"^[ \t]*// \.\.\.\n", code, flags=re.MULTILINE) if p.strip()]


def stands_in(part, text):
    """Whether the lines of the part stand in a row in the text, whatever the indentation."""
    wanted = textwrap.dedent(part).strip("\n").split("\n")
    lines = text.split("\n")
    for first in range(len(lines) - len(wanted) + 1):
        found = textwrap.dedent("\n".join(lines[first:first + len(wanted)])).split("\n")
        if found == wanted:
            return True
    return False


def blocks_of(text):
    """(the line before, the code) of each block of C++."""
    lines = text.split("\n")
    for start in [i for i, line in enumerate(lines) if line == "```cpp"]:
        before = [line for line in lines[:start] if line.strip()]
        code = lines[start + 1:lines.index("```", start)]
        yield before[-1] if before else "", "\n".join(code) + "\n"


def errors_of(root, page, before, code):
    """Of one block."""
    named = NAMED.search(before)
    if named is None:
        return [f"{page}: no line that ends with `path`: before the block '{code.splitlines()[0]}'"]
    path = os.path.join(root, named[1])
    if not os.path.isfile(path):
        return [f"{page}: '{named[1]}' does not exist"]
    with open(path, encoding="utf-8") as file:
        text = file.read()
    wrong = [p for p in parts_of(code) if not stands_in(p, text)]
    return [f"{page}: not in {named[1]} as it is shown: the lines from "
            f"'{p.strip().splitlines()[0]}' on" for p in wrong]


def main():
    root = sys.argv[1]
    checked, errors = 0, []
    for page in PAGES:
        with open(os.path.join(root, page), encoding="utf-8") as file:
            text = file.read()
        for before, code in blocks_of(text):
            checked += 1
            errors += errors_of(root, page, before, code)
    tree.finish(errors, checked, "blocks of C++")


if __name__ == "__main__":
    main()
