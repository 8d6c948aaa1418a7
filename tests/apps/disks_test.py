#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Optimizer states on disks: the same numbers as in memory, nothing left behind, and disks that are none."""

import csv
import os
import shutil
import signal
import subprocess
import unittest
from pathlib import Path

from harness import TINY, AppTest, program, settings


class Disks(AppTest):
    def setUp(self):
        super().setUp()
        self.disks = [self.folder / "disk0", self.folder / "disk1"]
        for disk in self.disks:
            disk.mkdir()
        self.in_memory = {"train.checkpoint_every": 1, "train.validate_every": 0, "sched.subgroup_params": 1000}
        self.keys = self.in_memory | {"sched.disks": ",".join(map(str, self.disks)), "sched.host_memory": 0}

    def test_same_numbers(self):
        for precision in ("fp32", "bf16"):
            with self.subTest(precision):
                out = self.folder / precision
                self.trained(keys=self.keys | {"train.precision": precision}, out=out)
                straight = self.folder / f"straight-{precision}"
                self.trained(keys=self.in_memory | {"train.precision": precision}, out=straight)
                self.expect_same_state(straight, out)
                self.assertEqual([list(disk.iterdir()) for disk in self.disks], [[], []])

    def test_says_what_goes_to_disks(self):
        dry = self.train("--dry-run", keys=self.keys)
        self.assertRegex(dry.stdout, r"on disks: states of [0-9.]+ [KM]iB of \d+ subgroups, through \d+ slots of ")
        self.trained(keys=self.keys)
        lines = [line for line in self.metrics() if "loss" in line]
        self.assertGreater(lines[-1]["disk_read_bytes"], 0)
        self.assertGreater(lines[-1]["disk_written_bytes"], 0)

    def test_traces(self):
        trace = self.folder / "trace"
        self.trained("--trace", trace, keys=self.keys)
        with open(trace / "rank0" / "storage.csv", encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["purpose"] == "states"]
        self.assertEqual({row["operation"] for row in rows}, {"read", "write"})
        self.assertEqual({row["disk"] != "" for row in rows}, {True})
        self.assertEqual(program("report", trace, cwd=self.folder).returncode, 0)

    def test_goes_on_after_a_kill(self):
        process = self.start({"train.steps": 1_000_000} | self.keys, start_new_session=True)
        self.wait_for(lambda: self.last(self.out) >= 5, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        self.assertEqual([list(disk.iterdir()) for disk in self.disks], [[], []])
        step = self.last(self.out)
        # In memory from there.
        self.resumed("auto", "--set", f"train.steps={step + 3}", "--set", "sched.disks=")
        self.assertEqual(self.last(self.out), step + 3)

    def test_init_from(self):
        """Weights of a folder, whose FP32 values live on disks."""
        self.trained(keys={"train.steps": 2, "train.validate_every": 0})
        folder = self.folder / "exported"
        self.assertEqual(program("export", self.out, folder, cwd=self.folder).returncode, 0)
        runs = []
        of_the_run = {key: value for key, value in TINY.items() if not key.startswith("model.")}
        for keys in (self.keys, self.in_memory):
            runs.append(self.folder / f"run{len(runs)}")
            keys = of_the_run | keys | {"data.path": self.shared / "data", "train.precision": "bf16", "train.steps": 3}
            result = program("train_gpt", "--init-from", folder, "--out", runs[-1], *settings(keys), cwd=self.folder)
            self.assertEqual(result.returncode, 0, result.stderr)
        self.expect_same_state(runs[1], runs[0])

    @unittest.skipUnless(os.environ.get("DOS_MPIEXEC"), "no MPI")
    def test_ranks(self):
        """Each rank has a file of its own."""
        keys = {"data.path": self.shared / "data"} | TINY | {"train.workers": 1, "train.batch": 2}
        for precision, zero in (("fp32", 1), ("bf16", 3)):
            keys |= {"train.precision": precision, "dist.zero": zero}
            runs = [self.folder / f"{precision}-{where}" for where in ("disks", "memory")]
            for out, more in zip(runs, (self.keys, self.in_memory), strict=True):
                self.trained_on_ranks(2, *settings(keys | more), "--out", out)
            self.expect_same_state(*runs)
            self.assertEqual([list(disk.iterdir()) for disk in self.disks], [[], []])

    @unittest.skipUnless(os.environ.get("DOS_MPIEXEC"), "no MPI")
    def test_ranks_go_back_together(self):
        """One rank finds its part damaged when others have taken theirs."""
        keys = {"data.path": self.shared / "data"} | TINY | {"train.workers": 1, "train.batch": 2, "dist.zero": 3}
        keys |= self.keys | {"train.keep": 9}
        straight, parts = self.folder / "straight", self.folder / "parts"
        for out, end in ((straight, 6), (parts, 4)):
            self.trained_on_ranks(2, *settings(keys | {"train.stop_after": end}), "--out", out)
        states = sorted(self.checkpoint(out=parts).glob("states-*"))
        if not states:
            self.skipTest("no files without names here")
        for file in (states[0], states[-1], self.checkpoint(out=parts) / "model.safetensors"):
            with self.subTest(file.name):
                out = self.folder / f"damaged-{file.name}"
                shutil.copytree(parts, out, symlinks=True)
                damaged = self.checkpoint(out=out) / file.name
                data = bytearray(damaged.read_bytes())
                data[-5] ^= 1
                damaged.write_bytes(data)
                self.trained_on_ranks(2, "--out", out, "--resume", "auto", "--set", "train.stop_after=6")
                self.expect_same_state(straight, out)

    @unittest.skipUnless(os.access("/dev/shm", os.W_OK), "no /dev/shm")
    def test_warns_of_memory(self):
        folder = Path("/dev/shm") / f"dos-disks-{os.getpid()}"
        folder.mkdir()
        self.addCleanup(folder.rmdir)
        for more in ((), ("--dry-run",)):
            result = self.train(*more, keys=self.keys | {"sched.disks": folder})
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("is in memory (tmpfs)", result.stdout + result.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "only root can mount")
    def test_full_disk(self):
        """Known before the first step."""
        disk = self.disks[0]
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], check=False).returncode != 0:
            self.skipTest("no mount here")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        for more in ((), ("--dry-run",)):
            result = self.train(*more, keys=self.keys | {"sched.disks": disk})
            self.assertEqual(list(disk.iterdir()), [])
            self.expect_error(result, str(disk), "sched.disks: ", "but there is room for ", "KiB in ",
                              "name another disk")
        result = self.train(keys=self.keys | {"sched.disks": f"{disk}:1GB"})
        self.expect_error(result, str(disk), "are to be taken", "where 64.0 KiB are free for each rank",
                          "give a smaller size")
        self.expect_nothing_written()

    @unittest.skipUnless(os.environ.get("DOS_MPIEXEC") and os.geteuid() == 0, "no MPI, or nobody may mount")
    def test_room_for_one_rank_alone(self):
        """What is free is every rank's of the node."""
        disk = self.disks[0]
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "none", disk], check=False).returncode != 0:
            self.skipTest("no mount here")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        keys = self.keys | {"sched.disks": disk, "dist.zero": 1}
        self.trained("--dry-run", keys=keys)
        for more in ((), ("--dry-run",)):
            result = self.train_on_ranks(2, *more, *settings({"data.path": self.shared / "data"} | TINY | keys),
                                         "--out", self.out)
            self.assertEqual(list(disk.iterdir()), [])
            self.assertNotEqual(result.returncode, 0)
            self.assertRegex(result.stderr, "but there is room for 100 KiB in ")

    @unittest.skipUnless(os.geteuid() == 0, "only root can mount")
    def test_no_room_for_checkpoints(self):
        """Room for the states, but not for the files that take the place of those that a checkpoint takes, nor for one
        that is written when the last of these have gone."""
        disk = self.disks[0]
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=260k", "none", disk], check=False).returncode != 0:
            self.skipTest("no mount here")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        (disk / "states").mkdir()
        out = disk / "run"
        result = self.train(keys=self.keys | {"sched.disks": disk / "states", "train.steps": 4}, out=out)
        self.assertEqual(result.returncode, 1)
        said = result.stdout + result.stderr
        for step in range(1, 4):
            self.assertRegex(said, f"step {step}: no checkpoint: .*No space left.*training goes on")
        self.assertIn("the last checkpoint cannot be written", said)
        self.assertEqual([line["step"] for line in self.metrics(out) if "loss" in line], [1, 2, 3, 4])
        self.assertEqual(list((disk / "states").iterdir()), [])


if __name__ == "__main__":
    unittest.main()
