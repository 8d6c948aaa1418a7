# SPDX-License-Identifier: Apache-2.0
"""The report of tools/gpu_check as a Markdown page."""

from gpu_check_deepspeed import deepspeed_verdict
from gpu_check_plan import prediction_verdict
from gpu_check_updates import update_verdicts


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
        noise = [f"Noisy, and accepted: {'; '.join(result['noise'])}.", ""] if result["noise"] else []
        lines += ["", "## Rates", "", *noise, "```", result["output"].rstrip(), "```"]
    runs = [run for run in stages.get("kernels", {}).get("rows", {}).values() if run.get("kernels")]
    if runs:
        lines += ["", "## Kernels"]
    for run in runs:
        lines += kernel_table(run)
    results = {name: entry["result"] for name, entry in stages.items() if entry.get("result")}
    if results.get("updates", {}).get("rows"):
        lines += update_table(results["updates"])
    if results.get("training", {}).get("steps"):
        lines += training_tables(results["training"]["steps"], runs[0].get("product_gflop_per_s") if runs else None)
    lines += large_tables(results.get("mfu", {}), results.get("policies", {}))
    if "losses" in results:
        lines += loss_lines(stages["losses"])
    if results.get("deepspeed", {}).get("runs"):
        lines += deepspeed_lines(results["deepspeed"])
    return "\n".join(lines) + "\n"


def table(columns, rows):
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return lines + ["| " + " | ".join(format_cell(cell) for cell in row) + " |" for row in rows]


def kernel_table(run):
    # Kernels bound by memory have other columns than products, and one that failed has its fault.
    columns = list(dict.fromkeys(column for row in run["kernels"] for column in row if column != "useless"))
    rows = [[row.get(column, "") for column in columns] for row in run["kernels"]]
    copy, product = (format(run[name], ".0f") if run.get(name) else "?" for name in ("copy_gb_per_s",
                                                                                     "product_gflop_per_s"))
    return ["", f"{run['gpu']}, {run['type']}, {run['sizes']}, {run['sequences']} x {run['context']} tokens: copy "
            f"{copy} GB/s, product of 8192 {product} GFLOP/s", "", *table(columns, rows)]


def update_table(result):
    keys = ["gparams_per_s", "bound_gparams_per_s", "fraction_of_bound", "binding", "gpu_share"]
    cells = [[row["policy"], row["state_memory_gb"] or "all", *(row[key] for key in keys), row["bytes_h2d"] / 1e9,
              row["bytes_d2h"] / 1e9] for row in result["rows"]]
    return ["", "## Update phase", "", f"{result['params']} parameters, AdamW in BF16 on one GPU", "",
            *(f"- {verdict}" for verdict in update_verdicts(result)), "",
            *table(["policy", "GB for states", *keys, "GB to the GPU", "GB from it"], cells)]


def training_tables(steps, product_limit):
    times = ["ms_step", "ms_forward", "ms_backward", "ms_update", "gflop_per_s"]
    rows = [[row["precision"], row["policy"], row["state_memory_gb"] or "all", *(row[key] for key in times),
             row["gflop_per_s"] / product_limit if product_limit and row["precision"] == "bf16" else "",
             row.get("gpu_attention", ""), row["loss"]]
            for row in steps]
    columns = ["precision", "policy", "GB for states", *times, "of the product of 8192", "attention", "loss"]
    return ["", "## Training steps", "", *table(columns, rows), *memory_table(steps)]


def large_tables(mfu, policies):
    """Whole steps of the large model, those of the stage mfu first."""
    own = mfu.get("steps", [])
    steps = own + policies.get("steps", [])
    if not steps:
        return []
    first = steps[0]
    tokens = first["batch"] * first["accumulate"] * first["context"]
    keys = ["ms_step", "ms_forward", "ms_backward", "ms_update", "tokens_per_s", "gflop_per_s", "of_product", "mfu"]
    rows = [[row["policy"], row["gradient_precision"], row["state_memory_gb"] or "all", row.get("gpu_attention", ""),
             *("" if row[key] is None else row[key] for key in keys), row["updates"]["gpu_planned"],
             row["updates"]["gpu_done"], row["loss"]] for row in steps]
    columns = ["policy", "gradients", "GB for states", "attention", *keys, "updates on the GPU, planned", "done",
               "loss"]
    text = (f"{first['model']}, {first['precision']}, {tokens} tokens a step in {first['accumulate']} micro-batches, "
            f"on {mfu.get('gpu') or policies.get('gpu')}")
    if own:
        text += ": " + mfu_verdict(mfu, first)
    return ["", "## Whole steps", "", text, "", *table(columns, rows),
            *prediction_table(policies if policies.get("predictions") else mfu), *memory_table(steps)]


def mfu_verdict(mfu, first):
    peak = first["peak_gflop_per_s"]
    if not peak:
        return f"no data sheet's peak is known of {mfu['gpu']}: no MFU"
    is_reached = "reached" if first["mfu"] >= mfu["goal"] else "missed"
    return (f"{100 * first['mfu']:.1f} % of the data sheet's {peak / 1e3:.0f} TFLOP/s under {first['policy']}: "
            f"the goal of {100 * mfu['goal']:.0f} % is {is_reached}")


def prediction_table(policies):
    rows = policies.get("predictions")
    if not rows:
        why = policies.get("without_predictions")
        return ["", f"Nothing was planned: {why}"] if why else []
    cells = [[row["policy"], row["gradients"], row["state_memory_gb"] or "all", row["measured_ms"], row["predicted_ms"],
              f"{100 * (row['predicted_ms'] / row['measured_ms'] - 1):+.1f} %"] for row in rows]
    return ["", "### Steps as planned", "", prediction_verdict(rows), "",
            *table(["policy", "gradients", "GB for states", "measured, ms", "planned, ms", "planned beside measured"],
                   cells)]


def loss_lines(entry):
    result = entry["result"]
    how = "the same, to the last bit," if entry["passed"] else "NOT the same"
    return ["", "## Losses", "", f"Losses of {result['steps']} steps are {how} with updates where the plan has them "
            f"({100 * result['updated_on_gpus']:.0f} % on the GPU at the end) and on the CPU alone; the last one is "
            f"{result['last']}."]


def deepspeed_lines(result):
    versions = result["versions"] or {}
    columns = ["round", "mode", "ms_step", "ms_step_min", "ms_step_max", "ms_update", "peak_gpu_gb", "peak_used_gb",
               "loss"]
    lines = ["", "## Beside DeepSpeed", "", f"DeepSpeed {versions.get('deepspeed')}, torch {versions.get('torch')}", ""]
    if result["ratios"]:
        lines += [f"- {deepspeed_verdict(result)}"]
    lines += [f"- {mode}: {each['median']:.2f} times as long ({each['min']:.2f} to {each['max']:.2f})"
              for mode, each in result["ratios"].items()]
    lines += [f"- Without {fault}" for fault in result.get("without", [])]
    return [*lines, "", *table(columns, [["" if row.get(column) is None else row[column] for column in columns]
                              for row in result["runs"]])]


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
