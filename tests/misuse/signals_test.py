#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Signals at any time, one or several."""

import re
import signal
import time
import unittest
from pathlib import Path

from campaign import MisuseTest

KEYS = {"train.steps": 150, "train.validate_every": 0, "train.checkpoint_every": 40}
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGXCPU)


def is_ready(process):
    """Whether SIGTERM would be held or caught: from before the initialisation of libraries on."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    except OSError:
        return False
    sets = [int(re.search(rf"^{name}:\s*(\w+)", status, re.MULTILINE).group(1), 16) for name in ("SigBlk", "SigCgt")]
    return any(mask >> (signal.SIGTERM - 1) & 1 for mask in sets)


class Signals(MisuseTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.reference = None

    def straight(self):
        """A run that nobody interrupted, and how long it took."""
        if type(self).reference is None:
            begin = time.monotonic()
            self.trained("--quiet", keys=KEYS, out=self.shared / "straight")
            type(self).reference = time.monotonic() - begin
        return type(self).reference

    def interrupt(self, number, draws, wait_until_ready):
        self.out = self.folder / f"out{number}"
        process = self.start(KEYS)
        while wait_until_ready and not is_ready(process):
            self.assertIsNone(process.poll())
        for delay, name in draws:
            time.sleep(delay)
            if process.poll() is None:
                process.send_signal(name)
        _, errors = process.communicate(timeout=60)
        self.assertNotIn("Assertion", errors)
        self.assertNotIn("backtrace", errors.lower())
        return process.returncode, errors

    def expect_resumable(self):
        """The last checkpoint is that of the last step, and resuming ends in the bits of the straight run."""
        if not (self.out / "checkpoints").exists():
            self.fail("no checkpoint")
        steps = [line["step"] for line in self.metrics() if "loss" in line]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))
        self.assertEqual(self.checkpoint().resolve().name, f"step-{len(steps):08}")
        if len(steps) < KEYS["train.steps"]:
            self.resumed("--quiet")
        self.expect_same_state(self.shared / "straight", self.out)

    def test_one_to_three(self):
        """one to three signals within 2 s, at any time from the start of the program on"""
        whole = self.straight()
        for number in self.attempts(6):
            count = self.random.randint(1, 3)
            draws = [(self.random.uniform(0, whole) if i == 0 else self.random.choice((0, 0.001, 0.05, 0.5)),
                      self.random.choice(STOPS)) for i in range(count)]
            with self.attempt(number=number, draws=draws):
                status, errors = self.interrupt(number, draws, wait_until_ready=True)
                self.assertEqual(status, 0, errors)
                self.expect_resumable()

    def test_at_the_start(self):
        """a signal in the first 200 ms: before the program can hold it nothing is written, then it stops as always"""
        self.straight()
        for number in self.attempts(8):
            delay, name = self.random.uniform(0, 0.2), self.random.choice(STOPS)
            holds = number % 2 == 0
            with self.attempt(number=number, delay=delay, name=name, holds=holds):
                status, errors = self.interrupt(number, [(delay, name)], wait_until_ready=holds)
                if not holds and status == -name:
                    self.expect_nothing_written()
                    continue
                self.assertEqual(status, 0, errors)
                self.expect_resumable()

    def test_as_timeout_does(self):
        """two SIGTERM at once, as timeout sends them to the process and to its group"""
        whole = self.straight()
        for number in self.attempts(3):
            draws = [(self.random.uniform(0.3, 1) * whole, signal.SIGTERM), (0, signal.SIGTERM)]
            with self.attempt(number=number, draws=draws):
                status, errors = self.interrupt(number, draws, wait_until_ready=True)
                self.assertEqual(status, 0, errors)
                self.expect_resumable()


if __name__ == "__main__":
    unittest.main()
