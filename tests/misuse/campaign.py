# SPDX-License-Identifier: Apache-2.0
"""Misuse that is tried many times over, with what is varied drawn from a seed, and counted.

DOS_MISUSE_ROUNDS multiplies the attempts (1 in CTest; tools/misuse asks for more), DOS_MISUSE_SEED draws others,
DOS_MISUSE_RESULTS names a file that receives a line of JSON for each kind of misuse: what, tried, failed."""

import contextlib
import json
import os
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "apps"))
from harness import AppTest  # noqa: E402  (found through the path above)

ROUNDS = int(os.environ.get("DOS_MISUSE_ROUNDS", "1"))
SEED = int(os.environ.get("DOS_MISUSE_SEED", "1"))
RESULTS = os.environ.get("DOS_MISUSE_RESULTS")


class MisuseTest(AppTest):
    """Each test tries one kind of misuse, named by the first line of its docstring."""

    def setUp(self):
        super().setUp()
        self.tried, self.failed = 0, []
        self.random = random.Random(f"{SEED} {self.id()}")
        self.addCleanup(self.report)

    def attempts(self, count):
        """0, 1, ... for `count` attempts, as many times as there are rounds."""
        return range(count * ROUNDS)

    @contextlib.contextmanager
    def attempt(self, **what):
        """One attempt, described by `what`. A failed assertion fails the test, after the other attempts."""
        self.tried += 1
        with self.subTest(**what):
            try:
                yield
            except AssertionError:
                self.failed.append(what)
                raise

    def expect_run_or_one_error(self, result, name="train_gpt"):
        """No crash, no hang: it works, or one line says what is wrong."""
        if result.returncode != 0:
            self.expect_error(result, name=name, more_lines=" available" in result.stderr)

    def expect_no_run_without_a_checkpoint(self):
        if self.out.exists():
            self.assertTrue(self.checkpoint().exists())

    def report(self):
        if RESULTS:
            with open(RESULTS, "a", encoding="utf-8") as file:
                file.write(json.dumps({"test": self.id(), "what": self.shortDescription(),
                                       "tried": self.tried, "failed": len(self.failed)}) + "\n")
        self.assertGreater(self.tried, 0, "nothing was tried")
