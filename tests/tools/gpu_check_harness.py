# SPDX-License-Identifier: Apache-2.0
"""What the tests of tools/gpu_check share. Puts its modules on the path."""

import importlib.machinery
import importlib.util
import sys
import time
from pathlib import Path
from unittest import mock

GPU_CHECK = Path(__file__).resolve().parents[2] / "tools" / "gpu_check"
sys.path.insert(0, str(GPU_CHECK.parent))


def load():
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(GPU_CHECK))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


def check_of(folder, seconds=100, **more):
    """What stages see of a check that does not rehearse."""
    return mock.Mock(output=folder, rehearses=False, state={"stages": {}},
                     **{"seconds_left.side_effect": lambda end=time.monotonic() + seconds: end - time.monotonic()},
                     **more)
