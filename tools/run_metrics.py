# SPDX-License-Identifier: Apache-2.0
"""What the tools beside this file read of the folder of a run."""

import json
import os


FORMAT = 1  # of run.json: src/train/run_info.hpp


class UserError(Exception):
    """A message for the user, in one line."""


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
            with open(self.path, "rb") as file:
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
            if any(value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)))
                   for value in entry.values()):
                raise ValueError
        except (ValueError, TypeError, KeyError, RecursionError):
            raise UserError(f"{self.path}:{self.number}: not a line of metrics; remove or repair it") from None
        if "val_loss" in entry:
            self.validations[step] = entry["val_loss"]
        else:
            self.steps[step] = entry


def configuration_of(folder):
    """What run.json says; {} while it is not there. Older ones have no format."""
    try:
        run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
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
