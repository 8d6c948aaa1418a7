# SPDX-License-Identifier: Apache-2.0
"""The files that programs and tests are made of, and a checksum of them where there is no git."""

import hashlib

SOURCE_FOLDERS = ("apps", "bench", "cmake", "codelets", "perfmodels", "src", "tests", "tools")


def source_files(root):
    """Those of SOURCE_FOLDERS, CMake's beside them and the version, sorted."""
    beside = (*root.glob("CMake*"), root / "VERSION")
    files = [*beside, *(file for folder in SOURCE_FOLDERS for file in (root / folder).rglob("*"))]
    return [file for file in sorted(files) if file.is_file() and "__pycache__" not in file.parts]


def checksum(root):
    """Of names and contents."""
    digest = hashlib.sha256()
    for file in source_files(root):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(root)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]
