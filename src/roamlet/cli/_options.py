"""Names the unknown options and commands of a command line, with the one that was probably meant. Finds where the options end when
the words after them belong to a program.

argparse complains about what is missing before it looks at unknown words, and leaves a subcommand's unknown words to the command
above, whose usage does not list that subcommand's options. Both hide a typing error.
"""

import argparse
import re
from collections.abc import Iterable, Sequence

# What argparse itself takes for a value: a negative number, and any word with a blank in it.
VALUE = re.compile(r"-\.?\d|.* ")


def refuse_unknown(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Leave as argparse does, by SystemExit and a message on stderr, when a word is an unknown option or command."""
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
            elif near := _near(word, commands):
                parser.error(f"there is no command {word}; did you mean {near[0]}?")
            return
        if word == "--":
            return
        if rest_is_anything and not word.startswith("-") and not _is_value(words, index, known):
            return  # another program's command begins here or after it
        if not word.startswith("-") or word == "-" or VALUE.match(word):
            continue
        if _is_value(words, index, known):
            continue  # the place of a value: argparse names its option
        option = word.partition("=")[0]
        if option not in known and (word.startswith("--") or word[:2] not in known):
            parser.error(f"there is no option {option}; {_advice(option, parser)}")


def refuse_left(parser: argparse.ArgumentParser, command: str | None, left: Sequence[str]) -> None:
    """Leave as argparse does for words that it has no place for, in the words of the command that they were given to."""
    for action in parser._subparsers._group_actions if parser._subparsers else ():
        parser = action.choices.get(command, parser)  # type: ignore[union-attr]  # a dict of parsers
    parser.error(f"too many arguments: leave out {' '.join(left)}; `{parser.prog} --help` shows what it takes")


def with_end_of_options(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """The words, with a `--` after the first one that is not an option if `ends_options` returns true for it.

    `ends_options` is a default of the command's parser: a function of the words before, and of that word.
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
    """Whether the word is in the place of an option's value."""
    before = known.get(words[index - 1]) if index else None
    return before is not None and before.nargs != 0


def _near(word: str, known: Iterable[str]) -> list[str]:
    # Inside: it is loaded where there is something to say.
    import difflib

    return difflib.get_close_matches(word, known, n=1)


def _advice(option: str, parser: argparse.ArgumentParser) -> str:
    known = parser._option_string_actions
    near = [name for name in known if name.startswith(option)] if option.startswith("--") else []
    near = near or _near(option, known)
    if near:
        return f"did you mean {near[0]}?"
    takes_arguments = any(not action.option_strings for action in parser._actions)
    hint = " An argument that begins with a dash goes after a --" if takes_arguments else ""
    return f"`{parser.prog} --help` lists them.{hint}"
