#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what `transformers` computes of tiny models, GPT-2 and the LLaMA family: a folder a model, as its
save_pretrained() writes it, with tokens, logits, gradients and the losses of AdamW steps beside it.

Everything is computed in float64 from weights rounded to float32: where the library asks for float32
inside a float64 model (norms, softmax, rotary angles), it gets float64. The random numbers come from
Python's own generator. Usage: make_hf_reference.py --output tests/reference/hf_tiny
"""

import argparse
import json
import math
import os
import random
import re
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import torch
import transformers
from safetensors.torch import save_file
from torch.overrides import TorchFunctionMode

LAYERS, WIDTH, CONTEXT, VOCABULARY = 2, 24, 24, 61
GPT2_CONTEXT = 32  # of a table: all of them are used
STEPS, BATCH = 50, 2
LEARNING_RATE, BETAS, EPS_ADAM, WEIGHT_DECAY, CLIP = 2e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
SEED = 20260708
# Attention is not uniform and gates are not linear at this deviation and width.
DEVIATION = 0.02 * math.sqrt(768 / WIDTH)

SHARED = {
    "vocab_size": VOCABULARY,
    "use_cache": False,
    "attn_implementation": "eager",
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}

LLAMA = SHARED | {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "max_position_embeddings": 128,
}

# Of eight elements a head, one pair of llama3 turns as before, one between, two slower.
MODELS = {
    "gpt2": (
        transformers.GPT2Config,
        SHARED | {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": 3, "n_positions": GPT2_CONTEXT},
    ),
    "llama3": (
        transformers.LlamaConfig,
        LLAMA
        | {
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "intermediate_size": 40,
            "rms_norm_eps": 1e-5,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 100.0,
                "factor": 4.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            },
            "tie_word_embeddings": False,
        },
    ),
    "mistral": (
        transformers.MistralConfig,
        LLAMA
        | {
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "intermediate_size": 33,
            "rms_norm_eps": 1e-5,
            "sliding_window": 5,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
            "tie_word_embeddings": False,
        },
    ),
    "qwen2": (
        transformers.Qwen2Config,
        LLAMA
        | {
            "num_attention_heads": 6,
            "num_key_value_heads": 2,
            "intermediate_size": 48,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
            "tie_word_embeddings": True,
        },
    ),
    "qwen3": (
        transformers.Qwen3Config,
        LLAMA
        | {
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 10,
            "intermediate_size": 40,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
            "tie_word_embeddings": False,
        },
    ),
}


class InDouble(TorchFunctionMode):
    """Asked for float32, gives float64."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        def change(value):
            return torch.float64 if value is torch.float32 else value

        if func is torch.Tensor.float:
            func = torch.Tensor.double
        return func(*map(change, args), **{k: change(v) for k, v in (kwargs or {}).items()})


def context_of(config):
    return getattr(config, "n_positions", CONTEXT)


def shape_of(config):
    """The model as this project's checkpoints describe it."""
    shape = {
        "architecture": "gpt2" if config.model_type == "gpt2" else "llama",
        "layers": config.num_hidden_layers,
        "width": config.hidden_size,
        "heads": config.num_attention_heads,
        "context": context_of(config),
        "vocabulary": config.vocab_size,
    }
    if config.model_type == "gpt2":
        return shape
    rope = config.rope_parameters
    shape |= {
        "kv_heads": config.num_key_value_heads,
        "ffn": config.intermediate_size,
        "rope_theta": rope["rope_theta"],
        "norm_epsilon": config.rms_norm_eps,
        "tied_head": config.tie_word_embeddings,
        "qkv_bias": config.model_type == "qwen2",
        "qk_norm": config.model_type == "qwen3",
    }
    if config.model_type == "qwen3":
        shape["head_dim"] = config.head_dim
    if rope["rope_type"] == "llama3":
        shape["rope_scaling"] = {
            "factor": rope["factor"],
            "low_freq_factor": rope["low_freq_factor"],
            "high_freq_factor": rope["high_freq_factor"],
            "original_context": rope["original_max_position_embeddings"],
        }
    if config.model_type == "mistral":
        shape["window"] = config.sliding_window
    return shape


