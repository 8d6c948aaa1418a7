#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package on an empty Debian 12: installed, used by somebody, removed, and nothing is left. Takes minutes, so CMake
registers it with -DDOS_TEST_CHROOT=ON only. Exit status 77: skipped."""

import subprocess
import sys
import unittest
from pathlib import Path

from chroot import NAME, TRAIN, Chroot, reason_to_skip
from prefix import BUILD, CMAKE

# What apt, dpkg, the dynamic linker and other packages' users and groups leave.
KEPT = ("var/lib/", "var/log/", "var/cache/", "etc/ld.so.cache", "etc/gshadow-", "run/", "tmp/", "proc/", "dev/", "work/", "package/")
# Behind the steps that quickstart records.
STEPS = 120


class ChrootTest(unittest.TestCase):
    def setUp(self):
        self.system = Chroot()
        self.addCleanup(self.system.remove)
        self.root = self.system.root

    def files(self):
        found = {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_symlink() or not path.is_dir()}
        return {name for name in found if not name.startswith(KEPT)}

    def test_install_use_remove(self):
        before = self.files()
        subprocess.run([Path(CMAKE).parent / "cpack", "--config", BUILD / "CPackConfig.cmake", "-B", self.root / "package"],
                       check=True, capture_output=True)
        package, = (self.root / "package").glob("*.deb")
        self.system.run("apt-get", "update")
        self.system.run("apt-get", "install", "-y", "--no-install-recommends", f"/package/{package.name}")
        self.assertIn(f"opt/{NAME}/bin/train_gpt", self.files())
        for program in (self.root / "opt" / NAME / "bin").iterdir():
            self.system.run(f"/opt/{NAME}/bin/{program.name}", "--version")
        self.system.run("bash", "-c", TRAIN, user="nobody")
        self.quickstart()
        self.system.run("apt-get", "purge", "-y", "--autoremove", NAME)
        self.assertEqual(self.files() - before, set())
        self.assertFalse((self.root / "opt" / NAME).exists())

    def quickstart(self):
        """As docs/install.md calls it, with fewer steps."""
        configuration = self.root / "opt" / NAME / "share" / NAME / "configs/quickstart.toml"
        text = configuration.read_text(encoding="utf-8")
        self.assertIn("\nsteps = 3500\n", text)
        configuration.write_text(text.replace("\nsteps = 3500\n", f"\nsteps = {STEPS}\n"), encoding="utf-8")
        told = self.system.run("bash", "-c", "mkdir ~/first && cd ~/first && deep-optimizer-states quickstart", user="nobody")
        self.assertIn(f"of {STEPS} steps", told)
        self.assertIn("She was not at all surprised", told)
        self.assertTrue((self.root / "work/first/runs/quickstart-trace/report.html").exists())


if __name__ == "__main__":
    if reason := reason_to_skip():
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
