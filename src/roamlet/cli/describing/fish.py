"""Completion for fish: one line for each command and option, which counts where the words before the cursor lead to its command."""

from roamlet.cli.describing.model import FILE, HOST, Command, Option

_START = """\
# Completion of roamlet for fish, written by: roamlet completion fish
function __roamlet_at
    set -l path
    set -l tokens (commandline -opc)
    set -e tokens[1]
    for token in $tokens
        if contains -- (string join ' ' -- $path $token) $__roamlet_commands
            set -a path $token
        end
    end
    test "$path" = "$argv[1]"
end

set -g __roamlet_commands %s
complete -c roamlet -f
"""

_KINDS = {FILE: " -F", HOST: " -a '(__fish_print_hostnames)'"}


def script(roamlet: Command) -> str:
    """What fish is to read."""
    below = [_quoted(_path(each)) for each in roamlet.all() if each is not roamlet]
    lines = [_START % " ".join(below)]
    for command in roamlet.all():
        at = f"complete -c roamlet -n {_quoted('__roamlet_at ' + _quoted(_path(command)))}"
        lines += [f"{at} -a {_quoted(each.words[-1])} -d {_quoted(_plain(each.help))}" for each in command.commands]
        lines += [at + _option(option) for option in command.options]
        if command.arguments and not command.commands:
            lines += [f"{at}{_KINDS.get(command.kind(), '')}"] if command.kind() else []
            lines += [f"{at} -a {_quoted(' '.join(command.choices()))}"] if command.choices() else []
    return "\n".join([*lines, ""])


def _path(command: Command) -> str:
    return " ".join(command.words[1:])


def _option(option: Option) -> str:
    names = "".join(f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}" for name in option.names)
    value = ""
    if option.takes_value:
        words = f" -a {_quoted(' '.join(option.choices))}" if option.choices else _KINDS.get(option.kind, "")
        value = f" -r{words}"
    return f"{names}{value} -d {_quoted(_plain(option.help))}"


def _plain(text: str) -> str:
    return " ".join(text.split())


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
