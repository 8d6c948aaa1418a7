# SPDX-License-Identifier: Apache-2.0
"""What `plan` makes of the steps that tools/gpu_check has measured. A calibrated machine file has the CPU's rate of
forward and backward (docs/calibration.md): the GPU's is that of the steps whose updates the CPU has made alone."""

import json
import re

from gpu_check_stage import Failed
from gpu_check_updates import machine_file

TOLERANCE = 0.05
RATE = re.compile(r"^training_rate *=.*$", re.MULTILINE)
# Of a GPU's memory in a plan, what is the states'.
STATES = {"resident states", "update window beyond activations"}
# As bench/train_step cuts them.
SUBGROUP = 5_000_000


def with_rate(text, tera_flops):
    """A machine file with this rate of forward and backward."""
    line = f'training_rate = {{ value = {tera_flops:.6g}, unit = "TFLOP/s", source = "measured by gpu_check" }}'
    changed, count = RATE.subn(line, text)
    if count != 1:
        raise Failed(f"the machine file has {count} training rates")
    return changed


def gpu_rate(step):
    """Of forward and backward, in TFLOP/s."""
    gflop = step["gflop_per_s"] * step["ms_step"] / 1e3
    return gflop / (step["ms_forward"] + step["ms_backward"])


def predicted_ms(check, stage, file, step):
    """Of a step as this one, with all its micro-batches."""
    command = [check.program("apps/plan"), "--machine", file, "--model", step["model"], "--micro-batch", step["batch"],
               "--policy", step["policy"], "--json", "--set", f"train.precision={step['precision']}",
               "--set", "train.activations=keep", "--set", f"sched.subgroup_params={SUBGROUP}"]
    plan = json.loads(stage.run(*command))
    if step["state_memory_gb"]:
        items = plan["memory"]["gpu"]["items"]
        rest = sum(value for name, value in items.items() if name not in STATES)
        plan = json.loads(stage.run(*command, "--set", f"train.gpu_memory={rest / 1e9 + step['state_memory_gb']}"))
    passes = plan["forward_s"] + plan["backward_s"]
    return 1e3 * (step["accumulate"] * passes + plan["step_s"] - passes)


def predictions(check, stage, steps):
    """Of each step: policy, type of gradients, memory, measured and predicted milliseconds. Empty where there is
    nothing to plan with."""
    source = machine_file(check)
    alone = next((step for step in steps if step["policy"] == "zero-offload"), None)
    if source is None or alone is None:
        return []
    file = check.output / "gpu_rate.toml"
    file.write_text(with_rate(source.read_text(encoding="utf-8"), gpu_rate(alone)), encoding="utf-8")
    return [{"policy": step["policy"], "gradients": step["gradient_precision"],
             "state_memory_gb": step["state_memory_gb"], "measured_ms": step["ms_step"],
             "predicted_ms": predicted_ms(check, stage, file, step)} for step in steps]


def prediction_verdict(rows):
    """One line."""
    off = {f"{row['policy']} with {row['gradients']} gradients": row["predicted_ms"] / row["measured_ms"] - 1
           for row in rows}
    far = [f"{policy} {100 * each:+.1f} %" for policy, each in off.items() if abs(each) > TOLERANCE]
    how = f"not all within {100 * TOLERANCE:.0f} %" if far else f"within {100 * TOLERANCE:.0f} %"
    return f"Planned steps are {how} of the measured ones" + (f": {', '.join(far)}." if far else ".")
