#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every option and key of every program with values at and beyond what a number, a word or a type can be."""

import os
import re
import resource
import signal
import subprocess
import sys
import unittest
from functools import cache
from pathlib import Path

from campaign import MisuseTest
from harness import APPS, TINY, environment, settings

PLOT_METRICS = Path(__file__).resolve().parents[2] / "tools" / "plot_metrics"
VALUES = ["0", "-1", "1", "2", "3", "7", "2147483647", "2147483648", "4294967296", "4611686018427387904",
          "9223372036854775807", "9223372036854775808", "18446744073709551616", "1e308", "-1e308", "1e-300", "1e9",
          "0.5", "1e-9", "nan", "inf", "-inf", "", " ", "x", "x" * 100_000, "true", "[1]", "{}", "\\", "\n", "é", "\x7f",
          "../x", "/proc", "/proc/self/mem", "0x10", "1_000", "1 2", "1,2", "--help", "%s%n", "{0}", "last", "auto", "1:2", "2:1"]
TOML = ["0", "-1", "2.5", "9223372036854775807", "9223372036854775808", "1e308", "nan", "-inf", '""', '"x"', "true",
        "[]", "[1, 2]", "{}", "{ a = 1 }", "1979-05-27", "'''\n'''", "0x7fffffffffffffff", '"' + "y" * 100_000 + '"',
        "[[[[[[]]]]]]", "", "=", '"\\u0000"']
# What each program needs beside the options that are tried, and that ends within seconds.
USES = {
    "train_gpt": ["{train}", "--out", "{out}", "--quiet"],
    "generate": ["{run}", "--tokens", "2", "--prompt", "to"],
    "prepare_data": ["--tokenizer", "bytes", "--output", "{out}", "{text}"],
    "plan": ["--machine", "h100", "--model", "small-3m"],
    "calibrate": ["--quick", "--allow-noise", "--workers", "1", "--output", "{out}", "--subgroup-params", "1000"],
    "report": ["{trace}", "--json"],
    "plot_metrics": ["{run}", "--output", "{out}"],
}
TAKES_LONG = {"calibrate"}  # some seconds where its values are good
SECONDS = 20  # on a machine with other work; a program answers within one, or trains or measures within ten


def command(name):
    return [sys.executable, str(PLOT_METRICS)] if name == "plot_metrics" else [str(APPS / name)]


@cache
def help_of(name):
    return subprocess.run([*command(name), "--help"], text=True, capture_output=True, check=True, timeout=60).stdout


def options_of(name):
    """The options that take a value."""
    found = re.findall(r"^  (?:-\w, ?|-\w [A-Z_]+, )?(--[a-z][a-z-]+)[ =]\[?(?:TEXT|INT|UINT|FLOAT|[A-Z_]+)\b", help_of(name),
                       re.MULTILINE)
    return [option for option in found if option != "--help"]


def keys_of(name):
    return re.findall(r"^  ((?:model|data|train|optim|sched|dist)\.[a-z_0-9]+) ", help_of(name), re.MULTILINE)


class Values(MisuseTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls("test_options")
        case.folder, case.out = cls.shared, cls.shared / "run"
        case.trained("--quiet", "--trace", cls.shared / "trace", keys={"train.steps": 2, "train.validate_every": 0})

    def arguments(self, name, number, keys=None):
        chosen = {"data.path": self.shared / "data"} | TINY | {"train.steps": 2, "train.validate_every": 0} | (keys or {})
        places = {"run": self.shared / "run", "trace": self.shared / "trace", "text": self.shared / "corpus.txt",
                  "out": self.folder / f"out{number}"}
        return [word for part in USES[name]
                for word in (settings(chosen) if part == "{train}" else [part.format(**places)])]

    def expect_answer(self, name, arguments):
        """Within seconds it works or says in one line why not. A run may be long: then it ends when it is asked to."""
        process = subprocess.Popen([*command(name), *arguments], cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, errors="replace", env=environment(STARPU_SILENT="1"),
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30)))
        self.addCleanup(process.kill)
        try:
            _, errors = process.communicate(timeout=SECONDS / 4)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            try:
                _, errors = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                self.fail(f"no answer within {SECONDS} s")
            self.assertIn(process.returncode, (0, 1, -signal.SIGTERM), errors[-2000:])
        for word in ("contract violated", "internal error", "terminate called", "Traceback", "Assertion", "[starpu]"):
            self.assertNotIn(word, errors[-5000:])
        if process.returncode in (0, -signal.SIGTERM):
            return
        # Python's argparse ends with 2.
        self.assertIn(process.returncode, (1, 2) if name == "plot_metrics" else (1,), errors[-2000:])
        lines = [line for line in errors.splitlines() if line.startswith(f"{name}: ")]
        self.assertEqual(len(lines), 1 if name != "prepare_data" else len(lines), errors[-2000:])
        self.assertLess(len(errors), 5000, "the value is not cut short")

    def test_options(self):
        """a drawn value for a drawn option of a drawn program: it works, or one error"""
        tried = [(name, option) for name in USES for option in options_of(name)]
        self.assertGreater(len(tried), 40)
        for number in self.attempts(60):
            name, option = self.random.choice(tried)
            value = self.random.choice(VALUES).replace("\0", "")
            with self.attempt(program=name, option=option, value=value[:40]):
                self.expect_answer(name, [*self.arguments(name, number), option, value])

    def test_keys(self):
        """a drawn value for one or two drawn keys of train_gpt or plan: it works, or one error"""
        for number in self.attempts(60):
            name = self.random.choice(("train_gpt", "train_gpt", "plan"))
            keys = {self.random.choice(keys_of(name)): self.random.choice(VALUES)
                    for _ in range(self.random.choice((1, 1, 2)))}
            with self.attempt(program=name, keys={key: value[:40] for key, value in keys.items()}):
                self.expect_answer(name, [*self.arguments(name, number), *settings(keys)])

    def test_files(self):
        """a drawn value of any type for a drawn key of a configuration file: it works, or one error"""
        for number in self.attempts(30):
            section, key = self.random.choice(keys_of("train_gpt")).split(".")
            value = self.random.choice(TOML)
            file = self.folder / f"config{number}.toml"
            file.write_text(f"[{section}]\n{key} = {value}\n", encoding="utf-8")
            name = self.random.choice(("train_gpt", "plan"))
            with self.attempt(program=name, key=key, section=section, value=value[:40]):
                more = ["--config", str(file)] if name == "train_gpt" else ["--machine", "h100", "--model", str(file)]
                kept = self.arguments(name, number) if name == "train_gpt" else []
                # The command line counts more than the file.
                place = f"{section}.{key}="
                kept = [word for i, word in enumerate(kept) if not word.startswith(place) and
                        not (word == "--set" and kept[i + 1].startswith(place))]
                self.expect_answer(name, [*kept, *more])


if __name__ == "__main__":
    unittest.main()
