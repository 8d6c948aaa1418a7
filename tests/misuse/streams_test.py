#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Standard streams that are closed, full, or go with their terminal, and files that may not grow."""

import fcntl
import os
import resource
import signal
import subprocess
import termios
import time
import unittest

from campaign import MisuseTest
from harness import APPS, PATIENCE, PROGRAMS, TINY, environment, program, settings

KEYS = {"train.steps": 60, "train.validate_every": 0, "train.log_every": 1}


class Streams(MisuseTest):
    def begin(self, keys=None, **streams):
        chosen = {"data.path": self.shared / "data"} | TINY | KEYS | (keys or {})
        process = subprocess.Popen([str(APPS / "train_gpt"), *settings(chosen), "--out", str(self.out)], cwd=self.folder,
                                   env=environment(), **streams)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def expect_checkpoint(self, steps=None):
        """Of the last step that was made."""
        made = self.metrics()[-1]["step"]
        self.assertEqual(made, steps or made)
        self.assertEqual(self.last(self.out), made)

    def closed(self, *descriptors):
        """Options for a process without these."""
        return {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL,
                "preexec_fn": lambda: [os.close(each) for each in descriptors]}

    def test_a_run_without_them(self):
        """standard error, or both streams, closed or full: the run ends with its checkpoint"""
        with open("/dev/full", "w", encoding="utf-8") as full:
            streams = ({"stdout": subprocess.DEVNULL, "stderr": full}, {"stdout": full, "stderr": full},
                       self.closed(2), self.closed(1, 2), self.closed(0, 1, 2))
            for number in self.attempts(len(streams)):
                kind = number % len(streams)
                self.out = self.folder / f"out{number}"
                with self.attempt(number=number, kind=kind):
                    # A result that nobody got is an error.
                    self.assertEqual(self.begin(**streams[kind]).wait(60), int(kind in (1, 3, 4)))
                    self.expect_checkpoint(KEYS["train.steps"])

    def test_readers_that_leave(self):
        """a pipe whose reader ends after some lines: the run ends with its checkpoint"""
        for number in self.attempts(3):
            lines = self.random.randint(0, 10)
            self.out = self.folder / f"out{number}"
            with self.attempt(number=number, lines=lines):
                process = self.begin(stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                for _ in range(lines):
                    process.stdout.readline()
                process.stdout.close()
                self.assertEqual(process.wait(60), 1)
                self.expect_checkpoint(KEYS["train.steps"])

    def test_terminals_that_go(self):
        """a terminal that is closed: the run stops with a checkpoint"""
        for number in self.attempts(3):
            steps = self.random.randint(1, 20)
            self.out = self.folder / f"out{number}"
            with self.attempt(number=number, steps=steps):
                master, terminal = os.openpty()
                process = self.begin({"train.steps": 100_000}, stdin=terminal, stdout=terminal, stderr=terminal,
                                     start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
                os.close(terminal)
                said = b""
                while said.count(b"loss") < steps:
                    self.assertIsNone(process.poll(), said)
                    said += os.read(master, 10_000)
                os.close(master)
                self.assertEqual(process.wait(60), 1)
                self.expect_checkpoint()

    def test_terminals_of_other_programs_that_go(self):
        """the terminal of a long evaluate, calibrate or plan goes: it ends, unless under nohup"""
        self.trained("--quiet", keys={"train.steps": 2, "train.validate_every": 0})
        (self.folder / "long.txt").write_text("to be or not to be\n" * 200_000)
        calls = (("evaluate", self.out, "--text", "long.txt", "--context", 1), ("calibrate", "--output", "machine.toml"),
                 ("plan", "--scaling"))
        for number in self.attempts(2 * len(calls)):
            name, *arguments = calls[number % len(calls)]
            ignores = number >= len(calls)
            with self.attempt(name=name, ignores=ignores):
                process = subprocess.Popen(
                    [str(APPS / name), *map(str, arguments)], cwd=self.folder, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL, env=environment(),
                    preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN if ignores else signal.SIG_DFL))
                self.addCleanup(process.kill)
                time.sleep(self.random.uniform(0.5, 1))
                self.assertIsNone(process.poll())
                process.send_signal(signal.SIGHUP)
                time.sleep(2)
                self.assertEqual(process.poll(), None if ignores else -signal.SIGHUP)
                process.kill()
                process.wait()

    def test_results_that_cannot_be_written(self):
        """--help, --version, --describe and results into a full device: one error"""
        self.trained("--quiet", "--trace", "trace", keys={"train.steps": 2, "train.validate_every": 0})
        calls = [(name, option) for name in PROGRAMS for option in ("--help", "--version", "--describe")]
        calls += [("plan", "--machine", "h100-4x", "--model", "small-3m"), ("checkpoints", self.out), ("report", "trace"),
                  ("evaluate", self.out, "--data", self.shared / "data"), ("train_gpt", "--print-config"),
                  ("generate", self.out, "--prompt", "to", "--tokens", "2"), ("report", "trace", "--json")]
        for number in self.attempts(len(calls)):
            name, *arguments = calls[number % len(calls)]
            with self.attempt(name=name, arguments=arguments), open("/dev/full", "w", encoding="utf-8") as full:
                result = subprocess.run([str(APPS / name), *map(str, arguments)], cwd=self.folder, stdout=full, text=True,
                                        stderr=subprocess.PIPE, env=environment(), timeout=PATIENCE, check=False)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn(f"{name}: error: standard output: cannot write: No space left on device\n", result.stderr)

    def test_errors_that_cannot_be_written(self):
        """an error line into a full or closed standard error: status 1 all the same"""
        for number in self.attempts(2 * len(PROGRAMS)):
            name = PROGRAMS[number % len(PROGRAMS)]
            wrong = self.random.choice((("--no-such-option",), ("nowhere", "nowhere"), ("--set", "x=1"), ("--json", "--output", "")))
            closes = number >= len(PROGRAMS)
            with self.attempt(name=name, wrong=wrong, closes=closes), open("/dev/full", "w", encoding="utf-8") as full:
                streams = self.closed(2) if closes else {"stdout": subprocess.DEVNULL, "stderr": full}
                result = subprocess.run([str(APPS / name), *wrong], cwd=self.folder, env=environment(), timeout=PATIENCE, check=False,
                                        **streams)
                self.assertEqual(result.returncode, 1)

    def test_files_that_may_not_grow(self):
        """ulimit -f between 1 kB and 64 MB: it runs, or one error, and nothing half-written stays"""
        for number in self.attempts(6):
            limit = 1000 * self.random.choice((1, 20, 100) if number % 3 < 2 else (9_000, 15_000, 64_000))
            self.out = self.folder / f"out{number}"
            prepares = number % 3 == 0
            with self.attempt(number=number, limit=limit, prepares=prepares):
                limited = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))}
                if prepares:
                    result = program("prepare_data", "--tokenizer", "bytes", "--output", f"data{number}",
                                     self.shared / "corpus.txt", cwd=self.folder, **limited)
                    self.expect_run_or_one_error(result, name="prepare_data")
                else:
                    result = self.train("--quiet", keys={"train.steps": 2, "train.validate_every": 0, "model.width": 512}, **limited)
                    self.expect_run_or_one_error(result)
                self.assertEqual([path.name for path in self.folder.rglob("*.tmp*")], [])


if __name__ == "__main__":
    unittest.main()
