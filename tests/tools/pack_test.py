#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/pack: how large a folder may be, with Debian's packages where they are installed, and with a StarPU that
consists of headers."""

import contextlib
import importlib.machinery
import importlib.util
import io
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

from scratch import InScratchFolder

PACK = Path(__file__).resolve().parents[2] / "tools" / "pack"
# As when it runs by itself.
sys.path.append(str(PACK.parent))


def load():
    loader = importlib.machinery.SourceFileLoader("pack", str(PACK))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("pack", loader))
    loader.exec_module(module)
    return module


class Limit(InScratchFolder):
    def setUp(self):
        super().setUp()
        self.output = self.folder / "deps"
        self.module = load()

    def test_debians_packages_are_within_it(self):
        result = subprocess.run([PACK, "--output", self.output], capture_output=True, text=True, check=False)
        if "is not on this machine" in result.stderr or "is not installed" in result.stderr:
            self.skipTest(result.stderr.strip())
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, r"^pack: .*: [0-9.]+ MB of at most 60 MB\n$")

    def starpu(self, **megabytes):
        """A prefix with headers of these sizes."""
        prefix = self.folder / "starpu"
        for part in ("include", "lib/pkgconfig"):
            (prefix / part).mkdir(parents=True, exist_ok=True)
        (prefix / "lib/pkgconfig/starpu-1.4.pc").write_text(f"prefix={prefix}\n", encoding="utf-8")
        for name, size in megabytes.items():
            with (prefix / "include" / f"{name}.h").open("wb") as header:
                header.truncate(int(size * 1e6))
        return prefix

    def pack(self, prefix, *arguments):
        """(what ended it, standard output)"""
        words = ["pack", "--starpu", str(prefix), "--output", str(self.output), *arguments]
        output = io.StringIO()
        ended = None
        with mock.patch.object(self.module, "PACKAGES", []), mock.patch.object(sys, "argv", words), \
                contextlib.redirect_stdout(output):
            try:
                self.module.main()
            except SystemExit as end:
                ended = end.code
        return ended, output.getvalue()

    def test_the_default_is_what_the_project_promises(self):
        self.assertEqual(self.module.LIMIT_MB, 60)
        ended, _ = self.pack(self.starpu(all=60.1))
        self.assertIn("60.1 MB are more than --limit allows, 60 MB", ended)

    def test_within_the_limit_the_size_is_printed(self):
        ended, output = self.pack(self.starpu(large=3, small=1), "--limit", "4.1")
        self.assertIsNone(ended)
        self.assertEqual(output, f"pack: {self.output}: 4.0 MB of at most 4.1 MB\n")
        self.assertTrue((self.output / "include/large.h").exists())

    def test_above_it_one_line_names_size_limit_and_the_largest(self):
        prefix = self.starpu(a=0.5, b=3, c=1, d=0.25, e=2, f=0.75, g=0.1)
        ended, output = self.pack(prefix, "--limit", "7.5")
        self.assertEqual(output, "")
        self.assertEqual(ended, "pack: error: 7.6 MB are more than --limit allows, 7.5 MB; the largest entries: "
                                "include/b.h 3.0 MB, include/e.h 2.0 MB, include/c.h 1.0 MB, include/f.h 0.8 MB, "
                                "include/a.h 0.5 MB")

    def test_above_it_the_folder_from_before_stays(self):
        self.pack(self.starpu(large=1), "--limit", "2")
        ended, _ = self.pack(self.starpu(larger=2), "--limit", "2")
        self.assertIn("larger.h", ended)
        self.assertTrue((self.output / "include/large.h").exists())
        self.assertFalse((self.output / "include/larger.h").exists())
        self.assertFalse(self.output.with_name("deps.part").exists())

    def test_links_take_nothing(self):
        (self.folder / "library.so.1").write_bytes(b"12345")
        (self.folder / "library.so").symlink_to("library.so.1")
        self.assertEqual(self.module.sizes(self.folder), {Path("library.so.1"): 5})


if __name__ == "__main__":
    unittest.main()
