#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Folders of models in and out: train_gpt --init-from, export, plan --model hf:DIR."""

import json
import os
import shutil
import struct
import unittest

from folder_runs import KEYS, PAGES, STILL, FolderTest
from harness import program, snapshot
from model_folder import (LLAMAS, GPT2, encode, gpt2_tensors, llama_tensors, narrowed, read_folder, read_safetensors,
                          widened, write_folder, write_safetensors)


class HuggingFace(FolderTest):
    keys = KEYS | STILL

    def test_there_and_back_keeps_every_bit(self):
        for dtype, option in (("F32", "fp32"), ("BF16", "bf16")):
            for precision in ("fp32", "bf16"):
                with self.subTest(dtype=dtype, precision=precision):
                    name = f"{option}-{precision}"
                    self.source = write_folder(self.folder / f"hf-{name}", GPT2, gpt2_tensors(dtype))
                    self.started(out=self.folder / name, keys={"train.precision": precision})
                    self.exported("--dtype", option, source=self.folder / name, target=self.folder / f"to-{name}")
                    self.assertEqual(read_folder(self.folder / f"to-{name}"), read_folder(self.source))

    def test_the_llama_family_there_and_back(self):
        keys = {"model.context": 16}
        for kind, config in LLAMAS.items():
            for dtype, precision in (("F32", "fp32"), ("BF16", "bf16")):
                with self.subTest(kind=kind, dtype=dtype):
                    name = f"{kind}-{precision}"
                    self.source = write_folder(self.folder / f"hf-{name}", config, llama_tensors(config, dtype))
                    self.started(out=self.folder / name, keys=keys | {"train.precision": precision})
                    to = self.folder / f"to-{name}"
                    self.exported(source=self.folder / name, target=to)
                    self.assertEqual(read_folder(to), read_folder(self.source))
                    written = json.loads((to / "config.json").read_text())
                    # What was read, with the context of the run; the scaling is for more tokens than that.
                    longest = 8 * 32 if kind == "llama" else 16
                    self.assertEqual({k: written[k] for k in config}, config | {"max_position_embeddings": longest})

    def test_the_type_is_what_the_run_computed_with(self):
        write_folder(self.source, GPT2, gpt2_tensors())
        self.started(keys={"train.precision": "bf16"})
        self.assertIn("as bf16", self.exported())
        self.assertEqual(read_folder(self.target), narrowed(gpt2_tensors()))

    def test_half_precision_shards_prefixes_and_masks(self):
        tensors = {name.removeprefix("transformer."): tensor for name, tensor in gpt2_tensors("F16").items()}
        tensors["h.0.attn.bias"] = ("BOOL", [1, 1, 2, 2], b"\1\0\1\1")
        tensors["h.1.attn.masked_bias"] = ("F16", [], encode([-1e4], "F16"))
        tensors["lm_head.weight"] = tensors["wte.weight"]
        self.source.mkdir()
        (self.source / "config.json").write_text(json.dumps(GPT2))
        index = {}
        for i, name in enumerate(tensors):
            index[name] = f"model-0000{i % 3 + 1}-of-00003.safetensors"
        for file in set(index.values()):
            write_safetensors(self.source / file, {n: t for n, t in tensors.items() if index[n] == file})
        (self.source / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
        self.started()
        self.exported("--dtype", "fp32", "--shard-size", "20KB")
        self.assertEqual(read_folder(self.target), widened(gpt2_tensors("F16")))
        files = sorted(path.name for path in self.target.iterdir())
        self.assertIn("model.safetensors.index.json", files)
        self.assertNotIn("model.safetensors", files)

    def test_an_exported_model_says_what_the_run_said(self):
        self.trained(keys={"train.steps": 60, "optim.lr": 0.01})
        self.exported()
        texts = [program("generate", self.out, "--temperature", 0, "--tokens", 40, cwd=self.folder).stdout]
        self.source = self.target
        self.started(out=self.folder / "again")
        texts.append(program("generate", self.folder / "again", "--temperature", 0, "--tokens", 40,
                             cwd=self.folder).stdout)
        self.assertEqual(*texts)
        self.assertGreater(len(texts[0]), 40)

    def test_the_end_of_documents_is_told(self):
        self.trained(keys={"train.stop_after": 1})
        self.assertIn("no files that transformers reads", self.exported())
        for name in ("config.json", "generation_config.json"):
            self.assertEqual(json.loads((self.target / name).read_text())["eos_token_id"], 256)

    def test_a_sentencepiece_model_goes_along(self):
        made = program("prepare_data", "--tokenizer", "sentencepiece", "--vocab-size", 300, "--output", "pieces",
                       self.shared / "corpus.txt", cwd=self.folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.trained(keys={"train.stop_after": 1, "data.path": self.folder / "pieces"})
        self.assertEqual(len(self.exported().splitlines()), 1)
        self.assertEqual((self.target / "tokenizer.model").read_bytes(),
                         (self.folder / "pieces.model").read_bytes())
        # The tokenizer of a GPT-2 would be another one, and that of a Llama would have tokens more.
        self.assertEqual(json.loads((self.target / "tokenizer_config.json").read_text()),
                         {"tokenizer_class": "LlamaTokenizer", "add_bos_token": False, "add_eos_token": False,
                          "add_prefix_space": False, "legacy": True, "clean_up_tokenization_spaces": False,
                          "bos_token": None, "eos_token": "<|endoftext|>", "unk_token": "<unk>"})
        llama = self.folder / "llama"
        self.trained(out=llama, keys={"train.stop_after": 1, "data.path": self.folder / "pieces",
                                      "model.preset": "llama-tiny", "model.kv_heads": 1, "model.ffn": 24})
        self.exported(source=llama, target=self.folder / "of-llama")
        self.assertEqual(*((folder / "tokenizer_config.json").read_text()
                           for folder in (self.target, self.folder / "of-llama")))
        texts = [program("generate", source, "--prompt", "to be", "--temperature", 0, "--tokens", 9, cwd=self.folder)
                 for source in (self.out, self.checkpoint(), self.target)]
        self.assertEqual({(text.returncode, text.stderr, text.stdout) for text in texts}, {(0, "", texts[0].stdout)})
        (self.target / "tokenizer.model").unlink()
        self.expect_error(program("generate", self.target, cwd=self.folder), "exported: has no tokenizer.model and no "
                          "tokenizer.json", "--tokenizer", name="generate")
        named = program("generate", self.target, "--prompt", "to be", "--temperature", 0, "--tokens", 9,
                        "--tokenizer", "pieces.model", cwd=self.folder)
        self.assertEqual(named.stdout, texts[0].stdout)

    def test_a_unigram_model_is_written_for_transformers(self):
        made = program("prepare_data", "--tokenizer", "sentencepiece", "--vocab-size", 300, "--model-type", "unigram",
                       "--output", "pieces", self.shared / "corpus.txt", cwd=self.folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.trained(keys={"train.stop_after": 1, "data.path": self.folder / "pieces"})
        self.assertEqual(len(self.exported().splitlines()), 1)
        written = json.loads((self.target / "tokenizer.json").read_text())["model"]
        self.assertEqual((written["type"], len(written["vocab"])), ("Unigram", 300))
        self.assertEqual(json.loads((self.target / "tokenizer_config.json").read_text()),
                         {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False,
                          "bos_token": None, "eos_token": "<|endoftext|>"})
        texts = [program("generate", source, "--prompt", "to be", "--temperature", 0, "--tokens", 9, cwd=self.folder)
                 for source in (self.out, self.target)]
        self.assertEqual({(text.returncode, text.stderr, text.stdout) for text in texts}, {(0, "", texts[0].stdout)})

    def test_a_tokenizer_json_goes_along(self):
        # One of several that may end a text, and not the last token.
        source = PAGES.parent / "tests/reference/tokenizers/llama3.json"
        made = program("prepare_data", "--tokenizer", source, "--end-of-text", "<|reserved_0|>", "--output", "parts",
                       self.shared / "corpus.txt", cwd=self.folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.trained(keys={"train.stop_after": 1, "data.path": self.folder / "parts"})
        self.assertEqual(len(self.exported().splitlines()), 1)
        self.assertEqual((self.target / "tokenizer.json").read_bytes(), source.read_bytes())
        # tools/make_tokenizer_reference.py --check compares what transformers makes of it.
        self.assertEqual(json.loads((self.target / "tokenizer_config.json").read_text()),
                         {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|reserved_0|>",
                          "clean_up_tokenization_spaces": False})
        again = program("prepare_data", "--tokenizer", self.target, "--output", "again", self.shared / "corpus.txt",
                        cwd=self.folder)
        self.assertEqual(again.returncode, 0, again.stderr)
        for split in ("train", "val"):
            self.assertEqual((self.folder / f"again_{split}.bin").read_bytes(),
                             (self.folder / f"parts_{split}.bin").read_bytes())
        texts = [program("generate", source, "--prompt", "to be", "--temperature", 0, "--tokens", 9, cwd=self.folder)
                 for source in (self.out, self.target)]
        self.assertEqual({(text.returncode, text.stderr, text.stdout) for text in texts}, {(0, "", texts[0].stdout)})

    def test_what_a_folder_says_beside_its_weights_goes_along(self):
        """Tokenizer, chat template, ends of generation: of a run, and from one folder to another."""
        tokenizer = PAGES.parent / "tests/reference/tokenizers/qwen.json"
        config = LLAMAS["qwen3"] | {"vocab_size": 4005, "bos_token_id": 4000, "eos_token_id": 4002, "pad_token_id": 4000}
        beside = {"generation_config.json": {"temperature": 0.7, "eos_token_id": [4002]},
                  "tokenizer_config.json": {"eos_token": "<|im_end|>", "chat_template": "{{ messages }}"}}
        write_folder(self.source, config, llama_tensors(config))
        shutil.copy(tokenizer, self.source / "tokenizer.json")
        for name, content in beside.items():
            (self.source / name).write_text(json.dumps(content))
        (self.source / "chat_template.jinja").write_text("{{ messages }}")
        made = program("prepare_data", "--tokenizer", tokenizer, "--end-of-text", "<|endoftext|>", "--output", "text",
                       PAGES.parent / "tests/reference/tokenizers/text.txt", cwd=self.folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        keys = {"model.context": 16, "data.path": self.folder / "text"}
        self.started(keys=keys)
        self.exported(source=self.source, target=self.folder / "copy")
        self.source.rename(self.folder / "gone")
        self.assertEqual(len(self.exported().splitlines()), 1)
        both = [self.folder / "copy", self.target]
        for folder in both:
            self.assertEqual((folder / "chat_template.jinja").read_text(), "{{ messages }}")
            self.assertEqual((folder / "tokenizer.json").read_bytes(), tokenizer.read_bytes())
        files = [{name: json.loads((folder / name).read_text()) for name in beside} for folder in both]
        self.assertEqual(files[0], beside)
        # The run's text ends with another token.
        self.assertEqual(files[1]["generation_config.json"], {"temperature": 0.7, "eos_token_id": [4002, 4000]})
        self.assertEqual(files[1]["tokenizer_config.json"],
                         {"eos_token": "<|endoftext|>", "chat_template": "{{ messages }}"})
        for folder, end in zip(both, (4002, 4000)):
            written = json.loads((folder / "config.json").read_text())
            self.assertEqual([written[f"{kind}_token_id"] for kind in ("bos", "pad", "eos")], [4000, 4000, end])

    def test_generation_ends_where_the_folder_says(self):
        tokenizer = PAGES.parent / "tests/reference/tokenizers/qwen.json"
        config = LLAMAS["qwen3"] | {"vocab_size": 4005}
        write_folder(self.source, config, llama_tensors(config))
        shutil.copy(tokenizer, self.source / "tokenizer.json")
        made = [program("generate", self.source, "--prompt", "Once", "--temperature", 0, "--tokens", 1, cwd=self.folder)]
        # Whatever comes first, only tokens that end nothing go on.
        (self.source / "generation_config.json").write_text(json.dumps({"eos_token_id": list(range(4005))}))
        made.append(program("generate", self.source, "--prompt", "Once", "--temperature", 0, "--tokens", 30, "--speed",
                            cwd=self.folder))
        self.assertEqual([each.returncode for each in made], [0, 0], made[-1].stderr)
        self.assertIn("generate: 1 tokens", made[1].stderr)
        (self.source / "generation_config.json").write_text('{"eos_token_id": "x"}')
        self.expect_error(program("generate", self.source, cwd=self.folder), "generation_config.json: field 'eos_token_id'",
                          name="generate")

    def test_gpt2_keeps_its_positions_at_a_smaller_context(self):
        write_folder(self.source, GPT2, gpt2_tensors())
        keys = {"train.steps": 4, "optim.lr": 1e-3, "model.context": 12}
        self.started(keys=keys | {"train.stop_after": 2})
        self.resumed()
        self.exported()
        self.assertEqual(json.loads((self.target / "config.json").read_text())["n_positions"], GPT2["n_positions"])
        name = "transformer.wpe.weight"
        (_, shape, before), (_, kept, after) = gpt2_tensors()[name], read_folder(self.target)[name]
        self.assertEqual((kept, len(after)), (shape, len(before)))
        row = 4 * GPT2["n_embd"]
        same = [before[i:i + row] == after[i:i + row] for i in range(0, len(before), row)]
        self.assertEqual(same, [False] * 12 + [True] * 8)
        self.expect_error(self.start_from(keys={"model.context": 21}), "model.context = 21, but the folder's model has 20")

    def test_a_run_goes_on_without_the_folder(self):
        write_folder(self.source, GPT2, gpt2_tensors())
        keys = {"train.steps": 4, "optim.lr": 1e-3}
        self.started(out=self.folder / "whole", keys=keys)
        self.started(keys=keys | {"train.stop_after": 2})
        self.source.rename(self.folder / "gone")
        self.resumed()
        self.expect_same_state(self.folder / "whole", self.out)

    def test_auto_starts_or_continues(self):
        write_folder(self.source, GPT2, gpt2_tensors())
        keys = {"train.steps": 4, "optim.lr": 1e-3}
        self.started(out=self.folder / "whole", keys=keys)
        self.started("--resume", "auto", keys=keys | {"train.stop_after": 2})
        self.started("--resume", "auto", keys=keys)
        self.expect_same_state(self.folder / "whole", self.out)
        self.expect_error(self.start_from("--resume"), "--init-from starts a run and --resume last continues one")

    def test_what_is_wrong_is_named_and_nothing_is_written(self):
        bad = gpt2_tensors()
        name = "transformer.h.1.mlp.c_fc.weight"
        dtype, shape, data = bad[name]
        nan = bad | {name: (dtype, shape, data[:40] + struct.pack("<f", float("nan")) + data[44:])}
        turned = bad | {name: (dtype, shape[::-1], data)}
        missing = {k: v for k, v in bad.items() if k != name}
        head = bad | {"lm_head.weight": bad["transformer.wte.weight"][:2] +
                      (bytes(len(bad["transformer.wte.weight"][2])),)}
        cases = (
            (GPT2, nan, (name, "element 10 is nan")),
            (GPT2, missing, ("missing: " + name,)),
            (GPT2, turned, (f"of another shape: {name} [96, 24] instead of [24, 96]",)),
            (GPT2, bad | {"x": ("F32", [1], bytes(4))}, ("unexpected: x",)),
            (GPT2, head, ("tensor 'lm_head.weight': differs from 'transformer.wte.weight'",)),
            (GPT2 | {"rope_scaling": {"type": "yarn"}}, bad, ("field 'rope_scaling'", "is not known")),
            (GPT2 | {"model_type": "bert"}, bad, ("field 'model_type' is 'bert'",)),
            (GPT2 | {"vocab_size": 100}, bad, ("the model knows 100 tokens", "has 257")),
        )
        for i, (config, tensors, parts) in enumerate(cases):
            with self.subTest(parts[0]):
                self.source = write_folder(self.folder / f"bad{i}", config, tensors)
                self.expect_error(self.start_from(), *parts)
                self.expect_nothing_written()
        self.source = write_folder(self.source.with_name("good"), GPT2, bad)
        for key in ("model.layers=3", "model.preset=gpt2-124m"):
            self.expect_error(self.start_from("--set", key), key.split("=")[0], "leave it out")
        for name in ("tokenizer.json", "tokenizer.model"):
            (self.source / name).write_text("{}")
            parts = (f"good/{name}: the text of {self.shared / 'data'} was prepared with another tokenizer (bytes)",)
            self.expect_error(self.start_from(), *parts)
            self.expect_error(program("evaluate", self.source, "--data", self.shared / "data", cwd=self.folder), *parts,
                              name="evaluate")
            (self.source / name).unlink()
        (self.source / "model.safetensors").unlink()
        (self.source / "model.safetensors.index.json").write_text('{"weight_map": {"x": "a.safetensors"}}')
        self.expect_error(self.start_from(), "index.json: names the file 'a.safetensors', which is not there")
        (self.source / "config.json").unlink()
        for name in ("export", "generate", "evaluate"):
            more = {"export": ["x"], "evaluate": ["--tokens", "x"]}.get(name, [])
            self.expect_error(program(name, self.source, *more, cwd=self.folder), "good/config.json: does not exist",
                              "save_pretrained()", name=name)
        self.source = self.folder / "none"
        self.expect_error(self.start_from(), "none/config.json", "save_pretrained()")
        self.expect_nothing_written()

    def test_export_replaces_nothing(self):
        self.trained(keys={"train.stop_after": 1})
        self.target.mkdir()
        self.expect_error(self.export(), "exported: is there already", name="export")
        self.expect_error(self.export(source=self.folder / "none", target=self.folder / "b"), "none: no such folder",
                          name="export")
        self.expect_error(self.export("--shard-size", "many", target=self.folder / "b"), "--shard-size many",
                          name="export")
        self.expect_error(self.export("--dtype", "int8", target=self.folder / "b"), "--dtype", name="export")
        damaged = self.checkpoint() / "model.safetensors"
        content = bytearray(damaged.read_bytes())
        content[-1] ^= 1
        damaged.write_bytes(content)
        self.expect_error(self.export(target=self.folder / "b"), "model.safetensors", name="export")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["exported", "out"])

    def test_a_run_is_no_folder_and_a_pipe_no_tokenizer(self):
        self.source = self.folder / "first"
        self.trained(keys={"train.stop_after": 1}, out=self.source)
        self.expect_error(self.start_from(), f"--init-from {self.source}: is of a run", f"export {self.source} DIR")
        (self.source / "tokenizer.json").unlink()
        os.mkfifo(self.source / "tokenizer.json")
        self.expect_error(self.export(source=self.source), "first/tokenizer.json: not a regular file", name="export")

    def test_a_tokenizer_larger_than_its_model_is_not_exported(self):
        self.make_page_files()
        config = GPT2 | {"vocab_size": 299}
        source = write_folder(self.folder / "small", config, gpt2_tensors(config=config))
        shutil.copy(self.folder / "model/tokenizer.model", source)
        self.expect_error(self.export(source=source, target=self.folder / "b"), "small: the tokenizer has 300 tokens, the model 299",
                          name="export")
        self.assertFalse((self.folder / "b").exists())

    def test_export_of_a_checkpoint_and_of_a_folder(self):
        self.trained()
        self.exported("--checkpoint", "best")
        self.exported(source=self.checkpoint("best"), target=self.folder / "b")
        self.assertEqual(snapshot(self.target), snapshot(self.folder / "b"))
        self.assertIn("the folder has no tokenizer", self.exported("--dtype", "bf16", source=self.target,
                                                                   target=self.folder / "c"))
        self.exported("--checkpoint", "best", "--dtype", "bf16", target=self.folder / "d")
        self.assertEqual(read_safetensors(self.folder / "c/model.safetensors"),
                         read_safetensors(self.folder / "d/model.safetensors"))

    def test_the_commands_of_the_page(self):
        self.make_page_files()
        self.run_commands((PAGES / "huggingface.md").read_text(), programs=6)
        self.assertNotEqual(read_folder(self.folder / "tuned"), read_folder(self.folder / "model"))
        self.assertEqual((self.folder / "tuned/tokenizer.model").read_bytes(),
                         (self.folder / "model/tokenizer.model").read_bytes())

    def test_the_commands_of_the_models_page(self):
        self.make_page_files()
        made = program("prepare_data", "--tokenizer", "bytes", "--output", "data/mine", "text/corpus.txt", cwd=self.folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.run_commands((PAGES / "models.md").read_text(), programs=2)
        self.assertFalse((self.folder / "runs/mine").exists())
        config = json.loads((self.folder / "runs/small/run.json").read_text())["configuration"]["model"]
        self.assertEqual((config["width"], config["kv_heads"], config["ffn"]), (256, 2, 704))

    def test_the_lines_of_the_readme(self):
        tokenizer = PAGES.parent / "tests/reference/tokenizers/prefix.json"
        vocabulary = json.loads(tokenizer.read_text())
        tokens = len(vocabulary["model"]["vocab"]) + len(vocabulary["added_tokens"])
        config = LLAMAS["llama"] | {"vocab_size": tokens}
        write_folder(self.folder / "model", config, llama_tensors(config))
        shutil.copy(tokenizer, self.folder / "model/tokenizer.json")
        for name in ("text", "data", "runs"):
            (self.folder / name).mkdir()
        shutil.copy(self.shared / "corpus.txt", self.folder / "text/corpus.txt")
        readme = (PAGES.parent / "README.md").read_text()
        self.run_commands(readme.split("## From a Hugging Face folder")[1], programs=5)
        self.assertNotEqual(read_folder(self.folder / "tuned"), read_folder(self.folder / "model"))
        self.assertEqual((self.folder / "tuned/tokenizer.json").read_bytes(), tokenizer.read_bytes())

    def test_plan_knows_a_folder_s_model(self):
        for kind, config in ({"gpt2": GPT2} | LLAMAS).items():
            folder = write_folder(self.folder / kind, config, {})
            result = program("plan", "--machine", "rtx4090", "--model", f"hf:{folder}", "--json", cwd=self.folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            planned = json.loads(result.stdout)
            tensors = gpt2_tensors() if kind == "gpt2" else llama_tensors(config)
            count = sum(len(data) // 4 for _, _, data in tensors.values())
            self.assertEqual((planned["params"], planned["model"]), (count, f"hf:{folder}"))
        self.expect_error(program("plan", "--machine", "rtx4090", "--model", "hf:none", cwd=self.folder),
                          "none/config.json", name="plan")


if __name__ == "__main__":
    unittest.main()
