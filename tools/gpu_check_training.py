# SPDX-License-Identifier: Apache-2.0
"""The stages of tools/gpu_check that train, and what they must not let pass."""

import json
import re
import shutil
import sys

from gpu_check_plan import predictions
from gpu_check_stage import ROOT, Failed, Skipped
from gpu_check_updates import machine_file
from policy_losses import POLICIES, loss_faults

# Measured again for each policy with so little GPU memory (GB) for states, of 1 to 1.5 GB, that they must move.
LITTLE_MEMORY = 0.5
MEMORY_TOLERANCE = 0.05
# From so many estimated bytes on, what CUDA says is compared as well: what no estimate knows of (code of kernels, ends
# of StarPU's chunks of 32 MiB and of CUDA's pages of 2 MiB) is little then, whatever it comes to on this GPU.
LARGE_MEMORY = 10e9

# The model of the project's goal, 8 x 2048 tokens in a micro-batch and 98304 in a step, of which it needs some 100,000
# (docs/performance/gpu.md). In the first steps policies learn rates and move states.
WHOLE_MODEL = ["--model", "gpt3-1.3b", "--context", "0", "--batch", "8", "--accumulate", "6", "--warmup", "4",
               "--steps", "4", "--cuda-devices", "1"]
# GB of GPU memory for states of 15.8 GB; the first run needs most memory. Under zero-offload no states are needed
# there: the rest must be as estimated.
WHOLE_RUNS = (("dos", 2.5), ("zero-offload", None))
# With as little GPU memory as dos in the stage mfu, to be compared with that. With gradients in BF16 steps are those
# that `plan` knows, and sums of gradients have DeepSpeed's type.
BF16_GRADIENTS = ("--gradient-precision", "bf16")
OTHER_RUNS = (("dos-stride", 2.5), ("dos", 2.5, *BF16_GRADIENTS), ("twinflow", 2.5))
MFU_GOAL = 0.5
# Of one program: half of it starts the large model.
SECONDS_OF_A_RUN = 120
# Takes so many bytes, bit by bit. Where there are fewer it is this program that the system ends.
USE_MEMORY = """
import mmap, sys
open("/proc/self/oom_score_adj", "w").write("1000")
size = 1 << 28
taken = [mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
         for _ in range(int(sys.argv[1]) // size + 1)]
print(len(taken) * size, "bytes were taken")
"""
SECONDS_TO_GROW = 60
# Updates by whom a plan says, and by the CPU alone.
LOSS_POLICIES = ("dos", "zero-offload")
LOSS_KEYS = {"model.preset": "gpt2-124m", "model.context": 256, "train.batch": 8, "train.steps": 100,
             "train.precision": "bf16", "train.cuda_devices": 1, "train.validate_every": 0,
             "train.validate_batches": 1, "train.lanes": 1}
REHEARSED_LOSS_KEYS = {"model.preset": "tiny", "model.context": 16, "train.steps": 5, "train.cuda_devices": 0,
                       "train.workers": 1}
# BF16, dense, in GFLOP/s, by a word of the GPU's name, and words of forms that reach less (docs/performance/gpu.md).
PEAKS = {"A100": (312e3, {"MIG"}), "H100": (989e3, {"MIG", "PCIe", "NVL"}), "H200": (989e3, {"MIG", "NVL"})}


def train_step(check, stage, size, precision, policy, memory, *more):
    """What bench/train_step says under the policy, with so many GB of GPU memory for states; None: all."""
    limit = ["--state-memory", str(memory)] if memory else []
    # Where cuDNN failed its tests steps are still worth having.
    attention = check.state["stages"].get("conformance", {}).get("result", {}).get("attention", "auto")
    machine = machine_file(check)
    limit += ["--machine", machine] if machine else []
    text = stage.run(check.program("bench/train_step"), *size, *limit, "--precision", precision, "--json",
                     "--attention", attention, *more,
                     # In the log: what went over which link, and what each worker did.
                     env={"STARPU_SCHED": policy, "STARPU_BUS_STATS": "1", "STARPU_WORKER_STATS": "1"},
                     limit=SECONDS_OF_A_RUN)
    return {"policy": policy, "state_memory_gb": memory} | json.loads(text)


