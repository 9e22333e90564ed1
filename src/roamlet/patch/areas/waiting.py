"""The area `signals`: signal.sigwait, sigwaitinfo, sigtimedwait and pause block one tasklet.

Signal handlers run while tasklets wait, without any patch: in the main thread, in the tasklet that waited last, and
what a handler raises (KeyboardInterrupt) is raised there or in the main tasklet.
"""

import os
import select
import signal
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic
from typing import Any

from roamlet.core import os_threads, survey
from roamlet.io import _native
from roamlet.patch._asking import pauses
from roamlet.patch._handlers import sleep
from roamlet.patch.changes import Changes

_pause = getattr(signal, "pause", None)
_poll = select.poll
_sigtimedwait: Any = getattr(signal, "sigtimedwait", None)


def apply(changes: Changes) -> None:
    """Replace what waits for a signal; what the platform does not have stays absent."""
    if _pause is not None and hasattr(signal, "set_wakeup_fd"):
        changes.replace(signal, "pause", pause)
    if _sigtimedwait is not None:
        changes.replace(signal, "sigwait", sigwait)
        changes.replace(signal, "sigwaitinfo", sigwaitinfo)
        changes.replace(signal, "sigtimedwait", sigtimedwait)


def sigwait(sigset: Iterable[int], /) -> signal.Signals | int:
    """signal.sigwait: block this tasklet until one of these signals, which are to be blocked, is pending; take and return it."""
    number: int = sigwaitinfo(sigset).si_signo
    try:
        return signal.Signals(number)
    except ValueError:  # a real-time signal has no name
        return number


def sigwaitinfo(sigset: Iterable[int], /) -> Any:
    """signal.sigwaitinfo: like sigwait, but return what is known of the signal."""
    return _wait(tuple(sigset), None)


def sigtimedwait(sigset: Iterable[int], timeout: float, /) -> Any:
    """signal.sigtimedwait: like sigwaitinfo, but return None after `timeout` seconds."""
    numbers = tuple(sigset)
    found = _sigtimedwait(numbers, min(timeout, 0))  # ValueError for a negative one
    return found if found is not None or timeout == 0 else _wait(numbers, timeout)


# The seconds that a thread with one tasklet waits in the kernel at once: limits of roamlet.timeout come late by so much at most.
_AT_ONCE = 0.1


def _wait(numbers: tuple[int, ...], timeout: float | None) -> Any:
    """Wait for one of these signals; None when `timeout` seconds have passed.

    While this thread has no other tasklet it waits in the kernel, as without the patch, and
    gets signals too that other threads do not block, or that have a handler. Where it only asks, those go their own way.
    """
    deadline = None if timeout is None else monotonic() + timeout
    for pause in pauses():
        left = None if deadline is None else max(deadline - monotonic(), 0)
        alone = _alone()
        found = _sigtimedwait(numbers, (_AT_ONCE if left is None else min(left, _AT_ONCE)) if alone else 0)
        if found is not None or left == 0:
            return found
        sleep(0 if alone else pause if left is None else min(pause, left))
    raise AssertionError("pauses() has no end")


def _alone() -> bool:
    """Whether this thread has no tasklet but the one that calls, and no timer."""
    ident = os_threads.get_ident()
    for thread, _, current, idle, runnable, timers, *_, others, _, _ in survey(False):
        if thread == ident:
            return current is not None and not idle and not others and (runnable, timers) == (1, 0)
    return True  # it has not used roamlet


class _Listener:
    """A pipe by which the main thread's tasklets in pause() are told of a signal that has a handler: all those of one signal."""

    def __init__(self) -> None:
        self.pausing = 0
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        os.set_blocking(self.write_fd, False)

    def told(self) -> bool:
        """Whether a signal has come, which those that pause from now on do not wait for."""
        poll = _poll()
        poll.register(self.read_fd, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Hand on the signals that have come to the descriptor that was told before pause()."""
        with suppress(OSError):  # none has come; or that descriptor is full or closed, which C ignores too
            numbers = os.read(self.read_fd, 4096)
            if _previous[0] >= 0:
                os.write(_previous[0], numbers)
        _native.close(self.read_fd)
        os.close(self.write_fd)


# The newest is the one that is told. The descriptor that was told before the first came.
_listeners: list[_Listener] = []
_previous = [-1]


def pause() -> None:
    """signal.pause: block this tasklet until a signal that has a handler has come; the handler has run by then.

    In the main thread. In another one, which runs no handlers, the whole thread waits, as without the patch. While it waits,
    signals are told to the descriptor of signal.set_wakeup_fd() at its end.
    """
    assert _pause is not None
    if not os_threads.in_main_thread():
        _pause()
        return
    if not _listeners or _listeners[-1].told():
        _listeners.append(listener := _Listener())
        current = signal.set_wakeup_fd(listener.write_fd, warn_on_full_buffer=False)
        if len(_listeners) == 1:
            _previous[0] = current
    listener = _listeners[-1]
    listener.pausing += 1
    try:
        _native.wait_readable(listener.read_fd)
    finally:
        listener.pausing -= 1
        if listener.pausing == 0:
            _leave(listener)


def _leave(listener: _Listener) -> None:
    _listeners.remove(listener)
    current = signal.set_wakeup_fd(-1)
    if current == listener.write_fd:
        current = _listeners[-1].write_fd if _listeners else _previous[0]
    if current >= 0:
        signal.set_wakeup_fd(current, warn_on_full_buffer=False)
    listener.close()
