"""Completion for zsh: a function for each command, by _arguments."""

from roamlet.cli.describing.model import FILE, HOST, Command, Option

_KINDS = {FILE: "_files", HOST: "_hosts"}


def script(roamlet: Command) -> str:
    """What zsh is to find as a file `_roamlet` in its fpath."""
    parts = ["#compdef roamlet\n# Completion of roamlet for zsh, written by: roamlet completion zsh\n"]
    parts += [_function(command) for command in roamlet.all()]
    # Autoloaded, the file is the body of the first call; read by `source`, it makes the function known.
    parts.append('if [ "$funcstack[1]" = _roamlet ]; then _roamlet "$@"; else compdef _roamlet roamlet; fi\n')
    return "\n".join(parts)


def _function(command: Command) -> str:
    specs = [spec for option in command.options for spec in _specs(option)]
    lines = [f"{_named(command)}() {{", "    local context state state_descr line", "    typeset -A opt_args"]
    if command.commands:
        specs += ["'1: :->command'", "'*:: :->rest'"]
    elif command.arguments:
        specs += [_argument(command)]
    lines.append(" \\\n        ".join(["    _arguments -C -S", *specs]))
    if command.commands:
        lines += ["    case $state in", "        command)", "            local -a commands", "            commands=("]
        lines += [f"                {_quoted(each.words[-1] + ':' + _plain(each.help))}" for each in command.commands]
        lines += [
            "            )",
            "            _describe command commands ;;",
            "        rest)",
            "            case $line[1] in",
        ]
        lines += [f"                {each.words[-1]}) {_named(each)} ;;" for each in command.commands]
        lines += ["            esac ;;", "    esac"]
    return "\n".join([*lines, "}\n"])


def _named(command: Command) -> str:
    return "_" + "_".join(command.words)


def _specs(option: Option) -> list[str]:
    said = f"[{_escaped(option.help)}]"
    found = []
    for name in option.names:
        if not option.takes_value:
            found.append(_quoted(f"*{name}{said}"))
            continue
        joined = "=" if name.startswith("--") else "+"
        found.append(_quoted(f"*{name}{joined}{said}:{_escaped(option.value)}:{_words(option)}"))
    return found


def _argument(command: Command) -> str:
    first = next((each for each in command.arguments if each.kind or each.choices), command.arguments[0])
    return _quoted(f"*:{_escaped(first.value)}:{_words(first)}")


def _words(option: Option) -> str:
    return f"({' '.join(option.choices)})" if option.choices else _KINDS.get(option.kind, " ")


def _plain(text: str) -> str:
    return " ".join(text.split())


def _escaped(text: str) -> str:
    text = _plain(text).replace("\\", "\\\\")
    for special in ":[]":
        text = text.replace(special, f"\\{special}")
    return text


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
