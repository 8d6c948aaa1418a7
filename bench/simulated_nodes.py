#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""simulated_nodes.py: the update phase under every policy on every simulated node.

Runs update_phase of the preset simgrid for the cases of docs/performance/simulated-nodes.md and
prints its tables in Markdown. Simulated time is the same on every machine and each time."""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

POLICIES = ("dos", "dos-stride", "zero-offload", "twinflow", "gpu-only", "dmdas", "lws")
STRIDES = (1, 2, 3, 4)
# StarPU's own policies have no planner that chooses the size of subgroups: the best of these.
SIZES = ("16M", "64M")
EXAMPLE = Path(__file__).parent.parent / "tests/bench/worked_example.toml"
# title, arguments. 64 GB hold all states of 5.12 G parameters.
CASES = {
    "example": ("worked example", ["--machine", EXAMPLE, "--subgroup", "16M", "--gpu-memory", 2.5]),
    **{f"{machine}-{memory}": (f"{machine}, {memory} GB for states",
                               ["--machine", machine, "--gpu-memory", memory])
       for machine in ("h100", "a100", "rtx4090", "gh200") for memory in (2.5, 64)},
    "h100-own": ("h100, what its 80 GB leave", ["--machine", "h100"]),
    "a100-own": ("a100, what its 40 GB leave", ["--machine", "a100"]),
    "h100-busy-2.5": ("h100 with the links of a busy CPU, 2.5 GB for states",
                      ["--machine", "h100", "--gpu-memory", 2.5, "--busy-links"]),
    "h100-4x-2.5": ("4 GPUs of h100-4x, 20.48 G parameters, 2.5 GB a GPU for states",
                    ["--machine", "h100", "--gpus", 4, "--params", "20.48G", "--gpu-memory", 2.5]),
    "h100-4x-57": ("4 GPUs of h100-4x, 20.48 G parameters, 57 GB a GPU for states",
                   ["--machine", "h100", "--gpus", 4, "--params", "20.48G", "--subgroup", "16M",
                    "--gpu-memory", 57]),
    "h100-4x-64": ("4 GPUs of h100-4x, 20.48 G parameters, 64 GB a GPU for states",
                   ["--machine", "h100", "--gpus", 4, "--params", "20.48G", "--subgroup", "16M",
                    "--gpu-memory", 64]),
}


def run(program, arguments, policy, *more):
    """The program's answer; None, and its message on stderr, when it cannot."""
    command = [program, *arguments, "--policy", policy, *more, "--json"]
    result = subprocess.run([*map(str, command)], text=True, capture_output=True, check=False)
    if result.returncode != 0:
        print(result.stderr.strip(), file=sys.stderr)
        return None
    return json.loads(result.stdout)


def best(program, arguments, policy):
    """The fastest of what the policy's user would try, and its name."""
    if policy == "dos-stride":
        tries = {f"{policy}`, k = {k}": ("--stride", k) for k in STRIDES}
    elif policy in ("dmdas", "lws") and "--subgroup" not in arguments:
        tries = {f"{policy}`, {size}": ("--subgroup", size) for size in SIZES}
    else:
        tries = {f"{policy}`": ()}
    answers = {name: run(program, arguments, policy, *more) for name, more in tries.items()}
    known = {name: answer for name, answer in answers.items() if answer}
    name = max(known, key=lambda each: known[each]["gparams_per_s"], default=f"{policy}`")
    return known.get(name), name


