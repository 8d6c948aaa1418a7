#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The limit of memory that a container or a batch system sets. Exits with 77 where none can be set."""

import os
import re
import sys
import unittest
from pathlib import Path

from campaign import MisuseTest

KEYS = {"train.steps": 2, "train.validate_every": 0, "model.preset": "small-3m", "model.layers": 4, "model.width": 256,
        "model.heads": 4, "model.context": 64, "train.batch": 32}


def new_group():
    """A new control group with the memory controller, of version 1 or 2, and the file of its limit; or None."""
    for top, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = Path(top) / f"dos-misuse-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / limit).exists() and os.access(group / limit, os.W_OK):
            return group, group / limit
        group.rmdir()
    return None


class ControlGroup(MisuseTest):
    @classmethod
    def tearDownClass(cls):
        GROUP.rmdir()

    def test_memory(self):
        """a control group of 0.9 to 1.3 times what a run says that it needs: it runs, or one error"""
        needed = re.search(r"^  total +([\d.]+) MiB$", self.train("--dry-run", keys=KEYS).stdout, re.MULTILINE)
        refused = 0
        for number in self.attempts(6):
            part = 0.9 + 0.4 * (number % 6 + self.random.random()) / 6
            megabytes = round(float(needed.group(1)) * part)
            self.out = self.folder / f"out{number}"
            LIMIT.write_text(str(megabytes << 20))
            with self.attempt(number=number, megabytes=megabytes):
                result = self.train("--quiet", keys=KEYS, timeout=60,
                                    preexec_fn=lambda: (GROUP / "cgroup.procs").write_text(str(os.getpid())))
                self.expect_run_or_one_error(result)
                self.expect_no_run_without_a_checkpoint()
                refused += result.returncode != 0
        self.assertGreater(refused, 0)


if __name__ == "__main__":
    found = new_group()
    if found is None:
        print("skipped: no control group with a limit of memory can be made here")
        sys.exit(77)
    GROUP, LIMIT = found
    unittest.main()
