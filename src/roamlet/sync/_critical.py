"""critical_section: only one tasklet at a time in a piece of code, without a lock to be made and handed round."""

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar, overload
from weakref import WeakValueDictionary

from roamlet.sync._native import Lock, RLock

# inspect.CO_GENERATOR, CO_COROUTINE and CO_ASYNC_GENERATOR, without importing a parser of Python for them.
_RUNS_LATER = 0x20 | 0x80 | 0x200

P = ParamSpec("P")
R = TypeVar("R")

# The lock of each section that somebody is in, waits for or keeps: it goes with the last of them.
_sections: WeakValueDictionary[object, RLock] = WeakValueDictionary()
_sections_guard = Lock()


def _lock_of(key: object) -> RLock:
    with _sections_guard:
        return _sections.setdefault(key, RLock())


class _Section:
    """A critical section: a context manager that can be used again, and a decorator."""

    __slots__ = ("_lock", "_name")

    def __init__(self, key: object, name: str) -> None:
        self._lock = _lock_of(key)
        self._name = name

    def __repr__(self) -> str:
        return f"<critical section {self._name}: {self._lock!r}>"

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        code = getattr(function, "__code__", None)
        if code is not None and code.co_flags & _RUNS_LATER:
            raise TypeError(
                f"critical_section cannot guard {function!r}: its body runs after the call has returned. "
                "Use `with critical_section():` inside it"
            )
        lock = self._lock

        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            with lock:
                return function(*args, **kwargs)

        return guarded


@overload
def critical_section(name: str | None = None, /) -> _Section: ...
@overload
def critical_section(function: Callable[P, R], /) -> Callable[P, R]: ...
def critical_section(what: str | Callable[P, R] | None = None, /) -> "_Section | Callable[P, R]":
    """Let one tasklet of the process at a time into a piece of code: `with critical_section():` or `@critical_section`.

    Sections with the same name are one section. Without a name each place in the source that says critical_section() is
    a section of its own, and each decorated function. Re-entrant: the tasklet that is inside may enter again. Entering
    blocks this tasklet while another one is inside, in any thread.
    """
    if isinstance(what, str):
        return _Section(what, repr(what))
    if what is None:
        caller = sys._getframe(1)
        code, place = caller.f_code, caller.f_lasti
        return _Section(
            (code.co_filename, code.co_qualname, code.co_firstlineno, place), f"at {code.co_filename}:{caller.f_lineno}"
        )
    if not callable(what):
        raise TypeError(f"critical_section() takes a name, or the function that it decorates, not {what!r}")
    return _Section(object(), f"of {what!r}")(what)
