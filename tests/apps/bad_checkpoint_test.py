#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Damaged checkpoints are refused and diverging runs stop, both without losing what is good."""

import json
import shutil
import struct
import unittest

from harness import AppTest, snapshot

MODEL, OPTIMIZER, MANIFEST = "model.safetensors", "optimizer.safetensors", "manifest.json"


class BadCheckpoint(AppTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls("trained")
        case.folder, case.out = cls.shared, cls.shared / "run"
        case.trained(keys={"train.stop_after": 4})

    def setUp(self):
        super().setUp()
        shutil.copytree(self.shared / "run", self.out, symlinks=True)
        self.last = self.checkpoint().resolve()

    def expect_refused(self, *parts, **options):
        before = snapshot(self.out)
        self.expect_error(self.resume(**options), *parts)
        self.assertEqual(snapshot(self.out), before)

    def edit(self, name, change):
        path = self.last / name
        path.write_bytes(change(path.read_bytes()))

    def edit_header(self, name, change):
        def apply(data):
            size, = struct.unpack_from("<Q", data)
            header = json.loads(data[8:8 + size])
            change(header)
            text = json.dumps(header).encode()
            return struct.pack("<Q", len(text)) + text + data[8 + size:]
        self.edit(name, apply)

    def test_the_copy_is_good(self):
        self.resumed("--set", "train.stop_after=5")

    def test_manifest(self):
        path = self.last / MANIFEST
        good = path.read_bytes()
        cases = [(b"", "not JSON"), (good[:len(good) // 2], "not JSON"),
                 (b"[1]", "not a JSON object"), (b"{}", "field 'format' is missing")]
        for text, message in cases:
            with self.subTest(message):
                path.write_bytes(text)
                self.expect_refused(f"{MANIFEST}: {message}", "take another one")
        path.unlink()
        self.expect_refused(f"{MANIFEST}: missing", "no complete checkpoint")

    def test_manifest_fields(self):
        def damage(*keys, value):
            def change(manifest):
                for key in keys[:-1]:
                    manifest = manifest[key]
                manifest[keys[-1]] = value
            return change
        good = (self.last / MANIFEST).read_bytes()
        cases = [
            (damage("format", value=99), "format 99, but this program reads formats 1 to 4"),
            (damage("step", value=-1), "field 'step'"),
            (damage("architecture", "layers", value="many"), 'has layers = "many"'),
            (damage("configuration", value=None), "the configuration is no JSON object"),
            (damage("configuration", "train", value=3), "configuration section 'train'"),
            (damage("configuration", "train", "batch", value="x"),
             "configuration key 'train.batch' has a value of the wrong type"),
            (damage("configuration", "train", "batch", value=1.5), "'train.batch'"),
            (damage("configuration", "train", "new_key", value=1),
             "configuration key 'train.new_key' is not known to this version"),
            (damage("files", value=[]), "the checkpoint's manifest lists no file 'model"),
        ]
        for change, *parts in cases:
            with self.subTest(parts[0]):
                (self.last / MANIFEST).write_bytes(good)
                self.edit_manifest(self.last, change)
                self.expect_refused(*parts)

    def test_missing_files(self):
        for name in (MODEL, OPTIMIZER):
            kept = (self.last / name).rename(self.folder / name)
            self.expect_refused(f"{name}: cannot open: No such file")
            kept.rename(self.last / name)

    def test_header(self):
        for name in (MODEL, OPTIMIZER):
            good = (self.last / name).read_bytes()
            for text, message in ((b"", "too few for a header"),
                                  (b"\xff" * 64, "the header claims"),
                                  (good[:100], "truncated"),
                                  (good[:8] + b"x" + good[9:], "header: not JSON")):
                with self.subTest(message):
                    (self.last / name).write_bytes(text)
                    self.expect_refused(f"{name}: ", message)
            (self.last / name).write_bytes(good)

    def test_truncated_tensor(self):
        self.edit(MODEL, lambda data: data[:-5])
        self.expect_refused(f"{MODEL}: tensor '", "the file is truncated")

    def test_flipped_bits(self):
        for name, part in ((MODEL, 0.5), (MODEL, 1), (OPTIMIZER, 0.3), (OPTIMIZER, 1)):
            good = (self.last / name).read_bytes()
            at = min(int(len(good) * part), len(good) - 1)
            damaged = bytearray(good)
            damaged[at] ^= 1
            (self.last / name).write_bytes(damaged)
            self.expect_refused(f"{name}: tensor '", "have checksum", "take another one")
            (self.last / name).write_bytes(good)

    def test_flipped_bit_of_a_header(self):
        for name in (MODEL, OPTIMIZER):
            good = (self.last / name).read_bytes()
            (self.last / name).write_bytes(good.replace(b'"dos"', b'"doS"', 1))
            self.expect_refused(f"{name}: its header has checksum ", "take another one")
            (self.last / name).write_bytes(good)

    def test_wrong_shape(self):
        def transpose(header):
            header["blocks.0.mlp.up.weight"]["shape"].reverse()
        self.edit_header(MODEL, transpose)
        self.expect_refused(f"{MODEL}: tensor 'blocks.0.mlp.up.weight': has shape [")

    def test_wrong_shape_in_the_manifest_too(self):
        def transpose(header):
            header["blocks.0.mlp.up.weight"]["shape"].reverse()
        self.edit_header(MODEL, transpose)

        def change(manifest):
            del manifest["files"][0]["header"]
            tensors = manifest["files"][0]["tensors"]
            next(t for t in tensors if t["name"] == "blocks.0.mlp.up.weight")["shape"].reverse()
        self.edit_manifest(self.last, change)
        self.expect_refused(f"{MODEL}: tensor 'blocks.0.mlp.up.weight' has shape [",
                            "the model needs")

    def test_renamed_tensor(self):
        def rename(header):
            header["lost"] = header.pop("final_norm.weight")
        self.edit_header(MODEL, rename)
        self.expect_refused(f"{MODEL}: tensor 'final_norm.weight': missing")

    def test_another_model(self):
        for key, field in (("layers", 2), ("width", 32), ("heads", 4), ("context", 8)):
            before = snapshot(self.out)
            result = self.resume("--set", f"model.{key}={field}")
            self.expect_error(result, f"the checkpoint's model has {key} = ",
                              f"this run's {field}", "use the configuration it was made with")
            self.assertEqual(snapshot(self.out), before)

    def test_what_does_not_exist(self):
        for selector, parts in (("17", ("no checkpoint of step 17", "steps there: 4")),
                                ("best", ("no 'best' checkpoint",)),
                                ("elsewhere", ("'elsewhere' names no checkpoint",)),
                                (self.folder, ("missing", "no complete checkpoint"))):
            self.expect_error(self.resume(selector), *parts)
        self.expect_error(self.resume(out=self.folder / "new"), "new: no such folder", "start afresh with --resume auto")
        (self.folder / "empty").mkdir()
        self.expect_error(self.resume(out=self.folder / "empty"), "no 'last' checkpoint", "start afresh")
        self.assertFalse((self.folder / "new").exists())
        shutil.rmtree(self.last)
        self.expect_refused("last: points to 'step-00000004', which is no folder")

    def test_data_that_are_gone(self):
        moved = self.folder / "moved"
        moved.mkdir()
        for path in self.shared.glob("data*"):
            shutil.copy(path, moved)
        self.edit_manifest(self.last, lambda m: m["configuration"]["data"].update(path="gone/data"))
        self.expect_refused("gone/data_train.bin: missing")
        self.resumed("--set", f"data.path={moved / 'data'}", "--set", "train.stop_after=5")


class Divergence(AppTest):
    def expect_stopped(self, keys, *parts):
        result = self.train(keys={"optim.warmup": 0, "optim.schedule": "constant"} | keys)
        self.expect_error(result, "is not finite; first bad tensor: ", "Lower optim.lr", *parts)
        return result

    def test_loss(self):
        self.expect_stopped({"optim.lr": 1e30, "optim.clip": 0}, "step 2: the loss ",
                            "lane", ", written by dos.", "no checkpoint was written yet")
        self.assertIsNone(self.metrics()[-1]["loss"])
        self.assertFalse((self.out / "checkpoints").exists())

    def test_validation_loss(self):
        self.expect_stopped({"optim.lr": 1e30, "train.validate_every": 1},
                            "step 1: the validation loss ", "written by dos.")
        last = self.metrics()[-1]
        self.assertEqual((last["step"], last["val_loss"]), (1, None))
        self.assertFalse((self.out / "checkpoints").exists())

    def test_parameters_at_a_checkpoint(self):
        # The update of step 1 overflows: p - lr * 0.1 * p with lr near the largest float.
        overflow = {"optim.lr": 3.4e38, "optim.weight_decay": 100.0, "train.checkpoint_every": 1}
        self.expect_stopped(overflow | {"train.stop_after": 1}, "step 1: a parameter ", "parameter ",
                            "no checkpoint was written yet")
        self.assertEqual(list((self.out / "checkpoints").iterdir()), [])
        # Where training goes on, the next loss may be seen before the checkpoint has ended.
        shutil.rmtree(self.out)
        self.expect_stopped(overflow, "no checkpoint was written yet")
        self.assertEqual(list((self.out / "checkpoints").iterdir()), [])

    def test_the_checkpoint_before_stays(self):
        self.trained(keys={"train.stop_after": 6, "train.steps": 40, "train.validate_every": 0})
        before = snapshot(self.checkpoint().resolve())
        result = self.resume("--set", "optim.lr=1e30", "--set", "optim.clip=0")
        self.expect_error(result, "step 8: the loss", "the checkpoint of step 6 is intact")
        self.assertEqual(snapshot(self.checkpoint().resolve()), before)
        self.resumed("--set", "train.stop_after=8")
        self.assertTrue(all(line["loss"] for line in self.metrics()))
        self.assertEqual([line["step"] for line in self.metrics()], list(range(1, 9)))


if __name__ == "__main__":
    unittest.main()
