# SPDX-License-Identifier: Apache-2.0
"""What the tools beside this file read of the folder of a run."""

import argparse
import json
import os
import stat
import sys
from pathlib import Path


FORMAT = 1  # of run.json: src/train/run_info.hpp


class UserError(Exception):
    """A message for the user, in one line."""


def end_of(tool, work):
    """The status of a tool that does `work`: a message of one line for what a user can cause, no traceback."""
    output = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # none: it was closed
    output.reconfigure(errors="surrogateescape")  # names of files go out as they came
    try:
        work()
        output.flush()
        return 0
    except UserError as error:
        cause = error
    except KeyboardInterrupt:
        return 0
    except OSError as error:
        cause = f"{error.filename or 'standard output'}: {error.strerror}"
        # The interpreter would try again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
    try:
        print(f"{tool}: error: {cause}", file=sys.stderr)
    except OSError:
        pass
    return 1


def given_path(text):
    """For argparse: a script that has left a variable unset means no folder."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return Path(text)


def open_regular(path):
    """For reading bytes, without waiting for the other end of a pipe. OSError."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(0, "not a regular file")
    return file


class Metrics:
    """The lines of a metrics.jsonl, read as they come. A step that is there twice counts as last written. Refused is the
    folder of a later release."""

    def __init__(self, path):
        self.path = path
        configuration_of(path.parent)
        self.forget()

    def forget(self):
        self.offset, self.number, self.file, self.steps, self.validations = 0, 0, None, {}, {}

    def read(self):
        """Takes what is new. A last line without its end is still being written: it is left for the next time."""
        try:
            with open_regular(self.path) as file:
                status = os.fstat(file.fileno())
                # A resumed run writes the history anew.
                if self.file is not None and (status.st_ino != self.file or status.st_size < self.offset):
                    self.forget()
                self.file = status.st_ino
                file.seek(self.offset)
                whole, end, _ = file.read().rpartition(b"\n")
        except OSError as error:
            raise UserError(f"{self.path}: {error.strerror}; is {self.path.parent} the folder of a run?") from None
        self.offset += len(whole) + len(end)
        for line in whole.split(b"\n") if end else ():
            self.number += 1
            if line.strip():
                self.take(line)

    def take(self, line):
        try:
            entry = json.loads(line)
            step = entry["step"]
            if isinstance(step, bool) or not isinstance(step, int) or not ("loss" in entry or "val_loss" in entry):
                raise ValueError
            if not 0 <= step <= 2**53:
                raise ValueError
            for name, value in entry.items():
                name.encode()
                if isinstance(value, bool) or not isinstance(value, (int, float, type(None))):
                    raise ValueError
                float(value or 0)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise UserError(f"{self.path}:{self.number}: not a line of metrics; remove or repair it") from None
        if "val_loss" in entry:
            self.validations[step] = entry["val_loss"]
        else:
            self.steps[step] = entry


def configuration_of(folder):
    """What run.json says; {} while it is not there. Older ones have no format."""
    try:
        with open_regular(folder / "run.json") as file:
            run = json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(run, dict):
        return {}
    if isinstance(run.get("format"), int) and run["format"] > FORMAT:
        release = part_of(run, "program", "version")
        raise UserError(f"{folder / 'run.json'}: format {run['format']}, but this tool reads up to {FORMAT}; use the one of the "
                        f"release that wrote it" + (f", {release}" if isinstance(release, str) else ""))
    return run


def part_of(run, *names):
    """A value inside run.json; None where a newer or older version has none."""
    for name in names:
        run = run.get(name) if isinstance(run, dict) else None
    return run


def last_step_of(run):
    """The step that the run ends with; None while it is not known."""
    return part_of(run, "configuration", "train", "stop_after") or part_of(run, "configuration", "train", "steps")
