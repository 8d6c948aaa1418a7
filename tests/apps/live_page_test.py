#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of `report --live`, as a tree, and in a browser where there is Chromium; DOS_KEEP_PICTURES names a folder for what it
looks like there."""

import json
import os
import re
import signal
import subprocess
import time
import unittest
from pathlib import Path
from xml.etree import ElementTree

from browser import CHROMIUM, Browser
from harness import APPS, PATIENCE
from watched import RUN, WatchedRun, step_line

WIDTHS = (500, 1600)  # pixels
# Of every text in the page's drawings: its height in pixels, and whether it is inside its drawing.
TEXTS = """Array.from(document.querySelectorAll("figure text"), text => {
  const mine = text.getBoundingClientRect(), all = text.closest("svg").getBoundingClientRect();
  return [mine.height, mine.left >= all.left && mine.right <= all.right && mine.top >= all.top && mine.bottom <= all.bottom];
})"""
LEFTS = 'Array.from(document.querySelectorAll("figure"), figure => Math.round(figure.getBoundingClientRect().left))'
LEAST_HEIGHT = 11  # pixels of a line of text that can be read


def full_line(step):
    """With all that a run on GPUs with disks says."""
    return step_line(step, busy_cpu=0.5, updated_cpu=0.25, busy_cuda0=0.9, updated_cuda0=0.75, ms_flush_waited=1.0,
                     mb_flushed=3.0, disk_read_bytes=10**7, disk_written_bytes=10**7,
                     **({"checkpoint_step": step, "checkpoint_s": 0.5, "mb_checkpoint": 12.0, "mb_checkpoint_copied": 0.0,
                         "ms_checkpoint_waited": 2.0} if step % 10 == 0 else {}))


class LivePage(WatchedRun):
    def report(self, *arguments):
        return self.call("report", "--live", "mine", *arguments)

    def watched(self, *arguments):
        """report --live, which has written its first page."""
        process = subprocess.Popen([APPS / "report", "--live", "mine", *arguments], cwd=self.folder, stderr=subprocess.PIPE,
                                   text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertIn(", and goes on until the run ends: open it in a browser", process.stderr.readline())
        return process

    def page(self, *arguments):
        """The page as a tree: what browsers mend is not there."""
        result = self.report(*arguments)
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
        text = (self.run_folder / "live.html").read_text(encoding="utf-8")
        self.assertFalse([path.name for path in self.run_folder.iterdir() if path.suffix == ".tmp"])
        return ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))

    def test_it_stands_alone_and_says_what_the_terminal_says(self):
        self.write([full_line(step) for step in range(1, 201)] + ['{"step":200,"val_loss":6}'])
        tree = self.page("--once")
        text = ElementTree.tostring(tree, encoding="unicode")
        for forbidden in ("<script", "http:", "https:", "src=", "@import", "url("):
            self.assertNotIn(forbidden, text)
        said = {row[0].text or "": row[1].text for row in tree.findall(".//tr")}
        terminal = self.call("watch_run", "mine", COLUMNS="200").stdout
        for name, value in said.items():
            if name != "state":
                self.assertRegex(terminal, rf"(?m)^{re.escape(name)} +{re.escape(value)}$")
        self.assertLessEqual({"loss", "devices", "waited", "disks", "checkpoint", "left"}, said.keys())
        titles = [figure.find(".//b").text for figure in tree.findall(".//figure")]
        self.assertEqual(titles, ["loss", "tokens a second", "milliseconds a step", "busy workers of each device",
                                  "updates on each device", "waits, milliseconds a step", "disks, MB/s", "checkpoints, MB/s",
                                  "norm of the gradients", "learning rate"])

    def test_checkpoints_that_are_not_there_have_no_dot(self):
        def ended(step, committed):
            return step_line(step, checkpoint_step=step, checkpoint_committed=committed, checkpoint_s=0.5, mb_checkpoint=12.0)

        self.write([ended(1, 1), ended(2, 0), ended(3, 1)])
        figure = [figure for figure in self.page("--once").findall(".//figure") if figure.find(".//b").text == "checkpoints, MB/s"]
        self.assertEqual(len(figure[0].find("svg").findall(".//circle")), 2)

    def test_a_run_without_devices_has_no_charts_of_them(self):
        titles = [figure.find(".//b").text for figure in self.page("--once").findall(".//figure")]
        self.assertEqual(titles, ["loss", "tokens a second", "milliseconds a step", "norm of the gradients", "learning rate"])

    def test_it_loads_itself_again_until_the_last_step(self):
        self.assertIsNone(self.page("--once").find(".//meta[@http-equiv]"))
        page = self.folder / "page.html"
        held = self.hold()
        process = self.watched("--output", "page.html", "--seconds", "0.2")
        self.assertIn('http-equiv="refresh" content="1"', page.read_text(encoding="utf-8"))
        self.write([step_line(step) for step in range(1, 401)])
        self.wait_for(lambda: "400 of 400" in page.read_text(encoding="utf-8"))
        # The run may still write its last checkpoint.
        self.assertIn("http-equiv", page.read_text(encoding="utf-8"))
        held.close()
        self.assertEqual(process.wait(timeout=PATIENCE), 0)
        text = page.read_text(encoding="utf-8")
        self.assertIn("the run has ended", text)
        self.assertNotIn("http-equiv", text)

    def wait_for(self, condition):
        end = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_it_ends_when_asked_to(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number.name):
                process = self.watched("--seconds", "1000")
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=PATIENCE), 0)

    def test_odd_names_and_numbers(self):
        self.describe({"configuration": {"model": {"preset": "<b>&\"x"}}})
        self.write([step_line(1, loss=None), step_line(2, loss=3.0), step_line(3, loss=None, lr=0, grad_norm=1e300)])
        self.assertIn('<b>&\\"x', self.page("--once").find(".//h1").text)
        self.write([], end="")
        self.assertIn("no step has ended yet", "".join(self.page("--once").itertext()))

    def test_bad_input(self):
        self.expect_refused(self.report("--once", "--output", "missing/page.html"), "report", "missing/page.html",
                            "No such file or directory", "name a file that can be written with --output")
        self.expect_refused(self.report("--json"), "report", "--json excludes --live", "see report --help")
        self.expect_refused(self.call("report", "mine", "--once"), "report", "--once requires --live")
        self.expect_refused(self.call("report", "--live", "other"), "report", "other: no such folder; give the one that train_gpt --out wrote")
        self.expect_refused(self.report("--seconds", "0"), "report", "--seconds")
        self.describe(RUN | {"format": 2})
        self.expect_refused(self.report("--once"), "report", "mine/run.json: format 2")
        self.assertFalse((self.run_folder / "live.html").exists())

    def shown(self, browser, text):
        """Waits until the page has the text, and does nothing else to the browser."""
        self.wait_for(lambda: text in (browser.value("document.body && document.body.innerText") or ""))

    @unittest.skipIf(CHROMIUM is None, "no Chromium on this machine (Debian's chromium)")
    def test_in_a_browser(self):
        self.hold()
        self.write([full_line(step) for step in range(1, 201)] + ['{"step":200,"val_loss":6}'])
        self.watched("--seconds", "0.2")
        with Browser() as browser:
            browser.open(self.run_folder / "live.html")
            self.shown(browser, "200 of 400")
            with open(self.metrics, "a", encoding="utf-8") as file:
                file.write("".join(json.dumps(full_line(step)) + "\n" for step in range(201, 301)))
            self.shown(browser, "300 of 400")

    @unittest.skipIf(CHROMIUM is None, "no Chromium on this machine (Debian's chromium)")
    def test_in_narrow_and_wide_windows(self):
        self.write([full_line(step) for step in range(1, 201)] + ['{"step":200,"val_loss":6}'])
        self.page("--once")
        with Browser() as browser:
            browser.open(self.run_folder / "live.html")
            for width in WIDTHS:
                with self.subTest(width=width):
                    browser.resize(width, 900)
                    self.shown(browser, "200 of 400")
                    self.assertLessEqual(browser.value("document.documentElement.scrollWidth"), width)
                    self.assertEqual(len(set(browser.value(LEFTS))), 1 if width < 1200 else 2)
                    for height, is_inside in browser.value(TEXTS):
                        self.assertGreaterEqual(height, LEAST_HEIGHT)
                        self.assertTrue(is_inside)
                    picture = browser.picture()
                    self.assertEqual(picture[:8], b"\x89PNG\r\n\x1a\n")
                    if kept := os.environ.get("DOS_KEEP_PICTURES"):
                        (Path(kept) / f"live-{width}.png").write_bytes(picture)


if __name__ == "__main__":
    if CHROMIUM is None:
        print("skipped in part: no Chromium on this machine (Debian's chromium): no page is opened", flush=True)
    unittest.main()
