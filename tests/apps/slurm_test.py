#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training as jobs of a real Slurm of one node: ranks of a step, and a job that is warned, queued again and goes on."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import cluster
from harness import APPS, TINY, AppTest, program, settings

SOURCE = Path(os.environ["DOS_SOURCE_DIR"])
RANKS = 2
PATIENCE = 120  # s: jobs beside compilers


class Slurm(AppTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Sockets have short paths.
        folder = tempfile.mkdtemp(prefix="dos-slurm-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.slurm = cluster.Cluster(folder)
        cls.addClassCleanup(cls.slurm.stop)
        cls.slurm.start()

    def keys(self, **changes):
        """One core a rank: what the launcher has given."""
        return {"data.path": self.shared / "data"} | TINY | {"train.workers": 0} | changes

    def srun(self, ranks, *command):
        result = self.slurm.run("srun", "--mpi=pmi2", f"--ntasks={ranks}", "--cpus-per-task=1",
                                *command, cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr + self.slurm.logs())
        return result.stdout

    def test_ranks_have_cores_of_their_own(self):
        lines = self.srun(2, APPS / "train_gpt", "--print-topology").splitlines()
        self.assertEqual(len(lines), 2, lines)
        cores = set()
        for rank, line in enumerate(lines):
            self.assertIn(f"rank {rank} of 2", line)
            self.assertIn("bound by the launcher", line)
            cores.add(line.partition("cores ")[2].split()[0])
        self.assertEqual(len(cores), 2)

    def test_the_loss_falls(self):
        self.slurm.environment["STARPU_SCHED"] = "dos"
        self.addCleanup(self.slurm.environment.pop, "STARPU_SCHED")
        self.srun(RANKS, APPS / "train_gpt", *settings(self.keys(**{"optim.lr": 1e-2})), "--out", self.out)
        # One rank alone writes: every step once, in order.
        losses = [line["loss"] for line in self.metrics() if "loss" in line]
        steps = [line["step"] for line in self.metrics() if "loss" in line]
        self.assertEqual(steps, list(range(1, TINY["train.steps"] + 1)))
        self.assertLess(losses[-1], losses[0])
        run = json.loads((self.out / "run.json").read_text())
        self.assertEqual(run["runtime"]["scheduler"], "dos")

    def submit(self, script, *arguments, root=SOURCE, options=(), log="job.log", **changes):
        """The number of a job of slurm/`script` with a site's environment."""
        site = {"DOS_SITE": "generic", "DOS_RANKS_PER_NODE": str(RANKS), "DOS_CORES_PER_RANK": "1"}
        if root == SOURCE:
            site |= {"DOS_ROOT": str(SOURCE), "DOS_BUILD": str(APPS.parent)}
        for name in ("DOS_ROOT", "DOS_BUILD"):
            self.slurm.environment.pop(name, None)
        self.slurm.environment |= site | changes
        result = self.slurm.run("sbatch", "--parsable", f"--output={log}", *options, root / "slurm" / script,
                                *arguments, cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.strip()

    def wait_for_job(self, number):
        def ended():
            return self.slurm.job(number).get("JobState") in {"COMPLETED", "FAILED", "CANCELLED",
                                                             "NODE_FAIL", "TIMEOUT"}
        self.slurm.wait(ended, f"job {number}", PATIENCE)
        return self.slurm.job(number)

    def log(self):
        return (self.folder / "job.log").read_text()

    def steps_done(self):
        file = self.out / "metrics.jsonl"
        return file.read_text().count("\n") if file.exists() else 0

    def test_a_warned_job_is_queued_again_and_goes_on(self):
        # Without end until it has been warned, as Slurm may take long to deliver a signal. One rank: two would keep
        # both cores of a small machine from Slurm, since waiting workers yield all the time.
        config = self.folder / "config.toml"
        config.write_text("train.steps = 100000000\n")
        keys = self.keys(**{"train.validate_every": 0})
        del keys["train.steps"]
        number = self.submit("train.sbatch", self.out, "--config", config, *settings(keys), "--quiet",
                             DOS_RANKS_PER_NODE="1")
        self.slurm.wait(lambda: self.steps_done() > 10, "the first steps")
        # What --signal=B:USR1@120 does near the end of the job's time.
        self.slurm.wait(lambda: self.slurm.run("scancel", "--batch", "--signal=USR1", number).returncode == 0,
                        "scancel", PATIENCE)
        self.slurm.wait(lambda: "queued again" in self.log(), "the warning", PATIENCE)
        self.assertIn("stopped by SIGUSR1", self.log())
        steps = self.steps_done() + 50
        config.write_text(f"train.steps = {steps}\n")
        job = self.wait_for_job(number)
        self.assertEqual((job["JobState"], job["Restarts"]), ("COMPLETED", "1"), self.log())
        # Every step once, in order, over both parts.
        self.assertEqual([line["step"] for line in self.metrics() if "loss" in line],
                         list(range(1, steps + 1)))
        for part in ("0", "1"):
            folder = self.out / "slurm" / f"{number}-{part}"
            for name in ("command", "environment", "generic.env", "job", "revision", "topology",
                         "version"):
                self.assertGreater((folder / name).stat().st_size, 0, folder / name)
            self.assertIn("rank 0 of 1", (folder / "topology").read_text())

    def test_a_cancelled_job_leaves_its_last_step(self):
        """Slurm sends SIGTERM, and SIGKILL when KillWait has passed."""
        keys = self.keys(**{"train.validate_every": 0, "train.checkpoint_every": 0, "train.steps": 100_000_000})
        number = self.submit("train.sbatch", self.out, *settings(keys), "--quiet", DOS_RANKS_PER_NODE="1")
        self.slurm.wait(lambda: self.steps_done() > 10, "the first steps")
        self.slurm.wait(lambda: self.slurm.run("scancel", number).returncode == 0, "scancel", PATIENCE)
        job = self.wait_for_job(number)
        self.assertEqual(job["JobState"], "CANCELLED", self.log())
        result = program("checkpoints", self.out, "--verify", "--json", cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stdout + self.log())
        self.assertEqual([each["step"] for each in json.loads(result.stdout)], [self.steps_done()])

    def test_scripts_of_a_prefix_find_their_programs(self):
        prefix = self.folder / "moved" / "prefix"
        subprocess.run([os.environ["DOS_CMAKE"], "--install", os.environ["DOS_BINARY_DIR"], "--prefix", self.folder / "first"],
                       check=True, capture_output=True)
        prefix.parent.mkdir()
        (self.folder / "first").rename(prefix)
        files = prefix / "share" / "deep-optimizer-states"
        result = self.say_only("--nodes=1", files / "slurm/train.sbatch", self.out, root=files)
        self.assertIn(f"{prefix}/bin, ", result.stdout, result.stderr)
        number = self.submit("train.sbatch", self.out, *settings(self.keys(**{"train.steps": 3})), "--quiet",
                             root=prefix / "share" / "deep-optimizer-states")
        self.assertEqual(self.wait_for_job(number)["JobState"], "COMPLETED", self.log())
        self.assertEqual([line["step"] for line in self.metrics() if "loss" in line], [1, 2, 3])
        command = (self.out / "slurm" / f"{number}-0" / "command").read_text()
        self.assertTrue(command.startswith(f"{prefix}/bin/train_gpt "), command)

    def test_a_sweep_is_one_array_and_one_picture(self):
        rates = ("1e-3", "1e-2", "1e-1")
        number = self.submit("sweep.sbatch", self.out, "optim.lr=" + ",".join(rates), *settings(self.keys()), "--quiet",
                             options=("--array=0-2",), log="job-%a.log", DOS_RANKS_PER_NODE="1")
        for task in range(len(rates)):
            self.assertEqual(self.wait_for_job(f"{number}_{task}")["JobState"], "COMPLETED",
                             (self.folder / f"job-{task}.log").read_text())
        losses = set()
        for rate in rates:
            lines = self.metrics(self.out / f"optim.lr={rate}")
            losses.add([line["loss"] for line in lines if "loss" in line][-1])
        self.assertEqual(len(losses), len(rates), "the values made no difference")
        logs = "".join((self.folder / f"job-{task}.log").read_text() for task in range(len(rates)))
        if "matplotlib is missing" not in logs:
            self.assertIn("<svg", (self.out / "sweep.svg").read_text())

    def test_a_sweep_of_another_size_than_its_array_is_refused(self):
        number = self.submit("sweep.sbatch", self.out, "optim.lr=1,2", options=("--array=0-2",), log="job.log")
        self.assertEqual(self.wait_for_job(f"{number}_0")["JobState"], "FAILED")
        self.assertIn("sweep.sbatch: error: ", self.log())
        self.assertIn("optim.lr has 2 values: give --array=0-1", self.log())
        self.expect_nothing_written()

    def test_a_failed_run_fails_the_job(self):
        number = self.submit("train.sbatch", self.out,
                             *settings(self.keys(**{"train.steps": -1})))
        self.assertEqual(self.wait_for_job(number)["JobState"], "FAILED")
        self.assertIn("train.steps", self.log())

    def say_only(self, *arguments, root=SOURCE, **changes):
        """slurm/test_only as somebody with the generic site's file calls it; nothing may be queued or written."""
        site = {"DOS_SITE": "generic", "DOS_RANKS_PER_NODE": str(RANKS), "DOS_CORES_PER_RANK": "1"}
        if root == SOURCE:
            site["DOS_BUILD"] = str(APPS.parent)
        kept = {name: value for name, value in self.slurm.environment.items() if not name.startswith("DOS_")}
        jobs = self.slurm.run("squeue", "--noheader").stdout
        before = sorted(self.folder.rglob("*"))
        result = subprocess.run(list(map(str, (root / "slurm/test_only", *arguments))), cwd=self.folder, capture_output=True,
                                text=True, timeout=PATIENCE, check=False, env=kept | site | changes)
        self.assertEqual(self.slurm.run("squeue", "--noheader").stdout, jobs)
        self.assertEqual(sorted(self.folder.rglob("*")), before)
        return result

    def test_what_a_job_would_get_is_said_without_one(self):
        self.trained("--quiet", keys={"train.steps": 2})
        result = self.say_only("--nodes", 1, "slurm/train.sbatch", self.out, "--set", "train.steps=3")
        self.assertEqual((result.returncode, result.stderr), (1, "test_only: error: no batch script of slurm/ among the arguments "
                                                                 "(slurm/test_only --help)\n"))
        result = self.say_only("--nodes", 1, SOURCE / "slurm/train.sbatch", self.out, "--set", "train.steps=3")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        said = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
        self.assertRegex(said["start"], r"^\d{4}-\d\d-\d\dT")
        self.assertRegex(said["nodes"], r" of partition all, whose jobs have at most 1:00:00$")
        self.assertRegex(said["ranks"], rf"^{RANKS} a node, 1 cores each: {RANKS} of \d+$")
        self.assertTrue(said["programs"].startswith(f"{APPS}, "), said)
        self.assertEqual(said["run"], f"{self.out} goes on from step-00000002")

    def test_what_would_be_refused_is_refused_before_the_queue(self):
        train = SOURCE / "slurm/train.sbatch"
        for arguments, changes, part in (
                (("--nodes=2", train, "out"), {}, "Slurm refuses the job: allocation failure"),
                (("--partition=none", train, "out"), {}, "Invalid partition"),
                ((train, "out"), {"DOS_CORES_PER_RANK": "4096"}, "asks for 2 ranks of 4096 cores, but node"),
                ((train, "out", "--set", "train.stepz=1"), {}, "did you mean 'train.steps'?"),
                ((SOURCE / "slurm/sweep.sbatch", "out"), {}, "no KEY=VALUE"),
                ((train,), {}, "no output folder"),
                ((train, "out"), {"DOS_SITE": ""}, "source a file of slurm/sites"),
                ((train, "out"), {"DOS_BUILD": "/nowhere"}, "no /nowhere/apps/train_gpt: build before the job")):
            with self.subTest(part):
                result = self.say_only(*arguments, **changes)
                self.assertEqual(result.returncode, 1, result.stdout)
                self.assertTrue(result.stderr.startswith("test_only: error: "), result.stderr)
                self.assertIn(part, result.stderr)
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_a_calibration_is_this_nodes(self):
        number = self.submit("calibrate.sbatch", self.out, "--quick", "--allow-noise", "--subgroup-params", "65536")
        self.assertEqual(self.wait_for_job(number)["JobState"], "COMPLETED", self.log())
        file, = self.out.glob("*.toml")
        self.assertIn("[calibration]", file.read_text())
        self.assertGreater((self.out / "slurm" / f"{number}-0" / "command").stat().st_size, 0)

    def test_a_matrix_has_a_line_for_each_run(self):
        number = self.submit("bench_matrix.sbatch", self.out, *settings(self.keys()),
                             DOS_MATRIX_POLICIES="dos zero-offload", DOS_MATRIX_STEPS="8",
                             DOS_MATRIX_PRECISIONS="fp32")
        self.assertEqual(self.wait_for_job(number)["JobState"], "COMPLETED", self.log())
        lines = (self.out / "matrix.csv").read_text().splitlines()
        self.assertEqual(len(lines), 3, lines)
        self.assertEqual(lines[1].split(",")[:4], ["dos", "fp32", "1", str(RANKS)])
        for line in lines[1:]:
            self.assertTrue(all(float(value) > 0 for value in line.split(",")[4:]), line)


if __name__ == "__main__":
    if reason := cluster.missing():
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
