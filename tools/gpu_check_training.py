# SPDX-License-Identifier: Apache-2.0
"""The stages of tools/gpu_check that train, and what they must not let pass."""

import json
import re

from gpu_check_stage import Failed, Skipped
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
MFU_GOAL = 0.5
# BF16, dense, in GFLOP/s, by a word of the GPU's name, and words of forms that reach less (docs/performance/gpu.md).
PEAKS = {"A100": (312e3, {"MIG"}), "H100": (989e3, {"MIG", "PCIe", "NVL"}), "H200": (989e3, {"MIG", "NVL"})}


def train_step(check, stage, size, precision, policy, memory, *more):
    """What bench/train_step says under the policy, with so many GB of GPU memory for states; None: all."""
    limit = ["--state-memory", str(memory)] if memory else []
    # Where cuDNN failed its tests steps are still worth having.
    attention = check.state["stages"].get("tests", {}).get("result", {}).get("attention", "auto")
    text = stage.run(check.program("bench/train_step"), *size, *limit, "--precision", precision, "--json",
                     "--attention", attention, *more,
                     env={"STARPU_SCHED": policy})
    return json.loads(text)


def training(check, stage):
    size = ["--model", "tiny", "--context", "16", "--steps", "2", "--workers", "1"] if check.rehearses \
        else ["--model", check.options.model, "--steps", "8", "--cuda-devices", "1"]
    steps = [{"policy": policy, "state_memory_gb": memory} | train_step(check, stage, size, precision, policy, memory)
             for precision in ("fp32", "bf16") for policy in POLICIES for memory in (None, LITTLE_MEMORY)
             # Without a GPU its memory is nothing to the program: one policy shows both rows.
             if not (check.rehearses and memory and policy != POLICIES[-1])]
    faults = loss_faults(steps) + ([] if check.rehearses else memory_faults(steps))
    return passed({"steps": steps}, faults)


def whole_steps(check, stage):
    lack = shortage(train_step(check, stage, WHOLE_MODEL, "bf16", *WHOLE_RUNS[0], "--dry-run"))
    if lack:
        raise Skipped(lack)
    gpu, product = limits(check.state["stages"])
    steps = [with_fractions({"policy": policy, "state_memory_gb": memory}
                            | train_step(check, stage, WHOLE_MODEL, "bf16", policy, memory), gpu, product)
             for policy, memory in WHOLE_RUNS]
    faults = [f"{step['policy']} has no plan: {step['updates']['obstacle']}" for step in steps
              if step["updates"]["obstacle"]]
    faults += loss_faults(steps) + memory_faults(steps)
    return passed({"gpu": gpu, "goal": MFU_GOAL, "steps": steps}, faults)


def passed(result, faults):
    if faults:
        raise Failed("; ".join(faults), result)
    return result


def shortage(needs):
    """What the machine lacks of what train_step --dry-run says it needs; empty: nothing."""
    places = [("host", needs["host"]), *((device["name"], device) for device in needs["devices"])]
    return "; ".join(f"{name}: {place['needed'] / 1e9:.1f} GB of memory are needed, {place['available'] / 1e9:.1f} GB "
                     "are available" for name, place in places if place["needed"] > place["available"])


def limits(stages):
    """The GPU's name and the GFLOP/s of the product of 8192 x 8192 x 8192, from the stages before; else None."""
    runs = stages.get("kernels", {}).get("result", {}).get("runs")
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
