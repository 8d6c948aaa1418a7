#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong input ends train_gpt with status 1 and one line that says what, where and what to do."""

import re
import shutil
import unittest

from harness import AppTest, program, token_file



class BadConfiguration(AppTest):
    def expect_refused(self, keys, *parts, **options):
        with self.subTest(str(keys)):
            self.expect_error(self.train(keys=keys, **options), *parts)
            self.expect_nothing_written()

    def test_sizes_out_of_range(self):
        for key in ("steps", "batch", "accumulate", "run_ahead", "validate_batches",
                    "keep", "log_every"):
            for value in (0, -1):
                self.expect_refused({f"train.{key}": value}, f"train.{key} must ", f"got {value}")
        for value in (0, -1):
            self.expect_refused({"sched.subgroup_params": value}, "sched.subgroup_params must ",
                                f"got {value}")

    def test_negative_where_zero_has_a_meaning(self):
        keys = [f"model.{key}" for key in ("layers", "width", "heads", "context", "vocab")]
        keys += [f"train.{key}" for key in ("stop_after", "lanes", "logits_rows", "workers", "seed",
                                            "validate_every", "checkpoint_every")]
        keys += [f"optim.{key}" for key in ("lr", "final_lr_ratio", "warmup", "weight_decay",
                                            "beta1", "beta2", "momentum", "eps", "clip")]
        for key in keys:
            self.expect_refused({key: -3}, key, "-3")

    def test_numbers_that_are_none(self):
        for key in ("lr", "final_lr_ratio", "weight_decay", "beta1", "beta2", "momentum", "eps",
                    "clip"):
            for value in ("nan", "inf", "1e39"):
                self.expect_refused({f"optim.{key}": value}, f"optim.{key} must be a finite number")

    def test_model_shapes(self):
        self.expect_refused({"model.heads": 3}, "model.heads = 3 does not divide model.width = 16")
        self.expect_refused({"model.vocab": 100}, "model.vocab = 100 is smaller than the data "
                                                  "set's vocabulary of 257", "raise it")
        self.expect_refused({"train.lanes": 5}, "train.lanes = 5 is above train.batch = 4")
        self.expect_refused({"sched.subgroup_params": 15}, "sched.subgroup_params = 15", "raise it")

    def test_disks(self):
        self.expect_refused({"sched.disks": "/tmp:4"}, "sched.disks: '4' is no size", "/tmp:4", "write a number and")
        self.expect_refused({"sched.disks": "/tmp,,/var"}, "sched.disks has a disk without a folder")
        self.expect_refused({"sched.disks": "/tmp,/tmp:1GB"}, "sched.disks names '/tmp' twice")
        self.expect_refused({"sched.disks": self.folder / "none"}, "sched.disks", "none' is no folder", "make it")
        self.expect_refused({"sched.disks": self.folder, "sched.host_memory": -2}, "sched.host_memory must ", "or be auto", "got -2")
        self.expect_refused({"sched.host_memory": 1}, "sched.host_memory = 1 GB, but sched.disks names no disk")
        self.expect_refused({"sched.disks": self.folder, "sched.host_memory": 1e-6, "train.steps": 1},
                            "sched.host_memory = 1e-06 GB is too little", "raise it to")
        self.expect_refused({"train.host_memory": -1}, "train.host_memory must ", "got -1")
        self.expect_refused({"train.host_memory": 1, "sched.host_memory": 2, "sched.disks": self.folder},
                            "sched.host_memory = 2 GB for states, but train.host_memory = 1 GB is for all")
        self.expect_error(self.train(keys={"train.host_memory": 0.01}), "limited by train.host_memory = 0.01",
                          "or raise train.host_memory to ", more_lines=True)
        self.expect_nothing_written()
        file = self.folder / "file"
        file.touch()
        self.expect_refused({"sched.disks": file}, "sched.disks", "file' is no folder")

    def test_unknown_names(self):
        self.expect_refused({"model.preset": "tyni"}, "unknown model.preset 'tyni' (did you mean "
                            "'tiny'?); known: tiny, small-3m")
        self.expect_refused({"train.precision": "fp8"}, "train.precision = 'fp8'", "known: fp32, bf16")
        self.expect_refused({"optim.rule": "adam"}, "unknown optim.rule 'adam' (did you mean "
                            "'adamw'?); known: adamw, sgd, lion, adagrad")
        self.expect_refused({"optim.schedule": "cosin"}, "optim.schedule 'cosin' (did you mean "
                            "'cosine'?)", "known: constant, linear, cosine")
        self.expect_refused({"train.btach": 3}, "--set train.btach=3: unknown key 'train.btach' "
                            "(did you mean 'train.batch'?)")
        self.expect_refused({"train.batch": "1.5"},
                            "--set train.batch=1.5: '1.5' is not an integer")
        self.expect_refused({}, "unknown scheduler 'dmads'", "did you mean 'dmda", "known: ", "lws",
                            env={"STARPU_SCHED": "dmads"})

    def test_configuration_files(self):
        path = self.folder / "run.toml"
        cases = {
            "[train]\nbatch = 2\nstep = 4\n": "run.toml:3: unknown key 'train.step' (did you mean "
                                              "'train.steps'?)",
            "[train]\nbatch = '2'\n": "run.toml:2: train.batch must be an integer",
            "[train\n": "run.toml:1: ",
            "train = 3\n": "run.toml:1: unknown key 'train'",
            "\"train.steps\" = 3\n": "run.toml:1: write section and key of train.steps without",
        }
        for text, message in cases.items():
            with self.subTest(text):
                path.write_text(text)
                self.expect_error(self.train("--config", path), message)
                self.expect_nothing_written()
        self.expect_error(self.train("--config", self.folder / "none.toml"),
                          "none.toml: cannot open")
        self.expect_error(self.train("--config", self.folder), "not a regular file")

    def test_workers_that_are_not_there(self):
        self.expect_refused({"train.workers": 100000}, "train.workers = 100000, but StarPU can run")
        self.expect_refused({"train.workers": 0}, "StarPU found no worker", "STARPU_NCPU",
                            env={"STARPU_NCPU": "0"})

    def test_empty_values_of_options(self):
        for option in ("--config", "--out", "--trace", "--machines"):
            with self.subTest(option):
                result = self.train(option, "", keys={})
                self.expect_error(result, f"{option}: must not be empty")
                self.expect_nothing_written()
        result = program("plan", "--machine", "h100", "--model", "llama-7b", "--svg", "", cwd=self.folder)
        self.assertIn("--svg: must not be empty", result.stderr)

    def test_patterns_that_match_nothing(self):
        self.expect_refused({"optim.no_decay": "blocks.*.up.weigth"}, "optim.no_decay: 'blocks.*.up.weigth' matches no "
                            "matrix of the model", "there are ", "weight")
        self.trained("--dry-run", keys={"optim.no_decay": "blocks.*.up.weight,*qkv.weight"})

    def test_what_is_trained(self):
        for keys, parts in (
                ({"optim.freeze": "blocks.*.up.weigth"}, ("optim.freeze: 'blocks.*.up.weigth' matches no parameter",
                                                          "there are ")),
                ({"optim.freeze": "*"}, ("optim.freeze = '*' freezes every parameter",)),
                ({"optim.freeze": "*.bias"}, ("norm1.weight", "norm1.bias", "computed together")),
                ({"optim.lr_factors": "head.*:2"}, ("optim.lr_factors: 'head.*' matches no parameter that is trained",)),
                ({"optim.lr_factors": "blocks.*"}, ("optim.lr_factors = 'blocks.*'", "PATTERN:FACTOR")),
                ({"optim.lr_factors": "blocks.*:-1"}, ("optim.lr_factors", "at least 0"))):
            with self.subTest(keys):
                self.expect_refused(keys, *parts)

    def test_more_subgroups_than_one_can_count(self):
        self.expect_refused({"model.width": 1048576}, "sched.subgroup_params = 5000000 cuts ", "subgroups, more than 200000",
                            "raise it above")

    def test_variables_of_the_runtime(self):
        for name, value in (("STARPU_NCPU", "abc"), ("STARPU_NCPU", "-1"), ("STARPU_WORKERS_CPUID", "abc"),
                            ("STARPU_MAIN_THREAD_CPUID", "5000"), ("STARPU_CALIBRATE", ""), ("STARPU_SIMGRID", "1")):
            self.expect_refused({}, f'the environment has {name}="{value}": it must be ', "change or unset it",
                                env={name: value})

    def test_devices_that_cannot_be(self):
        for key in ("opencl_devices", "cuda_devices"):
            self.expect_refused({f"train.{key}": 2147483648}, f"train.{key} must lie in [-1, 1000], got 2147483648")

    def test_unknown_options_are_the_parser_s(self):
        # Every program: one line that names what it cannot read.
        needed = {"generate": "run", "prepare_data": "--tokenizer bytes --output d corpus.txt", "train_gpt": "",
                  "plan": "", "calibrate": "", "report": "trace", "export": "run folder"}
        for name, words in needed.items():
            for wrong in ("--nonsense=3", "--nonsense"):
                result = program(name, *words.split(), wrong, cwd=self.folder)
                self.expect_error(result, f"'{wrong}' is no option", f"see {name} --help", name=name)
        for name in ("train_gpt", "plan"):
            result = program(name, "--set", "train.steps=1", "train.batch=2", "model.layers=3", cwd=self.folder)
            self.expect_error(result, "'train.batch=2' stands alone", "--set train.batch=2 --set model.layers=3",
                              name=name)
            self.expect_error(program(name, "--set", "train.steps", "=", "3", cwd=self.folder), "'=' stands alone", name=name)

    def test_memory(self):
        for keys in ({"model.preset": "gpt2-1.5b", "train.batch": 100000, "model.layers": 0,
                      "model.width": 0, "model.heads": 0}, {"train.batch": 10**12}):
            with self.subTest(str(keys)):
                result = self.train(keys=keys)
                self.expect_error(result, "the run needs ", " of host memory, ", " are available",
                                  "train.batch", more_lines=True)
                table = result.stderr.splitlines()[-12:]
                self.assertEqual([line[:20].strip() for line in table],
                                 ["parameters", "gradients", "optimizer states", "activations",
                                  "workspace", "data", "tokens ahead", "runtime", "program",
                                  "checkpoint buffers", "total", "available"])
                self.expect_nothing_written()
        # Sizes whose sums would overflow are no small sizes.
        for key in ("train.batch", "model.width", "model.layers"):
            result = self.train(keys={key: 2**62, "train.lanes": 0})
            self.expect_error(result, key, str(2**62))
            self.expect_nothing_written()

    def test_tasks_that_do_not_see_each_other(self):
        """srun without a PMI starts every task as a world of one rank."""
        result = self.train(env={"SLURM_STEP_NUM_TASKS": "2"})
        self.expect_error(result, "2 tasks", "srun --mpi=pmi2")
        self.expect_nothing_written()


