#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""JSON that a program reads is damaged, or made to hurt."""

import json
import shutil
import subprocess
import unittest

from campaign import MisuseTest
from harness import program

KNOWN = ({"layers": 99999}, {"layers": 10**9}, {"context": 2**62}, {"width": 2**20})
SIZES = ("layers", "width", "heads", "context", "vocabulary")


class Json(MisuseTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls("test_files")
        case.folder, case.out = cls.shared, cls.shared / "run"
        case.trained("--quiet", "--trace", cls.shared / "trace", keys={"train.steps": 2, "train.validate_every": 0})
        made = program("export", case.out, cls.shared / "exported", "--shard-size", "10KB", cwd=cls.shared)
        assert made.returncode == 0, made.stderr

    def damaged(self, data):
        """The bytes with something inserted, cut, flipped or replaced."""
        draw = self.random
        values = [i + 1 for i, byte in enumerate(data) if byte in b":["]
        place = draw.choice((draw.randint(0, len(data)), draw.choice(values)))
        bad = draw.choice((b"[" * 100_000, b'{"a":' * 100_000, b"9" * 100_000, b"1e99999", b"-1", b"\xff", b'"\\ud800"',
                           b"\0", b"null", b"{}", b'"step":1,"step":2', b"4611686018427387904"))
        return draw.choice((lambda: data[:place] + bad + data[place:], lambda: data[:place],
                            lambda: data[:place] + data[place + draw.randint(1, 30):], lambda: bad,
                            lambda: data[:place] + bytes([draw.randrange(256)]) + data[place + 1:]))()

    def answer(self, name, *arguments):
        try:
            return program(name, *arguments, cwd=self.folder, timeout=20)
        except subprocess.TimeoutExpired:
            return self.fail("no answer")

    def expect_answer(self, result, name):
        if result.returncode != 0:
            self.expect_error(result, name=name, more_lines=" available" in result.stderr)

    def test_files(self):
        """a damaged manifest of a checkpoint, a data set, a tokenizer or a trace: one error, or still the same"""
        files = {"run/checkpoints/last/manifest.json": ("generate", "train_gpt"), "run/tokenizer.json": ("generate",),
                 "data.json": ("train_gpt",), "trace/rank0/manifest.json": ("report",)}
        for number in self.attempts(16):
            name = self.random.choice(list(files))
            app = self.random.choice(files[name])
            copy = self.folder / f"copy{number}"
            shutil.copytree(self.shared / "run", copy / "run", symlinks=True)
            shutil.copytree(self.shared / "trace", copy / "trace")
            for file in self.shared.glob("data*"):
                shutil.copy(file, copy)
            path = copy / name
            data = self.damaged(path.read_bytes())
            path.write_bytes(data)
            arguments = {"generate": (copy / "run", "--prompt", "to", "--tokens", 1), "report": (copy / "trace",),
                         "train_gpt": ("--out", copy / "run", "--resume", "--set", f"data.path={copy / 'data'}",
                                       "--set", "train.steps=3", "--quiet")}[app]
            with self.attempt(number=number, app=app, name=name, data=data[:80]):
                self.expect_answer(self.answer(app, *arguments), app)

    def test_model_folders(self):
        """a damaged config.json or index of a Hugging Face folder: one error, or a model that fits together"""
        for number in self.attempts(16):
            folder = self.folder / f"folder{number}"
            shutil.copytree(self.shared / "exported", folder)
            path = folder / self.random.choice(("config.json", "model.safetensors.index.json"))
            data = self.damaged(path.read_bytes())
            path.write_bytes(data)
            app, *arguments = self.random.choice((
                ("plan", "--machine", "rtx4090", "--model", f"hf:{folder}"), ("export", folder, self.folder / f"to{number}"),
                ("train_gpt", "--init-from", folder, "--out", self.folder / f"run{number}", "--set",
                 f"data.path={self.shared / 'data'}", "--set", "train.steps=1", "--quiet")))
            with self.attempt(number=number, app=app, name=path.name, data=data[:80]):
                self.expect_answer(self.answer(app, *arguments), app)

    def test_shapes(self):
        """sizes between 1 and 2^63 in the shape of a checkpoint's model: an error within seconds"""
        for number in self.attempts(8):
            copy = self.folder / f"run{number}"
            shutil.copytree(self.shared / "run", copy, symlinks=True)
            path = copy / "checkpoints/last/manifest.json"
            manifest = json.loads(path.read_text())
            drawn = KNOWN[number] if number < len(KNOWN) else {
                self.random.choice(SIZES): 2 ** self.random.randint(5, 62) for _ in range(2)}
            manifest["architecture"].update(drawn)
            path.write_text(json.dumps(manifest))
            with self.attempt(number=number, drawn=drawn):
                self.expect_error(self.answer("generate", copy, "--prompt", "to", "--tokens", 1), name="generate")


if __name__ == "__main__":
    unittest.main()
