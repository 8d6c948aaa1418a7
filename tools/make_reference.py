#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the PyTorch reference of a tiny GPT-2: weights, tokens, gradients, activations and ten
AdamW steps.

The numbers are computed in float64 from weights rounded to float32, so that a float32
implementation is compared with the truth and not with another rounding of it. The random numbers
come from Python's own generator, not from PyTorch's: another PyTorch version gets the same weights
and tokens. `--std` exists to measure how sensitive the fixture is to its initialization.
"""

import argparse
import json
import math
import random
import struct
import sys
from pathlib import Path

import torch
from torch.nn import functional

LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY = 2, 24, 3, 16, 61
BATCHES, BATCH = 10, 4
EPS_NORM = 1e-5
# GPT-2's 0.02 belongs to width 768. At width 24 it would leave attention almost uniform and GELU
# almost linear, and a wrong scale or a missing mask would hide below float32's rounding.
STD = 0.02 * math.sqrt(768 / WIDTH)
WARMUP, STEPS, PEAK_LR, MIN_LR = 3, BATCHES, 3e-3, 3e-4
BETAS, EPS_ADAM, WEIGHT_DECAY, CLIP = (0.9, 0.95), 1e-8, 0.1, 1.5
ACCUMULATE = 2
SEED = 20240417

LINEARS = {  # name in a block: (outputs, inputs)
    "attention.qkv": (3 * WIDTH, WIDTH),
    "attention.projection": (WIDTH, WIDTH),
    "mlp.up": (4 * WIDTH, WIDTH),
    "mlp.down": (WIDTH, 4 * WIDTH),
}


def make_weights(rng, std):
    """Name -> float32 tensor. Biases and norms are off 0 and 1: a forgotten one shows."""

    def normal(shape, spread, mean=0.0):
        count = math.prod(shape)
        values = [rng.gauss(mean, spread) for _ in range(count)]
        return torch.tensor(values, dtype=torch.float64).reshape(shape).to(torch.float32)

    def norm(name):
        return {f"{name}.weight": normal([WIDTH], 0.1, 1.0), f"{name}.bias": normal([WIDTH], 0.05)}

    def linear(name, outputs, inputs, spread):
        return {
            f"{name}.weight": normal([outputs, inputs], spread),
            f"{name}.bias": normal([outputs], 0.05),
        }

    residual_std = std / math.sqrt(2 * LAYERS)
    weights = {
        "token_embedding.weight": normal([VOCABULARY, WIDTH], std),
        "position_embedding.weight": normal([CONTEXT, WIDTH], std),
    }
    for i in range(LAYERS):
        for part in ("attention", "mlp"):
            weights |= norm(f"blocks.{i}.norm{1 if part == 'attention' else 2}")
            for name, (outputs, inputs) in LINEARS.items():
                if name.startswith(part):
                    residual = name in ("attention.projection", "mlp.down")
                    weights |= linear(
                        f"blocks.{i}.{name}", outputs, inputs, residual_std if residual else std
                    )
    return weights | norm("final_norm")


def make_tokens(rng):
    """I32 [BATCHES, BATCH, CONTEXT + 1]: noisy affine sequences, so that there is a rule to learn."""

    def sequence():
        tokens = [rng.randrange(VOCABULARY)]
        while len(tokens) <= CONTEXT:
            follow = rng.random() < 0.8
            tokens.append((5 * tokens[-1] + 3) % VOCABULARY if follow else rng.randrange(VOCABULARY))
        return tokens

    return torch.tensor(
        [[sequence() for _ in range(BATCH)] for _ in range(BATCHES)], dtype=torch.int32
    )


def attention(x, w, prefix):
    batch, length, width = x.shape
    qkv = functional.linear(x, w[f"{prefix}.qkv.weight"], w[f"{prefix}.qkv.bias"])
    q, k, v = (
        part.reshape(batch, length, HEADS, width // HEADS).transpose(1, 2)
        for part in qkv.split(width, dim=-1)
    )
    scores = q @ k.transpose(-1, -2) / math.sqrt(width // HEADS)
    future = torch.ones(length, length, dtype=torch.bool).triu(diagonal=1)
    mixed = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1) @ v
    mixed = mixed.transpose(1, 2).reshape(batch, length, width)
    return functional.linear(mixed, w[f"{prefix}.projection.weight"], w[f"{prefix}.projection.bias"])


def mlp(x, w, prefix):
    hidden = functional.linear(x, w[f"{prefix}.up.weight"], w[f"{prefix}.up.bias"])
    hidden = functional.gelu(hidden, approximate="tanh")
    return functional.linear(hidden, w[f"{prefix}.down.weight"], w[f"{prefix}.down.bias"])


def forward(w, tokens):
    """Mean loss over all tokens, and the activations by name, of tokens [B, CONTEXT + 1]."""

    def norm(x, name):
        return functional.layer_norm(x, [WIDTH], w[f"{name}.weight"], w[f"{name}.bias"], EPS_NORM)

    inputs, targets = tokens[:, :-1].long(), tokens[:, 1:].long()
    x = w["token_embedding.weight"][inputs] + w["position_embedding.weight"][: inputs.shape[1]]
    activations = {"embedding": x}
    for i in range(LAYERS):
        x = x + attention(norm(x, f"blocks.{i}.norm1"), w, f"blocks.{i}.attention")
        x = x + mlp(norm(x, f"blocks.{i}.norm2"), w, f"blocks.{i}.mlp")
        activations[f"blocks.{i}"] = x
    activations["final_norm"] = norm(x, "final_norm")
    activations["logits"] = activations["final_norm"] @ w["token_embedding.weight"].T
    loss = functional.cross_entropy(activations["logits"].flatten(0, 1), targets.flatten())
    return loss, {name: value.detach() for name, value in activations.items()}


def parameters(weights, dtype):
    """Leaves of their own: training must not touch the tensors that are written out."""
    return {name: value.detach().clone().to(dtype).requires_grad_() for name, value in weights.items()}


def learning_rate(step):
    if step < WARMUP:
        return PEAK_LR * (step + 1) / WARMUP
    progress = (step - WARMUP) / (STEPS - WARMUP)
    return MIN_LR + 0.5 * (1 + math.cos(math.pi * progress)) * (PEAK_LR - MIN_LR)


def decays(name):
    return name.startswith("blocks.") and name.endswith(".weight") and "norm" not in name


def train(weights, tokens, micro_batches, dtype):
    """Ten steps, a batch each, cut into `micro_batches`: what was seen, and the weights after."""
    w = parameters(weights, dtype)
    groups = [
        {"params": [p for n, p in w.items() if decays(n)], "weight_decay": WEIGHT_DECAY},
        {"params": [p for n, p in w.items() if not decays(n)], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=0.0, betas=BETAS, eps=EPS_ADAM)
    seen = {"losses": [], "gradient_norms": [], "learning_rates": [], "clip_factors": []}
    for step, batch in enumerate(tokens):
        optimizer.zero_grad()
        step_loss = 0.0
        for micro_batch in batch.chunk(micro_batches):
            loss = forward(w, micro_batch)[0] / micro_batches
            loss.backward()
            step_loss += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(list(w.values()), CLIP).item()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        optimizer.step()
        seen["losses"].append(step_loss)
        seen["gradient_norms"].append(norm)
        seen["learning_rates"].append(learning_rate(step))
        seen["clip_factors"].append(min(1.0, CLIP / (norm + 1e-6)))
    return seen, {name: value.detach() for name, value in w.items()}


def gradients_of(weights, tokens, dtype):
    w = parameters(weights, dtype)
    loss, activations = forward(w, tokens)
    loss.backward()
    return loss.item(), activations, {name: value.grad for name, value in w.items()}


def write_safetensors(path, tensors):
    """A header length (u64, little endian), a JSON header padded to 8 bytes, then the data."""
    kinds = {torch.float32: ("F32", "f"), torch.int32: ("I32", "i")}
    header, data = {}, b""
    for name, tensor in tensors.items():
        kind, code = kinds[tensor.dtype]
        values = struct.pack(f"<{tensor.numel()}{code}", *tensor.flatten().tolist())
        offsets = [len(data), len(data) + len(values)]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": offsets}
        data += values
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def as_float32(tensors):
    return {name: value.to(torch.float32) for name, value in tensors.items()}


def largest_difference(a, b):
    return max((a[name].double() - b[name].double()).abs().max().item() for name in b)


def without_key_bias(tensors):
    """The same with 0 for the key biases, whose gradient is 0: after training they are noise."""
    result = {name: value.clone() for name, value in tensors.items()}
    for i in range(LAYERS):
        result[f"blocks.{i}.attention.qkv.bias"][WIDTH : 2 * WIDTH] = 0
    return result


def float32_differences(weights, tokens, truth):
    """How far PyTorch's own float32 run is from the truth: the scale of a fair tolerance."""
    loss, activations, gradients = gradients_of(weights, tokens[0], torch.float32)
    run, after = train(weights, tokens, 1, torch.float32)
    run_truth = truth["run"]
    return {
        "loss": abs(loss - truth["loss"]),
        "logits": largest_difference({"": activations["logits"]}, {"": truth["logits"]}),
        "gradients": largest_difference(gradients, truth["gradients"]),
        "losses": max(abs(a - b) for a, b in zip(run["losses"], run_truth["losses"])),
        "gradient_norms": max(
            abs(a - b) for a, b in zip(run["gradient_norms"], run_truth["gradient_norms"])
        ),
        "weights_after": largest_difference(
            without_key_bias(after), without_key_bias(truth["after"])
        ),
    }