def row_name(policy, memory, *more):
    return f"{policy}, {memory or 'all'} GB" + (", BF16 gradients" if more == BF16_GRADIENTS else "")


def training(check, stage):
    size = ["--model", "tiny", "--context", "16", "--steps", "2", "--workers", "1"] if check.rehearses \
        else ["--model", check.options.model, "--steps", "8", "--cuda-devices", "1"]
    stage.partial = lambda: {"steps": stage.good_rows()}
    for precision in ("bf16", "fp32"):
        for policy in POLICIES:
            for memory in (None, LITTLE_MEMORY):
                # Without a GPU its memory is nothing to the program: one policy shows both rows.
                if check.rehearses and memory and policy != POLICIES[-1]:
                    continue
                stage.row(f"{precision}, {row_name(policy, memory)}",
                          lambda *which: train_step(check, stage, size, *which), precision, policy, memory)
    steps = stage.good_rows()
    return passed(stage, loss_faults(steps) + ([] if check.rehearses else memory_faults(steps)))


def whole_steps(check, stage):
    expect_room(check, stage)
    result = large_runs(check, stage, WHOLE_RUNS)
    return with_predictions(check, stage, result, stage.good_rows())


def expect_room(check, stage):
    """For the large model; else the stage is skipped. A machine whose memory grows as it is used says too little of it
    at first: it is used once."""
    def needs():
        return train_step(check, stage, WHOLE_MODEL, "bf16", *WHOLE_RUNS[0], "--dry-run")

    said = needs()
    if said["host"]["needed"] > said["host"]["available"] and not check.rehearses:
        stage.log_output(sys.executable, "-c", USE_MEMORY, said["host"]["needed"], limit=SECONDS_TO_GROW)
        said = needs()
    if shortage(said):
        raise Skipped(shortage(said))


def with_predictions(check, stage, result, steps):
    """With what `plan` makes of the steps: measured is measured, whatever becomes of that."""
    try:
        return result | {"predictions": predictions(check, stage, steps)}
    except Failed as failure:
        return result | {"predictions": [], "without_predictions": str(failure)}


def policies(check, stage):
    """The same steps under other policies, beside those of the stage mfu, and what `plan` makes of all of them."""
    before = check.state["stages"].get("mfu", {})
    if not before.get("passed") and not before.get("rows"):
        raise Skipped(before.get("skipped") or "the stage mfu, whose steps these are compared with, has not run")
    result = large_runs(check, stage, OTHER_RUNS)
    steps = [row for row in before.get("rows", {}).values() if "fault" not in row] + stage.good_rows()
    return with_predictions(check, stage, result, steps)


def large_runs(check, stage, runs):
    """Steps of the large model; each has a row."""
    gpu, product = limits(check.state["stages"])
    stage.partial = lambda: {"gpu": gpu, "goal": MFU_GOAL,
                             "steps": [with_fractions(row, gpu, product) for row in stage.good_rows()]}
    for run in runs:
        stage.row(row_name(*run), lambda *which: train_step(check, stage, WHOLE_MODEL, "bf16", *which), *run)
    steps = stage.good_rows()
    others = check.state["stages"].get("mfu", {}).get("rows", {}).values() if runs is OTHER_RUNS else ()
    faults = [f"{step['policy']} has no plan: {step['updates']['obstacle']}" for step in steps
              if step["updates"]["obstacle"]]
    faults += loss_faults([row for row in others if "fault" not in row] + steps) + memory_faults(steps)
    return passed(stage, faults)


