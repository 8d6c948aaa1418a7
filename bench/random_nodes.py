#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""random_nodes.py: dos beside the other policies on made-up simulated nodes.

Draws nodes and models from a seed, runs update_phase of the preset simgrid for each under dos and its baselines, and
prints how dos compares with the best of them and with the bound: docs/performance/random-nodes.md. The status is 1 if
dos is slower than --least times a baseline on any node, or misses --bound of the bound on more than --most of them."""

import argparse
import concurrent.futures
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

# What a user would try: each policy, dos-stride with every k that may pay.
BASELINES = [("zero-offload",), ("twinflow",), ("gpu-only",), *(("dos-stride", "--stride", str(k)) for k in (1, 2, 3, 4))]
GIGA = 1e9


def decades(generator, low, high):
    return low * (high / low) ** generator.random()


def draw(generator):
    """A node, a model and the memory for its states: plain values."""
    gpus = generator.choice((1, 1, 2, 3, 4, 8))
    workers = round(decades(generator, 1, 128))
    h2d = decades(generator, 0.5, 500)
    unequal = generator.random() < 0.4
    d2h = h2d * (decades(generator, 0.25, 4) if unequal else 1)
    half_duplex = generator.random() < 0.25
    subgroup = decades(generator, 0.5e6, 64e6)
    count = round(decades(generator, 12, 120))
    params = round(subgroup * count)
    whole = 12 * params / gpus / GIGA
    one = 12 * subgroup / GIGA
    return {
        "gpus": gpus, "workers": workers,
        "cpu": decades(generator, 0.02, 200), "gpu": decades(generator, 0.2, 2000),
        "h2d": h2d, "d2h": d2h, "both": max(h2d, d2h) if half_duplex else h2d + d2h,
        "latency": decades(generator, 1, 500),
        "params": params, "subgroup": round(subgroup), "free": generator.random() < 0.5,
        # From a window of one subgroup to all states and some room.
        "memory": one * 1.05 + max(0.0, whole * 1.1 - one) * max(0.0, generator.uniform(-0.2, 1)),
    }


MACHINE = """\
format = 1
description = "made up"
[node]
gpus = {{ value = {gpus}, unit = "1", source = "drawn" }}
cpu_workers = {{ value = {workers}, unit = "1", source = "drawn" }}
training_rate = {{ value = 100, unit = "TFLOP/s", source = "not used" }}
task_latency = {{ value = 5, unit = "us", source = "not simulated" }}
[cpu]
update_rate = {{ value = {cpu:.6g}, unit = "Gparam/s", source = "drawn" }}
[dram]
bandwidth = {{ value = 1000000, unit = "GB/s", source = "not simulated" }}
capacity = {{ value = 100000, unit = "GB", source = "not simulated" }}
[gpu]
update_rate = {{ value = {gpu:.6g}, unit = "Gparam/s", source = "drawn" }}
memory = {{ value = 1000000, unit = "GB", source = "given by --gpu-memory" }}
[link]
h2d = {{ value = {h2d:.6g}, unit = "GB/s", source = "drawn" }}
d2h = {{ value = {d2h:.6g}, unit = "GB/s", source = "drawn" }}
both = {{ value = {both:.6g}, unit = "GB/s", source = "drawn" }}
latency = {{ value = {latency:.6g}, unit = "us", source = "drawn" }}
"""


def run(options, machine, node, policy, warm_ups, subgroup):
    """What update_phase says; None where the policy cannot place the problem."""
    command = [options.program, "--machine", str(machine), "--gpus", node["gpus"], "--params", node["params"],
               "--gpu-memory", f"{node['memory']:.9g}", "--steps", 1, "--warm-ups", warm_ups,
               "--subgroup", subgroup, "--policy", *policy, "--json"]
    result = subprocess.run([*map(str, command)], text=True, capture_output=True, check=False, timeout=options.timeout)
    if result.returncode == 0:
        return json.loads(result.stdout)
    if "GPU has" in result.stderr or "--gpu-memory" in result.stderr or "GB free" in result.stderr:
        return None
    raise RuntimeError(f"{' '.join(map(str, command))}\n{result.stderr}")


def compare(options, number):
    """The row of one node; None, and a line that says so, for one that takes longer than --timeout to simulate."""
    try:
        return row_of(options, number)
    except subprocess.TimeoutExpired:
        print(f"node {number}: not simulated within {options.timeout:g} s", file=sys.stderr, flush=True)
        return None


def row_of(options, number):
    node = draw(random.Random(f"{options.seed} {number}"))
    with tempfile.TemporaryDirectory(prefix="dos-nodes-") as folder:
        machine = Path(folder) / "node.toml"
        machine.write_text(MACHINE.format(**node), encoding="utf-8")
        subgroup = 0 if node["free"] else node["subgroup"]
        dos = run(options, machine, node, ("dos",), options.warm_ups, subgroup)
        # Their plans do not depend on what dos learns: they settle in their second step.
        others = {" ".join(policy): run(options, machine, node, policy, 3, subgroup) for policy in BASELINES}
    others = {name: answer for name, answer in others.items() if answer}
    best = min(others, key=lambda name: others[name]["step_seconds"][-1])
    seconds = dos["step_seconds"][-1]
    steps = dos["settling_seconds"][1:] + dos["step_seconds"]
    settled = next(i for i, each in enumerate(steps) if max(steps[i:]) <= 1.02 * seconds)
    return {"number": number, **node, "size": dos["subgroup_params"], "ms": seconds * 1e3, "plan_ms": plan_ms(dos),
            "of_bound": dos["fraction_of_bound"], "binding": dos["binding"], "best": best,
            "over_best": others[best]["step_seconds"][-1] / seconds, "settled": settled + 1,
            "on_gpus": dos["gpu_share"],
            "slowest_settling": max(a / min(o["settling_seconds"][i + 1] for o in others.values())
                                    for i, a in enumerate(dos["settling_seconds"][1:3])),
            "granular": granular(node, dos)}


def plan_ms(answer):
    text = answer["plan"].split(" ms, bound")[0]
    return float(text.rsplit(" ", 1)[-1])


def granular(node, answer):
    """The part of the bound that remains with whole subgroups: CPU workers update them in rounds, GPUs have as many as
    fit, a copy takes its latency, and the last states come, are updated and go."""
    size, count = answer["subgroup_params"] / GIGA, math.ceil(node["params"] / answer["subgroup_params"])
    half = node["both"] / 2
    rate_in, rate_out = min(node["h2d"], half), min(node["d2h"], half)
    latency = node["latency"] * 1e-6
    one_in, one_out, kernel = 12 * size / rate_in, 12 * size / rate_out, size / node["gpu"]
    on_worker = size / (node["cpu"] / node["workers"])
    # Gradient and working parameter.
    there, back = latency + 2 * size / rate_out, latency + 2 * size / rate_in
    fit = math.floor(node["memory"] / (12 * size))

    def gpu_seconds(mine, on_cpu):
        # What is streamed needs room beside what stays.
        streamed = 0 if mine <= fit else mine - max(0, fit - 1)
        flows = [mine * kernel, (12 * streamed + 2 * on_cpu / node["gpus"]) * size / rate_in,
                 (12 * streamed + 2 * on_cpu / node["gpus"]) * size / rate_out]
        if streamed > 0:
            around = 2 * latency + kernel
            flows += [around + streamed * one_in + one_out, around + one_in + streamed * one_out]
        return max(flows)

    def seconds(on_cpu):
        # Workers are busy, or links: the last gradient's update is still to come, or the first one's parameters are the first.
        on_link = math.ceil(on_cpu / node["gpus"])
        cpu = max(math.ceil(on_cpu / node["workers"]) * on_worker + there + back, on_link * there + on_worker + back,
                  there + on_worker + on_link * back) if on_cpu > 0 else 0
        return max(cpu, gpu_seconds(math.ceil((count - on_cpu) / node["gpus"]), on_cpu))

    bound = node["params"] / GIGA / answer["bound_gparams_per_s"]
    return min(1.0, bound / min(seconds(on_cpu) for on_cpu in range(count + 1)))


def report(rows, options):
    by_bound = sorted(rows, key=lambda row: row["of_bound"] / row["granular"])
    by_best = sorted(rows, key=lambda row: row["over_best"])
    off_plan = sorted(rows, key=lambda row: -row["ms"] / row["plan_ms"])
    near = sum(row["of_bound"] >= options.bound for row in rows) / len(rows)
    near_whole = sum(row["of_bound"] >= options.bound * row["granular"] for row in rows) / len(rows)
    print(f"{len(rows)} nodes: dos / best baseline: least {by_best[0]['over_best']:.3f}, geometric mean "
          f"{math.exp(sum(math.log(row['over_best']) for row in rows) / len(rows)):.2f}, most {by_best[-1]['over_best']:.1f}; "
          f"at least {options.bound:g} of the bound on {100 * near:.1f} %, of the bound with whole subgroups on "
          f"{100 * near_whole:.1f} %; at most 5 % more than the plan on "
          f"{100 * sum(row['ms'] <= 1.05 * row['plan_ms'] for row in rows) / len(rows):.1f} %\n")
    head = ("node | GPUs | workers | CPU, GPU Gparam/s | in, out, both GB/s | latency, us | subgroups x M | memory, GB | "
            "step (plan), ms | of the bound | best other | times as fast | settled in")
    for title, chosen in (
            ("Farthest from the bound with whole subgroups (in brackets: what they leave of the bound)", by_bound),
            ("Nearest to a baseline", by_best), ("Slowest beside the plan", off_plan)):
        print(f"### {title}\n\n| {head} |\n|{'---|' * head.count('|')}---|")
        for row in chosen[:options.rows]:
            print(f"| {row['number']} | {row['gpus']} | {row['workers']} | {row['cpu']:.3g}, {row['gpu']:.3g} | {row['h2d']:.3g}, "
                  f"{row['d2h']:.3g}, {row['both']:.3g} | {row['latency']:.0f} | {math.ceil(row['params'] / row['size'])} x "
                  f"{row['size'] / 1e6:.3g}{' (chosen)' if row['free'] else ''} | {row['memory']:.3g} | {row['ms']:.4g} "
                  f"({row['plan_ms']:.4g}) | {100 * row['of_bound']:.0f} % ({100 * row['granular']:.0f} %) | {row['best']} | "
                  f"{row['over_best']:.3f} | {row['settled']} |")
        print()
    slower = [row for row in rows if row["over_best"] < options.least]
    return 1 if slower or 1 - near > options.most else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default="build/simgrid/bench/update_phase")
    parser.add_argument("--count", type=int, default=200, help="nodes (default: 200)")
    parser.add_argument("--first", type=int, default=0, help="number of the first one (default: 0)")
    parser.add_argument("--seed", default="1", help="draws other nodes (default: 1)")
    parser.add_argument("--warm-ups", type=int, default=8, help="steps of dos before the one that counts (default: 8)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--timeout", type=float, default=600, help="seconds of one run (default: 600)")
    parser.add_argument("--least", type=float, default=0.99, help="of the best baseline, on every node (default: 0.99)")
    parser.add_argument("--bound", type=float, default=0.9, help="of the bound ... (default: 0.9)")
    parser.add_argument("--most", type=float, default=0.05, help="... missed on so many nodes (default: 0.05)")
    parser.add_argument("--rows", type=int, default=12, help="of each table (default: 12)")
    parser.add_argument("--output", metavar="FILE", help="all rows as lines of JSON")
    options = parser.parse_args()
    rows = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for row in pool.map(lambda number: compare(options, number), range(options.first, options.first + options.count)):
            if row is None:
                continue
            rows.append(row)
            if options.output:
                with open(options.output, "a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    if len(rows) < options.count:
        print(f"{options.count - len(rows)} of {options.count} nodes take longer than --timeout to simulate\n")
    return report(rows, options)


if __name__ == "__main__":
    sys.exit(main())
