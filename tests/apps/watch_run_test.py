#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs watch_run as a user does, also in a terminal."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
import unittest

from harness import APPS, PATIENCE
from watched import RUN, WatchedRun, step_line


class WatchRun(WatchedRun):
    def watch(self, *arguments, columns=80, locale="C.UTF-8"):
        return self.call("watch_run", "mine", *arguments, COLUMNS=str(columns), LC_ALL=locale)

    def shown(self, *arguments, **options):
        result = self.watch(*arguments, **options)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def expect_error(self, *parts, **options):
        self.expect_refused(self.watch(**options), "watch_run", *parts)

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
                    step_line(2, disk_read_bytes=10_000_000, disk_written_bytes=5_000_000, ms_flush_waited=1.25)])
        text = self.shown()
        self.assertIn("of step 1, 12 MB in 0.5 s, waited 3 ms", text)
        # The mean of the bytes that are there over 100 ms.
        self.assertIn("100 MB/s read, 50 written", text)
        self.assertIn("1.25 ms a step for gradients", text)

    def test_checkpoints_that_are_not_there(self):
        def ended(step, committed):
            return step_line(step, checkpoint_step=step, checkpoint_committed=committed, checkpoint_s=0.5, mb_checkpoint=12.0,
                             ms_checkpoint_waited=3.0)

        self.write([ended(1, 0), ended(2, 0)])
        self.assertRegex(self.shown(), r"checkpoint +none of step 2\n")
        self.write([ended(1, 1), ended(2, 0), ended(3, 0)])
        self.assertRegex(self.shown(), r"checkpoint +none of step 3; of step 1, 12 MB in 0.5 s, waited 3 ms\n")
        self.write([ended(1, 0), ended(2, 1)])
        self.assertRegex(self.shown(), r"checkpoint +of step 2, 12 MB in 0.5 s, waited 3 ms\n")
        self.write([ended(2, 1) | {"ms_checkpoint_room": 40.0}])
        self.assertRegex(self.shown(), r"checkpoint +of step 2, 12 MB in 0.5 s, waited 3 ms, 40 ms for room\n")

    def test_shares_of_devices(self):
        self.write([step_line(1, busy_cpu=0.25, updated_cpu=0.5, busy_cuda0=1.5, updated_cuda0=0.5),
                    step_line(2, busy_cpu=0.75, updated_cpu=0.25, busy_cuda0=1.0, updated_cuda0=0.75)])
        # Means over the steps; no device is busier than the time there is.
        self.assertIn("cpu 50 % busy, 38 % of updates; cuda0 100 % busy, 62 % of updates", " ".join(self.shown().split()))
        self.write([step_line(1, busy_cpu=0.25)])
        self.assertRegex(self.shown(), r"devices +cpu 25 % busy\n")

    def test_large_numbers_are_written_out(self):
        self.write([step_line(1, tokens_per_s=123456.7)])
        self.assertRegex(self.shown(), r"tokens/s +123457\n")

    def test_whether_it_runs(self):
        self.assertRegex(self.shown(), r"state +not running, last line \d s ago\n")
        held = self.hold()
        os.utime(self.metrics, (time.time() - 300,) * 2)
        self.assertRegex(self.shown(), r"state +running, last line 5 min ago\n")
        self.write([step_line(400)])
        self.assertRegex(self.shown(), r"state +running, ")
        held.close()
        # The file alone, which a killed run leaves, is no run.
        self.assertRegex(self.shown(), r"state +ended\n")
        self.assertTrue((self.run_folder / "run.lock").exists())

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
        for text in (self.shown("--ascii"), self.shown(locale="C")):
            self.assertTrue(text.isascii(), text)
            self.assertIn("#", text)

    def test_a_run_that_begins(self):
        self.write([], end="")
        self.assertIn("no step has ended yet", self.shown())
        self.metrics.unlink()
        self.hold()
        self.assertRegex(self.shown(), r"no step has ended yet\nstate +running\n")
        (self.run_folder / "run.json").unlink()
        self.write([step_line(1)])
        self.assertRegex(self.shown(), r"^mine\nstep +1\n")

    def test_numbers_that_are_none(self):
        self.write([step_line(1, loss=None, grad_norm=None), step_line(2, loss=None)])
        self.assertRegex(self.shown(), r"loss +-\n")

    def test_a_run_of_a_newer_version(self):
        self.describe({"configuration": [1], "model": 3, "runtime": None})
        self.write([step_line(1, something_new=3)])
        self.assertRegex(self.shown(), r"step +1\n")

    def test_a_run_of_a_newer_format(self):
        for said, more in ((RUN | {"format": 2, "program": {"version": "0.7.0"}}, "use the one of the release that wrote it, 0.7.0"),
                           ({"format": 99}, "format 99, but this program reads up to 1; use the one of the release that wrote it")):
            self.describe(said)
            self.expect_error("mine/run.json: format ", more)
        self.describe(RUN | {"format": 1})
        self.assertIn("200 of 400", self.shown())

    def test_names_cannot_move_the_cursor(self):
        self.describe(RUN | {"runtime": {"scheduler": "a\x1b[2Jb\n"}})
        self.run_folder.rename(self.folder / "x\x1b[H")
        text = self.call("watch_run", "x\x1b[H", LC_ALL="C.UTF-8").stdout
        self.assertNotIn("\x1b", text)
        self.assertIn("small-3m", text.splitlines()[0])

    def test_a_line_that_is_being_written_is_left_out(self):
        self.write([step_line(1), '{"step":2,"lo'], end="")
        self.assertRegex(self.shown(), r"step +1 of 400\n")

    def test_bad_folders(self):
        self.write([step_line(1), "[" * 100000])
        self.expect_error("metrics.jsonl:2: not a line of metrics")
        self.metrics.unlink()
        (self.run_folder / "run.json").unlink()
        self.expect_error("mine/metrics.jsonl", "No such file", "is mine the folder of a run?")
        self.run_folder.rmdir()
        self.expect_error("mine: no such folder; give the one that train_gpt --out wrote")

    def test_into_a_pipe_that_is_closed(self):
        process = subprocess.Popen([APPS / "watch_run", "mine"], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.close()
        # It may have written before.
        said = process.stderr.read()
        self.assertIn(said, (b"", b"watch_run: error: standard output: cannot write: Broken pipe\n"))
        process.stderr.close()
        self.assertEqual(process.wait(timeout=PATIENCE), 1 if said else 0)
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([APPS / "watch_run", "mine"], cwd=self.folder, stdout=full, stderr=subprocess.PIPE, text=True,
                                    check=False, timeout=PATIENCE)
        self.assertEqual((result.returncode, result.stderr),
                         (1, "watch_run: error: standard output: cannot write: No space left on device\n"))

    def start_in_a_terminal(self, kind):
        """The program in a terminal of 80 columns and 6 lines, less than there is to say, and what waits for its output."""
        main, terminal = pty.openpty()
        self.addCleanup(os.close, main)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 6, 80, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "TERM")}
        process = subprocess.Popen([APPS / "watch_run", "mine", "--seconds", "0.05"], cwd=self.folder, stdout=terminal,
                                   stderr=terminal, env=environment | {"LC_ALL": "C.UTF-8"} | kind)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        os.close(terminal)
        seen = ""

        def wait_for(text, times=1):
            nonlocal seen
            end = time.monotonic() + 30
            while seen.count(text) < times:
                self.assertLess(time.monotonic(), end, seen[-2000:])
                if select.select([main], [], [], 1)[0]:
                    seen += os.read(main, 65536).decode(errors="replace")
            return seen

        return process, wait_for

    def test_in_a_terminal_it_is_drawn_again(self):
        process, wait_for = self.start_in_a_terminal({"TERM": "vt100"})
        wait_for("200 of 400")
        with open(self.metrics, "a", encoding="utf-8") as file:
            file.write(json.dumps(step_line(201)) + "\n")
        wait_for("201 of 400")
        # A resumed run goes back.
        self.write([step_line(step) for step in range(1, 51)])
        for drawing in wait_for("50 of 400").split("\x1b[H")[1:]:
            self.assertLessEqual(drawing.count("\n"), 5)
        process.send_signal(2)
        self.assertEqual(process.wait(timeout=PATIENCE), 0)

    def test_in_a_terminal_without_a_cursor_to_move_pictures_follow_each_other(self):
        for kind in ({"TERM": "dumb"}, {}):
            with self.subTest(kind):
                process, wait_for = self.start_in_a_terminal(kind)
                seen = wait_for("200 of 400", times=2)
                self.assertNotIn("\x1b", seen)
                self.assertIn("\r\n\r\nmine: ", seen)
                process.send_signal(2)
                self.assertEqual(process.wait(timeout=PATIENCE), 0)


if __name__ == "__main__":
    unittest.main()
