# SPDX-License-Identifier: Apache-2.0
"""Runs update_phase as a user does. DOS_UPDATE_PHASE names the program."""

import json
import os
import subprocess
import tempfile

NO_SIMGRID = "this build's StarPU has no SimGrid"


def phase(*arguments):
    """Runs it to its end, in an empty folder, and returns what subprocess.run returns."""
    with tempfile.TemporaryDirectory(prefix="dos-phase-") as folder:
        return subprocess.run([os.environ["DOS_UPDATE_PHASE"], *map(str, arguments)], cwd=folder,
                              text=True, capture_output=True, timeout=120)


def simulated(*arguments):
    """Its JSON answer."""
    result = phase(*arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def has_simgrid():
    return NO_SIMGRID not in phase("--machine", "h100", "--params", "16M", "--subgroup", "4M",
                                   "--gpu-memory", 1, "--steps", 1).stderr
