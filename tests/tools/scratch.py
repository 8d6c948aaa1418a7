# SPDX-License-Identifier: Apache-2.0
import tempfile
import unittest
from pathlib import Path


class InScratchFolder(unittest.TestCase):
    """Each test has its own empty `folder`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
