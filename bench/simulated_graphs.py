#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""simulated_graphs.py: whole task graphs under `dos` and `dmdas` on simulated nodes.

Runs sched_graphs of the preset simgrid on the nodes of docs/performance/scheduler.md and prints its
tables in Markdown. Simulated time is the same on every machine and each time."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SCHEDULERS = ("dos", "dmdas")
TILES = (7, 10, 13, 16, 19)  # a side
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
# workers; GPUs, GFLOP/s of each; GB/s of a link each way; floats a side of a tile; training's own options.
NODES = {
    "fast": (8, 1, 5000, 50, 960, []),
    "slow": (4, 1, 200, 50, 960, ["--lanes", 8]),
    "two": (8, 2, 1000, 10, 960, []),
    "two-slow": (8, 2, 300, 10, 320, ["--layers", 24, "--lanes", 8, "--rows", 512]),
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
        workers, gpus, gflops, link, tile_size, self.training = NODES[name]
        file = folder / f"{name}.toml"
        file.write_text(MACHINE.format(workers=workers, gpus=gpus, link=link, both=2 * link, memory=options.memory),
                        encoding="utf-8")
        call([options.build / "apps/sampling", file, "--output", folder])
        self.environment = {"STARPU_PERF_MODEL_DIR": str(folder / name), "STARPU_HOSTNAME": name,
                            "STARPU_HOME": str(folder), "STARPU_SILENT": "1"}
        self.command = [options.build / "bench/sched_graphs", "--simulated", "--json", "--workers", workers,
                        "--gpus", gpus, "--gpu-gflops", gflops, "--tile-size", tile_size]
        self.words = f"{workers} workers, {gpus} x {gflops} GFLOP/s on {link} GB/s, tiles of {tile_size}"

    def milliseconds(self, graph, *more):
        """By scheduler. StarPU starts once in a simulation: a process a scheduler."""
        times = []
        for scheduler in SCHEDULERS:
            rows = json.loads(call([*self.command, "--schedulers", scheduler, "--rounds", 1, *more], self.environment))
            times += [row["ms"] for row in rows if row["graph"] == graph]
        return times


def main():
    options = parse()
    every, rows = [], []
    print("| node | Cholesky, `dos` / `dmdas`: geometric mean of five sizes | worst |\n|---|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.node or NODES:
            node = Node(options, name, Path(folder))
            cholesky = [node.milliseconds("cholesky", "--tiles", tiles) for tiles in TILES]
            ratios = [dos / dmdas for dos, dmdas in cholesky]
            every += ratios
            print(f"| {node.words} | {statistics.geometric_mean(ratios):.3f} | {max(ratios):.3f} |", flush=True)
            dos, dmdas = node.milliseconds("training", "--tiles", TILES[0], *node.training)
            rows.append(f"| {node.words} | {dmdas:.4g} | {dos:.4g} | {dos / dmdas:.3f} |")
    print(f"| all | {statistics.geometric_mean(every):.3f} | {max(every):.3f} |\n")
    print("| training graph on | `dmdas`, ms | `dos`, ms | `dos` / `dmdas` |\n|---|---:|---:|---:|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