class BadHistory(AppTest):
    def test_performance_models_that_cannot_be_read(self):
        home = {"STARPU_HOME": str(self.folder), "STARPU_CALIBRATE": "1"}
        self.trained(keys={"train.steps": 2}, env=home)
        shutil.rmtree(self.out)
        model, = self.folder.glob(".starpu/sampling/codelets/*/dos.update.adamw.f32.f32.v1")
        good = model.read_text()
        lines = good.splitlines(keepends=True)
        entry = re.search(r"^[0-9a-f]{8}\t.*", good, re.MULTILINE).group()
        mean = entry.split()[3]
        cases = {"# Performance Model Version\n12\n": "a performance model of version 12",
                 good[:60]: "performance model",
                 good[:len(good) // 2]: "a damaged performance model",
                 "".join(lines[:-6]): "a damaged performance model, it ends after line ",
                 good.replace(mean, "nan", 1): "'nan' is no finite number of at least 0",
                 good.replace(mean, f"-{mean}", 1): f"'-{mean}' is no finite number"}
        for text, message in cases.items():
            with self.subTest(message):
                model.write_text(text)
                self.expect_error(self.train(env=home), f"{model}: ", message,
                                  "delete it and run calibrate")
                self.expect_nothing_written()
        model.unlink()
        model.mkdir()
        self.expect_error(self.train(env=home), f"{model}: no performance model, as it is no "
                          "regular file", "delete it")
        self.expect_nothing_written()


class BadBus(AppTest):
    def test_measurements_of_the_links_that_cannot_be_read(self):
        home = {"STARPU_HOME": str(self.folder), "XDG_CACHE_HOME": None, "STARPU_HOSTNAME": None,
                "STARPU_PERF_MODEL_DIR": None}
        self.trained(keys={"train.steps": 1}, env=home)
        shutil.rmtree(self.out)
        config, = self.folder.glob(".starpu/sampling/bus/*.config")
        good = config.read_text()
        affinity = config.with_suffix(".affinity")
        for file, text in ((config, ""), (config, "hello world\n"), (config, good[:len(good) // 2]), (affinity, "")):
            with self.subTest(file=file.name, text=text):
                file.write_text(text)
                result = self.trained(keys={"train.steps": 1}, env=home)
                shutil.rmtree(self.out)
                self.assertIn(f"{file}: a damaged description of the links", result.stderr)
                self.assertEqual(config.read_text(), good)
                self.assertTrue(affinity.read_text())
        config.unlink()
        self.trained(keys={"train.steps": 1}, env=home)
        self.assertEqual(config.read_text(), good)


class BadData(AppTest):
    def expect_refused(self, *parts, **keys):
        self.expect_error(self.train(keys={"data.path": self.folder / "d"} | keys), *parts)
        self.expect_nothing_written()

    def write(self, train, val=None):
        (self.folder / "d_train.bin").write_bytes(train)
        (self.folder / "d_val.bin").write_bytes(token_file([1] * 50) if val is None else val)

    def test_not_named(self):
        self.expect_error(self.train(keys={"data.path": ""}), "data.path is not set",
                          "prepare_data")
        self.expect_error(self.train(keys={"data.path": f"{self.folder}/"}), "no dataset PREFIX")

    def test_missing(self):
        self.expect_refused("d_train.bin: missing; data.path must be the PREFIX")
        (self.folder / "d_train.bin").write_bytes(token_file([1] * 50))
        self.expect_refused("d_val.bin: missing")

    def test_damaged(self):
        good = token_file([1] * 50)
        for bytes_, message in ((b"", "empty file"),
                                (good[:500], "too short for the 1024-byte header"),
                                (good[:-3], "truncated: the header announces 50 tokens"),
                                (good + b"x", "1 bytes follow"),
                                (token_file([]), "holds no tokens"),
                                (b"PK\3\4" * 400, "not a token file (magic number"),
                                (token_file([1] * 50, version=2), "token file version 2")):
            for files in ((bytes_, good), (good, bytes_)):
                with self.subTest(message):
                    self.write(*files)
                    self.expect_refused(message, "_val.bin" if files[0] is good else "_train.bin")

    def test_token_beyond_the_vocabulary(self):
        for position in (0, 16, 48):
            with self.subTest(position):
                tokens = [1] * 49
                tokens[position] = 300
                self.write(token_file(tokens))
                self.expect_refused(f"d_train.bin: token 300 at position {position} is outside "
                                    "model.vocab=257", "raise model.vocab above 300")
        self.write(token_file([1] * 50), val=token_file([1] * 5 + [999] + [1] * 30))
        self.expect_refused("d_val.bin: token 999")

    def test_context_longer_than_the_file(self):
        self.write(token_file([1] * 50))
        self.expect_refused("d_train.bin: 50 tokens, but a sample with model.context=50 takes 51",
                            "lower model.context", **{"model.context": 50})
        self.write(token_file([1] * 50), val=token_file([1] * 16))
        self.expect_refused("d_val.bin: 16 tokens")

    def test_manifest_of_other_files(self):
        for name in ("data_train.bin", "data_val.bin", "data.json"):
            shutil.copy(self.shared / name, self.folder / name.replace("data", "d"))
        self.write(token_file([1] * 50), val=(self.shared / "data_val.bin").read_bytes())
        self.expect_refused("d.json: announces ", "tokens in d_train.bin, which holds 50")


if __name__ == "__main__":
    unittest.main()
