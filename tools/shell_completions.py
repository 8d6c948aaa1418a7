# SPDX-License-Identifier: Apache-2.0
"""Completions for bash, zsh and fish, of what programs say of themselves (program_pages.py)."""

from typing import Callable, NamedTuple

COMMAND = "deep-optimizer-states"
# Shells have a command of their own of this name, whose completion stays.
OF_THE_SHELL = {"export"}
# Of a text beside an option: terminals are not wider.
MOST_HELP = 72


def shortened(text):
    """The beginning of a help, in one line."""
    text = " ".join(text.split())
    return text if len(text) <= MOST_HELP else text[:MOST_HELP - 3].rsplit(" ", 1)[0].rstrip(" ,;:") + "..."


def quoted(text):
    """As one word of zsh, in which nothing is special."""
    return "'" + text.replace("'", "'\\''") + "'"


def function_of(page):
    return "_dos_" + page["program"].replace("-", "_")


def programs_of(pages):
    return [page for page in pages if page["program"] != COMMAND]


def direct_names(pages):
    """Programs that are completed under their own names."""
    return [page["program"] for page in programs_of(pages) if page["program"] not in OF_THE_SHELL]


def bash_case(names, words):
    return f"    {'|'.join(names)}) _dos_words {words} ;;\n"


def bash_completion_of(page):
    """A bash function that completes the arguments of one program."""
    names = [name for option in page["options"] for name in option["names"] if name.startswith("--")]
    cases = ""
    for option in page["options"]:
        if option["words"]:
            cases += bash_case(option["names"], "'" + " ".join(option["words"]) + "'")
        elif option["value"] == "FOLDER":
            cases += f"    {'|'.join(option['names'])}) _dos_folders ;;\n"
        elif option["value"] == "KEY=VALUE":
            cases += bash_case(option["names"], "'" + " ".join(f"{key['name']}=" for key in page["keys"]) + "'")
    keys = "".join(bash_case([key["name"]], "'" + " ".join(key["words"]) + "'") for key in page["keys"] if key["words"])
    return (f"_dos_{page['program'].replace('-', '_')}() {{\n  local cur prev key\n  _dos_start\n"
            f"  case $key in\n{keys}    ?*) ;;\n    *)\n  case $prev in\n{cases}"
            f"    *) _dos_options '{' '.join(names)}' ;;\n  esac ;;\n  esac\n}}\n")


BASH = """\
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2207,SC2034
# Completion for bash, made by the build from what the programs say of themselves.

# cur, prev: words at and before the cursor; key: of --set KEY=VALUE, when the value is due. bash cuts words at "=".
_dos_start() {
  COMPREPLY=()
  key=
  cur=${COMP_WORDS[COMP_CWORD]}
  prev=${COMP_WORDS[COMP_CWORD-1]}
  if [[ $cur == = ]]; then
    key=$prev
    cur=
  elif [[ $prev == = ]]; then
    key=${COMP_WORDS[COMP_CWORD-2]}
  fi
}

_dos_words() {
  COMPREPLY=($(compgen -W "$1" -- "$cur"))
  if [[ ${COMPREPLY[0]-} == *= ]]; then compopt -o nospace 2>/dev/null; fi
}

_dos_folders() {
  COMPREPLY=($(compgen -d -- "$cur"))
  compopt -o filenames 2>/dev/null
}

_dos_options() {
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$1" -- "$cur"))
  else
    COMPREPLY=($(compgen -f -- "$cur"))
    compopt -o filenames 2>/dev/null
  fi
}

"""


def bash_completions(pages):
    names = [page["program"] for page in pages if page["program"] != COMMAND]
    functions = "\n".join(bash_completion_of(page) for page in pages if page["program"] != COMMAND)
    cases = "".join(f"    {name}) _dos_{name.replace('-', '_')} ;;\n" for name in names)
    command = (f"\n_dos_command() {{\n  local cur prev key\n  if ((COMP_CWORD == 1)); then\n    _dos_start\n"
               f"    _dos_words '{' '.join(names)} --help --version'\n    return\n  fi\n"
               f"  case ${{COMP_WORDS[1]}} in\n{cases}  esac\n}}\n\ncomplete -F _dos_command {COMMAND}\n")
    direct = "".join(f"complete -F _dos_{name.replace('-', '_')} {name}\n" for name in names if name not in OF_THE_SHELL)
    return BASH + functions + command + direct


