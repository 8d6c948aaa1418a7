# SPDX-License-Identifier: Apache-2.0
"""The files of the source tree that the checks look at."""
import os
import subprocess
import sys

SKIPPED_FOLDERS = {".git", "build", "runs", "data", "__pycache__"}
CPP_SUFFIXES = (".cpp", ".hpp", ".cu", ".cuh")


def source_files(root):
    """Tracked files and untracked ones that git does not ignore, relative to `root`, sorted. In a
    tree without git: every file outside folders that hold build outputs."""
    git = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, check=False)
    if git.returncode == 0 and git.stdout:
        names = git.stdout.decode().split("\0")
        return sorted({n for n in names if n and os.path.isfile(os.path.join(root, n))})
    found = []
    for folder, folders, names in os.walk(root):
        inside = os.path.relpath(folder, root)
        folders[:] = [f for f in folders if f not in SKIPPED_FOLDERS or inside != "."]
        found += [os.path.normpath(os.path.join(inside, n)) for n in names]
    return sorted(found)


def is_cpp(name):
    return name.endswith(CPP_SUFFIXES)


def finish(errors, checked, what):
    """Prints the errors and ends: 1 when there are any, or when nothing was looked at."""
    for error in errors:
        print(error)
    print(f"{checked} {what} checked, {len(errors)} errors")
    sys.exit(1 if errors or checked == 0 else 0)
