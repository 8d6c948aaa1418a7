# SPDX-License-Identifier: Apache-2.0
"""What zsh and fish offer for the last word of a command line, of the completions in a folder."""

import os
import pty
import select
import subprocess
import tempfile
import time
from pathlib import Path

# In place of zsh's own: what it would offer goes to a file. Calls that only ask, with -O, -A or -D, stay as they are.
ZSH_SETUP = """
PROMPT='> '; unsetopt beep
fpath=('{folder}' $fpath)
autoload -Uz compinit && compinit -u -D
compadd() {{
  if [[ ${{@[1,(i)(-|--)]}} == *-[OAD]\\ * ]]; then builtin compadd "$@"; return; fi
  local -a offered
  builtin compadd -A offered "$@"
  print -rl -- $offered >>{output}
  builtin compadd "$@"
}}
ask() {{ zle list-choices; print -r -- .end. >>{output} }}
zle -N ask
bindkey '^T' ask
print -r -- .ready. >>{output}
"""
PATIENCE = 30  # s


class Terminal:
    """A shell in a terminal of its own, whose output nobody reads."""

    def __init__(self, *command, **options):
        self.own, other = pty.openpty()
        self.process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, start_new_session=True, **options)
        os.close(other)

    def wait_for(self, file, line):
        """The lines of `file` before `line`."""
        end = time.monotonic() + PATIENCE
        said = b""
        while time.monotonic() < end and self.process.poll() is None:
            if select.select([self.own], [], [], 0.02)[0]:
                said += os.read(self.own, 65536)
            lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
            if line in lines:
                return lines[:lines.index(line)]
        raise AssertionError(f"no {line} from {self.process.args}: {said.decode(errors='replace')[-2000:]}")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.own)


def completed_by_zsh(folder, line, cwd):
    """As a set of words."""
    with tempfile.TemporaryDirectory(prefix="dos-zsh-") as scratch:
        setup, answers = Path(scratch) / "setup", Path(scratch) / "answers"
        setup.write_text(ZSH_SETUP.format(folder=folder, output=answers), encoding="utf-8")
        terminal = Terminal("zsh", "-f", "-i", cwd=cwd, env={"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": scratch})
        try:
            os.write(terminal.own, f"source {setup}\n".encode())
            terminal.wait_for(answers, ".ready.")
            answers.unlink()
            os.write(terminal.own, line.encode() + b"\x14")
            return set(filter(None, terminal.wait_for(answers, ".end.")))
        finally:
            terminal.close()


def completed_by_fish(folder, programs, line, cwd):
    """As {word: its text}. fish wants the programs to be in PATH."""
    with tempfile.TemporaryDirectory(prefix="dos-fish-") as scratch:
        script = f"set fish_complete_path '{folder}'; complete -C (cat)"
        result = subprocess.run(["fish", "--no-config", "-c", script], input=line, capture_output=True, text=True, check=True,
                                cwd=cwd, env={"PATH": f"{programs}:{os.environ['PATH']}", "HOME": scratch}, timeout=PATIENCE)
        assert result.stderr == "", result.stderr
        return dict((each + "\t").split("\t")[:2] for each in result.stdout.splitlines())
