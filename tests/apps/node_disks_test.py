#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a job on two nodes, each with a disk of its own: a part on each, the whole in the run's folder."""

import json
import os
import shutil
import signal
import subprocess
import unittest

from harness import APPS, PATIENCE, TINY, AppTest, environment, program, settings

MPIEXEC = os.environ.get("DOS_MPIEXEC")


@unittest.skipUnless(MPIEXEC, "no MPI")
class NodeDisks(AppTest):
    def setUp(self):
        super().setUp()
        self.nodes = [self.folder / name for name in ("one", "two", "three")]
        for node in self.nodes:
            node.mkdir()
        # One name, on each node another disk: what is below a process's own working directory.
        self.keys = TINY | {"data.path": self.shared / "data", "train.checkpoint_local": "/proc/self/cwd/disk", "train.workers": 1,
                            "train.checkpoint_every": 1, "train.keep": 3, "train.validate_every": 0,
                            "train.checkpoint_copy_every": 4, "sched.subgroup_params": 2000}
        self.forever = {"train.steps": 1_000_000, "train.checkpoint_copy_every": 1_000_000}

    def command(self, ranks, keys, *arguments):
        """Of a run with so many ranks on each node."""
        words = [MPIEXEC]
        for node, count in zip(self.nodes, ranks):
            if count > 0:
                words += [":"] * (len(words) > 1) + ["-n", str(count), "-wdir", str(node), str(APPS / "train_gpt"),
                                                     *settings(self.keys | keys), "--out", str(self.out), *arguments]
        return words

    def run_on(self, ranks, *arguments, **keys):
        keys = {key.replace("__", "."): value for key, value in keys.items()}
        return subprocess.run(self.command(ranks, keys, *arguments), cwd=self.folder, text=True, capture_output=True,
                              timeout=PATIENCE, env=environment(), check=False)

    def trained_on(self, ranks, *arguments, **keys):
        result = self.run_on(ranks, *arguments, **keys)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def listed(self, node, *arguments, status=0):
        """What is on the disk of a node, and not in the run's folder."""
        result = program("checkpoints", self.out, "--json", *arguments, cwd=self.nodes[node])
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return [each for each in json.loads(result.stdout) if each["level"] == "local"]

    def steps(self, node, *arguments):
        return [each["step"] for each in self.listed(node, *arguments) if not each["aside"]]

    def common(self):
        return max(set(self.steps(0, "--verify")) & set(self.steps(1, "--verify")))

    def local(self, node):
        """The run's folder on the disk of a node; None: there is none yet."""
        return next((self.nodes[node] / "disk").glob("*"), None)

    def killed(self, after=6):
        """A run with a rank on each node that was killed when both had a checkpoint of this step; the last that both have."""
        with subprocess.Popen(self.command((1, 1), self.forever, "--resume", "auto"), cwd=self.folder, text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(),
                              start_new_session=True) as process:
            self.wait_for(lambda: all(self.local(node) and self.last(self.local(node)) >= after for node in (0, 1)), process)
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        return self.common()

    def straight(self, steps):
        """A run that is not killed, on ranks that share a disk."""
        out = self.folder / "straight"
        self.trained_on_ranks(2, *settings(self.keys | {"train.checkpoint_local": "", "train.steps": 1_000_000,
                                                        "train.stop_after": steps}), "--out", out)
        return out

    def begin_anew(self):
        shutil.rmtree(self.out)
        for node in self.nodes:
            shutil.rmtree(node / "disk", ignore_errors=True)

    def test_each_has_a_part(self):
        self.trained_on((1, 1))
        sizes = []
        for node in (0, 1):
            found = self.listed(node, "--verify")
            self.assertEqual([(each["step"], each["part"], each["parts"]) for each in found], [(step, node, 2) for step in (18, 19, 20)])
            sizes.append(found[-1]["bytes"])
            text = program("checkpoints", self.out, cwd=self.nodes[node])
            self.assertRegex(text.stdout, rf"\n +20  local {node + 1}/2 ")
        whole, = [each for each in json.loads(program("checkpoints", self.out, "--json", cwd=self.folder).stdout) if each["step"] == 20]
        self.assertEqual(whole["level"], "shared")
        for size in sizes:
            self.assertLess(size, 0.7 * whole["bytes"])
        self.keys["train.steps"] = 20
        straight = self.folder / "straight"
        self.trained_on_ranks(2, *settings(self.keys | {"train.checkpoint_local": ""}), "--out", straight)
        self.expect_same_state(straight, self.out)
        result = program("export", found[-1]["folder"], self.folder / "exported", cwd=self.nodes[1])
        self.expect_error(result, "is part 2 of 2 of a checkpoint", "take one of the run's folder", name="export")

    def test_a_killed_run_goes_on_from_both(self):
        reached = self.killed()
        errors = self.trained_on((1, 1), "--resume", "auto", train__steps=1_000_000, train__stop_after=reached + 5)
        self.assertIn(f"after step {reached} of /proc/self/cwd/disk", errors)
        self.expect_same_state(self.straight(reached + 5), self.out)

    def test_nodes_that_differ_by_one(self):
        """A node was killed before it had its part of the last: both have the one before."""
        reached = self.killed()
        for step in self.steps(1):
            if step >= reached:
                shutil.rmtree(self.local(1) / "checkpoints" / f"step-{step:08}")
        errors = self.trained_on((1, 1), "--resume", "auto", train__steps=1_000_000, train__stop_after=reached + 5)
        self.assertIn(f"after step {reached - 1} of /proc/self/cwd/disk", errors)
        self.expect_same_state(self.straight(reached + 5), self.out)

    def test_other_ranks(self):
        for ranks in ((2, 1), (1, 2), (2, 2)):
            with self.subTest(ranks=ranks):
                reached = self.killed()
                errors = self.trained_on(ranks, "--resume", "auto", train__steps=1_000_000, train__stop_after=reached + 2)
                self.assertIn(f"step {reached}: ranks own other parts than those that wrote it: copying it to {self.out} first", errors)
                self.assertIn(f"after step {reached} of {self.out}/checkpoints", errors)
                self.assertEqual(self.steps(0, "--verify")[-1], reached + 2)
                self.begin_anew()

    def test_more_nodes(self):
        """Those that come have nothing of what the others have, wherever the first rank is."""
        for is_first in (False, True):
            with self.subTest(is_first=is_first):
                reached = self.killed()
                if is_first:
                    self.nodes.insert(0, self.nodes.pop())
                errors = self.trained_on((1, 1, 1), "--resume", "auto", train__steps=1_000_000, train__stop_after=reached + 2)
                self.assertIn(f"step {reached}: not all nodes have a part of it: copying it to {self.out} first", errors)
                self.assertIn(f"after step {reached} of {self.out}/checkpoints", errors)
                for node in range(3):
                    found = self.listed(node, "--verify")[-2:]
                    self.assertEqual([(each["step"], each["part"], each["parts"]) for each in found],
                                     [(step, node, 3) for step in (reached + 1, reached + 2)])
                self.begin_anew()

    def test_prune(self):
        """Each node keeps two, as another one may have the last but one as its last."""
        self.trained_on((1, 1), train__keep=5)
        for arguments in ([], ["--keep", 1]):
            result = program("checkpoints", self.out, "--prune", *arguments, cwd=self.nodes[1])
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.steps(1, "--verify"), [19, 20])
        self.assertEqual(self.steps(0, "--verify"), [16, 17, 18, 19, 20])

    def test_a_dry_run_copies_nothing(self):
        self.killed()
        self.trained_on((1, 1, 1), "--resume", "auto", "--dry-run")
        self.assertFalse((self.out / "checkpoints").exists())

    def test_a_node_that_is_gone(self):
        self.trained_on((1, 1), train__steps=1_000_000, train__stop_after=8)
        self.killed(after=12)
        errors = self.trained_on((2, 0), "--resume", "auto", train__steps=1_000_000, train__stop_after=10)
        self.assertIn(f"after step 8 of {self.out}/checkpoints", errors)
        self.assertEqual(self.steps(0, "--verify"), [9, 10])
        # What the other node has is not on the way of the run any more.
        self.assertEqual(self.steps(1), [])
        errors = self.trained_on((1, 1), "--resume", "auto", train__steps=1_000_000, train__stop_after=12)
        self.assertIn(f"after step 10 of {self.out}/checkpoints", errors)

    def test_a_run_that_went_back_does_not_go_forth(self):
        """A node that comes later does not bring what the run has left, nor is it taken by itself."""
        self.trained_on((1, 1), train__steps=1_000_000, train__stop_after=9, train__keep=9)
        self.trained_on((1, 1), "--resume", "4", train__steps=1_000_000, train__stop_after=6, train__keep=9)
        errors = self.trained_on((1, 1, 1), "--resume", "auto", train__steps=1_000_000, train__stop_after=7)
        self.assertIn(f"after step 6 of {self.out}/checkpoints", errors)

    def test_parts_are_not_begun_over(self):
        """Where nothing is whole, and other parts are elsewhere, nothing is removed."""
        reached = self.killed()
        result = self.run_on((1, 0), "--resume", "auto", train__steps=1_000_000)
        self.expect_error(result, "there are parts of step", "start on the nodes that it ran on", "local.json")
        self.assertEqual(self.common(), reached)

    def test_a_disk_that_is_lost(self):
        self.trained_on((1, 1), train__steps=1_000_000, train__stop_after=8)
        self.killed(after=12)
        shutil.rmtree(self.nodes[1] / "disk")
        errors = self.trained_on((1, 1), "--resume", "auto", train__steps=1_000_000, train__stop_after=10)
        self.assertIn(f"after step 8 of {self.out}/checkpoints", errors)
        self.assertEqual(self.steps(0, "--verify"), self.steps(1, "--verify"))

    def test_damage_on_one_disk(self):
        reached = self.killed()
        path = self.local(1) / "checkpoints" / f"step-{reached:08}" / "manifest.json"
        path.write_text(path.read_text()[:-100])
        errors = self.trained_on((1, 1), "--resume", "auto", train__steps=1_000_000, train__stop_after=reached + 1)
        self.assertIn(f"step {reached} is not taken from train.checkpoint_local", errors)
        self.assertIn(f"after step {reached - 1} of /proc/self/cwd/disk", errors)

    def test_damage_in_a_part(self):
        reached = self.killed()
        folder = self.local(1) / "checkpoints" / f"step-{reached:08}"
        file, = [each for each in json.loads((folder / "manifest.json").read_text())["files"] if each["name"] == "optimizer.safetensors"]
        pieces = [piece for tensor in file["tensors"] for piece in tensor["crc32c"]]
        offset = file["header"][0]
        for size, _, *part in pieces:
            if part == [1]:
                break
            offset += size
        with open(folder / "optimizer.safetensors", "r+b") as data:
            data.seek(offset)
            byte = data.read(1)
            data.seek(offset)
            data.write(bytes([byte[0] ^ 1]))
        found = [each for each in self.listed(1, "--verify", status=1) if each["fault"]]
        self.assertEqual([each["step"] for each in found], [reached])
        errors = self.trained_on((1, 1), "--resume", "auto", train__steps=1_000_000, train__stop_after=reached + 1)
        self.assertIn(f"going back to the checkpoint of step {reached - 1}", errors)

    def test_a_disk_that_cannot_be_written_to(self):
        (self.nodes[1] / "disk").write_text("")
        result = self.run_on((1, 1))
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, "error: rank 1: train.checkpoint_local = .*Not a directory")
        self.assertFalse((self.out / "local.json").exists())

    def test_two_nodes_that_share_a_disk(self):
        (self.nodes[1] / "disk").symlink_to(self.nodes[0] / "disk")
        self.trained_on((1, 1))
        self.assertEqual([each["parts"] for each in self.listed(0, "--verify")], [1, 1, 1])


if __name__ == "__main__":
    unittest.main()
