#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run's folder and data: what is good is never lost, and what has changed is told."""

import json
import re
import shutil
import subprocess
import time
import unittest

from harness import APPS, PATIENCE, AppTest, environment, program, snapshot, token_file, xxh3


class Data(AppTest):
    """Each test has a data set of its own, `mine`, of 300 pieces."""

    def setUp(self):
        super().setUp()
        self.prepare("mine")
        self.keys = {"data.path": self.folder / "mine", "train.stop_after": 3}

    def prepare(self, name, *options, text=None):
        corpus = self.shared / "corpus.txt"
        if text is not None:
            corpus = self.folder / f"{name}.txt"
            corpus.write_text(text)
        chosen = options or ("--tokenizer", "sentencepiece", "--vocab-size", 300)
        made = program("prepare_data", *chosen, "--output", name, corpus, cwd=self.folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        return self.folder / name

    def expect_refused_untouched(self, result, *parts):
        before = snapshot(self.out)
        self.expect_error(result, *parts)
        self.assertEqual(snapshot(self.out), before)

    def test_a_damaged_tokenizer_replaces_no_good_one(self):
        self.trained(keys=self.keys)
        kept = snapshot(self.out)
        model = self.folder / "mine.model"
        good = model.read_bytes()
        for damaged in (b"", good[:-1], good[:-1] + bytes([good[-1] ^ 1])):
            model.write_bytes(damaged)
            self.expect_error(self.resume(), str(model), "not the model",
                              f"the run has a good copy, {self.out / 'tokenizer.model'}")
            self.assertEqual(snapshot(self.out), kept)
            fresh = self.folder / "fresh"
            self.expect_error(self.train(keys=self.keys, out=fresh), str(model), "not the model")
            self.assertFalse(fresh.exists())
        shutil.copy(self.out / "tokenizer.model", model)
        self.resumed("--set", "train.stop_after=4")

    def test_a_damaged_copy_of_the_tokenizer_is_mended(self):
        self.trained(keys=self.keys)
        copy = self.out / "tokenizer.model"
        good = copy.read_bytes()
        copy.write_bytes(good[:-9])
        result = self.resumed("--set", "train.stop_after=4")
        self.assertIn("copy of the tokenizer is damaged and is replaced", result.stderr)
        self.assertEqual(copy.read_bytes(), good)

    def test_another_tokenizer_of_the_same_size(self):
        self.trained(keys=self.keys)
        other = self.prepare("other", text="another text of other words altogether, " * 400)
        self.expect_refused_untouched(self.resume("--set", f"data.path={other}", "--new-data"),
                                      "the data changed: made with tokenizer", "model_hash")
        # As one who has exchanged both the data and the run's copy would.
        manifest = json.loads((self.out / "tokenizer.json").read_text())
        manifest["vocabulary"] = 301
        (self.out / "tokenizer.json").write_text(json.dumps(manifest))
        self.expect_refused_untouched(self.resume(), f"{self.folder / 'mine.json'}: ",
                                      str(self.out / "tokenizer.json"), "the data changed")

    def test_another_data_set_of_the_same_tokenizer(self):
        self.trained(keys=self.keys)
        model = ("--tokenizer", "sentencepiece", "--model", self.folder / "mine.model")
        text = (self.shared / "corpus.txt").read_text()
        for name, changed, what in (("longer", text + "to be\n" * 99, " tokens, now "),
                                    ("same", text[:2000] + text[2000:4000][::-1] + text[4000:],
                                     "tokens")):
            other = self.prepare(name, *model, text=changed)
            self.expect_refused_untouched(self.resume("--set", f"data.path={other}"),
                                          "manifest.json: the data changed", f"{other}_train.bin",
                                          what, "--set data.path=PREFIX", "--new-data")
        result = self.resumed("--set", f"data.path={other}", "--new-data", "--set",
                              "train.stop_after=4")
        self.assertNotIn("error", result.stderr)
        self.resumed("--set", "train.stop_after=5")

    def test_new_data_go_on_from_something(self):
        self.expect_error(self.train("--new-data", keys=self.keys), "--new-data needs --resume")
        self.expect_nothing_written()

    def test_data_with_another_vocabulary(self):
        self.trained(keys=self.keys)
        self.expect_refused_untouched(self.resume("--set", f"data.path={self.shared / 'data'}"),
                                      "the data changed: made with tokenizer", "sentencepiece",
                                      "use data prepared with that tokenizer")
        (self.folder / "mine.json").rename(self.folder / "away.json")
        self.expect_refused_untouched(self.resume(), "the data changed: made with tokenizer", "mine has no manifest any more",
                                      "put PREFIX.json back")
        self.expect_refused_untouched(self.resume("--new-data"), "has vocabulary = 300", "use the data set")

    def test_the_same_data_elsewhere(self):
        self.trained(keys=self.keys)
        (self.folder / "moved").mkdir()
        for path in self.folder.glob("mine*"):
            if path.is_file():
                path.rename(self.folder / "moved" / path.name)
        self.resumed("--set", f"data.path={self.folder / 'moved' / 'mine'}", "--set",
                     "train.stop_after=4")

    def test_a_checkpoint_knows_its_data(self):
        self.trained(keys=self.keys)
        data = json.loads((self.checkpoint() / "manifest.json").read_text())["data"]
        prepared = json.loads((self.folder / "mine.json").read_text())
        for split in ("train", "val"):
            self.assertEqual(data[split]["tokens"], prepared["tokens"][split])
            self.assertEqual(data[split]["xxh3"], prepared["xxh3"][split])

    def test_a_flipped_bit_is_found_before_the_start(self):
        path = self.folder / "mine_train.bin"
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        for options in ((), ("--verify",), ("--verify", "--dry-run")):
            self.expect_error(self.train(*options, keys=self.keys), f"{path}: ", "checksum",
                              "copy it again or write the data set again")
            self.expect_nothing_written()
        self.trained("--dry-run", keys=self.keys)

    def test_generate_with_another_tokenizer(self):
        self.trained(keys=self.keys)
        other = self.prepare("other", text="another text of other words altogether, " * 400)
        for data in (other, self.shared / "data"):
            result = program("generate", self.out, "--data", data, cwd=self.folder)
            self.expect_error(result, f"{data}.json", "the model was trained with", "--data",
                              "leave that out", name="generate")
            self.assertEqual(result.stdout, "")
        good = program("generate", self.out, "--data", self.folder / "mine", cwd=self.folder)
        self.assertEqual((good.returncode, good.stderr), (0, ""))
        for ending in ("json", "model"):
            shutil.copy(f"{other}.{ending}", self.out / f"tokenizer.{ending}")
        result = program("generate", self.out, cwd=self.folder)
        self.expect_error(result, f"{self.out / 'tokenizer'}.json", "--data", name="generate")


class ForeignData(AppTest):
    """Token files without a manifest."""

    def setUp(self):
        super().setUp()
        self.tokens = [i * 7 % 250 for i in range(5000)]
        self.write(self.tokens)
        self.keys = {"data.path": self.folder / "d", "model.vocab": 256}

    def write(self, tokens):
        (self.folder / "d_train.bin").write_bytes(token_file(tokens))
        (self.folder / "d_val.bin").write_bytes(token_file(tokens[:600]))

    def test_says_once_that_there_is_no_checksum(self):
        result = self.trained(keys=self.keys | {"train.steps": 3})
        self.assertEqual(result.stderr.count("no checksums"), 1, result.stderr)

    def test_exchanged_data(self):
        self.trained(keys=self.keys | {"train.stop_after": 3})
        self.write([251] + self.tokens[1:])
        self.expect_error(self.resume(), "the data changed", "d_train.bin has 5000 tokens as before")
        self.resumed("--new-data", "--set", "train.stop_after=4")

    def test_a_token_beyond_the_vocabulary_that_appears_during_a_run(self):
        process = self.start(self.keys | {"train.steps": 100000, "train.validate_every": 0})
        self.wait_for_metrics(process, lines=3)
        good = (self.folder / "d_train.bin").read_bytes()
        with open(self.folder / "d_train.bin", "r+b") as file:
            file.seek(1024)
            file.write(b"\xff\xff" * 2000)
        _, errors = process.communicate(timeout=PATIENCE)
        self.expect_error(subprocess.CompletedProcess((), process.returncode, "", errors),
                          "d_train.bin: token 65535 at position", "is outside model.vocab=256")
        step = self.metrics()[-1]["step"]
        self.assertIn(f"the checkpoint of step {step} is intact", errors)
        self.assertEqual(self.checkpoint().resolve().name, f"step-{step:08}")
        (self.folder / "d_train.bin").write_bytes(good)
        self.resumed("--set", f"train.stop_after={step + 1}")


class Names(AppTest):
    def test_names_that_are_not_utf8(self):
        name = b"caf\xe9"
        folder = str(self.folder).encode()
        for path in self.shared.glob("data*"):
            shutil.copy(path, folder + b"/" + name + path.name.removeprefix("data").encode())

        def run(*arguments):
            return subprocess.run([APPS / "train_gpt", *arguments], cwd=self.folder, timeout=PATIENCE,
                                  capture_output=True, env=environment())
        keys = [b"--set", b"model.preset=tiny", b"--set", b"train.stop_after=1"]
        result = run(*keys, b"--set", b"data.path=" + name, b"--out", str(self.out).encode())
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"error: data.path = '" + name + b"' is not UTF-8: rename", result.stderr)
        self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
        self.expect_nothing_written()
        data = str(self.shared / "data").encode()
        result = run(*keys, b"--set", b"data.path=" + data, b"--out", folder + b"/" + name)
        self.assertEqual(result.returncode, 0, result.stderr)


