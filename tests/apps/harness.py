# SPDX-License-Identifier: Apache-2.0
"""Runs the programs on a small corpus in a temporary folder, as a user does.

DOS_APPS names the folder of the programs; StarPU's environment comes from CTest."""

import ctypes
import json
import os
import random
import re
import shutil
import struct
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from model_folder import read_safetensors

APPS = Path(os.environ["DOS_APPS"])
ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("train_gpt", "plan", "prepare_data", "generate", "evaluate", "export", "checkpoints", "calibrate", "report")
# Seconds after which a program hangs. Some kernels (Linux 6.18) leave one that could run without a core for 100 s.
PATIENCE = 240
WORDS = "to be or not that is the question naïve café 你好 whether nobler in mind".split()
TINY = {
    "model.preset": "tiny", "model.layers": 1, "model.width": 16, "model.heads": 2,
    "model.context": 16, "train.batch": 4, "train.lanes": 2, "train.workers": 2,
    "train.steps": 20, "train.validate_every": 10, "train.validate_batches": 1, "optim.warmup": 2,
}


def environment(**changes):
    return {k: v for k, v in (os.environ | changes).items() if v is not None}


def program(name, *arguments, cwd, timeout=PATIENCE, env=None, **options):
    """Runs it to its end and returns what subprocess.run returns."""
    return subprocess.run([str(APPS / name), *map(str, arguments)], cwd=cwd, text=True,
                          capture_output=True, timeout=timeout, env=environment(**(env or {})),
                          **options)


def run_commands_of_page(commands, cwd, shell="sh", timeout=PATIENCE):
    """Commands as a page has them: programs are found as docs/README.md says, or by the folder of the build."""
    path = ":".join(map(str, (APPS, ROOT / "tools", os.environ["PATH"])))
    return subprocess.run([shell, "-e", "-c", commands.replace("build/release/apps", str(APPS))], cwd=cwd, text=True,
                          capture_output=True, timeout=timeout, check=False,
                          env=environment(PATH=path, DOS_BUILD=str(APPS.parent)))


def programs_in(commands):
    """How many programs of the project the commands of a page run."""
    return len(re.findall(r"(?m)^(?:build/release/apps/|deep-optimizer-states )?(?:%s) " % "|".join(PROGRAMS), commands))


def settings(keys):
    return [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]


def token_file(tokens, magic=20240520, version=1, announced=None):
    """The bytes of a token file of 16-bit tokens."""
    count = len(tokens) if announced is None else announced
    header = [magic, version, count] + [0] * 253
    return struct.pack("<256i", *header) + struct.pack(f"<{len(tokens)}H", *tokens)


def xxh3(data):
    """The checksum of bytes, by the library that the programs use."""
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_64bits.restype = ctypes.c_uint64
    library.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return library.XXH3_64bits(data, len(data))


