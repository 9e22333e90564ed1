"""Another interpreter on this machine."""

import errno
import os
import shlex
import sys

from roamlet.remote.errors import ConnectError, NoPython
from roamlet.remote.transports import Transport, ended, quoted
from roamlet.wire import build


class Local(Transport):
    """Starts `python`, a path or a name on PATH; this process's own interpreter by default. `where` is for messages."""

    name = "local"

    def __init__(self, python: str | None = None, where: str = "on this machine") -> None:
        self.python: str = sys.executable if python is None else checked_python(python)
        self.where = where
        self.pythons: tuple[str, ...] = (self.python,)

    @property
    def to(self) -> str:
        return f"local interpreter {self.python!r}"

    def argv(self, token: str) -> list[str]:
        return build.command(self.python, token)

    def cannot_start(self, number: int) -> ConnectError:
        if number == errno.ENOENT:
            return self.missing()
        return ConnectError(
            f"the {self.to} could not be started: {os.strerror(number)}. Is it a program that this user may run?"
        )

    def missing(self) -> NoPython:
        return NoPython(
            f"there is no interpreter {self.python!r} {self.where}, so no context was made.\n"
            "    Give the path of one as python=: a target needs CPython 2.7, or 3.6 and later."
        )

    def explain(self, exit_code: int | None, said: list[str]) -> ConnectError:
        if exit_code in (126, 127):
            return self.missing()
        return ConnectError(
            f"the {self.to} {ended(exit_code)} before it was ready, and said:\n{quoted(said)}\n"
            f"    Is it a CPython? Try: {shlex.quote(self.python)} -c 'import sys; print(sys.version)'"
        )


def checked_python(python: str) -> str:
    """`python`, checked for use in a command; raises TypeError or ValueError for what cannot be a program's name."""
    if not isinstance(python, str):
        raise TypeError(f"python= takes the name or path of one interpreter, such as 'python3.8', not {python!r}")
    if not python or python.startswith("-") or any(ord(letter) < 32 for letter in python):
        raise ValueError(f"python={python!r} cannot be an interpreter: give a name or path, such as 'python3.8'")
    return python
