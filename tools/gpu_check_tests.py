# SPDX-License-Identifier: Apache-2.0
"""The stages of tools/gpu_check that run tests: as CTest does, and under compute-sanitizer."""

import json
import re
from pathlib import Path

from check_summary import read_results
from gpu_check_carried import ctest_file
from gpu_check_stage import Failed

# Programs that run CUDA kernels directly or, the last one, every codelet that has one.
KERNEL_PROGRAMS = ["test_codelets_kernels_cuda", "test_codelets_update_cuda", "test_codelets_conformance_cuda"]
# A test that takes longer hangs. Those of codelets are small; apps.heterogeneous_cuda is dozens of runs.
SECONDS_OF_A_CODELET, SECONDS_OF_A_TEST = 60, 180
# Processes that start beside each other, each of which opens the GPU: with StarPU that takes most of a test's time.
AT_ONCE = 8
# Of the tests that start StarPU, which measures the links of a machine that it does not know: one does so for all.
STARTS_STARPU = "codelets.conformance_cuda.All/"
# " 3/57 Test  #3: codelets.update_cuda.A.B ....   Passed    0.52 sec"
ENDED_TEST = re.compile(r"^ *\d+/\d+ Test +#\d+: (.+?) \.{3,} *(.*?) +([\d.]+) sec")
# Of memcheck: StarPU asks the driver for what a device may not have, only what kernels do counts.
SANITIZER_OPTIONS = {"memcheck": ["--report-api-errors", "no"], "racecheck": []}
# "========= ERROR SUMMARY: 0 errors", "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)".
SANITIZER_SUMMARY = re.compile(r"^(=+ \w+ SUMMARY: (\d+) .*)$", re.MULTILINE)
# Their kernels are a library's, which compute-sanitizer has nothing to say of.
LIBRARY_PROGRAMS = {"test_codelets_attention_cudnn_cuda"}
# GoogleTest's, at the end.
SKIPPED_TESTS = re.compile(r"^\[  SKIPPED \] \d+ test", re.MULTILINE)


def gpu_tests(check, stage):
    """All that have the label, as CTest lists them."""
    return json.loads(stage.run("ctest", "--test-dir", check.build, "--label-regex", "^gpu$",
                                "--show-only=json-v1"))["tests"]


def test_row(status, reason, rehearses):
    """Of a test that has ended: skipped ones are faults, but for a library that a machine may have or not."""
    if status == "passed":
        return {"status": status}
    if status == "skipped" and ("cuDNN" in reason or rehearses):
        return {"status": status, "reason": reason}
    return {"status": status, "fault": f"{status} {reason}".strip()}


def run_tests(check, stage, tests, most_seconds, at_once):
    """Those that have not passed in a run before. Each has its row as soon as it ends."""
    waiting = [test for test in tests if "status" not in stage.rows.get(test["name"], {})
               or "fault" in stage.rows[test["name"]]]
    if not tests:
        raise Failed("no test has the label gpu")
    if waiting:
        folder = check.output / "tests"
        folder.mkdir(exist_ok=True)
        first = next((test["name"] for test in waiting if test["name"].startswith(STARTS_STARPU)), None)
        text = ctest_file(waiting, most_seconds=stage.patience * most_seconds, first=first)
        (folder / "CTestTestfile.cmake").write_text(text, encoding="utf-8")
        results = stage.log.with_suffix(".xml")
        results.unlink(missing_ok=True)

        words = {}

        def ended(line):
            found = ENDED_TEST.match(line)
            if found:
                words[found[1]] = word = found[2].strip("* ")
                status = {"Passed": "passed", "Skipped": "skipped"}.get(word, "failed")
                stage.keep(found[1], test_row(status, "" if status == "passed" else word, check.rehearses))

        stage.run("ctest", "--test-dir", folder, "--parallel", at_once, "--verbose", "--no-tests=error",
                  "--test-output-size-passed", "65536", "--output-junit", results, may_fail=True, on_line=ended)
        for name, status, reason in read_results(results):
            # JUnit's form has no word for a test that took too long.
            how = f"({words[name]}) {reason}" if status == "failed" and name in words else reason
            stage.rows[name] = test_row(status, how, check.rehearses)
        for test in waiting:
            if test["name"] not in stage.rows:
                stage.rows[test["name"]] = {"status": "failed", "fault": "CTest does not say how it ended"}
    return verdict(stage, len(tests))


def verdict(stage, count):
    bad = stage.faults()
    without = [f"{name}: {row['reason']}" for name, row in stage.rows.items() if row["status"] == "skipped"
               and "fault" not in row]
    result = {"passed": count - len(bad) - len(without), "without": without,
              "attention": "own" if any("cudnn" in each for each in bad) else "auto"}
    if bad:
        raise Failed(f"{len(bad)} of {count} tests did not pass: {'; '.join(bad[:5])}; see {stage.log}", result)
    return result


def conformance(check, stage):
    tests = [test for test in gpu_tests(check, stage) if test["name"].startswith("codelets.")]
    return run_tests(check, stage, tests, SECONDS_OF_A_CODELET, AT_ONCE)


def other_tests(check, stage):
    tests = [test for test in gpu_tests(check, stage) if not test["name"].startswith("codelets.")]
    # The long one behind the others.
    tests.sort(key=lambda test: test["name"].startswith("apps."))
    return run_tests(check, stage, tests, SECONDS_OF_A_TEST, at_once=1)


def gpu_programs(check, stage, prefix):
    """{program: its environment}: the GoogleTest programs of the tests labelled gpu whose name starts with the
    prefix, and the variables that CTest's launcher sets for them. Those that call kernels must be among them."""
    programs = {}
    for test in gpu_tests(check, stage):
        words = test.get("command", [])
        for place, word in enumerate(words):
            if Path(word).name.startswith(prefix):
                programs[word] = dict(each.split("=", 1) for each in words[:place] if "=" in each)
    missing = sorted(set(KERNEL_PROGRAMS) - {Path(program).name for program in programs})
    if missing:
        raise Failed(f"no test labelled gpu is of {', '.join(missing)}: their kernels would go unseen")
    return programs


def sanitizer_faults(output, rehearses):
    """Why what a program and compute-sanitizer said is no pass, though both ended with status 0. Warnings count."""
    faults = [line.strip("= ") for line, count in SANITIZER_SUMMARY.findall(output) if int(count)]
    if not SANITIZER_SUMMARY.search(output):
        faults.append("compute-sanitizer gave no summary")
    if SKIPPED_TESTS.search(output) and not rehearses:
        faults.append("tests were skipped")
    return faults


def sanitize(tool, prefix):
    def work(check, stage):
        programs = {program: env for program, env in gpu_programs(check, stage, prefix).items()
                    if Path(program).name not in LIBRARY_PROGRAMS}

        def sanitized(program, env):
            output = stage.run("compute-sanitizer", "--tool", tool, *SANITIZER_OPTIONS[tool], "--error-exitcode", "9",
                               program, env=env)
            faults = sanitizer_faults(output, check.rehearses)
            if faults:
                raise Failed("; ".join(faults))
            return {"summary": SANITIZER_SUMMARY.search(output)[1].strip("= ")}

        for program, env in sorted(programs.items()):
            stage.row(Path(program).name, sanitized, program, env)
        names = sorted(Path(program).name for program in programs)
        faults = stage.faults()
        if faults:
            raise Failed(f"under {tool}: {'; '.join(faults)}; see {stage.log}", {"programs": names})
        return {"programs": names}
    return work
