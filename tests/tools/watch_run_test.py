#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tools/watch_run as a user does, also in a terminal."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
import unittest
from pathlib import Path
from xml.etree import ElementTree

from scratch import InScratchFolder

WATCH_RUN = Path(__file__).resolve().parents[2] / "tools" / "watch_run"
RUN = {"configuration": {"model": {"preset": "small-3m"}, "train": {"steps": 400, "stop_after": 0, "precision": "bf16"}},
       "ranks": 2, "runtime": {"scheduler": "dos"}, "model": {"architecture": "gpt2"}}


def step_line(step, **changes):
    return {"step": step, "loss": 8.0 - step / 100, "lr": 1e-3, "grad_norm": 1.0, "tokens": step * 64, "tokens_per_s": 640.0,
            "ms_step": 100.0, "ms_forward": 10.0, "ms_backward": 20.0, "ms_update": 10.0} | changes


class WatchRun(InScratchFolder):
    def setUp(self):
        super().setUp()
        self.run_folder = self.folder / "mine"
        self.run_folder.mkdir()
        (self.run_folder / "run.json").write_text(json.dumps(RUN))
        self.metrics = self.run_folder / "metrics.jsonl"
        self.write([step_line(step) for step in range(1, 201)])

    def write(self, lines, end="\n"):
        self.metrics.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + end)

    def watch(self, *arguments, columns=80, encoding="utf-8"):
        return subprocess.run([sys.executable, WATCH_RUN, "mine", *arguments], cwd=self.folder, capture_output=True,
                              text=True, encoding="utf-8", check=False, timeout=60,
                              env=os.environ | {"COLUMNS": str(columns), "PYTHONIOENCODING": encoding})

    def shown(self, *arguments, **options):
        result = self.watch(*arguments, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def expect_error(self, *parts, **options):
        result = self.watch(**options)
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assertTrue(result.stderr.startswith("watch_run: error: "), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_what_it_says(self):
        self.metrics.write_text(self.metrics.read_text() + '{"step":100,"val_loss":7.1}\n{"step":200,"val_loss":6.5}\n')
        text = self.shown()
        for part in ("mine: small-3m, bf16, ranks 2, scheduler dos", "200 of 400", "6.5, best 6.5", "640",
                     "forward 25 %, backward 50 %, update 25 %"):
            self.assertIn(part, text)
        # 200 steps of 100 ms; the mean of the last 20 losses.
        self.assertRegex(text, r"left +20 s\n")
        self.assertRegex(text, rf"loss +{8 - 190.5 / 100:.4g}\n")
        self.assertNotIn("\x1b", text)
        curve = re.search("[▁▂▃▄▅▆▇█]+", text)[0]
        self.assertEqual((curve[0], curve[-1]), ("█", "▁"))
        self.assertEqual(list(curve), sorted(curve, reverse=True))

    def test_traffic_of_checkpoints_and_disks(self):
        self.write([step_line(1, checkpoint_step=1, checkpoint_s=0.5, mb_checkpoint=12.0, mb_checkpoint_copied=0.0,
                              ms_checkpoint_waited=3.0),
                    step_line(2, disk_read_bytes=10_000_000, disk_written_bytes=5_000_000)])
        text = self.shown()
        self.assertIn("of step 1, 12 MB in 0.5 s, waited 3 ms", text)
        # The mean of the bytes that are there over 100 ms.
        self.assertIn("100 MB/s read, 50 written", text)

    def test_it_fits_the_terminal(self):
        for columns in (20, 49, 50, 80, 200):
            with self.subTest(columns=columns):
                lines = self.shown(columns=columns).splitlines()
                self.assertLessEqual(max(map(len, lines)), columns)
                self.assertIn("200 of 400", "\n".join(lines))
        self.expect_error("19 columns", "wider", columns=19)

    def test_nothing_is_lost_in_a_narrow_terminal(self):
        self.write([step_line(step, checkpoint_step=1, checkpoint_s=0.5, mb_checkpoint=12.0, ms_checkpoint_waited=3.0)
                    for step in range(1, 4)])
        for columns in (20, 50):
            with self.subTest(columns=columns):
                said = " ".join(self.shown(columns=columns).split())
                for part in ("small-3m, bf16, ranks 2, scheduler dos", "step 3 of 400", "tokens/s 640", "ms a step 100",
                             "of it forward 25 %, backward 50 %, update 25 %", "left 39 s",
                             "checkpoint of step 1, 12 MB in 0.5 s, waited 3 ms"):
                    self.assertIn(part, said)

    def test_plain_characters(self):
        for text in (self.shown("--ascii"), self.shown(encoding="ascii")):
            self.assertTrue(text.isascii(), text)
            self.assertIn("#", text)

    def test_a_run_that_begins(self):
        self.write([], end="")
        self.assertIn("no step has ended yet", self.shown())
        (self.run_folder / "run.json").unlink()
        self.write([step_line(1)])
        self.assertRegex(self.shown(), r"step +1\n")

    def test_numbers_that_are_none(self):
        self.write([step_line(1, loss=None, grad_norm=None), step_line(2, loss=None)])
        self.assertRegex(self.shown(), r"loss +-\n")

    def test_a_run_of_a_newer_version(self):
        (self.run_folder / "run.json").write_text(json.dumps({"configuration": [1], "model": 3, "runtime": None}))
        self.write([step_line(1, something_new=3)])
        self.assertRegex(self.shown(), r"step +1\n")

    def test_a_run_of_a_newer_format(self):
        for said, more in ((RUN | {"format": 2, "program": {"version": "0.7.0"}}, "use the one of the release that wrote it, 0.7.0"),
                           ({"format": 99}, "format 99, but this tool reads up to 1; use the one of the release that wrote it")):
            (self.run_folder / "run.json").write_text(json.dumps(said))
            self.expect_error("mine/run.json: format ", more)
        (self.run_folder / "run.json").write_text(json.dumps(RUN | {"format": 1}))
        self.assertIn("200 of 400", self.shown())

    def test_a_line_that_is_being_written_is_left_out(self):
        self.write([step_line(1), '{"step":2,"lo'], end="")
        self.assertRegex(self.shown(), r"step +1 of 400\n")

    def test_damaged_lines_are_refused(self):
        for line in ("nonsense", "[1]", '{"step":"2","loss":1}', '{"step":2}', '{"step":2,"loss":"x"}', "[" * 100000):
            with self.subTest(line=line[:20]):
                self.write([step_line(1), line])
                self.expect_error("metrics.jsonl:2: not a line of metrics")
        self.metrics.unlink()
        self.expect_error("mine/metrics.jsonl", "No such file", "is mine the folder of a run?")

    def page(self, *arguments):
        """The page as a tree: what browsers mend is not there."""
        result = self.watch("--page", "page.html", *arguments)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        text = (self.folder / "page.html").read_text(encoding="utf-8")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["mine", "page.html"])
        return ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))

    def test_a_page_has_curves_that_fit_their_frames(self):
        lines = [step_line(step) for step in range(1, 2001)]
        self.write(lines + [{"step": step, "val_loss": 5.0} for step in (1000, 2000)])
        tree = self.page("--once")
        figures = tree.findall(".//figure")
        self.assertEqual(len(figures), 4)
        for figure in figures:
            points = [tuple(map(float, point.split(","))) for point in figure.find(".//polyline").get("points").split()]
            self.assertEqual(len(points), 600)
            self.assertEqual(points, sorted(points))
            frame = figure.find(".//rect")
            left, top = float(frame.get("x")), float(frame.get("y"))
            for x, y in points:
                self.assertTrue(left <= x <= left + float(frame.get("width")), x)
                self.assertTrue(top <= y <= top + float(frame.get("height")), y)
        self.assertEqual(len(figures[0].findall(".//circle")), 2)
        # The loss falls: the end is below the beginning, and y grows downwards.
        self.assertIn("2000 of 400", "".join(tree.itertext()))
        heights = [float(point.split(",")[1]) for point in figures[0].find(".//polyline").get("points").split()]
        self.assertEqual(heights, sorted(heights))
        self.assertNotIn("<script", ElementTree.tostring(tree, encoding="unicode"))

    def test_a_page_loads_itself_again_until_the_last_step(self):
        self.assertIsNone(self.page("--once").find(".//meta[@http-equiv]"))
        process = subprocess.Popen([sys.executable, WATCH_RUN, "mine", "--page", "page.html", "--seconds", "0.2"],
                                   cwd=self.folder)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        page = self.folder / "page.html"
        end = time.monotonic() + 30
        while "http-equiv" not in page.read_text(encoding="utf-8"):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        self.assertIn('content="1"', page.read_text(encoding="utf-8"))
        self.write([step_line(step) for step in range(1, 401)])
        self.assertEqual(process.wait(timeout=30), 0)
        self.assertIn("400 of 400", page.read_text(encoding="utf-8"))
        self.assertNotIn("http-equiv", page.read_text(encoding="utf-8"))

    def test_a_page_of_odd_names_and_numbers(self):
        (self.run_folder / "run.json").write_text(json.dumps({"configuration": {"model": {"preset": "<b>&\"x"}}}))
        self.write([step_line(1, loss=None), step_line(2, loss=3.0), step_line(3, loss=None, lr=0)])
        tree = self.page("--once")
        self.assertIn('<b>&"x', tree.find(".//h1").text)
        self.write([], end="")
        self.assertIn("no step has ended yet", "".join(self.page("--once").itertext()))

    def test_a_page_that_cannot_be_written(self):
        result = self.watch("--page", "missing/page.html", "--once")
        self.assertEqual((result.returncode, result.stderr),
                         (1, "watch_run: error: --page missing/page.html: No such file or directory\n"))

    def test_in_a_terminal_it_is_drawn_again(self):
        main, terminal = pty.openpty()
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        process = subprocess.Popen([sys.executable, WATCH_RUN, "mine", "--seconds", "0.05"], cwd=self.folder, stdout=terminal,
                                   stderr=terminal, env=environment | {"COLUMNS": "80", "PYTHONIOENCODING": "utf-8"})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        os.close(terminal)
        seen = ""

        def wait_for(text):
            nonlocal seen
            end = time.monotonic() + 30
            while text not in seen:
                self.assertLess(time.monotonic(), end, seen[-2000:])
                if select.select([main], [], [], 1)[0]:
                    seen += os.read(main, 65536).decode(errors="replace")

        wait_for("200 of 400")
        with open(self.metrics, "a", encoding="utf-8") as file:
            file.write(json.dumps(step_line(201)) + "\n")
        wait_for("201 of 400")
        # A resumed run goes back.
        self.write([step_line(step) for step in range(1, 51)])
        wait_for("50 of 400")
        process.send_signal(2)
        self.assertEqual(process.wait(timeout=30), 0)
        os.close(main)


if __name__ == "__main__":
    unittest.main()
