#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program generate: text from a checkpoint and a prompt."""

import os
import shutil
import subprocess
import unittest
from pathlib import Path

from harness import APPS, PATIENCE, AppTest, environment, program


class Generate(AppTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls("trained")
        case.folder, case.out = cls.shared, cls.shared / "run"
        # Long enough to learn that bytes of multi-byte characters follow each other.
        case.trained(keys={"train.steps": 300, "optim.lr": 0.02, "train.validate_every": 0})

    def generate(self, *arguments, run=None, name="generate", **options):
        return program(name, run or self.shared / "run", *arguments, cwd=self.folder, **options)

    def text(self, *arguments, **options):
        result = self.generate(*arguments, **options)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def expect_refused(self, result, *parts):
        self.expect_error(result, *parts, name="generate")
        self.assertEqual(result.stdout, "")

    def test_continues_the_prompt(self):
        text = self.text("--prompt", "to be", "--tokens", 50)
        self.assertTrue(text.startswith("to be"))
        self.assertTrue(text.endswith("\n"))
        self.assertGreater(len(text), len("to be\n"))

    def test_a_model_trained_in_bf16(self):
        self.trained(keys={"train.precision": "bf16", "train.validate_every": 0, "optim.lr": 0.02,
                           "train.steps": 300})
        greedy = ("--prompt", "to be", "--temperature", 0, "--tokens", 40)
        text = self.text(*greedy, run=self.out)
        self.assertGreater(len(set(text[len("to be"):])), 3)

        def exported(source, dtype):
            folder = self.folder / f"{source.name}-{dtype}"
            made = program("export", source, folder, "--dtype", dtype, cwd=self.folder)
            self.assertEqual(made.returncode, 0, made.stderr)
            return self.text(*greedy, "--data", self.shared / "data", run=folder), folder

        # It computes with the FP32 values that the run has, and with what a folder has, widened.
        self.assertEqual(exported(self.out, "fp32")[0], text)
        rounded, folder = exported(self.out, "bf16")
        self.assertEqual(exported(folder, "fp32")[0], rounded)

    def test_computing_in_bf16(self):
        greedy = ("--prompt", "to be", "--temperature", 0, "--tokens", 40)
        text = self.text(*greedy, "--precision", "bf16")
        # The model is far from undecided: what it says first survives the roundings.
        self.assertEqual(text[:8], self.text(*greedy)[:8])
        self.assertEqual(text, self.text(*greedy, "--precision", "bf16", env={"STARPU_NCPU": "1"}))

    def test_a_model_of_the_llama_family(self):
        self.trained(keys={"model.preset": "llama-tiny", "model.kv_heads": 1, "model.ffn": 40,
                           "model.window": 6, "model.qk_norm": "on", "model.tied_head": "on",
                           "train.validate_every": 0})
        text = self.text("--prompt", "to be", run=self.out)
        self.assertTrue(text.startswith("to be"))

    def test_a_seed_names_a_text(self):
        texts = [self.text("--prompt", "that", "--seed", seed) for seed in (1, 1, 2)]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])

    def test_temperature_zero_does_not_depend_on_the_seed(self):
        texts = [self.text("--temperature", 0, "--seed", seed) for seed in (1, 2)]
        self.assertEqual(*texts)
        self.assertEqual(self.text("--top-k", 1), texts[0])
        self.assertEqual(self.text("--top-p", 1e-9), texts[0])

    def test_a_prompt_from_a_file(self):
        path = self.folder / "prompt.txt"
        path.write_text("to be\n", encoding="utf-8")
        self.assertEqual(self.text("--prompt-file", path), self.text("--prompt", "to be\n"))
        path.write_text("")
        self.expect_refused(self.generate("--prompt-file", path), "prompt.txt: is empty")
        self.expect_refused(self.generate("--prompt-file", path, "--prompt", "x"), "excludes")
        self.expect_refused(self.generate("--prompt-file", self.folder / "none"), "none: cannot open")

    def test_repetition_is_penalised(self):
        arguments = ("--prompt", "to be", "--temperature", 0, "--tokens", 60)
        with_it = self.text(*arguments, "--repetition-penalty", 1000)[len("to be"):]
        without = self.text(*arguments)[len("to be"):]
        self.assertGreater(len(set(with_it)) / len(with_it), len(set(without)) / len(without))

    def test_speed(self):
        result = self.generate("--tokens", 20, "--speed")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"^generate: \d+ tokens in [0-9.]+ s, [0-9.]+ tokens/s\n$")

    def test_another_tokenizer_is_refused(self):
        self.expect_refused(self.generate("--tokenizer", Path(os.environ["DOS_SOURCE_DIR"]) /
                                          "tests/reference/tokenizers/gpt2.json"),
                            "gpt2.json: another tokenizer than the one that the model was trained with")

    def test_workers_and_scheduler_do_not_matter(self):
        self.assertEqual(self.text("--seed", 3),
                         self.text("--seed", 3, env={"STARPU_SCHED": "eager", "STARPU_NCPU": "1"}))

    def test_more_tokens_continue_fewer(self):
        # Longer than the context of 16: the window slides.
        long, short = (self.text("--seed", 4, "--tokens", n)[:-1] for n in (40, 20))
        self.assertTrue(long.startswith(short))
        self.assertGreater(len(long), len(short))

    def test_characters_are_never_torn(self):
        command = [APPS / "generate", self.shared / "run", "--prompt", "naïve 你", "--tokens", "300",
                   "--temperature", "1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as process:
            pieces = list(iter(lambda: process.stdout.read1(65536), b""))
        self.assertEqual(process.returncode, 0)
        for piece in pieces:
            piece.decode("utf-8")
        self.assertGreater(len(pieces), 1)

    def test_the_last_character_is_whole(self):
        for prompt in ("é".encode()[:1], "你".encode()[:2]):
            command = [APPS / "generate", self.shared / "run", "--prompt", b"x" + prompt,
                       "--tokens", "1", "--top-k", "1"]
            result = subprocess.run(command, capture_output=True, timeout=PATIENCE, env=environment())
            self.assertEqual(result.returncode, 0, result.stderr)
            result.stdout.decode("utf-8")

    def test_uses_the_run_s_own_tokenizer(self):
        for path in self.shared.glob("data*"):
            shutil.copy(path, self.folder)
        self.trained(keys={"data.path": self.folder / "data", "train.stop_after": 1})
        expected = self.text("--seed", 5, run=self.out)
        for path in self.folder.glob("data*"):
            path.unlink()
        self.assertEqual(self.text("--seed", 5, run=self.out), expected)
        (self.out / "tokenizer.json").unlink()
        self.expect_refused(self.generate(run=self.out), "has no tokenizer of its own", "--data")
        self.assertEqual(self.text("--seed", 5, "--data", self.shared / "data", run=self.out),
                         expected)

    def test_a_model_with_more_tokens_than_the_tokenizer(self):
        out = self.folder / "wide"
        self.trained(keys={"train.stop_after": 1, "model.vocab": 5000}, out=out)
        self.assertEqual(self.generate("--temperature", 5, run=out).returncode, 0)

    def test_a_tokenizer_with_more_tokens_than_the_model(self):
        run = self.folder / "run"
        shutil.copytree(self.shared / "run", run, symlinks=True)
        self.edit_manifest(run / "checkpoints" / "last",
                           lambda manifest: manifest["architecture"].update(vocabulary=100))
        self.expect_refused(self.generate(run=run), "the tokenizer has 257 tokens, the model 100",
                            "--data")

    def test_bad_options(self):
        for arguments, parts in (
                (("--prompt", ""), ("--prompt is empty",)),
                (("--tokens", 0), ("--tokens must be at least 1, got 0",)),
                (("--temperature", -1), ("--temperature must not be negative, got -1",)),
                (("--temperature", "nan"), ("--temperature",)),
                (("--top-k", -1), ("--top-k must not be negative",)),
                (("--top-p", 0), ("--top-p must lie in (0, 1], got 0",)),
                (("--repetition-penalty", 0), ("--repetition-penalty must be positive",)),
                (("--top-p", 1.5), ("--top-p must lie in (0, 1], got 1.5",)),
                (("--checkpoint", 17), ("no checkpoint of step 17", "steps there: 300")),
                (("--precision", "fp16"), ("--precision", "bf16")),
                (("--data", "nowhere"), ("nowhere.json",))):
            with self.subTest(arguments):
                self.expect_refused(self.generate(*arguments), *parts)
        self.expect_refused(self.generate(run=self.folder / "none"), "none: no such folder",
                            "give the folder that train_gpt --out wrote")
        self.expect_refused(self.generate(env={"STARPU_SCHED": "x"}), "unknown scheduler 'x'",
                            "lws")

    def test_damaged_checkpoint(self):
        run = self.folder / "run"
        shutil.copytree(self.shared / "run", run, symlinks=True)
        path = run / "checkpoints" / "last" / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-1] + b"\x55")
        self.expect_refused(self.generate(run=run), "model.safetensors: tensor '", "have checksum")

    def test_full_standard_output(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([APPS / "generate", self.shared / "run"], stdout=full,
                                    stderr=subprocess.PIPE, text=True, timeout=PATIENCE,
                                    env=environment())
        self.expect_error(result, "standard output: cannot write: No space left", name="generate")


if __name__ == "__main__":
    unittest.main()