def expected(truth, accumulated, differences):
    return {
        "torch": torch.__version__,
        "model": {
            "layers": LAYERS, "width": WIDTH, "heads": HEADS, "context": CONTEXT,
            "vocabulary": VOCABULARY, "norm_eps": EPS_NORM, "gelu": "tanh", "tied_head": True,
        },
        "schedule": {
            "steps": STEPS, "warmup": WARMUP, "peak": PEAK_LR, "min": MIN_LR,
            "before_warmup": "peak * (t + 1) / warmup",
            "after_warmup": "min + 0.5 * (1 + cos(pi * progress)) * (peak - min)",
            "progress": "(t - warmup) / (steps - warmup)",
        },
        "optimizer": {
            "rule": "adamw", "beta1": BETAS[0], "beta2": BETAS[1], "eps": EPS_ADAM,
            "weight_decay": WEIGHT_DECAY, "clip": CLIP,
            "clip_factor": "min(1, clip / (norm + 1e-6))",
        },
        "loss": truth["loss"],
        **truth["run"],
        "accumulated": {
            "micro_batches": ACCUMULATE, "sequences": BATCH // ACCUMULATE, **accumulated,
        },
        "float32_differences": differences,
    }


README = """# gpt2_tiny

A tiny GPT-2 computed by PyTorch {torch} on the CPU with one thread, written by

    tools/make_reference.py --output tests/reference/gpt2_tiny

Weights are rounded to float32, then everything is computed in float64: the files hold the truth,
rounded once, for these float32 weights. Nothing here is drawn by PyTorch's generator.

| file | content |
|---|---|
| `weights.safetensors` | F32, every parameter by name; Linear weights are [out, in], rows of qkv are q, k, v |
| `gradients.safetensors` | F32, of the mean loss of batch 0 with respect to every parameter |
| `weights_after.safetensors` | F32, the parameters after the ten steps |
| `activations.safetensors` | `tokens` I32 [{batches}, {batch}, {tokens}] (inputs are the first {context} of each row, targets the last {context}); of batch 0, F32 [{batch}, {context}, ...]: `embedding`, `blocks.i` (a block's output), `final_norm`, `logits` |
| `expected.json` | settings, loss of batch 0, and per step: loss, gradient norm before clipping, learning rate, clip factor |

The model: {layers} layers, width {width}, {heads} heads (contiguous parts of the width), context
{context}, vocabulary {vocabulary}; pre-norm blocks, LayerNorm eps {norm_eps}, GELU in its tanh form,
causal softmax(q k^T / sqrt(width / heads)), head tied to the token embedding and without bias,
cross entropy averaged over all tokens. Step t (from 0) trains on batch t, with

- learning rate `peak * (t + 1) / warmup` for t < warmup, then
  `min + 0.5 * (1 + cos(pi * progress)) * (peak - min)`, `progress = (t - warmup) / (steps - warmup)`;
- the gradient times `min(1, clip / (norm + 1e-6))`, norm over all parameters; it clips in {clipped} of the ten steps;
- AdamW with bias correction; decoupled weight decay on the weights of the four Linear of a block,
  none on embeddings, biases and norms.

The values of the steps are at `losses` and so on. `accumulated` is the same run with {accumulate}
micro-batches of {sequences} sequences a step: the gradient of the mean over a batch is the mean of the
gradients over its equal parts, so mathematically it is the same run, and in float64 they differ by
less than 1e-12. `float32_differences` holds the largest absolute differences of PyTorch's own
float32 run from the truth.

Initial standard deviation {std:.4f} = 0.02 sqrt(768 / {width}), which gives the pre-activations of GPT-2 at
width 768, and 1 / sqrt(2 layers) of it for the two projections into the residual stream; biases
N(0, 0.05), norm weights N(1, 0.1): at 0.02 attention would be almost uniform and errors invisible.

**Rows {width} to {double_width} (the keys) of `attention.qkv.bias` have gradient 0**: softmax does not see a
shift common to all keys. In float32 their gradient is rounding noise, which AdamW divides by its own
size; compare neither these rows of `weights_after` nor their relative error. `float32_differences`
leaves them out.
"""


