# SPDX-License-Identifier: Apache-2.0
"""The stages of tools/gpu_check that measure the machine and, beside the bound made of that, the update phase."""

import json
import platform
import re

from gpu_check_stage import Failed
from policy_losses import POLICIES

# Parameters of the update phase by itself (20 GB of host memory), and the GB of GPU memory for their states:
# what the GPU has, and as little as in docs/performance/simulated-nodes.md.
UPDATE_PARAMS, STATE_MEMORY = "1.28G", (None, 2.5)
SECONDS_OF_A_RUN = 40
# A value of a machine file and its spread; from here on calibrate itself would not take it (docs/calibration.md).
SPREAD = re.compile(r"^(\w+) = .*\bspread = ([\d.e+-]+)", re.MULTILINE)
MOST_SPREAD = 0.1
OTHERS = re.compile(r"others had (\d+) % of the processors' time")
# Of the bound, by the policy that is the project's own.
UPDATE_GOAL, JUDGED_POLICY = 0.9, "dos"


def calibrate(check, stage):
    file = check.output / f"{platform.node()}.toml"
    # A second try would take as long, of time that is lent, on a machine that would hardly be quieter.
    text = stage.run(check.program("apps/calibrate"), "--output", file, "--force", "--allow-noise")
    return {"machine_file": file.name, "output": text, "noise": noise_of(file.read_text(encoding="utf-8"))}


def noise_of(machine_text):
    """What of a machine file's values calibrate accepted because it was told to."""
    found = [f"{name}: spread {100 * float(spread):.1f} %" for name, spread in SPREAD.findall(machine_text)
             if float(spread) > MOST_SPREAD]
    others = OTHERS.search(machine_text)
    return found + ([others[0]] if others else [])


def machine_file(check):
    """What the stage calibrate has written, here or on a machine before; None where it has not passed."""
    calibrated = check.state["stages"].get("calibrate", {})
    return check.output / calibrated["result"]["machine_file"] if calibrated.get("passed") else None


def updates(check, stage):
    file = machine_file(check)
    if file is None:
        raise Failed("the bound is made of this machine's rates: let the stage calibrate pass first")

    def measure(policy, memory):
        text = stage.run(check.program("bench/update_phase"), "--here", "--machine", file, "--policy", policy,
                         "--params", UPDATE_PARAMS, *(["--gpu-memory", memory] if memory else []), "--json",
                         limit=SECONDS_OF_A_RUN)
        return {"state_memory_gb": memory} | json.loads(text)

    stage.partial = lambda: {"params": UPDATE_PARAMS, "goal": UPDATE_GOAL, "rows": stage.good_rows()}
    # Little memory first: there the schedulers have something to decide. What is judged comes before what it is
    # compared with.
    runs = [(policy, memory) for memory in reversed(STATE_MEMORY) for policy in POLICIES]
    for policy, memory in sorted(runs, key=lambda run: run[0] != JUDGED_POLICY):
        stage.row(f"{policy}, {memory or 'all'} GB", measure, policy, memory)
    faults = stage.faults() + [f"{row['policy']} has no plan: {row['obstacle']}" for row in stage.good_rows()
                               if row["obstacle"]]
    if faults:
        raise Failed("; ".join(faults))
    return stage.partial()


def update_verdicts(result):
    """Whether the project's own policy reaches the goal, a line for each size of memory."""
    return [f"{row['policy']} with {row['state_memory_gb'] or 'all'} GB for states: "
            f"{100 * row['fraction_of_bound']:.1f} % of the bound: the goal of {100 * result['goal']:.0f} % is "
            f"{'reached' if row['fraction_of_bound'] >= result['goal'] else 'missed'}"
            for row in result["rows"] if row["policy"] == JUDGED_POLICY]
