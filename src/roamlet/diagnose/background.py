"""Threads of roamlet.diagnose's own, each of which answers signals or looks now and then. None of them outlives a fork.

Before a fork they end, and both sides start them again: CPython warns of a fork while other threads run. They count as roamlet's
own, which hide no deadlock, and are left out of what they print.
"""

import os
import posix
import select
import sys
from collections.abc import Callable
from typing import Protocol

from roamlet.core import mark_service_thread, os_threads
from roamlet.io import _originals

NAME = "roamlet-service-diagnose"
PATIENCE = 1.0  # seconds that a fork, or the end of the interpreter, waits for one to end

_active: "list[Background]" = []  # in the order of their start


class Background:
    """A thread that runs `step(seconds)` until that returns None: it returns the seconds until its next call.

    stop() ends it, from any thread, its own too; so does an error of `step`, which is reported.
    """

    def __init__(self, step: Callable[[], float | None], first: float) -> None:
        self._step = step
        self._first = first
        self._bell = os_threads.allocate_lock()
        self._thread: os_threads.OSThread | None = None

    def start(self) -> None:
        _active.append(self)
        self.begin()

    def stop(self) -> None:
        """End it; wait for its thread. Idempotent."""
        if self in _active:
            _active.remove(self)
        self.pause()
        self._step = _nothing  # the one before refers to what holds this object

    @property
    def running(self) -> bool:
        return self in _active

    def begin(self) -> None:
        self._bell = os_threads.allocate_lock()
        self._bell.acquire()
        self._thread = os_threads.OSThread(target=self._run, name=NAME, daemon=True)
        self._thread.start()

    def pause(self) -> None:
        thread, self._thread = self._thread, None
        if self._bell.locked():
            self.wake()
        if thread is not None and thread.ident != os_threads.get_ident():
            thread.join(PATIENCE)

    def forked(self) -> None:
        """In the parent after a fork: prepare for begin()."""

    def forget(self) -> None:
        """In a forked child: prepare for begin()."""

    def wake(self) -> None:
        """Let wait() return at once."""
        try:
            self._bell.release()
        except RuntimeError:  # another thread was quicker
            pass

    def wait(self, seconds: float) -> None:
        """Wait for `seconds`, or for wake()."""
        self._bell.acquire(timeout=seconds)

    def _run(self) -> None:
        mark_service_thread()
        seconds: float | None = self._first
        try:
            while seconds is not None:
                self.wait(seconds)
                if not self._is_mine():
                    return  # stopped, or there is a fork
                seconds = self._step()
        except BaseException:
            sys.excepthook(*sys.exc_info())
        if not self._is_mine():
            return
        if self in _active:
            _active.remove(self)
        self._thread = None
        self._step = _nothing

    def _is_mine(self) -> bool:
        """Whether this is the thread that is to run: one that took too long to end before a fork is not."""
        thread = self._thread
        return thread is not None and thread.ident == os_threads.get_ident()


class Attended(Protocol):
    """What a Listener waits for besides its pipe. All but close() is called in its thread, or while that does not run."""

    def events(self) -> dict[int, int]:
        """What to wait for, as for poll(), by descriptor."""

    def seconds(self) -> float | None:
        """How long to wait at most; None: for ever."""

    def attend(self, ready: set[int]) -> None:
        """These descriptors are ready, or the time has passed."""

    def forked(self) -> None:
        """In the parent, after a fork."""

    def forget(self) -> None:
        """In a forked child, before the thread begins again: what is the parent's is to be let go."""

    def close(self) -> None:
        """It is not waited for any longer."""


class Listener(Background):
    """A thread that waits for bytes in a pipe and gives each to `answer`. `descriptor`: the end of the pipe to write to.

    `moved` is called in a forked child, in which the pipe is another one. `attended` is waited for in the same thread; it is
    closed with the Listener.
    """

    def __init__(
        self, answer: Callable[[int], object], moved: Callable[[int], object], attended: Attended | None = None
    ) -> None:
        super().__init__(lambda: 0.0, 0.0)
        self._answer = answer
        self._moved = moved
        self._attended = attended
        self._ends = _pipe()

    @property
    def descriptor(self) -> int:
        return self._ends[1]

    def forked(self) -> None:
        if self._attended is not None:
            self._attended.forked()

    def forget(self) -> None:
        # The parent's would take what is meant for the child.
        for end in self._ends:
            os.close(end)
        self._ends = _pipe()
        self._moved(self.descriptor)
        if self._attended is not None:
            try:
                self._attended.forget()
            except OSError:
                self._attended = None

    def wake(self) -> None:
        try:
            os.write(self._ends[1], b"\0")
        except BlockingIOError:  # it is full: the thread is awake
            pass

    def stop(self) -> None:
        super().stop()
        for end in self._ends:
            os.close(end)
        attended, self._attended = self._attended, None
        if attended is not None:
            attended.close()

    def wait(self, seconds: float) -> None:
        if self._attended is not None and not self._attend():
            return
        # Not os.read, which may be a patched one that blocks a tasklet.
        byte = posix.read(self._ends[0], 1)
        if byte not in (b"", b"\0"):
            self._answer(byte[0])

    def _attend(self) -> bool:
        """Wait until there is something to do. Returns whether there is a byte; does what else there is."""
        attended = self._attended
        assert attended is not None
        poll = _originals.poll()
        poll.register(self._ends[0], select.POLLIN)
        for descriptor, events in attended.events().items():
            poll.register(descriptor, events)
        seconds = attended.seconds()
        ready = {descriptor for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000 + 1)}
        if self._ends[0] in ready:
            return True  # first: it may be that the thread is to end
        attended.attend(ready)
        return False


def _nothing() -> None:
    return None


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    os.set_blocking(ends[1], False)
    return ends


def _before_fork() -> None:
    for each in _active:
        each.pause()


def _after_in_parent() -> None:
    for each in _active:
        each.forked()
        each.begin()


def _after_in_child() -> None:
    for each in _active:
        each.forget()
        each.begin()


os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
