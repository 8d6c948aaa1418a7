#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data of every kind through the programs: the commands of docs/data.md, several sources, resuming."""

import json
import math
import os
import re
import shutil
import struct
import unittest
from pathlib import Path

from harness import AppTest, program, programs_in, run_commands_of_page

ROOT = Path(os.environ["DOS_SOURCE_DIR"])
TOKENIZERS = ROOT / "tests/reference/tokenizers"
VOCABULARY = 4005  # of qwen.json there


def conversation(question, answer):
    return json.dumps({"messages": [{"role": "user", "content": question},
                                    {"role": "assistant", "content": answer}]})


class Page(AppTest):
    def test_the_commands_of_the_page(self):
        page = (ROOT / "docs/data.md").read_text(encoding="utf-8")
        commands = "\n".join(re.findall(r"```sh\n(.*?)```", page, re.DOTALL))
        self.assertEqual(programs_in(commands), 8)
        (self.folder / "qwen").mkdir()
        shutil.copy(TOKENIZERS / "qwen.json", self.folder / "qwen/tokenizer.json")
        text = (TOKENIZERS / "text.txt").read_text(encoding="utf-8")
        (self.folder / "books.txt").write_text(text, encoding="utf-8")
        lines = (json.dumps({"content": line}) for line in text.splitlines() if line)
        (self.folder / "code.jsonl").write_text("\n".join(lines), encoding="utf-8")
        sentences = [line for line in text.splitlines() if line]
        (self.folder / "chats.jsonl").write_text("\n".join(map(conversation, sentences[::2], sentences[1::2])))
        (self.folder / "nano").mkdir()
        for split in ("train", "val"):
            tokens = [i * 7 % 1000 for i in range(2000)]
            (self.folder / f"nano/{split}.bin").write_bytes(struct.pack("<2000H", *tokens))
        result = run_commands_of_page(commands, self.folder, shell="bash")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("\nOnce", result.stdout)
        self.assertRegex(result.stderr, r"generate: [1-5] tokens in [0-9.]+ s, [0-9.]+ tokens/s")
        self.assertRegex(result.stderr, r"\d+ conversations, \d+ left out without an answer; \d+ cut")
        self.assertNotIn(" 0 tokens", result.stderr)
        chats = json.loads((self.folder / "runs/chats/tokenizer.json").read_text())["chat"]
        self.assertEqual((chats["context"], chats["template"]["name"]), (64, "chatml"))
        for line in self.metrics(self.folder / "runs/chats"):
            self.assertEqual("targets" in line, "loss" in line)
        kept = json.loads((self.folder / "runs/mixed/tokenizer.json").read_text())
        self.assertEqual(kept["tokenizer"], "tokenizer.json")
        text = program("generate", "runs/mixed", "--prompt", "naïve 你好", "--tokens", 5, cwd=self.folder)
        self.assertTrue(text.stdout.startswith("naïve 你好"), text.stderr)


