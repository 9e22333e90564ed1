"""Completion for bash: one function, which finds the command that the words before the cursor lead to."""

import shlex

from roamlet.cli.describing.model import FILE, HOST, Command, Option

_START = """\
# Completion of roamlet for bash 4 and later, written by: roamlet completion bash
_roamlet_hosts() {
    local file
    for file in ~/.ssh/config ~/.ssh/config.d/*; do
        [ -r "$file" ] && sed -n 's/^[[:space:]]*[Hh][Oo][Ss][Tt][[:space:]=]\\{1,\\}//p' "$file"
    done 2>/dev/null | sed 's/#.*//' | tr -s ' \\t' '\\n' | grep -x '[A-Za-z0-9._:@%-]\\{1,\\}'
}

_roamlet() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} path=roamlet i kind= words= flags=
    # --option=value comes as three words.
    if [ "$word" = = ]; then word=; elif [ "$before" = = ]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$path ${COMP_WORDS[i]}" in
            @PATHS@) path="$path ${COMP_WORDS[i]}" ;;
        esac
    done
    case "$path" in
"""

_END = """\
    esac
    COMPREPLY=()
    case "$word" in -*) words=$flags kind= ;; esac
    case "$kind" in
        file) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
        host)
            # Not by compgen -W, which expands its words once more: names of hosts are data. After a comma the next one begins.
            local ahead= name
            case "$word" in *,*) ahead=${word%,*}, ;; esac
            while read -r name; do
                if [[ $name == "${word##*,}"* ]]; then COMPREPLY+=("$ahead$name"); fi
            done < <(_roamlet_hosts)
            ;;
        *) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word") ;;
    esac
}
complete -F _roamlet roamlet
"""


def script(roamlet: Command) -> str:
    """What bash is to read."""
    below = [each for each in roamlet.all() if each is not roamlet]
    parts = [_START.replace("@PATHS@", " | ".join(shlex.quote(each.name) for each in below))]
    parts += [_case(command) for command in roamlet.all()]
    return "".join([*parts, _END])


def _case(command: Command) -> str:
    words = [each.words[-1] for each in command.commands] or command.choices()
    lines = [
        f"        {shlex.quote(command.name)})",
        f"            flags={shlex.quote(' '.join(command.flags()))}",
        f"            words={shlex.quote(' '.join(words))} kind={shlex.quote(command.kind())}",
    ]
    values = [option for option in command.options if option.takes_value]
    if values:
        lines.append('            case "$before" in')
        lines += [f"                {' | '.join(option.names)}) {_value(option)} ;;" for option in values]
        lines.append("            esac")
    return "\n".join([*lines, "            ;;\n"])


def _value(option: Option) -> str:
    kind = option.kind if option.kind in (FILE, HOST) else "word"
    return f"flags= words={shlex.quote(' '.join(option.choices))} kind={kind}"
