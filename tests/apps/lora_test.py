#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adapters of low rank: docs/finetuning.md."""

import json
import os
import re
import shutil
import struct
import unittest

from folder_runs import KEYS, PAGES, STILL, FolderTest
from harness import program, snapshot, token_file
from model_folder import (GPT2, LLAMAS, gpt2_tensors, llama_tensors, read_folder, read_safetensors, write_folder,
                          write_safetensors)

REFERENCE = PAGES.parent / "tests/reference/hf_tiny"
MODELS = ("gpt2", "llama3", "mistral", "qwen2", "qwen3")


def is_adapter(name):
    return ".lora_" in name


class Lora(FolderTest):
    keys = KEYS | {"train.steps": 4, "optim.lr": 1e-2, "lora.rank": 2}

    def adapters(self, folder=None):
        return read_safetensors((folder or self.target) / "adapter_model.safetensors")

    def few_tokens(self):
        """Data of a vocabulary that the models of the reference have."""
        for split in ("train", "val"):
            (self.folder / f"few_{split}.bin").write_bytes(token_file([i * i % 61 for i in range(500)]))
        return self.folder / "few"

    def test_adapters_of_peft_there_and_back(self):
        data = self.few_tokens()
        for name in MODELS:
            with self.subTest(name):
                theirs, out, target = REFERENCE / name / "lora", self.folder / name, self.folder / f"to-{name}"
                keys = STILL | {"data.path": data, "lora.rank": 0}
                if name != "gpt2":
                    keys["model.context"] = 16
                self.started("--lora-from", theirs, keys=keys, out=out, source=REFERENCE / name)
                self.exported(source=out, target=target)
                self.assertEqual(self.adapters(target), self.adapters(theirs))
                ours, described = (json.loads((folder / "adapter_config.json").read_text())
                                   for folder in (target, theirs))
                for key in ("peft_type", "task_type", "r", "lora_alpha", "use_rslora", "fan_in_fan_out", "bias"):
                    self.assertEqual(ours[key], described[key], key)
                # PEFT writes whole names for all-linear.
                self.assertEqual(set(ours["target_modules"]),
                                 {module.split(".")[-1] for module in described["target_modules"]})
                self.assertEqual(ours["base_model_name_or_path"], str(REFERENCE / name))
                self.assertEqual(sorted(path.name for path in target.iterdir()),
                                 ["adapter_config.json", "adapter_model.safetensors"])

    def test_what_is_merged_computes_the_same(self):
        for kind, config in {"gpt2": GPT2, **LLAMAS}.items():
            with self.subTest(kind):
                tensors = gpt2_tensors() if kind == "gpt2" else llama_tensors(config)
                source = write_folder(self.folder / f"hf-{kind}", config, tensors)
                out, whole = self.folder / kind, self.folder / f"whole-{kind}"
                keys = {"model.context": 16, "lora.targets": "all-linear", "lora.alpha": 16}
                self.started(keys=keys, out=out, source=source)
                self.exported("--merge", source=out, target=whole)
                found, base = read_folder(whole), read_folder(source)
                self.assertEqual(found.keys(), base.keys())
                for name, tensor in found.items():
                    is_matrix = re.search(r"proj\.weight|c_attn\.weight|c_fc\.weight", name) is not None
                    self.assertEqual(tensor != base[name], is_matrix, name)
                losses = [self.loss_of(folder) for folder in (out, whole, source)]
                # Sums of a few hundred terms in another order, and matrices rounded once more.
                self.assertAlmostEqual(losses[0], losses[1], delta=1e-5 * losses[0])
                self.assertNotAlmostEqual(losses[0], losses[2], delta=1e-3)
                texts = [program("generate", folder, "--data", self.shared / "data", "--prompt", "to be",
                                 "--temperature", 0, "--tokens", 8, cwd=self.folder) for folder in (out, whole)]
                self.assertEqual([text.returncode for text in texts], [0, 0], texts[0].stderr + texts[1].stderr)
                self.assertEqual(texts[0].stdout, texts[1].stdout)

    def loss_of(self, folder):
        result = program("evaluate", folder, "--data", self.shared / "data", "--json", "--context", 16, cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["loss"]

    def test_the_model_keeps_its_bits_and_adapters_alone_have_states(self):
        write_folder(self.source, LLAMAS["qwen3"], llama_tensors(LLAMAS["qwen3"]))
        for precision in ("fp32", "bf16"):
            with self.subTest(precision):
                keys = {"train.precision": precision, "model.context": 16, "train.recompute": "true"}
                before, after = self.folder / f"before-{precision}", self.folder / f"after-{precision}"
                self.started(keys=keys | {"train.stop_after": 1}, out=before)
                self.started(keys=keys, out=after)
                first, last = (self.parameters(out) for out in (before, after))
                for name, tensor in last.items():
                    self.assertEqual(tensor == first[name], not is_adapter(name), name)
                for name in self.tensors("optimizer.safetensors", after):
                    self.assertTrue(is_adapter(name), name)

    def test_the_model_is_written_once(self):
        write_folder(self.source, GPT2, gpt2_tensors())
        self.started(keys={"train.steps": 8, "train.checkpoint_every": 1, "train.keep": 8, "train.stop_after": 6})

        def files():
            return {path.stat().st_ino for path in self.out.glob("checkpoints/step-*/frozen.safetensors")}

        # While the first checkpoint is under way the second cannot know that it will be there.
        self.assertLessEqual(len(files()), 2)
        self.exported("--merge", target=self.folder / "merged")
        whole = program("checkpoints", self.out, "--verify", cwd=self.folder)
        self.assertEqual(whole.returncode, 0, whole.stdout)
        pruned = program("checkpoints", self.out, "--prune", "--keep", 1, cwd=self.folder)
        self.assertEqual(pruned.returncode, 0, pruned.stderr)
        self.assertEqual(len(files()), 1)
        self.exported("--merge", target=self.folder / "again")
        self.assertEqual(snapshot(self.folder / "merged"), snapshot(self.folder / "again"))
        self.resumed("--set", "train.stop_after=0")
        self.assertLessEqual(len(files()), 3, "a process relies on what it has written")
        straight = self.folder / "straight"
        self.started(keys={"train.steps": 8}, out=straight)
        self.expect_same_state(straight, self.out)
        path = self.checkpoint() / "frozen.safetensors"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        self.expect_error(self.resume("--set", "train.steps=9"), "frozen.safetensors: tensor '", "have checksum")

    def test_a_resumed_run_has_the_bits_of_a_straight_one(self):
        write_folder(self.source, GPT2, gpt2_tensors())
        straight = self.folder / "straight"
        self.started(out=straight)
        self.started(keys={"train.stop_after": 2})
        for key, part in (("lora.rank=3", "adapters"), ("lora.alpha=9", "adapters"), ("lora.rank=0", "adapters"),
                          ("lora.targets=c_fc", "adapters")):
            extra = () if key != "lora.rank=0" else ("--set", "lora.alpha=8")
            self.expect_error(self.resume("--set", key, *extra), part)
        shutil.rmtree(self.source)
        self.resumed()
        self.expect_same_state(straight, self.out)

    def test_exported_adapters_go_on(self):
        write_folder(self.source, LLAMAS["llama"], llama_tensors(LLAMAS["llama"]))
        keys = {"model.context": 16, "lora.targets": "o_proj,up_proj", "lora.rslora": "true"}
        self.started(keys=keys)
        text = self.exported()
        self.assertIn(str(self.source), text)
        again = self.folder / "again"
        self.started("--lora-from", self.target, keys=STILL | {"model.context": 16, "lora.rank": 0}, out=again)
        self.exported(source=again, target=self.folder / "second")
        self.assertEqual(snapshot(self.target), snapshot(self.folder / "second"))
        self.assertEqual(json.loads((again / "run.json").read_text())["lora_from"], str(self.target))

    def test_adapters_are_no_model(self):
        write_folder(self.source, LLAMAS["llama"], llama_tensors(LLAMAS["llama"]))
        self.started(keys={"model.context": 16})
        self.exported()
        for name, more in (("generate", ()), ("evaluate", ("--data", self.shared / "data")), ("export", ("x",))):
            self.expect_error(program(name, self.target, *more, cwd=self.folder), "exported: holds adapters",
                              "--lora-from", "--merge", name=name)

    def test_a_new_model_can_have_adapters(self):
        self.trained(keys={"model.preset": "llama-tiny", "model.kv_heads": 1, "model.ffn": 24, "lora.rank": 2,
                           "lora.targets": "all-linear", "train.accumulate": 2})
        self.assertIn("--merge", self.exported())
        self.assertIsNone(json.loads((self.target / "adapter_config.json").read_text())["base_model_name_or_path"])
        self.exported("--merge", target=self.folder / "whole")

    @unittest.skipUnless(os.environ["DOS_MPIEXEC"], "built without MPI")
    def test_ranks_have_one_result(self):
        write_folder(self.source, GPT2, gpt2_tensors())
        keys = {"train.workers": 1, "train.batch": 1, "train.lanes": 1, "lora.targets": "all-linear"}
        for ranks in (2, 3):
            files, losses = [], []
            for zero in (1, 2, 3):
                out = self.folder / f"ranks{ranks}-zero{zero}"
                self.started_on_ranks(ranks, out, keys | {"dist.zero": zero})
                files.append(self.checkpoint_files(out))
                losses = [step["loss"] for step in self.metrics(out) if "loss" in step]
            self.assertEqual(files[0], files[1])
            self.assertEqual(files[0], files[2])
            alone = self.folder / f"alone{ranks}"
            self.started(keys={"train.workers": 1, "train.batch": ranks, "train.lanes": ranks,
                               "lora.targets": "all-linear"}, out=alone)
            for one, many in zip((s["loss"] for s in self.metrics(alone) if "loss" in s), losses, strict=True):
                self.assertAlmostEqual(one, many, delta=1e-5 * one)

    def test_what_is_wrong_is_named_and_nothing_is_written(self):
        write_folder(self.source, LLAMAS["llama"], llama_tensors(LLAMAS["llama"]))
        cases = (
            ({"lora.targets": "q_prj"}, ("lora.targets: 'q_prj' matches no matrix", "did you mean 'q_proj'?")),
            ({"lora.targets": "lm_head"}, ("'lm_head' matches no matrix",)),
            ({"lora.rank": 9}, ("lora.rank = 9 is above 8", "attention.qkv")),
            ({"lora.rank": -1}, ("lora.rank", "-1")),
            ({"lora.alpha": 0}, ("lora.alpha", "be positive")),
            ({"lora.alpha": "nan"}, ("lora.alpha",)),
            ({"lora.rank": 0, "lora.targets": "q_proj"}, ("lora.rank = 0 asks for no adapters",)),
            ({"optim.freeze": "token*"}, ("'token*' matches no adapter",)),
            ({"optim.freeze": "blocks.*"}, ("freezes every parameter",)),
        )
        for keys, parts in cases:
            with self.subTest(keys):
                self.expect_error(self.start_from(keys={"model.context": 16} | keys), *parts)
                self.expect_nothing_written()

    def test_bad_folders_of_adapters_are_refused(self):
        write_folder(self.source, GPT2, gpt2_tensors())
        self.started(keys={"train.stop_after": 1})
        self.exported()
        good, config = self.adapters(), json.loads((self.target / "adapter_config.json").read_text())
        name = "base_model.model.transformer.h.1.attn.c_attn.lora_B.weight"
        dtype, shape, data = good[name]
        cases = (
            ({}, {k: v for k, v in good.items() if k != name}, ("missing: " + name, "adapter_config.json")),
            ({}, good | {name: (dtype, shape[::-1], data)}, (f"of another shape: {name} [2, 72] instead of [72, 2]",)),
            ({}, good | {"x": ("F32", [1], bytes(4))}, ("unexpected: x",)),
            ({}, good | {name: (dtype, shape, struct.pack("<f", float("nan")) + data[4:])}, (name, "element 0 is nan")),
            ({"r": 3}, good, ("of another shape",)),
            ({"peft_type": "IA3"}, good, ("field 'peft_type'", "IA3")),
            ({"use_dora": True}, good, ("field 'use_dora'",)),
            ({"target_modules": ["q_proj"]}, good, ("'q_proj' matches no matrix",)),
        )
        out = self.folder / "next"
        for i, (changes, tensors, parts) in enumerate(cases):
            with self.subTest(parts[0]):
                folder = self.folder / f"bad{i}"
                folder.mkdir()
                (folder / "adapter_config.json").write_text(json.dumps(config | changes))
                write_safetensors(folder / "adapter_model.safetensors", tensors)
                self.expect_error(self.start_from("--lora-from", folder, keys={"lora.rank": 0}, out=out), *parts)
                self.assertFalse(out.exists() and any(out.iterdir()))
        self.expect_error(self.start_from("--lora-from", self.target, keys={"lora.rank": 4}, out=out),
                          "lora.rank = 4, but the folder's adapters have 2", "leave it out")
        self.expect_error(self.start_from("--lora-from", "none", keys={"lora.rank": 0}, out=out),
                          "none/adapter_config.json: does not exist")
        (self.target / "adapter_model.safetensors").unlink()
        self.expect_error(self.start_from("--lora-from", self.target, keys={"lora.rank": 0}, out=out),
                          "adapter_model.safetensors: does not exist")
        self.expect_error(self.train("--lora-from", self.target, out=out), "--init-from")

    def test_merging_needs_adapters(self):
        self.trained(keys={"train.stop_after": 1})
        self.expect_error(self.export("--merge"), "has no adapters", "leave --merge out", name="export")
        self.exported()
        self.expect_error(self.export("--merge", source=self.target, target=self.folder / "b"), "has no adapters",
                          name="export")
        self.assertFalse((self.folder / "b").exists())

    def test_plan_and_dry_run_count_adapters(self):
        whole = self.planned("h100", "llama-3.1-8b")
        part = self.planned("h100", "llama-3.1-8b", "--set", "lora.rank=16")
        # Of q_proj and v_proj of 32 blocks: rank times both sides.
        adapters = 32 * 16 * (4096 + 4096 + 4096 + 1024)
        self.assertEqual(part["trained_params"], adapters)
        self.assertEqual(part["params"], whole["params"] + adapters)
        for key in ("update_s", "backward_s", "step_s"):
            self.assertLess(part[key], whole[key])
        (self.folder / "run.toml").write_text('[model]\npreset = "llama-3.1-8b"\n[lora]\nrank = 16\n')
        file = program("plan", "--machine", "h100", "--model", "run.toml", "--json", cwd=self.folder)
        self.assertEqual(json.loads(file.stdout)["trained_params"], adapters, file.stderr)
        self.expect_error(program("plan", "--machine", "h100", "--model", "llama-3.1-8b", "--set", "lora.rank=16",
                                  "--set", "lora.targets=c_attn", cwd=self.folder),
                          "'c_attn' matches no matrix", name="plan")
        text = self.trained("--dry-run", keys={"lora.rank": 2}).stdout
        self.assertRegex(text, r"gradients +\d")


if __name__ == "__main__":
    unittest.main()
