"""Commands, options and arguments as data: what `--help` has, read from the same parsers."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

# The kinds of words that a shell can complete by itself.
FILE, HOST, NOTHING = "file", "host", ""

_FILES = ("FILE", "PATH", "SCRIPT", "LOCAL", "INVENTORY", "PYTHON")
_HOSTS = ("HOST",)


@dataclass(frozen=True)
class Option:
    """An option, or with `names` empty an argument. `value`: what it takes, as the help names it; empty for a flag."""

    names: tuple[str, ...]
    value: str
    help: str
    choices: tuple[str, ...]
    kind: str

    @property
    def takes_value(self) -> bool:
        """Whether the word after it belongs to it."""
        return bool(self.value)


@dataclass(frozen=True)
class Command:
    """One command. `words`: as typed, from "roamlet" on. Texts have no %-signs left."""

    words: tuple[str, ...]
    help: str
    description: str
    epilog: str
    usage: str
    options: tuple[Option, ...]
    arguments: tuple[Option, ...]
    commands: tuple["Command", ...]

    @property
    def name(self) -> str:
        """As typed."""
        return " ".join(self.words)

    def all(self) -> Iterator["Command"]:
        """This command and all below it, in the order of the help."""
        yield self
        for command in self.commands:
            yield from command.all()

    def flags(self) -> list[str]:
        """All names of its options."""
        return [name for option in self.options for name in option.names]

    def kind(self) -> str:
        """Of the words that it takes: that of the first argument that has one."""
        return next((each.kind for each in self.arguments if each.kind), NOTHING)

    def choices(self) -> list[str]:
        """The words that it takes, where they are fixed."""
        return [choice for argument in self.arguments for choice in argument.choices]


def described(parser: argparse.ArgumentParser, words: tuple[str, ...] = (), summary: str = "") -> Command:
    """The command that a parser is for. `words` and `summary`: its name, and the line about it, in the parser above."""
    words = words or (parser.prog,)
    formatter = argparse.HelpFormatter(prog=" ".join(words), width=78)
    getattr(formatter, "_set_color", lambda color: None)(False)  # from 3.14 on
    options: list[Option] = []
    arguments: list[Option] = []
    commands: list[Command] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            summaries = {each.dest: each.help or "" for each in action._choices_actions}
            commands += [
                described(below, (*words, name), summaries.get(name, "").replace("%%", "%"))
                for name, below in action.choices.items()
            ]
        elif action.help != argparse.SUPPRESS:
            option = _option(action, formatter)
            (options if option.names else arguments).append(option)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, prefix="")
    return Command(
        words,
        summary,
        _text(parser.description),
        _text(parser.epilog),
        formatter.format_help().strip(),
        tuple(options),
        tuple(arguments),
        tuple(commands),
    )


def _text(text: str | None) -> str:
    return (text or "").replace("%(prog)s", "roamlet").replace("%%", "%").strip()


def _option(action: argparse.Action, formatter: argparse.HelpFormatter) -> Option:
    choices = tuple(str(choice) for choice in action.choices or ())
    value = ""
    if action.nargs != 0:
        metavar = action.metavar or ("|".join(choices) if choices else action.dest.upper())
        value = metavar if isinstance(metavar, str) else " ".join(metavar)
    said = formatter._expand_help(action) if action.help else ""
    return Option(tuple(action.option_strings), value, said, choices, NOTHING if choices else _kind(value))


def _kind(value: str) -> str:
    """By what the help calls it: FILE, MODULE:FUNCTION | SCRIPT.py, HOST[,HOST...]."""
    for kind, names in ((FILE, _FILES), (HOST, _HOSTS)):
        if any(word.startswith(names) for word in value.replace("|", " ").split()):
            return kind
    return NOTHING
