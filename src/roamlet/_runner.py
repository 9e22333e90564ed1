"""Running a program unchanged with a folder of ours on PYTHONPATH, for `python -m roamlet.stackless`, `python -m
roamlet.threads` and `python -m roamlet.patch`.

The arguments are Python's own, options, -m and -c among them: Python is started once more. So the program's __main__, sys.argv,
tracebacks and exit status are what they always are, and Python processes that it starts have the folder as well. Running the
program in this process instead would show our frames to it, and its children would need the folder all the same.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

# Python's own options that are words.
LONG = {"--check-hash-based-pycs", "--help-all", "--help-env", "--help-xoptions", "--version"}


@dataclass(frozen=True)
class Runner:
    """`python -m module`: the folder that it puts on PYTHONPATH, and the options of Python that would defeat it."""

    module: str
    folder: str
    usage: str
    defeated_by: str
    """Letters of options."""
    defeated: str
    """What is said when one of them is given."""
    settings: Mapping[str, tuple[str, Sequence[str]]] = field(default_factory=dict)
    """Options of our own, before all others: the environment variable that each sets, and its values. An option without
    values sets it to "1".
    """

    def main(self) -> NoReturn:
        """Become the program, or end with an exit status when there is nothing to run."""
        arguments = sys.argv[1:]
        if arguments[:1] in (["-h"], ["--help"]):
            print(self.usage)
            sys.exit(0)
        if arguments == ["--path"]:
            print(self.folder)
            sys.exit(0)
        before = _before(self.module, sys.orig_argv, arguments)
        arguments, variables = self._set(arguments)
        if unknown := [each for each in _options(arguments) if each.startswith("--") and each not in LONG]:
            own = [
                "--help",
                "--path",
                *(name + "=" * bool(values) + "|".join(values) for name, (_, values) in self.settings.items()),
            ]
            print(
                f"python -m {self.module}: {unknown[0]} is no option; those of its own, before Python's: {', '.join(own)}",
                file=sys.stderr,
            )
            sys.exit(2)
        if not set(self.defeated_by).isdisjoint({*_options(arguments), *_options(before)}):
            print(self.defeated, file=sys.stderr)
            sys.exit(2)
        environment = {**_environment(os.environ, self.folder), **variables}
        os.execve(sys.executable, [sys.executable, *before, *arguments], environment)

    def _set(self, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        """Take our own options off the front: what is left, and the environment variables that they set."""
        left, variables = list(arguments), {}
        while left and (name := left[0].partition("=")[0]) in self.settings:
            variable, values = self.settings[name]
            word = left.pop(0)
            if not values and "=" not in word:
                variables[variable] = "1"
                continue
            if not values:
                print(f"python -m {self.module}: {name} takes no value", file=sys.stderr)
                sys.exit(2)
            value = word.partition("=")[2] if "=" in word else left.pop(0) if left else ""
            if value not in values:
                print(f"python -m {self.module}: {name} is one of {', '.join(values)}, not {value!r}", file=sys.stderr)
                sys.exit(2)
            variables[variable] = value
        return left, variables


def _options(words: Sequence[str]) -> Iterator[str]:
    """The letters of Python's own options in front of the program's name, and those that are words."""
    words = list(words)
    while words and words[0].startswith("-") and words[0] not in ("-", "--"):
        word = words.pop(0)
        if word == "--check-hash-based-pycs" and words:
            words.pop(0)
        if word.startswith("--"):
            yield word.partition("=")[0]
            continue
        for at, letter in enumerate(word[1:], 2):
            if letter in "cm":  # what follows is the program
                return
            yield letter
            if letter in "WX":  # the rest of the word is its value, or the next word
                if at == len(word) and words:
                    words.pop(0)
                break


def _before(module: str, original: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """What stood between python and `-m module` in its command line: its options, and pdb or coverage where they run us."""
    words = list(original[1 : len(original) - len(arguments)])
    if words and words[-1] == module and len(words) > 1 and words[-2].endswith("m"):
        words[-2:] = [words[-2][:-1]]
    elif words and words[-1].endswith(f"m{module}"):
        words[-1] = words[-1].removesuffix(f"m{module}")
    return words[:-1] if words and words[-1] == "-" else words


def _environment(environment: Mapping[str, str], folder: str) -> dict[str, str]:
    folders = [each for each in environment.get("PYTHONPATH", "").split(os.pathsep) if each]
    if folder not in folders:
        folders.insert(0, folder)
    return {**environment, "PYTHONPATH": os.pathsep.join(folders)}
