# SPDX-License-Identifier: Apache-2.0
"""Policies decide where updates run, not what they compute: what the tools that compare them share."""

POLICIES = ["dos", "dos-stride", "zero-offload", "twinflow", "gpu-only"]
# Of the loss, among policies: sums have other orders (60 roundings in a row, a factor of 100 for what they feed
# back in some steps), and in BF16 roundings of 2^-8 (tests/models/gpt2_precision_test.cpp).
LOSS_TOLERANCE = {"fp32": 60 * 2.0 ** -23 * 100, "bf16": 0.036}


def loss_faults(steps):
    """Of steps with `precision`, `policy` and `loss`: those whose loss is not that of the first of their precision."""
    faults = []
    for step in steps:
        first = next(each for each in steps if each["precision"] == step["precision"])
        if not abs(step["loss"] - first["loss"]) <= LOSS_TOLERANCE[step["precision"]] * first["loss"]:
            faults.append(f"{step['precision']}: the loss under {step['policy']} is {step['loss']}, under "
                          f"{first['policy']} {first['loss']}")
    return faults
