# SPDX-License-Identifier: Apache-2.0
"""The version of the project, for the tools beside this file."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def version():
    """What the file VERSION of the sources, or of the installation, says."""
    return (ROOT / "VERSION").read_text(encoding="utf-8").strip()


def add_version(parser):
    """--version of an argparse parser: the tool's name and the version."""
    parser.add_argument("--version", action="version", version=f"%(prog)s {version()}")
