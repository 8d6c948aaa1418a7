#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train_gpt on several ranks, as mpiexec starts it: one run, whatever happens to one of the ranks."""

import csv
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import unittest
from pathlib import Path

from harness import APPS, PATIENCE, TINY, AppTest, environment, settings

MPIEXEC = os.environ["DOS_MPIEXEC"]
KEYS = TINY | {"model.layers": 3, "train.batch": 2, "train.lanes": 2, "train.workers": 1,
               "train.steps": 8, "train.validate_every": 0, "sched.subgroup_params": 1000}
# Steps of less than a millisecond: what is interrupted must not be over before.
ENDLESS = KEYS | {"train.steps": 1_000_000, "train.checkpoint_every": 10, "dist.timeout_s": 3}
# A rank whose end mpiexec does not see, which would otherwise kill the others: leaves its standard
# error and its status in files. mpiexec sends SIGUSR1 to the ranks when one leaves MPI early.
WATCHED = 'trap : USR1; e=$1; shift; "$@" 2>"$e.$PMI_RANK"; echo $? >"$e.status.$PMI_RANK"; sleep 6'


class Ranks(AppTest):
    def command(self, ranks, *arguments, keys=KEYS, out=None, prefix=()):
        chosen = {"data.path": self.shared / "data"} | keys
        return [MPIEXEC, "-n", str(ranks), *prefix, str(APPS / "train_gpt"), *settings(chosen),
                "--out", str(out or self.out), "--quiet", *arguments]

    def run_ranks(self, *arguments, **options):
        return subprocess.run(self.command(*arguments, **options), cwd=self.folder, text=True,
                              capture_output=True, timeout=PATIENCE, env=environment(), check=False)

    def start_ranks(self, ranks, keys, prefix=(), until=None):
        """Waits for the first checkpoint, or `until` another thing has come."""
        process = subprocess.Popen(self.command(ranks, keys=keys, prefix=prefix), cwd=self.folder,
                                   text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=environment())
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.wait_for(until or (lambda: self.checkpoint().exists()), process)
        return process

    def pids(self):
        """{rank: process id} of this test's train_gpt."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes().split(b"\0")
                variables = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if command[0].endswith(b"/train_gpt") and str(self.out).encode() in command:
                rank = [v for v in variables if v.startswith(b"PMI_RANK=")][0]
                found[int(rank.split(b"=")[1])] = int(folder.name)
        return found

    def expect_success(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_run_continues_on_other_ranks_and_another_level(self):
        straight, parts = self.folder / "straight", self.folder / "parts"
        self.expect_success(self.run_ranks(2, keys=KEYS | {"dist.zero": 1}, out=straight))
        self.expect_success(
            self.run_ranks(2, keys=KEYS | {"dist.zero": 2, "train.stop_after": 4}, out=parts))
        self.expect_success(
            self.run_ranks(2, "--resume", keys=KEYS | {"dist.zero": 3}, out=parts))
        self.assertEqual(self.losses(parts), self.losses(straight))
        self.expect_same_state(straight, parts)
        # The same eight samples a step on another number of ranks; order of sums apart, the same run.
        for ranks, batch in ((1, 4), (4, 1)):
            out = self.folder / f"ranks{ranks}"
            self.expect_success(self.run_ranks(2, keys=KEYS | {"train.stop_after": 4}, out=out))
            self.expect_success(
                self.run_ranks(ranks, "--resume", out=out,
                               keys=KEYS | {"train.batch": batch, "train.lanes": batch}))
            for line, expected in zip(self.metrics(out), self.metrics(straight)):
                # 4 parts in two orders a step (tests/ranks/sharding_test.cpp), seen after 8 steps.
                name = "loss" if "loss" in line else "val_loss"
                self.assertAlmostEqual(line[name], expected[name], delta=4 * 4 * 8 * 2**-23)

    def test_levels_agree_where_the_head_is_not_the_token_table(self):
        # Heads that share keys and values; two lanes, so that gradients are added to.
        keys = KEYS | {"model.preset": "llama-tiny", "model.heads": 4, "model.kv_heads": 2,
                       "model.ffn": 24}
        first = None
        for zero in (1, 2, 3):
            out = self.folder / f"zero{zero}"
            self.expect_success(self.run_ranks(2, keys=keys | {"dist.zero": zero}, out=out))
            first = first or out
            self.assertEqual(self.losses(out), self.losses(first))
            self.expect_same_state(first, out)

    def test_only_rank_0_prints_and_writes(self):
        result = self.run_ranks(2)
        self.expect_success(result)
        self.assertEqual(result.stdout.count("training loss"), 1)
        self.assertEqual(result.stderr.count("2 ranks, dist.zero = 1"), 1)
        lines = self.metrics()
        self.assertEqual([line["step"] for line in lines if "loss" in line], list(range(1, 9)))
        self.assertEqual(lines[0]["tokens"], 2 * 2 * 16, "the tokens of both ranks")
        self.assertEqual(json.loads((self.out / "run.json").read_text())["ranks"], 2)

    def messages(self, folder, ranks):
        """{(kind, from, to): ([start of each send], [end of each receive], bytes sent, bytes received)},
        in microseconds on a clock that all ranks share."""
        found = {}
        for rank in range(ranks):
            clock = json.loads((folder / f"rank{rank}" / "manifest.json").read_text())["clock"]
            origin = clock["epoch_us"] + clock["offset_us"]
            for row in csv.DictReader((folder / f"rank{rank}" / "mpi.csv").read_text().splitlines()):
                self.assertLessEqual(float(row["start_us"]), float(row["end_us"]))
                operation, kind = row["operation"].split()
                is_send = operation == "send"
                ends = (rank, int(row["peer"])) if is_send else (int(row["peer"]), rank)
                entry = found.setdefault((kind, *ends), ([], [], [], []))
                entry[0 if is_send else 1].append(
                    origin + float(row["start_us" if is_send else "end_us"]))
                entry[2 if is_send else 3].append(int(row["bytes"]))
        return found

    def test_traces_of_ranks_merge_on_one_clock(self):
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                folder = self.folder / f"trace{ranks}"
                self.out = self.folder / f"out{ranks}"
                self.expect_success(self.run_ranks(ranks, "--trace", str(folder)))
                found = self.messages(folder, ranks)
                pairs = {(a, b) for a in range(ranks) for b in range(ranks) if a != b}
                for kind in ("gradient", "parameter", "sums"):
                    self.assertEqual({(a, b) for what, a, b in found if what == kind}, pairs, kind)
                for what, (sends, receives, sent, received) in found.items():
                    self.assertEqual(sorted(sent), sorted(received), what)
                    # When k messages have arrived, k have been sent. A millisecond: the clocks were read
                    # one after the other, which takes a microsecond.
                    for send, receive in zip(sorted(sends), sorted(receives), strict=True):
                        self.assertLessEqual(send, receive + 1000, what)
                self.expect_merged_report(folder, ranks)

    def expect_merged_report(self, folder, ranks):
        report = subprocess.run([APPS / "report", folder, "--json", "--paje", self.folder / "paje.trace"],
                                text=True, capture_output=True, timeout=PATIENCE, check=False)
        self.assertEqual(report.returncode, 0, report.stderr)
        figures = json.loads(report.stdout)
        self.assertEqual({worker["rank"] for worker in figures["workers"]}, set(range(ranks)))
        self.assertGreater(sum(worker["ms"]["waiting for ranks"] for worker in figures["workers"]), 0)
        paje = (self.folder / "paje.trace").read_text()
        for rank in range(ranks):
            self.assertIn(f'MPICt {rank}_p "{rank}_mpict"', paje)

    def test_reductions_overlap_backward(self):
        folder = self.folder / "trace"
        self.expect_success(self.run_ranks(2, "--trace", str(folder), keys=KEYS | {"dist.zero": 2}))
        for rank in range(2):
            backward = {}
            for task in csv.DictReader((folder / f"rank{rank}" / "tasks.csv").read_text().splitlines()):
                if task["phase"] == "backward":
                    backward.setdefault(task["step"], []).append(
                        (float(task["start_us"]), float(task["end_us"])))
            rows = csv.DictReader((folder / f"rank{rank}" / "mpi.csv").read_text().splitlines())
            sends = [float(row["start_us"]) for row in rows if row["operation"] == "send gradient"]
            # The last layers' gradients are under way while the first layers' are computed.
            overlapped = [step for step, times in backward.items()
                          if any(min(times)[0] < send < max(times)[0] for send in sends)]
            self.assertEqual(len(backward), KEYS["train.steps"])
            self.assertGreater(len(overlapped), len(backward) // 2, overlapped)

    def test_calibrated_rates_decide_who_owns(self):
        machines = self.folder / "machines"
        machines.mkdir()
        host = socket.gethostname()
        chosen = KEYS | {"dist.weights": "auto"}
        absent = self.run_ranks(2, "--machines", str(machines), keys=chosen)
        self.expect_error(absent, "dist.weights = auto: rank 0 ", f"{host}.toml", "write one number a rank",
                          more_lines=True)
        self.expect_nothing_written()
        text = (Path(os.environ["DOS_SOURCE_DIR"]) / "perfmodels/machines/cpu-2core.toml").read_text()
        before, _, after = text.partition("[calibration]")
        (machines / f"{host}.toml").write_text(before + "[node]" + after.partition("[node]")[2])
        result = self.run_ranks(2, "--machines", str(machines), keys=chosen)
        self.expect_success(result)
        self.assertIn("dist.weights = auto: 1,1 of the fastest rank's 1.01 Gparam/s", result.stderr)

    def test_the_memory_estimate_is_of_each_rank(self):
        result = self.run_ranks(2, "--dry-run", keys=KEYS | {"dist.zero": 3})
        self.expect_success(result)
        self.assertEqual(result.stdout.count("host memory of rank 0"), 1)
        self.assertRegex(result.stdout, r"host memory by rank: rank 0 .*iB, rank 1 .*iB")
        self.expect_nothing_written()

    def test_a_signal_to_one_rank_stops_all_after_one_step(self):
        process = self.start_ranks(2, ENDLESS | {"dist.timeout_s": 60})
        os.kill(self.pids()[1], signal.SIGUSR1)
        stdout, stderr = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, stderr)
        self.assertIn("stopped by SIGUSR1", stdout)
        step = json.loads((self.checkpoint() / "manifest.json").read_text())["step"]
        self.assertEqual(self.metrics()[-1]["step"], step)

    def test_any_rank_can_be_asked_for_a_checkpoint(self):
        lines = self.out / "metrics.jsonl"
        process = self.start_ranks(3, ENDLESS | {"train.checkpoint_every": 0, "dist.timeout_s": 60},
                                   until=lambda: lines.exists() and lines.read_text())
        pids = self.pids()
        for number, rank in enumerate((2, 1), start=1):
            self.assertEqual(len(list(self.out.glob("checkpoints/step-*[0-9]"))), number - 1)
            before = self.last(self.out)
            os.kill(pids[rank], signal.SIGUSR2)
            self.wait_for(lambda: self.last(self.out) > before, process)
            time.sleep(0.2)
            self.assertGreater(self.metrics()[-1]["step"], self.last(self.out), "training goes on")
        os.kill(pids[2], signal.SIGUSR1)
        _, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors)

    def test_a_slow_rank_is_named(self):
        # Steps that are long enough to be held up in each of three running.
        keys = ENDLESS | {"model.width": 64, "model.context": 64, "train.batch": 16, "dist.timeout_s": 60}
        process = self.start_ranks(2, keys, ("sh", "-c", WATCHED, "sh", str(self.folder / "err")))
        slow, log = self.pids()[1], self.folder / "err.0"
        end = time.monotonic() + 60
        while "is slow" not in log.read_text():
            self.assertLess(time.monotonic(), end, log.read_text())
            os.kill(slow, signal.SIGSTOP)
            time.sleep(0.3)
            os.kill(slow, signal.SIGCONT)
            time.sleep(0.05)
        self.assertRegex(log.read_text(), r"warning .*rank 1 is slow: its tasks took \d+ ms, the median rank's \d+ ms, "
                                          r"in each of 3 steps")
        os.kill(slow, signal.SIGUSR1)
        process.communicate(timeout=PATIENCE)
        self.assertEqual((self.folder / "err.status.1").read_text().strip(), "0")

    def test_a_divergence_is_named_once_with_its_rank(self):
        result = self.run_ranks(2, keys=KEYS | {"optim.lr": 1e36, "optim.warmup": 0, "dist.zero": 3})
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stderr.count("train_gpt: error:"), 1, result.stderr)
        self.assertRegex(result.stderr, r"train_gpt: error: step \d+: the .* is not finite; first bad tensor: .* "
                                        r"found by rank [01]; training stopped")

    def expect_lost(self, rank, survivors):
        """The survivors end with status 1 and name the rank and its step; the checkpoint is whole."""
        for survivor in survivors:
            status = self.folder / f"err.status.{survivor}"
            end = time.monotonic() + 30
            while not status.exists() or not status.read_text().strip():
                self.assertLess(time.monotonic(), end, f"rank {survivor} hangs")
                time.sleep(0.05)
            self.assertEqual(status.read_text().strip(), "1")
            text = (self.folder / f"err.{survivor}").read_text()
            self.assertRegex(text, rf"train_gpt: error: .*rank {rank} has not been heard of for 3 s "
                                   rf".*at step \d+; this is rank {survivor}, at step \d+")
        before = json.loads((self.checkpoint() / "manifest.json").read_text())["step"]
        result = self.run_ranks(1, "--resume", keys=KEYS | {
            "train.steps": 1_000_000, "train.stop_after": before + 2, "train.batch": 4})
        self.expect_success(result)
        self.assertEqual(self.metrics()[-1]["step"], before + 2)

    def test_a_killed_rank_ends_the_others(self):
        for zero in (1, 2, 3):
            with self.subTest(zero=zero):
                self.out = self.folder / f"out{zero}"
                for left in self.folder.glob("err*"):
                    left.unlink()
                process = self.start_ranks(3, ENDLESS | {"dist.zero": zero},
                                           prefix=("sh", "-c", WATCHED, "sh", "err"))
                os.kill(self.pids()[1], signal.SIGKILL)
                self.expect_lost(1, (0, 2))
                process.communicate(timeout=PATIENCE)

    def test_a_rank_without_its_data_ends_all(self):
        chosen = {"data.path": self.shared / "data"} | KEYS
        command = [str(APPS / "train_gpt"), *settings(chosen), "--out", str(self.out)]
        other = command + ["--set", "data.path=missing"]
        result = subprocess.run([MPIEXEC, "-n", "1", *command, ":", "-n", "1", *other],
                                cwd=self.folder, text=True, capture_output=True, timeout=PATIENCE,
                                env=environment(), check=False)
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stderr.count("train_gpt: error: rank 1: missing_train.bin"), 1,
                         result.stderr)
        self.expect_nothing_written()

    def test_ranks_that_do_not_share_the_output_folder_are_told_at_the_start(self):
        apart = 'mkdir -p on$PMI_RANK; cd on$PMI_RANK; exec "$@"'
        result = self.run_ranks(2, out=Path("out"), prefix=("sh", "-c", apart, "sh"))
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("--out out: rank 1 does not see what rank 0 has written there", result.stderr)
        self.assertIn("a file system that all nodes share", result.stderr)
        self.assertFalse((self.folder / "on0/out/checkpoints").exists())

    def test_a_rank_with_another_configuration_ends_all(self):
        chosen = {"data.path": self.shared / "data"} | KEYS
        command = [str(APPS / "train_gpt"), *settings(chosen), "--out", str(self.out)]
        other = command + ["--set", "train.batch=3"]
        result = subprocess.run([MPIEXEC, "-n", "1", *command, ":", "-n", "1", *other],
                                cwd=self.folder, text=True, capture_output=True, timeout=PATIENCE,
                                env=environment(), check=False)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("rank 1 has configuration.train.batch = 3, rank 0 has 2", result.stderr)
        self.expect_nothing_written()

    def test_bad_data_of_one_rank_stop_all_with_a_checkpoint(self):
        """Only rank 1's own copy of the data is cut short, while all train."""
        for name in ("mine", "other"):
            for path in self.shared.glob("data*"):
                shutil.copy(path, self.folder / path.name.replace("data", name))
        chosen = ENDLESS | {"dist.timeout_s": 60}
        command = [str(APPS / "train_gpt"), *settings(chosen), "--out", str(self.out)]
        process = subprocess.Popen(
            [MPIEXEC, "-n", "1", *command, "--set", "data.path=mine", ":", "-n", "1", *command,
             "--set", "data.path=other"], cwd=self.folder, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=environment())
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.wait_for(lambda: self.checkpoint().exists(), process)
        os.truncate(self.folder / "other_train.bin", 2000)
        _, errors = process.communicate(timeout=PATIENCE)
        self.assertNotEqual(process.returncode, 0)
        self.assertEqual(errors.count("train_gpt: error:"), 1, errors)
        step = json.loads((self.checkpoint() / "manifest.json").read_text())["step"]
        self.assertRegex(errors, "train_gpt: error: other_train.bin: was cut short .*training stopped, "
                                 f"the checkpoint of step {step} is intact")
        self.assertEqual(self.metrics()[-1]["step"], step)
        result = self.run_ranks(2, "--resume", keys=chosen | {"train.stop_after": step + 2})
        self.expect_success(result)

    def test_a_folder_in_use_is_refused_by_all_ranks(self):
        process = self.start_ranks(2, ENDLESS | {"dist.timeout_s": 60})
        for options in ((), ("--resume",)):
            result = self.run_ranks(2, *options, keys=ENDLESS)
            self.assertNotEqual(result.returncode, 0)
            self.assertEqual(result.stderr.count("train_gpt: error:"), 1, result.stderr)
            self.assertIn(f"--out {self.out} is in use by process {self.pids()[0]}", result.stderr)
        os.kill(self.pids()[1], signal.SIGUSR1)
        process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0)

    def test_an_error_of_rank_0_ends_all(self):
        self.expect_success(self.run_ranks(1))
        result = self.run_ranks(2)  # the folder is taken: only rank 0 looks
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("already holds a run", result.stderr)


if __name__ == "__main__":
    unittest.main()
