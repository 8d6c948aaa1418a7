#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs that are killed at any moment: what they leave is intact, and the run that goes on ends with the bits of one
that was not killed."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path

from campaign import MisuseTest
from harness import APPS, PATIENCE, TINY, environment, program, settings

MPIEXEC = os.environ.get("DOS_MPIEXEC")
KEYS = TINY | {"train.steps": 40, "train.checkpoint_every": 1, "train.keep": 3, "train.validate_every": 0,
               "model.width": 64, "train.workers": 1}
# Two steps may be submitted and not confirmed, one may be in the making, and a checkpoint of each of two steps on its way.
MOST_LOST = 5
# For each kill that is to be: a run that goes on may end before.
MOST_RUNS = 6


def is_read(pid, descriptor):
    """Whether it is of a file with tensors that the process has opened to read."""
    if not os.readlink(descriptor.path).endswith(".safetensors"):
        return False
    info = Path(f"/proc/{pid}/fdinfo/{descriptor.name}").read_text(encoding="ascii")
    return int(re.search(r"flags:\s*(\d+)", info)[1], 8) & os.O_ACCMODE == os.O_RDONLY


class Crashes(MisuseTest):
    def setUp(self):
        super().setUp()
        self.keys = {"data.path": self.shared / "data"} | KEYS
        self.nodes = []

    def use_nodes(self, **keys):
        """From now on a rank runs on each of two nodes, with a disk each: what is below its own working directory."""
        self.nodes = [self.folder / name for name in ("one", "two")]
        for node in self.nodes:
            node.mkdir()
        self.keys |= {"train.checkpoint_local": "/proc/self/cwd/disk", "train.checkpoint_copy_every": 3} | keys

    def command(self, out, ranks):
        train = [str(APPS / "train_gpt"), *settings(self.keys), "--out", str(out), "--quiet", "--resume", "auto"]
        if self.nodes:
            parts = [["-n", "1", "-wdir", str(node), *train] for node in self.nodes]
            return [MPIEXEC, *parts[0], ":", *parts[1]]
        return train if ranks == 1 else [MPIEXEC, "-n", str(ranks), *train]

    def start_run(self, ranks, out=None):
        return subprocess.Popen(self.command(out or self.out, ranks), cwd=self.folder, text=True, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, env=environment(), start_new_session=True)

    def train_straight(self, ranks):
        straight = self.folder / "straight"
        process = self.start_run(ranks, straight)
        begun = time.monotonic()
        _, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors)
        return straight, time.monotonic() - begun

    def end(self, process):
        """Of all that the run has started. Returns what it said."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        return process.communicate()[1]

    def found(self, folder):
        """The checkpoints that a process in this folder sees, which are intact."""
        result = program("checkpoints", self.out, "--verify", "--json", cwd=folder)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return json.loads(result.stdout)

    def newest(self):
        """Of those that all nodes have a part of, or are in the run's folder."""
        seen = [{each["step"] for each in self.found(node) if not each["aside"]} for node in self.nodes]
        return max(set.intersection(*seen), default=0)

    def expect_sound(self):
        """Every checkpoint that a killed run left, on each level, is intact, and few steps are lost."""
        # Of a run that was killed before it wrote what makes the folder a run's.
        if not any((self.out / name).exists() for name in ("run.json", "metrics.jsonl", "checkpoints")):
            return
        found = self.found(self.folder)
        lasts = [each for each in found if each["last"]]
        # A first checkpoint may be there before its link.
        links = {path for path in (Path(each["folder"]).parent / "last" for each in found) if path.is_symlink()}
        self.assertEqual(len(lasts), len(links))
        reached = self.newest() if self.nodes else max((each["step"] for each in lasts), default=0)
        if not reached:
            return
        lines = (self.out / "metrics.jsonl").read_text().splitlines()
        steps = [json.loads(line)["step"] for line in lines if line.endswith("}")]
        self.assertLessEqual(max(steps, default=0) - reached, MOST_LOST)

    def at_random(self, process, duration):
        """Waits for a random instant, also of the start, when checkpoints are read. Whether the run is still at work."""
        try:
            process.wait(timeout=self.random.uniform(0.05, 1.1) * duration)
        except subprocess.TimeoutExpired:
            return True
        return False

    def at_window(self, has_manifest):
        """Waits until a drawn one of the run's checkpoints is being written and has, or has not, its manifest."""
        def wait(process, _duration):
            skipped = {entry.name for entry in self.stagings()}
            drawn = self.random.randrange(1, 8)
            while process.poll() is None:
                for entry in self.stagings():
                    if entry.name in skipped or (Path(entry.path) / "manifest.json").exists() != has_manifest:
                        continue
                    skipped.add(entry.name)
                    if len(skipped) >= drawn:
                        return True
            return False
        return wait

    def at_reading(self, process, duration):
        """Waits until a run that goes on reads its checkpoint; one that is new is stopped at random."""
        if not (self.out / "checkpoints/last").exists():
            return self.at_random(process, duration)
        while process.poll() is None:
            with contextlib.suppress(OSError), os.scandir(f"/proc/{process.pid}/fd") as descriptors:
                if any(is_read(process.pid, each) for each in descriptors):
                    return True
        return False

    def stagings(self):
        folders = [folder for node in self.nodes for folder in (node / "disk").glob("*/checkpoints")] or [self.out / "checkpoints"]
        with contextlib.suppress(FileNotFoundError):
            return [entry for folder in folders for entry in os.scandir(folder) if re.fullmatch(r"step-\d+\.tmp", entry.name)]
        return []

    def kill_runs(self, ranks, count, kill=None, moment=None):
        """Kills so many runs that are at work; each goes on from the one before, or begins anew."""
        straight, duration = self.train_straight(ranks)
        wanted = len(self.attempts(count))
        for _ in range(MOST_RUNS * wanted):
            if self.tried == wanted:
                break
            is_new = not self.out.exists()
            begun = time.monotonic()
            process = self.start_run(ranks)
            is_at_work = (moment or self.at_random)(process, duration)
            if is_at_work and kill:
                kill(process)
            errors = self.end(process)
            if is_at_work and process.returncode != 0:
                with self.attempt(ranks=ranks):
                    self.expect_sound()
                continue
            self.assertEqual(process.returncode, 0, errors)
            if is_new:  # where the machine has become faster kills must come sooner
                duration = min(duration, time.monotonic() - begun)
            self.expect_same_state(straight, self.out)
            shutil.rmtree(self.out)
            for node in self.nodes:
                shutil.rmtree(node / "disk")
        self.assertEqual(self.tried, wanted, "runs end before they are killed")
        process = self.start_run(ranks)
        _, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors)
        self.expect_same_state(straight, self.out)

    def pids(self):
        """Of the ranks of the run."""
        found = []
        for name in os.listdir("/proc"):
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    command = file.read().split(b"\0")
                if name.isdigit() and command[0].endswith(b"train_gpt") and str(self.out).encode() in command:
                    found.append(int(name))
            except OSError:
                continue
        return found

    def test_all_at_once(self):
        """SIGKILL at a random instant of a run that saves every step"""
        self.kill_runs(1, 4)

    def test_before_the_manifest(self):
        """SIGKILL while a checkpoint is written that has no manifest yet"""
        self.kill_runs(1, 2, moment=self.at_window(has_manifest=False))

    def test_behind_the_manifest(self):
        """SIGKILL while a checkpoint has its manifest and not its name"""
        self.kill_runs(1, 2, moment=self.at_window(has_manifest=True))

    def test_while_reading(self):
        """SIGKILL while a run that goes on reads its checkpoint"""
        self.kill_runs(1, 2, moment=self.at_reading)

    def test_while_copying(self):
        """SIGKILL at a random instant of a run that copies from a disk of the node to its folder"""
        # So that most kills meet a copy: of 0.3 MB each, one after the other.
        self.keys |= {"train.checkpoint_local": self.folder / "disk", "train.checkpoint_copy_every": 1,
                      "train.checkpoint_copy_rate": 3}
        self.kill_runs(1, 3)

    def test_states_on_disks(self):
        """SIGKILL at a random instant of a run whose states live on a disk"""
        disk = self.folder / "disk"
        disk.mkdir()
        self.keys |= {"sched.disks": disk, "sched.host_memory": 0, "sched.subgroup_params": 5000}
        self.kill_runs(1, 3)
        # What was killed between the making of its file and the loss of its name is removed by the next run.
        self.assertEqual(list(disk.iterdir()), [])

    def kill_one(self, process):
        """One of the ranks; mpiexec ends the others."""
        ranks = self.pids()
        if not ranks:
            return
        os.kill(self.random.choice(ranks), signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=self.random.uniform(0, 0.5))

    @unittest.skipUnless(MPIEXEC, "no MPI")
    def test_one_rank(self):
        """SIGKILL of one of two ranks that save every step"""
        self.kill_runs(2, 3, self.kill_one)

    @unittest.skipUnless(MPIEXEC, "no MPI")
    def test_one_rank_before_the_manifest(self):
        """SIGKILL of one of two ranks while both write a checkpoint that has no manifest yet"""
        self.kill_runs(2, 2, self.kill_one, self.at_window(has_manifest=False))

    @unittest.skipUnless(MPIEXEC, "no MPI")
    def test_one_rank_behind_the_manifest(self):
        """SIGKILL of one of two ranks while a checkpoint has its manifest and not its name"""
        self.kill_runs(2, 2, self.kill_one, self.at_window(has_manifest=True))

    @unittest.skipUnless(MPIEXEC, "no MPI")
    def test_one_of_two_nodes(self):
        """SIGKILL of one of two ranks whose nodes have a disk each"""
        self.use_nodes()
        self.kill_runs(2, 3, self.kill_one)

    @unittest.skipUnless(MPIEXEC, "no MPI")
    def test_one_of_two_nodes_behind_the_manifest(self):
        """SIGKILL of one of two ranks whose nodes have a disk each, while a part has its manifest and not its name"""
        self.use_nodes()
        self.kill_runs(2, 2, self.kill_one, self.at_window(has_manifest=True))

    @unittest.skipUnless(MPIEXEC, "no MPI")
    def test_two_nodes_while_copying(self):
        """SIGKILL of all ranks while parts are copied from the disks of two nodes"""
        self.use_nodes(**{"train.checkpoint_copy_every": 1, "train.checkpoint_copy_rate": 6})
        self.kill_runs(2, 3)

    @unittest.skipUnless(MPIEXEC, "no MPI")
    def test_all_ranks(self):
        """SIGKILL of all ranks, two that save every step, at once"""
        def kill_all(_process):
            for rank in self.pids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rank, signal.SIGKILL)
        self.kill_runs(2, 2, kill_all)


if __name__ == "__main__":
    unittest.main()
