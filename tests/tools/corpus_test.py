#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tools/corpus and tools/corpus_text.py as far as they go without a network."""

import gzip
import os
import struct
import subprocess
import unittest
import zlib
from pathlib import Path

from scratch import InScratchFolder

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def run(tool, *arguments, **environment):
    return subprocess.run(
        [TOOLS / tool, *map(str, arguments)], capture_output=True, text=True, timeout=60,
        env=os.environ | environment,
    )


def r_character_vector(strings):
    data = b"X\n" + struct.pack(">iiii", 3, 0x040201, 0x030500, 5) + b"UTF-8"
    data += struct.pack(">ii", 16, len(strings))
    for string in strings:
        raw = string.encode()
        data += struct.pack(">ii", 0x00040009, len(raw)) + raw
    return data


class CorpusText(InScratchFolder):
    def prose(self, format_name, *contents):
        files = [self.folder / str(i) for i in range(len(contents))]
        for file, content in zip(files, contents):
            file.write_bytes(content)
        result = run("corpus_text.py", format_name, *files)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_empty(self):
        self.assertEqual(self.prose("text", b""), "")
        self.assertEqual(self.prose("html", b""), "")
        self.assertEqual(self.prose("rdb", b""), "")

    def test_text_joins_wrapped_lines(self):
        text = b"   One {cross\n   reference} here.\n\n\n   Two.\n   ----\n"
        expected = "One cross reference here.\n\nTwo.\n\n"
        self.assertEqual(self.prose("text", text), expected)
        self.assertEqual(self.prose("text", gzip.compress(text)), expected)

    def test_html_leaves_out_code_tables_and_scripts(self):
        page = (b"<html><head><title>T.</title></head><body><? php('x'); ?><h1>A heading</h1>"
                b"<p>Ham &amp; <i>eggs</i>\nfor <b>two</b>.<pre>int x;</pre>"
                b"<table><tr><td>Cell.</table><script>var y;</script><li>An unclosed item.")
        self.assertEqual(
            self.prose("html", page), "A heading\n\nHam & eggs for two.\n\nAn unclosed item.\n\n"
        )

    def test_files_keep_their_order(self):
        self.assertEqual(self.prose("text", b"Second.", b"First."), "Second.\n\nFirst.\n\n")

    def test_contents_and_listings_are_left_out(self):
        text = "Preface\n\nPart one\n\nPart two\n\nIt begins.\n\nx[0] = {1, 2}; y |= 0xff << 3;\n"
        self.assertEqual(self.prose("text", text.encode()), "Part two\n\nIt begins.\n\n")

    def test_long_paragraphs_come_once(self):
        footer = "This very footer is found on each of the pages.\n\n"
        text = footer + "Yes.\n\n" + footer + "Yes.\n\n"
        self.assertEqual(self.prose("text", text.encode()), footer + "Yes.\n\nYes.\n\n")

    def test_rdb_reads_every_vector(self):
        vectors = [
            r_character_vector(["It is a _truth_", "of café.", "", "So."]),
            r_character_vector(["End."]),
        ]
        data = b"".join(struct.pack(">I", len(v)) + zlib.compress(v) for v in vectors)
        self.assertEqual(self.prose("rdb", data), "It is a truth of café.\n\nSo.\n\nEnd.\n\n")

    def test_damaged_rdb_is_an_error(self):
        vector = r_character_vector(["Text."])
        whole = struct.pack(">I", len(vector)) + zlib.compress(vector)
        for damaged in (whole[:-6], whole[:3], b"\0\0\0\1" + whole[4:], b"no file of R"):
            path = self.folder / "damaged"
            path.write_bytes(damaged)
            result = run("corpus_text.py", "rdb", path)
            self.assertEqual(result.returncode, 1)
            self.assertIn(str(path), result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)


class Corpus(InScratchFolder):
    def test_licences_name_every_source(self):
        result = run("corpus", "--licences")
        self.assertEqual(result.returncode, 0)
        self.assertIn("jargon-text           public domain", result.stdout)

    def test_usage_errors(self):
        for arguments in ((), ("a", "b"), ("--unknown",), ("",)):
            result = run("corpus", *arguments)
            self.assertEqual(result.returncode, 1)
            self.assertIn("usage:", result.stderr)

    def test_complete_output_is_left_alone(self):
        (self.folder / "SOURCES").write_text("")
        result = run("corpus", self.folder, PATH="/bin")
        self.assertEqual(result.returncode, 0)
        self.assertIn("complete", result.stdout)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["SOURCES"])

    def test_foreign_folder_is_refused(self):
        (self.folder / "thesis.tex").write_text("")
        result = run("corpus", self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn("not a corpus", result.stderr)

    def test_without_apt_nothing_is_left(self):
        tools = self.folder / "tools"
        tools.mkdir()
        for name in ("bash", "cat", "dirname", "env", "mktemp", "mkdir", "rm", "sed", "ls", "python3"):
            (tools / name).symlink_to(Path("/usr/bin") / name)
        for name in ("apt-get", "apt-cache", "dpkg-deb"):
            (tools / name).write_text("#!/usr/bin/env bash\nexit 100\n")
            (tools / name).chmod(0o755)
        result = run("corpus", self.folder / "out", PATH=str(tools))
        self.assertEqual(result.returncode, 1)
        self.assertIn("apt-get update", result.stderr)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["tools"])


if __name__ == "__main__":
    unittest.main()
