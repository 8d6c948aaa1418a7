#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""However backward has its activations: the same numbers, as much memory as was said, and disks that are none."""

import csv
import json
import os
import re
import shutil
import statistics
import subprocess
import unittest
from pathlib import Path

from harness import TINY, AppTest, program, settings

DEEP = {"model.layers": 7, "train.validate_every": 0}
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class Activations(AppTest):
    def setUp(self):
        super().setUp()
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        self.keys = DEEP | {"train.activation_disks": self.disk}

    def dry_run(self, **keys):
        result = self.train("--dry-run", keys=self.keys | {f"train.{key}": value for key, value in keys.items()})
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def trained_in(self, name, keys):
        self.trained(keys=keys, out=self.folder / name)
        return self.folder / name

    def bytes_of_activations(self, **keys):
        found = re.search(r"^ +activations +([0-9.]+) (\w+)", self.dry_run(**keys).stdout, re.MULTILINE)
        return float(found[1]) * UNITS[found[2]]

    def peak(self, keys):
        """The most bytes that a run has resident."""
        shutil.rmtree(self.out, ignore_errors=True)
        child = self.start(keys=keys)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, 0)
        return usage.ru_maxrss * 1024

    def test_same_numbers(self):
        for keys in ({}, {"train.precision": "bf16", "train.accumulate": 2},
                     {"model.preset": "llama-tiny", "model.width": 0, "model.heads": 0}):
            straight = self.folder / f"straight{len(list(self.folder.iterdir()))}"
            self.trained(keys=self.keys | keys, out=straight)
            for plan in ("selective", "disk", "disk:2,recompute:2,selective:1"):
                with self.subTest((keys, plan)):
                    out = self.folder / f"run{len(list(self.folder.iterdir()))}"
                    self.trained(keys=self.keys | keys | {"train.activations": plan}, out=out)
                    self.expect_same_state(straight, out)
                    self.assertEqual(list(self.disk.iterdir()), [])

    def test_beside_updates_ahead_of_the_norm(self):
        """Half of the steps are clipped, and what went ahead is made again."""
        keys = self.keys | {"train.precision": "bf16"}
        straight = self.trained_in("straight", keys)
        norms = [line["grad_norm"] for line in self.metrics(straight) if "grad_norm" in line]
        keys["optim.clip"] = statistics.median(norms)
        straight = self.trained_in("clipped", keys)
        for plan in ("disk", "disk:2,recompute:2,selective:1"):
            out = self.trained_in(plan, keys | {"optim.speculate": "on", "train.activations": plan})
            self.assertGreater(self.metrics(out)[0]["ahead"], 0)
            self.assertEqual({line["redone"] > 0 for line in self.metrics(out) if "redone" in line}, {True, False})
            self.expect_same_state(straight, out)

    @unittest.skipUnless(os.environ.get("DOS_MPIEXEC"), "no MPI")
    def test_of_ranks(self):
        for zero in (1, 3):
            keys = self.keys | {"data.path": self.shared / "data", "train.workers": 1, "train.batch": 2,
                                "dist.zero": zero}
            keys = TINY | keys
            runs = []
            for plan in ("keep", "disk", "disk:2,recompute:2"):
                runs.append(self.folder / f"{zero}-{len(runs)}")
                self.trained_on_ranks(2, *settings(keys | {"train.activations": plan}), "--out", runs[-1])
                self.expect_same_state(runs[0], runs[-1])
                self.assertEqual(list(self.disk.iterdir()), [])

    def test_goes_on_another_way(self):
        straight = self.folder / "straight"
        self.trained(keys=self.keys, out=straight)
        self.trained(keys=self.keys | {"train.activations": "disk", "train.stop_after": 7})
        self.resumed("--set", "train.activations=recompute", "--set", "train.stop_after=0")
        self.expect_same_state(straight, self.out)

    def test_save_memory(self):
        kept = self.bytes_of_activations(activations="keep")
        selective = self.bytes_of_activations(activations="selective")
        moved = self.bytes_of_activations(activations="disk")
        self.assertGreater(kept, selective)
        self.assertGreater(selective, moved)
        self.assertEqual(self.bytes_of_activations(activations="recompute"), self.bytes_of_activations(recompute="true"))

    def test_say_what_a_full_disk_takes(self):
        said = r"activations on disks: [0-9.]+ [KM]iB; of what a disk takes no more [0-9.]+ [KM]iB stay in memory for a step, "
        self.assertRegex(self.dry_run(activations="disk").stdout, said + "all of it\n")
        self.assertNotIn("activations on disks", self.dry_run(activations="recompute").stdout)

    def test_move_nothing_where_all_fits(self):
        result = self.trained(keys=self.keys | {"train.activations": "auto", "sched.disks": ""})
        self.assertIn("train.activations=auto: keep", result.stderr)
        self.assertNotIn("disk_read_bytes", self.metrics()[0])

    def test_are_chosen_by_what_a_gpu_has(self):
        def dry_run(gigabytes, plan):
            return self.train("--dry-run", keys=self.keys | {
                "model.context": 256, "train.batch": 16, "train.gpu_memory": gigabytes, "train.activations": plan})

        def needed(plan):
            found = re.search(r"^memory of GPU.*?^ +total +([0-9.]+) (\w+)$", dry_run(100, plan).stdout,
                              re.MULTILINE | re.DOTALL)
            return float(found[1]) * UNITS[found[2]] / 1e9

        kept, recomputed = needed("keep"), needed("recompute")
        self.assertIn("train.activations=auto: keep: ", dry_run(100, "auto").stderr)
        middle = dry_run((kept + recomputed) / 2, "auto")
        self.assertEqual(middle.returncode, 0, middle.stderr)
        self.assertRegex(middle.stderr, r"=auto: [a-z:0-9,]+: blocks keep .* by .* GFLOP/s, link .* \(assumed")
        self.assertNotIn("auto: keep", middle.stderr)
        self.assertNotIn("DOES NOT FIT", middle.stdout)
        nothing = dry_run(recomputed * 0.9, "auto")
        self.assertEqual(nothing.returncode, 1)
        self.assertRegex(nothing.stderr, r"error: the run needs .*B of memory on GPU 0, planned even with "
                                         r"train.activations=recompute, which takes least, .*B are available")

    def test_have_what_host_memory_leaves(self):
        keys = self.keys | {"train.batch": 16, "model.context": 512, "model.width": 64, "train.steps": 3, "train.activation_disks": ""}
        kept = self.folder / "kept"
        self.trained(keys=keys, out=kept)
        refused = self.train(keys=keys | {"train.host_memory": 0.1})
        self.assertEqual(refused.returncode, 1)
        enough = float(re.search(r"or raise train.host_memory to ([0-9.]+)$", refused.stderr, re.MULTILINE)[1])
        self.assertIn("train.activations=auto", self.train(keys=keys | {"train.host_memory": enough - 0.02}).stderr)
        for limit, plan in ((enough, "keep"), (enough - 0.02, "(selective|recompute).*")):
            with self.subTest(limit):
                peak = self.peak(keys | {"train.host_memory": limit, "train.activations": "auto"})
                self.assertLess(peak, limit * 1e9)
                said = json.loads((self.out / "run.json").read_text(encoding="utf-8"))["configuration"]["train"]
                self.assertRegex(said["activations"], f"^{plan}$")
                self.expect_same_state(kept, self.out)

    # What a program has before it begins is not all in the estimate.
    def test_of_long_sequences_are_as_estimated(self):
        (self.folder / "long.txt").write_text((self.shared / "corpus.txt").read_text(encoding="utf-8") * 20, encoding="utf-8")
        made = program("prepare_data", "--tokenizer", "bytes", "--output", "long", "long.txt", cwd=self.folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        for context, batch, plan in ((4096, 2, "keep"), (2048, 4, "disk")):
            with self.subTest(context):
                keys = self.keys | {"data.path": self.folder / "long", "model.layers": 5, "model.width": 128, "model.context": context,
                                    "train.batch": batch, "train.steps": 2, "train.activations": plan}
                said = self.trained("--dry-run", keys=keys | {"train.host_memory": 0.001}).stdout
                total, before = (float(found[1]) * UNITS[found[2]] for found in (
                    re.search(rf"{words} +([0-9.]+) (\w+)", said) for words in ("\n  total", "program has")))
                peak = self.peak(keys)
                self.assertLess(total, 1.05 * peak)
                self.assertLess(peak, total + before)

    def test_traces(self):
        trace = self.folder / "trace"
        self.trained("--trace", trace, keys=self.keys | {"train.activations": "disk"})
        with open(trace / "rank0" / "storage.csv", encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["purpose"] == "activations"]
        self.assertEqual({row["operation"] for row in rows}, {"read", "write"})
        moved = sum(int(row["bytes"]) for row in rows)
        lines = [line for line in self.metrics() if "loss" in line]
        self.assertEqual(moved, sum(line["disk_read_bytes"] + line["disk_written_bytes"] for line in lines))
        report = program("report", trace, cwd=self.folder)
        self.assertEqual(report.returncode, 0, report.stderr)
        self.assertRegex(report.stdout, r"(?m)^activations, products to disk: [0-9.]+ [KM]iB and .* a step, .* of it not hidden$")
        self.assertRegex(report.stdout, r"(?m)^activations, .* costs most: ")
        costs = {(each["class"], each["where"]): each for each in
                 json.loads(program("report", trace, "--json", cwd=self.folder).stdout)["activations"]}
        self.assertEqual(costs.keys(), {("products", "disk"), ("norms and activation functions", "recompute")})
        self.assertAlmostEqual(costs["products", "disk"]["bytes_a_step"], moved / len(lines), delta=1)

    def test_are_explained(self):
        plan = "disk:2,recompute:2,selective:2"
        text = self.trained("--explain", keys=self.keys | {"train.activations": plan, "train.steps": 2}).stdout
        self.assertIn(f"activations of a micro-batch on one device: {plan}, forecast by rates (assumed", text)
        # Of the four that share three sets of buffers the last three still have theirs.
        rows = re.findall(r"(?m)^  (products|norms and activation functions) +(\w+) +(\d+) blocks +[0-9.]+ GB", text)
        blocks = {row[:2]: int(row[2]) for row in rows}
        self.assertEqual(blocks["products", "disk"], 1)
        for each in ("products", "norms and activation functions"):
            self.assertEqual(sum(count for (name, _), count in blocks.items() if name == each), 7)

    def test_with_states_on_the_same_disk(self):
        keys = self.keys | {"train.precision": "bf16"}
        straight = self.trained_in("straight", keys)
        keys |= {"sched.disks": self.disk, "sched.host_memory": 0}
        for plan in ("keep", "disk", "disk:2,recompute:2,selective:1"):
            out = self.trained_in(f"with-{plan}", keys | {"train.activations": plan})
            self.expect_same_state(straight, out)
            self.assertEqual(list(self.disk.iterdir()), [])

    @unittest.skipUnless(os.access("/dev/shm", os.W_OK), "no /dev/shm")
    def test_warns_of_memory(self):
        folder = Path("/dev/shm") / f"dos-activations-{os.getpid()}"
        folder.mkdir()
        self.addCleanup(folder.rmdir)
        result = self.trained(keys=self.keys | {"train.activations": "disk", "train.activation_disks": folder})
        self.assertIn(f"train.activation_disks: {folder} is in memory (tmpfs)", result.stderr)

    def mounted(self, options):
        """A disk of its own, if that can be had."""
        mount = ["mount", "-t", "tmpfs", "-o", options, "none", self.disk]
        if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
            self.skipTest("no mount here")
        self.addCleanup(subprocess.run, ["umount", self.disk], check=True)
        return self.disk

    def expect_refused(self, keys, *parts):
        for more in ((), ("--dry-run",)):
            with self.subTest((keys, more)):
                result = self.train(*more, keys=self.keys | {"train.activations": "disk"} | keys)
                self.assertEqual(result.returncode, 1)
                error = result.stderr.splitlines()[-1]
                for part in ("train_gpt: error: train.activation_disks: ", *parts):
                    self.assertIn(part, error)
                self.assertFalse(self.out.exists() and list(self.out.glob("checkpoint*")))

    def test_no_folder(self):
        self.expect_refused({"train.activation_disks": self.folder / "none"}, "none' is no folder: make it")

    def test_full_disk(self):
        disk = self.mounted("size=64k")
        self.expect_refused({}, f"to be moved to '{disk}' (64.0 KiB free), where there is room for 64.0 KiB",
                            "make room", "name another disk", "disk:N")
        # What is free counts once for two folders.
        folders = [disk / name for name in ("a", "b")]
        for folder in folders:
            folder.mkdir()
        self.expect_refused({"train.activation_disks": ",".join(map(str, folders))}, "a' and '", "where there is room for 64.0 KiB")

    def test_auto_leaves_a_full_disk(self):
        self.mounted("size=64k")
        most = self.bytes_of_activations(activations="recompute") / 1e9
        result = self.dry_run(activations="auto", host_memory=most + 0.2)
        self.assertNotIn("disk", re.search("train.activations=auto: (.*)", result.stderr)[1].split(";")[0])

    def test_disk_that_cannot_be_written_to(self):
        disk = self.mounted("ro,size=64k")
        self.expect_refused({}, f"'{disk}' cannot be written to: Read-only file system")

    def test_bad_input(self):
        for keys, part in (
                ({"activations": "tape"}, "train.activations = 'tape': 'tape' is no way to have them"),
                ({"activations": "disk:x"}, "'x' is no count of blocks"),
                ({"activations": "disk", "activation_disks": ""}, "no disk is named"),
                ({"activations": "disk", "activation_disks": self.folder / "none"}, "is no folder: make it"),
                ({"activations": "disk", "activation_disks": f"{self.disk}:1MB,{self.disk}"}, "twice: each disk once"),
                ({"activations": "disk", "activation_disks": f"{self.disk}:0.01MB"}, "there is room for "),
                ({"activations": "selective", "recompute": "true"}, "leave one of them out")):
            with self.subTest(keys):
                result = self.train(keys=self.keys | {f"train.{key}": value for key, value in keys.items()})
                self.assertEqual(result.returncode, 1)
                self.assertIn("train_gpt: error: ", result.stderr)
                self.assertIn(part, result.stderr)
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
                self.assertFalse(self.out.exists() and list(self.out.glob("checkpoint*")))


if __name__ == "__main__":
    unittest.main()
