#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/reference/hf_tiny/frozen.json: the losses of AdamW steps of the folder's models where some
parameters do not require gradients and others have learning rates of their own, as parameter groups.

Models, tokens and optimizer are those of tools/make_hf_reference.py, in float64. Run it behind that one."""

import argparse
import json
import re
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file

from make_hf_reference import (BETAS, CLIP, EPS_ADAM, LEARNING_RATE, WEIGHT_DECAY, InDouble, decays,
                               forward, in_double)

ROOT = Path(__file__).resolve().parent.parent
# By name: the model; what is frozen and the factors, as this project's keys say it; the same as expressions of the
# library's names, of which the first that matches counts.
CASES = {
    "first_block": ("llama3", "token*,blocks.0.*", "*.norm?.*:0.1,final*:0,head*:2",
                    r"embed_tokens|layers\.0\.", {r"layernorm": 0.1, r"model\.norm": 0.0, r"lm_head": 2.0}),
    "tied_table": ("qwen2", "token*,*.attention.qkv.*", "*.mlp.*:0.5", r"embed_tokens|[qkv]_proj", {r"\.mlp\.": 0.5}),
    "norms": ("qwen3", "*norm*", "blocks.1.*:3", "norm", {r"layers\.1\.": 3.0}),
    "head": ("mistral", "head.*,*.mlp.down.*", "", r"lm_head|down_proj", {}),
    "gpt2": ("gpt2", "position*,blocks.0.mlp.*,*.attention.projection.*", "*.norm?.*:0.1,blocks.1.mlp.*:2",
             r"wpe|h\.0\.mlp|attn\.c_proj", {r"\.ln_[12]\.": 0.1, r"h\.1\.mlp": 2.0}),
}


def factor_of(name, factors):
    return next((factor for pattern, factor in factors.items() if re.search(pattern, name)), 1.0)


def groups(model, factors):
    """A parameter group for each weight decay and factor."""
    found = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        decay = WEIGHT_DECAY if decays(name, parameter) else 0.0
        found.setdefault((decay, factor_of(name, factors)), []).append(parameter)
    return [{"params": p, "weight_decay": decay, "lr": LEARNING_RATE * factor}
            for (decay, factor), p in found.items()]


def train(model, tokens, factors, gradients):
    optimizer = torch.optim.AdamW(groups(model, factors), lr=LEARNING_RATE, betas=BETAS, eps=EPS_ADAM)
    trained = [p for p in model.parameters() if p.requires_grad]
    losses, norms = [], []
    for batch in tokens:
        optimizer.zero_grad()
        loss, _ = forward(model, batch)
        loss.backward()
        if not losses:
            for name, parameter in model.named_parameters():
                if parameter.requires_grad:  # the very numbers of the whole model
                    torch.testing.assert_close(parameter.grad, gradients[f"gradient.{name}"].double(), rtol=1e-6,
                                               atol=1e-7)
                else:
                    assert parameter.grad is None
        norms.append(float(torch.nn.utils.clip_grad_norm_(trained, CLIP)))
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, norms


def run(case, folder):
    name, freeze, lr_factors, frozen, factors = case
    config = transformers.AutoConfig.from_pretrained(folder / name, attn_implementation="eager")
    reference = load_file(folder / name / "reference.safetensors")
    weights = load_file(folder / name / "model.safetensors")
    with InDouble():
        model = in_double(config, weights)
        for parameter, tensor in model.named_parameters():
            tensor.requires_grad_(not re.search(frozen, parameter))
        losses, norms = train(model, reference["tokens"], factors, reference)
    return {"model": name, "freeze": freeze, "lr_factors": lr_factors, "losses": losses, "gradient_norms": norms}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "tests/reference/hf_tiny")
    output = parser.parse_args().output
    torch.set_num_threads(1)
    results = {name: run(case, output) for name, case in CASES.items()}
    (output / "frozen.json").write_text(json.dumps(results, indent=1) + "\n")
    for name, result in results.items():
        print(f"{name}: loss {result['losses'][0]:.6f} -> {result['losses'][-1]:.6f}")


if __name__ == "__main__":
    main()
