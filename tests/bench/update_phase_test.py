#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong input ends update_phase with one line that names value, place and remedy."""

import unittest

from phase_harness import phase

SMALL = ("--params", "160M", "--subgroup", "16M")


class Errors(unittest.TestCase):
    def expect_error(self, arguments, *parts):
        with self.subTest(str(arguments)):
            result = phase(*arguments)
            self.assertEqual(result.returncode, 1, result.stdout)
            self.assertEqual(result.stdout, "")
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            for part in ("update_phase: error: ", *parts):
                self.assertIn(part, result.stderr)

    def test_machine(self):
        self.expect_error(("--machine", "h10", *SMALL), "'h10'", "did you mean 'h100'")
        self.expect_error(("--machine", "h100", "--gpus", 3, *SMALL), "--gpus 3", "h100-4x has 4")
        self.expect_error(("--machine", "nowhere.toml", *SMALL), "nowhere.toml")

    def test_numbers(self):
        for option, value in (("--params", "0"), ("--params", "-5"), ("--params", "many"),
                              ("--subgroup", "-1"), ("--gpu-memory", "0"), ("--gpus", "0"),
                              ("--steps", "0"), ("--stride", "0"), ("--share", "1.5"),
                              ("--window", "0"), ("--slow-gpu", "0.5"), ("--slow-worker", "-2")):
            name = option if option in ("--params", "--subgroup", "--gpu-memory", "--gpus",
                                        "--steps", "--slow-gpu",
                                        "--slow-worker") else option.strip("-")
            self.expect_error(("--machine", "h100", f"{option}={value}"), name, value)

    def test_memory(self):
        self.expect_error(("--machine", "h100", *SMALL, "--gpu-memory", "0.1"), "0.1 GB",
                          "16000000 parameters", "0.192 GB", "--subgroup")

    def test_window(self):
        self.expect_error(("--machine", "h100", *SMALL, "--gpu-memory", 2, "--window", "1000000"),
                          "--window 1000000: ", "0.192 GB", "2 GB", "at most 10 fit")

    def test_options_of_other_policies(self):
        for policy, option, value in (("dmdas", "--share", "0.5"), ("gpu-only", "--share", "0.5"),
                                      ("twinflow", "--stride", "2"), ("zero-offload", "--window", "2")):
            self.expect_error(("--machine", "h100", *SMALL, "--policy", policy, option, value),
                              f"{option} {value}: policy {policy} does not read it", "choose dos")

    def test_policy(self):
        # Names of StarPU's own policies are StarPU's to judge, which only SimGrid can start here.
        result = phase("--machine", "h100", *SMALL, "--policy", "doz", "--gpu-memory", 1)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, "unknown scheduler 'doz'.*did you mean 'dos'|has no SimGrid")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)


if __name__ == "__main__":
    unittest.main()
