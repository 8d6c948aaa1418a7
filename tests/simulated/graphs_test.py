#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dos` beside `dmdas` on whole graphs. DOS_BUILD names the folder of the build."""

import os
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
from simulated_graphs import Node  # noqa: E402


class SimulatedGraphs(unittest.TestCase):
    def test_dos_is_no_slower_than_dmdas(self):
        # The training graph's updates run beside backward, and the next step waits for the last of them. By a plan for
        # all at once half of them, the last one too, wait for CPU workers a fourth as fast as the GPU: 0.7 % slower.
        options = SimpleNamespace(build=Path(os.environ["DOS_BUILD"]), memory=80)
        with tempfile.TemporaryDirectory(prefix="dos-graphs-") as folder:
            for ratio in Node(options, "slow", Path(folder)).ratios(tiles=7, lanes=8):
                self.assertLess(ratio, 1)


if __name__ == "__main__":
    unittest.main()
