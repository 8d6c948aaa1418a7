#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a CUDA source into C++ that cuda_on_host.hpp lets run on the host: every launch
kernel<<<grid, threads, shared, stream>>>(arguments) becomes a call. Usage: cuda_to_host.py IN OUT"""
import pathlib
import re
import sys


def closing(text, start):
    """Index of the bracket that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i
    sys.exit(f"no bracket closes the one at {start}")


def kernel_start(text, end):
    """Where the kernel's name, perhaps with template arguments, starts that ends at `end`."""
    start = end
    while text[start - 1].isspace():
        start -= 1
    if text[start - 1] == ">":
        depth = 0
        while True:
            start -= 1
            depth += {">": 1, "<": -1}.get(text[start], 0)
            if depth == 0:
                break
    while re.match(r"[\w:]", text[start - 1]):
        start -= 1
    return start


def translate(text):
    result = ""
    position = 0
    while (launch := text.find("<<<", position)) >= 0:
        name = kernel_start(text, launch)
        configuration_end = text.index(">>>", launch)
        opening = text.index("(", configuration_end)
        end = closing(text, opening)
        result += text[position:name]
        result += (f"cuda_on_host::launch({text[launch + 3:configuration_end]}, "
                   f"[&]() {{ {text[name:launch].strip()}{text[opening:end + 1]}; }})")
        position = end + 1
    return '#include "codelets/cuda_on_host.hpp"\n' + result + text[position:]


if __name__ == "__main__":
    source, target = map(pathlib.Path, sys.argv[1:])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(translate(source.read_text()))
