# SPDX-License-Identifier: Apache-2.0
"""The stages of tools/gpu_check that time single kernels: beside their bounds, and under Nsight Compute."""

import json
import shutil
from pathlib import Path

from gpu_check_stage import Failed, Skipped, TooLong

# Layers that docs/performance/gpu.md has bounds for: model, sequences, tokens of each.
KERNEL_SIZES = (("gpt3-1.3b", 8, 2048), ("7b", 4, 2048), ("gpt2-124m", 16, 1024))
# All kernels of one model take some seconds, and cuDNN some for each of four plans: what takes longer hangs.
SECONDS_OF_A_MODEL = 60
# What a kernel is bound by, what it takes of a processor, and how it was started.
PROFILED = ("SpeedOfLight", "Occupancy", "LaunchStats")
# Where Nsight Compute is installed beside the toolkit.
NSIGHT_FOLDERS = "/opt/nvidia/nsight-compute"


def size_arguments(sizes, batch, context):
    return ["--json", "--sizes", sizes, "--batch", batch, "--context", context]


def next_case(run):
    """The first kernel without a row; None where all have one."""
    measured = {row["kernel"] for row in run["kernels"]}
    return next((name for name in run.get("cases", []) if name not in measured), None)


def measure_model(check, stage, arguments):
    """The kernels of a model by rows. A fault of a kernel may make the GPU useless to its process, and a kernel may
    hang: the program is then started again with the next one."""
    key = arguments[2]
    run = {"kernels": []} | {name: value for name, value in stage.rows.get(key, {}).items() if name != "fault"}

    def said(line):
        try:
            record = json.loads(line)
        except ValueError:
            return
        if "kernel" in record:
            run["kernels"].append(record)
        else:
            run.update({name: value for name, value in record.items() if name not in run})
        stage.keep(key, run | {"fault": "not all kernels were measured"})

    while "cases" not in run or next_case(run) is not None:
        first, before, fault = next_case(run), len(run["kernels"]), ""
        try:
            stage.run(check.program("bench/kernels_cuda"), *arguments, *(["--from", first] if first else []),
                      may_fail=True, limit=SECONDS_OF_A_MODEL, on_line=said)
        except TooLong as late:
            fault = str(late)
        if "cases" not in run:
            raise Failed(fault or f"kernels_cuda measured nothing; see {stage.log.name}")
        is_told = len(run["kernels"]) > before and run["kernels"][-1].get("useless")
        left = next_case(run)
        if left is not None and not is_told:
            run["kernels"].append({"kernel": left, "fault": fault or "the program ended with it"})
    return run


def faults_of(run):
    return [f"{run['sizes']}: {row['kernel']}: {row.get('fault') or 'its result is not finite'}"
            for row in run["kernels"] if "fault" in row or row.get("finite") is False]


def kernels(check, stage):
    for sizes, batch, context in KERNEL_SIZES:
        stage.row(sizes, measure_model, check, stage, size_arguments(sizes, batch, context))
    faults = stage.faults() + [fault for run in stage.good_rows() for fault in faults_of(run)]
    if faults:
        raise Failed("; ".join(faults))
    return {}


def profiler():
    """Nsight Compute, of several the newest; None where there is none."""
    found = shutil.which("ncu")
    others = sorted(Path(NSIGHT_FOLDERS).glob("*/ncu"))
    return found or (str(others[-1]) if others else None)


def profiles(check, stage):
    ncu = profiler()
    if ncu is None:
        raise Skipped("ncu (Nsight Compute) is not on this machine")
    sections = [word for section in PROFILED for word in ("--section", section)]

    def profile(arguments):
        file = check.output / f"profile_{arguments[2]}.csv"
        stage.run(ncu, "--csv", "--page", "details", "--log-file", file, "--clock-control", "none", *sections,
                  check.program("bench/kernels_cuda"), *arguments, "--rounds", "1", may_fail=True)
        text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
        if "ERR_NVGPUCTRPERM" in text:
            raise Skipped("this machine does not let ncu read the GPU's counters (ERR_NVGPUCTRPERM)")
        if not text:
            raise Failed("ncu wrote nothing")
        return {"file": file.name, "lines": text.count("\n")}

    for sizes, batch, context in KERNEL_SIZES[:1]:
        stage.row(sizes, profile, size_arguments(sizes, batch, context))
    if stage.faults():
        raise Failed("; ".join(stage.faults()))
    return {}
