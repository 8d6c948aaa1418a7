# SPDX-License-Identifier: Apache-2.0
"""Python packages that were carried as wheels, laid out where an interpreter finds them: without pip, which not every
machine has."""

import re
import zipfile

# NAME-VERSION-PYTHON-ABI-PLATFORM.whl
NAME = re.compile(r"^[^-]+-[^-]+(?:-\d[^-]*)?-([^-]+)-([^-]+)-([^-]+)\.whl$")


def fits(name, python):
    """Whether the wheel of this file name is for CPython (major, minor) on Linux on x86_64."""
    tags = NAME.match(name)
    if not tags:
        return False
    pythons, abi, platforms = tags[1].split("."), tags[2], tags[3].split(".")
    if not any(platform == "any" or re.fullmatch(r"(many)?linux.*_x86_64", platform) for platform in platforms):
        return False
    own = f"cp{python[0]}{python[1]}"
    if abi == "none":
        return any(each in ("py3", f"py{python[0]}{python[1]}", own) for each in pythons)
    if abi == "abi3":
        return any(re.fullmatch(rf"cp{python[0]}\d+", each) and int(each[3:]) <= python[1] for each in pythons)
    return own in pythons


def lacks(folder, elsewhere):
    """Names of packages that the wheels of a folder need, that are neither among them nor among those elsewhere."""
    needed, there = set(), {plain(name) for name in elsewhere}
    for file in folder.glob("*.whl"):
        there.add(plain(file.name.split("-")[0]))
        with zipfile.ZipFile(file) as archive:
            metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            text = archive.read(metadata).decode(errors="replace")
        # Behind a semicolon stands of which system or extra the need is.
        needed |= {plain(name) for name in re.findall(r"(?m)^Requires-Dist: *([\w.-]+)[^;\n]*$", text)}
    return sorted(needed - there)


def plain(name):
    """As packages are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def unpack(folder, site, python):
    """Lays the wheels of a folder that fit into `site`, once each; returns their names."""
    names = sorted(file.name for file in folder.glob("*.whl") if fits(file.name, python))
    site.mkdir(parents=True, exist_ok=True)
    for name in names:
        done = site / f"{name}.unpacked"
        if done.exists():
            continue
        with zipfile.ZipFile(folder / name) as archive:
            archive.extractall(site)
        done.touch()
    return names
