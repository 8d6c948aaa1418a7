#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What train_gpt prints and writes."""

import json
import re
import subprocess
import unittest

from harness import APPS, PATIENCE, TINY, AppTest, program, settings, snapshot, token_file

KEYS = {
    "model": "preset layers width heads context vocab positions kv_heads ffn head_dim rope_theta rope_factor "
             "rope_low_freq rope_high_freq rope_context norm_eps window tied_head qkv_bias qk_norm",
    "data": "path sources",
    "train": "steps stop_after batch accumulate lanes workers opencl_devices cuda_devices gpu_memory host_memory fit "
             "stall_timeout_s seed precision gradient_precision products attention recompute activations "
             "activation_disks logits_rows run_ahead validate_every "
             "validate_batches checkpoint_every mtbf_hours checkpoint_memory keep keep_every_hours "
             "checkpoint_local checkpoint_copy_every checkpoint_copy_rate log_every",
    "optim": "rule lr final_lr_ratio warmup schedule weight_decay decay_vectors decay_embeddings "
             "no_decay freeze lr_factors beta1 beta2 momentum eps clip speculate",
    "lora": "rank alpha targets rslora",
    "sched": "subgroup_params stride share window resident fallback disks host_memory",
    "dist": "zero weights gpu_messages timeout_s",
}
STEP_FIELDS = ["step", "loss", "lr", "grad_norm", "tokens", "tokens_per_s", "ms_step", "ms_forward",
               "ms_backward", "ms_update"]
CHECKPOINT_FIELDS = ["checkpoint_step", "checkpoint_committed", "checkpoint_s", "mb_checkpoint", "mb_checkpoint_linked",
                     "mb_checkpoint_copied", "ms_checkpoint_waited", "ms_checkpoint_room"]


