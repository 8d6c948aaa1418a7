# SPDX-License-Identifier: Apache-2.0
"""All results of tools/gpu_check as one file, and a run that goes on from such a file on another machine."""

import io
import os
import tarfile
from pathlib import Path

# In the archive: results, and what StarPU has measured of links and codelets.
RESULTS, MEASUREMENTS = "gpu_check", "starpu"
ARCHIVE = "gpu_check.tar.gz"
# Of a log in the archive: what is longer loses its middle.
MOST_BYTES = 1 << 20


def pack(results, measurements, folder):
    """The files of `results`, and all below `measurements`, as folder/gpu_check.tar.gz, which is replaced when it is
    whole."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / "gpu_check.part"
    files = {file: f"{RESULTS}/{file.name}" for file in sorted(results.iterdir()) if file.is_file()}
    files |= {file: f"{MEASUREMENTS}/{file.relative_to(measurements)}" for file in sorted(measurements.rglob("*"))
              if file.is_file()}
    with tarfile.open(part, "w:gz") as archive:
        for file, name in files.items():
            content = file.read_bytes()
            if file.suffix == ".log" and len(content) > MOST_BYTES:
                half = MOST_BYTES // 2
                content = content[:half] + b"\n[...]\n" + content[-half:]
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), int(file.stat().st_mtime)
            archive.addfile(member, io.BytesIO(content))
    os.replace(part, folder / ARCHIVE)


def unpack(file, results, measurements):
    """What pack() has packed, where it was. Raises ValueError, tarfile's and the system's errors."""
    places = {RESULTS: results, MEASUREMENTS: measurements}
    with tarfile.open(file, "r:gz") as archive:
        for member in archive:
            path = Path(member.name)
            if not member.isfile() or len(path.parts) < 2 or path.parts[0] not in places or ".." in path.parts:
                raise ValueError(f"it has a member {member.name!r}, which gpu_check does not write")
            target = places[path.parts[0]].joinpath(*path.parts[1:])
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.extractfile(member).read())
