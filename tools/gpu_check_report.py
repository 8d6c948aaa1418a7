# SPDX-License-Identifier: Apache-2.0
"""The report of tools/gpu_check as a Markdown page."""


def markdown(state):
    """The state as a Markdown page."""
    stages = state["stages"]
    lines = ["# GPU check", "", f"revision {state['revision']}", ""]
    for gpu in stages.get("machine", {}).get("result", {}).get("gpus", []):
        lines.append(f"- {gpu['name']}, {gpu['memory.total']}, driver {gpu['driver_version']}")
    if stages.get("machine", {}).get("passed"):
        result = stages["machine"]["result"]
        lines += [f"- {result['nvcc']}; {result['processor']}, {result['cores']} cores; {result['system']}"]
    lines += ["", "| stage | result | seconds |", "|---|---|---:|"]
    for name, entry in stages.items():
        result = "passed" if entry["passed"] else entry["reason"].replace("|", "/")
        lines.append(f"| {name} | {result} | {entry['seconds']:.0f} |")
    if stages.get("calibrate", {}).get("passed"):
        lines += ["", "## Rates", "", "```", stages["calibrate"]["result"]["output"].rstrip(), "```"]
    if stages.get("kernels", {}).get("passed"):
        lines += ["", "## Kernels"]
        for run in stages["kernels"]["result"]["runs"]:
            lines += kernel_table(run)
    if stages.get("updates", {}).get("passed"):
        lines += update_table(stages["updates"]["result"])
    if stages.get("training", {}).get("passed"):
        runs = stages.get("kernels", {}).get("result", {}).get("runs", [{}])
        limit = runs[0].get("product_gflop_per_s")
        lines += training_tables(stages["training"]["result"]["steps"], limit)
    return "\n".join(lines) + "\n"


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
    memory = [[row["precision"], device["name"], category, values["estimated"] / 1e6, values["allocated"] / 1e6]
              for row in steps if row["policy"] == "zero-offload" and not row["state_memory_gb"]
              for device in row["device_memory"] for category, values in device.items() if category != "name"]
    columns = ["precision", "policy", "GB for states", *times, "of the product of 8192", "loss"]
    return ["", "## Training steps", "", *table(columns, rows),
            "", "## GPU memory, updates on the CPU", "",
            *table(["precision", "GPU", "category", "estimated, MB", "allocated, MB"], memory)]


def format_cell(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)
