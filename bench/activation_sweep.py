#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether train.activations=auto is as good as the best fixed choice, by `plan`, which simulates nothing and measures nothing.

usage: bench/activation_sweep.py cases [--build DIR] [--count N] [--seed S] [--json]
       bench/activation_sweep.py curve [--build DIR] --data FILE.csv --picture FILE.png
       bench/activation_sweep.py published [--build DIR]

`cases` draws models of 7B to 20B, machine files with and without disks, contexts and micro-batches from the seed, plans each with
auto and with every fixed choice, and says by how much auto is above the fastest of these that fits. It ends with status 1 where
that is more than 3 %. `curve` plans one model for GPUs of less and less memory and writes and draws the step with each choice;
`published` plans the set-ups of SSDTrain (arXiv 2408.10013) and Fuyou (arXiv 2403.06504), as far as one GPU without tensor parallelism
stands for them, and prints what each choice takes. docs/performance/activations.md has all three.
"""

import argparse
import csv
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CHOICES = ("keep", "selective", "recompute", "host", "disk")
MODELS = ("llama-7b", "llama-8.3b", "llama-10b", "llama-13b", "llama-20b")
MACHINES = (("h100", 1), ("h100-4x", 4), ("a100", 1), ("a100-4x", 4), ("rtx4090", 1))
CONTEXTS = (2048, 8192, 32768)
MICRO_BATCHES = (1, 2, 4, 8, 16)
MOST = 0.03

NVME = """
[[tier]]
name = "nvme"
capacity = {{ value = 4000, unit = "GB", source = "made up for a sweep" }}
link.to = "host"
link.read = {{ value = {read}, unit = "GB/s", source = "made up for a sweep" }}
link.write = {{ value = {write}, unit = "GB/s", source = "made up for a sweep" }}
link.latency = {{ value = 100, unit = "us", source = "made up for a sweep" }}
"""

# The curve's run.
CURVE_MACHINE, CURVE_DISK = "h100", {"read": 14, "write": 12}
CURVE_MODEL, CURVE_CONTEXT, CURVE_MICRO_BATCH = "llama-7b", 2048, 8
GIGABYTES = range(20, 124, 4)


class Planner:
    """Calls `plan`, with files in a folder of its own."""

    def __init__(self, build, folder):
        self.program = Path(build).resolve() / "apps" / "plan"
        self.machines = Path(__file__).resolve().parent.parent / "perfmodels" / "machines"
        self.folder = folder

    def machine_text(self, name):
        return (self.machines / f"{name}.toml").read_text(encoding="utf-8")

    def forecast(self, machine, ranks, model, activations):
        """What `plan --json` says of a machine file's text and a configuration's, or None: states have nowhere to be."""
        machine_file, model_file = self.folder / "machine.toml", self.folder / "model.toml"
        machine_file.write_text(machine, encoding="utf-8")
        model_file.write_text(model, encoding="utf-8")
        result = subprocess.run([str(self.program), "--machine", str(machine_file), "--model", str(model_file), "--ranks", str(ranks),
                                 "--set", f"train.activations={activations}", "--json"], capture_output=True, text=True, check=False)
        if result.returncode != 0:
            # States, where activations have all of the host's memory.
            if "fit nowhere" in result.stderr:
                return None
            sys.exit(f"activation_sweep: error: {result.stderr.strip()}")
        return json.loads(result.stdout)

    def step(self, machine, ranks, model, activations):
        """(milliseconds, plan for activations), or None: it does not fit."""
        plan = self.forecast(machine, ranks, model, activations)
        return (1e3 * plan["step_s"], plan["activations"]["plan"]) if plan and plan["fits"] else None


def with_value(machine, section_and_key, value):
    """A machine file's text with another number, "key" or "section.key"."""
    *section, key = section_and_key.split(".")
    head, name, tail = machine.partition(f"[{section[0]}]") if section else ("", "", machine)
    tail, changed = re.subn(rf"(?m)^{key} = {{ value = [0-9.]+,", f"{key} = {{ value = {value},", tail, count=1)
    assert changed == 1, section_and_key
    return head + name + tail


