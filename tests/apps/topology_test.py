#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks take their cores from the launcher, or divide the node."""

import json
import os
import subprocess
import unittest

from harness import APPS, PATIENCE, AppTest, environment, program

CORES = sorted(os.sched_getaffinity(0))


class Topology(AppTest):
    def bound(self, *command):
        """Runs a command on one core only."""
        return subprocess.run(["taskset", "-c", str(CORES[-1]), *map(str, command)],
                              cwd=self.folder, text=True, capture_output=True, timeout=PATIENCE,
                              env=environment())

    def test_one_line_for_a_rank_alone(self):
        result = program("train_gpt", "--print-topology", cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("\n"), 1)
        self.assertIn("rank 0 of 1 on ", result.stdout)
        self.assertIn("alone on the node", result.stdout)

    def test_ranks_that_are_not_bound_divide_the_node(self):
        if not os.environ["DOS_MPIEXEC"]:
            self.skipTest("built without MPI")
        result = subprocess.run(
            [os.environ["DOS_MPIEXEC"], "-n", "2", APPS / "train_gpt", "--print-topology"],
            cwd=self.folder, text=True, capture_output=True, timeout=PATIENCE, env=environment())
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [line for line in result.stdout.splitlines() if line.startswith("rank")]
        self.assertEqual([line[:11] for line in lines], ["rank 0 of 2", "rank 1 of 2"])
        self.assertIn("divided among the node's ranks", lines[1])
        cores = [line.partition("cores ")[2].split()[0] for line in lines]
        if len(CORES) > 1:
            self.assertNotEqual(*cores)
        else:
            self.assertIn("2 ranks share 1 core", result.stdout)

    def test_a_bound_process_uses_its_cores_only(self):
        printed = self.bound(APPS / "train_gpt", "--print-topology")
        self.assertEqual(printed.returncode, 0, printed.stderr)
        self.assertIn("(1 for workers)", printed.stdout)
        keys = {"data.path": self.shared / "data", "model.preset": "tiny", "model.context": 16,
                "train.batch": 2, "train.steps": 2, "train.validate_every": 0}
        words = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
        trained = self.bound(APPS / "train_gpt", *words, "--out", self.out)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        run = json.loads((self.out / "run.json").read_text())
        self.assertEqual(run["runtime"]["cpu_workers"], 1)
        self.assertIn("rank 0 of 1", run["placement"])

    def test_more_workers_than_bound_cores_are_refused(self):
        if len(CORES) == 1:
            self.skipTest("this machine has one core: a process cannot be bound to a part of it")
        result = self.bound(APPS / "train_gpt", "--set", f"data.path={self.shared / 'data'}", "--set",
                            "model.preset=tiny", "--set", "train.workers=2", "--out", self.out)
        self.expect_error(result, "train.workers = 2, but this rank is bound to 1 cores", "lower it")
        self.expect_nothing_written()


if __name__ == "__main__":
    unittest.main()
