# SPDX-License-Identifier: Apache-2.0
"""The stage of tools/gpu_check that holds the steps of the large model beside DeepSpeed's."""

import json
import math
import sys
import time

from gpu_check_carried import WHEELS
from gpu_check_samples import most_memory
from gpu_check_stage import ROOT, Failed, Skipped
from gpu_check_training import WHOLE_MODEL, WHOLE_RUNS, expect_room, train_step

sys.path.insert(0, str(ROOT / "bench"))
from compare_deepspeed import own_row, ratios  # noqa: E402

SCRIPT = ROOT / "bench" / "compare_deepspeed.py"
# Rounds in turn; the first has the modes that there is most to learn of in front.
ROUNDS = 3
MODES = ("zero3", "superoffload", "zero2", "twinflow")
# ZeRO-Offload, one of which must run. The others are compared where they start.
EXPECTED = ("zero3", "zero2")
GOAL = 1.4
# A run imports, allocates some 30 GB of pinned memory, and makes 5 steps of some 4 s; the extension is compiled once.
SECONDS_OF_A_RUN, SECONDS_OF_THE_EXTENSION, SECONDS_OF_A_LOOK = 120, 180, 60
ERROR = "compare_deepspeed: error: "


def deepspeed(check, stage):
    expect_room(check, stage)
    stage.partial = lambda: result_of(stage)
    for key, seconds in (("versions", SECONDS_OF_A_LOOK), ("extension", SECONDS_OF_THE_EXTENSION)):
        row = stage.row(key, peer, check, stage, key, seconds)
        if "fault" in row:
            raise Failed(f"{key}: {row['fault']}")
    for number in range(1, ROUNDS + 1):
        for mode in ("dos", *MODES):
            if number > 1 and ("fault" in stage.rows[f"1: {mode}"] or not has_time(stage, mode)):
                continue
            stage.row(f"{number}: {mode}", measure, check, stage, number, mode)
    return judged(stage)


def peer(check, stage, what, seconds):
    """What compare_deepspeed.py says when asked for this alone."""
    wheels = check.build / WHEELS
    python = check.stand_ins / "python_with_deepspeed" if check.rehearses else sys.executable
    start = stage.log.stat().st_size
    text = stage.run(sys.executable, SCRIPT, "--only", what, "--python", python, "--site", check.output / "deepspeed",
                     *(["--wheels", wheels] if wheels.is_dir() else []), "--limit", "3600",
                     may_fail=True, limit=seconds,
                     # torch has CUDA's libraries of its own, of other releases.
                     env={"LD_LIBRARY_PATH": check.loader_path_before})
    if text.strip():
        return json.loads(text)
    why = next((line.removeprefix(ERROR) for line in reversed(stage.said_from(start).splitlines())
                if line.startswith(ERROR)), f"compare_deepspeed said nothing; see {stage.log.name}")
    raise Skipped(why) if what == "versions" else Failed(why)


def measure(check, stage, number, mode):
    start, samples = time.monotonic(), stage.samples.stat().st_size if stage.samples.exists() else 0
    if mode == "dos":
        row = own_row(train_step(check, stage, WHOLE_MODEL, "bf16", *WHOLE_RUNS[0]))
    else:
        row = peer(check, stage, mode, SECONDS_OF_A_RUN)
    if not math.isfinite(row["loss"]):
        raise Failed(f"the loss is {row['loss']}")
    # By the same measure for both sides.
    return row | {"round": number, "mode": mode, "seconds": round(time.monotonic() - start, 1),
                  "peak_used_gb": most_memory(stage.samples, samples)}


def has_time(stage, mode):
    """For one more run as the first one."""
    return stage.seconds_left() > stage.rows[f"1: {mode}"]["seconds"]


def result_of(stage):
    runs = [row for row in stage.good_rows() if "mode" in row]
    return {"versions": stage.rows.get("versions"), "goal": GOAL, "runs": runs, "ratios": ratios(runs)}


def judged(stage):
    result = result_of(stage)
    if not any(mode in result["ratios"] for mode in EXPECTED):
        raise Failed("; ".join(stage.faults()) or "no round has both sides", result)
    # What does not start is no fault of ours.
    return result | {"without": stage.faults()}


def deepspeed_verdict(result):
    """One line: beside the fastest of DeepSpeed's ways."""
    fastest, ratio = min(((mode, each["median"]) for mode, each in result["ratios"].items()), key=lambda pair: pair[1])
    is_reached = "reached" if ratio >= result["goal"] else "missed"
    return (f"A step under dos is {ratio:.2f} times as fast as DeepSpeed's fastest ({fastest}): the goal of "
            f"{result['goal']:g} is {is_reached}")
