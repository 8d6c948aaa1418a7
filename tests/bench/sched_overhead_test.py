#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sched_overhead says what is wrong before its table begins; a policy that starts with wrong
variables ends the program with one line, status 1 and no core."""

import os
import subprocess
import unittest

SMALL = ("--tasks", "100", "--rounds", "1")


def run(program, *arguments, **variables):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("STARPU_SCHED", "DOS_SCHED"))}
    return subprocess.run([os.environ[program], *arguments], env=env | variables, text=True,
                          capture_output=True, timeout=120)


class SchedOverhead(unittest.TestCase):
    def expect_error(self, result, *parts):
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_a_table(self):
        result = run("DOS_OVERHEAD", *SMALL, "--schedulers", "dos", "lws",
                     DOS_SCHED_SHARE="0.5")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), 4)
        self.assertIn("100 pending updates", lines[0])
        self.assertEqual([line.split()[0] for line in lines[1:]], ["scheduler", "dos", "lws"])

    def test_errors_come_before_the_table(self):
        self.expect_error(run("DOS_OVERHEAD", *SMALL, "--schedulers", "lws", "doss"),
                          "sched_overhead: error: unknown scheduler 'doss' (did you mean 'dos'?)")
        self.expect_error(run("DOS_OVERHEAD", *SMALL, "--schedulers", "dos",
                              STARPU_SCHED="lws"), "STARPU_SCHED=lws: unset one of them")
        self.expect_error(run("DOS_OVERHEAD", "--tasks", "0"), "--tasks 0")

    def test_variables(self):
        for program, before in (("DOS_OVERHEAD", "sched_overhead: error: "),
                                ("DOS_GRAPHS", "error: scheduler, init: ")):
            with self.subTest(program):
                arguments = ("--schedulers", "dos", "--rounds", "1")
                self.expect_error(
                    run(program, *arguments, DOS_SCHED_SHARE="8"),
                    f"{before}DOS_SCHED_SHARE=8: must be a number from 0 to 1; change or unset it")
                self.expect_error(run(program, *arguments, DOS_SCHED_STIDE="2"),
                                  f"{before}DOS_SCHED_STIDE=2: unknown variable (did you mean "
                                  "'DOS_SCHED_STRIDE'?)", "rename or unset it")


if __name__ == "__main__":
    unittest.main()
