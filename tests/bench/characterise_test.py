#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""characterise_test.py simulated|opencl: simulated training steps and their traces, and the tool that
makes the study of docs/characterisation.md, on a simulated node or on this machine with PoCL."""

import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

WHERE = sys.argv.pop(1)
BUILD = Path(os.environ["DOS_BUILD"])
TOOL = Path(__file__).resolve().parent.parent.parent / "tools/characterise"
# A rank of four has 1.487 G of the 5.949 G parameters.
SMALL = ("--machine", "a100-4x", "--model", "llama-7b")
LAYERS, WIDTH, TOKENS = 32, 4096, 2048
# On a busy machine the best plan may leave a device that is a CPU itself out.
HALF = ("--set", "sched.share=0.5", "--set", "sched.fallback=false")


def call(program, *arguments, env=None):
    return subprocess.run([*map(str, (program, *arguments))], text=True, capture_output=True,
                          timeout=280, check=False, env=os.environ | (env or {}))


def step(*arguments):
    return call(BUILD / "bench/simulated_step", *arguments)


def rows(trace, name):
    with open(trace / "rank0" / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Simulated(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="dos-step-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.trace = cls.folder / "trace"
        result = step(*SMALL, "--policy", "zero-offload", "--set", "sched.subgroup_params=25000000",
                      "--trace", cls.trace)
        if "has no SimGrid" in result.stderr:
            print(f"skipped: {result.stderr.strip()}")
            sys.exit(77)
        assert result.returncode == 0, result.stderr
        cls.answer = json.loads(result.stdout)
        # 1.5 GB hold one update of 100 M parameters, 1.2 GB: the next one needs what dead activations free.
        cls.tight = cls.folder / "tight"
        result = step(*SMALL, "--state-memory", "1.5", "--set", "sched.subgroup_params=100000000", "--trace", cls.tight)
        assert result.returncode == 0, result.stderr

    def test_every_copy_is_in_the_trace(self):
        self.assertEqual(sum(int(row["bytes"]) for row in rows(self.trace, "transfers.csv")),
                         self.answer["link_bytes"])

    def test_gradients_leave_once_and_states_stay_at_home(self):
        params = sum(int(row["params"]) for row in rows(self.trace, "placements.csv"))
        moved = Counter()
        for row in rows(self.trace, "transfers.csv"):
            moved[row["category"], row["from"]] += int(row["bytes"])
        self.assertEqual(moved["gradients", "1"], 2 * params)
        self.assertEqual(moved["optimizer states", "0"] + moved["optimizer states", "1"], 0)

    def test_each_step_has_all_tasks(self):
        tasks = Counter((row["step"], row["phase"]) for row in rows(self.trace, "tasks.csv"))
        subgroups = self.answer["subgroups"]
        expected = {"forward": LAYERS + 2, "backward": LAYERS + 2, "reduce": subgroups + 1, "update": subgroups}
        steps = sorted({int(number) for number, _ in tasks})
        self.assertEqual(len(steps), 2)
        for number in steps:
            for phase, count in expected.items():
                self.assertEqual(tasks[str(number), phase], count)

    def test_dead_activations_go_where_updates_need_their_memory(self):
        # Recomputation keeps the input of each layer, 2 bytes a number; StarPU counts whole pages.
        full = LAYERS * WIDTH * TOKENS * 2
        for trace, least in ((self.trace, full), (self.tight, 0)):
            values = [int(row["bytes"]) for row in rows(trace, "memory.csv")
                      if row["category"] == "activations" and row["node"] == "1"]
            self.assertAlmostEqual(max(values), full, delta=LAYERS * 4096)
            self.assertAlmostEqual(min(values), least, delta=LAYERS * 4096 if least else 0)

    def test_the_report_knows_the_swing(self):
        result = call(BUILD / "apps/report", self.tight, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        device = [each for each in report["memory"] if each["node"] == 1][0]
        self.assertEqual(len(device["in_steps"]), 2)
        for each in device["in_steps"]:
            self.assertGreaterEqual(each["peak_bytes"] - each["lowest_bytes"], LAYERS * WIDTH * TOKENS * 2)
        for link in report["links"]:
            self.assertLessEqual(link["overlapped_with_compute"], link["hidden_behind_compute"])
            self.assertLessEqual(link["hidden_behind_compute"], 1.000001)

    def test_states_live_on_gpu_host_and_disks(self):
        """Where the host has no room for all: in each step what is on disks is read and written once, and nothing else."""
        node = ("--machine", "h100", "--model", "llama-7b", "--set", "train.host_memory=40", "--disk", "6:5", "--disk", "3:3")
        trace = self.folder / "homes"
        # Ahead of the norm goes what lives in host memory alone.
        for more, folder in ((("--ahead",), self.folder / "homes-ahead"), ((), trace)):
            result = step(*node, *more, "--trace", folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            said = json.loads(result.stdout)
            self.expect_homes(said)
        self.assertLess(sum(said["step_seconds"]) / len(said["step_seconds"]), 1.15 * said["planned_seconds"])
        placed = [row for row in rows(trace, "placements.csv") if row["resident"] == "1" and row["step"] == "14"]
        self.assertAlmostEqual(12 * sum(int(row["params"]) for row in placed), said["on_gpu"], delta=1)
        moved = {row["buffer"] for row in rows(trace, "transfers.csv")}
        self.assertFalse(moved & {f"state.p.{row['subgroup']}" for row in placed}, "what a GPU keeps stays")
        self.assertTrue(any(buffer.startswith("state.p.") for buffer in moved))

    def expect_homes(self, said):
        homes = [said[home] for home in ("on_gpu", "in_host", "on_disk")]
        self.assertAlmostEqual(sum(homes) / 12, 5.949e9, delta=1e6)
        self.assertTrue(all(home > 1e9 for home in homes), said)
        steps = len(said["step_seconds"])
        # Steps overlap by what the slots hold.
        under_way = said["slots"] * 12 * said["subgroup_params"] / steps
        self.assertAlmostEqual(said["disk_bytes"] / steps, 2 * said["on_disk"], delta=under_way)
        # A disk is busy with its part for as long as its rates say.
        self.assertGreater(said["disk_busy_seconds"] / steps, said["on_disk"] / 2 * (1 / 6e9 + 1 / 5e9) * 0.8)

    def test_updates_go_ahead_of_the_norm(self):
        """Beside backward where nothing is clipped, and once more behind it where all is."""
        seconds = {}
        for name, more in (("waiting", ()), ("ahead", ("--ahead",)), ("clipped", ("--ahead", "--clipped-every", 1))):
            trace = self.folder / name
            result = step("--machine", "h100-4x", "--model", "llama-20b", "--micro-batch", 4, "--state-memory", 2.5,
                          "--set", "sched.subgroup_params=10000000", *more, "--trace", trace)
            self.assertEqual(result.returncode, 0, result.stderr)
            seconds[name] = json.loads(result.stdout)["step_seconds"][-1]
            tasks = rows(trace, "tasks.csv")
            updates = [row for row in tasks if row["phase"] == "update"]
            redone = [row for row in updates if row["codelet"].startswith("dos.redo.")]
            self.assertEqual(len(redone), len(updates) / 2 if name == "clipped" else 0)
            step_14 = [row for row in tasks if row["step"] == "14"]
            end = max(float(row["end_us"]) for row in step_14 if row["phase"] == "backward")
            beside = sum(float(row["end_us"]) < end for row in step_14 if row["phase"] == "update")
            self.assertEqual(beside > 0, name != "waiting")
        self.assertLess(seconds["ahead"], seconds["waiting"])
        self.assertGreater(seconds["clipped"], seconds["ahead"])

    def test_bad_input(self):
        new = ("--trace", self.folder / "new")
        for arguments, part in (
                ((*SMALL, "--trace", self.trace), "holds a trace already"),
                (("--machine", "a100-4x", "--model", "llama-8b", *new), "unknown --model 'llama-8b'"),
                (("--machine", "h10", "--model", "llama-7b", *new), "did you mean"),
                ((*SMALL, "--ranks", 2, *new), "--ranks 2: a rank is simulated with one GPU"),
                ((*SMALL, "--micro-batch", 1000, *new), "--micro-batch 1000 of llama-7b needs"),
                ((*SMALL, "--steps", 0, *new), "--steps 0"),
                ((*SMALL, "--clipped-every", 2, *new), "--clipped-every 2: only what goes ahead"),
                ((*SMALL, "--state-memory", -1, *new), "--state-memory -1"),
                ((*SMALL, "--set", "sched.strid=2", *new), "did you mean 'sched.stride'")):
            result = step(*arguments)
            self.assertEqual(result.returncode, 1, arguments)
            self.assertIn("simulated_step: error: ", result.stderr)
            self.assertIn(part, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)


class Tool(unittest.TestCase):
    def study(self, folder, *arguments):
        result = call(sys.executable, TOOL, "--quick", "--build", BUILD, "--output", folder, *arguments)
        if WHERE == "opencl" and "train.opencl_devices" in result.stderr:
            self.skipTest(result.stderr.strip())
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        for policy in ("zero-offload", "dos, streamed"):
            self.assertIn(f"\n| {policy} | ", result.stdout)
        return json.loads((folder / "figures.json").read_text(encoding="utf-8"))

    def test_the_study(self):
        with tempfile.TemporaryDirectory(prefix="dos-study-") as folder:
            records = self.study(Path(folder), "--no-picture", *(SMALL if WHERE == "simulated" else HALF))
        self.assertEqual([each["policy"] for each in records], ["zero-offload", "dos, streamed"])
        for each in records:
            self.assertNotIn("error", each)
            self.assertGreaterEqual(each["peak_gb"], each["lowest_gb"])
            self.assertLessEqual(each["peak_gb"], each["capacity_gb"])
        # Nothing but 16-bit numbers moves when the CPU updates; states do when a GPU takes a part.
        offloaded, shared = records
        self.assertGreater(shared["gb_a_step"]["d2h"], offloaded["gb_a_step"]["d2h"])

    def test_bad_input(self):
        result = call(sys.executable, TOOL, "--quick", "--build", "nowhere", *(
            SMALL if WHERE == "simulated" else ()))
        self.assertEqual(result.returncode, 1)
        self.assertIn("characterise: error: ", result.stderr)
        self.assertNotIn("Traceback", result.stderr)


if __name__ == "__main__":
    if WHERE != "simulated":
        del Simulated
    unittest.main()
