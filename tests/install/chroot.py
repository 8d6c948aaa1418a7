# SPDX-License-Identifier: Apache-2.0
"""Empty Debian 12 systems in folders. Needs root, debootstrap and a mirror (DOS_DEBIAN_MIRROR)."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

MIRROR = os.environ.get("DOS_DEBIAN_MIRROR", "http://deb.debian.org/debian")
NAME = "deep-optimizer-states"
MOUNTED = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot --userspec="$1" "$0" "${@:2}"'
TRAIN = """
set -eu
cd /work
for i in $(seq 60); do echo "to be or not to be, that is the question"; done > corpus.txt
deep-optimizer-states prepare_data --tokenizer bytes --output data corpus.txt
deep-optimizer-states train_gpt --set data.path=data --set model.preset=tiny --set model.layers=1 --set model.width=16 \\
  --set model.heads=2 --set model.context=16 --set train.batch=4 --set train.steps=3 --set train.validate_batches=1 \\
  --set optim.warmup=1 --out run --trace trace --quiet
deep-optimizer-states generate run --prompt to --tokens 5
deep-optimizer-states report trace
deep-optimizer-states report --live run
deep-optimizer-states watch_run run
deep-optimizer-states export run exported
deep-optimizer-states plan --machine h100 --model llama-7b
"""


def reason_to_skip():
    """"" where there can be such systems."""
    return "" if os.geteuid() == 0 and shutil.which("debootstrap") else "needs root and debootstrap"


class Chroot:
    """A system in a folder of its own, which goes with remove()."""

    def __init__(self, like=None):
        self.root = Path(tempfile.mkdtemp(prefix="dos-chroot-"))
        self.root.chmod(0o755)
        if like is None:
            self.made_by("debootstrap", "--variant=minbase", "bookworm", self.root, MIRROR)
        else:
            self.made_by("cp", "--archive", "--reflink=auto", f"{like.root}/.", self.root)
        (self.root / "work").mkdir(exist_ok=True)
        (self.root / "work").chmod(0o777)

    @staticmethod
    def made_by(*command):
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]

    def remove(self):
        shutil.rmtree(self.root, ignore_errors=True)

    def run(self, *command, user="root", path="/usr/sbin:/usr/bin:/sbin:/bin", timeout=900):
        """Standard output of a command inside, which must end well."""
        result = subprocess.run(["unshare", "--mount", "bash", "-c", MOUNTED, self.root, f"{user}:", *command],
                                capture_output=True, text=True, check=False, timeout=timeout,
                                env={"PATH": path, "HOME": "/work", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive",
                                     "STARPU_SILENT": "1"})
        assert result.returncode == 0, f"{command}: {result.stdout[-3000:]}{result.stderr[-3000:]}"
        return result.stdout
