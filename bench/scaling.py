#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps on several ranks of one machine: what ranks cost (bench/README.md).

Each rank has the same batch (weak scaling) and as many workers as asked for; runs take turns."""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


def numbers(text):
    try:
        found = [int(word) for word in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a list of positive numbers such as 1,2")
    return found


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--apps", type=Path, default=Path("build/release/apps"), help="folder of the programs")
    parser.add_argument("--mpiexec", default="mpiexec.mpich")
    parser.add_argument("--ranks", type=numbers, default="1,2,4")
    parser.add_argument("--zero", type=numbers, default="1,2,3")
    parser.add_argument("--workers", type=int, default=1, help="CPU workers a rank")
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warm-up", type=int, default=5, help="steps that do not count")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.steps <= options.warm_up or options.warm_up < 0:
        parser.error(f"--steps {options.steps} must be more than --warm-up {options.warm_up}, which is at least 0")
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds} must be at least 1")
    return options


def prepare(options, folder):
    words = "to be or not that is the question whether nobler in the mind".split()
    generator = random.Random(7)
    text = "\n".join(" ".join(generator.choices(words, k=12)) for _ in range(20000))
    (folder / "corpus.txt").write_text(text, encoding="utf-8")
    subprocess.run([options.apps.resolve() / "prepare_data", "--tokenizer", "bytes", "--output", "data", "corpus.txt"],
                   cwd=folder, check=True, capture_output=True)


def run(options, folder, ranks, zero):
    """The metrics of the counted steps."""
    keys = {"data.path": "data", "model.preset": options.preset, "model.vocab": 257,
            "train.batch": options.batch, "train.lanes": options.workers, "train.workers": options.workers,
            "train.steps": options.steps + 1, "train.stop_after": options.steps, "train.validate_every": 0,
            "dist.zero": zero}
    assignments = [f"{key}={value}" for key, value in keys.items()] + options.set
    with tempfile.TemporaryDirectory(dir=folder) as out:
        command = [options.mpiexec, "-n", ranks, options.apps.resolve() / "train_gpt", "--quiet",
                   "--log-level", "warn", "--out", out]
        for assignment in assignments:
            command += ["--set", assignment]
        result = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True,
                                check=False)
        if result.returncode != 0:
            sys.exit(f"scaling: error: {ranks} ranks, dist.zero = {zero}: {result.stderr.strip()}")
        lines = [json.loads(line) for line in (Path(out) / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "loss" in line][options.warm_up:]


def main():
    options = arguments()
    cases = [(ranks, zero) for ranks in options.ranks for zero in (options.zero if ranks > 1 else [1])]
    times = {case: [] for case in cases}
    losses = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(options, folder)
        for _ in range(options.rounds):
            for case in cases:
                lines = run(options, folder, *case)
                times[case].append(statistics.median(line["ms_step"] for line in lines))
                losses.setdefault(case[0], lines[-1]["loss"])
                # dist.zero changes nothing but roundings, and those only with several micro-batches.
                if abs(losses[case[0]] - lines[-1]["loss"]) > 1e-3:
                    sys.exit(f"scaling: error: {case[0]} ranks have another loss with dist.zero = {case[1]}")
    rows = []
    first = statistics.median(times[cases[0]])
    for (ranks, zero), rounds in times.items():
        median = statistics.median(rounds)
        rows.append({"ranks": ranks, "zero": zero, "ms_step": median, "least": min(rounds), "most": max(rounds),
                     "efficiency": first / median})
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{'ranks':>5} {'zero':>4}  ms_step (least to most)     efficiency")
    for row in rows:
        print(f"{row['ranks']:>5} {row['zero']:>4}  {row['ms_step']:8.2f} ({row['least']:.2f} to {row['most']:.2f})"
              f"   {row['efficiency']:.2f}")


if __name__ == "__main__":
    main()
