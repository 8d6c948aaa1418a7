#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A part of a model is trained: docs/finetuning.md."""

import json
import os
import re
import unittest

from folder_runs import PAGES, FolderTest
from harness import program, settings
from model_folder import read_folder

PAGE = PAGES / "finetuning.md"
FREEZE = {"model.layers": 2, "optim.freeze": "*_embedding.*,blocks.0.*", "train.steps": 4, "optim.lr": 1e-2}


class FineTuning(FolderTest):
    def expect_frozen_kept(self, frozen, before, after):
        for name, tensor in after.items():
            with self.subTest(name):
                self.assertEqual(frozen(name), tensor == before[name])

    def test_the_commands_of_the_page(self):
        self.make_page_files()
        result = self.run_commands(PAGE.read_text(), programs=4)
        self.assertIn("of them trained", result.stdout)
        self.expect_frozen_kept(lambda name: ".h.1." not in name and ".ln_f." not in name,
                                read_folder(self.folder / "model"), read_folder(self.folder / "tuned"))

    def test_the_patterns_of_the_page_are_accepted(self):
        patterns = re.findall(r"^\| [^|]+ \| `([^`:|]+)`", PAGE.read_text().split("| what is trained | `optim.freeze` |")[1],
                              re.MULTILINE)
        self.assertEqual(len(patterns), 4)
        gpt2 = {"model.layers": 12}
        llama = {"model.preset": "llama-tiny", "model.layers": 1, "model.width": 16, "model.heads": 2, "model.ffn": 24,
                 "model.kv_heads": 2}
        for pattern in patterns:
            with self.subTest(pattern):
                model = llama if "token*" in pattern else gpt2
                self.trained("--dry-run", keys=model | {"optim.freeze": pattern})

    def test_what_is_frozen_keeps_its_bits_and_has_no_states(self):
        for precision in ("fp32", "bf16"):
            keys = FREEZE | {"train.precision": precision}
            before, after = self.folder / f"{precision}-before", self.folder / f"{precision}-after"
            self.trained(keys=keys | {"train.stop_after": 1}, out=before)
            self.trained(keys=keys, out=after)
            self.expect_frozen_kept(lambda name: not name.startswith(("blocks.1.", "final_norm.")),
                                    self.parameters(before), self.parameters(after))
            for name in self.tensors("optimizer.safetensors", after):
                self.assertTrue(name.startswith(("blocks.1.", "final_norm.")), name)

    def test_a_resumed_run_has_the_bits_of_a_straight_one(self):
        straight = self.folder / "straight"
        self.trained(keys=FREEZE, out=straight)
        self.trained(keys=FREEZE | {"train.stop_after": 2})
        for freeze in ("", "blocks.*"):
            self.expect_error(self.resume("--set", f"optim.freeze={freeze}"), "this run", "optim.freeze")
        self.resumed("--set", "optim.freeze=blocks.0.*,position*,token*")
        self.expect_same_state(straight, self.out)

    def test_a_factor_of_nothing_and_one_of_one_change_nothing(self):
        plain, one = self.folder / "plain", self.folder / "one"
        self.trained(keys=FREEZE, out=plain)
        self.trained(keys=FREEZE | {"optim.lr_factors": "blocks.1.mlp.*:1"}, out=one)
        self.expect_same_state(plain, one)
        self.trained(keys=FREEZE | {"optim.lr_factors": "blocks.1.mlp.*:0"})
        moved = self.parameters()
        start = self.folder / "start"
        self.trained(keys=FREEZE | {"optim.lr_factors": "*:0"}, out=start)
        self.expect_frozen_kept(lambda name: ".mlp." in name or not name.startswith(("blocks.1.", "final_norm.")),
                                self.parameters(start), moved)

    def test_a_dry_run_counts_what_is_trained(self):
        texts = [self.trained("--dry-run", keys=FREEZE | {"optim.freeze": freeze}).stdout
                 for freeze in ("", FREEZE["optim.freeze"])]
        lines = [dict(re.findall(r"^  (\w[\w ]*\w) +([\d.]+ \w+)$", text, re.MULTILINE)) for text in texts]
        self.assertEqual(lines[0]["parameters"], lines[1]["parameters"])
        for category in ("gradients", "optimizer states"):
            self.assertNotEqual(lines[0][category], lines[1][category])

    def test_plan_counts_what_is_trained(self):
        whole = self.planned("rtx4090", "gpt2-124m")
        part = self.planned("rtx4090", "gpt2-124m", "--set", "optim.freeze=*_embedding.*,blocks.?.*")
        self.assertEqual(whole["trained_params"], whole["params"])
        self.assertEqual(part["trained_params"], 2 * (12 * 768 * 768 + 13 * 768) + 2 * 768)
        for key in ("update_s", "backward_s", "step_s"):
            self.assertLess(part[key], whole[key])
        (self.folder / "run.toml").write_text('[model]\npreset = "gpt2-124m"\n[optim]\nfreeze = "*_embedding.*,blocks.?.*"\n')
        result = program("plan", "--machine", "rtx4090", "--model", "run.toml", "--json", cwd=self.folder)
        self.assertEqual(json.loads(result.stdout)["trained_params"], part["trained_params"])
        self.expect_error(program("plan", "--machine", "rtx4090", "--model", "gpt2-124m", "--set", "optim.freeze=blok*",
                                  cwd=self.folder), "optim.freeze: 'blok*' matches no parameter", name="plan")

    @unittest.skipUnless(os.environ["DOS_MPIEXEC"], "built without MPI")
    def test_ranks_have_one_result(self):
        files = []
        for zero in (1, 2, 3):
            out = self.folder / f"zero{zero}"
            keys = {"data.path": self.shared / "data", "train.validate_every": 0, "train.workers": 1, "train.batch": 1,
                    "train.lanes": 1, "model.preset": "tiny", "model.width": 16, "model.heads": 2, "model.context": 16,
                    "sched.subgroup_params": 1000, "dist.zero": zero} | FREEZE
            self.trained_on_ranks(3, *settings(keys), "--out", out)
            files.append(self.checkpoint_files(out))
        self.assertEqual(files[0], files[1])
        self.assertEqual(files[0], files[2])


if __name__ == "__main__":
    unittest.main()
