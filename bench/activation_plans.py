#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs not to keep activations: steps beside those of the same run that keeps them, interleaved on one machine.

usage: bench/activation_plans.py --disks FOLDERS [--build DIR] [--folder DIR] [--model PRESET] [--steps N] [--rounds N]
                                 [--plans PLAN...] [--vocabulary N] [--group FOLDER] [--set KEY=VALUE]... [--json]

Each round trains anew with every plan (train.activations) in turn, in a folder of DIR, on random tokens. With --group those that do
not keep all run in the control group of FOLDER. Prints, of medians over the rounds: the step, its ratio to that which keeps all, the
same of the fastest steps and of processor time, what was read and written a step, the most resident memory, what it is below that which
keeps all, what --dry-run says of it and of activations in it; and whether all losses are the same, digit by digit.
docs/performance/activations.md has such a run.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from short_runs import WARM_UP, estimate, train, write_tokens

KEEP = "keep"


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--disks", required=True, metavar="FOLDERS", help="as train.activation_disks")
    parser.add_argument("--build", default="build/release", metavar="DIR", help="build folder (default: build/release)")
    parser.add_argument("--folder", default=".", metavar="DIR", help="for data and run folders (default: .)")
    parser.add_argument("--model", default="gpt2-124m", help="preset (default: gpt2-124m)")
    parser.add_argument("--steps", type=int, default=10, metavar="N", help="of a run (default: 10)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="(default: 3)")
    parser.add_argument("--plans", nargs="+", default=["selective", "disk", "recompute"], metavar="PLAN")
    parser.add_argument("--vocabulary", type=int, default=50257, metavar="N", help="of the tokens (default: 50257)")
    parser.add_argument("--group", metavar="FOLDER", help="a control group with a limit of memory, for plans that do not keep all")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for train_gpt")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


def counted(lines, field):
    return statistics.median(line.get(field, 0) for line in lines if line["step"] > WARM_UP)


def fastest(runs):
    """What other programs on the machine disturb least."""
    return min(line["ms_step"] for run in runs for line in run.lines if line["step"] > WARM_UP)


def row(plan, runs, base, estimate):
    """Of a Run a round, beside those that keep all."""
    losses = [line["loss"] for line in base[0].lines]
    ratios = [counted(run.lines, "ms_step") / counted(other.lines, "ms_step") for run, other in zip(runs, base, strict=True)]
    resident = statistics.median(run.resident for run in runs)
    return {"plan": plan,
            "ms_step": statistics.median(counted(run.lines, "ms_step") for run in runs),
            "ratio": statistics.median(ratios),
            "worst_ratio": max(ratios),
            "fastest_ratio": fastest(runs) / fastest(base),
            "processor_ratio": statistics.median(run.processor_s / other.processor_s for run, other in zip(runs, base, strict=True)),
            "mb_read": statistics.median(counted(run.lines, "disk_read_bytes") for run in runs) / 1e6,
            "mb_written": statistics.median(counted(run.lines, "disk_written_bytes") for run in runs) / 1e6,
            "mb_resident": resident / 1e6,
            "mb_saved": (statistics.median(run.resident for run in base) - resident) / 1e6,
            "mb_estimated": estimate["total"] / 1e6,
            "mb_activations": estimate["activations"] / 1e6,
            "same_losses": all([line["loss"] for line in run.lines] == losses for run in runs)}


def main():
    options = parse()
    plans = [KEEP, *options.plans]
    found = {plan: [] for plan in plans}
    estimates = {}
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="activations-") as name:
        folder = Path(name)
        write_tokens(folder / "data", options.vocabulary)
        for _ in range(options.rounds):
            for plan in plans:
                keys = {"model.preset": options.model, "train.steps": options.steps, "train.activations": plan,
                        "train.activation_disks": options.disks}
                group = None if plan == KEEP else options.group
                estimates[plan] = estimate(options.build, folder, keys, options.set, group)
                found[plan].append(train(options.build, folder, keys, options.set, group))
    rows = [row(plan, runs, found[KEEP], estimates[plan]) for plan, runs in found.items()]
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        for each in rows:
            print("  ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in each.items()))
    if not all(each["same_losses"] for each in rows):
        sys.exit("activation_plans: error: losses differ from those of the run that keeps all")


if __name__ == "__main__":
    main()
