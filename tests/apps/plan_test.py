#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plan answers at once, in text, JSON and SVG, and wrong input ends it with one line."""

import contextlib
import json
import resource
import subprocess
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

from harness import APPS, program

H100 = ("--machine", "h100-4x", "--ranks", "4")


class Plan(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dos-plan-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def plan(self, *arguments):
        return program("plan", *arguments, cwd=self.folder)

    def planned(self, *arguments):
        result = self.plan(*arguments, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def expect_error(self, arguments, *parts):
        with self.subTest(str(arguments)):
            result = self.plan(*arguments)
            self.assertEqual(result.returncode, 1, result.stdout)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            for part in ("plan: error: ", *parts):
                self.assertIn(part, result.stderr)

    def test_json_keys(self):
        result = self.planned(*H100, "--model", "llama-20b", "--set", "sched.resident=false")
        self.assertLessEqual({"fits", "update_s", "step_s", "bound_s", "share", "window", "binding",
                              "memory"}, set(result))
        self.assertIs(result["fits"], True)
        self.assertGreaterEqual(result["update_s"], result["bound_s"])
        self.assertEqual(result["binding"], "dram")

    def test_the_published_code_is_slower(self):
        published = self.planned(*H100, "--model", "llama-20b", "--policy", "dos-stride", "--set",
                                 "sched.published=true", "--set", "sched.stride=2")
        ours = self.planned(*H100, "--model", "llama-20b", "--set", "sched.resident=false")
        self.assertAlmostEqual(published["update_s"], 1.3, delta=0.13)
        self.assertLess(ours["update_s"], published["update_s"])

    def test_disks_of_a_configuration_count(self):
        file = self.folder / "mine.toml"
        file.write_text('[model]\npreset = "llama-7b"\n[sched]\ndisks = ["/any:900GB"]\nhost_memory = 0\n')
        arguments = ("--machine", "h100-4x-nvme", "--model", str(file), "--set", "sched.resident=false")
        result = self.planned(*arguments)
        self.assertEqual(set(result["tiers"]), {"nvme"})
        # In FP32 the parameters stay.
        self.assertAlmostEqual(result["tiers"]["nvme"]["read"] / (8 * result["params"]), 1, delta=1e-6)
        self.assertEqual(result["tiers"]["nvme"]["capacity"], 900e9)
        keys = result["keys"]
        self.assertEqual((keys["sched.disks"], keys["sched.host_memory"]), ("/any:900000MB", "0"))
        for more, bytes_there in (("sched.host_memory=auto", 0), ("sched.host_memory=40", 8 * result["params"] - 40e9)):
            other = self.planned(*arguments, "--set", more)
            self.assertGreaterEqual(other["tiers"]["nvme"]["read"], bytes_there)
            self.assertLess(other["tiers"]["nvme"]["read"], result["tiers"]["nvme"]["read"])
        self.expect_error((*arguments, "--set", "sched.host_memory=-2"), "must lie in [0, 1e+06] GB (or be auto)")
        self.expect_error(("--machine", "h100-4x", "--model", str(file)), "sched.disks names 1 disk(s)", "h100-4x has 0",
                          "calibrate --disk NAME=FOLDER", "add a [[tier]]")

    def test_175b_is_planned_in_a_moment(self):
        with self.within_a_moment():
            result = self.plan(*H100, "--model", "gpt3-175b")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("DOES NOT FIT", result.stdout)
        self.assertNotIn("to run so", result.stdout)

    def test_a_trillion_on_1024_ranks_is_planned_in_a_moment(self):
        with self.within_a_moment():
            result = self.planned("--machine", "h100-4x", "--ranks", "1024", "--model", "gpt-1t")
        self.assertIs(result["fits"], True)
        # Gradients once and weights twice, 2 bytes each.
        sent = result["sent"]["gradients"] + result["sent"]["weights"]
        self.assertAlmostEqual(sent / (6 * result["params"] * 1023 / 1024), 1)

    @contextlib.contextmanager
    def within_a_moment(self):
        """Programs take at most the processor time in which Python adds 45 million squares: a second or three, as fast as
        the machine is. 175B takes a third of it."""
        def seconds(whose):
            usage = resource.getrusage(whose)
            return usage.ru_utime + usage.ru_stime

        before = seconds(resource.RUSAGE_CHILDREN)
        yield
        took = seconds(resource.RUSAGE_CHILDREN) - before
        before = seconds(resource.RUSAGE_SELF)
        sum(i * i for i in range(3_000_000))
        self.assertLess(took, 15 * (seconds(resource.RUSAGE_SELF) - before))

    def test_every_preset_on_every_machine(self):
        for machine in ("a100", "a100-4x", "cpu-2core", "gh200", "h100", "h200", "rtx4090"):
            for model in ("tiny", "gpt2-1.5b", "llama-7b"):
                with self.subTest(machine=machine, model=model):
                    self.assertGreater(self.planned("--machine", machine, "--model", model)
                                       ["step_s"], 0)

    def test_svg_is_xml(self):
        result = self.plan("--machine", "rtx4090", "--model", "llama-3b", "--svg", "plan.svg")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("timeline of", result.stdout)
        self.assertTrue(ElementTree.parse(self.folder / "plan.svg").getroot().tag.endswith("svg"))

    def test_a_configuration_of_train_gpt(self):
        (self.folder / "mine.toml").write_text('[model]\npreset = "gpt2-124m"\nlayers = 6\n')
        small = self.planned("--machine", "rtx4090", "--model", "mine.toml")
        large = self.planned("--machine", "rtx4090", "--model", "gpt2-124m")
        self.assertLess(small["params"], large["params"])

    def test_what_a_configuration_says_and_the_command_line_changes(self):
        (self.folder / "mine.toml").write_text('[model]\npreset = "gpt2-124m"\n[train]\nbatch = 2\n'
                                               "[sched]\nstride = 4\nresident = false\n")
        said = self.planned("--machine", "rtx4090", "--model", "mine.toml")
        self.assertEqual(said["micro_batch"], 2)
        self.assertAlmostEqual(said["share"], 0.25, delta=0.1)
        changed = self.planned("--machine", "rtx4090", "--model", "mine.toml", "--micro-batch", "3",
                               "--set", "sched.share=0.75")
        self.assertEqual(changed["micro_batch"], 3)
        self.assertAlmostEqual(changed["share"], 0.75, delta=0.1)
        # A configuration serves several policies.
        self.assertEqual(self.planned("--machine", "rtx4090", "--model", "mine.toml", "--policy",
                                      "zero-offload")["share"], 0)
        (self.folder / "wrong.toml").write_text("[sched]\nshare = 1.5\n")
        self.expect_error(("--machine", "rtx4090", "--model", "wrong.toml"), "wrong.toml: sched.share", "1.5")

    def test_options_of_other_policies(self):
        for policy, option in (("gpu-only", "share=0.5"), ("zero-offload", "share=0.5"), ("dos-stride", "share=0.5"),
                               ("twinflow", "stride=2"), ("zero-offload", "stride=2"), ("gpu-only", "stride=2"),
                               ("gpu-only", "published=true"), ("twinflow", "window=2")):
            name, value = option.split("=")
            self.expect_error((*H100, "--model", "llama-7b", "--policy", policy, "--set", f"sched.{option}"),
                              f"sched.{name} = {value}: policy {policy} does not read it", "choose dos")

    def test_a_window_that_does_not_fit(self):
        for window in ("100000", "9223372036854775807"):
            self.expect_error((*H100, "--model", "llama-7b", "--set", f"sched.window={window}"),
                              f"sched.window = {window}: ", "at most ")

    def test_validation_tables(self):
        result = self.plan("--validation")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("| h100-4x | llama-20b | stride 2 |", result.stdout)

    def test_output_that_cannot_be_written(self):
        # No file may grow.
        def no_room():
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        with open(self.folder / "out", "wb") as out:
            result = subprocess.run([APPS / "plan", *H100, "--model", "tiny"], stdout=out, stderr=subprocess.PIPE,
                                    text=True, restore_signals=False, preexec_fn=no_room, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, "plan: error: standard output: cannot write: File too large\n")

    def test_wrong_input(self):
        self.expect_error(("--model", "tiny"), "give --machine and --model")
        self.expect_error(("--machine", "h100-5x", "--model", "tiny"),
                          "unknown machine 'h100-5x' (did you mean 'h100-4x'?)")
        self.expect_error((*H100, "--model", "llama-7"), "(did you mean 'llama-7b'?)")
        self.expect_error((*H100, "--model", "llama-7b", "--policy", "do"),
                          "unknown policy 'do' (did you mean 'dos'?)")
        self.expect_error((*H100, "--model", "llama-7b", "--set", "sched.share=2"),
                          "sched.share = 2 must lie between 0 and 1")
        self.expect_error((*H100, "--model", "llama-7b", "--set", "shed.share=2"),
                          "unknown key 'shed.share'")
        self.expect_error((*H100, "--model", "llama-7b", "--set", "dist.zero=4"),
                          "dist.zero=4: must be 1, 2 or 3")
        self.expect_error((*H100, "--model", "llama-7b", "--set", "dist.exchange=mpi"),
                          "'mpi' is not known; known: direct, collective")
        self.expect_error(("--machine", "cpu-2core", "--ranks", "2", "--ranks-per-node", "1",
                           "--model", "tiny"), "has no network.bandwidth")
        self.expect_error((*H100, "--model", "llama-7b", "--set", "sched.subgroup_params=1"),
                          "sched.subgroup_params = 1 cuts 5.95e+09 parameters", "more than 200000", "raise it above 2.97e+04")
        for option, value in (("--micro-batch", "9" * 22), ("--ranks", "9" * 20), ("--micro-batch", "0"),
                              ("--ranks", "1000001"), ("--ranks-per-node", "0")):
            self.expect_error((*H100[:2], "--model", "llama-7b", option, value), f"{option} ", ": must be ")
        self.expect_error((*H100, "--model", "missing.toml"), "missing.toml")
        self.expect_error(("--machine", "this", "--machines", ".", "--model", "tiny"),
                          "machine 'this' needs", "does not exist")
        self.expect_error(("--machine", "rtx4090", "--model", "llama-3b", "--micro-batch", "8", "--policy", "gpu-only",
                           "--set", "sched.subgroup_params=1000000000", "--set", "train.precision=fp32"),
                          "use a smaller sched.subgroup_params or policy zero-offload")
        self.expect_error(("--machine", "rtx4090", "--model", "llama-20b", "--policy", "gpu-only"),
                          "GPU 0 has 0.000 GB free", ": use policy zero-offload")
        self.expect_error((*H100, "--model", "llama-7b", "--set", "sched.flush_mode=blocking"),
                          "sched.flush_mode=blocking: ", "add sched.published=true")
        (self.folder / "bad.toml").write_text("format = 1\n")
        self.expect_error(("--machine", "bad.toml", "--model", "tiny"), "bad.toml: 'description")


if __name__ == "__main__":
    unittest.main()
