#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Limits, homes and variables of the environment that a machine or a container gives."""

import os
import re
import resource
import unittest
from pathlib import Path

from campaign import MisuseTest
from harness import PATIENCE, program

KEYS = {"train.steps": 2, "train.validate_every": 0}
NOBODY = 65534
ROOT = Path(__file__).resolve().parents[2]


def variables():
    """(name, kind) of each row of the table that the programs check."""
    text = (ROOT / "src/rt/starpu_variables.cpp").read_text(encoding="utf-8")
    return re.findall(r'StarpuVariable\{"(STARPU_\w+)"(?:, k(\w+))?', text)


class Surroundings(MisuseTest):
    def limited(self, kind, limit, **options):
        return self.train("--quiet", keys=KEYS, timeout=PATIENCE,
                          preexec_fn=lambda: resource.setrlimit(kind, (limit, limit)), **options)

    def test_address_space(self):
        """ulimit -v between 200 MB and 4 GB: it runs, or one error"""
        worked = 0
        for number in self.attempts(10):
            megabytes = (200 + 100 * number if number < 6 else self.random.randint(800, 4000))
            self.out = self.folder / f"out{number}"
            with self.attempt(number=number, megabytes=megabytes):
                result = self.limited(resource.RLIMIT_AS, megabytes << 20)
                self.expect_run_or_one_error(result)
                self.expect_no_run_without_a_checkpoint()
                worked += result.returncode == 0
        self.assertGreater(worked, 0)

    def test_data_segment(self):
        """ulimit -d between 30 MB and 2 GB: it runs, or one error"""
        for number in self.attempts(4):
            megabytes = self.random.choice((30, 100, 200, 300, 500, 700, 1000, 2000))
            self.out = self.folder / f"out{number}"
            with self.attempt(number=number, megabytes=megabytes):
                self.expect_run_or_one_error(self.limited(resource.RLIMIT_DATA, megabytes << 20))
                self.expect_no_run_without_a_checkpoint()

    def test_address_space_of_prepare_data(self):
        """prepare_data, which trains a tokenizer, with ulimit -v between 40 and 500 MB: it works, or one error with words"""
        for number in self.attempts(8):
            megabytes = self.random.randint(40, 500)
            limit = {"preexec_fn": lambda megabytes=megabytes: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20,) * 2)}
            with self.attempt(megabytes=megabytes):
                result = program("prepare_data", "--tokenizer", "sentencepiece", "--vocab-size", 300, "--output", f"d{number}",
                                 self.shared / "corpus.txt", cwd=self.folder, **limit)
                self.expect_run_or_one_error(result, name="prepare_data")
                if result.returncode != 0:
                    self.assertRegex(result.stderr, "error: (a thread cannot be started|out of memory)")

    def test_threads(self):
        """ulimit -u between the number of cores and 10 more: generate, evaluate and calibrate work, or one error"""
        self.trained("--quiet", keys=KEYS)
        users = os.geteuid() == 0
        for path in (self.shared, *self.shared.rglob("*")) if users else ():
            path.chmod(0o777 if path.is_dir() else 0o666)
        calls = (("generate", self.out, "--prompt", "to", "--tokens", 2), ("evaluate", self.out, "--data", self.shared / "data"),
                 ("calibrate", "--quick", "--allow-noise", "--workers", 1, "--subgroup-params", 1000, "--output", "machine.toml"))
        for number in self.attempts(15):
            # With fewer OpenBLAS ends the program, with words of its own.
            threads = len(os.sched_getaffinity(0)) + number // len(calls) % 11
            name, *arguments = calls[number % len(calls)]

            def limit(threads=threads):
                resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))
                if users:
                    os.setresuid(NOBODY, NOBODY, NOBODY)  # root has as many as there are

            with self.attempt(name=name, threads=threads):
                result = program(name, *arguments, cwd=self.folder, env={"STARPU_HOME": str(self.folder), "TMPDIR": str(self.folder)},
                                 preexec_fn=limit)
                self.expect_run_or_one_error(result, name=name)

    def homes(self):
        """{what: value of a home} that nothing can be written to."""
        file = self.folder / "file"
        file.write_text("x")
        inside = self.folder / "inside"
        (inside / ".starpu").mkdir(parents=True, exist_ok=True)
        (inside / ".starpu/sampling").write_text("x")
        (inside / "bus").write_text("x")  # where STARPU_PERF_MODEL_DIR names it
        return {"missing": "/proc/nonexistent", "a file": str(file), "below a file": str(file / "home"),
                "a file for a folder in it": str(inside), "no file system": "/proc/self", "empty": "",
                "long": str(self.folder / ("h" * 200)), "none": None}

    def test_homes(self):
        """HOME or STARPU_HOME missing, unset, a file, with a file in it, too long: it runs, with a word"""
        homes = list(self.homes().items())
        for number in self.attempts(10):
            what, home = homes[number % len(homes)]
            variable = self.random.choice(("HOME", "STARPU_HOME", "XDG_CACHE_HOME", "STARPU_PERF_MODEL_DIR"))
            env = {"STARPU_HOME": None, "XDG_CACHE_HOME": None, "STARPU_PERF_MODEL_DIR": None, variable: home}
            self.out = self.folder / f"out{number}"
            dry = number % 3 == 2
            with self.attempt(number=number, what=what, variable=variable, dry=dry):
                temporary = self.folder / f"tmp{number}"
                temporary.mkdir()
                result = self.train("--quiet", *(["--dry-run"] if dry else []), keys=KEYS,
                                    env=env | {"TMPDIR": str(temporary)})
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual([p.name for p in temporary.glob("dos-starpu-*")], [])
                if home is not None:
                    self.assertIn("StarPU cannot keep measurements in", result.stderr)
                    self.assertEqual((self.out / "starpu").exists(), not dry)

    def test_generate_without_a_home(self):
        """generate where no home can be written"""
        self.trained("--quiet", keys=KEYS)
        homes = list(self.homes().items())
        for number in self.attempts(3):
            what, home = self.random.choice(homes)
            with self.attempt(number=number, what=what):
                result = program("generate", self.out, "--prompt", "to", "--tokens", "2", cwd=self.folder,
                                 env={"STARPU_HOME": home, "HOME": home, "XDG_CACHE_HOME": None})
                self.assertEqual(result.returncode, 0, result.stderr)

    def value(self):
        draw = self.random
        return draw.choice(("", " ", "abc", "-1", "1 2", "0,1", "1e9", "nan", "0x1", "\n", str(draw.randint(-5, 200)),
                            str(draw.getrandbits(draw.randint(1, 70))), "9" * draw.randint(1, 60), "0-", "3-1",
                            "../x", "é", "'\"", "x" * 5000))

    def test_variables(self):
        """a random value for a random variable of StarPU: it runs, or one error that names the variable"""
        table = variables()
        self.assertGreater(len(table), 50)
        for number in self.attempts(20):
            name, _ = self.random.choice(table)
            value = self.value()
            self.out = self.folder / f"out{number}"
            with self.attempt(number=number, name=name, value=value[:60]):
                result = self.train("--quiet", "--set", "train.workers=0", keys=KEYS, env={name: value}, timeout=PATIENCE)
                self.expect_run_or_one_error(result)
                if result.returncode != 0:
                    self.assertIn("STARPU_", result.stderr)
                    self.expect_nothing_written()

    def test_sizes(self):
        """sizes of a model or a run between 1 and 2^63: an answer within two seconds of processor time"""
        keys = ("model.layers", "model.width", "model.heads", "model.context", "model.vocab", "train.batch",
                "train.lanes", "train.workers", "train.opencl_devices", "sched.subgroup_params", "train.logits_rows",
                "train.accumulate", "train.run_ahead")
        for number in self.attempts(12):
            drawn = {self.random.choice(keys): 2 ** self.random.randint(10, 62) - self.random.randint(0, 1)
                     for _ in range(self.random.randint(1, 2))}
            self.out = self.folder / f"out{number}"
            with self.attempt(number=number, drawn=drawn):
                before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
                result = self.train("--dry-run", keys=KEYS | drawn, timeout=PATIENCE)
                self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 2)
                self.expect_run_or_one_error(result)


if __name__ == "__main__":
    unittest.main()
