"""The exceptions with a traceback among all objects, and marks by which those of an earlier moment are told from new ones."""

import gc
from collections.abc import Iterable
from types import TracebackType
from typing import Any

Mark = tuple[object, ...]

# The attribute itself: a class may have another one under its name.
traceback_in = BaseException.__dict__["__traceback__"].__get__


def marks() -> frozenset[Mark]:
    """Marks of the exceptions with a traceback that there are now. They refer to nothing."""
    return frozenset(mark(error) for error in with_tracebacks(gc.get_objects()))


def mark(error: Any) -> Mark:
    """Tells an exception from those that come later: they may lie at the same address, but hardly with such a traceback too."""
    traceback = traceback_of(error)
    return id(error), type(error).__qualname__, id(traceback), traceback.tb_lasti, id(traceback.tb_frame)


def traceback_of(error: Any) -> Any:
    """Of an exception, or a traceback itself."""
    return error if type(error) is TracebackType else traceback_in(error)


def with_tracebacks(things: Iterable[Any]) -> list[Any]:
    """The exceptions that have one, and the tracebacks that are no exception's and no other traceback's."""
    found = []
    tracebacks = {}
    parts = set()
    for thing in things:
        kind = type(thing)
        if kind is TracebackType:
            tracebacks[id(thing)] = thing
            parts.add(id(thing.tb_next))
        elif issubclass(kind, BaseException) and (traceback := traceback_in(thing)) is not None:
            found.append(thing)
            parts.add(id(traceback))
    return found + [traceback for number, traceback in tracebacks.items() if number not in parts]