def table(program, title, arguments, policies):
    print(f"### {title}\n")
    print("| policy | subgroup, M | on GPUs | Gparam/s | of the bound | GB in | GB out |")
    print("|---|---:|---:|---:|---:|---:|---:|", flush=True)
    bound = None
    for policy in policies:
        answer, name = best(program, arguments, policy)
        if answer is None:
            print(f"| `{name} | | | cannot run | | | |")
            continue
        share = f"{100 * answer['gpu_share']:.0f} %" if answer["plan"] else ""
        print(f"| `{name} | {answer['subgroup_params'] / 1e6:.3g} | {share} "
              f"| {answer['gparams_per_s']:.3g} | {100 * answer['fraction_of_bound']:.1f} % "
              f"| {answer['bytes_h2d'] / 1e9:.1f} | {answer['bytes_d2h'] / 1e9:.1f} |", flush=True)
        bound = answer
    if bound:
        print(f"\nBound: {bound['bound_gparams_per_s']:.4g} Gparam/s.\n", flush=True)


def node_of(gpus, folder):
    """The machine file of h100-4x, or one of twice the size for more GPUs than it has."""
    if gpus <= 4:
        return "h100-4x"
    text = (Path(__file__).parent.parent / "perfmodels/machines/h100-4x.toml").read_text(encoding="utf-8")
    doubled = ("gpus", "cpu_workers", "update_rate", "bandwidth")
    lines = text.split("[gpu]")
    lines[0] = re.sub(rf"^({'|'.join(doubled)}) = {{ value = ([\d.]+)", lambda m: f"{m[1]} = {{ value = {2 * float(m[2]):g}",
                      lines[0], flags=re.MULTILINE)
    path = Path(folder) / "h100-8x.toml"
    path.write_text("[gpu]".join(lines), encoding="utf-8")
    return path


def memory_table(program, gpu_counts, memories):
    """dos over the whole range of memory: how near to the bound, to its plan, and in how many steps."""
    print("| GPUs | GB a GPU | subgroup, M | `dos`, Gparam/s | of the bound | plan, ms | step, ms | steps 2, 3, 4, ms "
          "| `gpu-only`: steps 2, 3, 4, ms | settled, Gparam/s |\n|---|---|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for gpus in gpu_counts:
            for memory in memories:
                arguments = ["--machine", node_of(gpus, folder), "--gpus", gpus, "--params", f"{5.12 * gpus:g}G",
                             "--gpu-memory", memory, "--steps", 1]
                answer, other = run(program, arguments, "dos"), run(program, arguments, "gpu-only")
                if answer is None:
                    print(f"| {gpus} | {memory:g} | | cannot run | | | | | | |", flush=True)
                    continue
                plan = re.search(r"([\d.]+) ms, bound", answer["plan"])[1]
                settling = [", ".join(f"{1e3 * each:.0f}" for each in (one or {}).get("settling_seconds", [])[1:])
                            for one in (answer, other)]
                print(f"| {gpus} | {memory:g} | {answer['subgroup_params'] / 1e6:.3g} | {answer['gparams_per_s']:.3g} "
                      f"| {100 * answer['fraction_of_bound']:.1f} % | {plan} | {1e3 * answer['step_seconds'][-1]:.1f} "
                      f"| {settling[0]} | {settling[1]} | {other['gparams_per_s'] if other else 0:.3g} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="build/simgrid/bench/update_phase")
    parser.add_argument("--policies", nargs="+", default=POLICIES)
    parser.add_argument("case", nargs="*", help=f"all if none: {', '.join(CASES)}")
    parser.add_argument("--memory", action="store_true", help="the table over GPUs and their memory instead")
    parser.add_argument("--gpus", nargs="+", type=int, default=(1, 2, 4, 8), help="of that table")
    parser.add_argument("--gigabytes", nargs="+", type=float, default=(1, 5, 10, 20, 30, 40, 48, 54, 57, 59, 61, 64),
                        help="of that table; 61.4 hold all states")
    options = parser.parse_args()
    if options.memory:
        memory_table(options.program, options.gpus, options.gigabytes)
        return
    unknown = [case for case in options.case if case not in CASES]
    if unknown:
        parser.error(f"unknown case {unknown[0]}; known: {', '.join(CASES)}")
    for case in options.case or CASES:
        table(options.program, *CASES[case], options.policies)


if __name__ == "__main__":
    main()
