#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times train_step under `dos` and DeepSpeed on the same model and GPU, round by round in turn.

DeepSpeed's ways to offload are modes: zero3 and zero2 (ZeRO-Offload, by stage), superoffload, and twinflow, which has
the part --ratio of the updates on the CPU. deepspeed_step.py has the model, which is written for PyTorch at its best,
and DeepSpeed's configuration. Both sides train in BF16 on random tokens, with AdamW, clipping, and as many
micro-batches; train_step has --state-memory GB of the GPU for states, DeepSpeed what it takes. Each run is a process
of its own. Prints versions, the median and spread of the steps, peak GPU memory, and the ratio, DeepSpeed's time / ours
in the same round: above 1 we are faster. --json prints one object a run, and the ratios as the last one.

torch and DeepSpeed are those of --python. A machine without network takes DeepSpeed and what it needs from a folder
of wheels (docs/install.md says how to fill it):

    bench/compare_deepspeed.py --train-step build/release/bench/train_step --wheels carried/wheels
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tools")]
from deepspeed_step import MODES  # noqa: E402
from torch_gpt2 import PRESETS  # noqa: E402
from wheels import unpack  # noqa: E402

STEP = ROOT / "bench" / "deepspeed_step.py"
VERSION = "import json, sys; print(json.dumps({'python': sys.version_info[:2]}))"
# Of what an interpreter has; DeepSpeed itself takes some 10 s to import.
PROBE = """
import importlib.metadata, json
said = {"torch": None, "gpu": None, "deepspeed": None}
try:
    import torch
    said |= {"torch": torch.__version__, "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None}
    said["deepspeed"] = importlib.metadata.version("deepspeed")
except (ImportError, importlib.metadata.PackageNotFoundError):
    pass
print(json.dumps(said))
"""


class CannotRun(Exception):
    """The text says what this machine lacks."""


class Peer:
    """DeepSpeed, in the interpreter that options name."""

    def __init__(self, options):
        self.options = options
        self.site = pathlib.Path(options.site).resolve()
        self.environment = {"TORCH_EXTENSIONS_DIR": str(self.site / "extensions")}

    def prepare(self):
        """Lays carried wheels out for it."""
        if self.options.wheels:
            unpack(pathlib.Path(self.options.wheels), self.site, self.asked(VERSION)["python"])
            before = os.environ.get("PYTHONPATH")
            self.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(self.site), before]))

    def versions(self):
        """What the interpreter has; raises CannotRun where that is too little."""
        python, found = self.options.python, self.asked(PROBE)
        if found["torch"] is None:
            raise CannotRun(f"{python} has no torch: name a Python that has by --python")
        if found["gpu"] is None and self.options.device == "cuda":
            raise CannotRun(f"torch {found['torch']} of {python} sees no GPU: --device cpu tries this without one")
        if found["deepspeed"] is None:
            of = f", nor do the wheels of {self.options.wheels} that fit it" if self.options.wheels else ""
            raise CannotRun(f"{python} has no DeepSpeed{of}: name a folder with its wheels by --wheels")
        return found

    def asked(self, script):
        return run([self.options.python, "-c", script], self.options.limit, self.environment)

    def measure(self, mode):
        return run([self.options.python, STEP, "--mode", mode, *shape_arguments(self.options), "--device",
                    self.options.device, "--ratio", str(self.options.ratio),
                    *(["--compile"] if self.options.compile else [])], self.options.limit, self.environment)

    def build_extension(self):
        return run([self.options.python, STEP, "--extension", "--device", self.options.device], self.options.limit,
                   self.environment)


def shape_arguments(options):
    return ["--model", options.model, *(word for name in ("batch", "accumulate", "context", "steps", "warmup")
                                        for word in (f"--{name}", str(getattr(options, name))))]


def run(command, seconds, environment=None):
    """The JSON object that the command prints at its end; raises CannotRun with what it said else."""
    words = " ".join(map(str, command if "-c" not in command else command[:1]))
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace",
                              env=os.environ | (environment or {}), timeout=seconds, check=False)
    except FileNotFoundError:
        raise CannotRun(f"{command[0]} is not on this machine") from None
    except subprocess.TimeoutExpired:
        raise CannotRun(f"{words} took longer than {seconds:g} s") from None
    # All of it: what libraries said explains figures, too.
    print(done.stderr, end="", file=sys.stderr, flush=True)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        raise CannotRun(f"{words} ended with status {done.returncode}: {reason_in(done.stderr)}")
    return json.loads(lines[-1])


def reason_in(text):
    """The line of what a program said that tells most of why it failed: a compiler's, an exception's, the last one."""
    lines = text.strip().splitlines() or ["nothing was said"]
    for form in (r"fatal error: ", r"^(\[rank\d\]: *)?\w*(Error|Exception)\b"):
        found = [line for line in lines if re.search(form, line)]
        if found:
            return found[-1].strip()
    return lines[-1].strip()


