#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Outputs that are named where an input is, or another file that is worth something."""

import unittest

from campaign import MisuseTest
from harness import program, snapshot


class Outputs(MisuseTest):
    def test_files_that_are_there(self):
        """an output in the place of any file of a run, a trace, or a configuration: one error, and the file stays"""
        self.trained("--quiet", "--trace", "trace", keys={"train.steps": 2, "train.validate_every": 0})
        (self.folder / "my.toml").write_text('[model]\npreset = "tiny"\n')
        files = sorted(path.relative_to(self.folder) for path in self.folder.rglob("*")
                       if path.is_file() and not path.is_symlink() and path.stat().st_size > 0)
        calls = (("report", "trace", "--perfetto"), ("report", "trace", "--paje"), ("report", "trace", "--output"),
                 ("report", "--live", "out", "--once", "--output"),
                 ("plan", "--machine", "h100-4x", "--model", "my.toml", "--svg"))
        before = snapshot(self.folder)
        for number in self.attempts(30):
            name, *arguments = calls[number % len(calls)]
            file = self.random.choice([each for each in files if not (arguments[-1] == "--paje" and each.suffix == ".trace")
                                       and not (arguments[-1] == "--perfetto" and each.name == "perfetto.json")])
            with self.attempt(number=number, call=arguments, file=str(file)):
                self.expect_error(program(name, *arguments, file, cwd=self.folder), f"{file}: is there already", name=name)
                self.assertEqual(snapshot(self.folder), before)

    def test_data_sets_over_other_files(self):
        """prepare_data whose files would take the place of a run's, a configuration, a text or a model: one error, they stay"""
        self.trained("--quiet", keys={"train.steps": 2, "train.validate_every": 0})
        corpus = self.shared / "corpus.txt"
        text = corpus.read_text(encoding="utf-8")
        for name in ("notes_train.bin", "text_val.bin", "faces_val.mask", "own.model"):
            (self.folder / name).write_text(text, encoding="utf-8")
        (self.folder / "config.json").write_text("{}")
        prefixes = ("out/tokenizer", "out/run", "notes", "text", "faces", "config", "own")
        before = snapshot(self.folder)
        for number in self.attempts(2 * len(prefixes)):
            prefix = prefixes[number % len(prefixes)]
            kind = ("sentencepiece", "--vocab-size", 300) if prefix == "own" or self.random.random() < 0.5 else ("bytes",)
            with self.attempt(prefix=prefix, kind=kind):
                result = program("prepare_data", "--tokenizer", *kind, "--output", prefix, corpus, cwd=self.folder)
                self.expect_error(result, prefix, name="prepare_data", more_lines=True)
                self.assertEqual(snapshot(self.folder), before)

    def test_the_same_command_again(self):
        """each output a second time: what was written is replaced"""
        self.trained("--quiet", "--trace", "trace", keys={"train.steps": 2, "train.validate_every": 0})
        calls = (("report", "trace", "--perfetto", "a.json"), ("report", "trace", "--paje", "a.trace"), ("report", "trace"),
                 ("prepare_data", "--tokenizer", "sentencepiece", "--vocab-size", 300, "--output", "d", self.shared / "corpus.txt"),
                 ("report", "--live", "out", "--once"), ("report", "--compare", "trace", "trace"),
                 ("plan", "--machine", "h100-4x", "--model", "small-3m", "--svg", "a.svg"))
        for number in self.attempts(len(calls)):
            name, *arguments = calls[number % len(calls)]
            with self.attempt(call=arguments):
                for _ in range(2):
                    result = program(name, *arguments, cwd=self.folder)
                    self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main()
