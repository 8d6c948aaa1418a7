# SPDX-License-Identifier: Apache-2.0
"""What nvidia-smi says of the GPU while a stage of tools/gpu_check runs: clocks, power, memory, and what slows it."""

import contextlib
import os
import signal
import subprocess
import sys

FIELDS = ("timestamp", "clocks.sm", "clocks.mem", "power.draw", "temperature.gpu", "memory.used", "utilization.gpu",
          "clocks_event_reasons.active")
MILLISECONDS = 500


@contextlib.contextmanager
def sampled(file, child):
    """Lines of FIELDS, of all GPUs, are added to the file until the end. Where nvidia-smi does not say them, none are:
    no stage fails for that. `child` is gpu_check_child.py, which ends it with gpu_check."""
    with file.open("a", encoding="utf-8") as lines, subprocess.Popen(
            [sys.executable, child, str(os.getpid()), "nvidia-smi", f"--query-gpu={','.join(FIELDS)}",
             "--format=csv,noheader,nounits", f"--loop-ms={MILLISECONDS}"],
            stdout=lines, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def most_memory(file, start):
    """GB that all of the machine's programs had of a GPU at most, by the lines from byte `start` on; None without."""
    if not file.exists():
        return None
    used = []
    for line in file.read_bytes()[start:].decode(errors="replace").splitlines():
        cells = line.split(",")
        with contextlib.suppress(ValueError):
            if len(cells) == len(FIELDS):
                used.append(float(cells[FIELDS.index("memory.used")]) * 2**20 / 1e9)
    return max(used, default=None)
