"""Why a process or a core file cannot be read from outside; no code that reads."""

import struct
from collections.abc import Callable
from typing import ParamSpec, TypeVar


class CannotRead(RuntimeError):
    """It cannot be read: the message says why, and what helps."""


class Torn(Exception):
    """What was read contradicts itself: it changed while it was read, or is damaged. Reading again may help."""


DAMAGED = (Torn, struct.error, ValueError, IndexError, KeyError, OverflowError, MemoryError)
"""What is raised where memory contradicts itself."""

MOST_PROBLEMS = 20

P = ParamSpec("P")
T = TypeVar("T")


class Problems(list[str]):
    """What could not be read, in words. `lenient`: note it here and go on; otherwise a contradiction is raised."""

    lenient = False

    def trying(self, of: str, otherwise: T, what: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a function; where it meets contradictions and that is allowed, `otherwise`."""
        try:
            return what(*args, **kwargs)
        except DAMAGED as error:
            if not self.lenient:
                raise
            self.note(of, error)
            return otherwise

    def note(self, of: str, error: BaseException) -> None:
        """Add that something cannot be read, and why."""
        if len(self) < MOST_PROBLEMS:
            self.append(f"{of} cannot be read: {error or type(error).__name__}")
