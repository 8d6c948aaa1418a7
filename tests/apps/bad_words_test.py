#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Options and keys that can be read, and mean nothing here."""

import shutil
import subprocess
import unittest

from harness import APPS, PATIENCE, AppTest, environment, program


class BadWords(AppTest):
    def test_folder_with_a_run_that_has_no_checkpoint(self):
        self.trained(keys={"train.stop_after": 2})
        shutil.rmtree(self.out / "checkpoints")
        for result in (self.train(), self.resume()):
            self.expect_error(result, "with --resume auto")
        self.trained("--resume", "auto", keys={"train.stop_after": 2})
        self.assertEqual(self.last(self.out), 2)

    def test_steps_to_trace_that_will_not_come(self):
        self.expect_error(self.train("--trace", "trace", "--trace-steps", "100:200"),
                          "--trace-steps 100:200: the run makes steps 1 to 20, none of them")
        self.expect_nothing_written()

    def test_numbers_that_are_not_finite(self):
        for number in ("nan", "-nan", "inf", "1e999"):
            for name, *arguments in (("checkpoints", self.out, "--prune", "--keep-every-hours", number),
                                     ("plan", "--machine", "h100-4x", "--model", "tiny", "--mtbf-hours", number)):
                self.expect_error(program(name, *arguments, cwd=self.folder), number, name=name)

    def test_keys_of_many_parts(self):
        (self.folder / "deep.toml").write_text("a" + ".a" * 100_000 + " = 1\n")
        self.expect_error(self.train("--config", "deep.toml"), "deep.toml:1: a key of more than 64 parts")
        self.expect_error(program("plan", "--machine", "deep.toml", "--model", "tiny", cwd=self.folder),
                          "deep.toml:1: a key of more than 64 parts", name="plan")

    def test_a_configuration_that_is_not_utf8_is_not_printed(self):
        result = subprocess.run([APPS / "train_gpt", "--print-config", "--set", b"data.path=a\xff"], cwd=self.folder,
                                capture_output=True, check=False, timeout=PATIENCE, env=environment())
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"error: data.path = 'a\xff' is not UTF-8: rename", result.stderr)


if __name__ == "__main__":
    unittest.main()
