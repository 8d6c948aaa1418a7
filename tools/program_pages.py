#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes manual pages and completions for bash, zsh and fish of what programs and tools say of themselves.

A program answers --describe with a JSON object (docs/schemas/program.schema.json); a tool has its --help. The build
runs this, so that no page is written by hand."""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from shell_completions import COMMAND, SHELLS, direct_names
from version import version

STATUS = """0: it has done what it was asked for. 1: it has not; one line on standard error, which begins with the
program's name, says what is wrong, where, and what to do. A signal that ends it shows as 128 and its number in a
shell."""


class CannotStart(Exception):
    """The program is there, but not for this machine: compiled only, or a library of a driver is missing."""


def output_of(*command):
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except OSError as error:
        raise CannotStart(f"{command[0]}: {error.strerror}") from None
    if result.returncode == 127:
        raise CannotStart(result.stderr.strip())
    if result.returncode != 0:
        sys.exit(f"program_pages: error: {' '.join(command)} ended with {result.returncode}: {result.stderr.strip()}")
    return result.stdout


def describe_tool(path):
    """The same object for a tool, from its --help: the text stays as it is."""
    text = output_of(str(path), "--help")
    # The line behind interpreter and licence.
    first = path.read_text(encoding="utf-8").splitlines()[2].strip('#" ').removesuffix(" (see --help).")
    options = sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)))
    example = re.search(r"^Examples?: (.+)$", text, re.MULTILINE)
    if example is None:
        sys.exit(f"program_pages: error: {path} --help has no line 'Example: COMMAND'")
    return {"program": path.name, "version": version(), "text": text.rstrip("\n"), "keys": [], "arguments": [],
            "description": first,
            "examples": [{"command": example[1], "what": ""}],
            "options": [{"names": [name], "value": "", "words": [], "help": ""} for name in options]}


def roff(text):
    """Text for a line of a page."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in text.split("\n"))


def synopsis(page):
    words = [f"\\fB{roff(page['program'])}\\fR", "[\\fIOPTION\\fR...]"]
    for argument in page["arguments"]:
        name = f"\\fI{roff(argument['names'][0])}\\fR"
        words.append(name if argument["required"] else f"[{name}]")
    return " ".join(words)


def item(option):
    names = ", ".join(f"\\fB{roff(name)}\\fR" for name in option["names"])
    value = "|".join(option["words"]) or option["value"]
    if value:
        value = f" \\fI{roff(value)}\\fR"
        value = f" [{value.strip()}]" if option["may_stand_alone"] else value
    default = f" Default: {roff(option['default'])}." if option["default"] else ""
    return f".TP\n{names}{value}\n{roff(option['help'])}.{default}\n"


def literal(text):
    return f".nf\n{roff(text)}\n.fi\n"


def manual(page, others):
    title = page["program"].upper()
    parts = [f'.TH "{roff(title)}" 1 "" "{COMMAND} {page["version"]}" "User Commands"\n',
             f".SH NAME\n{roff(page['program'])} \\- {roff(page['description'].rstrip('.'))}\n"]
    if "text" in page:
        parts.append(f".SH DESCRIPTION\n{literal(page['text'])}")
    else:
        parts.append(f".SH SYNOPSIS\n{synopsis(page)}\n.SH DESCRIPTION\n{roff(page['description'])}\n")
        if page["arguments"]:
            parts.append(".SH ARGUMENTS\n" + "".join(item(each) for each in page["arguments"]))
        parts.append(".SH OPTIONS\n" + "".join(item(each) for each in page["options"]))
        if page["keys"]:
            keys = "".join(f".TP\n\\fB{roff(key['name'])}\\fR" + (f" = {roff(key['default'])}" if key["default"] else "") +
                           f"\n{roff(key['help'])}\n" for key in page["keys"])
            parts.append(f".SH KEYS OF \\-\\-set\n{keys}")
        if page["notes"].strip():
            parts.append(f".SH NOTES\n{literal(page['notes'].strip())}")
        examples = "".join(f".TP\n\\fB{roff(each['command'])}\\fR\n{roff(each['what'])}\n" for each in page["examples"])
        parts.append(f".SH EXAMPLES\n{examples}")
    parts.append(f".SH EXIT STATUS\n{roff(STATUS)}\n")
    parts.append(".SH SEE ALSO\n" + ",\n".join(f".BR {roff(name)} (1)" for name in others if name != page["program"])
                 .replace(",\n", "\n") + "\n")
    return "".join(parts)


def write(pages, output):
    manuals = output / "man" / "man1"
    manuals.mkdir(parents=True, exist_ok=True)
    names = [page["program"] for page in pages]
    for page in pages:
        (manuals / f"{page['program']}.1").write_text(manual(page, names), encoding="utf-8")
    for shell in SHELLS:
        folder = output / shell.folder
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in shell.texts.items():
            (folder / name).write_text(text(pages), encoding="utf-8")
        for name in direct_names(pages) if shell.link else ():
            link = folder / shell.link.format(name)
            if not link.is_symlink():
                link.symlink_to(next(iter(shell.texts)))


def main():
    parser = argparse.ArgumentParser(prog="program_pages", description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="gets man/ and a folder for each shell")
    parser.add_argument("--tool", type=Path, action="append", default=[], help="a script with --help; repeatable")
    parser.add_argument("programs", type=Path, nargs="+", metavar="PROGRAM", help="with --describe")
    arguments = parser.parse_args()
    try:
        pages = [json.loads(output_of(str(path), "--describe")) for path in arguments.programs]
        pages += [describe_tool(path) for path in arguments.tool]
    except CannotStart as reason:
        print(f"program_pages: warning: no manual pages, as programs do not start here: {reason}", file=sys.stderr)
        return
    write(pages, arguments.output)


if __name__ == "__main__":
    main()