ZSH = """\
# SPDX-License-Identifier: Apache-2.0
# Completion for zsh, made by the build from what the programs say of themselves.

# _dos_value NAME WORD...: a value of the key behind "=".
_dos_value() {
  local name=$1
  shift
  if (($#)); then
    compadd -- "$@"
  else
    _message "value of $name"
  fi
}

"""


def zsh_bracketed(text):
    """A help between [ and ]."""
    text = shortened(text).replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    return f"[{text}]" if text else ""


def zsh_action(page, option):
    if option["words"]:
        return "(" + " ".join(option["words"]) + ")"
    kind = option["value"]
    if kind == "KEY=VALUE":
        return function_of(page) + "_keys"
    if kind == "FOLDER":
        return "_files -/"
    return " " if kind in ("INT", "UINT", "FLOAT", "STEPS") else "_files"


def zsh_option(page, option):
    """The words for _arguments. Repeated is what may be: an option with a value, of which the last counts, or all."""
    names = option["names"]
    value = option["value"] or ("WORD" if option["words"] else "")
    if not value:
        excluded = f"({' '.join(names)})" if len(names) > 1 else ""
        return [quoted(excluded + name + zsh_bracketed(option["help"])) for name in names]
    colons = "::" if option["may_stand_alone"] else ":"
    rest = zsh_bracketed(option["help"]) + colons + value.replace(":", "\\:") + ":" + zsh_action(page, option)
    return [quoted("*" + name + ("=" if name.startswith("--") else "") + rest) for name in names]


def zsh_keys(page):
    """The function that completes KEY=VALUE."""
    names = "".join(f"    {quoted(key['name'] + ':' + shortened(key['help']))}\n" for key in page["keys"])
    values = "".join(f"      {key['name']}) _dos_value $key {' '.join(map(quoted, key['words']))} ;;\n"
                     for key in page["keys"] if key["words"])
    return (f"{function_of(page)}_keys() {{\n  local key\n  local -a keys\n  # Not in a function of its own: what compset does lasts as long as the function.\n"
            f"  if [[ $PREFIX == *=* ]]; then\n    key=${{PREFIX%%=*}}\n    compset -P 1 '*='\n    case $key in\n"
            f"{values}      *) _dos_value $key ;;\n    esac\n    return\n  fi\n  keys=(\n{names}  )\n"
            f"  _describe -t keys key keys -S =\n}}\n\n")


def zsh_completion_of(page):
    words = [word for option in page["options"] for word in zsh_option(page, option)]
    for place, argument in enumerate(page["arguments"], 1):
        # The last may be there several times.
        where = "*" if place == len(page["arguments"]) else str(place)
        words.append(quoted(f"{where}:{argument['names'][0].replace(':', ' ')}:{zsh_action(page, argument)}"))
    if not page["arguments"]:
        words.append(quoted("*:file:_files"))
    lines = "".join(f" \\\n    {word}" for word in words)
    keys = zsh_keys(page) if page["keys"] else ""
    return f"{keys}{function_of(page)}() {{\n  _arguments -s{lines}\n}}\n\n"


