# SPDX-License-Identifier: Apache-2.0
"""Fails when the documentation names a path of the repository that does not exist.

Looked at are, in README.md, CONTRIBUTING.md, CHANGELOG.md and docs/**/*.md, the targets of links and what
stands in backticks and looks like a path: it starts with a folder or names a file of the root. `*`
matches like a shell's; <placeholders> match anything in their place. Code blocks are left out.

Usage: docs_paths.py ROOT
"""
import glob
import os
import re
import sys

import tree

PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[A-Za-z0-9_.<>*{},-]+(?:/[A-Za-z0-9_.<>*{},-]+)*/?")
OUTPUT_FOLDERS = ("build", "runs", "data")


def alternatives(pattern):
    """`a/{b,c}.x` is a/b.x and a/c.x."""
    braces = re.search(r"\{([^{}]*)\}", pattern)
    if braces is None:
        return [pattern]
    before, after = pattern[:braces.start()], pattern[braces.end():]
    return [p for part in braces.group(1).split(",") for p in alternatives(before + part + after)]


def exists(base, pattern):
    pattern = re.sub(r"<[^<>]*>", "*", pattern)
    return all(glob.glob(os.path.join(base, p)) for p in alternatives(pattern))


def folders_and_files(root):
    """First parts of the repository's paths: folders, and files of the root."""
    names = tree.source_files(root)
    return ({n.split("/")[0] for n in names if "/" in n}, {n for n in names if "/" not in n})


def code_paths(text, folders):
    """What stands in backticks and claims to be a path of the repository."""
    for code in CODE.findall(text):
        # The path of a command line such as `tools/corpus --out X`, and of `src/rt/handle.hpp:12`.
        word = re.sub(r":\d+$", "", code.split()[0].removeprefix("./")) if code.split() else ""
        if not PATH.fullmatch(word):
            continue
        first, slash, _ = word.partition("/")
        if first in OUTPUT_FOLDERS:
            continue
        if slash and first in folders:
            yield word
        elif not slash and re.fullmatch(r"[A-Za-z]+\.(md|txt|json)", word) and word[0].isupper():
            yield word


def link_targets(text):
    for target in LINK.findall(text):
        target = target.split("#")[0]
        if target and "://" not in target and not target.startswith("mailto:"):
            yield target


def errors_of(root, page, folders):
    """(paths looked at, errors) of one page."""
    with open(os.path.join(root, page), encoding="utf-8") as file:
        text = re.sub(r"^```.*?^```", "", file.read(), flags=re.DOTALL | re.MULTILINE)
    here = os.path.join(root, os.path.dirname(page))
    in_code = [(root, p) for p in code_paths(text, folders)]
    in_links = [(here, p) for p in link_targets(text)]
    missing = [p for base, p in in_code + in_links if not exists(base, p)]
    return len(in_code) + len(in_links), [f"{page}: '{p}' does not exist" for p in missing]


def main():
    root = sys.argv[1]
    folders, files = folders_and_files(root)
    pages = [p for p in PAGES if p in files]
    pages += [n for n in tree.source_files(root) if n.startswith("docs/") and n.endswith(".md")]
    if not pages:
        print("skipped: the tree has no documentation")
        sys.exit(77)
    checked, errors = 0, []
    for page in pages:
        looked_at, wrong = errors_of(root, page, folders)
        checked += looked_at
        errors += wrong
    tree.finish(errors, checked, "paths")


if __name__ == "__main__":
    main()
