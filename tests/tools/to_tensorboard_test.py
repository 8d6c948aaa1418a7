#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tools/to_tensorboard and reads what it writes, as TensorBoard's records and events are laid out."""

import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import time
import unittest
from pathlib import Path

from scratch import InScratchFolder

TO_TENSORBOARD = Path(__file__).resolve().parents[2] / "tools" / "to_tensorboard"
RUN = {"configuration": {"train": {"steps": 4, "stop_after": 0}}}
SESSION_START = "start"


def crc32c(data):
    """Bit by bit, apart from the tool's table."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) % 2**32


def fields(data):
    """{number: [value]} of a protocol buffer."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(tag & 7) or varint()
            value, at = data[at:at + size], at + size
        found.setdefault(tag >> 3, []).append(value)
    return found


def events(path):
    """[(wall time, step, {name: value} or SESSION_START)] behind the first event, which names the format."""
    data, found, at = path.read_bytes(), [], 0
    while at < len(data):
        length, = struct.unpack_from("<Q", data, at)
        body = data[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", data, at + 8)[0] == masked(data[at:at + 8]), "checksum of a length"
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(body), "checksum of an event"
        at += length + 16
        event = fields(body)
        content = event.get(3, [None])[0]
        if 5 in event:
            values = [fields(value) for value in fields(event[5][0])[1]]
            content = {value[1][0].decode(): struct.unpack("<f", value[2][0])[0] for value in values}
        if 7 in event:
            assert fields(event[7][0]) == {1: [1]}
            content = SESSION_START
        found.append((struct.unpack("<d", event[1][0])[0], event[2][0], content))
    assert found[0][1:] == (0, b"brain.Event:2")
    return found[1:]


def step_line(step, **changes):
    return {"step": step, "loss": 8.0 - step, "lr": 0.5, "ms_step": 500.0} | changes


class ToTensorboard(InScratchFolder):
    def setUp(self):
        super().setUp()
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)
        (self.folder / "mine").mkdir()
        (self.folder / "mine/run.json").write_text(json.dumps(RUN))
        os.utime(self.folder / "mine/run.json", (1000, 1000))
        self.write([step_line(1), step_line(2), {"step": 2, "val_loss": 5.0}, step_line(300, loss=None)])

    def write(self, lines):
        (self.folder / "mine/metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def convert(self, *arguments, status=0, **options):
        result = subprocess.run([sys.executable, TO_TENSORBOARD, *arguments], cwd=self.folder, capture_output=True, text=True,
                                check=False, timeout=60, **options)
        self.assertEqual((result.returncode, result.stdout), (status, ""), result.stderr)
        return result.stderr

    def file(self, name="mine"):
        found, = (self.folder / "events" / name).iterdir()
        self.assertTrue(found.name.startswith("events.out.tfevents."))
        return found

    def test_every_number_is_a_scalar(self):
        self.assertEqual(self.convert("mine", "--output", "events"), "")
        self.assertEqual(events(self.file()), [(1000.5, 1, {"loss": 7.0, "lr": 0.5, "ms_step": 500.0}),
                                               (1001.0, 2, {"loss": 6.0, "lr": 0.5, "ms_step": 500.0}),
                                               (1001.0, 2, {"val_loss": 5.0}),
                                               (1001.5, 300, {"lr": 0.5, "ms_step": 500.0})])

    def test_during_a_run_that_goes_back_once(self):
        self.write([step_line(1), step_line(2)])
        process = subprocess.Popen([sys.executable, TO_TENSORBOARD, "mine", "--output", "events", "--follow", "--seconds", "0.05"],
                                   cwd=self.folder)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def wait_for(steps):
            end = time.monotonic() + 30
            while True:
                self.assertLess(time.monotonic(), end)
                try:
                    found = [(step, content) for _, step, content in events(self.file())]
                    if [step for step, _ in found] == steps:
                        return found
                except (OSError, ValueError, struct.error, AssertionError, IndexError):
                    pass  # not there yet, or half an event
                time.sleep(0.02)

        wait_for([1, 2])
        new = self.folder / "mine/new"
        new.write_text("".join(json.dumps(line) + "\n" for line in (step_line(1), step_line(2, loss=1.0), step_line(3))))
        new.replace(self.folder / "mine/metrics.jsonl")
        found = wait_for([1, 2, 2, 2, 3])
        self.assertEqual(found[2], (2, SESSION_START))
        self.assertEqual(found[3][1]["loss"], 1.0)
        self.assertIsNone(process.poll())
        with open(self.folder / "mine/metrics.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(step_line(4)) + "\n")
        self.assertEqual(process.wait(timeout=30), 0)
        wait_for([1, 2, 2, 2, 3, 4])

    def test_bad_input(self):
        def expect(text, *arguments):
            told = self.convert(*arguments, status=1)
            self.assertTrue(told.startswith("to_tensorboard: error: ") and told.count("\n") == 1, told)
            self.assertIn(text, told)

        expect("missing: no such folder", "missing", "--output", "events")
        (self.folder / "loop").symlink_to("loop")
        expect("loop: no such folder", "loop", "--output", "events")
        expect("two runs are called mine", "mine", "./mine", "--output", "events")
        (self.folder / "mine/run.json").write_text(json.dumps(RUN | {"format": 2, "program": {"version": "0.7.0"}}))
        expect("mine/run.json: format 2, but this tool reads up to 1; use the one of the release that wrote it, 0.7.0", "mine",
               "--output", "events")
        self.assertFalse((self.folder / "events").exists())
        (self.folder / "mine/run.json").write_text(json.dumps(RUN))
        self.convert("mine", "--output", "events")
        expect("is there already", "mine", "--output", "events")
        expect("--output", "mine", "--output", "mine/run.json")
        (self.folder / "mine/metrics.jsonl").write_text("nonsense\n")
        expect("metrics.jsonl:1: not a line of metrics", "mine", "--output", "others")

    def test_lines_that_nothing_has_written(self):
        for wrong in ({"step": -5, "loss": 1.0}, {"step": 2**60, "loss": 1.0}, {"step": 1, "loss": 10**400},
                      {"step": 1, "loss": 1.0, "\ud800": 1.0}):
            with self.subTest(str(wrong)[:40]):
                self.write([step_line(1), wrong])
                self.assertIn("metrics.jsonl:2: not a line of metrics", self.convert("mine", "--output", "events", status=1))

    def test_the_run_is_no_scalar(self):
        self.write([step_line(1, run=1764194400123)])
        self.convert("mine", "--output", "events")
        self.assertEqual([set(content) for _, _, content in events(self.file())], [{"loss", "lr", "ms_step"}])

    def test_a_pipe_is_not_waited_for(self):
        (self.folder / "mine/metrics.jsonl").unlink()
        os.mkfifo(self.folder / "mine/metrics.jsonl")
        self.assertIn("metrics.jsonl: not a regular file", self.convert("mine", "--output", "events", status=1))

    def test_a_failure_leaves_the_place_free(self):
        self.write([step_line(step) for step in range(1, 200)])
        limited = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))}
        self.assertIn("--output events: File too large", self.convert("mine", "--output", "events", status=1, **limited))
        self.convert("mine", "--output", "events")
        shutil.copytree(self.folder / "mine", self.folder / "other")
        self.assertIn("is there already", self.convert("other", "mine", "--output", "events", status=1))
        self.convert("other", "--output", "events")

    def test_an_empty_output_is_none(self):
        self.assertIn("--output: must not be empty", self.convert("mine", "--output", "", status=2))


if __name__ == "__main__":
    unittest.main()
