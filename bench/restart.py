#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast --resume reads a checkpoint: beside a plain reader of the same files, by turns on one machine.

usage: bench/restart.py [--build DIR] [--folder DIR] [--model PRESET] [--rounds N] [--set KEY=VALUE]... [--cold-memory]

Trains two steps on random tokens in a folder of DIR, and resumes from that checkpoint in each round. The plain reader has eight
threads, which read blocks of 4 MiB past the page cache over and over into the same buffers. Before each of both, as much memory is
touched and given back, so that a virtual machine need not ask its host for it; with --cold-memory it is left idle until it must.
docs/performance/checkpoints.md has such a run.
"""

import itertools
import mmap
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from short_runs import UNITS, command_of, fail, parser_of, train, write_tokens

BLOCK = 4 << 20
READERS = 8


def parse():
    parser = parser_of(__doc__, rounds=7)
    parser.add_argument("--cold-memory", action="store_true", help="of a virtual machine: let the host take back what is free")
    return parser.parse_args()


def fresh_memory(size):
    """Of large pages, as the program's."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def touch(size):
    with fresh_memory(size) as memory:
        for offset in range(0, size, mmap.PAGESIZE):
            memory[offset] = 1


def read_plainly(files):
    """(bytes, seconds)"""
    blocks = []
    for path in files:
        descriptor, size = os.open(path, os.O_RDONLY | os.O_DIRECT), path.stat().st_size
        blocks += [(descriptor, offset, min(BLOCK, size - offset)) for offset in range(0, size, BLOCK)]
    buffers = [fresh_memory(BLOCK) for _ in range(READERS)]
    for buffer in buffers:
        buffer[:] = b"\1" * BLOCK
    turn, rest = threading.Lock(), iter(blocks)

    def work(buffer):
        moved = 0
        while True:
            with turn:
                block = next(rest, None)
            if block is None:
                return moved
            moved += os.preadv(block[0], [buffer], block[1])

    begin = time.monotonic()
    with ThreadPoolExecutor(READERS) as pool:
        moved = sum(pool.map(work, buffers))
    seconds = time.monotonic() - begin
    if moved != sum(block[2] for block in blocks):
        fail(f"{files[0].parent}: short reads")
    for descriptor in {block[0] for block in blocks}:
        os.close(descriptor)
    return moved, seconds


def resume(build, folder, keys, assignments):
    """(bytes, seconds) that it says."""
    command = command_of(build, folder, keys | {"train.stop_after": 3}, assignments)
    command.remove("--quiet")
    again = folder / "again"
    command[command.index("--out") + 1] = str(again)
    result = subprocess.run([*command, "--resume", str(folder / "out")], capture_output=True, text=True, check=False,
                            env=os.environ | {"STARPU_SILENT": "1"})
    shutil.rmtree(again, ignore_errors=True)
    said = re.search(r": ([\d.]+) (\w+) read in ([\d.]+) s$", result.stderr, re.MULTILINE)
    if result.returncode != 0 or not said:
        fail(result.stderr)
    return float(said[1]) * UNITS[said[2]], float(said[3])


def main():
    options = parse()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="restart-") as name:
        folder = Path(name)
        write_tokens(folder / "data")
        keys = {"model.preset": options.model, "train.batch": 1, "train.lanes": 1, "model.context": 64, "train.steps": 3}
        train(options.build, folder, keys | {"train.stop_after": 2}, options.set)
        files = sorted((folder / "out/checkpoints").glob("last/*.safetensors"))
        size = sum(path.stat().st_size for path in files)
        rates = {"resume": [], "plain": []}
        readers = {"resume": lambda: resume(options.build, folder, keys, options.set), "plain": lambda: read_plainly(files)}
        for turn, reader in itertools.product(range(options.rounds), readers):
            reader = reader if turn % 2 == 0 else next(each for each in readers if each != reader)
            if options.cold_memory:
                time.sleep(10)
            else:
                touch(2 * size)
            moved, seconds = readers[reader]()
            rates[reader].append(moved / 1e6 / seconds)
        ratios = [a / b for a, b in zip(rates["resume"], rates["plain"], strict=True)]
        for reader, each in rates.items():
            print(f"{reader:<8}{statistics.median(each):6.0f} MB/s ({min(each):.0f} to {max(each):.0f})")
        print(f"ratio   {statistics.median(ratios):6.2f}      ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
