#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""corpus_text.py FORMAT FILE...: the prose of the files on standard output, for tools/corpus.

FORMAT is `text` (hard-wrapped, perhaps compressed with gzip), `html`, or `rdb` (character vectors
in the lazy-load file of an R package). The output is UTF-8, one paragraph a line, paragraphs parted
by an empty line; tables, listings, indices and repeated paragraphs are left out.
"""

import gzip
import re
import struct
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path

BLOCKS = set(
    "address article aside blockquote body br center dd div dl dt footer h1 h2 h3 h4 h5 h6 header hr "
    "li main nav ol p section td th title tr ul".split()
)
LEFT_OUT = {"head", "nav", "pre", "script", "style", "table"}

# What prose is made of; listings and tables are dense in other characters.
NOT_PROSE = re.compile(r"[^\w\s.,;:!?'\"()\-–—‘’“”]|[_\d]")
MAX_NOT_PROSE = 0.08
SENTENCE_END = re.compile(r"[.!?:;,—\-]['\"’”)\]]*$")
REPEATABLE = 40  # characters: shorter paragraphs, as in dialogue, may come again


class ProseParser(HTMLParser):
    """Collects the text of the blocks outside LEFT_OUT into `paragraphs`."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.paragraphs = [""]
        self.hidden = []

    def handle_starttag(self, tag, attributes):
        if tag in LEFT_OUT:
            self.hidden.append(tag)
        if tag in BLOCKS | LEFT_OUT:
            self.paragraphs.append("")

    def handle_endtag(self, tag):
        if tag in self.hidden:
            while self.hidden.pop() != tag:
                pass
        if tag in BLOCKS | LEFT_OUT:
            self.paragraphs.append("")

    def handle_data(self, data):
        if not self.hidden:
            self.paragraphs[-1] += data


def paragraphs_of_html(data):
    parser = ProseParser()
    parser.feed(re.sub(r"<\?.*?\?>", "", data.decode("utf-8", "replace"), flags=re.DOTALL))
    parser.close()
    return parser.paragraphs


def paragraphs_of_text(data):
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    text = data.decode("utf-8", "replace")
    text = re.sub(r"^[ \t]*[-=*~_]{3,}[ \t]*$", "", text, flags=re.MULTILINE)  # rules, underlines
    text = re.sub(r"\{([^{}]{1,80})\}", r"\1", text)  # cross references of the Jargon File
    return re.split(r"\n\s*\n", text)


def strings_of_r(data):
    """The elements of one serialized character vector (XDR, version 3)."""
    if data[:6] != b"X\n\0\0\0\3":
        raise ValueError("not an XDR serialization of version 3")
    at = 14  # format and three versions
    at += 4 + struct.unpack_from(">i", data, at)[0]  # name of the native encoding
    kind, count = struct.unpack_from(">ii", data, at)
    if kind & 0xFF != 16:
        raise ValueError(f"object of type {kind & 0xFF}, not a character vector (16)")
    at += 8
    strings = []
    for _ in range(count):
        length = max(0, struct.unpack_from(">i", data, at + 4)[0])  # -1 is a missing value
        strings.append(data[at + 8 : at + 8 + length].decode("utf-8"))
        at += 8 + length
    return strings


def paragraphs_of_rdb(data):
    paragraphs = []
    while data:
        size = struct.unpack_from(">I", data)[0]
        inflate = zlib.decompressobj()
        vector = inflate.decompress(data[4:])
        if len(vector) != size or not inflate.eof:
            raise ValueError("damaged lazy-load file")
        paragraphs += "\n".join(strings_of_r(vector)).replace("_", "").split("\n\n")
        data = inflate.unused_data
    return paragraphs


FORMATS = {"text": paragraphs_of_text, "html": paragraphs_of_html, "rdb": paragraphs_of_rdb}


def is_prose(paragraph):
    return len(NOT_PROSE.findall(paragraph)) <= MAX_NOT_PROSE * len(paragraph)


def clean(paragraphs):
    """Prose in the same order. Of neighbours that end no sentence, as in a table of contents, the
    last alone stays: it may be a heading."""
    joined = (" ".join(paragraph.split()) for paragraph in paragraphs)
    kept = [paragraph for paragraph in joined if paragraph and is_prose(paragraph)]
    seen = set()
    for paragraph, following in zip(kept, kept[1:] + [""]):
        if not SENTENCE_END.search(paragraph) and not SENTENCE_END.search(following):
            continue
        if len(paragraph) >= REPEATABLE and paragraph in seen:
            continue
        seen.add(paragraph)
        yield paragraph


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in FORMATS:
        sys.exit(f"usage: corpus_text.py {'|'.join(FORMATS)} FILE...")
    paragraphs = []
    for name in sys.argv[2:]:
        try:
            paragraphs += FORMATS[sys.argv[1]](Path(name).read_bytes())
        except (OSError, ValueError, struct.error, zlib.error) as error:
            sys.exit(f"corpus_text.py: {name}: {error}")
    sys.stdout.reconfigure(encoding="utf-8")
    for paragraph in clean(paragraphs):
        print(paragraph, end="\n\n")


if __name__ == "__main__":
    main()
