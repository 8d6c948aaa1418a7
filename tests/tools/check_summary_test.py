#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check_summary.py on results as CTest 3.25 writes them."""

import subprocess
import sys
import unittest
from pathlib import Path

from scratch import InScratchFolder

SUMMARY = Path(__file__).resolve().parents[2] / "tools" / "check_summary.py"

PASSED = '<testcase name="a.passed" status="run"><system-out>fine</system-out></testcase>'
FAILED = '<testcase name="a.failed" status="fail" time="12.4"><failure message=""/></testcase>'
NOT_BUILT = ('<testcase name="b_NOT_BUILT" status="notrun">'
             '<skipped message="Unable to find executable"/></testcase>')
DISABLED = '<testcase name="a.disabled" status="disabled"/>'


def gtest_skip(name, reason):
    output = f"[ RUN      ] A\n/x/a_test.cpp:4: Skipped\n{reason}\n[  SKIPPED ] A (0 ms)\n"
    return (f'<testcase name="{name}" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'
            f"<system-out>{output}</system-out></testcase>")


CHECK_SKIP = ('<testcase name="checks.format" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>'
              "<system-out>skipped: no clang-format-14\n</system-out></testcase>")


class CheckSummary(InScratchFolder):
    def summary(self, *cases, notes="", part="release"):
        """(status, output lines) of results with these test cases."""
        text = '<?xml version="1.0" encoding="UTF-8"?><testsuite>' + "".join(cases) + "</testsuite>"
        (self.folder / f"{part}.xml").write_text(text, encoding="utf-8")
        (self.folder / "notes.tsv").write_text(notes, encoding="utf-8")
        result = subprocess.run([sys.executable, SUMMARY, self.folder], capture_output=True,
                                text=True, check=False)
        self.assertEqual(result.stderr, "")
        return result.returncode, result.stdout.splitlines()

    def test_all_passed(self):
        status, lines = self.summary(PASSED, PASSED)
        self.assertEqual((status, lines[-1]), (0, "2 passed, 0 failed, 0 skipped"))

    def test_a_failed_test(self):
        status, lines = self.summary(PASSED, FAILED)
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertIn("FAILED   release: a.failed after 12 s", lines)

    def test_a_failed_test_has_its_last_words(self):
        output = "\n".join(f"line {number}" for number in range(40)) + "\n\n" + "x" * 500
        status, lines = self.summary('<testcase name="a" status="fail"><failure message="Failed"/>'
                                     f"<system-out>{output}</system-out></testcase>")
        self.assertEqual((status, lines[-1]), (1, "0 passed, 1 failed, 0 skipped"))
        start = lines.index("FAILED   release: a after 0 s Failed")
        self.assertEqual(lines[start + 14:start + 16], ["         | line 39", "         | " + "x" * 200])
        self.assertTrue(lines[start + 16].startswith("release"))

    def test_what_went_wrong_stands_before_the_last_words(self):
        output = "\n".join(["fine", "a_test.cpp:7: Failure", "Value of: x", "  Actual: 3", *(f"line {i}" for i in range(20))])
        lines = self.summary('<testcase name="a" status="fail" time="1"><failure message=""/>'
                             f"<system-out>{output}</system-out></testcase>")[1]
        start = lines.index("FAILED   release: a after 1 s") + 1
        self.assertEqual(lines[start:start + 4], [f"         | {line}" for line in
                                                  ("a_test.cpp:7: Failure", "Value of: x", "  Actual: 3", "line 5")])

    def test_a_test_that_was_not_built_has_failed(self):
        status, lines = self.summary(PASSED, NOT_BUILT)
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_part_that_does_not_build_has_failed(self):
        status, lines = self.summary(PASSED, notes="clang\tfailed\tdoes not build\n")
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertIn("FAILED   clang: (all) does not build", lines)

    def test_nothing_passed(self):
        status, lines = self.summary(CHECK_SKIP)
        self.assertEqual((status, lines[-1]), (1, "0 passed, 0 failed, 1 skipped"))

    def test_no_results(self):
        status, lines = self.summary()
        self.assertEqual((status, lines[-1]), (1, "0 passed, 0 failed, 0 skipped"))

    def test_reasons_of_skipped_tests(self):
        status, lines = self.summary(PASSED, CHECK_SKIP, DISABLED, gtest_skip("a.one", "no GPU"),
                                     gtest_skip("a.two", "no GPU"), gtest_skip("a.bare", ""),
                                     notes="cuda\tskipped\tno nvcc\n")
        self.assertEqual((status, lines[-1]), (0, "1 passed, 0 failed, 6 skipped"))
        for line in ("SKIPPED  release: checks.format: no clang-format-14",
                     "SKIPPED  release: a.disabled: disabled",
                     "SKIPPED  release: 2 tests, a.one ...: no GPU",
                     "SKIPPED  release: a.bare: no reason given",
                     "SKIPPED  cuda: (all): no nvcc"):
            self.assertIn(line, lines)


if __name__ == "__main__":
    unittest.main()
