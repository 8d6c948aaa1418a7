#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tokens with which texts and answers of a folder's model begin and end."""

import json
import shutil
import unittest

from folder_runs import PAGES, STILL, FolderTest
from harness import program
from model_folder import LLAMAS, llama_tensors, write_folder

TOKENIZERS = PAGES.parent / "tests/reference/tokenizers"
VOCABULARY = 1406  # 1400 pieces, and six tokens beside them


class FolderTokens(FolderTest):
    def setUp(self):
        super().setUp()
        config = LLAMAS["llama"] | {"vocab_size": VOCABULARY, "eos_token_id": 2}
        write_folder(self.source, config, llama_tensors(config))
        for name in ("tokenizer.model", "tokenizer_config.json"):
            shutil.copy(TOKENIZERS / "llama" / name, self.source / name)
        (self.folder / "text.jsonl").write_text(
            "".join(json.dumps({"text": text}) + "\n" for text in ("one two", "<|im_start|>three", "four") * 40))

    def prepared(self, tokenizer, output, *more):
        made = program("prepare_data", "--tokenizer", tokenizer, *more, "--output", output, "text.jsonl",
                       cwd=self.folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        return (self.folder / f"{output}_train.bin").read_bytes()

    def configure(self, **keys):
        path = self.source / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | keys))

    def test_pieces_of_a_folder_begin_texts(self):
        data = self.prepared(self.source, "data")
        for more in (("sentencepiece", "--model", self.source / "tokenizer.model"), (self.source / "tokenizer.model",)):
            self.assertEqual(self.prepared(more[0], "same", *more[1:]), data)
        tokens = [int.from_bytes(data[i:i + 2], "little") for i in range(1024, len(data), 2)]
        self.assertEqual((tokens[0], tokens.count(1), tokens.count(2), tokens.count(1400)), (1, 108, 108, 36))
        pieces = json.loads((self.folder / "data.json").read_text())["pieces"]
        self.assertEqual((pieces["count"], pieces["begin_of_text"]), (1400, 1))
        self.configure(add_bos_token=False)
        self.assertEqual(len(self.prepared(self.source, "bare")), len(data) - 2 * 108)
        # The same tokenizer: what stands before a text says nothing of what tokens mean.
        keys = {"model.preset": "llama-tiny", "model.kv_heads": 1, "model.ffn": 24, "model.context": 16}
        self.trained(keys=keys | {"data.path": self.folder / "data", "train.stop_after": 1})
        self.resumed("--new-data", "--set", f"data.path={self.folder / 'bare'}", "--set", "train.stop_after=2")
        self.expect_error(program("prepare_data", "--tokenizer", self.source, "--end-of-text", "</s>", "--output", "x",
                                  "text.jsonl", cwd=self.folder), "--end-of-text", name="prepare_data")

    def test_a_text_is_evaluated_in_the_folders_tokens(self):
        self.prepared(self.source, "data")
        begins = (self.folder / "data_val.bin").read_bytes()[1024:].count(b"\x01\x00")
        lines = (self.folder / "text.jsonl").read_text().splitlines(keepends=True)
        (self.folder / "last.jsonl").write_text("".join(lines[-begins:]))

        def evaluated(*tokens):
            done = program("evaluate", self.source, *tokens, cwd=self.folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return done.stdout
        self.assertEqual(evaluated("--text", "last.jsonl"), evaluated("--data", "data"))
        self.assertEqual(evaluated("--text", "last.jsonl", "--tokenizer", self.source / "tokenizer.model"),
                         evaluated("--data", "data"))

    def test_a_run_takes_its_tokens_along(self):
        keys = {"model.preset": "llama-tiny", "model.kv_heads": 1, "model.ffn": 24, "model.context": 16,
                "data.path": self.folder / "data", "train.stop_after": 1}
        data = self.prepared(self.source, "data")
        self.trained(keys=keys)
        self.exported()
        self.assertEqual(self.prepared(self.target, "again"), data)
        written = json.loads((self.target / "tokenizer_config.json").read_text())
        self.assertEqual([written[key] for key in ("tokenizer_class", "bos_token", "eos_token")],
                         ["PreTrainedTokenizerFast", "<s>", "</s>"])
        # tests/data/piece_json_test.cpp has the tokens that `transformers` makes by that tokenizer.json.
        written = json.loads((self.target / "tokenizer.json").read_text())
        self.assertEqual([token["content"] for token in written["added_tokens"] if token["id"] == 1402], ["<think>"])
        texts = [program("generate", source, "--prompt", "one<think>", "--temperature", 0, "--tokens", 9,
                         cwd=self.folder)
                 for source in (self.out, self.target)]
        self.assertEqual({(text.returncode, text.stderr, text.stdout) for text in texts}, {(0, "", texts[0].stdout)})

    def test_a_run_takes_along_where_spaces_are_put(self):
        (self.source / "tokenizer.json").write_text(json.dumps(
            {"pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "first", "split": False}}))
        (self.folder / "text.jsonl").write_text(
            "".join(json.dumps({"text": text}) + "\n" for text in (" one two", "three <|im_start|> four") * 40))
        keys = {"model.preset": "llama-tiny", "model.kv_heads": 1, "model.ffn": 24, "model.context": 16,
                "train.stop_after": 1}
        data = self.prepared(self.source, "data")
        self.trained(keys=keys | {"data.path": self.folder / "data"})
        self.exported()
        written = json.loads((self.target / "tokenizer.json").read_text())
        self.assertEqual((written["model"]["type"], written["pre_tokenizer"]["pretokenizers"][0]["prepend_scheme"]),
                         ("BPE", "first"))
        self.assertEqual(self.prepared(self.target, "again"), data)
        # Of a model that comes from a folder that folder's own goes out again.
        started = self.folder / "started"
        self.started(out=started, keys={"data.path": self.folder / "data", "train.stop_after": 1, "model.context": 16})
        self.exported(source=started, target=self.folder / "sent")
        self.assertEqual(*((folder / "tokenizer.json").read_bytes() for folder in (self.source, self.folder / "sent")))

    def test_a_unigram_model_goes_out_as_one(self):
        config = LLAMAS["llama"] | {"vocab_size": 1500, "bos_token_id": 1, "eos_token_id": 2}
        shutil.rmtree(self.source)
        write_folder(self.source, config, llama_tensors(config))
        shutil.copy(TOKENIZERS / "unigram/tokenizer.model", self.source)
        (self.source / "tokenizer_config.json").write_text(json.dumps(
            {"tokenizer_class": "LlamaTokenizer", "legacy": False, "bos_token": "<s>", "eos_token": "</s>"}))
        keys = {"data.path": self.folder / "data", "model.context": 16}
        data = self.prepared(self.source, "data")
        self.started(keys=keys | {"train.stop_after": 3})
        self.assertIn("transformers may make other tokens", self.exported())
        # A LlamaTokenizer would look for merges.
        self.assertEqual(json.loads((self.target / "tokenizer_config.json").read_text()),
                         {"tokenizer_class": "PreTrainedTokenizerFast", "legacy": False, "bos_token": "<s>",
                          "eos_token": "</s>"})
        written = json.loads((self.target / "tokenizer.json").read_text())
        self.assertEqual((written["model"]["type"], len(written["model"]["vocab"])), ("Unigram", 1500))
        self.assertEqual(self.prepared(self.target, "again"), data)
        again = self.folder / "again"
        self.started(out=again, source=self.target, keys=keys | STILL)
        self.assertEqual(*(self.tensors("model.safetensors", out) for out in (again, self.out)))
        self.exported(source=again, target=self.folder / "sent")
        for name in ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "model.safetensors"):
            self.assertEqual((self.folder / "sent" / name).read_bytes(), (self.target / name).read_bytes())
        texts = [program("generate", source, "--prompt", " one two", "--temperature", 0, "--tokens", 9, cwd=self.folder)
                 for source in (self.out, self.target, self.folder / "sent")]
        self.assertEqual({(text.returncode, text.stderr, text.stdout) for text in texts}, {(0, "", texts[0].stdout)})

    def test_data_of_another_tokenizer_are_refused(self):
        self.prepared(self.source, "data")
        shutil.rmtree(self.source)
        config = LLAMAS["llama"] | {"vocab_size": 5000, "eos_token_id": 2}
        write_folder(self.source, config, llama_tensors(config))
        self.prepared("sentencepiece", "other", "--vocab-size", "300")
        keys = {"model.preset": "llama-tiny", "model.kv_heads": 1, "model.ffn": 24, "model.context": 16,
                "data.path": self.folder / "data", "train.stop_after": 1}
        self.trained(keys=keys)
        self.exported()
        file = self.source / "tokenizer.json"
        keys = {"train.stop_after": 1, "model.context": 16}
        # The pieces of the data under their numbers; a tokenizer of bytes; no tokenizer.
        for text, fit in (((self.target / "tokenizer.json").read_text(), ("data",)),
                          ((TOKENIZERS / "qwen.json").read_text(), ()), ("{}", ())):
            file.write_text(text)
            for data in ("data", "other"):
                out = self.folder / "begun"
                shutil.rmtree(out, ignore_errors=True)
                begun = self.start_from(out=out, keys=keys | {"data.path": self.folder / data})
                others = [program("evaluate", self.source, "--data", data, cwd=self.folder),
                          program("generate", self.source, "--data", data, "--prompt", "one", "--tokens", 1,
                                  cwd=self.folder)]
                if data in fit:
                    self.assertEqual([done.returncode for done in (begun, *others)], [0, 0, 0], begun.stderr)
                    continue
                for done, name in zip((begun, *others), ("train_gpt", "evaluate", "generate"), strict=True):
                    self.expect_error(done, "was prepared with another tokenizer (sentencepiece)", name=name)
                self.assertFalse(out.exists())

    def test_a_tokenizer_larger_than_its_model_is_refused(self):
        shutil.copy(TOKENIZERS / "qwen.json", self.source / "tokenizer.json")
        for name in ("tokenizer.model", "tokenizer_config.json"):
            (self.source / name).unlink()
        self.expect_error(self.start_from(), "the tokenizer has 4005 tokens, the model 1406")
        self.assertFalse(self.out.exists())

    def test_generation_ends_where_config_json_says(self):
        def made():
            result = program("generate", self.source, "--prompt", "one", "--temperature", 0, "--tokens", 30, "--speed",
                             cwd=self.folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            return result.stderr

        path = self.source / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"eos_token_id": list(range(VOCABULARY))}))
        self.assertIn("generate: 1 tokens", made())
        # As for transformers, the other file is the one that counts.
        (self.source / "generation_config.json").write_text('{"eos_token_id": 2}')
        self.assertNotIn("generate: 1 tokens", made())


if __name__ == "__main__":
    unittest.main()
