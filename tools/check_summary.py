#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_summary.py FOLDER: sums up what tools/check left in FOLDER.

FOLDER/<part>.xml are ctest's JUnit files, FOLDER/notes.tsv has a line `part, status, text` for each
part of the check that failed or was skipped as a whole. Prints the failed tests with their last words, the
skipped ones by reason, and as last line `N passed, N failed, N skipped`; the status is 1 if anything failed or
nothing passed.
"""

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from xml.etree import ElementTree

# GoogleTest writes "file:line: Skipped", the reason in the next lines, and "[  SKIPPED ]".
GTEST_REASON = re.compile(r": Skipped\n(.*?)\[  SKIPPED \]", re.DOTALL)
CHECK_REASON = re.compile(r"^skipped: (.*)$", re.MULTILINE)


LAST_LINES, LINE_WIDTH = 15, 200
# What GoogleTest, unittest and programs say where something is wrong, and the lines behind it that say what.
TELLING = re.compile(r"Failure$|^E  |Error: |error: |^FAIL: ")
TELLING_LINES, LINES_BEHIND = 8, 2


def last_words(output):
    """The first lines that say what went wrong, then the end of what a test printed."""
    lines = [line for line in output.splitlines() if line.strip()]
    before = max(0, len(lines) - LAST_LINES)
    told = [i for i in range(before) if any(TELLING.search(line) for line in lines[max(0, i - LINES_BEHIND):i + 1])]
    shown = [lines[i] for i in told[:TELLING_LINES]] + lines[before:]
    return "".join(f"\n         | {line[:LINE_WIDTH]}" for line in shown)


def reason_of(output):
    """Why a test was skipped, in one line."""
    for pattern in (GTEST_REASON, CHECK_REASON):
        found = pattern.search(output)
        if found and found.group(1).strip():
            return " ".join(found.group(1).split())
    return "no reason given"


def read_results(path):
    """(name, status, reason) of each test of a JUnit file; status is passed, failed or skipped."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name, status = case.get("name"), case.get("status")
        if status == "run":
            yield name, "passed", ""
        elif status == "notrun" and case.find("skipped") is not None:
            message = case.find("skipped").get("message", "")
            if "SKIP" in message:
                yield name, "skipped", reason_of(case.findtext("system-out", ""))
            else:
                yield name, "failed", f"not run: {message or 'no reason given'}"
        elif status == "disabled":
            yield name, "skipped", "disabled"
        else:
            failure = case.find("failure")
            message = failure.get("message", "") if failure is not None else ""
            took = f"after {float(case.get('time', 0)):.0f} s"
            yield name, "failed", " ".join(filter(None, (took, message))) + last_words(case.findtext("system-out", ""))


def main():
    folder = Path(sys.argv[1])
    counts = Counter()
    failed, skipped = [], defaultdict(list)
    results = []
    for path in sorted(folder.glob("*.xml")):
        results += [(path.stem, *result) for result in read_results(path)]
    for line in (folder / "notes.tsv").read_text(encoding="utf-8").splitlines():
        part, status, text = line.split("\t")
        results.append((part, "(all)", status, text))
    for part, name, status, reason in results:
        counts[status] += 1
        if status == "failed":
            failed.append(f"{part}: {name} {reason}".rstrip())
        elif status == "skipped":
            skipped[part, reason].append(name)
    print()
    for line in failed:
        print(f"FAILED   {line}")
    for (part, reason), names in skipped.items():
        shown = names[0] if len(names) == 1 else f"{len(names)} tests, {names[0]} ..."
        print(f"SKIPPED  {part}: {shown}: {reason}")
    for part in dict.fromkeys(part for part, *_ in results):
        of_part = Counter(status for p, _, status, _ in results if p == part)
        print(f"{part:<9}" + ", ".join(f"{of_part[s]} {s}" for s in ("passed", "failed", "skipped")))
    print("{passed} passed, {failed} failed, {skipped} skipped".format_map(
        {status: counts[status] for status in ("passed", "failed", "skipped")}))
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
