# SPDX-License-Identifier: Apache-2.0
"""The stages of tools/gpu_check that train, and what they must not let pass."""

import json

from gpu_check_stage import POLICIES, Failed

# Measured again for each policy with so little GPU memory (GB) for states, of 1 to 1.5 GB, that they must move.
LITTLE_MEMORY = 0.5
# Of the loss, among policies: sums have other orders (60 roundings in a row, a factor of 100 for what they feed
# back in some steps), and in BF16 roundings of 2^-8 (tests/models/gpt2_precision_test.cpp).
LOSS_TOLERANCE = {"fp32": 60 * 2.0 ** -23 * 100, "bf16": 0.036}
MEMORY_TOLERANCE = 0.05


def train_step(check, stage, size, precision, policy, memory):
    """What bench/train_step says under the policy, with so many GB of GPU memory for states; None: all."""
    limit = ["--state-memory", str(memory)] if memory else []
    text = stage.run(check.program("bench/train_step"), *size, *limit, "--precision", precision, "--json",
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
    if faults:
        raise Failed("; ".join(faults))
    return {"steps": steps}


def loss_faults(steps):
    """Policies decide where updates run, not what they compute."""
    faults = []
    for step in steps:
        first = next(each for each in steps if each["precision"] == step["precision"])
        if abs(step["loss"] - first["loss"]) > LOSS_TOLERANCE[step["precision"]] * first["loss"]:
            faults.append(f"{step['precision']}: the loss under {step['policy']} is {step['loss']}, under "
                          f"{first['policy']} {first['loss']}")
    return faults


def memory_faults(steps):
    """Where nothing is short and updates stay on the CPU, a GPU holds what was estimated."""
    faults = []
    for step in steps:
        if step["policy"] != "zero-offload" or step["state_memory_gb"]:
            continue
        if not step["device_memory"]:
            faults.append(f"{step['precision']}: no GPU took part")
        for device in step["device_memory"]:
            rows = [device[name] for name in ("weights", "gradients", "activations")]
            estimated, allocated = (sum(row[key] for row in rows) for key in ("estimated", "allocated"))
            if abs(allocated - estimated) > MEMORY_TOLERANCE * estimated:
                faults.append(f"{step['precision']}: {device['name']} holds {allocated / 1e6:.1f} MB of weights, "
                              f"gradients and activations, {estimated / 1e6:.1f} MB were estimated")
    return faults
