#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""update_phase --here: the update phase on this machine, with an OpenCL device in the place of a GPU."""

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

from phase_harness import phase

WORKED = Path(__file__).with_name("worked_example.toml")
# StarPU counts CPUs as OpenCL devices only when told to.
os.environ["STARPU_OPENCL_ON_CPUS"] = "1"
os.environ["STARPU_SILENT"] = "1"


class Here(unittest.TestCase):
    PARAMS = 8_000_000

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="dos-phase-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.machine = Path(cls.folder.name, "one-worker.toml")
        cls.machine.write_text(WORKED.read_text().replace("value = 24", "value = 1"))
        cls.larger = Path(cls.folder.name, "larger.toml")
        cls.larger.write_text(WORKED.read_text().replace("value = 24", "value = 9999"))
        result = cls.run_here()
        if "StarPU finds" in result.stderr:
            print("skipped: no OpenCL device; install pocl-opencl-icd")
            sys.exit(77)

    @classmethod
    def run_here(cls, *arguments):
        return phase("--machine", cls.machine, "--here", "--params", cls.PARAMS, "--subgroup", "1M",
                     *(() if "--gpu-memory" in arguments else ("--gpu-memory", 0.2)), *arguments)

    def measured(self, *arguments):
        result = self.run_here(*arguments, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_cpu_updates_move_gradients_and_working_parameters(self):
        result = self.measured("--policy", "zero-offload")
        # The clip factor, 4 bytes, never moves.
        self.assertEqual(result["bytes_d2h"], 2 * self.PARAMS)
        self.assertEqual(result["bytes_h2d"], 2 * self.PARAMS)
        self.assertEqual(result["gpu_share"], 0)
        self.assertEqual(len(result["step_seconds"]), 3)

    def test_resident_states_do_not_move(self):
        result = self.measured("--policy", "gpu-only")
        self.assertEqual((result["bytes_d2h"], result["bytes_h2d"], result["gpu_share"]), (0, 0, 1))

    def test_streamed_states_come_and_go(self):
        # Room for one subgroup of 8. Of the 4 on the GPU 12 bytes a parameter come and go, of the others 2. The last
        # one may stay until the next step needs it, or goes when the step's bytes have been counted.
        result = self.measured("--policy", "dos-stride", "--stride", 2, "--no-residents", "--gpu-memory", 0.02)
        for bytes in (result["bytes_h2d"], result["bytes_d2h"]):
            self.assertAlmostEqual(bytes, (12 * 4 + 2 * 4) * 1e6, delta=12e6)
        self.assertEqual(result["gpu_share"], 0.5)

    def test_policies_of_starpu_run_too(self):
        self.assertGreater(self.measured("--policy", "dmdas")["gparams_per_s"], 0)

    def test_what_this_machine_has_not(self):
        for arguments, parts in ((("--slow-gpu", 2), ("--slow-gpu", "--here")),
                                 (("--params", "1000G", "--subgroup", 0), ("--params", "use fewer")),
                                 (("--machine", self.larger), ("larger", "9999 CPU workers", "calibrate"))):
            with self.subTest(str(arguments)):
                options = {"--machine": self.machine, "--params": "4M", "--gpu-memory": 6}
                options.update(zip(arguments[::2], arguments[1::2]))
                result = phase("--here", *(word for option in options.items() for word in option))
                self.assertEqual(result.returncode, 1, result.stdout)
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
                for part in parts:
                    self.assertIn(part, result.stderr)


if __name__ == "__main__":
    unittest.main()
