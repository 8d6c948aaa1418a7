# SPDX-License-Identifier: Apache-2.0
"""What the stages of tools/gpu_check share."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHILD = Path(__file__).resolve().parent / "gpu_check_child.py"


# What programs warn of once (src/rt/host_buffer.cpp).
REFUSED_PINNING = "CUDA refuses to pin"
# What StarPU warns of where it was built for fewer processors than there are.
FEW_WORKERS = "Use configure option --enable-maxcpus"


# A rehearsal is for what stages do, on machines that are busy with other things.
REHEARSED_PATIENCE = 10


class Failed(Exception):
    """A stage, or a part of it, did not pass; the text says why, and `result` is what it has found all the same."""

    def __init__(self, text, result=None):
        super().__init__(text)
        self.result = result


class TooLong(Failed):
    """A command was ended at its limit."""


class StageOver(Failed):
    """A stage has used the time that it may have of a run."""


class Skipped(Exception):
    """This machine cannot run the stage; the text says what it lacks."""


class OutOfTime(Exception):
    """gpu_check has used its time."""


class Stage:
    """Where a stage runs its commands: they share its log, its time, and its rows, what it has found so far by names.
    Rows of a run before are there from the start. partial(), if a stage sets it, makes the result of the rows so
    far."""

    def __init__(self, check, name, limit=None, rows=None):
        self.check = check
        self.patience = REHEARSED_PATIENCE if check.rehearses else 1
        self.limit = self.patience * limit if limit else None
        self.end = time.monotonic() + self.limit if limit else None
        self.rows = {} if rows is None else rows
        self.partial = None
        self.log = check.output / f"{name}.log"
        # Of nvidia-smi, where the stage is watched.
        self.samples = check.output / f"{name}_gpu.csv"
        # What another run said of rows that this one has not to measure again stays.
        self.log.write_text(f"{self.log.read_text(encoding='utf-8', errors='replace')}\n--- another run\n"
                            if self.rows and self.log.exists() else "", encoding="utf-8")

    def keep(self, key, row):
        """On the disk at once: a machine may be taken away at any time."""
        self.rows[key] = row
        self.check.save()

    def row(self, key, measure, *arguments):
        """What measure(*arguments) returns, kept as soon as it is there. What a run before has kept is taken as it is,
        unless it has a fault: that is what a command gives that fails, {"fault": why}, and what comes next is measured
        all the same."""
        before = self.rows.get(key)
        if before is not None and "fault" not in before:
            return before
        try:
            row = measure(*arguments)
        except (StageOver, Skipped, OutOfTime):
            raise
        except Failed as failure:
            row = {"fault": str(failure)}
        except Exception as surprise:  # what comes next must not be lost
            row = {"fault": self.account_of(surprise)}
        self.keep(key, row)
        return row

    def account_of(self, surprise):
        """In a line; the log has the rest."""
        with self.log.open("a", encoding="utf-8") as log:
            traceback.print_exception(surprise, file=log)
        return f"{type(surprise).__name__}: {surprise}; see {self.log.name}"

    def faults(self):
        return [f"{key}: {row['fault']}" for key, row in self.rows.items() if "fault" in row]

    def good_rows(self):
        return [row for row in self.rows.values() if "fault" not in row]

    def seconds_left(self):
        """Of the stage, or of gpu_check where that is less."""
        left = self.check.seconds_left()
        return left if self.end is None else min(left, self.end - time.monotonic())

    def time_left(self, limit):
        """Seconds that a command may take, of `limit` if that is not None."""
        left = self.check.seconds_left()
        if left <= 0:
            raise OutOfTime
        if self.end is not None:
            of_stage = self.end - time.monotonic()
            if of_stage <= 0:
                raise StageOver(f"took longer than the {self.limit:.0f} s that it may: run it again to go on with it")
            left = min(left, of_stage)
        return left if limit is None else min(left, self.patience * limit)

    def run(self, *command, env=None, may_fail=False, limit=None, on_line=None):
        """The command's standard output; both outputs go to the log. on_line(line) sees each line as it comes. A
        command that takes longer than it may, by `limit` in seconds or by the stage, is ended with all that it has
        started."""
        left = self.time_left(limit)
        if shutil.which(command[0]) is None:
            raise Failed(f"{command[0]} is not on this machine")
        start = self.log.stat().st_size
        text = " ".join(map(str, command))
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"\n{time.strftime('%H:%M:%S')}\n$ {text}\n")
            log.flush()
            output, status, is_late = run_in_group(command, os.environ | (env or {}), left, log, on_line)
            log.write(output)
        if is_late:
            # Which of the three limits it was.
            self.time_left(None)
            raise TooLong(f"{Path(command[0]).name} took longer than {left:.0f} s and was ended; see {self.log.name}")
        if status != 0 and not may_fail:
            raise Failed(f"{text} ended with status {status}; see {self.log}")
        said = self.said_from(start)
        if FEW_WORKERS in said:
            raise Failed(f"StarPU was built for fewer CPU workers than there are here, so that nothing measured counts: "
                         f"configure it with --enable-maxcpus=256 (docs/install.md); see {self.log}")
        if REFUSED_PINNING in said:
            raise Failed(f"CUDA refuses to pin host memory, so that nothing measured counts: raise the limit of locked "
                         f"memory (ulimit -l) or the container's memory; see {self.log}")
        return output

    def log_output(self, *command, limit):
        """For the log alone, and no reason to fail."""
        with contextlib.suppress(Failed):
            self.run(*command, may_fail=True, limit=limit)

    def said_from(self, start):
        """The log from a place on."""
        with self.log.open("rb") as log:
            log.seek(start)
            return log.read().decode(errors="replace")


def run_in_group(command, env, seconds, log, on_line):
    """(standard output, status, whether it had to be ended after so many seconds)."""
    lines, is_late = [], threading.Event()
    with subprocess.Popen([sys.executable, CHILD, str(os.getpid()), *map(str, command)], cwd=ROOT, env=env,
                          stdout=subprocess.PIPE, stderr=log, text=True, errors="replace",
                          start_new_session=True) as process:
        def end():
            # With what it has started: compilers and tests must not run beside the next gpu_check.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

        def end_late():
            is_late.set()
            end()

        timer = threading.Timer(seconds, end_late)
        timer.start()
        try:
            for line in process.stdout:
                lines.append(line)
                if on_line is not None:
                    on_line(line)
            process.wait()
        except BaseException:
            end()
            log.write("".join(lines))
            raise
        finally:
            timer.cancel()
    return "".join(lines), process.returncode, is_late.is_set()
