#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package on an empty Debian 12: installed, used by somebody, removed, and nothing is left. Needs root, debootstrap
and a mirror (DOS_DEBIAN_MIRROR); takes minutes, so CMake registers it with -DDOS_TEST_CHROOT=ON only. Exit status 77:
skipped."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from prefix import BUILD, CMAKE

MIRROR = os.environ.get("DOS_DEBIAN_MIRROR", "http://deb.debian.org/debian")
NAME = "deep-optimizer-states"
# What apt, dpkg, the dynamic linker and other packages' users and groups leave.
KEPT = ("var/lib/", "var/log/", "var/cache/", "etc/ld.so.cache", "etc/gshadow-", "run/", "tmp/", "proc/", "dev/", "work/", "package/")
TRAIN = """
set -eu
cd /work
for i in $(seq 60); do echo "to be or not to be, that is the question"; done > corpus.txt
deep-optimizer-states prepare_data --tokenizer bytes --output data corpus.txt
deep-optimizer-states train_gpt --set data.path=data --set model.preset=tiny --set model.layers=1 --set model.width=16 \\
  --set model.heads=2 --set model.context=16 --set train.batch=4 --set train.steps=3 --set train.validate_batches=1 \\
  --set optim.warmup=1 --out run --trace trace --quiet
deep-optimizer-states generate run --prompt to --tokens 5
deep-optimizer-states report trace
deep-optimizer-states export run exported
deep-optimizer-states plan --machine h100 --model llama-7b
"""


class Chroot(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix="dos-chroot-"))
        self.root.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        subprocess.run(["debootstrap", "--variant=minbase", "bookworm", self.root, MIRROR], check=True, capture_output=True)
        (self.root / "work").mkdir()
        (self.root / "work").chmod(0o777)

    def inside(self, *command, user="root"):
        mounted = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot --userspec="$1" "$0" "${@:2}"'
        result = subprocess.run(["unshare", "--mount", "bash", "-c", mounted, self.root, f"{user}:", *command],
                                capture_output=True, text=True, check=False, timeout=900,
                                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/work", "LC_ALL": "C.UTF-8",
                                     "DEBIAN_FRONTEND": "noninteractive", "STARPU_SILENT": "1"})
        self.assertEqual(result.returncode, 0, result.stdout[-2000:] + result.stderr[-2000:])
        return result.stdout

    def files(self):
        found = {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_symlink() or not path.is_dir()}
        return {name for name in found if not name.startswith(KEPT)}

    def test_install_use_remove(self):
        before = self.files()
        subprocess.run([Path(CMAKE).parent / "cpack", "--config", BUILD / "CPackConfig.cmake", "-B", self.root / "package"],
                       check=True, capture_output=True)
        package, = (self.root / "package").glob("*.deb")
        self.inside("apt-get", "update")
        self.inside("apt-get", "install", "-y", "--no-install-recommends", f"/package/{package.name}")
        self.assertIn(f"opt/{NAME}/bin/train_gpt", self.files())
        for program in (self.root / "opt" / NAME / "bin").iterdir():
            self.inside(f"/opt/{NAME}/bin/{program.name}", "--version")
        self.inside("bash", "-c", TRAIN, user="nobody")
        self.inside("apt-get", "purge", "-y", "--autoremove", NAME)
        self.assertEqual(self.files() - before, set())
        self.assertFalse((self.root / "opt" / NAME).exists())


if __name__ == "__main__":
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        print("skipped: needs root and debootstrap")
        sys.exit(77)
    unittest.main()