def gpt(layers, width, micro_batch, rule):
    """A model of GPT-2's blocks as SSDTrain and Fuyou train it: sequences of 1024 tokens."""
    return (f'[model]\npreset = "gpt2-124m"\nlayers = {layers}\nwidth = {width}\nheads = {width // 128}\ncontext = 1024\n'
            f'[train]\nbatch = {micro_batch}\nprecision = "bf16"\n[optim]\nrule = "{rule}"\n[sched]\nsubgroup_params = 50000000\n')


def configuration(model, context, micro_batch):
    return (f'[model]\npreset = "{model}"\ncontext = {context}\n[train]\nbatch = {micro_batch}\nprecision = "bf16"\n'
            "[sched]\nsubgroup_params = 50000000\n[dist]\nzero = 3\n")


def drawn_cases(count, seed):
    generator = random.Random(seed)
    for _ in range(count):
        machine, ranks = generator.choice(MACHINES)
        disk = generator.choice((None, {"read": 3, "write": 2}, {"read": 12, "write": 8}))
        yield {"machine": machine, "ranks": ranks, "disk": disk, "model": generator.choice(MODELS),
               "context": generator.choice(CONTEXTS), "micro_batch": generator.choice(MICRO_BATCHES)}


def swept(planner, case):
    machine = planner.machine_text(case["machine"]) + (NVME.format(**case["disk"]) if case["disk"] else "")
    model = configuration(case["model"], case["context"], case["micro_batch"])
    chosen = planner.step(machine, case["ranks"], model, "auto")
    fixed = {choice: planner.step(machine, case["ranks"], model, choice) for choice in CHOICES if choice != "disk" or case["disk"]}
    fitting = {choice: step[0] for choice, step in fixed.items() if step}
    row = case | {"fixed_ms": fitting, "auto_ms": chosen and chosen[0], "auto": chosen and chosen[1]}
    if fitting:
        row["best"] = min(fitting, key=fitting.get)
        row["above"] = chosen[0] / fitting[row["best"]] - 1 if chosen else float("inf")
    return row


def sweep(planner, options):
    rows = [swept(planner, case) for case in drawn_cases(options.count, options.seed)]
    compared = [row for row in rows if "above" in row]
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        won = {choice: sum(row["best"] == choice for row in compared) for choice in CHOICES}
        moving = [row for row in compared if re.search("host|disk", row["auto"] or "")]
        worst = max(compared, key=lambda row: row["above"])
        best = min(compared, key=lambda row: row["above"])
        print(f"{len(rows)} cases, {len(compared)} with a fixed choice that fits; fastest: "
              + ", ".join(f"{choice} {count}" for choice, count in won.items()))
        print(f"auto moves activations in {len(moving)}; above the fastest fixed choice by at most {100 * worst['above']:.2f} %, "
              f"at least {100 * best['above']:.2f} %")
        print(f"at most in {json.dumps(worst)}\nat least in {json.dumps(best)}")
    if any(row["above"] > MOST for row in compared):
        sys.exit(f"activation_sweep: error: auto is more than {100 * MOST:.0f} % above a fixed choice")


