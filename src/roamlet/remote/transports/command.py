"""What the transports have in common that start a Python by another command: sudo, docker, srun and their like.

Each of them is the words before the interpreter, and a table of the messages that the command prints when it fails.
"""

import errno
import os
import re
import shlex
import sys
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from roamlet.remote.errors import BadHostName, ConnectError, NoPython
from roamlet.remote.terminal.prompts import NOTHING, Answers, Held
from roamlet.remote.transports import Transport, ended, none_of, quoted
from roamlet.remote.transports.local import checked_python
from roamlet.wire import build

NAME = re.compile(r"[A-Za-z0-9_][\w.+$@-]*")
USER = re.compile(r"#\d+|[A-Za-z0-9_][\w.+$@\\-]*")


class Meaning(NamedTuple):
    """A message that a command prints when it fails, and the error that it becomes.

    `words` is a regular expression, searched in all that was printed. In `happened` and `then`, the next step, `{target}`
    is the target's name, `{to}` what messages call the target, and a group of `words` is what it matched.
    """

    words: str
    error: type[ConnectError]
    happened: str
    then: str


class Command(Transport):
    """A transport that starts `words()` followed by an interpreter. One interpreter that was asked for is started as it is,
    else a shell on the target looks for the first that will do.
    """

    program: str
    comes_with: str  # where the program comes from: the end of a sentence
    meanings: ClassVar[tuple[Meaning, ...]] = ()
    translated = True

    def __init__(self, target: str, python: str | None) -> None:
        self.target = target
        self._asked_for = None if python is None else checked_python(python)
        own = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        self.pythons: tuple[str, ...] = (own, "python3", "python") if python is None else (python,)

    @property
    def name(self) -> str:
        return self.target

    @property
    def to(self) -> str:
        return f"{self.program} to {self.target!r}"

    def words(self) -> list[str]:
        """The command, up to where the interpreter's own words begin."""
        raise NotImplementedError

    def argv(self, token: str) -> list[str]:
        return [*self.words(), *self.interpreter(token)]

    def interpreter(self, token: str) -> list[str]:
        """The words that start the Python, for a command that hands them on as they are."""
        if self._asked_for is not None:
            return build.command(self._asked_for, token)
        return shlex.split(build.shell_command(self.pythons, token))

    def cannot_start(self, number: int) -> ConnectError:
        if number == errno.ENOENT:
            return ConnectError(
                f"the {self.to} was not started: there is no program `{self.program}` on PATH. It comes with {self.comes_with}"
            )
        return ConnectError(f"the {self.to} was not started: {self.program}: {os.strerror(number)}")

    def missing(self) -> NoPython:
        return NoPython(
            f"no context over {self.to}: {none_of(self.pythons, 'there')}.\n"
            "    Give the path of one as python=: a target needs CPython 2.7, or 3.6 and later."
        )

    def explain(self, exit_code: int | None, said: list[str]) -> ConnectError:
        text = "\n".join(said)
        for meaning in self.meanings:
            match = re.search(meaning.words, text, re.MULTILINE)
            if match is not None:
                fields = {"target": self.target, "to": self.to, **match.groupdict()}
                happened, then = meaning.happened.format_map(fields), meaning.then.format_map(fields)
                return meaning.error(f"{self.to} failed: {happened}.\n{quoted(said)}\n    {then}")
        if self._asked_for is not None and exit_code in (126, 127):
            return self.missing()
        if self._asked_for is None and "executable file not found" in text:
            return NoPython(
                f"no context over {self.to}: there is no shell `sh` that could look for a Python.\n{quoted(said)}\n"
                "    Give the path of one as python=: it is started without a shell."
            )
        return ConnectError(
            f"{self.to} {ended(exit_code)} before a Python answered, and said:\n{quoted(said)}\n"
            f"    Does this work: {shlex.join([*self.words(), 'echo', 'hello'])}"
        )

    def describe_end(self, exit_code: int | None, said: Sequence[str] = ()) -> str:
        if exit_code is not None and exit_code < 0:
            return f"the {self.program} to it {ended(exit_code)}"
        return super().describe_end(exit_code, said)


class Account(Command):
    """sudo, su and doas: an interpreter under another account of the same machine, root's by default, and perhaps a password."""

    password_variable: ClassVar[str]  # of the environment, for a password that was not given
    always_answers: ClassVar[bool] = False  # whether it asks no matter what, so that what it asks is to be read

    def __init__(self, user: str | None = None, *, python: str | None = None, password: Held = NOTHING) -> None:
        super().__init__(checked_user(user) or "root", python)
        answers = Answers(password, self.password_variable, self.to)
        self.answers: Answers | None = answers if self.always_answers or answers.available else None


def checked_name(name: str, what: str, pattern: re.Pattern[str] = NAME) -> str:
    """`name`, checked so that a command cannot take it for an option; `what` says in messages what it should be."""
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a str, not {name!r}")
    if not pattern.fullmatch(name):
        raise BadHostName(f"{name!r} cannot be the name of {what}, so nothing was started")
    return name


def checked_user(user: str | None) -> str | None:
    """`user`, checked to be a user's name, or #number."""
    return None if user is None else checked_name(user, "a user", USER)


def checked_arguments(arguments: Sequence[str], option: str) -> tuple[str, ...]:
    """`arguments`, checked to be a sequence of single words for a command line."""
    if isinstance(arguments, str) or not all(isinstance(one, str) and "\0" not in one for one in arguments):
        raise TypeError(f"{option} takes a list of single arguments, such as ['--verbose'], not {arguments!r}")
    return tuple(arguments)
