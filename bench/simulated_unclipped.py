#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""simulated_unclipped.py: what steps gain on simulated nodes where no update waits for the norm of all gradients.

Runs simulated_step of the preset simgrid with clipping and without, for the rows of docs/performance/simulated-nodes.md. Prints
the table in Markdown, a row as soon as it is known. Simulated time is the same on every machine and each time."""

import argparse

from simulated_runs import mean, simulate

# Node, model, micro-batch, GB of the GPU for states.
ROWS = [
    ("h100", "llama-7b", 1, 10), ("h100", "llama-7b", 1, 40), ("h100", "llama-7b", 4, 10),
    ("h200", "llama-13b", 1, 40), ("a100", "llama-7b", 4, 5),
    ("gh200", "llama-7b", 1, 20), ("gh200", "llama-7b", 8, 1),
    ("rtx4090", "gpt2-1.5b", 2, 2), ("rtx4090", "llama-3b", 4, 3),
    ("h100-4x", "llama-20b", 1, 10), ("h100-4x", "llama-20b", 4, 10),
]
HEADER = ("| node | model | B | M, GB | clipping | planned | without | planned | without / clipping | of the bound |\n"
          "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")


def line(program, row):
    """The row of the table."""
    node, model, batch, memory = row
    runs = [simulate(program, "--machine", node, "--model", model, "--micro-batch", batch, "--state-memory", memory, "--steps", 4, *more)
            for more in ((), ("--unclipped",))]
    cells = [node, model, batch, memory]
    for run in runs:
        cells += [f"{mean(run):.3f}", f"{run['planned_seconds']:.3f}"]
    cells += [f"{mean(runs[1]) / mean(runs[0]):.3f}", f"{100 * runs[1]['bound_seconds'] / mean(runs[1]):.1f} %"]
    return "| " + " | ".join(map(str, cells)) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="build/simgrid/bench/simulated_step")
    options = parser.parse_args()
    print(HEADER, flush=True)
    for row in ROWS:
        print(line(options.program, row), flush=True)


if __name__ == "__main__":
    main()
