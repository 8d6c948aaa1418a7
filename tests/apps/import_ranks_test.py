#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several ranks that start from a model's folder."""

import json
import os
import shutil
import struct
import unittest

from folder_runs import KEYS, STILL, FolderTest
from harness import program, settings
from model_folder import GPT2, LLAMAS, gpt2_tensors, llama_tensors, read_folder, write_folder


@unittest.skipUnless(os.environ["DOS_MPIEXEC"], "built without MPI")
class ImportOnRanks(FolderTest):
    keys = KEYS | STILL

    def test_ranks_take_their_parts(self):
        write_folder(self.source, GPT2, gpt2_tensors())
        for zero in (1, 3):
            out = self.folder / f"ranks{zero}"
            self.started_on_ranks(2, out, {"train.workers": 1, "train.batch": 2, "train.lanes": 1, "dist.zero": zero})
            self.exported(source=out, target=self.folder / f"from-ranks{zero}")
            self.assertEqual(read_folder(self.folder / f"from-ranks{zero}"), gpt2_tensors())

    def test_ranks_take_their_parts_of_llamas_and_write_traces(self):
        for zero, (kind, config) in enumerate(LLAMAS.items()):
            self.source = write_folder(self.folder / f"hf-{kind}", config, llama_tensors(config))
            out = self.folder / kind
            self.trained_on_ranks(2, *settings({"data.path": self.shared / "data"} | self.keys | {
                "train.workers": 1, "train.batch": 2, "train.lanes": 1, "dist.zero": max(1, zero), "model.context": 16}),
                "--out", out, "--init-from", self.source, "--trace", self.folder / f"trace-{kind}")
            self.exported(source=out, target=self.folder / f"from-{kind}")
            self.assertEqual(read_folder(self.folder / f"from-{kind}"), read_folder(self.source))
            report = program("report", self.folder / f"trace-{kind}", "--json", cwd=self.folder)
            self.assertEqual(report.returncode, 0, report.stderr)
            self.assertEqual({worker["rank"] for worker in json.loads(report.stdout)["workers"]}, {0, 1})

    def test_what_one_rank_finds_ends_all_and_nothing_is_written(self):
        tensors = gpt2_tensors()
        names = ("transformer.h.0.mlp.c_fc.weight", "transformer.h.1.mlp.c_proj.weight", "transformer.wte.weight")
        for name in names:
            dtype, shape, data = tensors[name]
            shutil.rmtree(self.source, ignore_errors=True)
            write_folder(self.source, GPT2, tensors | {name: (dtype, shape, data[:-4] + struct.pack("<f", float("nan")))})
            for zero in (1, 3):
                with self.subTest(name=name, zero=zero):
                    result = self.train_on_ranks(2, *settings({"data.path": self.shared / "data"} | self.keys | {
                        "train.workers": 1, "train.batch": 2, "train.lanes": 1, "dist.zero": zero}),
                        "--out", self.out, "--init-from", self.source)
                    self.assertEqual(result.returncode, 1, result.stderr)
                    said = [line for line in result.stderr.splitlines() if " is nan" in line]
                    self.assertEqual((len(said), name in said[0]), (1, True), result.stderr)
                    self.assertFalse(self.out.exists())


if __name__ == "__main__":
    unittest.main()