class Conversations(AppTest):
    """A model that learns answers: short ones, so that most tokens do not count."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        lines = [conversation(f"What comes after {i}?", str(i + 1)) for i in range(400)]
        (cls.shared / "chats.jsonl").write_text("\n".join(lines))
        for name, more in (("chats", ("--context", 48)), ("stream", ())):
            made = program("prepare_data", "--tokenizer", TOKENIZERS / "qwen.json", "--chat", "chatml",
                           *more, "--output", name, "chats.jsonl", cwd=cls.shared)
            assert made.returncode == 0, made.stderr
        made = program("prepare_data", "--tokenizer", TOKENIZERS / "qwen.json", "--output", "text",
                       TOKENIZERS / "text.txt", cwd=cls.shared)
        assert made.returncode == 0, made.stderr

    def chats(self, **more):
        return {"data.path": self.shared / "chats", "model.context": 48, "optim.lr": 0.01,
                "train.steps": 150, "train.validate_every": 0} | more

    def test_a_run_resumes_to_the_same_bits_and_answers(self):
        self.trained(keys=self.chats())
        self.trained(keys=self.chats() | {"train.stop_after": 7}, out=self.folder / "cut")
        self.resumed(out=self.folder / "cut")
        self.assertEqual(self.losses(self.folder / "cut"), self.losses())
        lines = [line for line in self.metrics() if "loss" in line]
        self.assertAlmostEqual(lines[0]["loss"], math.log(VOCABULARY), delta=0.1)
        self.assertLess(lines[-1]["loss"], lines[0]["loss"] / 2)
        for line in lines:
            self.assertGreater(line["targets"], 0)
            self.assertLess(line["targets"], line["tokens"] / line["step"] / 3)
        answer = self.answer(self.out, "--chat", "--prompt", "What comes after 17?")
        self.assertRegex(answer, r"^\d+\n$")
        self.expect_exported_answers(answer)

    def answer(self, source, *arguments):
        result = program("generate", source, *arguments, "--temperature", 0, "--tokens", 20, cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def expect_exported_answers(self, answer):
        """The folder says how conversations are written, and where an answer ends."""
        folder = self.folder / "exported"
        made = program("export", self.out, folder, cwd=self.folder)
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        known = {token["content"]: token["id"] for token in
                 json.loads((folder / "tokenizer.json").read_text())["added_tokens"]}
        for name in ("config.json", "generation_config.json"):
            self.assertEqual(json.loads((folder / name).read_text())["eos_token_id"],
                             [known["<|endoftext|>"], known["<|im_end|>"]])
        self.assertIn("<|im_start|>", (folder / "chat_template.jinja").read_text())
        self.assertEqual(self.answer(folder, "--chat", "--prompt", "What comes after 17?"), answer)
        written = "<|im_start|>user\nWhat comes after 17?<|im_end|>\n<|im_start|>assistant\n"
        for source in (self.out, folder):
            self.assertTrue(self.answer(source, "--prompt", written).endswith("assistant\n" + answer))
        (folder / "chat_template.jinja").write_text("{{ messages }}")
        self.expect_error(program("generate", folder, "--chat", "--prompt", "a", cwd=self.folder),
                          "does not say how conversations are written in a way that is known", "--data", name="generate")

    def test_a_sentencepiece_model_answers(self):
        for name in ("tokenizer.model", "tokenizer_config.json"):
            shutil.copy(TOKENIZERS / "llama" / name, self.folder)
        made = program("prepare_data", "--tokenizer", self.folder, "--chat", "llama-2", "--context", 80,
                       "--output", "pieces", self.shared / "chats.jsonl", cwd=self.folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        kept = json.loads((self.folder / "pieces.json").read_text())
        self.assertEqual((kept["tokenizer"], kept["chat"]["template"]["name"]), ("sentencepiece", "llama-2"))
        self.trained(keys=self.chats(**{"data.path": self.folder / "pieces", "model.context": 80, "train.steps": 200}))
        answer = self.answer(self.out, "--chat", "--prompt", "What comes after 17?")
        self.assertRegex(answer, r"^\d+ ?\n$")
        folder = self.folder / "exported"
        made = program("export", self.out, folder, cwd=self.folder)
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        self.assertIn("<<SYS>>", (folder / "chat_template.jinja").read_text())
        self.assertEqual(self.answer(folder, "--chat", "--prompt", "What comes after 17?"), answer)

    def test_what_does_not_fit_is_refused(self):
        self.expect_error(self.train(keys=self.chats() | {"model.context": 32}),
                          "chats_train.bin", "windows of 48 tokens", "model.context=48", "--context 32")
        self.trained(keys=self.chats() | {"train.stop_after": 1})
        shutil.copytree(self.shared, self.folder / "other", ignore=lambda *_: ["other"])
        mask = self.folder / "other/chats_train.mask"
        mask.write_bytes(mask.read_bytes()[:-5] + bytes(5))
        self.expect_error(self.train("--verify", keys=self.chats(**{"data.path": self.folder / "other/chats"}),
                                     out=self.folder / "damaged"), "chats_train.mask: its bits have checksum")
        other = self.folder / "other/chats.json"
        manifest = json.loads(other.read_text())
        manifest["masks"]["train"]["xxh3"] = "0" * 16
        other.write_text(json.dumps(manifest))
        self.expect_error(self.resume("--set", f"data.path={self.folder / 'other/chats'}"),
                          "the data changed", "chats_train.bin other ones count now", "--new-data")
        self.trained(keys={"data.path": self.shared / "text", "train.stop_after": 1}, out=self.folder / "text")
        self.expect_error(program("generate", self.folder / "text", "--chat", "--prompt", "a", cwd=self.folder),
                          "was not trained on conversations", "--chat", name="generate")

    def test_text_and_conversations_are_mixed(self):
        sources = f"{self.shared / 'stream'}:1,{self.shared / 'text'}:1"
        self.trained(keys=self.chats(**{"data.path": "", "data.sources": sources, "train.stop_after": 3}))
        for line in self.metrics():
            if "loss" in line:
                self.assertLess(line["targets"], line["tokens"] / line["step"])
        kept = json.loads((self.out / "tokenizer.json").read_text())
        self.assertEqual(kept["chat"]["template"]["name"], "chatml")


class Sources(AppTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.shared / "other.txt").write_text("0123456789 " * 400)
        made = program("prepare_data", "--tokenizer", "bytes", "--output", "other", "other.txt",
                       cwd=cls.shared)
        assert made.returncode == 0, made.stderr

    def sources(self, weight="0.25", **more):
        return {"data.path": "",
                "data.sources": f"{self.shared / 'data'}:1,{self.shared / 'other'}:{weight}"} | more

    def test_a_run_resumes_to_the_same_bits(self):
        self.trained(keys=self.sources())
        whole = self.losses()
        self.trained(keys=self.sources() | {"train.stop_after": 7}, out=self.folder / "cut")
        self.resumed(out=self.folder / "cut")
        self.assertEqual(self.losses(self.folder / "cut"), whole)
        self.trained(out=self.folder / "alone")
        self.assertNotEqual(self.losses(self.folder / "alone"), whole)

    def test_other_sources_are_not_resumed_by_chance(self):
        self.trained(keys=self.sources() | {"train.stop_after": 7})
        for changes, parts in (
                ({"data.sources": self.sources("0.5")["data.sources"]}, ("the weight 0.25, now 0.5",)),
                ({"data.sources": "", "data.path": self.shared / "data"},
                 ("had 2 sources, now 1", "--set data.path= --set data.sources=LIST")),
                ({"data.sources": f"{self.shared / 'other'}:1,{self.shared / 'data'}:0.25"},
                 ("other_train.bin had",))):
            arguments = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
            self.expect_error(self.resume(*arguments), "the data changed", "--new-data", *parts)
            shutil.copytree(self.out, self.folder / "copy", symlinks=True)
            self.resumed("--new-data", *arguments, out=self.folder / "copy")
            shutil.rmtree(self.folder / "copy")

    def test_bad_sources(self):
        for keys, parts in (
                (self.sources("-1"), ("'-1' of", "is no weight")),
                (self.sources("1e-9"), ("is less than one sample",)),
                (self.sources() | {"data.path": "x"}, ("data.path = x and data.sources", "--set data.sources=")),
                ({"data.path": "", "data.sources": "nowhere:1"}, ("nowhere_train.bin: missing", "PREFIX:WEIGHT of data.sources"))):
            self.expect_error(self.train(keys=keys), *parts)

    def test_tokens_outside_the_vocabulary(self):
        folder = self.folder / "nano"
        folder.mkdir()
        for split, token in (("train", 256), ("val", 257)):
            (folder / f"{split}.bin").write_bytes(struct.pack("<1000H", *[1] * 999, token))
        keys = {"data.path": folder, "model.vocab": 257}
        self.expect_error(self.train(keys=keys), "nano/val.bin: token 257 at position 999",
                          "model.vocab=257")
        keys["model.vocab"] = 258
        self.trained(keys=keys | {"train.stop_after": 1})


if __name__ == "__main__":
    unittest.main()
