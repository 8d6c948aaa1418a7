#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""simulated_homes.py: steps on simulated nodes whose host memory does not hold all states.

Runs simulated_step of the preset simgrid for the rows of docs/performance/disks.md: states on GPU, host and disks, with
and without clipping, over the first disk alone, and without those that a GPU keeps. Prints the table in Markdown, a row as
soon as it is known. Simulated time is the same on every machine and each time."""

import argparse

from simulated_runs import mean, simulate

ONE, TWO = ("6:5",), ("6:5", "6:5")
# Node, model, micro-batch, GB of host memory in all, disks (READ:WRITE in GB/s, by turns).
ROWS = [
    *(("h100", "llama-7b", batch, host, disks) for batch, host, disks in
      ((1, 60, ONE), (1, 40, ONE), (1, 30, ONE), (4, 60, TWO), (4, 40, ONE), (4, 30, TWO), (16, 40, ONE))),
    *(("a100", "llama-7b", batch, host, disks) for batch, host, disks in ((1, 40, ONE), (4, 60, ONE), (4, 30, TWO))),
    *(("h200", "llama-13b", batch, host, disks) for batch, host, disks in ((1, 100, ONE), (4, 64, ONE), (4, 64, TWO))),
    *(("rtx4090", "llama-3b", batch, host, disks) for batch, host, disks in ((1, 30, ONE), (4, 20, ONE), (4, 20, TWO), (16, 20, ONE))),
    *(("rtx4090", "llama-7b", batch, host, disks) for batch, host, disks in ((4, 60, ONE), (4, 30, TWO))),
    ("h100-4x-nvme", "llama-20b", 1, 100, ()), ("h100-4x-nvme", "llama-20b", 4, 60, ()),
]
HEADER = ("| node | model | B | host, GB | disks | GPU | host | disk | planned | step | planned without | step | disks | one disk | without the GPU |\n"
          "|---|---|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
GIGA = 1e9


def run_of(program, row, *more):
    """What simulated_step says of the row."""
    node, model, batch, host, disks = row
    return simulate(program, "--machine", node, "--model", model, "--micro-batch", batch, "--steps", 4,
                    "--set", f"train.host_memory={host}", *more, *(word for disk in disks for word in ("--disk", disk)))


def line(program, row):
    """The row of the table."""
    node, model, batch, host, disks = row
    run, unclipped, without = (run_of(program, row, *more) for more in ((), ("--unclipped",), ("--set", "sched.resident=false")))
    cells = [node, model, batch, host, " + ".join(disks) or "its own"]
    cells += [f"{run[key] / GIGA:.1f}" for key in ("on_gpu", "in_host", "on_disk")]
    for each in (run, unclipped):
        cells += [f"{each['planned_seconds']:.2f}", f"{mean(each):.2f}"]
    cells.append(f"{run['disk_busy_seconds'] / len(run['step_seconds']):.2f}")
    cells.append(f"{mean(run_of(program, (*row[:4], disks[:1]))):.2f}" if len(disks) > 1 else "")
    cells.append(f"{mean(without):.2f}")
    return "| " + " | ".join(map(str, cells)) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="build/simgrid/bench/simulated_step")
    parser.add_argument("--node", help="rows of this node alone")
    options = parser.parse_args()
    rows = [row for row in ROWS if options.node in (None, row[0])]
    if not rows:
        parser.error("no row has this node")
    print(HEADER, flush=True)
    for row in rows:
        print(line(options.program, row), flush=True)


if __name__ == "__main__":
    main()
