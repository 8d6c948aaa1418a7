# SPDX-License-Identifier: Apache-2.0
"""An installed copy of a build folder that was moved and is read-only, and programs of it run by somebody else."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["DOS_SOURCE_DIR"])
BUILD = Path(os.environ["DOS_BINARY_DIR"])
CMAKE = os.environ["DOS_CMAKE"]
NOBODY = 65534
IS_ROOT = os.geteuid() == 0
WRITABLE = 0o222


def install(prefix, build=BUILD):
    made = subprocess.run([CMAKE, "--install", build, "--prefix", prefix], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return prefix


def make_read_only(folder):
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~WRITABLE)


def make_writable(folder):
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)


class PrefixTest(unittest.TestCase):
    """`prefix` was installed elsewhere, moved and made read-only; `work` belongs to who runs its programs: nobody,
    where root tests."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = Path(tempfile.mkdtemp(prefix="dos-install-"))
        cls.scratch.chmod(0o755)
        cls.addClassCleanup(shutil.rmtree, cls.scratch, ignore_errors=True)
        install(cls.scratch / "first")
        cls.prefix = cls.scratch / "moved to" / "prefix"
        cls.prefix.parent.mkdir()
        (cls.scratch / "first").rename(cls.prefix)
        cls.data = cls.prefix / "share" / "deep-optimizer-states"
        make_read_only(cls.prefix)
        cls.addClassCleanup(make_writable, cls.prefix)
        cls.work = cls.scratch / "work"
        cls.work.mkdir()
        if IS_ROOT:
            os.chown(cls.work, NOBODY, NOBODY)

    def run_program(self, *command, status=0, env=None, cwd=None):
        """A program of bin, by somebody who has nothing but `work`; the result when it ends with `status`."""
        somebody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if IS_ROOT else []
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "LANG") if name in os.environ}
        environment = kept | {"HOME": str(self.work), "STARPU_SILENT": "1"} | (env or {})
        result = subprocess.run([*somebody, self.prefix / "bin" / command[0], *map(str, command[1:])], cwd=cwd or self.work,
                                env=environment, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, status, result.stderr)
        return result
