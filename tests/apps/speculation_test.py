#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Updates that go ahead of the norm: the same numbers, whatever is clipped and whoever computes."""

import csv
import os
import statistics
import unittest

from harness import TINY, AppTest, program, settings

BF16 = {"train.precision": "bf16", "train.validate_every": 0, "sched.subgroup_params": 1000}


class Speculation(AppTest):
    def median_norm(self):
        """The gradients' norm that half of the steps exceed."""
        out = self.folder / "norms"
        self.trained(keys=BF16 | {"optim.speculate": "off"}, out=out)
        return statistics.median(line["grad_norm"] for line in self.metrics(out) if "grad_norm" in line)

    def expect_same(self, keys, **options):
        """The same parameters and states with and without; returns the lines of metrics with."""
        runs = []
        for choice in ("off", "on"):
            runs.append(self.folder / f"run{len(list(self.folder.iterdir()))}")
            self.trained(keys=BF16 | keys | {"optim.speculate": choice}, out=runs[-1], **options)
        self.expect_same_state(*runs)
        self.assertNotIn("ahead", self.metrics(runs[0])[0])
        return [line for line in self.metrics(runs[1]) if "loss" in line]

    def test_same_numbers(self):
        median = self.median_norm()
        for clip, least, most in ((1e6, 0, 0), (median, 5, 15), (1e-3, 20, 20)):
            with self.subTest(clip):
                lines = self.expect_same({"optim.clip": clip})
                self.assertGreater(lines[0]["ahead"], 4)
                self.assertEqual({line["redone"] in (0, line["ahead"]) for line in lines}, {True})
                redone = sum(line["redone"] > 0 for line in lines)
                self.assertTrue(least <= redone <= most, redone)

    def test_is_explained(self):
        for choice, said in (("on", r"(?m)^updates ahead of the norm: in 20 of 20 steps, made again in 20; a step hid [\d.]+ ms "),
                             ("off", "")):
            with self.subTest(choice):
                keys = BF16 | {"optim.clip": 1e-3, "optim.speculate": choice}
                text = self.trained("--explain", keys=keys, out=self.folder / choice).stdout
                self.assertRegex(text, said or "update plan: ")
                self.assertEqual("updates ahead" in text, bool(said))

    def test_same_numbers_after_five_hundred_steps(self):
        lines = self.expect_same({"optim.clip": self.median_norm(), "train.steps": 500, "train.checkpoint_every": 250})
        redone = sum(line["redone"] > 0 for line in lines)
        self.assertTrue(0 < redone < len(lines), redone)

    def test_with_everything_else(self):
        median = self.median_norm()
        for keys in ({"optim.rule": "lion"}, {"optim.rule": "sgd"}, {"optim.rule": "adagrad"},
                     {"train.recompute": "true", "train.accumulate": 2}, {"train.gradient_precision": "bf16"},
                     {"train.run_ahead": 1}, {"train.checkpoint_every": 1}, {"optim.freeze": "*_embedding.*"},
                     {"lora.rank": 2},
                     {"model.preset": "llama-tiny", "model.layers": 0, "model.width": 0, "model.heads": 0}):
            with self.subTest(keys):
                self.expect_same({"optim.clip": median} | keys)

    def test_beside_disks(self):
        """What lives on disks waits for the norm."""
        disk = self.folder / "disk"
        disk.mkdir()
        lines = self.expect_same({"optim.clip": self.median_norm(), "sched.disks": disk, "sched.host_memory": 0.00009})
        self.assertGreater(lines[0]["ahead"], 0)
        # A read may be over before the step that needs it begins.
        self.assertGreater(sum(line["disk_read_bytes"] for line in lines), 0)

    def test_goes_on_from_each_other(self):
        keys = BF16 | {"optim.clip": self.median_norm()}
        straight = self.folder / "straight"
        self.trained(keys=keys | {"optim.speculate": "off"}, out=straight)
        self.trained(keys=keys | {"optim.speculate": "on", "train.stop_after": 7})
        self.resumed("--set", "optim.speculate=off", "--set", "train.stop_after=13")
        self.resumed("--set", "optim.speculate=on", "--set", "train.stop_after=0")
        self.expect_same_state(straight, self.out)

    def test_trace(self):
        trace = self.folder / "trace"
        self.trained("--trace", trace, keys=BF16 | {"optim.speculate": "on", "optim.clip": self.median_norm()})
        with open(trace / "rank0" / "tasks.csv", encoding="utf-8", newline="") as file:
            codelets = [row["codelet"] for row in csv.DictReader(file)]
        lines = [line for line in self.metrics() if "loss" in line]
        self.assertEqual(sum(name.startswith("dos.redo.") for name in codelets), sum(line["redone"] for line in lines))
        self.assertEqual(sum(".apart." in name for name in codelets), sum(line["ahead"] for line in lines))
        self.assertEqual(program("report", trace, cwd=self.folder).returncode, 0)

    def test_memory_is_counted(self):
        def states(choice):
            dry = self.train("--dry-run", keys=BF16 | {"optim.speculate": choice})
            self.assertEqual(dry.returncode, 0, dry.stderr)
            line = next(line for line in dry.stdout.splitlines() if line.strip().startswith("optimizer states"))
            return float(line.split()[-2]), line.split()[-1]

        (off, unit), (on, same_unit) = states("off"), states("on")
        self.assertEqual(unit, same_unit)
        self.assertGreater(on, 1.8 * off)
        self.assertEqual(states("auto"), (off, unit), "without a device nothing is gained")

    def test_refuses(self):
        result = self.train(keys=BF16 | {"optim.speculate": "on", "optim.clip": 0})
        self.expect_error(result, "optim.speculate", "optim.clip = 0")
        result = self.train(keys={"optim.speculate": "on"})
        self.expect_error(result, "optim.speculate", "train.precision=bf16")
        self.expect_error(self.train(keys={"optim.speculate": "perhaps"}), "optim.speculate", "perhaps")
        self.expect_nothing_written()

    @unittest.skipUnless(os.environ.get("DOS_MPIEXEC"), "no MPI")
    def test_ranks(self):
        keys = {"data.path": self.shared / "data"} | TINY | BF16 | {"train.workers": 1, "train.batch": 2}
        keys["optim.clip"] = self.median_norm()
        for ranks, zero in ((2, 1), (2, 2), (2, 3), (3, 2), (3, 3), (4, 1), (4, 3)):
            with self.subTest(f"{ranks} ranks, ZeRO {zero}"):
                runs = []
                for choice in ("off", "on"):
                    runs.append(self.folder / f"{ranks}-{zero}-{choice}")
                    self.trained_on_ranks(
                        ranks, *settings(keys | {"dist.zero": zero, "optim.speculate": choice}), "--out", runs[-1])
                self.expect_same_state(*runs)


if __name__ == "__main__":
    unittest.main()
