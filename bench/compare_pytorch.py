#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times train_step and the newest PyTorch on the same model, round by round in turn.

PyTorch comes from PyPI, into a virtual environment that this script makes (--venv), or is that of --python. It
trains as a user who wants speed would: scaled_dot_product_attention, fused AdamW, clipping, eager and through
torch.compile, all cores, its own libraries of products (MKL and oneDNN), autocast for BF16. Each run is a process
of its own; the compiled one takes its kernels from the cache of the run before. Both train on random tokens. Prints
the median and spread of each, the ratio to the better of eager and compiled by round, and the peak memory; --json
prints one object instead.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys

from torch_gpt2 import PRESETS, make_model

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODES = ("eager", "compile")


def torch_round(options):
    """Runs in a child process: prints version, step times in milliseconds and peak memory as JSON."""
    import time

    import torch
    from torch import nn

    shape = PRESETS[options.model] | {"context": options.context}
    torch.manual_seed(1)
    model = make_model(shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def loss_of(inputs, targets):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.precision == "bf16"):
            return model(inputs, targets)

    if options.torch_mode == "compile":
        loss_of = torch.compile(loss_of)
    times = []
    for step in range(options.warmup + options.steps):
        batch = torch.randint(shape["vocab"], (options.batch, options.context + 1))
        inputs, targets = batch[:, :-1].contiguous(), batch[:, 1:].contiguous()
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(inputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        if step >= options.warmup:
            times.append(1e3 * (time.perf_counter() - start))
    print(json.dumps({"version": torch.__version__, "ms": statistics.median(times),
                      "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def torch_environment():
    return dict(os.environ, OMP_NUM_THREADS=str(len(os.sched_getaffinity(0))), CUDA_VISIBLE_DEVICES="")


def python_with_torch(options):
    """The interpreter of --python, or of the virtual environment, made and filled where it is not there."""
    python = options.python or str(pathlib.Path(options.venv) / "bin/python")
    if not options.python and not pathlib.Path(python).exists():
        for command in ([sys.executable, "-m", "venv", options.venv],
                        [python, "-m", "pip", "install", "--quiet", options.requirement, "numpy", "setuptools"]):
            if subprocess.run(command).returncode != 0:
                sys.exit(f"compare_pytorch: error: {' '.join(command)} failed: name a Python with torch by --python")
    if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode != 0:
        sys.exit(f"compare_pytorch: error: {python} has no torch: remove {options.venv}, or name another by --python")
    return python


def common_arguments(options):
    return ["--model", options.model, "--batch", str(options.batch), "--context", str(options.context),
            "--steps", str(options.steps), "--warmup", str(options.warmup), "--precision", options.precision]


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
    parser.add_argument("--venv", default=str(ROOT / "build/pytorch"), help="virtual environment, made if need be")
    parser.add_argument("--requirement", default="torch", help="what pip installs into it, torch==2.15.0 say")
    parser.add_argument("--python", help="a Python that has PyTorch, instead of the virtual environment")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES), help="of PyTorch")
    parser.add_argument("--model", choices=PRESETS, default="gpt2-124m")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--torch-mode", choices=MODES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.torch_mode:
        return torch_round(options)

    python = python_with_torch(options)
    ours, theirs = [], {mode: [] for mode in options.modes}
    for _ in range(options.rounds):
        ours.append(run([options.train_step, "--json", *common_arguments(options)]))
        for mode in options.modes:
            theirs[mode].append(run([python, __file__, "--torch-mode", mode, *common_arguments(options)],
                                    torch_environment()))
    rounds = list(zip(ours, *theirs.values()))
    result = {
        "model": options.model, "batch": options.batch, "context": options.context, "precision": options.precision,
        "rounds": options.rounds, "pytorch": theirs[options.modes[0]][0]["version"],
        "ms_step": spread([each["ms_step"] for each in ours]),
        **{f"pytorch_{mode}_ms_step": spread([each["ms"] for each in values]) for mode, values in theirs.items()},
        "ratio": spread([mine["ms_step"] / min(each["ms"] for each in others) for mine, *others in rounds]),
        "memory_ratio": spread([mine["peak_rss_mib"] / min(each["peak_mib"] for each in others)
                                for mine, *others in rounds]),
    }
    if options.json:
        print(json.dumps(result))
        return None
    print(f"{options.model} {options.batch} x {options.context} {options.precision}, PyTorch {result['pytorch']}")
    for name, row in result.items():
        if isinstance(row, dict):
            print(f"{name:<24} {row['median']:10.3f}  ({row['min']:.3f} to {row['max']:.3f})")
    return None


if __name__ == "__main__":
    main()