def write_readme(path, std, run):
    path.write_text(
        README.format(
            torch=torch.__version__, batches=BATCHES, batch=BATCH, tokens=CONTEXT + 1,
            context=CONTEXT, layers=LAYERS, width=WIDTH, heads=HEADS, vocabulary=VOCABULARY,
            norm_eps=EPS_NORM, accumulate=ACCUMULATE, sequences=BATCH // ACCUMULATE, std=std,
            double_width=2 * WIDTH - 1, clipped=sum(f < 1 for f in run["clip_factors"]),
        )
    )


def main():
    home = Path(__file__).resolve().parent.parent / "tests" / "reference" / "gpt2_tiny"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=home, help="folder (default: %(default)s)")
    parser.add_argument("--std", type=float, default=STD, help="spread of the initial weights")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    rng = random.Random(SEED)
    weights, tokens = make_weights(rng, arguments.std), make_tokens(rng)
    loss, activations, gradients = gradients_of(weights, tokens[0], torch.float64)
    run, after = train(weights, tokens, 1, torch.float64)
    accumulated, _ = train(weights, tokens, ACCUMULATE, torch.float64)
    for key, values in run.items():
        if max(abs(a - b) for a, b in zip(values, accumulated[key])) > 1e-12:
            sys.exit(f"make_reference: {key} of the accumulated run differ from the plain run")

    truth = {"loss": loss, "logits": activations["logits"], "gradients": gradients,
             "run": run, "after": after}
    differences = float32_differences(weights, tokens, truth)
    arguments.output.mkdir(parents=True, exist_ok=True)
    write_safetensors(arguments.output / "weights.safetensors", weights)
    write_safetensors(arguments.output / "gradients.safetensors", as_float32(gradients))
    write_safetensors(arguments.output / "weights_after.safetensors", as_float32(after))
    write_safetensors(
        arguments.output / "activations.safetensors", {"tokens": tokens, **as_float32(activations)}
    )
    document = json.dumps(expected(truth, accumulated, differences), indent=2)
    (arguments.output / "expected.json").write_text(document + "\n")
    write_readme(arguments.output / "README.md", arguments.std, run)


if __name__ == "__main__":
    main()
