#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A step by the memory that a run may have: what `auto` chooses for activations beside all computed again and all on a disk.

usage: bench/activation_limits.py --disks FOLDERS --data FILE.csv --picture FILE.png [--build DIR] [--folder DIR] [--model PRESET]
                                  [--steps N] [--rounds N] [--limits N] [--vocabulary N] [--set KEY=VALUE]...

Limits (train.host_memory) go in even steps from what the leanest plan needs to what the run that keeps all does, by --dry-run. Each
round trains anew, without a limit, in a folder of DIR and on random tokens, with every plan that a limit asks for. A row for each limit and policy that
fits says the plan, medians over the rounds of the step and of its ratio to that which keeps all, and the most resident memory.
docs/performance/activations.md has such a run. calibrate gives auto the rates of the machine.
"""

import argparse
import csv
import re
import statistics
import sys
import tempfile
from pathlib import Path

from short_runs import WARM_UP, dry_run, estimate, train, write_tokens

KEEP = "keep"
FIXED = ("recompute", "disk")
POLICIES = {"auto": ("#000000", 3.5, "o-"), "recompute": ("#D55E00", 1.6, "s--"), "disk": ("#009E73", 1.6, "^--")}
STEP_GB = 0.01  # of limits


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--disks", required=True, metavar="FOLDERS", help="as train.activation_disks")
    parser.add_argument("--data", required=True, metavar="FILE.csv")
    parser.add_argument("--picture", required=True, metavar="FILE.png")
    parser.add_argument("--build", default="build/release", metavar="DIR", help="build folder (default: build/release)")
    parser.add_argument("--folder", default=".", metavar="DIR", help="for data and run folders (default: .)")
    parser.add_argument("--model", default="gpt2-124m", help="preset (default: gpt2-124m)")
    parser.add_argument("--steps", type=int, default=10, metavar="N", help="of a run (default: 10)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="(default: 3)")
    parser.add_argument("--limits", type=int, default=6, metavar="N", help="(default: 6)")
    parser.add_argument("--vocabulary", type=int, default=50257, metavar="N", help="of the tokens (default: 50257)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for train_gpt")
    options = parser.parse_args()
    if options.limits < 2 or options.rounds < 1 or options.steps <= WARM_UP:
        parser.error(f"two limits, one round and {WARM_UP + 1} steps are the least")
    return options


class Runs:
    """Of one configuration, by plan for activations."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.runs = {}  # by plan, a round each

    def keys(self, plan, **others):
        return {"model.preset": self.options.model, "train.steps": self.options.steps, "train.activations": plan,
                "train.activation_disks": self.options.disks} | {f"train.{key}": value for key, value in others.items()}

    def fits(self, plan, limit):
        found = estimate(self.options.build, self.folder, self.keys(plan, host_memory=limit), self.options.set)
        return found["total"] <= found["available"]

    def least_limit(self, plan):
        """GB with which the plan fits, but for one step less."""
        low, high = 0, 1
        while not self.fits(plan, high * STEP_GB):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.fits(plan, middle * STEP_GB) else (middle, high)
        return high * STEP_GB

    def chosen(self, limit):
        """What auto takes."""
        said = dry_run(self.options.build, self.folder, self.keys("auto", host_memory=limit), self.options.set).stderr
        found = re.search(r"train\.activations=auto: (\w+(?::\d+)?(?:,\w+:\d+)*)", said)
        if not found:
            sys.exit(f"activation_limits: error: with {limit} GB no plan is named in: {said}")
        return found[1]

    def train(self, plan):
        self.runs.setdefault(plan, []).append(train(self.options.build, self.folder, self.keys(plan), self.options.set))

    def row(self, limit, policy, plan):
        steps, base = ([statistics.median(line["ms_step"] for line in run.lines if line["step"] > WARM_UP) for run in self.runs[each]]
                       for each in (plan, KEEP))
        return {"limit_gb": f"{limit:.2f}", "policy": policy, "plan": plan, "ms_step": f"{statistics.median(steps):.0f}",
                "of_keep": f"{statistics.median(a / b for a, b in zip(steps, base, strict=True)):.3f}",
                "resident_gb": f"{max(run.resident for run in self.runs[plan]) / 1e9:.3f}"}


def draw(rows, path):
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    figure, axes = pyplot.subplots(figsize=(7.5, 4))
    for policy, (colour, width, line) in POLICIES.items():
        points = [(float(row["limit_gb"]), float(row["of_keep"])) for row in rows if row["policy"] == policy]
        if points:
            axes.plot(*zip(*points), line, color=colour, linewidth=width, alpha=0.45 if policy == "auto" else 1, label=policy)
    axes.set_xlabel("memory that the run may have, GB")
    axes.set_ylabel("step, of that which keeps all")
    axes.grid(alpha=0.3)
    axes.legend(ncols=len(POLICIES), loc="lower center", bbox_to_anchor=(0.5, 1), frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})


def main():
    options = parse()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="activations-") as name:
        runs = Runs(options, Path(name))
        write_tokens(runs.folder / "data", options.vocabulary)
        most = runs.least_limit(KEEP)
        least = min(runs.least_limit(plan) for plan in FIXED)
        limits = [least + (most - least) * i / (options.limits - 1) for i in range(options.limits)]
        wanted = [(limit, policy, plan) for limit in limits for policy, plan in
                  [("auto", runs.chosen(limit)), *((plan, plan) for plan in FIXED if runs.fits(plan, limit))]]
        for _ in range(options.rounds):
            for plan in dict.fromkeys([KEEP, *(plan for _, _, plan in wanted)]):
                runs.train(plan)
        rows = [runs.row(*each) for each in wanted]
        losses = [[line["loss"] for line in run.lines] for each in runs.runs.values() for run in each]
    with open(options.data, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    draw(rows, options.picture)
    if any(each != losses[0] for each in losses):
        sys.exit("activation_limits: error: losses differ from plan to plan")


if __name__ == "__main__":
    main()
