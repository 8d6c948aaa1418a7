# SPDX-License-Identifier: Apache-2.0
"""A Slurm of one node, this machine, as an ordinary process tree in a folder of its own.

Daemons of Debian's packages slurmctld, slurmd and munge run in the foreground with ports, keys and state of their own
and end with stop(), with everything that they started: a Slurm that the machine has is not touched. They need root:
slurmd starts a job's processes for its user.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol", "squeue")

CONFIGURATION = """\
ClusterName=dos
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# So long a job that is queued again waits; Slurm takes no less.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1
MpiDefault=pmi2
ReturnToService=2
KillWait=60
SlurmdTimeout=60
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=60 State=UP
"""


def missing():
    """Why no Slurm can be started here; "" when it can."""
    if os.geteuid() != 0:
        return "starting a Slurm needs root"
    absent = [name for name in PROGRAMS if find(name) is None]
    if absent:
        return f"no {', '.join(absent)}: tools/install_packages check"
    if len(os.sched_getaffinity(0)) < 2:
        return "two ranks need two cores"
    return ""


def end_with_parent():
    """In a new process: a test that is killed cannot stop its daemons."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def find(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Cluster:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.daemons = []
        self.environment = os.environ | {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self):
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        host = socket.gethostname().partition(".")[0]
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            folder=self.folder, host=host, ports=free_ports(2), cores=len(os.sched_getaffinity(0))))
        self.daemon("munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket",
                    f"--key-file={key}", f"--pid-file={self.folder}/munged.pid",
                    f"--seed-file={self.folder}/munged.seed", f"--log-file={self.folder}/munged.txt")
        self.wait(lambda: (self.folder / "munge.socket").exists(), "munged")
        self.daemon("slurmctld", "-D")
        self.daemon("slurmd", "-D", "-N", host)
        self.wait(lambda: "idle" in self.run("sinfo", "--noheader", "--format=%T").stdout, "Slurm")

    def daemon(self, name, *arguments):
        with (self.folder / f"{name}.log").open("w") as log:
            self.daemons.append(subprocess.Popen(
                [find(name), *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self.environment, start_new_session=True, preexec_fn=end_with_parent))

    def run(self, name, *arguments, timeout=60, **options):
        return subprocess.run([find(name), *map(str, arguments)], text=True, capture_output=True,
                              timeout=timeout, env=self.environment, check=False, **options)

    def wait(self, condition, what, seconds=30):
        end = time.monotonic() + seconds
        while not condition():
            for daemon in self.daemons:
                if daemon.poll() is not None:
                    raise AssertionError(f"{daemon.args[0]} ended\n{self.logs()}")
            if time.monotonic() > end:
                raise AssertionError(f"{what}: nothing after {seconds} s\n{self.logs()}")
            time.sleep(0.1)

    def job(self, number):
        """{field: value} of scontrol show job."""
        text = self.run("scontrol", "show", "job", number).stdout
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def logs(self):
        return "\n".join(f"== {file.name}\n{file.read_text(errors='replace')[-3000:]}"
                         for file in sorted(self.folder.glob("*.log")))

    def stop(self):
        """Ends the jobs, then the daemons, then whatever they left."""
        if len(self.daemons) == 3:
            self.run("scancel", "--full", "--signal=KILL", "--user=root")
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(5)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for process in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def left(self):
        """Processes that carry this cluster's environment."""
        mark = f"SLURM_CONF={self.environment['SLURM_CONF']}".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in entry.read_bytes().split(b"\0"):
                    found.append(int(entry.parent.name))
        return found
