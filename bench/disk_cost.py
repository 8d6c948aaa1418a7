#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What states on disks cost a training: its steps beside those of the same run in memory, interleaved on one machine.

usage: bench/disk_cost.py --disks FOLDERS [--build DIR] [--folder DIR] [--model PRESET] [--steps N] [--rounds N]
                          [--host-memory GB...] [--clip C...] [--set KEY=VALUE]... [--json]

Each round trains anew with every setting in turn, in a folder of DIR, on random tokens: in memory, and with the states on
FOLDERS (sched.disks) for each --host-memory; for each --clip. Prints medians over the rounds: of the median step, its ratio to
that in memory, what was read and written a step, the most resident memory; and whether all losses are those of the run in
memory, digit by digit. docs/performance/disks.md has such a run.
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path

from short_runs import WARM_UP, parser_of, train, write_tokens


def parse():
    parser = parser_of(__doc__, rounds=3, folder="for data and run folders")
    parser.add_argument("--disks", required=True, metavar="FOLDERS", help="as sched.disks")
    parser.add_argument("--steps", type=int, default=12, metavar="N", help="of a run (default: 12)")
    parser.add_argument("--host-memory", type=float, nargs="+", default=[0.0], metavar="GB", help="(default: 0)")
    parser.add_argument("--clip", type=float, nargs="+", default=[0.0, 1.0], metavar="C", help="(default: 0 1)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


def main():
    options = parse()
    settings = [None, *options.host_memory]
    rows = []
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="disk-cost-") as name:
        folder = Path(name)
        write_tokens(folder / "data")
        for clip in options.clip:
            found = {setting: [] for setting in settings}
            for _ in range(options.rounds):
                for setting in settings:
                    keys = {"model.preset": options.model, "train.steps": options.steps, "optim.clip": clip}
                    if setting is not None:
                        keys |= {"sched.disks": options.disks, "sched.host_memory": setting}
                    lines, resident, _ = train(options.build, folder, keys, options.set)
                    found[setting].append((lines, resident))
            losses = [line["loss"] for line in found[None][0][0]]
            for setting, runs in found.items():
                def median(value, runs=runs):
                    return statistics.median(value(lines) for lines, _ in runs)

                def counted(field):
                    return lambda lines: statistics.median(
                        line.get(field, 0) for line in lines if line["step"] > WARM_UP)

                rows.append({"clip": clip, "host_memory": "all" if setting is None else setting,
                             "ms_step": median(counted("ms_step")),
                             "ratio": statistics.median(
                                 counted("ms_step")(lines) / counted("ms_step")(base)
                                 for (lines, _), (base, _) in zip(runs, found[None], strict=True)),
                             "mb_read": median(counted("disk_read_bytes")) / 1e6,
                             "mb_written": median(counted("disk_written_bytes")) / 1e6,
                             "mb_resident": statistics.median(resident for _, resident in runs) / 1e6,
                             "same_losses": all([line["loss"] for line in lines] == losses for lines, _ in runs)})
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        for row in rows:
            print("  ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()))
    if not all(row["same_losses"] for row in rows):
        sys.exit("disk_cost: error: losses differ from those in memory")


if __name__ == "__main__":
    main()
