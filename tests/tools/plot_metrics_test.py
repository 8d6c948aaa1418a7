#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tools/plot_metrics as a user does. Exit status 77: skipped, matplotlib is missing."""

import importlib.machinery
import importlib.util
import json
import math
import os
import random
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from scratch import InScratchFolder

PLOT_METRICS = Path(__file__).resolve().parents[2] / "tools" / "plot_metrics"
SKIPPED = 77


def plot_metrics():
    """The tool as a module."""
    loader = importlib.machinery.SourceFileLoader("plot_metrics", str(PLOT_METRICS))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("plot_metrics", loader))
    loader.exec_module(module)
    return module


def step_line(step, **changes):
    entry = {
        "step": step, "loss": 5.5 * math.exp(-step / 40) + 0.1 * math.sin(7.0 * step), "lr": 1e-3,
        "grad_norm": 1.0, "tokens": 512 * step, "tokens_per_s": 9000 + 100 * (step % 5),
        "ms_step": 56.9, "ms_forward": 20.0, "ms_backward": 30.0, "ms_update": 6.9,
    }
    return json.dumps(entry | changes) + "\n"


class PlotMetrics(InScratchFolder):
    def run_folder(self, name, text):
        folder = self.folder / name
        folder.mkdir(parents=True)
        (folder / "metrics.jsonl").write_text(text)
        return folder

    def plot(self, *arguments, **environment):
        command = [sys.executable, str(PLOT_METRICS), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60,
                              env=os.environ | environment)

    def expect_pictures(self, result, prefix):
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        svg, png = Path(f"{prefix}.svg").read_text(), Path(f"{prefix}.png").read_bytes()
        self.assertIn("</svg>", svg)
        self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
        return svg

    def expect_error(self, result, *parts):
        self.assertEqual(result.returncode, 1)
        self.assertTrue(result.stderr.startswith("plot_metrics: error: "), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def labels(self, svg):
        """Matplotlib writes each text as a comment beside its outlines."""
        return [line.strip()[5:-4] for line in svg.splitlines() if line.strip().startswith("<!-- ")]

    def test_one_step(self):
        run = self.run_folder("run", step_line(1))
        labels = self.labels(self.expect_pictures(self.plot(run), run / "metrics"))
        self.assertIn("loss (nats per token)", labels)
        self.assertIn("throughput (tokens/s)", labels)
        self.assertIn("step (optimizer updates)", labels)
        self.assertNotIn("validation", labels)

    def test_steps_and_validation(self):
        lines = [step_line(step) for step in range(1, 301)]
        lines[100:100] = ['{"step": 100, "val_loss": 1.25}\n']
        run = self.run_folder("run", "".join(lines) + '{"step": 300, "val_loss": 0.5}\n')
        labels = self.labels(self.expect_pictures(self.plot(run), run / "metrics"))
        self.assertIn("training", labels)
        self.assertIn("validation", labels)

    def test_validation_alone_has_one_panel(self):
        run = self.run_folder("run", '{"step": 1, "val_loss": 2.0}\n')
        labels = self.labels(self.expect_pictures(self.plot(run), run / "metrics"))
        self.assertNotIn("throughput (tokens/s)", labels)

    def test_null_loss_is_a_gap(self):
        lines = [step_line(step, loss=None if step == 25 else 2.0) for step in range(50)]
        run = self.run_folder("run", "".join(lines))
        self.expect_pictures(self.plot(run), run / "metrics")

    def test_resumed_steps_count_as_last_written(self):
        once = self.run_folder("once", step_line(1) + step_line(2, loss=3.0))
        twice = self.run_folder("twice", step_line(1) + step_line(2, loss=9.0) + step_line(2, loss=3.0))
        pictures = [self.expect_pictures(self.plot(run), run / "metrics") for run in (once, twice)]
        self.assertEqual(*pictures)

    def test_several_runs_get_a_legend(self):
        runs = [self.run_folder(name, step_line(1) + step_line(2)) for name in ("dos", "zero-offload")]
        prefix = self.folder / "both"
        labels = self.labels(self.expect_pictures(self.plot(*runs, "--output", prefix), prefix))
        self.assertIn("dos", labels)
        self.assertIn("zero-offload", labels)

    def test_runs_of_one_name_are_told_apart(self):
        runs = [self.run_folder(f"{name}/run", step_line(1)) for name in ("a", "b")]
        prefix = self.folder / "both"
        labels = self.labels(self.expect_pictures(self.plot(*runs, "--output", prefix), prefix))
        self.assertIn(str(runs[0]), labels)
        self.assertIn(str(runs[1]), labels)

    def test_what_no_font_has_is_written_as_its_number(self):
        rare = "\U00016E40\U00016E41"  # of a script with some hundreds of writers
        if plot_metrics().find_fonts(set(rare))[1] != set(rare):
            self.skipTest("a font here has them")
        runs = [self.run_folder(name, step_line(1)) for name in ("naïve", f"a{rare[0]}b", f"a{rare[1]}b")]
        done = self.plot(*runs, "--output", self.folder / "both")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(f"plot_metrics: note: no font has the '{rare[0]}'", done.stderr)
        self.assertIn("and one more likewise", done.stderr)
        labels = self.labels((self.folder / "both.svg").read_text())
        for name in ("naïve", "a[U+16E40]b", "a[U+16E41]b"):
            self.assertIn(name, labels)

    def test_a_picture_may_be_named(self):
        run = self.run_folder("mine", step_line(1))
        for ending in (".svg", ".png"):
            self.expect_pictures(self.plot(run, "--output", self.folder / f"loss{ending}"), self.folder / "loss")

    def test_every_name_is_in_the_legend(self):
        names = ["_x", "a$b$", r"$\\frac$", "plain"]
        folders = [self.run_folder(name, step_line(1) + step_line(2)) for name in names]
        svg = self.expect_pictures(self.plot(*folders, "--output", self.folder / "all"), self.folder / "all")
        for name in names:
            self.assertIn(f"<!-- {name} -->", svg.replace("<!--  _x", "<!-- _x").replace("\\$", "$"))

    def test_values_that_cannot_be_drawn(self):
        for text, reason in (('{"step":1,"loss":1e308}', "'loss' is beyond 1e+100"),
                             ('{"step":1,"loss":-1e308}', "'loss' is beyond 1e+100"),
                             ('{"step":1,"loss":1' + 400 * "0" + "}", "'loss' is beyond 1e+100"),
                             ('{"step":1' + 40 * "0" + ',"loss":1}', "'step' is not between 0 and 2^53"),
                             ('{"step":-1,"loss":1}', "'step' is not between"),
                             (100_000 * "[", "too many brackets")):
            with self.subTest(text[:40]):
                folder = self.run_folder(f"run{hash(text)}", step_line(1) + text + "\n" + step_line(2))
                self.expect_error(self.plot(folder), "metrics.jsonl:2: ", reason)

    def test_the_largest_and_smallest_numbers_of_a_run(self):
        values = (3.4e38, 1e-45, 0, -1, 1e99, math.nan, math.inf)
        lines = (step_line(step, loss=value, tokens_per_s=value) for step, value in enumerate(values))
        folder = self.run_folder("run", "".join(lines))
        self.expect_pictures(self.plot(folder), folder / "metrics")

    def test_several_runs_need_an_output(self):
        runs = [self.run_folder(name, step_line(1)) for name in ("a", "b")]
        self.expect_error(self.plot(*runs), "--output")

    def test_missing_folder(self):
        self.expect_error(self.plot(self.folder / "absent"), "absent: no such folder")

    def test_a_run_of_a_newer_format(self):
        run = self.run_folder("run", step_line(1))
        (run / "run.json").write_text('{"format": 2}')
        self.expect_error(self.plot(run), f"{run}/run.json: format 2", "release that wrote it")

    def test_missing_metrics(self):
        self.expect_error(self.plot(self.folder), "metrics.jsonl: No such file")

    def test_empty_metrics(self):
        run = self.run_folder("run", "")
        self.expect_error(self.plot(run), "no metrics")
        self.assertFalse((run / "metrics.svg").exists())

    def test_malformed_lines_name_file_and_line(self):
        wrong = {
            "not JSON": "{step: 2}",
            "not a JSON object": "[1, 2]",
            "no whole number 'step'": '{"loss": 1.0}',
            "neither 'loss' nor 'val_loss'": '{"step": 2}',
            "'loss' is not a number": '{"step": 2, "loss": "high"}',
        }
        for index, (reason, line) in enumerate(wrong.items()):
            with self.subTest(reason):
                run = self.run_folder(str(index), f"{step_line(1)}{line}\n{step_line(3)}")
                self.expect_error(self.plot(run), "metrics.jsonl:2:", reason)

    def test_malformed_last_line_is_an_error(self):
        run = self.run_folder("run", step_line(1) + '{"step": 2, "lo\n')
        self.expect_error(self.plot(run), "metrics.jsonl:2: not JSON")

    def test_truncated_last_line_is_a_warning(self):
        run = self.run_folder("run", step_line(1) + step_line(2)[:30])
        result = self.plot(run)
        self.assertEqual(result.returncode, 0)
        self.assertIn("warning", result.stderr)
        self.assertIn("metrics.jsonl:2", result.stderr)
        self.assertTrue((run / "metrics.png").exists())

    def test_without_matplotlib_it_says_how_to_get_it(self):
        (self.folder / "matplotlib.py").write_text("raise ImportError")
        run = self.run_folder("run", step_line(1))
        self.expect_error(self.plot(run, PYTHONPATH=str(self.folder)), "python3-matplotlib")

    def test_output_into_a_missing_folder(self):
        run = self.run_folder("run", step_line(1))
        self.expect_error(self.plot(run, "--output", self.folder / "no" / "where"),
                          "no/where.svg: No such file")

    def test_what_is_no_picture_is_not_replaced(self):
        run = self.run_folder("run", step_line(1))
        prefix = self.folder / "photo"
        for ending in ("svg", "png"):
            path = Path(f"{prefix}.{ending}")
            path.write_text("my notes")
            self.expect_error(self.plot(run, "--output", prefix), f"photo.{ending}: is there already and is no picture")
            self.assertEqual(path.read_text(), "my notes")
            self.assertEqual([each.name for each in self.folder.glob("photo*")], [path.name])
            path.write_bytes(b"")
            for _ in range(2):
                self.expect_pictures(self.plot(run, "--output", prefix), prefix)
            for each in self.folder.glob("photo*"):
                each.unlink()

    def test_nothing_stays_of_one_that_is_ended(self):
        run = self.run_folder("run", step_line(1))
        program = f"""
import os, runpy, signal, sys
sys.argv = ["plot_metrics", {str(run)!r}]
from matplotlib.figure import Figure
Figure.savefig = lambda *_, **options: os.kill(os.getpid(), signal.SIGTERM)
runpy.run_path({str(PLOT_METRICS)!r}, run_name="__main__")
"""
        result = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
        self.assertEqual(result.returncode, 128 + signal.SIGTERM)
        self.assertEqual([each.name for each in run.iterdir()], ["metrics.jsonl"])

    def test_what_is_no_file_is_neither_waited_for_nor_replaced(self):
        run = self.run_folder("run", step_line(1))
        os.mkfifo(self.folder / "picture.svg")
        self.expect_error(self.plot(run, "--output", self.folder / "picture"), "picture.svg: is there already and no file")
        (run / "metrics.jsonl").unlink()
        os.mkfifo(run / "metrics.jsonl")
        self.expect_error(self.plot(run), "metrics.jsonl: not a regular file")

    def test_an_empty_output_is_none(self):
        result = self.plot(self.run_folder("run", step_line(1)), "--output", "")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--output: must not be empty", result.stderr)

    def test_a_backend_of_the_environment_changes_nothing(self):
        run = self.run_folder("run", step_line(1))
        self.expect_pictures(self.plot(run, MPLBACKEND="bad"), run / "metrics")

    def test_a_name_that_is_not_utf8(self):
        name = os.fsencode(self.folder) + b"/r\xff"
        os.mkdir(name)
        with open(name + b"/metrics.jsonl", "w", encoding="utf-8") as file:
            file.write(step_line(1))
        other = self.run_folder("other", step_line(1))
        result = subprocess.run([sys.executable, PLOT_METRICS, name, other, "--output", name + b"/both"],
                                capture_output=True, check=False, timeout=60)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(result.stdout, name + b"/both.svg\n" + name + b"/both.png\n")

    def test_standard_output_that_is_full(self):
        run = self.run_folder("run", step_line(1))
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([sys.executable, PLOT_METRICS, run], stdout=full, stderr=subprocess.PIPE, text=True,
                                    check=False, timeout=60)
        self.expect_error(result, "standard output: No space left")


class Drawing(InScratchFolder):
    def setUp(self):
        super().setUp()
        self.tool = plot_metrics()

    def test_a_straight_line_stays_as_it_is(self):
        for count in (1, 2, 5, 100):
            values = [3.0 - 0.01 * i for i in range(count)]
            for smoothed, value in zip(self.tool.smooth(values), values):
                self.assertAlmostEqual(smoothed, value, places=9)

    def test_no_single_step_makes_a_spike_at_the_ends(self):
        generator = random.Random(1)
        quiet = [generator.gauss(2, 0.1) for _ in range(600)]
        for place in (0, 1, 598, 599):
            loud = list(quiet)
            loud[place] += 1
            moved = max(abs(a - b) for a, b in zip(self.tool.smooth(quiet), self.tool.smooth(loud)))
            # A line through 600 / 20 points follows its last one by (4 n - 2) / (n (n + 1)).
            self.assertLess(moved, 4 / 30)

    def test_gaps_are_bridged(self):
        values = [math.nan, *[2.0] * 30, math.nan, *[2.0] * 30]
        self.assertTrue(all(abs(value - 2) < 1e-9 for value in self.tool.smooth(values)))
        self.assertTrue(all(map(math.isnan, self.tool.smooth([math.nan] * 9))))

    def test_no_two_runs_look_alike(self):
        styles = [str(self.tool.style(index)[0]) for index in range(100)]
        self.assertEqual(len(set(styles)), len(styles))

    def test_long_names_keep_what_tells_them_apart(self):
        names = [f"{80 * 'a'}-lr-{i}-{80 * 'b'}" for i in range(12)]
        labels = self.tool.shortened(names, 3)
        self.assertEqual(len(set(labels)), 12)
        for i, label in enumerate(labels):
            self.assertLessEqual(self.tool.text_width(label), 3)
            self.assertRegex(label, f"^a+…a*-lr-{i}-b*…b+$")
        self.assertEqual(self.tool.shortened(names[:2], 100), names[:2])
        # Without anything in common their own middles go, and numbers tell apart what is left.
        names = [end + 300 * middle + end for end in "xy" for middle in "WV"]
        labels = self.tool.told_apart(self.tool.shortened(names, 3))
        self.assertEqual(len(set(labels)), 4)
        self.assertTrue(labels[0].startswith("x") and "…" in labels[0], labels)
        self.assertEqual(self.tool.told_apart(["a", "b", "a"]), ["1: a", "b", "3: a"])

    def test_names_that_are_drawn_alike_are_numbered(self):
        folders = [Path(f"/runs/r{end}") for end in ("\udcfe", "\udcff")]
        self.assertEqual(list(self.tool.run_names(folders).values()), ["1: r?", "2: r?"])

    def test_fonts_that_have_a_character_are_taken(self):
        # One that Debian's matplotlib has, and its main font lacks.
        found, lacking = self.tool.find_fonts({"\U000F0000", "a"})
        self.assertEqual((len(found), lacking), (1, {"\U000F0000"}))

    def test_the_legend_covers_nothing(self):
        from matplotlib import pyplot

        for count, name in ((1, "run"), (3, "a"), (30, "a-run-with-a-long-name"), (12, 80 * "W"), (3, 300 * "W")):
            runs = {f"{name}-{i}": {"loss": [(1, 3.0 + i), (2, 2.0 + i)], "val_loss": [(2, 2.5)],
                                    "tokens_per_s": [(1, 9e3)]} for i in range(count)}
            self.tool.draw(runs, self.folder / "figure")
            figure = pyplot.gcf()
            *panels, below = figure.axes
            box = below.get_legend().get_window_extent()
            self.assertEqual(len(below.get_legend().get_texts()), 2 if count == 1 else count + 1)
            for panel in panels:
                self.assertFalse(box.overlaps(panel.get_tightbbox()), name)
                self.assertGreater(panel.get_window_extent().width, 0.8 * figure.bbox.width)
            self.assertGreaterEqual(box.y0, figure.bbox.y0)
            self.assertGreaterEqual(box.x0, figure.bbox.x0)
            self.assertLessEqual(box.x1, figure.bbox.x1)


if __name__ == "__main__":
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        print(f"skipped: no matplotlib for {sys.executable}; install python3-matplotlib")
        sys.exit(SKIPPED)
    unittest.main()
