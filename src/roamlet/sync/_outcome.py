"""How a function that runs in a tasklet of its own ends: its result, or its error, for any caller in any thread.

Nothing of roamlet's refers to an error any longer than until it has been raised for somebody. So it makes no reference cycle,
whatever the frames in its traceback refer to; and two who ask never share one traceback.
"""

import copy
import sys
import traceback
from typing import Generic, TypeVar

from roamlet.core import RoamletError, os_threads, tasklet
from roamlet.sync._native import Event

T = TypeVar("T")

PLACES = 8  # how many calls an error that was taken by somebody else still names


class TaskletKilled(RoamletError, RuntimeError):
    """What is joined was ended before it had a result: killed, cancelled, or with its thread."""

    __module__ = "roamlet"  # where users find it


class Outcome(Generic[T]):
    """What came of a function. Settled once, then `ended` is set. Thread-safe."""

    __slots__ = ("__weakref__", "_again", "_error", "_places", "_result", "_thread", "_why", "ended")

    def __init__(self) -> None:
        self.ended: Event = Event()
        self._result: list[T] = []
        self._error: list[BaseException] = []  # until somebody takes it: pop() decides between threads
        self._again: BaseException | None = None  # what the others get in its place
        self._places: list[str] = []
        self._why = ""  # there is neither: why
        self._thread = 0

    def succeed(self, result: T) -> None:
        """Settle with what the function returned."""
        self._result.append(result)
        self.ended.set()

    def fail(self, error: BaseException, *, taken: bool = False) -> None:
        """Settle with the error that the function raised. `taken`: somebody else sees to it that it is raised."""
        self._again = duplicate(error) or RuntimeError(f"{error!r}, of which there is no second one")
        self._places = places(error)
        self._thread = os_threads.get_ident()
        if not taken:
            self._error.append(error)
        self.ended.set()

    def give_up(self, why: str) -> None:
        """Settle with neither: join() raises TaskletKilled, which says why."""
        self._why = why
        self.ended.set()

    def reopen(self) -> None:
        """It was settled with an error, and goes on after all: join() waits for its new outcome."""
        self._error.clear()
        self._again = None
        self.ended.clear()

    def get(self) -> T:
        """Return what the function returned, or raise its error. After the end only."""
        if self._result:
            return self._result[0]
        try:
            raise self._taken()
        finally:
            del self

    def _taken(self) -> BaseException:
        if self._again is None:
            return TaskletKilled(self._why)
        try:
            return self._error.pop()
        except IndexError:
            error = duplicate(self._again) or self._again
        error.add_note("It was raised for somebody else first, and comes from:" + "".join(self._places))
        return error

    def __del__(self) -> None:
        if self._error and (sys.is_finalizing() or not raise_in_main(self._error, self._thread)):
            try:
                raise self._error.pop()  # out of a __del__ method: it is printed
            finally:
                del self


def duplicate(error: BaseException) -> BaseException | None:
    """An error like this one, without its traceback, cause and context; None when it cannot be copied.

    May call its constructor.
    """
    kind = type(error)
    try:
        twin = copy.copy(error)
    except Exception:  # its constructor wants something else than `args`
        twin = error
    if type(twin) is not kind or twin is error:
        try:
            twin = kind.__new__(kind, *error.args)
            twin.__dict__.update(error.__dict__)
        except Exception:
            return None
    twin.__traceback__ = twin.__context__ = twin.__cause__ = None
    if hasattr(error, "__notes__"):
        twin.__notes__ = list(error.__notes__)
    return twin


def alike(error: BaseException) -> BaseException | None:
    """An error with the traceback, cause and context of this one, to be raised while somebody keeps this; None as `duplicate`.

    To raise a stored error would be a reference cycle wherever a frame that it passes refers to the store.
    """
    twin = duplicate(error)
    if twin is None:
        return None
    twin.__cause__, twin.__context__ = error.__cause__, error.__context__
    twin.__suppress_context__ = error.__suppress_context__
    return twin.with_traceback(error.__traceback__)


def places(error: BaseException) -> list[str]:
    """A line for each call that the error's traceback leads through, the outermost first; the innermost few."""
    return [
        f'\n  File "{frame.f_code.co_filename}", line {line}, in {frame.f_code.co_name}'
        for frame, line in traceback.walk_tb(error.__traceback__)
    ][-PLACES:]


def raise_in_main(error: list[BaseException], thread: int) -> bool:
    """Take the one error, that no join() has asked for, and let it be raised where that of a plain tasklet is: in the main tasklet.

    Never switches. False, and the error left, where that thread has ended.
    """
    report = _Report()
    reporter = tasklet(report, ())
    try:
        reporter.bind_thread(thread)
        reporter.insert()
    except (RuntimeError, ValueError):
        return False
    report.error.append(error.pop())
    return True


class _Report:
    """A function that raises an error. When it is dropped uncalled, at the end of a thread, the error is printed."""

    __slots__ = ("__qualname__", "error")

    def __init__(self) -> None:
        self.error: list[BaseException] = []
        self.__qualname__ = "raise_in_main"

    def __call__(self) -> None:
        try:
            raise self.error.pop()
        finally:
            del self

    def __del__(self) -> None:
        if self.error:
            self()