def zsh_completions(pages):
    programs = programs_of(pages)
    names = "".join(f"    {quoted(page['program'] + ':' + shortened(page['description']))}\n" for page in programs)
    cases = "".join(f"    {page['program']}) {function_of(page)} ;;\n" for page in programs)
    command = (f"_dos_command() {{\n  local context state line curcontext=$curcontext\n  typeset -A opt_args\n  local -a programs\n"
               f"  programs=(\n{names}  )\n"
               "  _arguments -C '(- *)--help[print help and stop]' '(- *)--version[print the version and stop]' \\\n"
               "    '1:program:->program' '*::argument:->argument'\n  case $state in\n"
               "    program) _describe -t programs program programs ;;\n    argument) _dos_of $words[1] ;;\n  esac\n}\n\n")
    return (f"#compdef {COMMAND}\n" + ZSH + "".join(map(zsh_completion_of, programs)) +
            f"_dos_of() {{\n  case $1 in\n{cases}    *) _files ;;\n  esac\n}}\n\n{command}"
            f"if [[ $service == {COMMAND} ]]; then\n  _dos_command\nelse\n  _dos_of $service\nfi\n")


def zsh_names(pages):
    """Where the programs' own folder is in PATH: their names are not for a whole system to complete."""
    return f"#compdef {' '.join(direct_names(pages))}\n# SPDX-License-Identifier: Apache-2.0\n_{COMMAND} \"$@\"\n"


FISH = """\
# SPDX-License-Identifier: Apache-2.0
# Completion for fish, made by the build from what the programs say of themselves.

"""


def fish_quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_keys(page):
    """The function that prints KEY= and, where its values are known, KEY=VALUE, each with a help."""
    lines = []
    for key in page["keys"]:
        lines.append(f"{key['name']}=\t{shortened(key['help'])}")
        lines += [f"{key['name']}={word}\t" for word in key["words"]]
    text = "".join(f"    {fish_quoted(line)} \\\n" for line in lines)
    return f"function _{function_of(page)}_keys\n  printf '%s\\n' \\\n{text.removesuffix(f' {chr(92)}{chr(10)}')}\nend\n\n"


def fish_value(page, option):
    """What follows an option: -x where only what is offered counts, -r where files may."""
    if option["words"]:
        return " -x -a " + fish_quoted(" ".join(option["words"]))
    kind = option["value"]
    if not kind or option["may_stand_alone"]:
        return ""
    if kind == "KEY=VALUE":
        return f" -x -a '(_{function_of(page)}_keys)'"
    if kind == "FOLDER":
        return " -x -a '(__fish_complete_directories)'"
    return " -x" if kind in ("INT", "UINT", "FLOAT", "STEPS") else " -r"


def fish_completion_of(page):
    name = page["program"]
    # Under its own name, and behind the command.
    ways = [f"complete -c {COMMAND} -n '__fish_seen_subcommand_from {name}'"]
    if name not in OF_THE_SHELL:
        ways.append(f"complete -c {name}")
    text = fish_keys(page) if page["keys"] else ""
    for option in page["options"]:
        names = "".join(f" -l {each[2:]}" if each.startswith("--") else f" -s {each[1:]}" for each in option["names"])
        help_text = f" -d {fish_quoted(shortened(option['help']))}" if option["help"] else ""
        text += "".join(f"{way}{names}{fish_value(page, option)}{help_text}\n" for way in ways)
    return text + "\n"


def fish_completions(pages):
    programs = programs_of(pages)
    names = "".join(f"complete -c {COMMAND} -f -n __fish_use_subcommand -a {page['program']} "
                    f"-d {fish_quoted(shortened(page['description']))}\n" for page in programs)
    own = "".join(f"complete -c {COMMAND} -f -n __fish_use_subcommand -l {name} -d {fish_quoted(text)}\n"
                  for name, text in (("help", "print help and stop"), ("version", "print the version and stop")))
    return FISH + names + own + "\n" + "".join(map(fish_completion_of, programs))


class Shell(NamedTuple):
    """Where a shell looks below share/, and what it finds there: texts by name, and one more name of the first for each
    program where the shell looks for a file of the command's name."""

    folder: str
    texts: dict[str, Callable]
    link: str = ""


SHELLS = (Shell("bash-completion/completions", {COMMAND: bash_completions}, link="{}"),
          Shell("zsh/site-functions", {f"_{COMMAND}": zsh_completions, f"_{COMMAND}-programs": zsh_names}),
          Shell("fish/vendor_completions.d", {f"{COMMAND}.fish": fish_completions}, link="{}.fish"))