class Folder(AppTest):
    def test_no_file_is_written_through_a_link(self):
        target = self.folder / "target"
        target.write_text("precious")
        self.trained(keys={"train.stop_after": 3})
        names = ["metrics.jsonl.tmp", "run.json.tmp", "tokenizer.json.tmp",
                 "checkpoints/last.tmp", "checkpoints/best.tmp", "checkpoints/step-00000005.tmp",
                 "metrics.branch-1.jsonl"]
        for name in names:
            (self.out / name).symlink_to(target)
        self.resumed("--set", "train.stop_after=5")
        for name in ("metrics.jsonl", "run.lock"):
            (self.out / name).unlink(missing_ok=True)
            (self.out / name).symlink_to(target)
            result = self.resume("--set", "train.stop_after=6")
            self.assertEqual(target.read_text(), "precious", result.stderr)
        self.expect_error(result, "run.lock: cannot create")

    def test_a_renamed_checkpoint(self):
        self.trained(keys={"train.stop_after": 3})
        checkpoints = self.out / "checkpoints"
        (checkpoints / "step-00000003").rename(checkpoints / "step-00000009")
        before = snapshot(self.out)
        self.expect_error(self.resume("9"), "is of step 3, its folder is named after step 9",
                          "rename the folder back")
        self.assertEqual(snapshot(self.out), before)
        (checkpoints / "step-00000009").rename(self.folder / "kept")
        self.resumed(self.folder / "kept", "--set", "train.stop_after=4", out=self.folder / "new")

    def write_as_format(self, number):
        """Gives the last checkpoint the manifest that earlier versions wrote: a sum a tensor."""
        folder = self.checkpoint()

        def change(manifest):
            manifest["format"] = number
            for file in manifest["files"]:
                data = (folder / file["name"]).read_bytes()
                begin = 8 + int.from_bytes(data[:8], "little")
                header = json.loads(data[8:begin])
                for tensor in file["tensors"]:
                    first, last = header[tensor["name"]]["data_offsets"]
                    del tensor["crc32c"]
                    tensor["xxh3"] = f"{xxh3(data[begin + first:begin + last]):016x}"
            if number == 1:
                del manifest["xxh3"]
                del manifest["data"]
        self.edit_manifest(folder, change)

    def test_checkpoints_of_earlier_formats(self):
        straight = self.folder / "straight"
        self.trained(keys={"train.stop_after": 5}, out=straight)
        for number in (1, 2):
            with self.subTest(number):
                shutil.rmtree(self.out, ignore_errors=True)
                self.trained(keys={"train.stop_after": 3})
                self.write_as_format(number)
                result = self.resumed("--set", "train.stop_after=4")
                self.assertEqual("of format 1, without a checksum of its own" in result.stderr, number == 1)
                self.assertNotIn("format", self.resumed("--set", "train.stop_after=5").stderr)
                self.expect_same_state(straight, self.out)

    def test_a_damaged_checkpoint_of_format_2_is_refused(self):
        self.trained(keys={"train.stop_after": 3})
        self.write_as_format(2)
        model = self.checkpoint() / "model.safetensors"
        damaged = bytearray(model.read_bytes())
        damaged[-1] ^= 1
        model.write_bytes(damaged)
        self.expect_error(self.resume(), "model.safetensors: tensor '", "has checksum")

    def test_a_run_of_a_newer_format_is_left_alone(self):
        self.trained(keys={"train.stop_after": 3})
        file = self.out / "run.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"format": 2, "program": {"version": "0.7.0"}}))
        before = snapshot(self.out)
        for how in ((), ("auto",)):
            with self.subTest(how):
                self.expect_error(self.resume(*how), f"{file}: format 2, but this program reads up to 1",
                                  "release that wrote it, 0.7.0")
                self.assertEqual(snapshot(self.out), before)

    def test_what_is_left_of_killed_runs_goes(self):
        self.trained(keys={"train.stop_after": 3})
        left = self.out / "run.json.0123456789abcdef.tmp"
        left.write_text("half")
        (self.out / "run.lock").write_text("elsewhere 12 34 2026-01-02T03:04:05+0000\n")
        result = self.resumed("--set", "train.stop_after=4")
        self.assertIn("process 12 on elsewhere has ended without letting go", result.stderr)
        self.assertEqual(sorted(p.name for p in self.out.iterdir()),
                         ["checkpoints", "metrics.jsonl", "run.json", "tokenizer.json"])

    def test_a_dry_run_needs_no_lock(self):
        process = self.start({"train.steps": 100000, "train.validate_every": 0})
        lock = self.out / "run.lock"
        # The file is there a moment before the line in it.
        self.wait_for(lambda: lock.exists() and lock.read_text().endswith("\n"), process)
        holder = lock.read_text().split()
        self.assertEqual(int(holder[1]), process.pid)
        self.trained("--dry-run")
        self.expect_error(self.train(), f"--out {self.out} is in use by process {process.pid} on "
                          f"{holder[0]}, since {holder[3]}")

    def branches(self):
        return {p.name: [json.loads(line)["step"] for line in p.read_text().splitlines()]
                for p in self.out.glob("metrics.*.jsonl")}

    def test_branches_of_the_metrics(self):
        keys = {"train.checkpoint_every": 2, "train.keep": 100, "train.validate_every": 0}
        self.trained(keys=keys | {"train.stop_after": 10})
        straight = (self.out / "metrics.jsonl").read_text()
        result = self.resumed("6", "--set", "train.stop_after=7", "--set", "optim.lr=0.1")
        self.assertIn("steps 7 to 10 of what was done before are kept in metrics.branch-1.jsonl",
                      result.stderr)
        self.assertEqual(self.branches(), {"metrics.branch-1.jsonl": [7, 8, 9, 10]})
        result = self.resumed("10", "--set", "train.stop_after=11")
        self.assertIn("steps 7 to 10 come back from metrics.branch-1.jsonl", result.stderr)
        self.assertEqual(self.branches(), {"metrics.branch-2.jsonl": [7]})
        self.assertEqual([line["step"] for line in self.metrics()], list(range(1, 12)))
        self.assertTrue((self.out / "metrics.jsonl").read_text().startswith(straight))

    def test_the_folder_of_checkpoints_means_its_run(self):
        self.trained(keys={"train.stop_after": 2})
        folder = self.out / "checkpoints"
        for name, *arguments in (("checkpoints", folder), ("generate", folder, "--prompt", "to", "--tokens", "2"),
                                 ("evaluate", folder, "--data", self.shared / "data")):
            with self.subTest(name):
                result = program(name, *arguments, cwd=self.folder)
                self.assertEqual(result.returncode, 0, result.stderr)
        self.resumed(folder, "--set", "train.stop_after=3")
        self.assertEqual(self.last(self.out), 3)

    def test_metrics_that_are_removed_are_told(self):
        process = self.start({"train.steps": 100_000, "train.validate_every": 0})
        self.wait_for_metrics(process, lines=3)
        (self.out / "metrics.jsonl").unlink()
        time.sleep(0.5)
        process.terminate()
        _, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors)
        self.assertEqual(errors.count("metrics.jsonl: has been removed"), 1, errors)

    def test_metrics_are_those_of_the_checkpoint(self):
        keys = {"train.checkpoint_every": 2, "train.keep": 100, "train.validate_every": 0}
        self.trained(keys=keys | {"train.stop_after": 10})
        straight = (self.out / "metrics.jsonl").read_text()
        self.resumed("6", "--set", "train.stop_after=8")
        second = (self.out / "metrics.jsonl").read_text()
        # What is set aside is there until the run passes its step.
        self.resumed("4", "--set", "train.stop_after=5", "--set", "optim.lr=0.05", "--set", "train.checkpoint_every=0")
        self.resumed("6", "--set", "train.stop_after=7")
        self.assertTrue((self.out / "metrics.jsonl").read_text().startswith("".join(straight.splitlines(keepends=True)[:6])))
        self.resumed("8", "--set", "train.stop_after=9")
        self.assertTrue((self.out / "metrics.jsonl").read_text().startswith(second))
        self.resumed("10", "--set", "train.stop_after=11")
        self.assertTrue((self.out / "metrics.jsonl").read_text().startswith(straight))

    def test_a_gap_in_the_metrics_is_told(self):
        self.trained(keys={"train.stop_after": 5})
        path = self.out / "metrics.jsonl"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
        result = self.resumed("--set", "train.stop_after=6")
        self.assertIn("metrics.jsonl: has no lines of steps 4 to 5", result.stderr)
        path.write_text("".join(path.read_text().splitlines(keepends=True)[2:]))
        self.assertIn("metrics.jsonl: has no lines of steps 1 to 2", self.resumed("--set", "train.stop_after=7").stderr)
        path.unlink()
        self.assertIn("metrics.jsonl: has no lines of steps 1 to 7", self.resumed("--set", "train.stop_after=8").stderr)
        # Those of another folder's run are there.
        source, self.out = self.out, self.folder / "elsewhere"
        result = self.resumed(source, "--set", "train.stop_after=9")
        self.assertNotIn("has no lines", result.stderr + self.resumed("--set", "train.stop_after=10").stderr)

    def test_damaged_lines_are_told_and_kept(self):
        self.trained(keys={"train.stop_after": 5})
        path = self.out / "metrics.jsonl"
        lines = path.read_text().splitlines()
        lines[1] = lines[1].replace('"loss"', "loss")
        path.write_text("\n".join(lines + ['{"step":6,"lo']))
        result = self.resumed("--set", "train.stop_after=6")
        self.assertRegex(result.stderr, re.escape(f"{path}: 2 lines are damaged or torn, the first "
                                                  "is line 2: kept in metrics.damaged.jsonl"))
        self.assertEqual((self.out / "metrics.damaged.jsonl").read_text(),
                         f"{lines[1]}\n" + '{"step":6,"lo\n')
        self.assertEqual([line["step"] for line in self.metrics()], [1, 3, 4, 5, 6])


if __name__ == "__main__":
    unittest.main()
