#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that were built with another StarPU than the one that is loaded. Argument: what is loaded before it."""

import sys
import unittest

from harness import AppTest, program

PRELOADED = sys.argv.pop() if len(sys.argv) > 1 else ""


class OtherStarpu(AppTest):
    def test_a_run_says_both_versions_and_the_remedy(self):
        result = self.train(env={"LD_PRELOAD": PRELOADED})
        self.expect_error(result, "StarPU 1.99.3 is loaded, but the program was built with StarPU 1.", "LD_LIBRARY_PATH")
        self.expect_nothing_written()

    def test_what_needs_no_starpu_works(self):
        for name in ("train_gpt", "plan", "calibrate"):
            with self.subTest(program=name):
                result = program(name, "--version", cwd=self.folder, env={"LD_PRELOAD": PRELOADED})
                self.assertEqual((result.returncode, result.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
