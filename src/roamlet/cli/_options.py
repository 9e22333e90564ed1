"""Says which option or command of a command line there is none of, by name and with the one that was probably meant. And where
its options end, when what follows belongs to a program that it names.

argparse complains about what is missing before it looks at what it does not know, and leaves a subcommand's unknown words to the
command above, whose usage says nothing of them. Both hide a slip of the fingers.
"""

import argparse
import difflib
import re
from collections.abc import Sequence

__all__ = ["refuse_unknown", "with_end_of_options"]

# What argparse itself takes for a value: a negative number, and whatever has a blank in it.
VALUE = re.compile(r"-\.?\d|.* ")


def refuse_unknown(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Leave as argparse does, by SystemExit and a message on stderr, when a word is no option, or no command, that `parser` has."""
    known = parser._option_string_actions
    subparsers = parser._subparsers._group_actions[0] if parser._subparsers else None
    commands = subparsers.choices if subparsers else None
    if subparsers and subparsers.required and not words:
        parser.error(f"name a COMMAND; `{parser.prog} --help` lists them")
    rest_is_anything = any(action.nargs == argparse.REMAINDER for action in parser._actions)
    for index, word in enumerate(words):
        if commands is not None and not word.startswith("-"):
            if word in commands:
                refuse_unknown(commands[word], words[index + 1 :])  # type: ignore[index]  # a dict of parsers
            elif near := difflib.get_close_matches(word, commands, n=1):
                parser.error(f"there is no command {word}; did you mean {near[0]}?")
            return
        if word == "--":
            return
        if rest_is_anything and not word.startswith("-") and not _is_value(words, index, known):
            return  # a command of somebody else begins here or behind it
        if not word.startswith("-") or word == "-" or VALUE.match(word):
            continue
        if _is_value(words, index, known):
            continue  # where a value should be: argparse says whose
        option = word.partition("=")[0]
        if option not in known and (word.startswith("--") or word[:2] not in known):
            parser.error(f"there is no option {option}; {_advice(option, parser)}")


def with_end_of_options(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """The words with a `--` after the first one that is no option, where `ends_options` says so.

    That is a default of the command's parser: a function of the words before, and of that word.
    """
    words = list(words)
    known = parser._option_string_actions
    commands = parser._subparsers._group_actions[0].choices if parser._subparsers else None
    ends_options = parser.get_default("ends_options")
    for index, word in enumerate(words):
        if word == "--":
            break
        if (word.startswith("-") and word != "-") or _is_value(words, index, known):
            continue
        if commands is not None and word in commands:
            return words[: index + 1] + with_end_of_options(commands[word], words[index + 1 :])  # type: ignore[index]
        if ends_options is not None and ends_options(words[:index], word) and words[index + 1 : index + 2] != ["--"]:
            words.insert(index + 1, "--")
        break
    return words


def _is_value(words: Sequence[str], index: int, known: dict[str, argparse.Action]) -> bool:
    """Whether the word stands where the value of an option should be."""
    before = known.get(words[index - 1]) if index else None
    return before is not None and before.nargs != 0


def _advice(option: str, parser: argparse.ArgumentParser) -> str:
    known = parser._option_string_actions
    near = [name for name in known if name.startswith(option)] if option.startswith("--") else []
    near = near or difflib.get_close_matches(option, known, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"`{parser.prog} --help` lists them. An argument that begins with a dash goes behind a --"
