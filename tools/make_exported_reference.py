#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes exported.json beside SentencePiece models of tests/reference/tokenizers: the tokens that `transformers` makes
of texts by the tokenizer.json that `export` writes of a run with the model, which have to be SentencePiece's own.

    python3 -m venv venv && venv/bin/pip install tokenizers transformers sentencepiece protobuf
    venv/bin/python tools/make_exported_reference.py --programs build/release/apps

The model of `unigram` is trained as SentencePiece does by itself, so that it normalizes, where there is none yet."""

import argparse
import json
import subprocess
import tempfile
import unicodedata
from pathlib import Path

import sentencepiece
import tokenizers
import transformers
from make_tokenizer_reference import ROOT, SENTENCES, fnv, write_json

REFERENCE = ROOT / "tests/reference/tokenizers"
FOLDERS = ("unigram", "llama")
CONFIG = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "bos_token": "<s>", "eos_token": "</s>",
          "unk_token": "<unk>"}
VOCALISED = ["\u0645\u064f\u062d\u064e\u0645\u0651\u064e\u062f",
             "\u05d1\u05bc\u05b0\u05e8\u05b5\u05d0\u05e9\u05c1\u05b4"]
SPACES = ["a</s>b", " a</s> b", "  a  </s>  b  </s>c", "</s> x", "</s>x", " </s> x", "   ", " a", "a ", " \t x", "\tx",
          "a\n  b", "\n a", "a  b   c", "x</s>   </s>y", "\u00e9  \u00fc", "\uff42 \ufb01ne", "<0x41> < <unk"]


def train(text, folder):
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "text.txt"
        path.write_text(text, encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            input=path, model_prefix=folder / "tokenizer", model_type="unigram", vocab_size=1500, byte_fallback=True,
            minloglevel=3)
    (folder / "tokenizer.vocab").unlink()


def exported(programs, model, config, folder):
    """The folder of a run whose text was prepared with the model."""
    def run(name, *arguments):
        subprocess.run([programs / name, *map(str, arguments)], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    (folder / "tokenizer.model").write_bytes(model.read_bytes())
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    run("prepare_data", "--tokenizer", "sentencepiece", "--model", "tokenizer.model", "--output", "data",
        REFERENCE / "text.txt")
    run("train_gpt", "--out", "run", "--set", "model.preset=tiny", "--set", "data.path=data", "--set",
        "train.steps=1", "--set", "train.batch=1")
    run("export", "run", "out")
    return folder / "out"


def reference(folder, programs, text):
    own = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    several = [unicodedata.normalize(form, line) for form in ("NFD", "NFKD") for line in SENTENCES]
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8")) if path.exists() else CONFIG
    result = {"library": f"tokenizers {tokenizers.__version__}"}
    for name in ("legacy", "new"):
        with tempfile.TemporaryDirectory() as scratch:
            changed = config | {"legacy": name == "legacy"}
            target = exported(programs, folder / "tokenizer.model", changed, Path(scratch))
            known = transformers.AutoTokenizer.from_pretrained(target)
            document = json.loads((target / "tokenizer.json").read_text(encoding="utf-8"))

        def ids(line, known=known):
            return known(line, add_special_tokens=False)["input_ids"]

        for line in several + text.splitlines():
            assert ids(line) == own.encode(line), f"{folder.name}, {name}: {line!r}"
        for part in ("vocab", "merges"):
            document["model"].pop(part, None)
        for step in document["normalizer"]["normalizers"]:
            step.pop("precompiled_charsmap", None)
        result[name] = {
            "document": document, "text": fnv([token for line in text.split("\n") for token in ids(line)]),
            "lines": [{"text": line, "tokens": ids(line)} for line in several + VOCALISED + SPACES]}
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=lambda text: Path(text).resolve(), required=True)
    options = parser.parse_args()
    text = (REFERENCE / "text.txt").read_bytes().decode()
    for folder in (REFERENCE / name for name in FOLDERS):
        folder.mkdir(exist_ok=True)
        if not (folder / "tokenizer.model").exists():
            train(text, folder)
        write_json(folder / "exported.json", reference(folder, options.programs, text), separators=(",", ":"))


if __name__ == "__main__":
    main()
