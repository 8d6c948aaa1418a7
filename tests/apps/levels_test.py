#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints on two levels: a disk of the node first, the run's folder from there; killed, wiped, and pruned."""

import json
import os
import shutil
import signal
import unittest

from harness import TINY, AppTest, program, settings

MPIEXEC = os.environ.get("DOS_MPIEXEC")
EVERY = {"train.checkpoint_every": 1, "train.keep": 3, "train.validate_every": 0}


class Levels(AppTest):
    def setUp(self):
        super().setUp()
        self.disk = self.folder / "disk"
        self.keys = EVERY | {"train.checkpoint_local": self.disk, "train.checkpoint_copy_every": 4}
        # So slow that nothing but the last is ever copied.
        self.slow = self.keys | {"train.checkpoint_copy_rate": 1e-6}

    def listed(self, *arguments, status=0):
        result = program("checkpoints", self.out, "--json", *arguments, cwd=self.folder)
        self.assertEqual(result.returncode, status, result.stderr)
        return json.loads(result.stdout)

    def steps(self, level, *arguments):
        return [each["step"] for each in self.listed(*arguments) if each["level"] == level]

    def local(self):
        """The run's folder on the disk."""
        found, = self.disk.iterdir()
        return found

    def straight(self, **keys):
        out = self.folder / "straight"
        self.trained(keys={"train.validate_every": 0} | keys, out=out)
        return out

    def killed(self, keys, after=6):
        """A run that was killed when it had a checkpoint of this step, in a run that is longer."""
        process = self.start({"train.steps": 1_000_000} | keys, start_new_session=True)
        self.wait_for(lambda: self.disk.exists() and list(self.disk.iterdir()) and self.last(self.local()) >= after, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return max(self.steps("local"))

    def test_both_levels(self):
        self.trained(keys=self.keys)
        self.expect_same_state(self.straight(), self.out)
        self.assertEqual(self.steps("local", "--verify"), [18, 19, 20])
        self.assertEqual(self.steps("shared", "--verify")[-1], 20)
        text = program("checkpoints", self.out, cwd=self.folder)
        self.assertRegex(text.stdout, r"\n +20  local ")
        self.assertRegex(text.stdout, r"\n +20  shared ")

    def test_goes_on_from_the_nearest(self):
        step = self.killed(self.slow)
        self.assertEqual(self.steps("shared"), [])
        self.resumed("auto", "--set", f"train.steps={step + 3}")
        self.assertEqual(self.steps("shared")[-1], step + 3)
        self.assertEqual(self.metrics()[-1]["step"], step + 3)
        # Steps are never done twice: those of the killed run up to its checkpoint, then the others.
        steps = [line["step"] for line in self.metrics() if "loss" in line]
        self.assertEqual(steps, list(range(1, step + 4)))

    def test_goes_on_after_the_disk_was_wiped(self):
        straight = self.straight()
        self.trained(keys=self.keys | {"train.stop_after": 8})
        self.trained("--resume", keys=self.slow | {"train.stop_after": 12})
        shutil.rmtree(self.disk)
        self.assertEqual(self.steps("shared")[-1], 12)
        self.assertEqual(self.steps("local"), [])
        self.resumed("auto", "--set", "train.stop_after=0")
        self.expect_same_state(straight, self.out)
        self.assertEqual(self.steps("local")[-1], 20)

    def test_wiped_before_anything_was_copied(self):
        self.killed(self.slow)
        shutil.rmtree(self.disk)
        self.trained("--resume", "auto", keys=self.slow)
        self.expect_same_state(self.straight(), self.out)

    def test_last_that_was_not_copied_is_brought(self):
        self.trained(keys=self.slow)
        shutil.rmtree(self.checkpoint().parent)
        self.assertEqual(self.steps("shared"), [])
        self.resumed("auto")
        self.expect_same_state(self.straight(), self.out)
        self.assertIn("step 20 is done already", self.resumed("auto").stdout)

    def test_damage_on_the_disk_is_gone_back_from(self):
        self.trained(keys=self.keys | {"train.stop_after": 12, "train.keep": 20})
        path = self.local() / "checkpoints" / "step-00000012" / "optimizer.safetensors"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        self.expect_error(self.resume(), str(path), "tensor '")
        result = self.resumed("auto", "--set", "train.stop_after=0")
        self.assertIn("going back to the checkpoint of step 12", result.stderr, "that of the other level")
        self.expect_same_state(self.straight(), self.out)

    def test_going_back_goes_on_from_there(self):
        """A run that goes back, and is killed before its first copy, goes on on its new way."""
        keys = self.keys | {"train.checkpoint_every": 20, "train.keep": 100, "train.steps": 400}
        self.trained(keys=keys)
        process = self.start(self.slow | keys | {"train.checkpoint_copy_every": 1000}, resume="20", start_new_session=True)
        self.wait_for(lambda: 20 < self.last(self.local()) < 400, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        reached = self.last(self.local())
        self.assertLessEqual(self.last(self.out), 20, "what was gone back from is not the last any more")
        self.resumed("auto", "--set", f"train.stop_after={reached + 1}")
        self.assertEqual(self.metrics()[-1]["step"], reached + 1)
        self.assertEqual(self.last(self.out), reached + 1)

    def test_going_back_without_the_disk_goes_on_from_there(self):
        """The disk has later steps, whether it is there when the run goes back or not."""
        for is_there in (True, False):
            with self.subTest(is_there=is_there):
                self.out = self.folder / f"out{is_there}"
                shutil.rmtree(self.disk, ignore_errors=True)
                self.trained(keys=self.keys | {"train.stop_after": 8})
                self.trained("--resume", keys=self.slow | {"train.keep": 9, "train.stop_after": 12})
                away = self.folder / "away"
                if not is_there:
                    self.disk.rename(away)
                without = {"train.checkpoint_local": "", "train.keep": 9, "train.checkpoint_every": 1}
                self.resumed("8", *settings(without | {"train.stop_after": 10}))
                if not is_there:
                    away.rename(self.disk)
                self.resumed("auto", *settings(without | {"train.stop_after": 11}))
                self.assertEqual([line["step"] for line in self.metrics()], list(range(1, 12)))
                own = [each["step"] for each in self.listed() if not each["aside"]]
                self.assertEqual(max(own), 11)
                self.assertNotIn(12, own)

    def test_runs_do_not_share(self):
        self.trained(keys=self.keys | {"train.stop_after": 3})
        self.trained(keys=self.keys | {"train.stop_after": 5}, out=self.folder / "other")
        self.assertEqual(len(list(self.disk.iterdir())), 2)
        self.assertEqual(self.steps("local"), [1, 2, 3])
        # The same path, another run: nothing of the former is taken over.
        shutil.rmtree(self.out)
        self.trained("--resume", "auto", keys=self.keys | {"train.stop_after": 2})
        self.assertEqual(self.steps("local"), [1, 2])

    def test_a_folder_that_cannot_be_made(self):
        (self.folder / "file").write_text("")
        result = self.train(keys=self.keys | {"train.checkpoint_local": self.folder / "file"})
        self.expect_error(result, "train.checkpoint_local = ", "file", "Not a directory")

    @unittest.skipUnless(MPIEXEC, "no MPI")
    def test_ranks(self):
        keys = TINY | self.keys | {"data.path": self.shared / "data", "train.workers": 1}
        self.trained_on_ranks(2, *settings(keys), "--out", self.out)
        self.assertEqual(self.steps("local", "--verify"), [18, 19, 20])
        self.assertEqual(self.steps("shared", "--verify")[-1], 20)

    # Pruning.

    def prune(self, *arguments):
        result = program("checkpoints", self.out, "--prune", *arguments, cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_prune(self):
        self.trained(keys=EVERY | {"train.keep": 8, "train.validate_every": 19})
        everything = list(range(13, 21))
        self.assertEqual(self.steps("shared"), everything)
        self.assertIn("0 checkpoints", self.prune(), "the run's own rule leaves nothing to do")
        self.assertIn("would remove step 13", self.prune("--keep", 2, "--dry-run"))
        self.assertEqual(self.steps("shared"), everything)
        gone = json.loads(self.prune("--keep", 2, "--json"))
        self.assertEqual([each["step"] for each in gone], [13, 14, 15, 16, 17, 18])
        self.assertEqual(self.steps("shared", "--verify"), [19, 20])

    def test_prune_by_age(self):
        self.trained(keys=EVERY | {"train.keep": 6, "train.stop_after": 6})
        for step in range(1, 7):
            manifest = self.checkpoint(f"step-{step:08}") / "manifest.json"
            hour = 3600 * step / 2
            os.utime(manifest, (hour, hour))
        out = self.prune("--keep", 1, "--keep-every-hours", 1)
        self.assertIn("removed step 2", out)
        self.assertEqual(self.steps("shared"), [1, 3, 5, 6])
        self.prune("--keep", 1)
        self.assertEqual(self.steps("shared"), [6])

    def test_a_run_keeps_by_age(self):
        self.trained(keys=EVERY | {"train.keep": 1, "train.keep_every_hours": 1000})
        self.assertEqual(self.steps("shared"), [1, 20])

    def test_prune_on_both_levels(self):
        self.trained(keys=self.keys)
        self.prune("--keep", 1)
        self.assertEqual(self.steps("local"), [20])
        self.assertEqual(self.steps("shared"), [20])

    def test_prune_leaves_a_run_alone(self):
        process = self.start(EVERY | {"train.steps": 1_000_000})
        self.wait_for(lambda: (self.out / "checkpoints" / "last").exists(), process)
        result = program("checkpoints", self.out, "--prune", cwd=self.folder)
        self.expect_error(result, "the run in ", "is in use by process", str(process.pid), name="checkpoints")
        self.prune("--dry-run")
        process.terminate()
        self.assertEqual(process.wait(30), 0)
        self.prune("--keep", 1)

    def test_prune_says_what_it_needs(self):
        self.expect_error(program("checkpoints", self.out, "--prune", cwd=self.folder), "no such folder", name="checkpoints")
        for arguments in (["--keep", 2], ["--dry-run"], ["--prune", "--keep", 0], ["--prune", "--keep-every-hours", -1],
                          ["--prune", "--verify"]):
            with self.subTest(arguments=arguments):
                self.expect_error(program("checkpoints", self.out, *arguments, cwd=self.folder), "--", name="checkpoints")


if __name__ == "__main__":
    unittest.main()
