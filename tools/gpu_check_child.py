#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_check_child.py PARENT COMMAND...: runs the command, and ends it, with all that it has started, when the process
PARENT ends, however it ends. Leads a process group of its own: who kills that, kills them, too.

Ends with the command's status, 127 when there is no such command."""

import ctypes
import os
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1


def end_all(*_):
    os.killpg(0, signal.SIGKILL)


def main():
    parent, command = int(sys.argv[1]), sys.argv[2:]
    signal.signal(signal.SIGTERM, end_all)
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM) != 0:
        sys.exit(f"gpu_check_child: prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:
        end_all()
    try:
        status = subprocess.call(command)
    except OSError as error:
        print(f"gpu_check_child: {command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)
    # As a shell has it: 128 + the signal.
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