class Outputs(AppTest):
    def test_metrics(self):
        # A third checkpoint waits until the first has ended, however slow the disk.
        self.trained(keys={"train.checkpoint_every": 1})
        lines = self.metrics()
        steps = [line for line in lines if "loss" in line]
        self.assertEqual([line["step"] for line in steps], list(range(1, 21)))
        for line in steps:
            more = CHECKPOINT_FIELDS if "checkpoint_s" in line else []
            self.assertEqual(list(line), STEP_FIELDS + more + ["busy_cpu", "run"])
            self.assertEqual(line["tokens"], line["step"] * 4 * 16)
            for field in STEP_FIELDS:
                self.assertGreater(line[field], 0)
        # Workers are never busier than the time there is; each share has three digits.
        whole = sum(line["ms_step"] for line in steps)
        busy = sum(line["busy_cpu"] * line["ms_step"] for line in steps) / whole
        self.assertGreater(busy, 0)
        self.assertLessEqual(busy, 1.005)
        # Where several end in a step it tells of the last; that of the last step ends after it.
        ended = [line for line in steps if "checkpoint_s" in line]
        saved = [line["checkpoint_step"] for line in ended]
        self.assertTrue(saved)
        self.assertEqual(saved, sorted(set(saved) & set(range(1, 20))))
        size = sum(f.stat().st_size for f in self.checkpoint("best").glob("*.safetensors"))
        self.assertEqual({line["checkpoint_committed"] for line in ended}, {1})
        self.assertGreater(ended[0]["checkpoint_s"], 0)
        self.assertAlmostEqual(ended[0]["mb_checkpoint"], size / 1e6, delta=0.02)
        self.assertEqual([(line["step"], list(line)) for line in lines if "val_loss" in line],
                         [(10, ["step", "val_loss", "run"]), (20, ["step", "val_loss", "run"])])
        # A validation's line follows the line of its step.
        self.assertEqual([line["step"] for line in lines][9:12], [10, 10, 11])

    def test_a_first_run_speaks_for_itself(self):
        # Nothing is known of this machine yet, and StarPU is not told to be silent.
        def home(name):
            (self.folder / name).mkdir()
            return {"STARPU_HOME": str(self.folder / name), "STARPU_SILENT": None}

        dry = self.train("--dry-run", env=home("dry"))
        first = self.trained(env=home("first"))
        text = program("generate", self.out, "--tokens", 3, cwd=self.folder, env=home("text"))
        self.assertTrue((self.folder / "first" / ".starpu" / "sampling" / "bus").is_dir(), "was measured")
        for result in (dry, first, text):
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotRegex(result.stdout + result.stderr, r"(?i)\[starpu\]|\bbus\b|calibrat|\blinks\b")
        self.assertRegex(first.stderr.splitlines()[0], "info model gpt2: ")

    def test_without_a_device_no_share_of_it_is_told(self):
        text = self.trained("--explain").stdout
        self.assertIn("because: there is no GPU", text)
        self.assertRegex(text, r"(?m)^  CPU +2 ")
        self.assertNotRegex(text, "GPU, planned|moved to CPU|to GPU")

    def test_progress_has_the_names_of_the_metrics(self):
        lines = [line for line in self.trained().stderr.splitlines() if re.match("step .* lr ", line)]
        self.assertTrue(lines)
        help_text = program("train_gpt", "--help", cwd=self.folder).stdout
        for word in re.findall(r"([a-z_]+) [0-9.e+-]+(?=  )", lines[0]):
            self.assertIn(word, STEP_FIELDS)
            self.assertIn(word, help_text)

    def test_validation_only_at_the_end(self):
        self.trained(keys={"train.validate_every": 0})
        self.assertEqual([line["step"] for line in self.metrics() if "val_loss" in line], [20])

    def test_links_and_kept_checkpoints(self):
        # The rate grows so fast that the first validation stays the best.
        shown = self.trained(keys={"train.steps": 12, "train.validate_every": 4, "optim.lr": 3.0,
                                   "train.checkpoint_every": 2, "train.keep": 2,
                                   "optim.schedule": "constant", "optim.warmup": 12}).stderr
        losses = [line["val_loss"] for line in self.metrics() if "val_loss" in line]
        self.assertEqual(losses.index(min(losses)), 0, losses)
        self.assertEqual(shown.count("(best so far)"), 1)
        self.assertEqual(shown.count(f"(best: {losses[0]:.4f} after step 4)"), 2, shown)
        self.assertEqual(self.checkpoint("best").resolve().name, "step-00000004")
        self.assertEqual(self.checkpoint("last").resolve().name, "step-00000012")
        self.assertEqual(sorted(p.name for p in (self.out / "checkpoints").iterdir()),
                         ["best", "last", "step-00000004", "step-00000010", "step-00000012"])
        manifest = json.loads((self.checkpoint() / "manifest.json").read_text())
        self.assertAlmostEqual(manifest["best_validation_loss"], losses[0], delta=1e-7)
        self.assertEqual(manifest["samples_consumed"], 12 * 4)

    def test_two_runs_write_the_same_bits(self):
        other = self.folder / "other"
        self.trained()
        self.trained(out=other, env={"STARPU_SCHED": "eager"})
        self.assertEqual(self.losses(), self.losses(other))
        self.expect_same_state(self.out, other)

    def test_run_json(self):
        self.trained(keys={"train.stop_after": 1, "optim.lr": 0.002})
        run = json.loads((self.out / "run.json").read_text())
        self.assertEqual(run["format"], 1)
        self.assertEqual({section: set(keys) for section, keys in run["configuration"].items()},
                         {section: set(keys.split()) for section, keys in KEYS.items()})
        self.assertEqual(run["configuration"]["optim"]["lr"], 0.002)
        self.assertEqual(run["model"], {"architecture": "gpt2", "layers": 1, "width": 16,
                                        "heads": 2, "context": 16, "vocabulary": 257})
        self.assertEqual(run["runtime"], {"scheduler": "dos", "cpu_workers": 2})
        for library in ("starpu", "hwloc", "blas"):
            self.assertRegex(run["versions"][library], r"\d+\.\d+")
        self.assertRegex(run["versions"]["mpi"], r"\d+\.\d+|^none$")  # built without
        for count in ("packages", "numa_nodes", "cores", "processing_units", "memory_bytes"):
            self.assertGreaterEqual(run["topology"][count], 1)
        self.assertRegex(run["program"]["version"], r"^\d+\.\d+\.\d+$")
        self.assertTrue(run["program"]["revision"])
        self.assertEqual(run["ranks"], 1)

    def test_the_tokenizer_is_kept(self):
        self.trained(keys={"train.stop_after": 1})
        kept = json.loads((self.out / "tokenizer.json").read_text())
        self.assertEqual((kept["tokenizer"], kept["vocabulary"]), ("bytes", 257))

    def test_a_policy_that_cannot_do_its_part_says_so_once(self):
        cases = (("gpu-only", {}, "policy gpu-only needs a GPU, this machine has none"),
                 ("dos", {"sched.share": 0.5}, "sched.share = 0.5 needs a GPU, this machine has"),
                 ("dos-stride", {"sched.stride": 2}, "sched.stride = 2 needs a GPU"),
                 ("gpu-only", {"train.steps": 2}, "policy gpu-only needs a GPU"),
                 # The ordinary run of a machine without a device.
                 ("dos", {}, None))
        for case, (policy, keys, why) in enumerate(cases):
            with self.subTest(f"{policy} {keys}"):
                result = self.trained("--quiet", keys={"train.steps": 5} | keys,
                                      env={"STARPU_SCHED": policy},
                                      out=self.folder / str(case))
                warnings = [line for line in result.stderr.splitlines() if " warn" in line]
                if why is None:
                    self.assertEqual(warnings, [])
                    continue
                self.assertEqual(len(warnings), 1, result.stderr)
                self.assertIn(f"scheduler {policy}: {why}", warnings[0])
                self.assertIn("updates stay on the CPU", warnings[0])

    def test_progress_on_stderr_and_a_summary_on_stdout(self):
        result = self.trained()
        shown = re.findall(r"^step (\d+)/20  loss", result.stderr, re.MULTILINE)
        self.assertEqual(shown, ["1", "10", "20"])
        self.assertRegex(result.stderr, r"validation loss \d\.\d{4}  \(best so far\)")
        self.assertRegex(result.stdout, r"^step 20  training loss \S+  validation loss \S+  best ")
        self.assertEqual(result.stdout.count("\n"), 1)

    def test_quiet(self):
        result = self.trained("--quiet", "--log-level", "warn")
        self.assertEqual(result.stderr, "")

    def test_print_config_is_a_configuration_file(self):
        changed = settings({"optim.lr": 0.00123, "data.path": 'a "b" ü', "train.recompute": "true"})
        first = program("train_gpt", *changed, "--print-config", cwd=self.folder)
        self.assertEqual((first.returncode, first.stderr), (0, ""))
        (self.folder / "run.toml").write_text(first.stdout)
        again = program("train_gpt", "--config", "run.toml", "--print-config", cwd=self.folder)
        self.assertEqual((again.returncode, again.stdout), (0, first.stdout))
        self.assertIn("lr = 0.00123 ", first.stdout)
        self.assertIn("recompute = true ", first.stdout)

    def test_precedence(self):
        (self.folder / "run.toml").write_text(
            "[train]\nbatch = 3\nlog_every = 4\n[optim]\nlr = 1\n")
        self.trained(keys={"train.stop_after": 2, "train.batch": 5, "optim.lr": 0.01})
        result = program("train_gpt", "--out", self.out, "--resume", "--config", "run.toml",
                         "--set", "optim.lr=0.5", "--print-config", cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        for expected in ("width = 16 ", "batch = 3 ", "log_every = 4 ", "lr = 0.5 ",
                         "stop_after = 0 ", "clip = 1 "):
            self.assertIn(f"\n{expected}", result.stdout)

    def test_help_lists_every_key_with_its_default(self):
        result = program("train_gpt", "--help", cwd=self.folder)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        defaults = program("train_gpt", "--print-config", cwd=self.folder).stdout
        section = ""
        count = 0
        for line in defaults.splitlines():
            if line.startswith("["):
                section = line.strip("[]")
            elif line:
                key, value = line.split("  # ")[0].split(" = ")
                name = re.escape(f"{section}.{key}")
                self.assertRegex(result.stdout, rf"\n  {name} +\S.*  \[{re.escape(value)}\]\n")
                count += 1
        self.assertEqual(count, sum(len(keys.split()) for keys in KEYS.values()))
        for option in ("--config", "--set", "--out", "--resume", "--dry-run", "--print-config",
                       "--quiet", "--log-level", "--version"):
            self.assertIn(f"  {option}", result.stdout)

    def test_version(self):
        result = program("train_gpt", "--version", cwd=self.folder)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, r"^\d+\.\d+\.\d+ \(\S+\)\n$")

    def test_dry_run_prints_the_memory_and_writes_nothing(self):
        before = snapshot(self.shared)
        result = self.trained("--dry-run")
        rows = re.findall(r"^  (\S+(?: \S+)?) +[\d.]+ (?:B|KiB|MiB|GiB|TiB)$", result.stdout, re.M)
        self.assertEqual(rows, ["parameters", "gradients", "optimizer states", "activations",
                                "workspace", "data", "tokens ahead", "runtime", "program",
                                "checkpoint buffers", "total", "available"])
        self.assertEqual(result.stderr, "")
        self.assertEqual(snapshot(self.shared), before)
        self.expect_nothing_written()

    def test_dry_run_of_a_model_that_does_not_fit(self):
        result = self.train("--dry-run", keys={"train.batch": 10**9})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("TiB", result.stdout)
        self.assertIn("DOES NOT FIT", result.stdout)
        self.expect_nothing_written()

    def test_dry_run_for_gpus_that_are_not_there(self):
        keys = {"train.gpu_memory": 0.12, "train.batch": 64}
        tables = self.trained("--dry-run", keys=keys).stdout.split("memory of GPU 0, planned:")
        self.assertEqual(len(tables), 2, tables)
        rows = re.findall(r"^  (\S+(?: \S+)?) +[\d.]+ (?:B|KiB|MiB|GiB|TiB)$", tables[1], re.M)
        self.assertEqual(rows, ["weights", "gradients", "activations", "logits", "work spaces", "total",
                                "available"])
        self.assertIn("left for states of the optimizer: ", tables[1])
        two = self.trained("--dry-run", keys=keys | {"train.cuda_devices": 2}).stdout
        self.assertIn("memory of GPU 1, planned:", two)
        # 0.103 GB are 98.2 MiB, 96 of which are work space.
        small = keys | {"train.gpu_memory": 0.103}
        self.assertIn("DOES NOT FIT", self.trained("--dry-run", keys=small).stdout)
        chosen = self.trained("--dry-run", keys=small | {"train.fit": "auto"})
        self.assertRegex(chosen.stderr + chosen.stdout, r"train\.fit=auto: train\.batch=\d+ train\.accumulate=\d+")
        self.assertNotIn("DOES NOT FIT", chosen.stdout)
        self.expect_nothing_written()

    def test_scores_of_large_heads_are_counted_where_gpus_run_or_are_planned(self):
        # Two heads of 144, 512 tokens: two [512, 512] of FP32 a head; without a GPU each of two workers has four
        # [520, 144] of one head, five [64, 144], two [64, 64] and 208 more.
        keys = {"model.width": 288, "model.context": 512, "train.workers": 2}
        row = r"^  work ?spaces? +([\d.]+ .iB)$"
        alone = self.trained("--dry-run", keys=keys | {"train.cuda_devices": 0}).stdout
        self.assertEqual(re.findall(row, alone, re.M), ["2.70 MiB"], alone)
        planned = self.trained("--dry-run", keys=keys | {"train.gpu_memory": 80}).stdout
        # The GPU's alone, beside 96 MiB of its kernels.
        self.assertEqual(re.findall(row, planned, re.M), ["100 MiB"], planned)

    def test_a_run_takes_the_keys_that_its_plan_names(self):
        plan = self.planned("h100", "gpt2-124m", "--micro-batch", 2)
        for part in ("train", "val"):
            (self.folder / f"d_{part}.bin").write_bytes(token_file([1] * 3000))
        keys = {"data.path": self.folder / "d", "train.gpu_memory": 80} | plan["keys"]
        report = program("train_gpt", "--dry-run", *settings(keys), cwd=self.folder)
        self.assertEqual(report.returncode, 0, report.stderr)
        # The same model, type, batch and activations on the GPU.
        for row in ("weights", "gradients", "activations"):
            text, = re.findall(rf"^  {row} +([\d.]+) MiB$", report.stdout.split("memory of GPU 0")[1], re.M)
            planned = plan["memory"]["gpu"]["items"][row] / 2**20
            self.assertAlmostEqual(float(text) / planned, 1, delta=0.01, msg=row)
        text = program("plan", "--machine", "h100", "--model", "gpt2-124m", "--micro-batch", 2, cwd=self.folder).stdout
        for key, value in plan["keys"].items():
            self.assertIn(f" --set {key}={value}", text)

    def test_default_folder_is_named_after_the_time(self):
        keys = {"data.path": self.shared / "data"} | TINY | {"train.stop_after": 1}
        result = subprocess.run([APPS / "train_gpt", *settings(keys)], cwd=self.folder,
                                capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(result.returncode, 0, result.stderr)
        names = [p.name for p in (self.folder / "runs").iterdir()]
        self.assertRegex("".join(names), r"^\d{8}-\d{6}$")


if __name__ == "__main__":
    unittest.main()
