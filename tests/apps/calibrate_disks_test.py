#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""calibrate measures disks, beside idle and beside busy CPU workers."""

import json
import unittest

from calibration import CalibrationTest


class CalibrateDisks(CalibrationTest):
    def test_disks(self):
        disk = self.folder / "disk"
        disk.mkdir()
        result = self.calibrate("--disk", f"nvme={disk}:16MB", "--disk", f"other={disk}:8MB")
        if "is memory" in result.stderr or "O_DIRECT" in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(list(disk.iterdir()), [])
        for key in ("read", "read_cpu_busy", "write", "write_cpu_busy", "latency"):
            self.assertRegex(result.stdout, rf"\ntier.nvme.link.{key} +[\d.e+-]+ \S+ +[\d.]+ % +3 ")
        text = self.file.read_text()
        self.assertEqual(text.count("[[tier]]"), 2)
        self.assertIn('name = "other"', text)
        self.assertEqual(text.count(f'folder = "{disk.resolve()}"\n'), 2)
        # A later calibration without them keeps them.
        result = self.calibrate()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.file.read_text().count("[[tier]]"), 2)
        self.assertEqual(self.file.read_text().count("folder = "), 2)
        home = json.loads(self.plan().stdout)["home"]
        self.assertEqual(home["nvme"], 0)

    def test_disks_that_cannot_be_measured(self):
        for disk, parts in (("nvme", ("--disk nvme: write NAME=FOLDER",)),
                            ("nvme=/none/here", ("there is no such folder",)),
                            (f"nvme={self.shared}:12", ("'12' is no size",)),
                            ("CPU=/", ("use lower-case letters",)),
                            ("nvme=/dev/shm", ("is memory",)),
                            (f"nvme={self.shared}:90000TB", ("are free", "smaller size"))):
            with self.subTest(disk):
                self.expect_refused(self.calibrate("--disk", disk), *parts)
        twice = ("--disk", "a=/", "--disk", "a=/")
        self.expect_refused(self.calibrate(*twice), "--disk a=/: another one is called a")


if __name__ == "__main__":
    unittest.main()
