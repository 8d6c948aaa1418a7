#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/scaling.py in small: a line for each number of ranks and ZeRO level. DOS_APPS and DOS_MPIEXEC name the
programs."""

import json
import os
import subprocess
import unittest
from pathlib import Path

SCALING = Path(__file__).resolve().parents[2] / "bench" / "scaling.py"


def scaling(*arguments):
    return subprocess.run([SCALING, "--apps", os.environ["DOS_APPS"], "--mpiexec", os.environ["DOS_MPIEXEC"],
                           *map(str, arguments)], text=True, capture_output=True, timeout=280, check=False)


class Scaling(unittest.TestCase):
    def test_every_case_is_timed(self):
        result = scaling("--ranks", "1,2", "--zero", "1,3", "--batch", 1, "--steps", 4, "--warm-up", 1, "--rounds", 2,
                         "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = json.loads(result.stdout)
        self.assertEqual([(row["ranks"], row["zero"]) for row in rows], [(1, 1), (2, 1), (2, 3)])
        self.assertEqual(rows[0]["efficiency"], 1)
        for row in rows:
            self.assertTrue(0 < row["least"] <= row["ms_step"] <= row["most"], row)
            self.assertAlmostEqual(row["efficiency"], rows[0]["ms_step"] / row["ms_step"])

    def test_wrong_options(self):
        for arguments, words in ((("--steps", 5, "--warm-up", 5), ("--steps 5", "--warm-up 5")),
                                 (("--rounds", 0), ("--rounds 0",)),
                                 (("--ranks", "2,x"), ("--ranks", "2,x"))):
            with self.subTest(str(arguments)):
                result = scaling(*arguments)
                self.assertEqual(result.returncode, 2, result.stderr)
                for word in words:
                    self.assertIn(word, result.stderr.splitlines()[-1])
        result = scaling("--ranks", 1, "--preset", "none", "--steps", 2, "--warm-up", 1)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("scaling: error: 1 ranks", result.stderr)


if __name__ == "__main__":
    unittest.main()
