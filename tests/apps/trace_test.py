#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records traces of small runs and looks at what comes out: sums, options, reports, bad input."""

import csv
import json
import os
import shutil
import unittest

from harness import AppTest, program

KEYS = {"train.accumulate": 2, "sched.subgroup_params": 1500, "train.validate_every": 10,
        "train.checkpoint_every": 5}
STEPS = 20


def rows(folder, name):
    with open(folder / "rank0" / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Traces(AppTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.trace = cls.shared / "trace"
        case = cls("record")
        case.folder = cls.shared
        case.out = cls.shared / "traced"
        case.trained("--trace", cls.trace, keys=KEYS)
        shutil.rmtree(case.out / "checkpoints")

    def record(self):
        """A name for setUpClass."""

    def report(self, *arguments):
        return program("report", *arguments, cwd=self.folder)

    def test_every_task_of_every_step_is_there(self):
        tasks = rows(self.trace, "tasks.csv")
        of_step = {}
        for task in tasks:
            if int(task["step"]) > 0:
                of_step.setdefault(int(task["step"]), []).append(task)
        self.assertEqual(sorted(of_step), list(range(1, STEPS + 1)))
        # Steps are alike, but for the first touch of nothing: the same tasks in each.
        def shape(tasks):
            return sorted((task["codelet"], task["label"], task["phase"], task["micro_batch"])
                          for task in tasks)
        for step in range(2, STEPS + 1):
            self.assertEqual(shape(of_step[step]), shape(of_step[1]))
        self.assertEqual({task["phase"] for task in of_step[1]},
                         {"forward", "backward", "reduce", "update"})
        self.assertEqual({task["micro_batch"] for task in of_step[1] if task["phase"] == "forward"},
                         {"0", "1"})
        numbers = [int(task["number"]) for task in tasks]
        self.assertEqual(sorted(numbers), list(range(len(tasks))))
        names = {task["label"] for task in of_step[1] if task["phase"] == "update"}
        placed = {(row["subgroup"], int(row["step"])) for row in rows(self.trace, "placements.csv")}
        self.assertEqual(placed, {(name, step) for name in names for step in of_step})

    def test_workers_run_one_task_at_a_time(self):
        by_worker = {}
        for task in rows(self.trace, "tasks.csv"):
            by_worker.setdefault(task["worker"], []).append(
                (float(task["start_us"]), float(task["end_us"])))
        for spans in by_worker.values():
            spans.sort()
            for (_, end), (start, _) in zip(spans, spans[1:]):
                self.assertGreaterEqual(start, end)

    def test_sums_agree(self):
        report = json.loads(self.report(self.trace, "--json").stdout)
        tasks = [task for task in rows(self.trace, "tasks.csv")]
        window = [task for task in tasks if int(task["step"]) > 0]
        start = min(float(task["start_us"]) for task in window)
        end = max(float(task["end_us"]) for task in window)
        total = sum(float(task["end_us"]) - float(task["start_us"]) for task in tasks
                    if start <= float(task["start_us"]) and float(task["end_us"]) <= end)
        # Times have 3 decimals: half of the last one for each of start and end.
        tolerance = len(tasks) * 1e-3 / 1e3
        self.assertAlmostEqual(report["task_ms"], total / 1e3, delta=tolerance)
        used = sum(worker["ms"]["computing"] + worker["ms"]["slowed by DRAM"]
                   for worker in report["workers"])
        self.assertAlmostEqual(used, total / 1e3, delta=tolerance)
        for worker in report["workers"]:
            self.assertAlmostEqual(sum(worker["ms"].values()), report["window_ms"], delta=tolerance)
        # The metrics' times are of the same tasks.
        metrics = [line for line in self.metrics(self.shared / "traced") if "loss" in line]
        for step, line in zip(report["steps"][1:], metrics[1:]):
            self.assertAlmostEqual(step["ms"], line["ms_step"], delta=0.01 * line["ms_step"] + 0.01)

    def test_memory_returns_to_its_start_after_each_step(self):
        report = json.loads(self.report(self.trace, "--json").stdout)
        host = report["memory"][0]
        self.assertEqual([each["step"] for each in host["after_step"]], list(range(1, STEPS + 1)))
        # The sums of checkpoints have buffers from shortly before the first one on.
        first = KEYS["train.checkpoint_every"] - 1
        self.assertEqual(len({each["bytes"] for each in host["after_step"][first:]}), 1)
        self.assertEqual(host["after_step"][first]["bytes"], host["peak_bytes"])

    def test_the_submitting_thread_is_seen(self):
        spans = rows(self.trace, "spans.csv")
        self.assertEqual({span["name"] for span in spans}, {"wait", "validation", "checkpoint"})
        self.assertEqual({int(span["step"]) for span in spans if span["name"] == "checkpoint"},
                         {5, 10, 15, 20})

    def test_checkpoints_are_seen(self):
        storage = rows(self.trace, "storage.csv")
        self.assertEqual({row["operation"] for row in storage} - {"copy", "wait"}, {"hold", "write", "flush"})
        self.assertEqual({row["purpose"] for row in storage}, {"checkpoint"})
        self.assertEqual({int(row["step"]) for row in storage}, {5, 10, 15, 20})
        def total(step, operation):
            return sum(int(row["bytes"]) for row in storage
                       if (int(row["step"]), row["operation"]) == (step, operation) and row["buffer"])
        report = json.loads(self.report(self.trace, "--json").stdout)
        checkpoints = {each["step"]: each for each in report["checkpoints"]}
        self.assertEqual(sorted(checkpoints), [5, 10, 15, 20])
        told = {line["checkpoint_step"]: line for line in self.metrics(self.shared / "traced")
                if "checkpoint_step" in line}
        # A step tells of the last that has ended in it; that of step 5 has before that of step 15 begins.
        self.assertTrue(told)
        self.assertLessEqual(set(told), {5, 10, 15})
        for step, each in checkpoints.items():
            self.assertEqual(each["bytes"], total(step, "write"))
            self.assertEqual(each["bytes"], total(step, "hold"), "every buffer is held once")
            self.assertEqual(each["copied_bytes"], total(step, "copy"))
            if step in told:
                # Metrics have six digits.
                self.assertLess(each["bytes"], 10**6)
                self.assertEqual(each["bytes"], round(told[step]["mb_checkpoint"] * 1e6))
                self.assertEqual(each["copied_bytes"], round(told[step]["mb_checkpoint_copied"] * 1e6))
                self.assertAlmostEqual(each["waited_ms"], told[step]["ms_checkpoint_waited"],
                                       delta=1e-5 * (1 + each["waited_ms"]))
        self.assertEqual([each["operation"] for each in report["disks"]], ["write"])
        written = sum(int(row["bytes"]) for row in storage if row["operation"] == "write")
        self.assertEqual(report["disks"][0]["bytes"], written)
        text = self.report(self.trace, "--output", "page.html").stdout
        self.assertIn("rank 0: 4 checkpoints of ", text)
        page = (self.folder / "page.html").read_text(encoding="utf-8")
        for part in ("Checkpoints and disks", ">held for checkpoints<", ">copies<", ">updates waiting<",
                     f">write {report['disks'][0]['disk']}<"):
            self.assertIn(part, page)

    def test_a_trace_of_an_older_program_is_read(self):
        old = self.folder / "old"
        shutil.copytree(self.trace, old)
        (old / "rank0" / "storage.csv").unlink()
        manifest = old / "rank0" / "manifest.json"
        self.expect_error(self.report(old), "storage.csv", name="report")
        fields = json.loads(manifest.read_text(encoding="utf-8"))
        del fields["rows"]["storage.csv"]
        manifest.write_text(json.dumps(fields), encoding="utf-8")
        result = self.report(old)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("checkpoints of", result.stdout)
        self.assertNotIn("Checkpoints and disks", (old / "report.html").read_text(encoding="utf-8"))

    def test_the_page_stands_alone(self):
        result = self.report(self.trace, "--output", "page.html")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("median step", result.stdout)
        page = (self.folder / "page.html").read_text(encoding="utf-8")
        for forbidden in ("<script", "http:", "https:", "src=", "@import"):
            self.assertNotIn(forbidden, page)

    def test_advice_is_for_this_machine(self):
        manifest = json.loads((self.trace / "rank0" / "manifest.json").read_text())
        self.assertEqual(manifest["configuration"]["train"]["lanes"], 2)
        self.assertEqual(manifest["configuration"]["sched"]["subgroup_params"], 1500)
        report = json.loads(self.report(self.trace, "--json").stdout)
        self.assertTrue(report["losses"])
        # Two CPU workers, two lanes of two of four sequences, no device, one rank, FP32.
        for loss in report["losses"]:
            text = loss["what"] + loss["remedy"]
            self.assertNotRegex(text, "device|GPU|STARPU_SCHED|waited for data|rank|train.lanes|gradient_precision")
        self.assertEqual(report["time_shares"]["waiting for data"], 0)

    def test_steps_can_be_chosen(self):
        self.trained("--trace", "few", "--trace-steps", "3:4", keys=KEYS)
        steps = {int(task["step"]) for task in rows(self.folder / "few", "tasks.csv")}
        self.assertEqual(steps - {0}, {3, 4})

    def test_two_policies_side_by_side(self):
        self.trained("--trace", "other", keys=KEYS, env={"STARPU_SCHED": "lws"})
        result = self.report("--compare", self.trace, "other", "--json", "--output", "both.html")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([each["policy"] for each in json.loads(result.stdout)], ["dos", "lws"])
        self.assertIn("lws", (self.folder / "both.html").read_text(encoding="utf-8"))

    def test_the_training_is_the_same(self):
        self.trained(keys=KEYS)
        self.assertEqual(self.losses(), self.losses(self.shared / "traced"))

    def test_a_full_disk_drops_the_trace_not_the_run(self):
        part = self.folder / "full" / "rank0"
        part.mkdir(parents=True)
        (part / "tasks.csv").symlink_to("/dev/full")
        result = self.trained("--trace", "full", keys=KEYS)
        self.assertEqual(result.stderr.count("the trace ends here, the run goes on"), 1)
        self.assertIn("No space left on device", result.stderr)
        self.assertEqual(self.losses(), self.losses(self.shared / "traced"))

    def test_bad_options(self):
        self.expect_error(self.train("--trace", self.trace), "holds a trace already")
        self.expect_error(self.train("--trace", "new", "--trace-steps", "5"), "--trace-steps '5'")
        self.expect_error(self.train("--trace-steps", "1:5"), "--trace-steps needs --trace")
        (self.folder / "file").write_text("")
        self.expect_error(self.train("--trace", "file/trace"), "cannot create the folder")
        self.expect_nothing_written()

    def test_bad_folders(self):
        self.expect_error(self.report("none"), "none: no such folder", name="report")
        self.expect_error(self.report(self.shared), "holds no trace", name="report")
        self.expect_error(self.report(), "give the folder", name="report")
        cut = self.folder / "cut"
        shutil.copytree(self.trace, cut)
        tasks = cut / "rank0" / "tasks.csv"
        tasks.write_bytes(tasks.read_bytes()[:-5])
        self.expect_error(self.report(cut), "tasks.csv", "cut off", name="report")
        self.trained("--trace", "wide", keys=KEYS | {"model.width": 32})
        self.expect_error(self.report("--compare", self.trace, "wide"), "cannot be compared",
                          name="report")
        if os.geteuid() != 0:  # root reads everything
            tasks.chmod(0)
            self.expect_error(self.report(cut), "tasks.csv", "Permission denied", name="report")


if __name__ == "__main__":
    unittest.main()
