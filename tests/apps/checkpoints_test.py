#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints while training goes on: asked for, as often as the device writes, listed, damaged, and killed."""

import json
import os
import shutil
import signal
import time
import unittest

from harness import PATIENCE, AppTest, program, settings, snapshot

EVERY = {"train.checkpoint_every": 1, "train.keep": 3, "train.validate_every": 0}


class Checkpoints(AppTest):
    def listed(self, *arguments, status=0):
        result = program("checkpoints", self.out, "--json", *arguments, cwd=self.folder)
        self.assertEqual(result.returncode, status, result.stderr)
        return json.loads(result.stdout)

    def flip(self, step, name="optimizer.safetensors"):
        path = self.checkpoint(f"step-{step:08}") / name
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)

    def test_every_step(self):
        straight = self.folder / "straight"
        self.trained(out=straight, keys={"train.validate_every": 0})
        self.trained(keys=EVERY)
        self.expect_same_state(straight, self.out)
        self.assertEqual([each["step"] for each in self.listed("--verify")], [18, 19, 20])
        ended = [line["checkpoint_step"] for line in self.metrics() if "checkpoint_s" in line]
        self.assertEqual(ended, sorted(set(ended)))

    def test_listed(self):
        self.trained(keys=EVERY | {"train.validate_every": 19})
        found = self.listed()
        self.assertEqual([(each["step"], each["last"], each["best"]) for each in found],
                         [(18, False, False), (19, False, False), (20, True, True)])
        for each in found:
            files = sum(f.stat().st_size for f in self.checkpoint(f"step-{each['step']:08}").iterdir())
            self.assertEqual(each["bytes"], files)
            self.assertIsNone(each["fault"])
        text = program("checkpoints", self.out, "--verify", cwd=self.folder)
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertEqual(text.stdout.count("intact"), 3)
        self.expect_error(program("checkpoints", self.folder / "none", cwd=self.folder),
                          "none: no such folder", "train_gpt --out", name="checkpoints")

    def test_missing_and_short_files_are_listed(self):
        self.trained(keys=EVERY | {"train.stop_after": 3})
        (self.checkpoint("step-00000002") / "optimizer.safetensors").unlink()
        os.truncate(self.checkpoint("step-00000003") / "optimizer.safetensors", 1000)
        found = self.listed(status=1)
        self.assertIsNone(found[0]["fault"])
        for each in found[1:]:
            self.assertIn("optimizer.safetensors", each["fault"])

    def test_what_is_pruned_leaves_an_intact_one(self):
        self.trained(keys=EVERY | {"train.stop_after": 6, "train.keep": 99})
        self.flip(6)
        self.checkpoint().unlink()
        for arguments in (("--dry-run",), ()):
            self.expect_error(program("checkpoints", self.out, "--prune", "--keep", 1, *arguments, cwd=self.folder),
                              "nothing is removed", "step-00000006/optimizer.safetensors: tensor '", name="checkpoints")
        self.assertEqual([each["step"] for each in self.listed()], [1, 2, 3, 4, 5, 6])
        shutil.rmtree(self.checkpoint("step-00000006"))
        pruned = program("checkpoints", self.out, "--prune", "--keep", 1, cwd=self.folder)
        self.assertEqual(pruned.returncode, 0, pruned.stderr)
        self.assertEqual([each["step"] for each in self.listed("--verify")], [5])

    def test_other_folders_are_no_runs(self):
        self.trained("--trace", self.folder / "trace", keys=EVERY | {"train.stop_after": 1})
        (self.folder / "empty").mkdir()
        for folder in (self.folder / "empty", self.folder / "trace", self.checkpoint("step-00000001")):
            for arguments in ((), ("--verify",), ("--prune",)):
                with self.subTest(folder=folder, arguments=arguments):
                    self.expect_error(program("checkpoints", folder, *arguments, cwd=self.folder),
                                      f"{folder}: no run's folder", "train_gpt --out", name="checkpoints")

    def test_a_link_to_nothing_is_gone_back_from(self):
        straight = self.folder / "straight"
        self.trained(keys={"train.validate_every": 0, "train.stop_after": 12}, out=straight)
        self.trained(keys=EVERY | {"train.stop_after": 10})
        shutil.rmtree(self.checkpoint("step-00000010"))
        self.expect_error(self.resume("--set", "train.stop_after=12"), "last: points to 'step-00000010'", "8, 9")
        result = program("train_gpt", "--out", self.out, "--resume", "auto", "--set", "train.stop_after=12",
                         cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("last: points to 'step-00000010'", result.stderr)
        self.expect_same_state(straight, self.out)

    def test_damage_is_found_and_gone_back_from(self):
        straight = self.folder / "straight"
        self.trained(keys={"train.validate_every": 0, "train.stop_after": 12}, out=straight)
        self.trained(keys=EVERY | {"train.stop_after": 10})
        self.flip(10)
        (self.checkpoint("step-00000009") / "manifest.json").write_text("{}")
        found = self.listed("--verify", status=1)
        self.assertEqual([each["fault"] is None for each in found], [True, False, False])
        self.assertIn("optimizer.safetensors: tensor '", found[2]["fault"])
        self.expect_error(self.resume("--set", "train.stop_after=12"), "optimizer.safetensors: tensor '")
        result = program("train_gpt", "--out", self.out, "--resume", "auto", "--set", "train.stop_after=12",
                         cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("going back to the checkpoint of step 8", result.stderr)
        self.expect_same_state(straight, self.out)

    def go_on(self, *arguments, keys, status=0):
        """--resume auto, or from a step, with keys."""
        result = program("train_gpt", "--out", self.out, "--resume", *(arguments or ("auto",)), *settings(keys),
                         cwd=self.folder)
        self.assertEqual(result.returncode, status, result.stderr)
        return result.stderr

    def test_what_no_older_one_would_mend_is_refused_at_once(self):
        self.trained(keys=EVERY | {"train.stop_after": 6, "train.keep": 3})
        for keys, refused in (({"optim.rule": "sgd"}, "this run has optim.rule = sgd"),
                              ({"train.seed": 7}, "this run has 7"), ({"optim.freeze": "*_embedding.*"}, "this run freezes"),
                              ({"model.width": 32}, "this run's 32")):
            with self.subTest(refused):
                said = self.go_on(keys=keys, status=1)
                self.assertIn("step-00000006", said)
                self.assertIn(refused, said)
                self.assertNotIn("going back", said)

    def standing(self):
        """The steps of the run's own checkpoints, and of those that are set aside."""
        listed = self.listed()
        return tuple([each["step"] for each in listed if each["aside"] == aside] for aside in (False, True))

    def test_a_run_that_went_back_keeps_to_its_line(self):
        self.trained(keys=EVERY | {"train.stop_after": 10, "train.keep": 99})
        other = {"optim.lr": 1e-2, "train.checkpoint_every": 3, "train.keep": 99}
        straight = self.folder / "straight"
        self.resumed(self.checkpoint("step-00000006"), *settings(other | {"train.stop_after": 12}), out=straight)
        said = self.go_on("6", keys=other | {"train.stop_after": 9})
        self.assertIn("after step 6 before is set aside, steps 7, 8, 9, 10: ", said)
        self.assertIn("--resume 10 returns there", said)
        self.assertEqual(self.standing(), ([1, 2, 3, 4, 5, 6, 9], [10]))
        self.flip(9)
        said = self.go_on(keys=other | {"train.stop_after": 12})
        self.assertIn("going back to the checkpoint of step 6", said)
        self.expect_same_state(straight, self.out)
        self.assertEqual(self.standing(), ([1, 2, 3, 4, 5, 6, 9, 12], []))

    def test_a_run_that_went_back_and_was_killed_does_not_return(self):
        self.trained(keys=EVERY | {"train.stop_after": 10, "train.keep": 99})
        process = self.start({"train.steps": 1_000_000, "train.validate_every": 0, "train.checkpoint_every": 0}, resume="6")
        self.wait_for(lambda: not self.checkpoint("step-00000010").exists() and self.metrics()[-1]["step"] > 6, process)
        process.kill()
        process.communicate()
        self.assertEqual(self.standing(), ([1, 2, 3, 4, 5, 6], [7, 8, 9, 10]))
        self.go_on(keys={"train.stop_after": 7, "train.steps": 20})
        self.assertEqual([line["step"] for line in self.metrics()], list(range(1, 8)))
        self.assertEqual(self.standing(), ([1, 2, 3, 4, 5, 6, 7], [8, 9, 10]))
        # It returns where it is told to, and then has what it had there, but for the step that it had passed.
        self.go_on("10", keys={"train.stop_after": 11})
        kept = [1, 2, 3, 4, 5, 6, 8, 9, 10]
        self.assertEqual(self.standing(), ([*kept, 11], []))
        self.assertEqual([line["step"] for line in self.metrics()], list(range(1, 12)))
        pruned = program("checkpoints", self.out, "--prune", "--keep", 1, "--json", cwd=self.folder)
        self.assertEqual([each["step"] for each in json.loads(pruned.stdout)], kept)

    def test_a_lost_link_loses_no_step(self):
        straight = self.folder / "straight"
        self.trained(keys={"train.validate_every": 0, "train.stop_after": 12}, out=straight)
        self.trained(keys=EVERY | {"train.stop_after": 10})
        self.checkpoint().unlink()
        self.expect_error(self.resume("--set", "train.stop_after=12"), "no 'last' checkpoint", "8, 9, 10")
        (self.checkpoint("step-00000010") / "manifest.json").write_text("{}")
        said = self.go_on(keys={"train.stop_after": 12})
        self.assertIn("no link 'last': taking the newest checkpoint that is intact, of step 9", said)
        self.expect_same_state(straight, self.out)
        self.assertEqual(self.last(self.out), 12)

    def test_a_folder_that_is_gone_is_not_made_anew(self):
        """As when its disk is unmounted: nothing is to be written to the disk below."""
        moved, log = self.folder / "moved", self.folder / "log"
        with log.open("w") as stream:
            process = self.start({"train.steps": 100_000, "train.validate_every": 0, "train.checkpoint_every": 2},
                                 stderr=stream)
        self.wait_for(lambda: self.last(self.out) > 0, process)
        self.out.rename(moved)
        gone = f"{self.out}: is there no more (No such file or directory); mount its disk again"
        self.wait_for(lambda: log.read_text().count(gone) >= 2, process)
        self.assertFalse(self.out.exists())
        before = self.last(moved)
        moved.rename(self.out)
        self.wait_for(lambda: self.last(self.out) > before, process)
        process.terminate()
        process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, log.read_text())
        self.assertEqual(self.last(self.out), self.metrics()[-1]["step"])

    def test_nothing_begins_anew_where_checkpoints_are(self):
        self.trained(keys=EVERY | {"train.stop_after": 4})
        self.checkpoint().unlink()
        (self.out / "metrics.jsonl").unlink()
        self.expect_error(self.train(keys=EVERY), f"--out {self.out} already holds a run")
        for step in (2, 3, 4):
            (self.checkpoint(f"step-{step:08}") / "manifest.json").write_text("{}")
        before = snapshot(self.out)
        said = self.go_on(keys={}, status=1)
        self.assertIn("no link 'last', and no intact checkpoint that is not set aside: name one", said)
        before.pop("run.lock", None)
        after = snapshot(self.out)
        after.pop("run.lock", None)
        self.assertEqual(after, before)

    def test_one_of_a_later_release_is_not_written_over(self):
        self.trained(keys=EVERY | {"train.stop_after": 3})
        self.edit_manifest(self.checkpoint(), lambda manifest: manifest.update(format=99))
        before = snapshot(self.out)
        for how in ("auto", "last"):
            self.expect_error(self.resume(how), "manifest.json: format 99, but this program reads formats 1 to ",
                              "use the release that wrote it")
        after = snapshot(self.out)
        for each in (before, after):
            each.pop("run.lock", None)
        self.assertEqual(after, before)

    def test_nothing_intact_is_refused(self):
        self.trained(keys=EVERY | {"train.stop_after": 3, "train.keep": 1})
        self.flip(3, "model.safetensors")
        self.expect_error(self.resume("auto"), "model.safetensors: tensor '", "take another one")

    def test_as_often_as_the_device_writes(self):
        result = self.trained(keys={"train.checkpoint_every": "auto", "train.steps": 600,
                                    "train.validate_every": 0})
        self.assertRegex(result.stderr + result.stdout,
                         r"train.checkpoint_every=auto: a checkpoint every (\d+ steps|step): it takes")
        self.assertTrue(any("checkpoint_s" in line for line in self.metrics()))

    def test_listed_while_they_come_and_go(self):
        process = self.start(EVERY | {"train.steps": 1_000_000, "train.keep": 2})
        self.wait_for(lambda: (self.out / "checkpoints" / "last").exists(), process)
        for _ in range(30):
            self.listed("--verify")
        process.terminate()
        self.assertEqual(process.wait(30), 0)

    def test_asked_for(self):
        process = self.start({"train.steps": 100000, "train.validate_every": 0})
        self.wait_for_metrics(process)
        self.assertFalse((self.out / "checkpoints").exists())
        process.send_signal(signal.SIGUSR2)
        self.wait_for(lambda: (self.out / "checkpoints" / "last").exists(), process)
        first = self.checkpoint().resolve()
        time.sleep(0.2)
        self.assertEqual(self.checkpoint().resolve(), first, "one request, one checkpoint")
        process.send_signal(signal.SIGUSR2)
        self.wait_for(lambda: self.checkpoint().resolve() != first, process)
        process.terminate()
        self.assertEqual(process.wait(30), 0)

    def test_without_its_folder_training_goes_on(self):
        """The folder is taken away and comes back, as one of a file system that is mounted again."""
        process = self.start(EVERY | {"train.steps": 1_000_000})
        self.wait_for(lambda: (self.out / "checkpoints" / "last").exists() and self.metrics()[-1]["step"] > 9, process)
        kept = self.folder / "kept"
        (self.out / "checkpoints").rename(kept)
        (self.out / "checkpoints").write_text("no folder")
        before = self.metrics()[-1]["step"]
        self.wait_for(lambda: self.metrics()[-1]["step"] > before + 20, process)
        (self.out / "checkpoints").unlink()
        kept.rename(self.out / "checkpoints")
        before = self.metrics()[-1]["step"]
        self.wait_for(lambda: any(each["step"] > before for each in self.listed()), process)
        process.terminate()
        _, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors)
        self.assertRegex(errors, r"step \d+: no checkpoint: .*/out/checkpoints.*; the checkpoint of step \d+ is "
                                 r"intact, training goes on")
        self.assertEqual(self.listed("--verify")[-1]["step"], self.metrics()[-1]["step"])


if __name__ == "__main__":
    unittest.main()
