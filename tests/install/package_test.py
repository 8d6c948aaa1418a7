#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package for Debian: made twice it has the same bytes; what is in it, what it depends on, and that it works where it
is unpacked. Exit status 77: skipped, this is not Debian or a tool is missing."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from prefix import BUILD, CMAKE, SOURCE

TOOLS = ("dpkg-deb", "dpkg-shlibdeps", "file")
NAME = "deep-optimizer-states"


def output_of(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **options).stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = Path(tempfile.mkdtemp(prefix="dos-package-"))
        cls.addClassCleanup(shutil.rmtree, cls.scratch, ignore_errors=True)
        cls.first = cls.make("first")
        cls.root = cls.scratch / "root"
        output_of("dpkg-deb", "-x", cls.first, cls.root)

    @classmethod
    def make(cls, name):
        """With the umask of a cautious root, which is to show nowhere inside; without xz, which takes 20 s."""
        made = subprocess.run([Path(CMAKE).parent / "cpack", "--config", BUILD / "CPackConfig.cmake", "-B", cls.scratch / name,
                               "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip"],
                              env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}, capture_output=True, text=True,
                              check=False, umask=0o077)
        assert made.returncode == 0, made.stderr + made.stdout
        package, = (cls.scratch / name).glob("*.deb")
        return package

    def field(self, name):
        return output_of("dpkg-deb", "-f", self.first, name).strip()

    def test_made_again_it_is_the_same(self):
        second = self.make("second")
        self.assertEqual(second.name, self.first.name)
        self.assertTrue(second.read_bytes() == self.first.read_bytes(), "the packages differ")

    def test_it_depends_on_what_its_programs_load(self):
        self.assertEqual(self.field("Package"), NAME)
        self.assertTrue(self.field("Version").startswith((SOURCE / "VERSION").read_text().strip()))
        depended = self.field("Depends")
        for library in ("libstarpu", "libhwloc", "libfmt", "libspdlog", "libxxhash", "libsentencepiece", "libc6 "):
            self.assertRegex(depended, rf"(^|, ){library}")
        # Whatever a program loads belongs to a package that is named, or to one that those name.
        for needed in ("libopenblas0-pthread", "python3"):
            self.assertIn(needed, depended)

    def test_its_files(self):
        listed = {line.split(maxsplit=5)[5].split(" -> ")[0]: line.split()
                  for line in output_of("dpkg-deb", "-c", self.first).splitlines()}
        self.assertEqual({words[1] for words in listed.values()}, {"root/root"})
        self.assertEqual({words[3] for words in listed.values() if words[0][0] == "-"},
                         {output_of("date", "-d", "@1700000000", "+%Y-%m-%d").strip()})
        for file in (f"./opt/{NAME}/bin/train_gpt", f"./usr/bin/{NAME}", f"./usr/share/doc/{NAME}/copyright",
                     f"./opt/{NAME}/share/man/man1/plan.1", f"./opt/{NAME}/share/{NAME}/machines/h100-4x.toml",
                     f"./opt/{NAME}/share/{NAME}/slurm/train.sbatch", f"./usr/share/bash-completion/completions/{NAME}",
                     f"./usr/share/zsh/vendor-completions/_{NAME}", f"./usr/share/fish/vendor_completions.d/{NAME}.fish"):
            self.assertIn(file, listed)
        outside = {name for name in listed if not name.startswith(f"./opt/{NAME}/") and not name.endswith("/")}
        known = rf"/_?{NAME}(\.1\.gz|\.fish|/copyright|/changelog\.gz)?$"
        self.assertEqual({name for name in outside if not re.search(known, name)}, set())
        for name, words in listed.items():
            self.assertRegex(words[0], r"^(l.*|.rw[-x]r-[-x]r-[-x])$", name)

    def test_its_programs_look_for_libraries_in_the_system_alone(self):
        looked_at = 0
        for program in (self.root / "opt" / NAME / "bin").iterdir():
            if program.is_symlink():
                continue
            found = re.search(r"RUNPATH +(.+)", output_of("objdump", "-p", program))
            for folder in found[1].split(":") if found else ():
                self.assertTrue(folder.startswith("/usr/lib/"), f"{program}: {folder}")
                looked_at += 1
        self.assertGreater(looked_at, 0)

    @unittest.skipIf(shutil.which("lintian") is None, "no lintian on this machine")
    def test_debian_s_checker_finds_no_fault(self):
        checked = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", self.first], capture_output=True,
                                 text=True, check=False)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_it_works_where_it_is_unpacked(self):
        command = self.root / "opt" / NAME / "bin" / NAME
        plan = json.loads(output_of(command, "plan", "--machine", "h100", "--model", "llama-7b", "--json", cwd=self.scratch))
        self.assertEqual(plan["machine"], "h100")


if __name__ == "__main__":
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing or not Path("/etc/debian_version").exists():
        print(f"skipped: {', '.join(missing) or 'this is not Debian'}")
        sys.exit(77)
    unittest.main()
