"""How another interpreter is started; one file a transport. It starts nothing itself.

A transport knows two things: the command that starts a Python which speaks the protocol on its descriptors 0 and 1, and
what the messages mean that this command prints when it fails.
"""

import signal
from collections.abc import Sequence
from typing import Protocol

from roamlet.remote.errors import ConnectError, NoPython
from roamlet.remote.terminal.prompts import Answers

SHOWN = 16


class Transport(Protocol):
    """One way to one Python.

    `pythons`: the interpreters to try, in this order. `answers`: what answers it when it asks on its terminal; None: it gets no
    terminal, and must not ask. `asks_on_stdin`: it asks on stdin instead, as su does; what it runs then finds its stdin and stderr
    as 3 and 4. `translated`: its messages are in the user's language, and `explain` reads them: it is started with English ones.
    """

    pythons: tuple[str, ...]
    answers: Answers | None = None
    asks_on_stdin: bool = False
    translated: bool = False

    @property
    def name(self) -> str:
        """What the context is called where no name was given."""

    @property
    def to(self) -> str:
        """What messages call the target: "ssh to 'alpha'"."""

    def argv(self, token: str) -> list[str]:
        """The command to start. It holds no secret: every user of the machine can read it. `token` marks the start line."""

    def cannot_start(self, number: int) -> ConnectError:
        """Why the command itself could not be started; `number` is an errno."""

    def missing(self) -> NoPython:
        """None of `pythons` is there."""

    def explain(self, exit_code: int | None, said: list[str]) -> ConnectError:
        """Why the command ended before the context was ready, from its exit code and the lines on its stderr.

        `exit_code` is negative for a signal, None when the command still ran after it had closed its pipes.
        """

    def describe_end(self, exit_code: int | None, said: Sequence[str] = ()) -> str:
        """How a context ended after it was ready: a clause for ContextDied. `said`: the last lines of its stderr."""
        return f"its process {ended(exit_code)}{_hint(exit_code)}"


def quoted(said: list[str]) -> str:
    """The lines that a command wrote last, for a message: of many lines, the first and the last ones."""
    lines = [line for line in said if line.strip()]
    if len(lines) > SHOWN:
        lines = [*lines[: SHOWN // 2], "...", *lines[-SHOWN // 2 :]]
    return "\n".join(f"        {line}" for line in lines) if lines else "        (nothing)"


def ended(exit_code: int | None) -> str:
    """An exit code in words: "ended with exit code 3", "was ended by signal 9"."""
    if exit_code is None:
        return "has closed its pipes but not ended yet"
    if exit_code < 0:
        return f"was ended by signal {-exit_code} ({_signal_name(-exit_code)})"
    return f"ended with exit code {exit_code}"


def _hint(exit_code: int | None) -> str:
    """What an exit code most often comes from."""
    if exit_code is None:
        return ""
    if exit_code in (-9, 137):
        return "; it was killed, or the machine ran out of memory"
    if exit_code < 0 or exit_code > 128:
        return "; a crash in C code, or a kill from outside"
    return "; os._exit() in something that it ran, or in what that called"


def none_of(pythons: tuple[str, ...], path: str) -> str:
    """That none of the interpreters that were tried is there, as a clause; `path` is the end of the clause, after "on the PATH"."""
    if len(pythons) == 1 and "/" in pythons[0]:
        return f"there is no {pythons[0]}, or this user may not run it"
    return f"there is no Python of these names on the PATH {path}: {', '.join(pythons)}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a real-time signal"
