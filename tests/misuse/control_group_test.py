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

    def needed(self, keys):
        """MiB that a run says that it needs."""
        text = self.trained("--dry-run", keys=keys).stdout
        number, unit = re.search(r"^  total +([\d.]+) (MiB|GiB)$", text, re.MULTILINE).groups()
        return float(number) * (1024 if unit == "GiB" else 1)

    def limited(self, keys, megabytes):
        LIMIT.write_text(str(round(megabytes) << 20))
        return self.train("--quiet", keys=keys, timeout=60,
                          preexec_fn=lambda: (GROUP / "cgroup.procs").write_text(str(os.getpid())))

    def drawn(self):
        """Much of what is no buffer: records of buffers and tasks, tokens ahead, checkpoints. Little work."""
        draw = self.random.choice
        while True:
            heads, batch = draw((1, 2)), draw((1, 8, 64))
            keys = {"train.steps": draw((2, 6)), "model.layers": draw((1, 8, 48)), "model.heads": heads,
                    "model.width": heads * draw((16, 64)), "model.context": draw((8, 64)),
                    "model.vocab": draw((257, 20000)), "train.batch": batch, "train.lanes": draw((1, batch, batch)),
                    "train.accumulate": draw((1, 1, 500)), "train.run_ahead": draw((2, 30)),
                    "train.recompute": draw(("true", "false")), "train.validate_every": draw((0, 2)),
                    "train.validate_batches": draw((1, 20)), "sched.subgroup_params": draw((5_000_000, 1000)),
                    "train.workers": draw((1, 2)), "train.precision": draw(("fp32", "bf16"))}
            if keys["train.precision"] == "bf16":
                keys["train.gradient_precision"] = draw(("fp32", "bf16"))
            passes = keys["train.steps"] * (keys["train.accumulate"] + keys["train.validate_batches"])
            parameters = 12 * keys["model.layers"] * keys["model.width"]**2 + keys["model.vocab"] * keys["model.width"]
            tokens = passes * batch * keys["model.context"]
            tasks = passes * keys["model.layers"] * keys["train.lanes"] * 30
            if tokens * parameters < 1e10 and 1e4 < tasks < 2e5:
                return keys

    def test_drawn(self):
        """a control group of what a drawn configuration says that it needs, and a little: it runs, or one error"""
        ran = 0
        for number in self.attempts(6):
            keys = self.drawn()
            megabytes = self.needed(keys) + self.random.uniform(15, 40)  # a program that has not begun takes 22
            self.out = self.folder / f"drawn{number}"
            with self.attempt(number=number, megabytes=megabytes, **keys):
                result = self.limited(keys, megabytes)
                self.expect_run_or_one_error(result)
                self.expect_no_run_without_a_checkpoint()
                ran += result.returncode == 0
        self.assertGreater(ran, 0)

    def test_memory(self):
        """a control group of 0.9 to 1.3 times what a run says that it needs: it runs, or one error"""
        needed = self.needed(KEYS)
        refused = 0
        for number in self.attempts(6):
            part = 0.9 + 0.4 * (number % 6 + self.random.random()) / 6
            megabytes = round(needed * part)
            self.out = self.folder / f"out{number}"
            with self.attempt(number=number, megabytes=megabytes):
                result = self.limited(KEYS, megabytes)
                self.expect_run_or_one_error(result)
                self.expect_no_run_without_a_checkpoint()
                refused += result.returncode != 0
        self.assertGreater(refused, 0)

    def test_states_on_a_disk(self):
        """a control group without room for the optimizer's states: refused in memory, the same losses with a disk"""
        disk = self.folder / "disk"
        disk.mkdir()
        keys = KEYS | {"model.width": 768, "train.batch": 4, "sched.subgroup_params": 500_000}
        on_disk = keys | {"sched.disks": disk, "sched.host_memory": 0}
        megabytes = round(self.needed(on_disk)) + 40
        self.assertGreater(self.needed(keys), megabytes + 40)
        self.trained(keys=keys, out=self.folder / "whole")
        for number in self.attempts(1):
            with self.attempt(number=number):
                self.out = self.folder / f"memory{number}"
                self.expect_error(self.limited(keys, megabytes), "sched.disks", more_lines=True)
                self.out = self.folder / f"disk{number}"
                result = self.limited(on_disk, megabytes)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.expect_same_state(self.folder / "whole", self.out)


if __name__ == "__main__":
    found = new_group()
    if found is None:
        print("skipped: no control group with a limit of memory can be made here")
        sys.exit(77)
    GROUP, LIMIT = found
    unittest.main()
