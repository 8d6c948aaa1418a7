#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tools/release on a small repository."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import unittest
from pathlib import Path

from scratch import InScratchFolder

RELEASE = Path(__file__).resolve().parents[2] / "tools" / "release"
CHANGELOG = "# Changelog\n\n## 1.2.0 {}\n\n### Added\n- The new.\n\n## 1.1.0 (2020-01-01)\n\n- The old.\n"
RECIPE = "class A:\n    license()\n    # A version for each release: here.\n    variant()\n"
GIT = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
       "GIT_AUTHOR_DATE": "1700000000 +0000", "GIT_COMMITTER_DATE": "1700000000 +0000", "GIT_CONFIG_GLOBAL": "/dev/null"}


class Release(InScratchFolder):
    def setUp(self):
        super().setUp()
        self.tree = self.folder / "tree"
        self.tree.mkdir()
        self.git("init", "--quiet")
        self.write("VERSION", "1.2.0\n")
        self.write("CHANGELOG.md", CHANGELOG.format("(2023-11-14)"))
        self.write("tool", "#!/bin/sh\n")
        (self.tree / "tools/packaging").mkdir(parents=True)
        self.write("tools/packaging/package.py", RECIPE)
        (self.tree / "tool").chmod(0o755)
        self.commit()

    def git(self, *arguments, cwd=None):
        subprocess.run(["git", *arguments], cwd=cwd or self.tree, check=True, capture_output=True, env=os.environ | GIT)

    def write(self, name, text):
        (self.tree / name).write_text(text, encoding="utf-8")

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "A commit")

    def release(self, *arguments, source=None, env=None):
        return subprocess.run([sys.executable, RELEASE, "--source", source or self.tree, *arguments], cwd=self.folder,
                              capture_output=True, text=True, check=False, env=os.environ | (env or {}))

    def made(self, name, **options):
        result = self.release("--output", name, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return {path.name: path.read_bytes() for path in (self.folder / name).iterdir()}

    def expect_refused(self, *parts, arguments=()):
        result = self.release("--output", "out", *arguments)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertTrue(result.stderr.startswith("release: error: "), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["tree"])

    def test_a_release_is_the_same_everywhere(self):
        first = self.made("first")
        self.assertEqual(sorted(first), ["NOTES.md", "SHA256SUMS", "deep-optimizer-states-1.2.0.tar.gz", "package.py"])
        # Another place, other times of files, another umask, another day.
        self.git("clone", "--quiet", str(self.tree), str(self.folder / "clone"))
        for path in (self.folder / "clone").glob("[!.]*"):
            os.utime(path, (1, 1))
        before = os.umask(0o077)
        self.addCleanup(os.umask, before)
        self.assertEqual(self.made("second", source=self.folder / "clone", env={"TZ": "Asia/Tokyo", "LC_ALL": "C"}), first)

    def test_what_is_in_it(self):
        made = self.made("out")
        subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=self.folder / "out", check=True)
        self.assertEqual(made["NOTES.md"].decode(), "# deep-optimizer-states 1.2.0\n\n### Added\n- The new.\n")
        with tarfile.open(self.folder / "out/deep-optimizer-states-1.2.0.tar.gz") as packed:
            files = {member.name: member for member in packed.getmembers() if member.isfile()}
        top = "deep-optimizer-states-1.2.0"
        self.assertEqual(sorted(files), [f"{top}/CHANGELOG.md", f"{top}/VERSION", f"{top}/tool",
                                         f"{top}/tools/packaging/package.py"])
        self.assertTrue(files[f"{top}/tool"].mode & 0o100)
        self.assertEqual({member.mtime for member in files.values()}, {1700000000})

    def test_its_recipe_names_the_tarball(self):
        made = self.made("out")
        checksum = hashlib.sha256(made["deep-optimizer-states-1.2.0.tar.gz"]).hexdigest()
        self.assertEqual(made["package.py"].decode(),
                         f'class A:\n    license()\n    version("1.2.0", sha256="{checksum}")\n    variant()\n')
        self.write("tools/packaging/package.py", "class A:\n    license()\n")
        self.commit()
        shutil.rmtree(self.folder / "out")
        self.expect_refused("tools/packaging/package.py", "A version for each release")

    def test_another_commit_makes_another_release(self):
        first = self.made("first")
        self.write("tool", "#!/bin/sh\ntrue\n")
        self.commit()
        second = self.made("second")
        self.assertNotEqual(first["SHA256SUMS"], second["SHA256SUMS"])
        self.assertEqual(self.release("--output", "again", "--revision", "HEAD~").returncode, 0)
        self.assertEqual((self.folder / "again/SHA256SUMS").read_bytes(), first["SHA256SUMS"])

    def test_changes_that_are_not_committed_are_refused(self):
        self.write("tool", "other")
        self.expect_refused(str(self.tree), "not committed", "--revision")

    def test_an_unreleased_version_is_refused(self):
        self.write("CHANGELOG.md", CHANGELOG.format("(unreleased)"))
        self.commit()
        self.expect_refused("'## 1.2.0 (unreleased)'", "--draft")
        self.assertEqual(self.release("--output", "draft", "--draft").returncode, 0)

    def test_a_version_without_notes_is_refused(self):
        self.write("VERSION", "1.3.0\n")
        self.commit()
        self.expect_refused("'## 1.3.0'", "say there what is new")

    def test_bad_arguments_are_refused(self):
        self.expect_refused("no-such", arguments=("--revision", "no-such"))
        self.expect_refused("CPackConfig.cmake", "build it first", arguments=("--build", str(self.tree)))
        (self.folder / "tree2").mkdir()
        result = self.release("--output", "tree2")
        self.assertEqual(result.returncode, 1)
        self.assertIn("exists", result.stderr)
        result = self.release("--output", "missing/out")
        self.assertEqual(result.returncode, 1)
        self.assertIn("make it", result.stderr)


if __name__ == "__main__":
    unittest.main()
