#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run that was interrupted and resumed ends with the bits of one that was not.

train.lanes (0: one a worker) and sched.subgroup_params decide the order of sums, so both must be
the same in all parts; the number of workers need not be."""

import json
import random
import shutil
import signal
import time
import unittest

from harness import PATIENCE, AppTest, program, snapshot

LONG = {"train.steps": 4000, "train.validate_every": 0, "train.log_every": 1000}


class Resume(AppTest):
    def expect_resume_keeps_bits(self, keys, *later):
        straight, parts = self.folder / "straight", self.folder / "parts"
        self.trained(keys=keys, out=straight)
        self.trained(keys=keys | {"train.stop_after": 10}, out=parts)
        self.assertEqual(self.metrics(parts)[-1]["step"], 10)
        self.resumed(*later, out=parts)
        self.assertEqual(self.losses(parts), self.losses(straight))
        self.assertEqual(len(self.metrics(straight)), 22)
        self.expect_same_state(straight, parts)

    def test_plain(self):
        self.expect_resume_keeps_bits({})

    def test_accumulated(self):
        self.expect_resume_keeps_bits({"train.accumulate": 2})

    def test_recomputed(self):
        self.expect_resume_keeps_bits({"train.recompute": "true", "model.layers": 3})

    def test_in_small_subgroups_without_clipping(self):
        self.expect_resume_keeps_bits({"sched.subgroup_params": 100, "optim.clip": 0})

    def test_in_bf16(self):
        self.expect_resume_keeps_bits({"train.precision": "bf16", "sched.subgroup_params": 1000})

    def test_in_bf16_with_bf16_gradients(self):
        self.expect_resume_keeps_bits({"train.precision": "bf16", "train.accumulate": 2,
                                       "train.gradient_precision": "bf16"})

    def test_in_another_precision(self):
        for start, then in (("fp32", "bf16"), ("bf16", "fp32")):
            first, second = self.folder / f"{start}-first", self.folder / f"{start}-second"
            self.trained(keys={"train.stop_after": 10, "train.precision": start}, out=first)
            self.resumed(first, "--set", f"train.precision={then}", out=second)
            manifest = json.loads((self.checkpoint(out=second) / "manifest.json").read_text())
            self.assertEqual(manifest["configuration"]["train"]["precision"], then)
            losses = [line["loss"] for out in (first, second) for line in self.metrics(out)
                      if "loss" in line]
            self.assertEqual(len(losses), 20)
            # No jump: a loss of these sequences moves by less from step to step.
            self.assertLess(abs(losses[10] - losses[9]), 0.5)

    def test_with_another_number_of_workers(self):
        self.expect_resume_keeps_bits({}, "--set", "train.workers=1")

    def test_with_another_scheduler(self):
        """Both named by the environment, which no checkpoint knows."""
        straight, first = self.folder / "straight", self.folder / "first"
        self.trained(out=straight, env={"STARPU_SCHED": "dos"})
        self.trained(keys={"train.stop_after": 10}, out=first, env={"STARPU_SCHED": "dos"})
        for scheduler in ("eager", "dmdas", "zero-offload"):
            with self.subTest(scheduler):
                out = self.folder / scheduler
                shutil.copytree(first, out, symlinks=True)
                self.resumed(out=out, env={"STARPU_SCHED": scheduler})
                self.assertEqual(json.loads((out / "run.json").read_text())["runtime"]["scheduler"], scheduler)
                self.assertEqual(self.losses(out), self.losses(straight))
                self.expect_same_state(straight, out)

    def test_with_another_number_of_lanes(self):
        """It begins with the bits of the checkpoint; from there on sums have another order, the same in each part."""
        straight, first = self.folder / "straight", self.folder / "first"
        self.trained(out=straight)
        self.trained(keys={"train.stop_after": 10}, out=first)
        for lanes in (1, 3):
            with self.subTest(lanes):
                at_once, parts = self.folder / f"at-once{lanes}", self.folder / f"parts{lanes}"
                for out in (at_once, parts):
                    shutil.copytree(first, out, symlinks=True)
                self.resumed("--set", f"train.lanes={lanes}", out=at_once)
                self.resumed("--set", f"train.lanes={lanes}", "--set", "train.stop_after=15", out=parts)
                self.resumed(out=parts)
                self.assertEqual(self.losses(parts), self.losses(at_once))
                self.expect_same_state(at_once, parts)
                # The first loss behind the checkpoint: of the same parameters, whose sum over 64 tokens has another order.
                losses = [next(line["loss"] for line in self.metrics(out) if line["step"] == 11)
                          for out in (at_once, straight)]
                self.assertAlmostEqual(*losses, delta=64 * losses[1] * 2**-23)

    def test_data_of_several_epochs(self):
        self.expect_resume_keeps_bits({"train.batch": 60, "model.context": 8})

    def test_twice(self):
        straight = self.folder / "straight"
        self.trained(out=straight)
        self.trained(keys={"train.stop_after": 3})
        self.resumed("--set", "train.stop_after=11")
        self.resumed()
        self.assertEqual(self.losses(), self.losses(straight))
        self.expect_same_state(straight, self.out)

    def test_from_an_earlier_step_drops_the_later_lines(self):
        self.trained(keys={"train.checkpoint_every": 5, "train.keep": 4})
        before = self.losses()
        last = (self.checkpoint() / "model.safetensors").read_bytes()
        self.resumed("5", "--set", "train.stop_after=7")
        self.assertEqual([line["step"] for line in self.metrics()], list(range(1, 8)))
        self.resumed()
        self.assertEqual(self.losses(), before)
        self.assertEqual((self.checkpoint() / "model.safetensors").read_bytes(), last)

    def test_from_a_path_into_another_folder(self):
        straight, first = self.folder / "straight", self.folder / "first"
        self.trained(out=straight)
        self.trained(keys={"train.stop_after": 10}, out=first)
        self.resumed(first)
        self.expect_same_state(straight, self.out)
        self.assertEqual(self.metrics()[0]["step"], 11)

    def test_from_a_path_that_ends_in_a_slash_or_a_point(self):
        self.trained(keys={"train.stop_after": 3, "train.checkpoint_every": 1, "train.keep": 9})
        step = self.checkpoint("step-00000003")
        for path, cwd in ((f"{step}/", None), (f"{step}/.", None), (".", step), (f"{self.checkpoint()}/", None)):
            with self.subTest(path=path):
                result = program("train_gpt", "--out", self.out, "--resume", path, "--dry-run", cwd=cwd or self.folder)
                self.assertEqual(result.returncode, 0, result.stderr)
        self.checkpoint().unlink()
        self.checkpoint().symlink_to("step-00000003/")
        self.resumed("--set", "train.stop_after=4")
        self.resumed(f"{step}/", "--set", "train.stop_after=5")
        self.assertEqual(self.last(self.out), 5)

    def test_from_another_folder_into_a_used_one(self):
        first = self.folder / "first"
        self.trained(keys={"train.stop_after": 10}, out=first)
        self.trained(keys={"train.stop_after": 4})
        before = snapshot(self.out)
        self.expect_error(self.resume(first), f"--out {self.out} already holds a run, and {first}/checkpoints/step-00000010 is "
                                              f"a checkpoint of another")
        self.assertEqual(snapshot(self.out), before)

    def test_with_another_batch_the_data_go_on(self):
        self.trained(keys={"train.stop_after": 10})
        self.resumed("--set", "train.batch=2", "--set", "train.stop_after=11")
        tokens = {line["step"]: line["tokens"] for line in self.metrics() if "tokens" in line}
        self.assertEqual(tokens[10], 10 * 4 * 16)
        self.assertEqual(tokens[11], tokens[10] + 2 * 16)
        consumed = json.loads((self.checkpoint() / "manifest.json").read_text())
        self.assertEqual(consumed["samples_consumed"], 42)

    def test_with_another_seed(self):
        self.trained(keys={"train.stop_after": 2})
        before = snapshot(self.out)
        self.expect_error(self.resume("--set", "train.seed=5"), "manifest.json",
                          "made with train.seed = 1337, this run has 5")
        self.assertEqual(snapshot(self.out), before)

    def test_with_another_tokenizer(self):
        self.trained(keys={"train.stop_after": 2})
        self.edit_manifest(self.checkpoint(), lambda m: m["tokenizer"].update(kind="other"))
        before = snapshot(self.out)
        self.expect_error(self.resume(), "manifest.json", "made with tokenizer", '"other"',
                          "use data prepared with that tokenizer")
        self.assertEqual(snapshot(self.out), before)

    def test_auto_starts_afresh_where_there_is_nothing(self):
        self.trained("--resume", "auto", keys={"train.stop_after": 2})
        self.assertEqual(len(self.metrics()), 2)
        self.trained("--resume", "auto", keys={"train.stop_after": 4})
        self.assertEqual(len(self.metrics()), 4)

    def test_done_already(self):
        self.trained(keys={"train.steps": 2})
        files = {p: p.stat().st_mtime_ns for p in self.out.rglob("*")}
        result = self.resumed()
        self.assertEqual(result.stdout, "step 2 is done already: raise train.steps or "
                                        "train.stop_after to go on\n")
        self.assertEqual({p: p.stat().st_mtime_ns for p in self.out.rglob("*")}, files)

    def test_a_torn_metrics_line_is_removed(self):
        self.trained(keys={"train.stop_after": 4})
        with open(self.out / "metrics.jsonl", "a") as file:
            file.write('{"step":4,"val_lo')
        self.resumed("--set", "train.stop_after=6")
        self.assertEqual([line["step"] for line in self.metrics()], [1, 2, 3, 4, 5, 6])


class Interrupted(AppTest):
    def expect_interruption_keeps_bits(self, name):
        process = self.start(LONG)
        self.wait_for_metrics(process, lines=20)
        process.send_signal(getattr(signal, name))
        output, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors)
        stopped = self.metrics()[-1]["step"]
        self.assertIn(f"stopped by {name} after step {stopped} of 4000; continue with --out",
                      output)
        self.assertEqual(self.checkpoint().resolve().name, f"step-{stopped:08}")
        end = stopped + 5
        self.resumed("--set", f"train.stop_after={end}")
        straight = self.folder / "straight"
        self.trained(keys=LONG | {"train.stop_after": end}, out=straight)
        self.assertEqual(self.losses(), self.losses(straight))
        self.expect_same_state(straight, self.out)

    def test_sigint(self):
        self.expect_interruption_keeps_bits("SIGINT")

    def test_sigterm(self):
        self.expect_interruption_keeps_bits("SIGTERM")

    def test_sigusr1(self):
        self.expect_interruption_keeps_bits("SIGUSR1")

    def test_a_lost_terminal_is_nothing_to_who_ignores_it(self):
        process = self.start({"train.steps": 200}, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))  # nohup
        self.wait_for_metrics(process, lines=5)
        process.send_signal(signal.SIGHUP)
        output, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors)
        self.assertNotIn("stopped", output)
        self.assertEqual(self.last(self.out), 200)

    def test_a_signal_before_the_first_step(self):
        process = self.start(LONG)
        self.wait_for(self.out.exists, process)
        process.send_signal(signal.SIGUSR1)
        output, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors)
        self.assertIn("stopped by SIGUSR1 after step 0 of 4000", output)
        self.resumed("--set", "train.stop_after=5")
        self.assertEqual(self.metrics()[-1]["step"], 5)

    def test_many_signals_ask_for_the_same(self):
        process = self.start(LONG)
        self.wait_for_metrics(process, lines=20)
        for name in ("SIGTERM", "SIGTERM", "SIGINT", "SIGUSR1", "SIGINT"):
            process.send_signal(getattr(signal, name))
        _, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors)
        self.assertEqual(self.checkpoint().resolve().name, f"step-{self.metrics()[-1]['step']:08}")

    def test_a_third_signal_after_ten_seconds_ends_at_once(self):
        # A step of minutes, whose samples are read within a second, on one core.
        process = self.start(LONG | {"train.batch": 64, "train.lanes": 1, "train.workers": 1, "train.accumulate": 1000,
                                     "model.width": 256, "model.layers": 4, "model.context": 64})
        self.wait_for((self.out / "run.json").exists, process)
        time.sleep(1)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        time.sleep(2)
        process.send_signal(signal.SIGTERM)
        time.sleep(1)
        process.send_signal(signal.SIGUSR1)
        process.send_signal(signal.SIGTERM)
        while time.monotonic() < begin + 10:
            self.assertIsNone(process.poll(), "the run ended before ten seconds were over")
            time.sleep(0.1)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertIn("still stopping after the current step", errors)

    def test_a_crash_is_left_to_the_system(self):
        for number, name in enumerate(("SIGSEGV", "SIGABRT", "SIGBUS")):
            with self.subTest(name):
                self.out = self.folder / f"out{number}"
                process = self.start(LONG)
                self.wait_for_metrics(process)
                process.send_signal(getattr(signal, name))
                _, errors = process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, -getattr(signal, name))
                self.assertNotIn("PLEASE submit a bug report", errors)
                self.assertNotIn("backtrace", errors)

    def test_kill_at_any_moment(self):
        keys = LONG | {"train.checkpoint_every": 1}
        generator = random.Random(11)
        for attempt in range(3):
            self.out = self.folder / f"out{attempt}"
            process = self.start(keys)
            self.wait_for(self.checkpoint().exists, process)
            time.sleep(generator.uniform(0, 0.15))
            process.kill()
            process.communicate(timeout=PATIENCE)
            killed_at = int(self.checkpoint().resolve().name.removeprefix("step-"))
            end = killed_at + 3
            self.resumed("--set", f"train.stop_after={end}", "--set", "train.checkpoint_every=0")
            straight = self.folder / f"straight{attempt}"
            self.trained(keys=LONG | {"train.stop_after": end}, out=straight)
            self.assertEqual(self.losses(), self.losses(straight))
            self.expect_same_state(straight, self.out)
            leftovers = [p.name for p in (self.out / "checkpoints").iterdir() if "tmp" in p.name]
            self.assertEqual(leftovers, [])


if __name__ == "__main__":
    unittest.main()
