#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libstarpu_dos.so under a program that was built without it: policies by name, settings from the
environment, errors, and what the library shows."""

import argparse
import os
import subprocess
import sys
import unittest

POLICIES = ["dos", "dos-stride", "zero-offload", "twinflow", "gpu-only"]
parser = argparse.ArgumentParser()
parser.add_argument("--starpu", required=True)
parser.add_argument("--program")
parser.add_argument("--plugin")
parser.add_argument("--nm")
arguments, rest = parser.parse_known_args()


def run(**variables):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("STARPU_SCHED", "DOS_SCHED"))}
    env |= {"STARPU_SCHED_LIB": arguments.plugin, "STARPU_NCPU": "2", "STARPU_NOPENCL": "0",
            "STARPU_NCUDA": "0"} | variables
    return subprocess.run([arguments.program], env=env, capture_output=True, text=True, timeout=60)


class Plugin(unittest.TestCase):
    def expect_run(self, policy, **variables):
        result = run(STARPU_SCHED=policy, **variables)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.split("\n")[:2], [f"policy {policy}", "ok"])

    def expect_error(self, *words, **variables):
        result = run(**variables)
        self.assertEqual(result.returncode, 1, result.stderr)
        errors = [line for line in result.stderr.split("\n") if "error" in line]
        self.assertEqual(len(errors), 1, result.stderr)
        for word in words:
            self.assertIn(word, errors[0])
        self.assertNotIn("ok", result.stdout)

    def test_every_policy(self):
        for policy in POLICIES:
            self.expect_run(policy)

    def test_tasks_of_its_own_as_updates(self):
        for policy in POLICIES:
            self.expect_run(policy, DOS_SCHED_UPDATE_PREFIX="plain_", DOS_SCHED_SHARE="0.5",
                            DOS_SCHED_WINDOW="2", DOS_SCHED_RESIDENTS="0")

    def test_policies_of_starpu_stay(self):
        for policy in ["lws", "dmdas", "eager"]:
            self.expect_run(policy)

    def test_an_unknown_policy(self):
        self.expect_error("no policy 'doss' (did you mean 'dos'?)", "zero-offload", "lws",
                          STARPU_SCHED="doss")

    def test_wrong_settings(self):
        self.expect_error("DOS_SCHED_SHARE=half", "0 to 1", STARPU_SCHED="dos", DOS_SCHED_SHARE="half")
        self.expect_error("DOS_SCHED_RESIDENTS=2", "0 or 1", STARPU_SCHED="dos",
                          DOS_SCHED_RESIDENTS="2")
        self.expect_error("DOS_SCHED_STRIDE=2", "not both", STARPU_SCHED="dos", DOS_SCHED_STRIDE="2", DOS_SCHED_SHARE="0.5")
        self.expect_error("DOS_SCHED_STRIDE=0", "at least 1", STARPU_SCHED="dos-stride",
                          DOS_SCHED_STRIDE="0")
        self.expect_error("DOS_SCHED_STIDE=2", "did you mean 'DOS_SCHED_STRIDE'?", STARPU_SCHED="dos",
                          DOS_SCHED_STIDE="2")

    def test_help_lists_the_policies(self):
        result = run(STARPU_SCHED="help")
        for policy in POLICIES:
            self.assertRegex(result.stderr, rf"(?m)^{policy} ")

    def test_shows_two_symbols(self):
        output = subprocess.run([arguments.nm, "-D", "--defined-only", arguments.plugin], check=True,
                                capture_output=True, text=True).stdout
        self.assertEqual(sorted(line.split()[-1] for line in output.splitlines()),
                         ["starpu_get_sched_lib_policies", "starpu_get_sched_lib_policy"])


if __name__ == "__main__":
    if arguments.program is None:
        print(f"skipped: StarPU {arguments.starpu} has no STARPU_SCHED_LIB, 1.4 has")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *rest])
