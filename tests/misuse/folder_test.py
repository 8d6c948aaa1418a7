#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run's folder and its data: damaged, exchanged, cut short, used by two at once, gone back in."""

import json
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "apps"))
from campaign import MisuseTest  # noqa: E402
from harness import APPS, PATIENCE, TINY, environment, settings, snapshot  # noqa: E402

LONG = {"train.steps": 4000, "train.validate_every": 0, "train.log_every": 1000}


def flipped(data, bit):
    return data[:bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1:]


def flip(path, bit):
    """Flips one bit of the file, in place."""
    path.write_bytes(flipped(path.read_bytes(), bit))


def is_json(text):
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


class FolderMisuse(MisuseTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls("trained")
        case.folder, case.out = cls.shared, cls.shared / "run"
        case.trained(keys={"train.stop_after": 4, "train.validate_every": 2})
        case.out = cls.shared / "reference"
        shutil.copytree(cls.shared / "run", case.out, symlinks=True)
        case.resumed("--set", "train.stop_after=6")

    def copy(self, name):
        folder = self.folder / name
        shutil.copytree(self.shared / "run", folder, symlinks=True)
        return folder

    def expect_refused_or_as_good(self, result, out):
        """One error line and status 1, or the results of a run that nothing was done to."""
        if result.returncode != 0:
            self.expect_error(result)
            return
        self.assertEqual(self.losses(out), self.losses(self.shared / "reference"))
        self.expect_same_state(out, self.shared / "reference")

    def test_bits_of_a_manifest(self):
        """a flipped bit in a checkpoint's manifest.json, then `--resume`"""
        text = (self.shared / "run/checkpoints/last/manifest.json").read_bytes()
        for attempt in self.attempts(20):
            # Most flips are no JSON any more, or in a checksum: every fourth is any, the others are
            # JSON, and before the list of tensors.
            end = text.index(b'"files"') if attempt % 4 else len(text)
            bit = self.random.randrange(8 * end)
            while attempt % 4 and not is_json(flipped(text, bit)):
                bit = self.random.randrange(8 * end)
            out = self.copy(f"out{attempt}")
            with self.attempt(bit=bit):
                flip(self.checkpoint(out=out) / "manifest.json", bit)
                before = snapshot(out)
                result = self.resume("--set", "train.stop_after=6", out=out)
                self.expect_refused_or_as_good(result, out)
                if result.returncode != 0:
                    self.assertEqual(snapshot(out), before)
            shutil.rmtree(out)

    def data(self, name):
        folder = self.folder / name
        folder.mkdir()
        for path in self.shared.glob("data*"):
            shutil.copy(path, folder)
        return folder

    def test_bits_of_a_data_set(self):
        """a flipped bit in a token file or its manifest, before the start or `--resume`"""
        for attempt in self.attempts(12):
            data = self.data(f"data{attempt}")
            path = self.random.choice([data / "data_train.bin", data / "data_val.bin",
                                       data / "data.json"])
            # The header's unused part means nothing.
            first = 8 * 1024 if path.suffix == ".bin" and self.random.random() < 0.8 else 0
            bit = self.random.randrange(first, 8 * path.stat().st_size)
            with self.attempt(file=path.name, bit=bit):
                flip(path, bit)
                is_token = path.suffix == ".bin" and bit >= 8 * 1024
                if attempt % 2:
                    out = self.copy(f"out{attempt}")
                    result = self.resume("--set", "train.stop_after=6", "--set",
                                         f"data.path={data / 'data'}", out=out)
                else:
                    out = self.folder / f"out{attempt}"
                    result = self.train(keys={"data.path": data / "data", "train.stop_after": 6,
                                              "train.validate_every": 2}, out=out)
                if is_token:
                    self.expect_error(result, path.name)
                    self.assertRegex(result.stderr, "its tokens have checksum|outside model.vocab=")
                else:
                    self.expect_refused_or_as_good(result, out)

    def popen(self, *arguments, keys=None, out=None):
        chosen = {"data.path": self.shared / "data"} | TINY | (keys or {})
        process = subprocess.Popen(
            [str(APPS / "train_gpt"), *settings(chosen), "--out", str(out or self.out), "--quiet",
             *arguments], cwd=self.folder, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=environment())
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def finish(self, process):
        output, errors = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess((), process.returncode, output, errors)

    def test_several_runs_into_one_folder(self):
        """two or three runs started together into one folder"""
        for attempt in self.attempts(6):
            self.out = self.folder / f"out{attempt}"
            keys = {"train.steps": 40, "train.checkpoint_every": 3}
            resumes = attempt % 2 == 1
            if resumes:
                self.trained(keys=keys | {"train.stop_after": 4})
            options = ["--resume"] if resumes else []
            offsets = [self.random.uniform(0, 0.12) for _ in range(self.random.choice((1, 2)))]
            with self.attempt(resumes=resumes, offsets=[round(offset, 4) for offset in offsets]):
                processes = [self.popen(*options, keys=keys)]
                for offset in offsets:
                    time.sleep(offset)
                    processes.append(self.popen(*options, keys=keys))
                results = [self.finish(process) for process in processes]
                good = [result for result in results if result.returncode == 0]
                for result in results:
                    if result.returncode != 0:
                        self.expect_error(result, str(self.out))
                        message = result.stderr.splitlines()[-1]
                        self.assertRegex(message, "is in use by process [0-9]+ on |already holds a run")
                # With --resume the second may start when the first is done: "done already".
                self.assertEqual(len([r for r in good if "done already" not in r.stdout]), 1, results)
                steps = [line["step"] for line in self.metrics() if "loss" in line]
                self.assertEqual(steps, list(range(1, 41)))
                self.assertEqual(sorted(p.name for p in self.out.iterdir()),
                                 ["checkpoints", "metrics.jsonl", "run.json", "tokenizer.json"])
                self.resumed("--set", "train.steps=41")

    def test_resume_of_an_established_run(self):
        """`--resume` of a run that is at work"""
        for attempt in self.attempts(3):
            self.out = self.folder / f"out{attempt}"
            wait = self.random.uniform(0, 0.3)
            with self.attempt(wait=round(wait, 4)):
                process = self.popen(keys=LONG | {"train.checkpoint_every": 5})
                self.wait_for(self.checkpoint().exists, process)
                time.sleep(wait)
                self.expect_error(self.resume(), "is in use by process", str(process.pid))
                process.send_signal(signal.SIGTERM)
                result = self.finish(process)
                self.assertEqual(result.returncode, 0, result.stderr)
                steps = [line["step"] for line in self.metrics()]
                self.assertEqual(steps, list(range(1, len(steps) + 1)))

    def test_folders_that_go(self):
        """the folder of a run removed or moved at a random moment, and another run begun there"""
        for attempt in self.attempts(4):
            self.out = self.folder / f"out{attempt}"
            moves, wait = attempt % 2 == 0, self.random.uniform(0, 0.2)
            with self.attempt(moves=moves, wait=round(wait, 4)):
                # Saved at the end alone: else it could take the place again before the other one begins.
                old = self.popen(keys=LONG | {"train.steps": 100_000})
                self.wait_for((self.out / "metrics.jsonl").exists, old)
                time.sleep(wait)
                if moves:
                    self.out.rename(self.folder / f"moved{attempt}")
                else:
                    shutil.rmtree(self.out)
                new = self.popen(keys=LONG | {"train.stop_after": 20})
                self.assertEqual(self.finish(new).returncode, 0)
                before = snapshot(self.out)
                old.send_signal(signal.SIGTERM)
                self.expect_error(self.finish(old), "was removed or moved", str(self.out))
                self.assertEqual(snapshot(self.out), before)

    def test_token_files_cut_short(self):
        """a token file truncated in place at a random moment of a run"""
        for attempt in self.attempts(5):
            data = self.data(f"data{attempt}")
            self.out = self.folder / f"out{attempt}"
            path = data / self.random.choice(("data_train.bin", "data_val.bin"))
            # Validation reads the same few windows every time.
            size = self.random.randrange(path.stat().st_size if "train" in path.name else 1100)
            wait = self.random.uniform(0, 0.2)
            with self.attempt(file=path.name, size=size, wait=round(wait, 4)):
                keys = LONG | {"data.path": data / "data", "train.validate_every": 7}
                process = self.popen(keys=keys)
                self.wait_for((self.out / "metrics.jsonl").exists, process)
                time.sleep(wait)
                good = path.read_bytes()
                with open(path, "r+b") as file:
                    file.truncate(size)
                result = self.finish(process)
                self.expect_error(result, path.name, "was cut short", "continue with --resume")
                path.write_bytes(good)
                step = int(self.checkpoint().resolve().name.removeprefix("step-"))
                self.assertIn(f"the checkpoint of step {step} is intact", result.stderr)
                self.assertEqual(max(line["step"] for line in self.metrics()), step)
                self.resumed("--set", f"train.stop_after={step + 2}")
                straight = self.folder / f"straight{attempt}"
                self.trained(keys=keys | {"train.stop_after": step + 2}, out=straight)
                self.expect_same_state(self.out, straight)

    def test_damaged_metrics(self):
        """random bytes into metrics.jsonl, then `--resume`"""
        for attempt in self.attempts(6):
            out = self.copy(f"out{attempt}")
            path = out / "metrics.jsonl"
            text = bytearray(path.read_bytes())
            for _ in range(self.random.randrange(1, 4)):
                text[self.random.randrange(len(text))] = self.random.randrange(256)
            if self.random.random() < 0.3:
                del text[self.random.randrange(len(text)):]
            with self.attempt(text=text.hex()):
                path.write_bytes(text)
                result = self.resumed("--set", "train.stop_after=6", out=out)
                after = b"".join(p.read_bytes() for p in sorted(out.glob("metrics*.jsonl")))
                for line in bytes(text).split(b"\n"):
                    self.assertIn(line, after)
                for line in (out / "metrics.jsonl").read_bytes().splitlines():
                    json.loads(line)
                for kept in out.glob("metrics.*.jsonl"):
                    self.assertIn(kept.name, result.stderr)
            shutil.rmtree(out)

    def test_going_back_and_forth(self):
        """`--resume STEP` at random steps, further and back again"""
        for attempt in self.attempts(2):
            self.out = self.folder / f"out{attempt}"
            keys = {"train.checkpoint_every": 1, "train.keep": 100, "train.validate_every": 0}
            self.trained(keys=keys | {"train.stop_after": 6})
            for _ in range(4):
                at = self.random.choice([p.name for p in self.checkpoint("").glob("step-*")])
                # Also one that is set aside, step-N.after-M.
                step = int(at.removeprefix("step-").partition(".")[0])
                end = min(20, step + self.random.randrange(1, 4))
                with self.attempt(step=step, end=end):
                    before = self.lines()
                    self.resumed(str(step), "--set", f"train.stop_after={end}")
                    self.assertEqual([line["step"] for line in self.metrics()],
                                     list(range(1, end + 1)))
                    self.assertLessEqual(before, self.lines())

    def lines(self):
        """The lines of all metrics, of branches as well."""
        return {line for path in self.out.glob("metrics*.jsonl")
                for line in path.read_text().splitlines()}


if __name__ == "__main__":
    unittest.main()
