#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Output folders and file systems that take no run, or no more of one."""

import json
import resource
import subprocess
import unittest

from harness import PATIENCE, AppTest


class BadOutput(AppTest):
    def test_below_a_file(self):
        (self.folder / "file").write_text("x")
        for out in ("file/out", "file"):
            result = self.train(out=self.folder / out)
            self.expect_error(result, f"{out}: cannot create the folder: Not a directory")
        self.assertEqual((self.folder / "file").read_text(), "x")

    def test_folder_with_a_run(self):
        self.trained(keys={"train.stop_after": 2})
        before = {p: p.stat().st_mtime_ns for p in self.out.rglob("*")}
        self.expect_error(self.train(), f"{self.out} already holds a run", "--resume")
        self.assertEqual({p: p.stat().st_mtime_ns for p in self.out.rglob("*")}, before)
        (self.out / "metrics.jsonl").unlink()
        self.expect_error(self.train(), f"{self.out} already holds a run", "--resume")

    def mount(self, options, target=None):
        target = target or self.folder / "mounted"
        target.mkdir(parents=True)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(target)],
                                 capture_output=True, text=True)
        if mounted.returncode != 0:
            self.skipTest(f"cannot mount a tmpfs: {mounted.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", str(target)], check=True)
        return target

    def test_read_only_file_system(self):
        target = self.mount("ro")
        self.expect_error(self.train(out=target / "out"),
                          "out: cannot create the folder: Read-only file system")
        self.expect_error(self.train(out=target), "mounted/run.lock: cannot create",
                          "Read-only file system")

    def test_no_place_for_checkpoints(self):
        """Told before the first step, not when the first one comes."""
        self.mount("ro", self.out / "checkpoints")
        self.expect_error(self.train(), f"--out {self.out}", "cannot be written to", "Read-only file system")
        self.assertFalse((self.out / "metrics.jsonl").exists())
        (self.folder / "other").mkdir()
        (self.folder / "other" / "checkpoints").symlink_to(self.folder / "nowhere")
        self.expect_error(self.train(out=self.folder / "other"), "is no folder, and checkpoints go there")
        small = self.mount("size=80k", self.folder / "small")
        result = self.train(out=small / "out")
        self.assertRegex(result.stderr, r"--out .*: a checkpoint takes [0-9.]+ [KM]iB, and [0-9.]+ KiB are free: make room")

    def expect_good_checkpoint(self, out):
        result = self.resume("--set", "train.stop_after=1000", "--dry-run", out=out)
        self.assertEqual(result.returncode, 0, result.stderr)
        copy = self.folder / "copy"
        # A full device has cut the last line of metrics.jsonl, perhaps.
        step = json.loads((self.checkpoint(out=out) / "manifest.json").read_text())["step"]
        self.resumed(out, "--set", f"train.stop_after={step + 1}",
                     "--set", "train.validate_every=0", out=copy)
        self.assertTrue(self.checkpoint(out=copy).exists())

    def test_device_that_becomes_full(self):
        out = self.mount("size=400k") / "out"
        keys = {"train.steps": 3000, "train.checkpoint_every": 5, "train.keep": 100}
        result = self.train(keys=keys, out=out)
        self.expect_error(result, f"{out}/", "No space left on device")
        self.assertEqual([p.name for p in out.rglob("*.tmp")], [])
        self.expect_good_checkpoint(out)

    def test_metrics_that_cannot_grow(self):
        out = self.mount("size=400k") / "out"
        self.trained(keys={"train.stop_after": 5, "train.steps": 3000}, out=out)
        with open(out.parent / "filler", "wb", buffering=0) as filler:
            try:
                while filler.write(bytes(512)):
                    pass
            except OSError:
                pass
        result = self.resume("--quiet", "--set", "train.validate_every=0", out=out)
        self.expect_error(result, f"{out}/", "No space left on device")
        self.assertEqual(len(self.metrics(out)), 5)
        (out.parent / "filler").unlink()
        self.expect_good_checkpoint(out)

    def test_file_size_limit(self):
        # For machines where nothing may be mounted: the kernel refuses files above the limit. The
        # checkpoints of so small a model stay below it.
        last = 3000
        process = self.start({"train.steps": 10**6, "train.stop_after": last, "train.validate_every": 0,
                              "model.width": 2, "model.heads": 1, "train.checkpoint_every": 200},
                             restore_signals=False)
        self.wait_for(self.checkpoint().exists, process)
        size = (self.out / "metrics.jsonl").stat().st_size + 20_000
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, size))
        _, errors = process.communicate(timeout=PATIENCE)
        # Training goes on to its end, and what could not be said ends it with an error.
        self.assertEqual(errors.count("metrics.jsonl: cannot write: File too large; training goes on"), 1, errors)
        self.expect_error(subprocess.CompletedProcess((), process.returncode, "", errors),
                          "metrics.jsonl: cannot write its last", "File too large")
        self.assertLessEqual((self.out / "metrics.jsonl").stat().st_size, size)
        self.assertEqual(self.checkpoint().resolve().name, f"step-{last:08}")
        there = [line["step"] for line in self.metrics_before_the_torn_line()]
        self.assertEqual(there, list(range(1, there[-1] + 1)))
        self.assertLess(there[-1], last)
        result = self.resumed("--quiet", "--set", f"train.stop_after={last + 2}")
        self.assertIn(f"metrics.jsonl: has no lines of steps {there[-1] + 1} to {last}", result.stderr)
        self.assertEqual([line["step"] for line in self.metrics()], [*there, last + 1, last + 2])

    def metrics_before_the_torn_line(self):
        path = self.out / "metrics.jsonl"
        whole = path.read_text().rpartition("\n")[0] + "\n"
        copy = self.folder / "whole"
        copy.mkdir()
        (copy / "metrics.jsonl").write_text(whole)
        return self.metrics(copy)


if __name__ == "__main__":
    unittest.main()