class AppTest(unittest.TestCase):
    """A class's tests share the data set `data` in `shared`; each has its own empty `folder`."""

    @classmethod
    def setUpClass(cls):
        cls.shared = Path(tempfile.mkdtemp(prefix="dos-apps-"))
        cls.addClassCleanup(shutil.rmtree, cls.shared, ignore_errors=True)
        generator = random.Random(7)
        lines = (" ".join(generator.choices(WORDS, k=9)) for _ in range(150))
        (cls.shared / "corpus.txt").write_text("\n".join(lines), encoding="utf-8")
        made = program("prepare_data", "--tokenizer", "bytes", "--output", "data", "corpus.txt",
                       cwd=cls.shared)
        assert made.returncode == 0, made.stderr

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(dir=self.shared))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.out = self.folder / "out"

    def train(self, *arguments, keys=None, out=None, env=None, **options):
        """train_gpt with the tiny model and `keys`."""
        chosen = {"data.path": self.shared / "data"} | TINY | (keys or {})
        return program("train_gpt", *settings(chosen), "--out", out or self.out, *arguments,
                       cwd=self.folder, env=env, **options)

    def resume(self, *arguments, out=None, **options):
        """train_gpt --resume with nothing but the checkpoint's own configuration."""
        return program("train_gpt", "--out", out or self.out, "--resume", *arguments,
                       cwd=self.folder, **options)

    def trained(self, *arguments, **options):
        result = self.train(*arguments, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def resumed(self, *arguments, **options):
        result = self.resume(*arguments, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def planned(self, machine, model, *arguments):
        """What `plan --json` says."""
        result = program("plan", "--machine", machine, "--model", model, "--json", *arguments, cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def train_on_ranks(self, ranks, *arguments):
        command = [os.environ["DOS_MPIEXEC"], "-n", ranks, APPS / "train_gpt", *arguments, "--quiet"]
        return subprocess.run(list(map(str, command)), cwd=self.folder, text=True, capture_output=True,
                              timeout=PATIENCE, env=environment(), check=False)

    def trained_on_ranks(self, ranks, *arguments):
        """train_gpt on so many ranks, which must end well."""
        result = self.train_on_ranks(ranks, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)

    def start(self, keys=None, resume=None, **options):
        """train_gpt in the background, from the checkpoint `resume` if any; killed at the end of the test if it still runs."""
        chosen = {"data.path": self.shared / "data"} | TINY | (keys or {})
        process = subprocess.Popen(
            [str(APPS / "train_gpt"), *settings(chosen), "--out", str(self.out), "--quiet",
             *(["--resume", resume] if resume else [])],
            cwd=self.folder, text=True,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment()} | options)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def wait_for(self, condition, process, seconds=30):
        end = time.monotonic() + seconds
        while not condition():
            self.assertIsNone(process.poll(), "the run ended before it was interrupted")
            self.assertLess(time.monotonic(), end, "the run did not get far enough")
            time.sleep(0.002)

    def wait_for_metrics(self, process, lines=1):
        """Waits until so many steps, or validations, have ended: the file is there before the first one."""
        file = self.out / "metrics.jsonl"
        self.wait_for(lambda: file.exists() and file.read_text().count("\n") >= lines, process)

    def metrics(self, out=None):
        text = ((out or self.out) / "metrics.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def losses(self, out=None):
        """{step: the loss as it is printed}, training and validation."""
        found = {}
        for line in ((out or self.out) / "metrics.jsonl").read_text().splitlines():
            step, kind, value = line.strip("{}").split(",")[0], *line.split(",")[1].split(":")
            found[(step, kind)] = value.strip("}")
        return found

    def checkpoint(self, selector="last", out=None):
        return (out or self.out) / "checkpoints" / selector

    def last(self, out):
        """The step of the checkpoint that the link names; 0 without one."""
        link = out / "checkpoints" / "last"
        return int(os.readlink(link).removeprefix("step-")) if link.is_symlink() else 0

    def edit_manifest(self, checkpoint, change):
        """Applies `change` to a checkpoint's manifest and gives it the checksum of what it is now."""
        path = checkpoint / "manifest.json"
        manifest = json.loads(path.read_text(encoding="utf-8"))
        change(manifest)
        if "xxh3" in manifest:
            del manifest["xxh3"]
            text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            manifest["xxh3"] = f"{xxh3(text.encode()):016x}"
        path.write_text(json.dumps(manifest), encoding="utf-8")

    def expect_same_state(self, a, b):
        """Both runs' last checkpoints hold the same bits, in whichever files."""
        tensors, others = self.checkpoint_tensors(a), self.checkpoint_tensors(b)
        self.assertEqual(tensors.keys(), others.keys())
        for name, tensor in tensors.items():
            self.assertTrue(tensor == others[name], f"{name} of {a.name} and {b.name} differ")

    def checkpoint_tensors(self, out):
        """All of the last checkpoint, (type, shape, bytes) by name, those in slices joined."""
        slices = {}
        for path in self.checkpoint(out=out).glob("*.safetensors"):
            for name, tensor in read_safetensors(path).items():
                part = re.fullmatch(r"(.*)\[(\d+):\d+\]", name)
                if not name.startswith("padding"):
                    whole, first = (part[1], int(part[2])) if part else (name, 0)
                    slices.setdefault(whole, []).append((first, tensor))
        joined = {}
        for name, parts in slices.items():
            parts.sort(key=lambda part: part[0])
            for (first, (_, shape, _)), (after, _) in zip(parts, parts[1:]):
                self.assertEqual(first + shape[0], after, name)
            tensors = [tensor for _, tensor in parts]
            dtype, shape, _ = tensors[0]
            joined[name] = (dtype, [sum(each[1][0] for each in tensors), *shape[1:]],
                            b"".join(each[2] for each in tensors))
        return joined

    def checkpoint_files(self, out):
        """The files with tensors of the last checkpoint, by name."""
        return {path.name: path.read_bytes() for path in self.checkpoint(out=out).glob("*.safetensors")}

    def expect_error(self, result, *parts, name="train_gpt", more_lines=False):
        """Status 1 and one error line that holds every part."""
        self.assertEqual(result.returncode, 1, result.stderr)
        before, mark, message = result.stderr.partition(f"{name}: error: ")
        self.assertTrue(mark, result.stderr)
        self.assertNotIn("error:", message)
        self.assertNotIn("terminate called", result.stderr)
        self.assertNotIn("contract violated", message)
        if not more_lines:
            self.assertEqual(message.count("\n"), 1, result.stderr)
        for part in parts:
            self.assertIn(part, message.splitlines()[0])

    def expect_nothing_written(self):
        self.assertFalse(self.out.exists(), list(self.out.glob("*")) if self.out.exists() else "")


def snapshot(folder):
    """{path: contents} of everything below `folder`."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*"))
            if p.is_file()}
