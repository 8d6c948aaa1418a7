#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every program with every kind of file and folder that it was not made for: one line of error, whose remedy is one
that this program's user has."""

import re
import struct
import subprocess
import sys
import unittest
from functools import cache
from pathlib import Path

from campaign import MisuseTest
from harness import APPS, PATIENCE, program

TOOLS = Path(__file__).resolve().parents[2] / "tools"
IN_PYTHON = ("plot_metrics", "to_tensorboard")
NAMES = "train_gpt|generate|evaluate|prepare_data|plan|calibrate|report|export"
# What a command line is given in place of what it asks for; {} is where it stands.
COMMANDS = [
    ("generate", "{}"), ("generate", "{run} --checkpoint {}"), ("generate", "{run} --data {}"),
    ("evaluate", "{} --data data"), ("evaluate", "{run} --data {}"), ("evaluate", "{run} --tokens {}"),
    ("report", "{}"), ("report", "--compare {} {trace}"),
    ("train_gpt", "--dry-run --out o --set data.path={}"), ("train_gpt", "--dry-run --out o --config {}"),
    ("train_gpt", "--dry-run --resume --out {}"), ("train_gpt", "--dry-run --out {run} --resume {}"),
    ("prepare_data", "--tokenizer bytes --output p {}"),
    ("prepare_data", "--tokenizer sentencepiece --output p --model {} {text}"),
    ("plan", "--model small-3m --machine {}"), ("plan", "--machine h100 --model {}"),
    ("plan", "--machine h100 --model small-3m --machines {}"), ("plan", "--machine h100 --model hf:{}"),
    ("export", "{} exported"), ("export", "{run} {}"), ("export", "{run} exported --checkpoint {}"),
    ("train_gpt", "--dry-run --out o --set data.path=data --init-from {}"),
    ("plot_metrics", "{}"), ("to_tensorboard", "{} --output events"), ("to_tensorboard", "run --output {}"),
    ("checkpoints", "{}"), ("checkpoints", "{} --verify"), ("checkpoints", "{} --prune"), ("report", "--live {} --once"),
    ("watch_run", "{} --once"),
    ("sampling", "{} --output o"), ("sampling", "h100-4x --output {}"), ("sampling", "--machines {} --output o"),
]


def start(name, *arguments, cwd):
    if name not in IN_PYTHON:
        return program(name, *arguments, cwd=cwd)
    return subprocess.run([sys.executable, str(TOOLS / name), *arguments], cwd=cwd, text=True, capture_output=True,
                          timeout=PATIENCE)


@cache
def help_of(name):
    return start(name, "--help", cwd=APPS).stdout


class WrongPlaces(MisuseTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls("test_wrong_places")
        case.folder, case.out = cls.shared, cls.shared / "run"
        case.trained("--trace", "trace", keys={"train.steps": 2, "train.validate_every": 0})
        (cls.shared / "empty").mkdir()
        (cls.shared / "nothing").write_bytes(b"")
        (cls.shared / "binary").write_bytes(struct.pack("<64d", *range(64)))
        (cls.shared / "dangling").symlink_to("nowhere")
        (cls.shared / "loop").symlink_to("loop")

    def expect_fitting(self, name, message):
        """What it names as a remedy is this program's, or says whose it is."""
        for owner, option in re.findall(rf"(?:\b({NAMES}) )?(?<![\w-])(--[a-z][a-z-]*)", message):
            self.assertIn(option, help_of(owner or name), message)
        for key in re.findall(r"(?<![\w/.])(?!train\.bin)(?:model|data|train|optim|sched|dist)\.[a-z_]{3,}(?![\w/.])", message):
            if not (self.shared / key).exists():
                self.assertIn(key, help_of(name), message)
        if name != "train_gpt":
            self.assertNotRegex(message, r"\bresume\b|afresh", message)

    def test_wrong_places(self):
        """A file or folder of the wrong kind, for each program and argument"""
        named = {"run": "run", "trace": "trace", "text": "corpus.txt"}
        places = ["missing", "missing/deep", "empty", "nothing", "binary", "dangling", "loop", "corpus.txt",
                  "data.json", "data_train.bin", "data", "run", "trace", "run/metrics.jsonl", "/dev/null"]
        chosen = [(name, words, place) for name, words in COMMANDS for place in places]
        self.random.shuffle(chosen)
        for i in self.attempts(100):
            name, words, place = chosen[i % len(chosen)]
            with self.attempt(program=name, arguments=words, place=place):
                arguments = [word.replace("{}", place).format(**named) for word in words.split()]
                result = start(name, *arguments, cwd=self.shared)
                if result.returncode == 0:  # some places are right, for some
                    continue
                if name not in IN_PYTHON:
                    self.expect_error(result, name=name)
                errors = [line for line in result.stderr.splitlines() if line.startswith(f"{name}: ")]
                self.assertEqual(len(errors), 1 if name != "prepare_data" else len(errors), result.stderr)
                self.expect_fitting(name, errors[-1].split(": ", 1)[1])


if __name__ == "__main__":
    unittest.main()
