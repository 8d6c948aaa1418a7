#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What scripts rely on: exit codes, and JSON as docs/exit-codes.md says. Exit status 77: skipped, jsonschema is missing."""

import json
import os
import signal
import sys
import unittest
from pathlib import Path

try:
    import jsonschema
except ImportError:
    jsonschema = None

from harness import PATIENCE, AppTest, program

SOURCE = Path(os.environ["DOS_SOURCE_DIR"])
PROGRAMS = ("train_gpt", "plan", "prepare_data", "generate", "evaluate", "export", "checkpoints", "calibrate", "report",
            "sampling", "watch_run")


class Scripting(AppTest):
    def expect_schema(self, instance, name):
        schema = json.loads((SOURCE / "docs" / name).read_text(encoding="utf-8"))
        jsonschema.Draft7Validator.check_schema(schema)
        jsonschema.validate(instance, schema)

    def json_of(self, *arguments, status=0):
        result = program(*arguments, cwd=self.folder)
        self.assertEqual(result.returncode, status, result.stderr)
        return json.loads(result.stdout)

    def test_plans(self):
        for arguments in (("--machine", "h100", "--model", "llama-7b"),
                          ("--machine", "rtx4090", "--model", "llama-20b"),  # does not fit
                          ("--machine", "cpu-2core", "--model", "tiny", "--write-rate", "2"),
                          ("--machine", "h100-4x-nvme", "--model", "llama-70b", "--ranks", "4", "--policy", "zero-offload",
                           "--set", "dist.zero=2"),
                          ("--machine", "h100-4x-nvme", "--model", "llama-7b", "--ranks", "4", "--micro-batch", "12",
                           "--set", "train.activations=auto")):
            with self.subTest(arguments=arguments):
                plan = self.json_of("plan", *arguments, "--json")
                self.expect_schema(plan, "schemas/plan.schema.json")
                self.assertEqual("checkpoints" in plan, "--write-rate" in arguments)
                del plan["share"]
                with self.assertRaises(jsonschema.ValidationError):
                    self.expect_schema(plan, "schemas/plan.schema.json")

    def test_a_run(self):
        self.trained("--trace", self.folder / "trace", "--quiet", keys={"train.steps": 4, "train.validate_every": 2})
        kinds = set()
        for line in self.metrics():
            self.expect_schema(line, "schemas/metrics.schema.json")
            kinds.add("loss" in line)
        self.assertEqual(kinds, {True, False})
        for arguments in ((), ("--verify",), ("--prune", "--dry-run")):
            self.expect_schema(self.json_of("checkpoints", self.out, "--json", *arguments), "schemas/checkpoints.schema.json")
        self.expect_schema(self.json_of("evaluate", self.out, "--data", self.shared / "data", "--json"),
                           "schemas/evaluate.schema.json")
        self.expect_schema(self.json_of("report", self.folder / "trace", "--json"), "traces/report.schema.json")
        weights = next(self.checkpoint().glob("model*.safetensors"))
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.unlink()  # the last checkpoint and the best one may be the same file
        weights.write_bytes(content)
        damaged = self.json_of("checkpoints", self.out, "--json", "--verify", status=1)
        self.expect_schema(damaged, "schemas/checkpoints.schema.json")
        self.assertTrue(any(each["fault"] for each in damaged))

    def test_programs_describe_themselves(self):
        for name in PROGRAMS:
            with self.subTest(program=name):
                self.expect_schema(self.json_of(name, "--describe"), "schemas/program.schema.json")

    def test_errors_end_with_1_and_begin_with_the_program(self):
        for name in PROGRAMS:
            with self.subTest(program=name):
                self.expect_error(program(name, "--no-such-option", cwd=self.folder), f"see {name} --help", name=name)
                for argument in ("--help", "--version", "--describe"):
                    self.assertEqual(program(name, argument, cwd=self.folder).returncode, 0)

    def test_a_run_that_is_asked_to_stop_ends_with_0(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGXCPU):
            with self.subTest(signal=number.name):
                self.out = self.folder / number.name
                process = self.start(keys={"train.steps": 1_000_000, "train.validate_every": 0})
                self.wait_for_metrics(process)
                process.send_signal(number)
                process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, 0)
                self.assertGreater(self.last(self.out), 0)


if __name__ == "__main__":
    if jsonschema is None:
        print("skipped: jsonschema not found")
        sys.exit(77)
    unittest.main()