def own_step(options):
    """A run of train_step, with the peak of what it holds of the GPU."""
    gpu = ["--cuda-devices", "1", "--state-memory", options.state_memory] if options.device == "cuda" else []
    step = run([options.train_step, *shape_arguments(options), "--precision", "bf16", *gpu, "--json"], options.limit,
               {"STARPU_SCHED": "dos"})
    return {"mode": "dos"} | own_row(step)


def own_row(step):
    """Of what train_step says, what stands beside DeepSpeed's."""
    peak = sum(device[name]["allocated"] for device in step["device_memory"] for name in ("all but states", "states"))
    return {name: step[name] for name in ("ms_step", "ms_step_min", "ms_step_max", "ms_update", "loss")} | {
        "peak_gpu_gb": peak / 1e9}


def ratios(rows):
    """{mode: median and spread of DeepSpeed's time / ours of the same round} of rows with a mode, a round and no
    fault."""
    times = {(row["round"], row["mode"]): row["ms_step"] for row in rows if "fault" not in row}
    found = {}
    for (number, mode), ms in times.items():
        if mode != "dos" and (number, "dos") in times:
            found.setdefault(mode, []).append(ms / times[number, "dos"])
    return {mode: {"median": statistics.median(each), "min": min(each), "max": max(each)}
            for mode, each in found.items()}


def show(row):
    if "fault" in row:
        return f"{row['round']}  {row['mode']:<14} {row['fault']}"
    return (f"{row['round']}  {row['mode']:<14} {row['ms_step']:9.1f} ms ({row['ms_step_min']:.1f} to "
            f"{row['ms_step_max']:.1f}), GPU {row['peak_gpu_gb']:.1f} GB")


def compare(options, peer):
    """All rounds; a run that fails hides no other."""
    sides = {"dos": lambda: own_step(options)} | {mode: lambda mode=mode: peer.measure(mode) for mode in options.modes}
    rows = []
    for number in range(1, options.rounds + 1):
        for mode, measured in sides.items():
            try:
                row = measured()
            except CannotRun as failure:
                row = {"fault": str(failure)}
            rows.append({"round": number, "mode": mode} | row)
            print(json.dumps(rows[-1]) if options.json else show(rows[-1]), flush=True)
    found = ratios(rows)
    if options.json:
        print(json.dumps({"ratios": found}))
    else:
        for mode, each in found.items():
            print(f"{mode:<14} takes {each['median']:.2f} times as long ({each['min']:.2f} to {each['max']:.2f})")
    return found


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train-step", default=str(ROOT / "build/release/bench/train_step"))
    parser.add_argument("--python", default=sys.executable, help="that has torch; default: this one")
    parser.add_argument("--wheels", help="folder of DeepSpeed's wheel and those that it needs")
    parser.add_argument("--site", default=str(ROOT / "build/deepspeed"),
                        help="where they are unpacked, and DeepSpeed's optimizer compiled; default build/deepspeed")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES), help="of DeepSpeed")
    parser.add_argument("--model", choices=PRESETS, default="gpt3-1.3b")
    parser.add_argument("--batch", type=int, default=8, help="sequences of a micro-batch; default 8")
    parser.add_argument("--accumulate", type=int, default=6, help="micro-batches a step; default 6")
    parser.add_argument("--context", type=int, default=0, help="tokens a sequence; 0: the preset's")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--state-memory", default="2.5", help="GB of the GPU for train_step's states; default 2.5")
    parser.add_argument("--ratio", type=float, default=0.85,
                        help="of the updates, on the CPU, with twinflow; default 0.85: 2.4 GB of 1.3 G parameters' "
                             "states are on the GPU")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try this without a GPU")
    parser.add_argument("--compile", action="store_true", help="DeepSpeed's model by torch.compile")
    parser.add_argument("--limit", type=float, default=300, help="seconds of a run; default 300")
    parser.add_argument("--only", choices=("versions", "extension", *MODES),
                        help="one thing alone, as JSON: what there is, DeepSpeed's optimizer, or a run")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main():
    options = arguments()
    peer = Peer(options)
    try:
        peer.prepare()
        if options.only:
            alone = {"versions": peer.versions, "extension": peer.build_extension}
            print(json.dumps(alone.get(options.only, lambda: peer.measure(options.only))()))
            return
        found = peer.versions()
        built = peer.build_extension()
        if not options.json:
            print(f"{options.model}, {options.accumulate} x {options.batch} sequences, DeepSpeed {found['deepspeed']}, "
                  f"torch {found['torch']}, {found['gpu'] or 'no GPU'}; its optimizer took {built['seconds']:.0f} s to "
                  "compile or load")
        is_empty = not compare(options, peer)
    except CannotRun as lack:
        sys.exit(f"compare_deepspeed: error: {lack}")
    if is_empty:
        sys.exit("compare_deepspeed: error: no round has both sides")


if __name__ == "__main__":
    main()