def losses(check, stage):
    """Two trainings that differ in who updates: their losses are the same numbers, of each step."""
    folder = check.output / "losses"
    folder.mkdir(exist_ok=True)
    text = folder / "text.txt"
    text.write_text("".join(file.read_text(encoding="utf-8") for file in sorted((ROOT / "src").rglob("*.cpp"))),
                    encoding="utf-8")
    stage.run(check.program("apps/prepare_data"), "--tokenizer", "bytes", "--output", folder / "data", text)
    keys = LOSS_KEYS | (REHEARSED_LOSS_KEYS if check.rehearses else {}) | {"data.path": folder / "data"}

    def trained(policy):
        out = folder / policy
        shutil.rmtree(out, ignore_errors=True)
        settings = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
        stage.run(check.program("apps/train_gpt"), *settings, "--out", out, "--quiet", env={"STARPU_SCHED": policy},
                  limit=SECONDS_OF_A_RUN)
        metrics = (out / "metrics.jsonl").read_text(encoding="utf-8")
        (check.output / f"losses_{policy}.jsonl").write_text(metrics, encoding="utf-8")
        shutil.rmtree(out)
        lines = [json.loads(line) for line in metrics.splitlines()]
        return {"policy": policy, "losses": [line["loss"] for line in lines if "loss" in line],
                "updated_on_gpus": [line.get("updated_cuda0", 0) for line in lines if "loss" in line][-1]}

    for policy in LOSS_POLICIES:
        stage.row(policy, trained, policy)
    if stage.faults():
        raise Failed("; ".join(stage.faults()))
    return compared_losses(stage)


def compared_losses(stage):
    first, second = (stage.rows[policy] for policy in LOSS_POLICIES)
    pairs = list(zip(first["losses"], second["losses"], strict=True))
    result = {"steps": len(pairs), "updated_on_gpus": first["updated_on_gpus"], "last": pairs[-1][0]}
    for step, (one, other) in enumerate(pairs, start=1):
        if one != other:
            raise Failed(f"step {step}: the loss is {one!r} under {LOSS_POLICIES[0]} and {other!r} under "
                         f"{LOSS_POLICIES[1]}", result)
    return result


def passed(stage, faults):
    faults = stage.faults() + faults
    if faults:
        raise Failed("; ".join(faults), stage.partial())
    return stage.partial()


def shortage(needs):
    """What the machine lacks of what train_step --dry-run says it needs; empty: nothing."""
    places = [("host", needs["host"]), *((device["name"], device) for device in needs["devices"])]
    return "; ".join(f"{name}: {place['needed'] / 1e9:.1f} GB of memory are needed, {place['available'] / 1e9:.1f} GB "
                     "are available" for name, place in places if place["needed"] > place["available"])


def limits(stages):
    """The GPU's name and the GFLOP/s of the product of 8192 x 8192 x 8192, from the stages before; else None."""
    runs = [run for run in stages.get("kernels", {}).get("rows", {}).values() if "product_gflop_per_s" in run]
    if runs:
        return runs[0]["gpu"], runs[0]["product_gflop_per_s"]
    gpus = stages.get("machine", {}).get("result", {}).get("gpus")
    return (gpus[0]["name"] if gpus else None), None


def peak_gflop_per_s(gpu):
    """Of the data sheet; None for a GPU that docs/performance/gpu.md has no figure of."""
    words = set(re.split(r"[\s-]+", gpu or ""))
    return next((peak for name, (peak, others) in PEAKS.items() if name in words and not words & others), None)


def with_fractions(step, gpu, product):
    """With the parts of what the GPU can do: `mfu` of the data sheet's peak, `of_product` of the measured product."""
    peak = peak_gflop_per_s(gpu)
    return step | {"peak_gflop_per_s": peak, "mfu": step["gflop_per_s"] / peak if peak else None,
                   "product_gflop_per_s": product, "of_product": step["gflop_per_s"] / product if product else None}


def memory_faults(steps):
    """Where nothing is short and updates stay on the CPU, a GPU holds what was estimated; docs/performance/gpu.md says
    what counts."""
    faults = []
    for step in steps:
        if step["policy"] != "zero-offload" or step["state_memory_gb"]:
            continue
        if not step["device_memory"]:
            faults.append(f"{step['precision']}: no GPU took part")
        for device in step["device_memory"]:
            names = ("weights", "gradients", "activations")
            parts = {"buffers of " + ", ".join(names): [sum(device[name][key] for name in names)
                                                        for key in ("estimated", "allocated")]}
            whole = device["all but states"]
            if whole["estimated"] >= LARGE_MEMORY:
                parts["all but states, as CUDA says"] = [whole["estimated"], whole["allocated"]]
            faults += [f"{step['precision']}: {device['name']}, {part}: {allocated / 1e6:.1f} MB, "
                       f"{estimated / 1e6:.1f} MB were estimated" for part, (estimated, allocated) in parts.items()
                       if abs(allocated - estimated) > MEMORY_TOLERANCE * estimated]
    return faults
