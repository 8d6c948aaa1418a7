#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What checkpoints cost a training: steps with one every N steps beside steps without, interleaved on one machine.

usage: bench/checkpoint_cost.py [--build DIR] [--folder DIR] [--model PRESET] [--steps N] [--rounds N] [--every N...] [--raw] [--torch] [--json]

Each round trains anew with every setting in turn, in a folder of DIR, on random tokens. Prints medians over the rounds of
the median step, its ratio to that without checkpoints, the time of a checkpoint from its request to its link, the rate
that follows, for how long updates waited, and the peak of memory beyond that of runs without; with --raw beside the rate at which
threads that do nothing else write as many bytes durably (benchmark io), after each run; with --torch for how long torch.save() of as many bytes, with fsync(), would keep
a step waiting. docs/performance/checkpoints.md has such a run.
"""

import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from short_runs import WARM_UP, fail, parser_of, train, write_tokens


def parse():
    parser = parser_of(__doc__, rounds=3)
    parser.add_argument("--steps", type=int, default=12, metavar="N", help="of a run (default: 12)")
    parser.add_argument("--every", type=int, nargs="+", default=[0, 1, 4], metavar="N",
                        help="steps between checkpoints; 0: none (default: 0 1 4)")
    parser.add_argument("--raw", action="store_true", help="beside writes of a plain loop in the same minutes")
    parser.add_argument("--torch", action="store_true", help="beside torch.save(), which this Python must have")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


def seconds_of_torch(folder, megabytes):
    """torch.save() of FP32 tensors of 4 M elements, on the device when it ends."""
    import torch  # pylint: disable=import-outside-toplevel
    count = 4 << 20
    tensors = {str(i): torch.rand(count) for i in range(round(megabytes * 1e6 / 4 / count))}
    path = folder / "torch.pt"
    begin = time.monotonic()
    with open(path, "wb") as file:
        torch.save(tensors, file)
        file.flush()
        os.fsync(file.fileno())
    seconds = time.monotonic() - begin
    path.unlink()
    return seconds


def raw_rate(build, folder, megabytes):
    """MB/s of threads that write a new file of so many bytes, and bring it to the device."""
    command = [Path(build) / "bench/io", "--folder", folder, "--gigabytes", megabytes / 1e3, "--rounds", 1, "--json"]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if result.returncode != 0:
        fail(result.stderr)
    return json.loads(result.stdout)["write"]["raw_mb_per_s"]


def summarise(run):
    steps = [line for line in run.lines if line["step"] > WARM_UP]
    saved = [line for line in steps if line.get("checkpoint_committed")]
    result = {"ms_step": statistics.median(line["ms_step"] for line in steps),
              "ms_mean": statistics.mean(line["ms_step"] for line in steps), "mb_resident": run.resident / 1e6}
    if saved:
        result |= {"mb": statistics.median(line["mb_checkpoint"] for line in saved),
                   "mb_linked": statistics.median(line["mb_checkpoint_linked"] for line in saved),
                   "checkpoint_s": statistics.median(line["checkpoint_s"] for line in saved),
                   "mb_per_s": statistics.median((line["mb_checkpoint"] + line["mb_checkpoint_linked"]) / line["checkpoint_s"]
                                                 for line in saved),
                   "ms_waited": statistics.median(line["ms_checkpoint_waited"] for line in saved),
                   "ms_waited_most": max(line["ms_checkpoint_waited"] for line in saved)}
    return result


def main():
    options = parse()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="checkpoint-cost-") as name:
        folder = Path(name)
        write_tokens(folder / "data")
        found = {every: [] for every in options.every}
        for _ in range(options.rounds):
            for every in options.every:
                keys = {"model.preset": options.model, "train.steps": options.steps, "train.checkpoint_every": every}
                summary = summarise(train(options.build, folder, keys, options.set))
                found[every].append(summary)
                if options.raw and summary.get("mb", 0) > 0:
                    summary["raw_mb_per_s"] = raw_rate(options.build, folder, summary["mb"])
                    summary["durable"] = summary["mb"] / summary["checkpoint_s"] / summary["raw_mb_per_s"]
                if options.torch and "mb" in summary:
                    summary["torch_save_s"] = seconds_of_torch(folder, summary["mb"])
    rows = []
    for every, runs in found.items():
        row = {"every": every}
        for field in runs[0]:
            row[field] = statistics.median(run[field] for run in runs if field in run)
        if 0 in found:
            row["ratio"] = statistics.median(a["ms_mean"] / b["ms_mean"] for a, b in zip(runs, found[0], strict=True))
            row["mb_beyond"] = statistics.median(a["mb_resident"] - b["mb_resident"] for a, b in zip(runs, found[0], strict=True))
        rows.append(row)
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print("  ".join(f"{key} {value:.4g}" for key, value in row.items()))


if __name__ == "__main__":
    main()
