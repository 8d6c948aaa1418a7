#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""speculation.py: what updates ahead of the norm are worth on simulated nodes.

Runs simulated_step of the preset simgrid for the rows of docs/speculation.md: waiting for the norm, ahead of it, and
ahead with every step clipped. Prints the table in Markdown, a row as soon as it is known. Simulated time is the same on
every machine and each time.

--schemes prints the table of published schemes beside `dos` instead. superoffload is SuperOffload (arXiv 2509.21271) as
far as it can be modelled: buckets of 64 MB in BF16, the states of those whose gradients come last on the GPU as far as
they fit (the best of none, half and all of them: they search for it), all others updated on the CPU ahead of the norm."""

import argparse
import re

from simulated_runs import mean, simulate

# Node, model, micro-batch, GB for states (None: all that there is), parameters of a subgroup in millions (None: the
# planner's).
ROWS = [
    *(("h100-4x", model, batch, 2.5, None) for model in ("llama-7b", "llama-20b") for batch in (1, 4, 16)),
    *(("a100-4x", "llama-7b", batch, 2.5, None) for batch in (1, 4, 16)),
    *(("a100-4x", "llama-20b", batch, 2.5, None) for batch in (1, 4)),
    ("rtx4090", "llama-1.3b", 1, 2.5, None), ("rtx4090", "llama-1.3b", 16, 2.5, None),
    ("rtx4090", "llama-3b", 1, 2.5, None), ("rtx4090", "llama-3b", 4, 2.5, None),
    ("rtx4090", "llama-7b", 1, None, None),
    # Other memory and subgroups.
    ("h100-4x", "llama-20b", 4, 2.5, 10), ("h100-4x", "llama-20b", 16, 2.5, 10), ("a100-4x", "llama-20b", 4, 2.5, 10),
    ("rtx4090", "llama-1.3b", 1, 1, 10), ("rtx4090", "llama-1.3b", 4, 2.5, None), ("h100-4x", "llama-7b", 1, 2.5, 10),
    ("h100-4x", "llama-7b", 4, 5, 10), ("h100-4x", "llama-7b", 4, None, 10), ("h100-4x", "llama-7b", 16, 10, 10),
    ("h100-4x", "llama-20b", 1, 2.5, 10), ("h100-4x", "llama-20b", 2, 6, None), ("h100-4x", "llama-20b", 4, None, 10),
    ("h100-4x", "llama-20b", 16, 20, 20), ("a100-4x", "llama-7b", 1, 2.5, 10), ("a100-4x", "llama-7b", 4, None, None),
    ("a100-4x", "llama-13b", 4, 5, 10), ("rtx4090", "llama-1.3b", 2, 4, 20), ("rtx4090", "llama-1.3b", 4, None, 10),
    ("rtx4090", "llama-1.3b", 8, 0.5, 5), ("gh200", "llama-7b", 4, 5, 10),
]
HEADER = ("| node | model | B | M, GB | S | update | waiting | ahead | planned | ahead / waiting | of the bound | each step clipped | "
          "updates more |\n"
          "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
SCHEMES = ("| node | model | B | M, GB | `zero-offload` | `dos-stride` | `twinflow` | superoffload | `dos` | `dos` ahead | "
           "superoffload / `dos` ahead | best of the others / best of `dos` |\n"
           "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
STRIDES = (1, 2, 3, 4)
BUCKET = ("--set", "sched.subgroup_params=32000000")
# Steps that differ by more are shown as two figures.
SAME = 1.02


def run_of(program, row, *more):
    """What simulated_step says of the row."""
    node, model, batch, memory, subgroup = row
    limits = [] if memory is None else ["--state-memory", memory]
    if subgroup is not None:
        limits += ["--set", f"sched.subgroup_params={subgroup}000000"]
    return simulate(program, "--machine", node, "--model", model, "--micro-batch", batch, "--steps", 6, *limits, *more)


def shown(run):
    low, high = min(run["step_seconds"]), max(run["step_seconds"])
    return f"{mean(run):.3f}" if high <= SAME * low else f"{low:.3f} to {high:.3f}"


def line(program, row):
    """The row of the table."""
    waiting, ahead, clipped = (run_of(program, row, *more)
                               for more in ((), ("--ahead",), ("--ahead", "--clipped-every", 1)))
    node, model, batch, memory, subgroup = row
    plan = re.search(r"([\d.]+) ms, bound", waiting["plan"])
    update = float(plan[1]) / 1e3 if plan else 0
    more = f"{(mean(clipped) - mean(ahead)) / update:.2f}" if update else ""
    cells = [node, model, batch, "all" if memory is None else f"{memory:g}", "as planned" if subgroup is None else subgroup,
             f"{update:.2f}", shown(waiting), shown(ahead), f"{ahead['planned_seconds'] / mean(ahead):.2f}",
             f"{mean(ahead) / mean(waiting):.2f}", f"{mean(ahead) / ahead['bound_seconds']:.2f}", shown(clipped), more]
    return "| " + " | ".join(map(str, cells)) + " |"


def superoffload(program, row):
    """Seconds of a step: twinflow's places, ahead of the norm."""
    ahead = [*BUCKET, "--policy", "twinflow", "--ahead"]
    full = run_of(program, row, *ahead)
    share = float(re.search(r"([\d.]+) % resident", full["plan"])[1]) / 100
    parts = [run_of(program, row, *ahead, "--set", f"sched.share={part * share:g}") for part in (0, 0.5)]
    return min(map(mean, [full, *parts]))


def line_of_schemes(program, row):
    """The row of the table of schemes."""
    node, model, batch, memory, _ = row
    strides = (run_of(program, row, "--policy", "dos-stride", "--set", f"sched.stride={stride}") for stride in STRIDES)
    others = [mean(run_of(program, row, "--policy", "zero-offload")), min(map(mean, strides)),
              mean(run_of(program, row, "--policy", "twinflow")), superoffload(program, row)]
    waiting, ahead = (mean(run_of(program, row, *more)) for more in ((), ("--ahead",)))
    cells = [node, model, batch, "all" if memory is None else f"{memory:g}",
             *(f"{step:.3f}" for step in (*others, waiting, ahead)), f"{others[-1] / ahead:.2f}",
             f"{min(others) / min(waiting, ahead):.2f}"]
    return "| " + " | ".join(map(str, cells)) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="build/simgrid/bench/simulated_step")
    parser.add_argument("--node", help="rows of this node alone")
    parser.add_argument("--model", help="rows of this model alone")
    parser.add_argument("--schemes", action="store_true", help="published schemes beside dos, where the planner cuts")
    options = parser.parse_args()
    rows = [row for row in ROWS if options.node in (None, row[0]) and options.model in (None, row[1])]
    if not rows:
        parser.error("no row has this node and model")
    print(SCHEMES if options.schemes else HEADER, flush=True)
    for row in rows:
        if not options.schemes:
            print(line(options.program, row), flush=True)
        elif row[-1] is None:
            print(line_of_schemes(options.program, row), flush=True)


if __name__ == "__main__":
    main()
