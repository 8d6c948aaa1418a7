#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/reference/tokenizers/llama/spaces.json: what the library `tokenizers` makes of texts by the
SentencePiece model of that folder where a tokenizer.json says where spaces are put (`Metaspace`, each scheme;
`apart`: the second with `split`).

    python3 -m venv venv && venv/bin/pip install tokenizers transformers sentencepiece protobuf
    venv/bin/python tools/make_space_reference.py

The random strings are those that make_tokenizer_reference.py has written."""

import gzip
import json

import tokenizers
import transformers
from make_tokenizer_reference import ROOT, SENTENCES, fnv, write_json

FOLDER = ROOT / "tests/reference/tokenizers"
LINES = SENTENCES[:3] + [
    "a<|im_end|> b<think>c</s>", "<s> d <mask>  <cut> e\u2581f 1234", " ", "  \n x", "\u2581", "", " the ship", "  the",
    "\u2581the", "the </s> ship", "the</s>ship <s>the", "a<think> b<think>c", "\n the", "<s> the", "<s>the"]


def main():
    llama = transformers.LlamaTokenizerFast.from_pretrained(FOLDER / "llama")
    backend = json.loads(llama.backend_tokenizer.to_str())
    with gzip.open(FOLDER / "random.jsonl.gz", "rt", encoding="utf-8") as rows:
        strings = [json.loads(row)[0] for row in rows]
    result = {"library": f"tokenizers {tokenizers.__version__}", "added_tokens": backend["added_tokens"]}
    for name in ("always", "first", "never", "apart"):
        scheme = "first" if name == "apart" else name
        backend |= {"normalizer": None, "pre_tokenizer": {
            "type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": name == "apart"}}
        known = tokenizers.Tokenizer.from_str(json.dumps(backend))

        def ids(string, known=known):
            return known.encode(string, add_special_tokens=False).ids

        result[name] = {"lines": [{"text": line, "tokens": ids(line)} for line in LINES],
                          # 16 bits of each.
                          "random": "".join(fnv(ids(string))[:4] for string in strings)}
    write_json(FOLDER / "llama/spaces.json", result, separators=(",", ":"))


if __name__ == "__main__":
    main()
