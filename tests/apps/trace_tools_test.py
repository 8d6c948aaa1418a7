#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces of small runs, on the CPU and with an OpenCL device (PoCL), in the tools that they are for:
ViTE and pj_dump read the Paje trace, its sums are those of the CSV files, and the JSON files
follow docs/traces/*.schema.json."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from harness import PATIENCE, AppTest, program

MISSING = [tool for tool in ("vite", "pj_dump") if shutil.which(tool) is None]
try:
    import jsonschema
except ImportError:
    MISSING.append("python3-jsonschema")

SCHEMAS = Path(os.environ["DOS_SOURCE_DIR"]) / "docs" / "traces"
POCL = {"STARPU_OPENCL_ON_CPUS": "1"}
KEYS = {"sched.subgroup_params": 1500, "train.validate_every": 0, "model.width": 32}
DEVICE = {"train.opencl_devices": 1, "train.workers": 1}


class TraceTools(AppTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.traces = {}
        case = cls("record")
        case.folder = cls.shared
        case.out = cls.shared / "cpu"
        case.trained("--trace", "cpu_trace", keys=KEYS)
        cls.traces["cpu"] = cls.shared / "cpu_trace"
        case.out = cls.shared / "device"
        # Less memory than the states need: they come and go.
        result = case.train("--trace", "device_trace", "--explain", keys=KEYS | DEVICE,
                            env=POCL | {"STARPU_SCHED": "gpu-only", "STARPU_LIMIT_OPENCL_MEM": "1"})
        cls.explanation = result.stdout
        if result.returncode == 0:
            cls.traces["device"] = cls.shared / "device_trace"
        elif "train.opencl_devices" not in result.stderr:
            raise AssertionError(result.stderr)
        else:
            print(f"without a device: {result.stderr.strip()}")

    def record(self):
        """A name for setUpClass."""

    def rows(self, kind, name):
        with open(self.traces[kind] / "rank0" / name, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def dump(self, kind):
        result = subprocess.run(["pj_dump", str(self.traces[kind] / "paje.trace")], text=True,
                                capture_output=True, timeout=PATIENCE, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        return [[field.strip() for field in line.split(",")] for line in result.stdout.splitlines()]

    def test_pj_dump_reads_what_the_rows_say(self):
        for kind in self.traces:
            dump = self.dump(kind)
            states = [row for row in dump
                      if row[0] == "State" and row[2] == "Worker State" and row[7].startswith("dos.")]
            tasks = self.rows(kind, "tasks.csv")
            self.assertEqual(len(states), len(tasks))
            dumped = sum(float(row[5]) for row in states)  # milliseconds
            csv_sum = sum(float(row["end_us"]) - float(row["start_us"]) for row in tasks) / 1e3
            # Six decimals of a millisecond here, three of a microsecond there.
            self.assertAlmostEqual(dumped, csv_sum, delta=2e-6 * len(tasks))
            links = [row for row in dump if row[0] == "Link"]
            self.assertEqual(len(links), len(self.rows(kind, "transfers.csv")))

    def test_storage_is_in_containers_of_its_own(self):
        for kind in self.traces:
            dump = self.dump(kind)
            found = [(row[1], row[7]) for row in dump if row[0] == "State" and row[2] == "Storage State"]
            rows = self.rows(kind, "storage.csv")
            disks = {row["disk"] for row in rows} - {""}
            self.assertEqual(len(disks), 1)
            # What is under way at once is in lines of its own: "DISK / 1".
            flushed = {re.sub(r" \d+$", "", name) for name, value in found if value == "flush"}
            self.assertEqual(flushed, {f"DISK {disk}" for disk in disks})
            self.assertIn("write", {value for name, value in found})
            variables = {row[2] for row in dump if row[0] == "Variable"}
            self.assertLessEqual({"Held (MB)", "Write Bandwidth (MB/s)"}, variables)
            held = [float(row[6]) for row in dump if row[0] == "Variable" and row[2] == "Held (MB)"]
            most = sum(int(row["bytes"]) for row in rows if row["operation"] == "hold") / 2**20
            self.assertLessEqual(max(held), most + 1e-6)
            self.assertGreater(max(held), 0)

    def test_starvz_finds_what_its_phase_1_reads(self):
        # What the scripts of StarVZ's phase 1 do with a Paje trace (docs/traces.md): no empty strings,
        # pj_dump with these options, then rows by their first letters and columns by their place.
        columns = {"value": 7, "size": 8, "params": 9, "footprint": 10, "tag": 11, "job": 12, "order": 13,
                   "iteration": 18, "subiteration": 19}
        for kind, trace in self.traces.items():
            text = (trace / "paje.trace").read_text(encoding="utf-8").replace('""', '"x"')
            result = subprocess.run(["pj_dump", "-o", "-n", "--user-defined"], input=text, text=True,
                                    capture_output=True, timeout=PATIENCE, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertLess(max(map(len, result.stdout.splitlines())), 500, "its buffer for a line")
            dump = [[field.strip() for field in line.split(",")] for line in result.stdout.splitlines()]
            workers = [row for row in dump if row[0] == "State" and row[2] == "Worker State"]
            self.assertLessEqual({row[1].rstrip("0123456789") for row in workers}, {"CPU", "OpenCL"})
            tasks = [row for row in workers if len(row) > 8]
            found = [{name: row[place] for name, place in columns.items()} for row in tasks]
            csv_rows = self.rows(kind, "tasks.csv")
            for row in found:
                int(row["size"]), int(row["footprint"], 16), int(row["tag"], 16)
            for ours, theirs in (("codelet", "value"), ("label", "params"), ("number", "job"),
                                 ("number", "order"), ("step", "iteration"), ("micro_batch", "subiteration")):
                self.assertEqual(sorted(row[ours] for row in csv_rows), sorted(row[theirs] for row in found))
            self.assertIn("Idle", {row[7] for row in workers if len(row) == 8})
            variables = {row[2] for row in dump if row[0] == "Variable"}
            self.assertLessEqual({"Number of Ready Tasks", "Number of Submitted Uncompleted Tasks", "GFlop/s",
                                  "Used (MB)"}, variables)
            links = [row for row in dump if row[0] == "Link"]
            if kind == "device":
                self.assertLessEqual({"Bandwidth In (MB/s)", "Bandwidth Out (MB/s)"}, variables)
                self.assertEqual({row[2] for row in links}, {"Intra-node data Fetch"})
                self.assertEqual({(row[7], row[8]) for row in links},
                                 {("MEMMANAGER0", "MEMMANAGER1"), ("MEMMANAGER1", "MEMMANAGER0")})

    def test_bytes_are_those_that_starpu_counted(self):
        if "device" not in self.traces:
            self.skipTest("no OpenCL device")
        counted = re.findall(r"^  .* -> .* +[\d.]+ +[\d.]+ +([\d.]+) +[\d.]+ %$", self.explanation,
                             re.MULTILINE)
        self.assertEqual(len(counted), 2, self.explanation)
        for megabytes, to in zip(counted, ("1", "0")):
            found = sum(int(row["bytes"]) for row in self.rows("device", "transfers.csv")
                        if row["to"] == to)
            # StarPU's report has three decimals.
            self.assertAlmostEqual(found / 1e6, float(megabytes), delta=0.0006)

    def test_device_memory_keeps_its_limit(self):
        if "device" not in self.traces:
            self.skipTest("no OpenCL device")
        report = json.loads(program("report", self.traces["device"], "--json", cwd=self.folder).stdout)
        for memory in report["memory"][1:]:
            self.assertLessEqual(memory["peak_bytes"], memory["capacity_bytes"])
            self.assertGreater(memory["peak_bytes"], 0)
        self.assertEqual([each["from"] for each in report["links"]], [0, 1])

    def test_vite_reads_it(self):
        for kind, trace in self.traces.items():
            picture = self.folder / f"{kind}.svg"
            result = subprocess.run(["vite", "-e", str(picture), str(trace / "paje.trace")], text=True,
                                    capture_output=True, timeout=PATIENCE, check=False,
                                    env=os.environ | {"QT_QPA_PLATFORM": "offscreen"})
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("0 errors and 0 warnings", result.stdout + result.stderr)
            self.assertIn("<svg", picture.read_text(encoding="utf-8"))

    def expect_schema(self, instance, name):
        schema = json.loads((SCHEMAS / name).read_text(encoding="utf-8"))
        jsonschema.Draft7Validator.check_schema(schema)
        jsonschema.validate(instance, schema)

    def test_json_follows_its_schema(self):
        for trace in self.traces.values():
            self.expect_schema(json.loads((trace / "perfetto.json").read_text(encoding="utf-8")),
                               "perfetto.schema.json")
            self.expect_schema(json.loads((trace / "rank0" / "manifest.json").read_text(encoding="utf-8")),
                               "manifest.schema.json")
            report = program("report", trace, "--json", cwd=self.folder)
            self.assertEqual(report.returncode, 0, report.stderr)
            self.expect_schema(json.loads(report.stdout), "report.schema.json")


if __name__ == "__main__":
    if MISSING:
        print(f"skipped: {', '.join(MISSING)} not found")
        sys.exit(77)
    unittest.main()
