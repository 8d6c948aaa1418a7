# SPDX-License-Identifier: Apache-2.0
"""Short trainings on random tokens, for benchmarks that compare settings of train_gpt."""

import argparse
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
WARM_UP = 3  # steps that are not counted
MAGIC, VERSION, HEADER_WORDS = 20240520, 1, 256


def parser_of(doc, rounds, folder="on the disk to be measured"):
    """A parser of what all that train a preset in turn take, with the first line of a script's docstring."""
    parser = argparse.ArgumentParser(description=doc.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build/release", metavar="DIR", help="build folder (default: build/release)")
    parser.add_argument("--folder", default=".", metavar="DIR", help=f"{folder} (default: .)")
    parser.add_argument("--model", default="gpt2-124m", metavar="PRESET", help="(default: gpt2-124m)")
    parser.add_argument("--rounds", type=int, default=rounds, metavar="N", help=f"(default: {rounds})")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for train_gpt")
    return parser


def write_tokens(prefix, vocabulary=50257):
    """Random tokens, of GPT-2's vocabulary unless said, as a data set without a tokenizer."""
    generator = random.Random(1)
    for split, count in (("train", 200_000), ("val", 20_000)):
        tokens = [generator.randrange(vocabulary) for _ in range(count)]
        header = struct.pack(f"<{HEADER_WORDS}i", MAGIC, VERSION, count, *[0] * (HEADER_WORDS - 3))
        Path(f"{prefix}_{split}.bin").write_bytes(header + struct.pack(f"<{count}H", *tokens))


def command_of(build, folder, keys, assignments):
    """train_gpt on the data set `data` of the folder, with these keys and "key=value" behind them."""
    command = [str(Path(build) / "apps/train_gpt"), "--out", str(folder / "out"), "--quiet"]
    keys = {"data.path": folder / "data", "train.validate_every": 0, "train.validate_batches": 1} | keys
    for assignment in [f"{key}={value}" for key, value in keys.items()] + assignments:
        command += ["--set", assignment]
    return command


def fail(why):
    sys.exit(f"{Path(sys.argv[0]).stem}: error: {why.strip()}")


def entering(group):
    """What puts a child into the control group of that folder; None: nothing."""
    return (lambda: Path(group, "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")) if group else None


def dry_run(build, folder, keys, assignments, group=None):
    """The same run's --dry-run, as subprocess.run() has it."""
    result = subprocess.run([*command_of(build, folder, keys, assignments), "--dry-run"], capture_output=True, text=True, check=False,
                            preexec_fn=entering(group))
    if result.returncode != 0:
        fail(result.stderr)
    return result


def estimate(build, folder, keys, assignments, group=None):
    """Bytes by category that dry_run() says, "total" among them."""
    result = dry_run(build, folder, keys, assignments, group)
    rows = re.findall(r"^  (\S+(?: \S+)?) +([\d.]+) (B|KiB|MiB|GiB)$", result.stdout, re.MULTILINE)
    return {name: float(number) * UNITS[unit] for name, number, unit in rows}


class Run(NamedTuple):
    lines: list  # of metrics.jsonl with their losses
    resident: int  # bytes, at most
    processor_s: float  # of all cores


def train(build, folder, keys, assignments, group=None, extra=()):
    """A Run of command_of() with `extra` options, in the control group of the folder `group`, if any."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    command = command_of(build, folder, keys, assignments) + [str(option) for option in extra]
    with open(folder / "errors", "w+", encoding="utf-8") as errors:
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, env=os.environ | {"STARPU_SILENT": "1"},
                                 preexec_fn=entering(group))
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            errors.seek(0)
            fail(errors.read())
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return Run([line for line in lines if "loss" in line], usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime)
