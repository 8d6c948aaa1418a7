# SPDX-License-Identifier: Apache-2.0
"""The report of tools/gpu_check as a Markdown page, and all results as one file."""

import io
import os
import tarfile

# Of a file in the archive: what is longer loses its middle.
MOST_BYTES = 1 << 20


def outcome(entry):
    """Of a stage, in words."""
    if entry["passed"]:
        return "passed"
    return "skipped: " + entry["skipped"] if "skipped" in entry else "FAILED: " + entry["reason"]


def markdown(state):
    """The state as a Markdown page."""
    stages = state["stages"]
    lines = ["# GPU check", "", f"sources {state['sources']}", ""]
    for gpu in stages.get("machine", {}).get("result", {}).get("gpus", []):
        lines.append(f"- {gpu['name']}, {gpu['memory.total']}, driver {gpu['driver_version']}")
    if stages.get("machine", {}).get("passed"):
        result = stages["machine"]["result"]
        lines += [f"- {result['nvcc']}; {result['processor']}, {result['cores']} cores; {result['system']}"]
    lines += ["", "| stage | result | seconds |", "|---|---|---:|"]
    for name, entry in stages.items():
        lines.append(f"| {name} | {outcome(entry).replace('|', '/')} | {entry['seconds']:.0f} |")
    if stages.get("calibrate", {}).get("passed"):
        result = stages["calibrate"]["result"]
        lines += ["", "## Rates", "", *(["Noisy, and accepted.", ""] if result["noise_accepted"] else []), "```",
                  result["output"].rstrip(), "```"]
    if stages.get("kernels", {}).get("passed"):
        lines += ["", "## Kernels"]
        for run in stages["kernels"]["result"]["runs"]:
            lines += kernel_table(run)
    if stages.get("updates", {}).get("passed"):
        lines += update_table(stages["updates"]["result"])
    if "result" in stages.get("training", {}):
        runs = stages.get("kernels", {}).get("result", {}).get("runs", [{}])
        limit = runs[0].get("product_gflop_per_s")
        lines += training_tables(stages["training"]["result"]["steps"], limit)
    if "result" in stages.get("mfu", {}):
        lines += mfu_tables(stages["mfu"]["result"])
    return "\n".join(lines) + "\n"


def pack(results, folder):
    """The files of `results` as folder/gpu_check.tar.gz, which is replaced when it is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / "gpu_check.part"
    with tarfile.open(part, "w:gz") as archive:
        for file in sorted(file for file in results.iterdir() if file.is_file()):
            content = file.read_bytes()
            if len(content) > MOST_BYTES:
                half = MOST_BYTES // 2
                content = content[:half] + b"\n[...]\n" + content[-half:]
            member = tarfile.TarInfo(f"gpu_check/{file.name}")
            member.size, member.mtime = len(content), int(file.stat().st_mtime)
            archive.addfile(member, io.BytesIO(content))
    os.replace(part, folder / "gpu_check.tar.gz")


def table(columns, rows):
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return lines + ["| " + " | ".join(format_cell(cell) for cell in row) + " |" for row in rows]


def kernel_table(run):
    # Kernels bound by memory have other columns than products.
    columns = list(dict.fromkeys(column for row in run["kernels"] for column in row))
    rows = [[row.get(column, "") for column in columns] for row in run["kernels"]]
    return ["", f"{run['gpu']}, {run['type']}, {run['sizes']}, {run['sequences']} x {run['context']} tokens: copy "
            f"{run['copy_gb_per_s']:.0f} GB/s, product of 8192 {run['product_gflop_per_s']:.0f} GFLOP/s", "",
            *table(columns, rows)]


def update_table(result):
    keys = ["gparams_per_s", "bound_gparams_per_s", "fraction_of_bound", "binding", "gpu_share"]
    cells = [[row["policy"], row["state_memory_gb"] or "all", *(row[key] for key in keys), row["bytes_h2d"] / 1e9,
              row["bytes_d2h"] / 1e9] for row in result["rows"]]
    return ["", "## Update phase", "", f"{result['params']} parameters, AdamW in BF16 on one GPU", "",
            *table(["policy", "GB for states", *keys, "GB to the GPU", "GB from it"], cells)]


def training_tables(steps, product_limit):
    times = ["ms_step", "ms_forward", "ms_backward", "ms_update", "gflop_per_s"]
    rows = [[row["precision"], row["policy"], row["state_memory_gb"] or "all", *(row[key] for key in times),
             row["gflop_per_s"] / product_limit if product_limit and row["precision"] == "bf16" else "", row["loss"]]
            for row in steps]
    columns = ["precision", "policy", "GB for states", *times, "of the product of 8192", "loss"]
    return ["", "## Training steps", "", *table(columns, rows), *memory_table(steps)]


def mfu_tables(result):
    """Whole steps of the large model."""
    steps = result["steps"]
    first = steps[0]
    tokens = first["batch"] * first["accumulate"] * first["context"]
    keys = ["ms_step", "ms_forward", "ms_backward", "ms_update", "tokens_per_s", "gflop_per_s", "of_product", "mfu"]
    rows = [[row["policy"], row["state_memory_gb"] or "all", *("" if row[key] is None else row[key] for key in keys),
             row["updates"]["gpu_planned"], row["updates"]["gpu_done"], row["loss"]] for row in steps]
    columns = ["policy", "GB for states", *keys, "updates on the GPU, planned", "done", "loss"]
    peak = first["peak_gflop_per_s"]
    if peak:
        is_reached = "reached" if first["mfu"] >= result["goal"] else "missed"
        verdict = (f"{100 * first['mfu']:.1f} % of the data sheet's {peak / 1e3:.0f} TFLOP/s under {first['policy']}: "
                   f"the goal of {100 * result['goal']:.0f} % is {is_reached}")
    else:
        verdict = f"no data sheet's peak is known of {result['gpu']}: no MFU"
    return ["", "## Whole steps", "", f"{first['model']}, {first['precision']}, {tokens} tokens a step in "
            f"{first['accumulate']} micro-batches, on {result['gpu']}: {verdict}", "", *table(columns, rows),
            *memory_table(steps)]


def memory_table(steps):
    """Of a GPU on which no states are."""
    rows = [[row["precision"], device["name"], category, f"{values['estimated'] / 1e6:.1f}",
             f"{values['allocated'] / 1e6:.1f}", difference(values)]
            for row in steps if row["policy"] == "zero-offload" and not row["state_memory_gb"]
            for device in row["device_memory"] for category, values in device.items() if category != "name"]
    return ["", "### GPU memory, updates on the CPU", "",
            *table(["precision", "GPU", "category", "estimated, MB", "taken, MB", "more than estimated"], rows)]


def difference(values):
    """Part of the estimate that was taken beyond it."""
    estimated = values["estimated"]
    return f"{100 * (values['allocated'] / estimated - 1):+.1f} %" if estimated else ""


def format_cell(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)
