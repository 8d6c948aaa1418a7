# SPDX-License-Identifier: Apache-2.0
"""What the stages of tools/gpu_check share."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHILD = Path(__file__).resolve().parent / "gpu_check_child.py"


# What programs warn of once (src/rt/host_buffer.cpp).
REFUSED_PINNING = "CUDA refuses to pin"


class Failed(Exception):
    """A stage did not pass; the text says why, and `result` is what it has found all the same."""

    def __init__(self, text, result=None):
        super().__init__(text)
        self.result = result


class Skipped(Exception):
    """This machine cannot run the stage; the text says what it lacks."""


class Stage:
    """Where a stage runs its commands: they share its log and its deadline."""

    def __init__(self, check, name):
        self.check = check
        self.log = check.output / f"{name}.log"
        self.log.write_text("", encoding="utf-8")

    def run(self, *command, env=None, may_fail=False):
        """The command's standard output; both outputs go to the log."""
        left = self.check.seconds_left()
        if left <= 0:
            raise subprocess.TimeoutExpired(command, 0)
        if shutil.which(command[0]) is None:
            raise Failed(f"{command[0]} is not on this machine")
        start = self.log.stat().st_size
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"\n$ {' '.join(map(str, command))}\n")
            log.flush()
            with subprocess.Popen([sys.executable, CHILD, str(os.getpid()), *map(str, command)], cwd=ROOT,
                                  env=os.environ | (env or {}), stdout=subprocess.PIPE, stderr=log, text=True,
                                  start_new_session=True) as process:
                try:
                    output, _ = process.communicate(timeout=left)
                except BaseException:
                    # With what it has started: compilers and tests must not run beside the next gpu_check.
                    os.killpg(process.pid, signal.SIGKILL)
                    log.write(process.communicate()[0])
                    raise
            log.write(output)
        if process.returncode != 0 and not may_fail:
            raise Failed(f"{' '.join(map(str, command))} ended with status {process.returncode}; see {self.log}")
        if REFUSED_PINNING in self.said_from(start):
            raise Failed(f"CUDA refuses to pin host memory, so that nothing measured counts: raise the limit of locked "
                         f"memory (ulimit -l) or the container's memory; see {self.log}")
        return output

    def said_from(self, start):
        """The log from a place on."""
        with self.log.open("rb") as log:
            log.seek(start)
            return log.read().decode(errors="replace")
