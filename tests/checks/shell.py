# SPDX-License-Identifier: Apache-2.0
"""Fails when shellcheck finds something in a shell script of the tree (those that start with #! and sh, and .sh
and .env files).

Usage: shell.py ROOT --shellcheck=PROGRAM
"""
import argparse
import os
import re
import subprocess
import sys

import tree

SHELL = re.compile(rb"#!.*\b(ba)?sh\b")
SUFFIXES = (".sh", ".env")


def is_shell(root, name):
    if name.endswith(SUFFIXES):
        return True
    with open(os.path.join(root, name), "rb") as file:
        return SHELL.match(file.readline()) is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root")
    parser.add_argument("--shellcheck", required=True)
    options = parser.parse_args()
    if not options.shellcheck or options.shellcheck.endswith("NOTFOUND"):
        print("skipped: no shellcheck on this machine")
        sys.exit(77)
    files = [name for name in tree.source_files(options.root) if is_shell(options.root, name)]
    result = subprocess.run([options.shellcheck, "--format=gcc", *files], cwd=options.root,
                            capture_output=True, text=True, check=False)
    errors = (result.stdout + result.stderr).splitlines()
    if result.returncode != 0 and not errors:
        errors = [f"shellcheck ended with {result.returncode}"]
    tree.finish(errors, len(files), "shell scripts")


if __name__ == "__main__":
    main()
