"""Whose turn it is to read what a context sends: its reader's, or a caller's who makes one quick call after the other.

Through the reader, an answer costs two wakings of threads: of the one that all links share, and of the caller's. After a
row of quick calls the reader rests, and the caller reads his answer himself. He takes nothing else. Whatever is not exactly
that (another frame, half a frame, the end) he leaves to the reader, who goes on with it at once; so there is one place
alone that handles all those.
"""

import errno
import os
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from roamlet import io
from roamlet.core import Waiter, getruncount, sleep
from roamlet.remote.link.process import Process

T = TypeVar("T")

QUICK_CALLS = 8  # in a row, until the reader rests
SOON = 0.001  # seconds between their answers
LOOK = 0.005  # seconds that the reader rests when nobody makes use of it; what comes unasked waits for as long
LONGEST = 0.002  # seconds that a caller waits for his answer himself
SPIN = 50e-6  # seconds that he looks for it without going to sleep: sleeping and waking costs as much CPU time as that
VAIN = 4  # times that nothing came meanwhile, until he leaves it
LEFT = 32  # times that he does so, until he tries once more
CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Turn:
    """The right to read the pipe of one link. Who has it is changed under the link's lock alone."""

    # Not looked up in their module, where tests of users put clocks that stand still.
    _now = staticmethod(time.monotonic)
    _precisely_now = staticmethod(time.perf_counter)

    def __init__(self, process: Process) -> None:
        self.caller: int | None = None  # the number of the call whose caller may read
        self.rests = False  # the reader does
        self._process = process
        self._wake: Waiter[None] = Waiter()
        self._wanted = False  # the reader is to go on
        self.unread: list[bytes] = []  # what a caller has read, and nobody has taken yet
        self._used = 0  # how often callers have read their answers
        self._row = 0  # of quick calls
        self._last = 0.0
        self._in_vain = 0

    # ---- the reader

    def answered(self, *, alone: bool) -> None:
        """The reader has brought an answer; `alone`: no other call is under way."""
        now = self._now()
        self._row = self._row + 1 if alone and now - self._last < SOON else 0
        self._last = now

    @property
    def may_rest(self) -> bool:
        """Whether there was a row of quick calls."""
        return self._row >= QUICK_CALLS

    def rest(self, lock: threading.Lock, idle: Callable[[], bool]) -> bytes:
        """Let callers read for as long as they do; return what they have read that is not theirs. Takes `lock`, the link's.

        `idle()`: whether nobody waits for an answer. Blocks the reader's tasklet. Ends within LOOK after the last use, also when a
        caller never comes back: an interrupt may strike him anywhere.
        """
        while True:
            with lock:
                if self._wanted or not (idle() or self.caller is not None):
                    return self._go_on()
                self.rests = True
                wake = self._wake = Waiter()
                used = self._used
            try:
                wake.wait(LOOK)
            except TimeoutError:
                with lock:
                    if self._used == used:
                        return self._go_on()

    def _go_on(self) -> bytes:
        self.rests = self._wanted = False
        self.caller = None
        self._row = 0
        unread = b"".join(self.unread)
        self.unread.clear()
        return unread

    def want_reader(self) -> None:
        """Somebody waits for what only the reader brings: let it go on; if a caller has the turn, behind him."""
        if self.rests:
            self._wanted = True
            if self.caller is None:
                self._wake.succeed()

    # ---- the caller

    def take(self, number: int) -> bool:
        """Whether the caller of the call `number`, the only one under way, may read. He must look, or give the turn back."""
        if self.rests and not self._wanted and self.caller is None and getruncount() == 1:
            self.caller = number
            return True
        return False

    def give_back(self, *, used: bool) -> None:
        """The caller has taken his answer out of `unread`, if `used`; else the reader goes on, with what is in there."""
        self.caller = None
        if used:
            self._used += 1
        else:
            self._wanted = True
        if self._wanted:
            self._wake.succeed()

    def watch(self, look: Callable[[], T | None]) -> T | None:
        """Call `look` until it finds something, and return that; None when nothing has come for a while.

        Blocks the caller's tasklet; for SPIN seconds also its thread, while no other tasklet is runnable in that.
        """
        # Or a row of calls that all find their answers would keep the thread from timers, descriptors and kills.
        sleep(0)
        found = self._spin(look) if getruncount() == 1 else None
        if found is None:
            until = self._now() + LONGEST
            try:
                io.wait_readable(self._process.up, LONGEST)
            except TimeoutError:
                if self._now() < until:
                    raise  # it is somebody else's: thrown into this tasklet, or by a signal's handler
                return None
            except OSError as error:
                if error.errno != errno.EBADF:
                    raise
                return None  # it was closed
            found = look()
        return found

    def _spin(self, look: Callable[[], T | None]) -> T | None:
        if CPUS == 1 or self._in_vain >= VAIN:
            self._in_vain = self._in_vain + 1 if self._in_vain < VAIN + LEFT else VAIN - 1
            return None
        until = self._precisely_now() + SPIN
        while True:
            found = look()
            if found is not None:
                self._in_vain = 0
                return found
            if self._precisely_now() > until:
                self._in_vain += 1
                return None
