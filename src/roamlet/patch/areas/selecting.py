"""The area `select`: select.select, select.poll and select.epoll, and the classes of selectors that stand on them.

Each looks without waiting, and when that finds nothing waits in the hub. poll and epoll look with the GIL kept, select asks the
original. An epoll is itself a descriptor, readable when it has events: what waits for one of several descriptors waits for an
epoll of them.
"""

import errno
import os
import select as standard
import selectors
import time
from collections.abc import Callable, Mapping
from typing import Any, Self

from roamlet.core import sleep
from roamlet.io import _native, _originals
from roamlet.patch.changes import Changes
from roamlet.patch.functions import stands_for

# Of poll(2); the same numbers as those of epoll.
_READ, _URGENT, _WRITE = 1, 2, 4

_INT_MAX = 2**31 - 1
_MOST_EVENTS = 1023  # what select.epoll.poll() returns where no limit is given
_LONGEST = 2**63 / 1e9  # seconds; select.select refuses more

# After a wait that found nothing, look again after these many seconds, doubling: where no epoll can be had, and where the kernel
# reports what was not asked for. epoll reports a peer's end and of errors always, select() only some of those who wait.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.02


class _Deadline:
    """The end of one wait: what is left until then, in seconds as the hub takes them."""

    __slots__ = ("_end", "_pause")

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds
        self._pause = _FIRST_PAUSE

    def left(self) -> float | None:
        return None if self._end is None else max(self._end - time.monotonic(), 0.0)

    def pause(self) -> bool:
        """Block this tasklet for a moment. False when the time is over."""
        left = self.left()
        sleep(self._pause if left is None else min(self._pause, left))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return left != 0


def _wait(interest: Mapping[int, int], deadline: _Deadline) -> bool:
    """Block this tasklet until some of `interest`, events by descriptor, may have happened. False when the time is over."""
    if len(interest) == 1:
        ((fd, events),) = interest.items()
        if events in (_READ, _WRITE):
            return _native.may_be_ready(fd, events == _WRITE, deadline.left())
    try:
        together = _originals.epoll()
    except (OSError, TypeError):  # no descriptor is left, or the platform has none
        return True
    with together:
        for fd, events in interest.items():
            try:
                together.register(fd, events)
            except PermissionError:  # a regular file: nothing will happen there that has not happened
                continue
            except OSError:  # it is not open: the original says so
                return True
        return _native.may_be_ready(together.fileno(), False, deadline.left())


def _seconds(timeout: Any, unit: float, most: float, refuse: Callable[[Any], object]) -> float | None:
    """A time-out in seconds, None for a wait without limit. `refuse`, the original, has the word where it is not a time-out."""
    if timeout is None:
        return None
    if not isinstance(timeout, (float, int)):
        if not hasattr(type(timeout), "__index__"):
            refuse(timeout)
        timeout = timeout.__index__()
    if not timeout * unit <= most:  # NaN too
        refuse(timeout)
    return float(timeout * unit)


def _number(descriptor: Any) -> int:
    return descriptor if isinstance(descriptor, int) else int(descriptor.fileno())


# ---- select ----


@stands_for(_originals.select)
def select(rlist: Any, wlist: Any, xlist: Any, timeout: Any = None, /) -> tuple[list[Any], list[Any], list[Any]]:
    seconds = _seconds(timeout, 1, _LONGEST, _refuse_timeout)
    if seconds is not None and seconds < 0:
        _refuse_timeout(timeout)
    # An iterator can be asked for its values once. A list is passed on as it is: a fileno() may change it, which is allowed.
    rlist, wlist, xlist = (
        each if isinstance(each, (list, tuple, set)) else list(each) for each in (rlist, wlist, xlist)
    )
    _native.let_others_run()
    found = _originals.select(rlist, wlist, xlist, 0)
    if seconds == 0 or any(found):
        return found
    deadline = _Deadline(seconds)
    watched = [[(thing, _number(thing)) for thing in things] for things in (rlist, wlist, xlist)]
    while True:
        interest: dict[int, int] = {}
        for pairs, events in zip(watched, (_READ, _WRITE, _URGENT), strict=True):
            for _, fd in pairs:
                interest[fd] = interest.get(fd, 0) | events
        in_time = _wait(interest, deadline)
        found = _look(watched)
        if any(found) or not (in_time and deadline.pause()):
            return found


def _look(watched: list[list[tuple[Any, int]]]) -> tuple[list[Any], list[Any], list[Any]]:
    """What is ready of things and their descriptors. Of several, those that were closed meanwhile are, as the kernel has it."""
    numbers: Any = [[fd for _, fd in pairs] for pairs in watched]
    closed: set[int] = set()
    try:
        found = _originals.select(numbers[0], numbers[1], numbers[2], 0)
    except OSError as error:
        closed = {fd for each in numbers for fd in each if not _is_open(fd)}
        still: Any = [[fd for fd in each if fd not in closed] for each in numbers]
        if error.errno != errno.EBADF or not closed or not any(still):
            raise
        found = _originals.select(still[0], still[1], still[2], 0)
    reading, writing, urgent = (
        [thing for thing, fd in pairs if fd in ready or fd in closed]
        for pairs, ready in zip(watched, found, strict=True)
    )
    return reading, writing, urgent


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _refuse_timeout(timeout: Any) -> None:
    _originals.select([], [], [], timeout)


