#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What checkpoints cost a training: steps with one every N steps beside steps without, interleaved on one machine.

usage: bench/checkpoint_cost.py [--build DIR] [--folder DIR] [--model PRESET] [--steps N] [--rounds N] [--every N...] [--raw] [--torch] [--json]

Each round trains anew with every setting in turn, in a folder of DIR, on random tokens. Prints medians over the rounds of
the median step, its ratio to that without checkpoints, the time of a checkpoint from its request to its link, the rate
that follows, for how long updates waited, and the peak of memory beyond that of runs without; with --raw beside the rate at which
threads that do nothing else write as many bytes durably (benchmark io), after each run, and a row `plain`: runs without checkpoints,
beside which another process writes as many bytes over a file once a step (`of_plain`: a checkpoint's rate beside its), and a row `traced`
of one more run with a checkpoint every step, whose trace says when the last of its bytes were free (`free_s`), before which nobody can write them
(`of_bound`: the longer of that and of the raw writing, over a checkpoint's time); with --torch for how long torch.save() of as many bytes, with fsync(), would keep
a step waiting. docs/performance/checkpoints.md has such a run.
"""

import csv
import json
import mmap
import multiprocessing
import os
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
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


def write_over(path, megabytes, period, ends, rates):
    """Writes so many bytes over a file, past the page cache and to the device, once in each period of seconds, until `ends`; the
    MB/s of each time go to `rates`."""
    block, threads = 4 << 20, 4
    blocks = round(megabytes * 1e6 / block)
    memory = memoryview(mmap.mmap(-1, blocks * block))
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    for first in range(0, len(memory), 4096):
        memory[first] = 1

    def write(turn):
        for i in range(turn, blocks, threads):
            os.pwrite(file, memory[i * block:(i + 1) * block], i * block)

    with ThreadPoolExecutor(threads) as pool:
        is_there = False
        while not ends.is_set():
            begin = time.monotonic()
            list(pool.map(write, range(threads)))
            os.fdatasync(file)
            seconds = time.monotonic() - begin
            if is_there:  # the first time its blocks are found
                rates.put(blocks * block / 1e6 / seconds)
            is_there = True
            ends.wait(max(0, period - seconds))
    os.close(file)


def beside_plain_writer(folder, megabytes, period, work):
    """What `work` returns, and the median rate of write_over() meanwhile."""
    path = folder / "plain"
    ends, rates = multiprocessing.Event(), multiprocessing.Queue()
    writer = multiprocessing.Process(target=write_over, args=(path, megabytes, period, ends, rates))
    writer.start()
    try:
        result = work()
    finally:
        ends.set()
    found = []
    while writer.is_alive() or not rates.empty():
        if rates.empty():
            time.sleep(0.01)
        else:
            found.append(rates.get())
    writer.join()
    path.unlink()
    return result, statistics.median(found)


def seconds_until_free(storage):
    """From the first to the last buffer of a checkpoint that could be read, medians over those in a file of a trace."""
    begins = {}
    with open(storage, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["operation"] == "hold":
                begins.setdefault(row["step"], []).append(float(row["start_us"]))
    return statistics.median(max(each) - min(each) for each in begins.values()) / 1e6


def traced(options, folder):
    """A row of one run with a checkpoint every step, and a trace."""
    keys = {"model.preset": options.model, "train.steps": options.steps, "train.checkpoint_every": 1}
    row = summarise(train(options.build, folder, keys, options.set, extra=["--trace", folder / "trace"]))
    if not row.get("mb"):  # all was taken as it lay
        return row
    row["raw_mb_per_s"] = raw_rate(options.build, folder, row["mb"])
    row["free_s"] = seconds_until_free(folder / "trace/rank0/storage.csv")
    row["of_bound"] = max(row["free_s"], row["mb"] / row["raw_mb_per_s"]) / row["checkpoint_s"]
    return row


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
        if options.raw:
            found["plain"] = []
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
            saved = next((runs[-1] for runs in found.values() if runs and "mb" in runs[-1]), None)
            if options.raw and saved:
                keys = {"model.preset": options.model, "train.steps": options.steps, "train.checkpoint_every": 0}
                run, rate = beside_plain_writer(folder, saved["mb"], saved["ms_mean"] / 1e3,
                                                lambda chosen=keys: train(options.build, folder, chosen, options.set))
                found["plain"].append(summarise(run) | {"mb_per_s": rate})
        if options.raw:
            found["traced"] = [traced(options, folder)]
    rows = []
    for every, runs in found.items():
        if not runs:
            continue
        row = {"every": every}
        for field in runs[0]:
            row[field] = statistics.median(run[field] for run in runs if field in run)
        if 0 in found and every != "traced":
            row["ratio"] = statistics.median(a["ms_mean"] / b["ms_mean"] for a, b in zip(runs, found[0], strict=True))
            row["mb_beyond"] = statistics.median(a["mb_resident"] - b["mb_resident"] for a, b in zip(runs, found[0], strict=True))
        if found.get("plain") and every not in ("plain", "traced") and "mb_per_s" in row:
            row["of_plain"] = statistics.median(a["mb_per_s"] / b["mb_per_s"] for a, b in zip(runs, found["plain"], strict=True))
        rows.append(row)
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print("  ".join(f"{key} {value if isinstance(value, str) else format(value, '.4g')}" for key, value in row.items()))


if __name__ == "__main__":
    main()
