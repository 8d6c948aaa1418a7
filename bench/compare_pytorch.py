#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times train_step and PyTorch on the same model, round by round in turn.

PyTorch gets the best set-up known on the machine: OpenBLAS (the OpenMP build where Debian has it) with
AVX-512 kernels, all cores, one process a round. Both train on random tokens in FP32 with AdamW. Prints
the median and spread of each and of the ratio of neighbouring rounds; --json prints one object instead.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OPENMP_BLAS = "/usr/lib/x86_64-linux-gnu/openblas-openmp/libopenblas.so.0"

# Shapes of the presets in src/shape/model.cpp.
PRESETS = {
    "gpt2-124m": {"layers": 12, "width": 768, "heads": 12, "vocab": 50257},
    "gpt2-355m": {"layers": 24, "width": 1024, "heads": 16, "vocab": 50257},
    "small-11m": {"layers": 6, "width": 384, "heads": 6, "vocab": 257},
}


def torch_round(options):
    """Runs in a child process: prints the step times in milliseconds as JSON."""
    import math
    import time

    import torch
    import torch.nn.functional as functional
    from torch import nn

    shape = PRESETS[options.model]
    width, heads, context = shape["width"], shape["heads"], options.context

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            mask = torch.full((context, context), -math.inf).triu(1)
            self.register_buffer("mask", mask)

        def attention(self, x):
            batch = x.shape[0]
            q, k, v = (part.view(batch, context, heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, 2))
            scores = q @ k.transpose(2, 3) / math.sqrt(width // heads) + self.mask
            mixed = functional.softmax(scores, dim=-1) @ v
            return self.projection(mixed.transpose(1, 2).reshape(batch, context, width))

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            # torch 1.12 and later have the tanh form as one kernel.
            return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Gpt2(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(shape["vocab"], width), nn.Embedding(context, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(shape["layers"])))
            self.norm = nn.LayerNorm(width)

        def forward(self, tokens):
            x = self.blocks(self.tokens(tokens) + self.positions.weight)
            return functional.linear(self.norm(x), self.tokens.weight)

    torch.manual_seed(1)
    model = Gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    times = []
    for step in range(options.warmup + options.steps):
        batch = torch.randint(shape["vocab"], (options.batch, context + 1))
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        logits = model(batch[:, :-1])
        loss = functional.cross_entropy(logits.view(-1, shape["vocab"]), batch[:, 1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        if step >= options.warmup:
            times.append(1e3 * (time.perf_counter() - start))
    print(json.dumps(times))


def best_torch_environment():
    environment = dict(os.environ, OMP_NUM_THREADS=str(os.cpu_count()))
    if pathlib.Path(OPENMP_BLAS).exists():
        environment["LD_PRELOAD"] = OPENMP_BLAS
    if "avx512" in pathlib.Path("/proc/cpuinfo").read_text():
        environment["OPENBLAS_CORETYPE"] = "SkylakeX"
    return environment


def common_arguments(options):
    return ["--model", options.model, "--batch", str(options.batch), "--context", str(options.context),
            "--steps", str(options.steps), "--warmup", str(options.warmup)]


def run(command, environment=None):
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"compare_pytorch: error: {' '.join(command)} failed: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train-step", default=str(ROOT / "build/release/bench/train_step"))
    parser.add_argument("--python", default="/usr/bin/python3", help="the Python that has PyTorch")
    parser.add_argument("--model", choices=PRESETS, default="gpt2-124m")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--torch-round", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.torch_round:
        return torch_round(options)

    if subprocess.run([options.python, "-c", "import torch"], capture_output=True).returncode != 0:
        sys.exit(f"compare_pytorch: error: {options.python} has no torch; Debian: apt-get install python3-torch")
    ours, theirs = [], []
    for _ in range(options.rounds):
        ours.append(run([options.train_step, "--json", *common_arguments(options)])["ms_step"])
        theirs.append(statistics.median(run(
            [options.python, __file__, "--torch-round", *common_arguments(options)], best_torch_environment())))
    result = {
        "model": options.model, "batch": options.batch, "context": options.context, "rounds": options.rounds,
        "ms_step": spread(ours), "pytorch_ms_step": spread(theirs),
        "ratio": spread([a / b for a, b in zip(ours, theirs)]),
    }
    if options.json:
        print(json.dumps(result))
        return None
    for name in ("ms_step", "pytorch_ms_step", "ratio"):
        row = result[name]
        print(f"{name:<16} {row['median']:10.3f}  ({row['min']:.3f} to {row['max']:.3f})")
    return None


if __name__ == "__main__":
    main()
