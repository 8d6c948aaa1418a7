# SPDX-License-Identifier: Apache-2.0
"""Runs that start from a model's folder, and the folders that `export` makes of them."""

import os
import re
import shutil
from pathlib import Path

from harness import TINY, AppTest, program, programs_in, run_commands_of_page, settings
from model_folder import GPT2, gpt2_tensors, read_safetensors, write_folder

PAGES = Path(os.environ["DOS_SOURCE_DIR"]) / "docs"
# What TINY says of the model the folder says here. Subgroups of a few rows cut every matrix.
KEYS = {k: v for k, v in TINY.items() if not k.startswith("model.")} | {
    "train.validate_every": 0, "sched.subgroup_params": 1000}
# A learning rate that is 0 in single precision.
STILL = {"train.steps": 1, "optim.lr": 1e-60}


class FolderTest(AppTest):
    """Runs start from `source` and are exported to `target`, unless a test says otherwise."""

    keys = KEYS

    def setUp(self):
        super().setUp()
        self.source = self.folder / "hf"
        self.target = self.folder / "exported"

    def start_from(self, *arguments, keys=None, out=None, source=None):
        """train_gpt --init-from with the class's keys and `keys`."""
        chosen = {"data.path": self.shared / "data"} | self.keys | (keys or {})
        return program("train_gpt", *settings(chosen), "--out", out or self.out, "--init-from",
                       source or self.source, *arguments, cwd=self.folder)

    def tensors(self, file, out=None):
        """Of a file of the last checkpoint."""
        return read_safetensors(self.checkpoint(out=out) / file)

    def parameters(self, out=None):
        """Of a run that freezes some."""
        return self.tensors("model.safetensors", out) | self.tensors("frozen.safetensors", out)

    def started(self, *arguments, **options):
        result = self.start_from(*arguments, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def started_on_ranks(self, ranks, out, keys):
        """The same on several ranks."""
        self.trained_on_ranks(ranks, *settings({"data.path": self.shared / "data"} | self.keys | keys), "--out", out,
                       "--init-from", self.source)

    def export(self, *arguments, source=None, target=None):
        return program("export", source or self.out, target or self.target, *arguments, cwd=self.folder)

    def exported(self, *arguments, **options):
        result = self.export(*arguments, **options)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def make_page_files(self):
        """What the pages' commands work on: a GPT-2 with SentencePiece's pieces in `model`, a text in `text`."""
        config = GPT2 | {"vocab_size": 300}
        write_folder(self.folder / "model", config, gpt2_tensors(config=config))
        made = program("prepare_data", "--tokenizer", "sentencepiece", "--vocab-size", 300, "--output", "pieces",
                       self.shared / "corpus.txt", cwd=self.folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        shutil.copy(self.folder / "pieces.model", self.folder / "model/tokenizer.model")
        for name in ("text", "data", "runs"):
            (self.folder / name).mkdir()
        shutil.copy(self.shared / "corpus.txt", self.folder / "text/corpus.txt")

    def run_commands(self, section, programs):
        """Runs the first commands of a page's section, so many programs."""
        commands = re.search(r"```sh\n(.*?)```", section, re.DOTALL)[1]
        self.assertEqual(programs_in(commands), programs)
        result = run_commands_of_page(commands, self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result
