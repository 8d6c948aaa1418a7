# SPDX-License-Identifier: Apache-2.0
"""Fails when a page calls an installed program by a folder of the sources or the build, which readers of a prefix do not have, or
calls `export` without deep-optimizer-states, which runs the shell's own.

Looked at are docs/**/*.md without docs/adr, and slurm/README.md: what is installed. README.md is for the sources.

Usage: docs_commands.py ROOT
"""
import os
import re
import sys

import tree

PROGRAMS = ("apps/CMakeLists.txt", re.compile(r"^dos_install_programs\(([^)]*)\)", re.MULTILINE))
TOOLS = ("cmake/DosInstall.cmake", re.compile(r"^set\(DOS_INSTALLED_TOOLS ([^)]*)\)", re.MULTILINE))
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
SHELLS_EXPORT = re.compile(r"^export (?!\w+=).*", re.MULTILINE)


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8") as file:
        return file.read()


def installed(root):
    """Names of programs and tools."""
    return [name for file, pattern in (PROGRAMS, TOOLS) for name in pattern.search(read(root, file))[1].split()]


def pages(root):
    return [name for name in tree.source_files(root) if name.endswith(".md") and not name.startswith("docs/adr/")
            and (name.startswith("docs/") or name == "slurm/README.md")]


def errors_of(page, text, names):
    called = re.compile(rf"\b(?:build/[\w-]+/apps|tools)/({'|'.join(names)})(?![\w./-])")
    errors = [f"{page}: '{found[0]}': a prefix has no such folder, say {found[1]}" for found in called.finditer(text)]
    lines = (line for block in BLOCK.findall(text) for line in SHELLS_EXPORT.findall(block))
    return errors + [f"{page}: '{line}' is the shell's export: say deep-optimizer-states export" for line in lines]


def main():
    root = sys.argv[1]
    names, looked_at = installed(root), pages(root)
    tree.finish([error for page in looked_at for error in errors_of(page, read(root, page), names)], len(looked_at), "pages")


if __name__ == "__main__":
    main()
