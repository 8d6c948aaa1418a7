#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""simulated_graphs.py: whole task graphs under `dos` and `dmdas` on simulated nodes.

Runs sched_graphs of the preset simgrid on the nodes of docs/performance/scheduler.md and prints its
table in Markdown. Simulated time is the same on every machine and each time."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SCHEDULERS = ("dos", "dmdas")
GRAPHS = ("cholesky", "training")
SIZES = ((7, 4), (10, 6), (13, 8), (16, 10), (19, 12))  # tiles a side, lanes of the training graph
MACHINE = """format = 1
description = "a node of bench/simulated_graphs.py"

[node]
gpus = {{ value = {gpus}, unit = "1", source = "by definition" }}
cpu_workers = {{ value = {workers}, unit = "1", source = "by definition" }}
training_rate = {{ value = 1, unit = "TFLOP/s", source = "by definition, not used" }}
task_latency = {{ value = 5, unit = "us", source = "by definition" }}

[cpu]
update_rate = {{ value = 1, unit = "Gparam/s", source = "by definition, not used" }}

[dram]
bandwidth = {{ value = 1000, unit = "GB/s", source = "by definition: enough for all at once" }}
capacity = {{ value = 1024, unit = "GB", source = "by definition" }}

[gpu]
update_rate = {{ value = 10, unit = "Gparam/s", source = "by definition, not used" }}
memory = {{ value = {memory}, unit = "GB", source = "by definition" }}

[link]
h2d = {{ value = {link}, unit = "GB/s", source = "by definition" }}
d2h = {{ value = {link}, unit = "GB/s", source = "by definition" }}
both = {{ value = {both}, unit = "GB/s", source = "by definition" }}
latency = {{ value = 10, unit = "us", source = "by definition" }}
"""
# workers; GPUs, GFLOP/s of each; GB/s of a link each way; floats a side of a tile; training's other options.
NODES = {
    "fast": (8, 1, 5000, 50, 960, []),
    "slow": (4, 1, 200, 50, 960, []),
    "two": (8, 2, 1000, 10, 960, []),
    "two-slow": (8, 2, 300, 10, 320, ["--layers", 24, "--rows", 512]),
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=Path("build/simgrid"), help="folder of the preset's build")
    parser.add_argument("--memory", type=float, default=80, help="GB of a GPU")
    parser.add_argument("node", nargs="*", help=f"all if none: {', '.join(NODES)}")
    options = parser.parse_args()
    unknown = [node for node in options.node if node not in NODES]
    if unknown:
        parser.error(f"unknown node {unknown[0]}; known: {', '.join(NODES)}")
    return options


def call(command, environment=None):
    result = subprocess.run([*map(str, command)], text=True, capture_output=True, check=False,
                            env={**os.environ, **(environment or {})})
    if result.returncode != 0:
        sys.exit(f"simulated_graphs: error: {command[0]}: {result.stderr.strip()}")
    return result.stdout


class Node:
    """A simulated node, and StarPU's model of its bus in `folder`."""

    def __init__(self, options, name, folder):
        workers, gpus, gflops, link, tile_size, training = NODES[name]
        file = folder / f"{name}.toml"
        file.write_text(MACHINE.format(workers=workers, gpus=gpus, link=link, both=2 * link, memory=options.memory),
                        encoding="utf-8")
        call([options.build / "apps/sampling", file, "--output", folder])
        self.environment = {"STARPU_PERF_MODEL_DIR": str(folder / name), "STARPU_HOSTNAME": name,
                            "STARPU_HOME": str(folder), "STARPU_SILENT": "1"}
        self.command = [options.build / "bench/sched_graphs", "--simulated", "--json", "--workers", workers,
                        "--gpus", gpus, "--gpu-gflops", gflops, "--tile-size", tile_size, *training]
        self.words = f"{workers} workers, {gpus} x {gflops} GFLOP/s on {link} GB/s, tiles of {tile_size}"

    def ratios(self, tiles, lanes):
        """Of dos to dmdas, by graph. StarPU starts once in a simulation: a process a scheduler."""
        times = []
        for scheduler in SCHEDULERS:
            rows = json.loads(call([*self.command, "--schedulers", scheduler, "--rounds", 1, "--tiles", tiles,
                                    "--lanes", lanes], self.environment))
            times.append({row["graph"]: row["ms"] for row in rows})
        dos, dmdas = times
        return [dos[graph] / dmdas[graph] for graph in GRAPHS]


def table_row(words, ratios):
    """`ratios`: for each size, by graph."""
    cells = [f"{statistics.geometric_mean(each):.3f} | {max(each):.3f}" for each in zip(*ratios)]
    return f"| {words} | {' | '.join(cells)} |"


def main():
    options = parse()
    every = []
    print("`dos` / `dmdas`: geometric mean and worst of five sizes\n")
    print("| node | Cholesky | worst | training | worst |\n|---|---:|---:|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.node or NODES:
            node = Node(options, name, Path(folder))
            ratios = [node.ratios(*size) for size in SIZES]
            every += ratios
            print(table_row(node.words, ratios), flush=True)
    print(table_row("all", every))


if __name__ == "__main__":
    main()