def make_weights(model, rng):
    """Name -> float32 tensor. Biases and norms are off 0 and 1: a forgotten one shows."""
    weights = {}
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            mean, spread = 0.0, 0.1
        elif "norm" in name or ".ln_" in name:
            mean, spread = 1.0, 0.1
        else:
            mean, spread = 0.0, DEVIATION
        values = [rng.gauss(mean, spread) for _ in range(parameter.numel())]
        weights[name] = (
            torch.tensor(values, dtype=torch.float64).reshape(parameter.shape).to(torch.float32)
        )
    return weights


def make_tokens(rng, context):
    """I32 [STEPS, BATCH, context + 1]: noisy affine sequences, so that there is a rule to learn."""

    def sequence():
        tokens = [rng.randrange(VOCABULARY)]
        while len(tokens) <= context:
            follow = rng.random() < 0.8
            tokens.append((5 * tokens[-1] + 3) % VOCABULARY if follow else rng.randrange(VOCABULARY))
        return tokens

    return torch.tensor([[sequence() for _ in range(BATCH)] for _ in range(STEPS)], dtype=torch.int32)


def forward(model, tokens):
    """Mean loss over all tokens, and the logits, of tokens [BATCH, CONTEXT + 1]."""
    inputs, targets = tokens[:, :-1].long(), tokens[:, 1:].long()
    logits = model(input_ids=inputs).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()), logits


def decays(name, parameter):
    """Matrices but the tables."""
    return parameter.dim() == 2 and re.search(r"embed_tokens|\bwte\b|\bwpe\b", name) is None


def train(model, tokens):
    """Losses and gradient norms of the steps."""
    named = list(model.named_parameters())
    decayed = [p for n, p in named if decays(n, p)]
    others = [p for n, p in named if not decays(n, p)]
    optimizer = torch.optim.AdamW(
        [
            {"params": decayed, "weight_decay": WEIGHT_DECAY},
            {"params": others, "weight_decay": 0.0},
        ],
        lr=LEARNING_RATE,
        betas=BETAS,
        eps=EPS_ADAM,
    )
    losses, norms = [], []
    for batch in tokens:
        optimizer.zero_grad()
        loss, _ = forward(model, batch)
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_([p for _, p in named], CLIP)))
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, norms


def described_optimizer(learning_rate):
    """As expected.json says what the losses were trained with."""
    return {
        "learning_rate": learning_rate,
        "beta1": BETAS[0],
        "beta2": BETAS[1],
        "eps": EPS_ADAM,
        "weight_decay": WEIGHT_DECAY,
        "clip": CLIP,
    }


def in_double(config, weights):
    """The model whose every number is float64, with these weights."""
    model = transformers.AutoModelForCausalLM.from_config(config).double()
    model.load_state_dict({n: w.double() for n, w in weights.items()}, strict=False)
    model.tie_weights()
    return model.eval()


def write(name, folder):
    kind, choices = MODELS[name]
    config = kind(**choices)
    rng = random.Random(f"{SEED} {name}")
    plain = transformers.AutoModelForCausalLM.from_config(config)
    weights = make_weights(plain, rng)
    tokens = make_tokens(rng, context_of(config))
    plain.load_state_dict(weights, strict=False)
    plain.tie_weights()
    plain.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    with InDouble():
        model = in_double(config, weights)
        loss, logits = forward(model, tokens[0])
        loss.backward()
        assert logits.dtype == torch.float64
        losses, norms = train(in_double(config, weights), tokens)
    with torch.no_grad():
        rounded, _ = forward(plain.eval(), tokens[0])
    tensors = {"tokens": tokens, "logits": logits.detach().to(torch.float32)}
    for parameter, tensor in model.named_parameters():
        tensors[f"gradient.{parameter}"] = tensor.grad.to(torch.float32)
    save_file({n: t.contiguous() for n, t in tensors.items()}, folder / "reference.safetensors")
    expected = {
        "model": shape_of(config),
        "optimizer": described_optimizer(LEARNING_RATE),
        "loss": float(loss.detach()),
        "losses": losses,
        "gradient_norms": norms,
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    error = float(rounded) - float(loss.detach())
    print(f"{name}: loss {float(loss.detach()):.6f} (float32 {error:+.1e}) -> {losses[-1]:.6f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    output = parser.parse_args().output
    torch.set_num_threads(1)
    for name in MODELS:
        folder = output / name
        folder.mkdir(parents=True, exist_ok=True)
        write(name, folder)


if __name__ == "__main__":
    main()
