#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what `transformers` computes with tiny models: losses of windows of a text, and the tokens
that greedy generation appends to prompts.

Everything is computed in float64, as make_hf_reference.py does, for the folders that it wrote. Every greedy
choice is clear by MARGIN at least.
Usage: make_inference_reference.py --output tests/reference/hf_tiny
"""

import argparse
import json
import random
from pathlib import Path

import torch
import transformers

from make_hf_reference import SEED, VOCABULARY, InDouble

TOKENS = 83
WINDOWS = (1, 2, 3, 7, 16, 31, 32)
# Prompt lengths, and how many tokens follow: together at most what GPT-2 has positions for.
PROMPTS = ((1, 31), (5, 27), (17, 15), (31, 1))
MARGIN = 1e-3


def loss_of_windows(model, tokens, window):
    """Mean over all tokens but the first, each predicted from those of its window before it."""
    total = 0.0
    for first in range(0, len(tokens) - 1, window):
        inputs = tokens[first : first + window]
        targets = tokens[first + 1 : first + window + 1]
        logits = model(input_ids=torch.tensor([inputs[: len(targets)]])).logits[0]
        total += float(
            torch.nn.functional.cross_entropy(logits, torch.tensor(targets), reduction="sum")
        )
    return total / (len(tokens) - 1)


def margin_of(model, sequence, prompt):
    """The least distance between the two largest logits where a token was chosen."""
    logits = model(input_ids=sequence).logits[0, prompt - 1 : -1]
    best = logits.topk(2, dim=-1).values
    assert torch.equal(logits.argmax(dim=-1), sequence[0, prompt:])
    return float((best[:, 0] - best[:, 1]).min())


def continuation(model, rng, length, count):
    """A prompt and what follows it, drawn again until every choice is clear."""
    while True:
        prompt = [rng.randrange(VOCABULARY) for _ in range(length)]
        # Without a mask of its own the library hides what looks like padding.
        sequence = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, length, dtype=torch.int64),
            do_sample=False,
            max_new_tokens=count,
            use_cache=True,
        )
        if margin_of(model, sequence, length) > MARGIN:
            return {"prompt": prompt, "continuation": sequence[0, length:].tolist()}


def describe(folder):
    rng = random.Random(f"{SEED} inference {folder.name}")
    with torch.no_grad(), InDouble():
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, attn_implementation="eager", dtype=torch.float64
        )
        model = model.double().eval()
        model.generation_config.eos_token_id = None
        model.generation_config.pad_token_id = 0
        tokens = [rng.randrange(VOCABULARY) for _ in range(TOKENS)]
        return {
            "tokens": tokens,
            "losses": {str(window): loss_of_windows(model, tokens, window) for window in WINDOWS},
            "greedy": [continuation(model, rng, *lengths) for lengths in PROMPTS],
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    output = parser.parse_args().output
    torch.set_num_threads(1)
    for config in sorted(output.glob("*/config.json")):
        described = describe(config.parent)
        (config.parent / "inference.json").write_text(json.dumps(described) + "\n")
        print(f"{config.parent.name}: loss {described['losses']}")


if __name__ == "__main__":
    main()
