#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does what the recipe for Spack says of its use, up to the versions that Spack chooses; nothing is fetched or built. Spack
is DOS_SPACK or on the PATH, and knows its builtin packages. Exit status 77: skipped, there is none."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SPACK = shutil.which(os.environ.get("DOS_SPACK", "spack"))
SOURCE = Path(os.environ["DOS_SOURCE_DIR"])
RECIPE = SOURCE / "tools/packaging/package.py"
HOME = Path.home() / ".spack"


class Spack(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = Path(tempfile.mkdtemp(prefix="dos-spack-"))
        cls.addClassCleanup(shutil.rmtree, cls.home, ignore_errors=True)
        configured = Path(os.environ.get("SPACK_USER_CONFIG_PATH", HOME))
        (cls.home / "config").mkdir()
        for file in configured.glob("*.yaml"):
            shutil.copy(file, cls.home / "config")
        text = RECIPE.read_text(encoding="utf-8")
        recipe, found = re.subn("# A version for each release: .*", f'version("1.0", sha256="{"0" * 64}")', text)
        assert found == 1
        (cls.home / "package.py").write_text(recipe, encoding="utf-8")
        # Its last line installs.
        *steps, cls.install = re.search(r'; then\n\n(.*?)"""', text, re.DOTALL)[1].splitlines()
        cls.shell("\n".join(steps))

    @classmethod
    def shell(cls, script):
        environment = os.environ | {
            "HOME": str(cls.home), "PATH": f"{Path(SPACK).parent}:{os.environ['PATH']}",
            "SPACK_USER_CONFIG_PATH": str(cls.home / "config"),
            "SPACK_USER_CACHE_PATH": os.environ.get("SPACK_USER_CACHE_PATH", str(HOME))}
        result = subprocess.run(["bash", "-e", "-c", script], cwd=cls.home, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def chosen(self, command):
        """{name: node} of what Spack would install."""
        self.assertIn("spack install ", command)
        text = self.shell(command.replace("spack install", "spack spec --json"))
        return {node["name"]: node for node in json.loads(text[text.index("{"):])["spec"]["nodes"]}

    def test_as_the_recipe_says(self):
        nodes = self.chosen(self.install)
        self.assertEqual(nodes["deep-optimizer-states"]["parameters"]["cuda_arch"], ["90"])
        self.assertTrue(nodes["starpu"]["parameters"]["cuda"])
        self.assertRegex(nodes["starpu"]["version"], r"^1[.]4[.]")
        self.assertRegex(nodes["cuda"]["version"], r"^12[.]")
        self.assertFalse({"openmpi"} & set(nodes))

    def test_without_anything(self):
        nodes = self.chosen("spack install deep-optimizer-states ~mpi ~onednn")
        self.assertFalse({"cuda", "mpich", "onednn"} & set(nodes))
        self.assertFalse(nodes["starpu"]["parameters"]["mpi"])

    def test_with_all(self):
        nodes = self.chosen("spack install deep-optimizer-states")
        self.assertLessEqual({"mpich", "onednn"}, set(nodes))
        self.assertEqual(nodes["openblas"]["parameters"]["threads"], "pthreads")

    def test_the_environment_of_the_page(self):
        page = (SOURCE / "docs/install.md").read_text(encoding="utf-8")
        folder = self.home / "environment"
        folder.mkdir()
        (folder / "spack.yaml").write_text(re.search(r"```yaml\n(# spack[.]yaml.*?)```", page, re.DOTALL)[1], encoding="utf-8")
        self.shell("spack -e environment concretize")
        specs = json.loads((folder / "spack.lock").read_text(encoding="utf-8"))["concrete_specs"].values()
        nodes = {node["name"]: node for node in specs}
        self.assertRegex(nodes["cuda"]["version"], r"^12[.]")
        self.assertTrue(nodes["starpu"]["parameters"]["cuda"])


if __name__ == "__main__":
    if SPACK is None:
        print("skipped: no spack on the PATH or in DOS_SPACK")
        sys.exit(77)
    unittest.main()
