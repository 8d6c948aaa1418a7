# SPDX-License-Identifier: Apache-2.0
"""Recipes for containers, read as what they do: stages of files that come in and commands that run."""

import re
from dataclasses import dataclass, field


@dataclass
class Stage:
    name: str
    base: str
    files: list = field(default_factory=list)  # (source, target, stage that it comes from or None)
    commands: list = field(default_factory=list)
    path: str = ""  # what goes before PATH
    starts: list = field(default_factory=list)  # what the image runs


def commands_of(text):
    """Each command by itself, lines joined."""
    joined = re.sub(r"\\\n", " ", text)
    return [" ".join(part.split()) for line in joined.splitlines() for part in line.split("&&") if part.strip()]


def target_of(source, target):
    return target + source.rsplit("/", 1)[-1] if target.endswith("/") and "*" not in source else target


def read_containerfile(text):
    stages, where = [], None
    lines = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", text)).splitlines()
    for line in filter(str.strip, lines):
        word, rest = line.split(maxsplit=1)
        words = rest.split()
        if word == "FROM":
            stages.append(Stage(words[2] if len(words) > 2 else "final", words[0]))
        elif word == "COPY":
            origin = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else None
            stages[-1].files += [(source, target_of(source, words[-1]), origin) for source in words[:-1]]
        elif word == "WORKDIR":
            where = rest.strip()
            stages[-1].commands.append(f"cd {where}")
        elif word == "RUN":
            stages[-1].commands += commands_of(rest)
        elif word == "ENV":
            stages[-1].path = re.fullmatch(r"PATH=(.*):\$PATH", rest.strip())[1]
        else:
            raise ValueError(f"unknown instruction {word}")
    return stages


def read_definition(text):
    """Of Apptainer."""
    stages, section = [], None
    for line in re.sub(r"(?m)^#.*\n", "", text).splitlines():
        words = line.split()
        if not words:
            continue
        if words[0] == "Bootstrap:":
            stages.append(Stage("", ""))
            section = None
        elif words[0] == "From:":
            stages[-1].base = words[1]
        elif words[0] == "Stage:":
            stages[-1].name = words[1]
        elif words[0].startswith("%"):
            section, origin = words[0], words[2] if words[1:2] == ["from"] else None
        elif section == "%files":
            stages[-1].files.append((words[0], words[1], origin))
        elif section == "%post":
            stages[-1].commands += commands_of(line)
        elif section == "%environment":
            stages[-1].path = re.fullmatch(r"export PATH=(.*):\$PATH", line.strip())[1]
        elif section == "%runscript":
            stages[-1].starts.append(line.strip())
        else:
            raise ValueError(f"unknown line {line}")
    return stages
