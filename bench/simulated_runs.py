# SPDX-License-Identifier: Apache-2.0
"""What the scripts that print tables of simulated steps share."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path


def simulate(program, *arguments):
    """What simulated_step says of these arguments; its trace is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*map(str, (program, *arguments)), "--trace", str(Path(folder) / "trace")]
        result = subprocess.run(command, text=True, capture_output=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{Path(sys.argv[0]).name}: {' '.join(command)}: {result.stderr.strip()}")
    return json.loads(result.stdout)


def mean(run):
    """Seconds of a step."""
    return sum(run["step_seconds"]) / len(run["step_seconds"])
