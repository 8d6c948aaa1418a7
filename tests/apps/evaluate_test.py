#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program evaluate: the loss of a model on tokens."""

import json
import math
import os
import re
import shutil
import struct
import unittest
from pathlib import Path

from harness import AppTest, program, programs_in, run_commands_of_page, token_file

REFERENCE = Path(os.environ["DOS_SOURCE_DIR"]) / "tests/reference/hf_tiny"
TOKENIZER = REFERENCE.parent / "tokenizers/gpt2.json"


class Evaluate(AppTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls("trained")
        case.folder, case.out = cls.shared, cls.shared / "run"
        case.trained(keys={"optim.lr": 0.02})

    def evaluate(self, source, *arguments, **options):
        return program("evaluate", source, *arguments, cwd=self.folder, **options)

    def result(self, source, *arguments, **options):
        """What --json says."""
        done = self.evaluate(source, *arguments, "--json", **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def loss(self, *arguments):
        return self.result(*arguments)["loss"]

    def expect_refused(self, result, *parts):
        self.expect_error(result, *parts, name="evaluate")
        self.assertEqual(result.stdout, "")

    def write(self, tokens, name="tokens.bin"):
        (self.folder / name).write_bytes(token_file(tokens))
        return self.folder / name

    def write_text(self, text, name):
        (self.folder / name).write_text(text)
        return self.folder / name

    def test_a_folder_as_transformers(self):
        for name in ("gpt2", "mistral"):
            expected = json.loads((REFERENCE / name / "inference.json").read_text())
            file = self.write(expected["tokens"])
            for window in (1, 7, 32):
                with self.subTest(name=name, window=window):
                    got = self.result(REFERENCE / name, "--tokens", file, "--context", window)
                    self.assertEqual(sorted(got), ["loss", "perplexity", "tokens"])
                    self.assertAlmostEqual(got["loss"], expected["losses"][str(window)], delta=1e-5)
                    self.assertAlmostEqual(got["perplexity"], math.exp(got["loss"]), delta=1e-9 * got["perplexity"])
                    self.assertEqual(got["tokens"], 82)
        # The whole of GPT-2's table of positions, unless something else is said.
        gpt2 = json.loads((REFERENCE / "gpt2/inference.json").read_text())
        self.assertAlmostEqual(self.loss(REFERENCE / "gpt2", "--tokens", self.write(gpt2["tokens"])),
                               gpt2["losses"]["32"], delta=1e-5)

    def test_files_of_other_programs(self):
        expected = json.loads((REFERENCE / "qwen2/inference.json").read_text())
        loss = self.loss(REFERENCE / "qwen2", "--tokens", self.write(expected["tokens"]))
        bare = self.folder / "val.bin"
        bare.write_bytes(struct.pack("<83H", *expected["tokens"]))
        self.assertEqual(self.loss(REFERENCE / "qwen2", "--tokens", bare), loss)

    def test_the_whole_validation_split(self):
        run, data = self.shared / "run", self.shared / "data"
        whole = self.result(run, "--data", data)
        self.assertEqual(whole["tokens"], json.loads((self.shared / "data.json").read_text())["tokens"]["val"] - 1)
        self.assertEqual(self.result(run, "--tokens", f"{data}_val.bin"), whole)
        # Training measured a part of it.
        said = [line["val_loss"] for line in self.metrics(run) if "val_loss" in line][-1]
        self.assertAlmostEqual(whole["loss"], said, delta=0.5)
        words = self.evaluate(run, "--data", data).stdout
        self.assertEqual(words, f"loss {whole['loss']:.6f} nats a token, perplexity {whole['perplexity']:.6g}, "
                                f"{whole['tokens']} tokens\n")

    def test_checkpoints_are_chosen_as_elsewhere(self):
        run, data = self.shared / "run", ("--data", self.shared / "data")
        last = self.loss(run, *data)
        checkpoint = self.checkpoint(out=run)
        self.assertEqual(self.loss(run, *data, "--checkpoint", 20), last)
        self.assertEqual(self.loss(run, *data, "--checkpoint", checkpoint), last)
        self.assertEqual(self.loss(checkpoint, *data), last)
        exported = program("export", run, self.folder / "hf", cwd=self.folder)
        self.assertEqual(exported.returncode, 0, exported.stderr)
        self.assertEqual(self.loss(self.folder / "hf", *data), last)

    def test_batch_and_workers_change_roundings_only(self):
        arguments = (self.shared / "run", "--tokens", self.shared / "data_val.bin", "--context", 9)
        losses = [self.loss(*arguments, "--batch", batch) for batch in (1, 3, 1000)]
        for loss in losses:
            self.assertAlmostEqual(loss, losses[0], delta=1e-6)
        self.assertEqual(self.result(*arguments, "--batch", 3, env={"STARPU_NCPU": "1", "STARPU_SCHED": "eager"})
                         ["tokens"], self.result(*arguments)["tokens"])

    def test_a_text_by_the_tokenizer_of_the_run(self):
        run, end = self.shared / "run", 256
        for name, texts, content in (
                ("new.txt", ["to be or not, café\n" * 9], None),
                ("lines.jsonl", ["whether", "nobler in mind"],
                 '{"text": "whether"}\n\n{"text": ""}\n{"text": "nobler in mind"}\n')):
            with self.subTest(name):
                (self.folder / name).write_text(content or texts[0])
                tokens = [token for text in texts for token in [*text.encode(), end]]
                for window in (3, 16):
                    got = self.result(run, "--text", self.folder / name, "--context", window)
                    self.assertEqual(got, self.result(run, "--tokens", self.write(tokens), "--context", window))
                    self.assertEqual(got["tokens"], len(tokens) - 1)

    def test_fewer_tokens_than_a_window(self):
        two = self.result(REFERENCE / "gpt2", "--tokens", self.write([5, 7]))
        self.assertEqual(two["tokens"], 1)
        self.assertEqual(self.loss(REFERENCE / "gpt2", "--tokens", self.write([5, 7]), "--context", 1), two["loss"])
        self.expect_refused(self.evaluate(REFERENCE / "gpt2", "--tokens", self.write([5])), "tokens.bin: holds one token")

    def test_bf16(self):
        run, data = self.shared / "run", ("--data", self.shared / "data")
        self.assertAlmostEqual(self.loss(run, *data, "--precision", "bf16"), self.loss(run, *data), delta=0.02)

    def test_what_is_wrong_is_named(self):
        file = self.write([1, 2, 3])
        gpt2, run = REFERENCE / "gpt2", self.shared / "run"
        for source, arguments, parts in (
                (gpt2, (), ("give one of --data PREFIX, --tokens FILE and --text FILE",)),
                (run, ("--text", file, "--tokens", file), ("excludes",)),
                (run, ("--text", file, "--text", file), ("--text is given 2 times: leave all but one out",)),
                (run, ("--tokens", file, "--tokenizer", "t.json"), ("--tokenizer requires --text",)),
                (run, ("--text", "none.txt"), ("--text none.txt: no such file",)),
                (run, ("--text", "/dev/null"), ("/dev/null: not a regular file",)),
                (run, ("--tokens", "/dev/null"), ("/dev/null: not a regular file",)),
                (gpt2, ("--text", file), ("no tokenizer.model and no tokenizer.json: name one of them with --tokenizer",)),
                (run, ("--text", file, "--tokenizer", TOKENIZER), ("gpt2.json: another tokenizer than the one",)),
                (gpt2, ("--text", file, "--tokenizer", TOKENIZER), ("the tokenizer has 4001 tokens, the model 61",)),
                (run, ("--text", self.write_text("", "empty.txt")), ("empty.txt: empty file",)),
                (run, ("--text", self.write_text("{\"text\": 1}\n", "bad.jsonl")), ("bad.jsonl:1:",)),
                (run, ("--data", self.shared / "data", "--tokens", file), ("excludes",)),
                (gpt2, ("--tokens", file, "--context", 33), ("--context = 33", "a table of 32 positions")),
                (gpt2, ("--tokens", file, "--context", -1), ("--context must be at least 1, got -1",)),
                (gpt2, ("--tokens", file, "--batch", -1), ("--batch must not be negative",)),
                (gpt2, ("--tokens", file, "--precision", "fp8"), ("--precision",)),
                (gpt2, ("--tokens", self.folder / "none.bin"), ("none.bin: no such file",)),
                (gpt2, ("--tokens", self.write([1, 61], "other.bin")), ("other.bin: token 61 at position 1",)),
                (self.folder / "none", ("--tokens", file), ("none: no such folder", "a folder with config.json")),
                (run, ("--data", "nowhere"), ("--data nowhere: nowhere_train.bin is missing",)),
                (gpt2, ("--tokens", file, "--checkpoint", 5), ("--checkpoint 5: chooses of a run", "gpt2 is a folder with a model")),
                (self.checkpoint(out=run), ("--tokens", file, "--checkpoint", 5), ("--checkpoint 5: ", "is a checkpoint: ")),
                (run, ("--data", self.shared / "data", "--checkpoint", 17), ("no checkpoint of step 17",))):
            with self.subTest(arguments):
                self.expect_refused(self.evaluate(source, *arguments), *parts)

    def test_another_tokenizer_is_refused(self):
        made = program("prepare_data", "--tokenizer", "sentencepiece", "--vocab-size", 300, "--output", "pieces",
                       self.shared / "corpus.txt", cwd=self.folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.expect_refused(self.evaluate(self.shared / "run", "--data", "pieces"), "--data pieces: its tokenizer is",
                            "was trained with")

    def test_a_damaged_validation_split_is_refused(self):
        for path in self.shared.glob("data*"):
            shutil.copy(path, self.folder)
        file = self.folder / "data_val.bin"
        data = bytearray(file.read_bytes())
        data[1024 + 2 * 77] ^= 1
        file.write_bytes(data)
        self.expect_refused(self.evaluate(self.shared / "run", "--data", "data"), "data_val.bin: its tokens have checksum")
        # A file alone says nothing of itself.
        self.loss(self.shared / "run", "--tokens", "data_val.bin")

    def test_the_commands_of_the_page(self):
        page = (Path(os.environ["DOS_SOURCE_DIR"]) / "docs/training.md").read_text()
        commands = re.search(r"```sh\n(.*?)```", page, re.DOTALL)[1]
        for name in ("runs", "data"):
            (self.folder / name).mkdir()
        (self.folder / "runs/mine").symlink_to(self.shared / "run")
        for path in self.shared.glob("data*"):
            shutil.copy(path, self.folder / "data" / path.name.replace("data", "mine"))
        self.write([1, 2, 3], "other.bin")
        self.write_text("new", "new.txt")
        self.assertEqual(programs_in(commands), 3)
        done = run_commands_of_page(commands, self.folder)
        # A busy machine is told how far it is.
        progress = re.compile(r"evaluate: \d+ of \d+ tokens, loss [0-9.]+\n")
        self.assertEqual((done.returncode, progress.sub("", done.stderr)), (0, ""))
        *all_words, fields = done.stdout.splitlines()
        self.assertEqual(len(all_words), 2)
        for words in all_words:
            self.assertRegex(words, r"^loss [0-9.]+ nats a token, perplexity [0-9.]+, \d+ tokens$")
        self.assertEqual(json.loads(fields)["tokens"], 2)

    def test_a_model_that_diverged(self):
        run = self.folder / "nan"
        self.trained(keys={"train.stop_after": 1}, out=run)
        path = self.checkpoint(out=run) / "model.safetensors"
        content = bytearray(path.read_bytes())
        content[-4:] = struct.pack("<f", float("nan"))
        path.write_bytes(content)
        self.expect_refused(self.evaluate(run, "--data", self.shared / "data"), "model.safetensors")


if __name__ == "__main__":
    unittest.main()