# ---- poll ----


class _Poll:
    """What select.poll() returns."""

    __slots__ = ("__weakref__", "_busy", "_interest", "_original")

    _original: Any
    _interest: dict[int, int]
    _busy: bool

    def __new__(cls, *_: object, **__: object) -> Self:
        raise TypeError("cannot create 'select.poll' instances")

    @classmethod
    def made(cls) -> "_Poll":
        self = object.__new__(cls)
        self._original = _originals.poll()
        self._interest = {}
        self._busy = False
        return self

    def register(self, fd: Any, eventmask: int = _READ | _URGENT | _WRITE, /) -> None:
        self._original.register(fd, eventmask)
        self._interest[_number(fd)] = int(eventmask)

    def modify(self, fd: Any, eventmask: int, /) -> None:
        self._original.modify(fd, eventmask)
        self._interest[_number(fd)] = int(eventmask)

    def unregister(self, fd: Any, /) -> None:
        self._original.unregister(fd)
        self._interest.pop(_number(fd), None)

    def poll(self, timeout: Any = None, /) -> list[tuple[int, int]]:
        if self._busy:
            raise RuntimeError("concurrent poll() invocation")
        seconds = _seconds(timeout, 0.001, _INT_MAX / 1000, self._original.poll)
        if seconds is not None and seconds < 0:
            seconds = None
        self._busy = True
        try:
            _native.let_others_run()
            found = _native.poll_now(self._interest)
            if seconds == 0 or found:
                return found
            deadline = _Deadline(seconds)
            while True:
                in_time = _wait(dict(self._interest), deadline)
                found = _native.poll_now(self._interest)
                if found or not (in_time and deadline.pause()):
                    return found
        finally:
            self._busy = False


_Poll.__module__, _Poll.__name__, _Poll.__qualname__ = standard.__name__, "poll", "poll"


# ---- epoll ----


class epoll:
    """select.epoll, whose poll() blocks one tasklet only."""

    __slots__ = ("__weakref__", "_original", "fileno", "modify", "register", "unregister")

    _original: Any

    def __init__(self, sizehint: int = -1, flags: int = 0) -> None:
        self._take(_originals.epoll(sizehint, flags))

    @classmethod
    def fromfd(cls, fd: int, /) -> Self:
        """Make an epoll object of a descriptor."""
        self = cls.__new__(cls)
        self._take(_originals.epoll.fromfd(fd))
        return self

    def _take(self, original: Any) -> None:
        self._original = original
        self.fileno: Any = original.fileno
        self.register: Any = original.register
        self.modify: Any = original.modify
        self.unregister: Any = original.unregister

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return bool(self._original.closed)

    def close(self) -> None:
        """Close it; poll() of a tasklet that waits raises ValueError."""
        if not self._original.closed:
            _native.let_go(self._original.fileno())
        self._original.close()

    def __enter__(self) -> Self:
        self._original.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def poll(self, timeout: Any = None, maxevents: int = -1) -> list[tuple[int, int]]:
        """Wait `timeout` seconds, or without a limit (None or negative), for events; return at most `maxevents` of them."""
        seconds = _seconds(timeout, 1, _INT_MAX / 1000, self._original.poll)
        if seconds is not None and seconds < 0:
            seconds = None
        _native.let_others_run()
        found = self._look(maxevents)
        if found or seconds == 0:
            return found
        deadline = _Deadline(seconds)
        while True:
            in_time = _native.may_be_ready(self._original.fileno(), False, deadline.left())
            found = self._look(maxevents)
            if found or not in_time:
                return found

    def _look(self, maxevents: int) -> list[tuple[int, int]]:
        if self._original.closed or type(maxevents) is not int or not (maxevents == -1 or 0 < maxevents < _MOST_EVENTS):
            found: list[tuple[int, int]] = self._original.poll(0, maxevents)  # it has the word about what it refuses
            return found
        return _native.epoll_now(self._original.fileno(), _MOST_EVENTS if maxevents == -1 else maxevents)


epoll.__module__ = standard.__name__


def apply(changes: Changes) -> None:
    """Replace what the platform has of select, poll and epoll, and let the classes of selectors use them."""
    changes.replace(standard, "select", select)
    changes.replace(selectors.SelectSelector, "_select", select)
    if _originals.poll is not None:
        poll = stands_for(_originals.poll)(_Poll.made)
        changes.replace(standard, "poll", poll)
        changes.replace(selectors.PollSelector, "_selector_cls", poll)
    if _originals.epoll is not None:
        changes.replace(standard, "epoll", epoll)
        changes.replace(selectors.EpollSelector, "_selector_cls", epoll)