def curve(planner, options):
    text = planner.machine_text(CURVE_MACHINE) + NVME.format(**CURVE_DISK)
    model = configuration(CURVE_MODEL, CURVE_CONTEXT, CURVE_MICRO_BATCH)
    rows = []
    for gigabytes in GIGABYTES:
        machine = with_value(text, "gpu.memory", gigabytes)
        for choice in ("auto", *CHOICES):
            step = planner.step(machine, 1, model, choice)
            if step:
                rows.append({"gpu_gb": gigabytes, "activations": choice, "step_ms": f"{step[0]:.1f}", "plan": step[1]})
    with open(options.data, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draw(rows, options.picture)


# 2 x A100 40 GB with tensor parallelism, 16 sequences: one GPU with 8 has the same arithmetic and activations, but all weights, so
# that it is given memory for them. RAID 0 of three P5800X, by their data sheet, 85 % of it.
SSDTRAIN = {"disk": {"read": 18, "write": 15}, "micro_batch": 8, "gpu_gb": 400, "models": ((8192, 4), (12288, 3), (16384, 2), (8192, 24))}
# 13B on one RTX 4090 with 256 GB and twelve SSDs. GB 80: as if its weights, 26 GB, fitted.
FUYOU = {"disk": {"read": 30, "write": 25}, "layers": 40, "width": 5120, "gpu_gb": (24, 80), "micro_batches": (8, 16, 32)}


def published(planner, _):
    machine = with_value(planner.machine_text("a100"), "gpu.memory", SSDTRAIN["gpu_gb"]) + NVME.format(**SSDTRAIN["disk"])
    for width, layers in SSDTRAIN["models"]:
        for choice in ("keep", "disk", "recompute"):
            plan = planner.forecast(machine, 1, gpt(layers, width, SSDTRAIN["micro_batch"], "sgd"), choice)
            memory = plan["memory"]["gpu"]["items"]["activations"]
            if choice == "keep":
                kept, passes = memory, plan["forward_s"] + plan["backward_s"]
            moved = sum(each["bytes"] for each in plan["activations"]["classes"] if each["where"] == "disk")
            print(f"SSDTrain, width {width}, {layers} layers, {choice}: activations {memory / 1e9:.1f} GB, {100 * (memory / kept - 1):+.0f} %; "
                  f"forward and backward {(plan['forward_s'] + plan['backward_s']) / passes:.3f} of keep; {moved / 1e9:.1f} GB moved, "
                  f"{moved / plan['forward_s'] / 1e9:.1f} GB/s in forward")
    for gigabytes in FUYOU["gpu_gb"]:
        machine = with_value(with_value(planner.machine_text("rtx4090"), "gpu.memory", gigabytes), "dram.capacity", 256)
        machine += NVME.format(**FUYOU["disk"])
        for micro_batch in FUYOU["micro_batches"]:
            for choice in ("auto", "host", "disk", "recompute"):
                plan = planner.forecast(machine, 1, gpt(FUYOU["layers"], FUYOU["width"], micro_batch, "adamw"), choice)
                if plan is None:
                    print(f"Fuyou, {gigabytes} GB, {micro_batch} sequences, {choice}: does not fit")
                    continue
                rate = 6 * plan["params"] * micro_batch * 1024 / plan["step_s"] / 1e12
                print(f"Fuyou, {gigabytes} GB, {micro_batch} sequences, {choice} ({plan['activations']['plan']}): "
                      f"{'fits' if plan['fits'] else 'does not fit: ' + plan['limit']}, step {plan['step_s']:.1f} s (forward {plan['forward_s']:.1f}, "
                      f"backward {plan['backward_s']:.1f}, update {plan['update_s']:.1f}), {rate:.0f} TFLOP/s")


def draw(rows, path):
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    figure, axes = pyplot.subplots(figsize=(7.5, 4))
    styles = {"auto": ("#000000", 3.5, "-"), "keep": ("#E69F00", 1.6, "-"), "selective": ("#56B4E9", 1.6, "-"),
              "recompute": ("#D55E00", 1.6, "--"), "host": ("#0072B2", 1.6, "--"), "disk": ("#009E73", 1.6, "--")}
    for choice, (colour, width, line) in styles.items():
        points = [(float(row["gpu_gb"]), float(row["step_ms"])) for row in rows if row["activations"] == choice]
        axes.plot(*zip(*points), line, color=colour, linewidth=width, alpha=0.45 if choice == "auto" else 1, label=choice)
    axes.set_xlabel("memory of the GPU, GB")
    axes.set_ylabel("predicted step, ms")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(ncols=len(styles), loc="lower center", bbox_to_anchor=(0.5, 1), frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, run in (("cases", sweep), ("curve", curve), ("published", published)):
        command = commands.add_parser(name)
        command.set_defaults(run=run)
        command.add_argument("--build", default="build/release", metavar="DIR", help="build folder (default: build/release)")
    commands.choices["cases"].add_argument("--count", type=int, default=60, metavar="N", help="(default: 60)")
    commands.choices["cases"].add_argument("--seed", type=int, default=20, metavar="S", help="(default: 20)")
    commands.choices["cases"].add_argument("--json", action="store_true", help="print every case")
    commands.choices["curve"].add_argument("--data", required=True, metavar="FILE.csv")
    commands.choices["curve"].add_argument("--picture", required=True, metavar="FILE.png")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="activations-") as name:
        options.run(Planner(options.build, Path(name)), options)


if __name__ == "__main__":
    main()
