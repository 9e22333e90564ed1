"""Inline reading: a caller that makes one quick call after the other reads its answer itself, in place of the link's reader.

Through the reader, an answer costs two wakings of threads: of the one that all links share, and of the caller's. After a
row of quick calls the reader pauses, and the caller reads its own answer and nothing else. Whatever is not exactly that (another
frame, half a frame, the end) is left to the reader, which goes on with it at once; so all those are handled in one place.
"""

import errno
import os
import time
from _thread import LockType
from collections.abc import Callable
from typing import Literal, TypeVar

from roamlet import io
from roamlet.core import Waiter, getruncount, sleep
from roamlet.remote.link.frames import ROOT
from roamlet.remote.link.inflight import Answer, InFlight
from roamlet.remote.link.process import Process
from roamlet.wire import protocol

T = TypeVar("T")

QUICK_CALLS = 8  # in a row, before the reader pauses
QUICK = 0.001  # seconds between their answers
PAUSE = 0.005  # seconds that the reader pauses when no caller reads; other frames wait for as long
LONGEST_WAIT = 0.002  # seconds that a caller waits for its answer itself
SPIN = 50e-6  # seconds that it polls without going to sleep: sleeping and waking costs as much CPU time as that
FAILED_SPINS = 4  # polls in a row that found nothing, after which callers stop polling
SKIPPED_SPINS = 32  # how many callers then sleep without polling before one polls again
READ_SIZE = 1 << 16  # bytes; more would come from mmap and go back with munmap, for each read
CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class InlineReader:
    """Decides whether the reader of one link or a caller reads its pipe, and reads for the caller.

    `caller` is the number of the call whose caller may read, or None; `paused` says whether the reader is. Both change under the
    link's lock alone, which is that of `in_flight`. `bytes_up` counts what callers have read.
    """

    __slots__ = (
        *(
            "_failed_spins",
            "_identifier",
            "_in_flight",
            "_last",
            "_process",
            "_resumes",
            "_row",
            "_unread",
            "_used",
            "_wake",
        ),
        *("bytes_up", "caller", "paused"),
    )

    # Not looked up in their module, where tests of users put clocks that stand still.
    _now = staticmethod(time.monotonic)
    _precisely_now = staticmethod(time.perf_counter)

    def __init__(self, process: Process, in_flight: InFlight, identifier: int) -> None:
        self.caller: int | None = None
        self.paused: bool = False
        self.bytes_up: int = 0
        self._process = process
        self._in_flight = in_flight
        self._identifier = identifier
        self._wake: Waiter[None] = Waiter()
        self._resumes = False  # the reader is to go on
        self._unread: list[bytes] = []  # what a caller has read and not taken
        self._used = 0  # how often callers have read their answers
        self._row = 0  # of quick calls
        self._last = 0.0
        self._failed_spins = 0

    # ---- the reader

    def answered(self, *, alone: bool) -> None:
        """Note that the reader has read an answer; `alone`: no other call is in flight."""
        now = self._now()
        self._row = self._row + 1 if alone and now - self._last < QUICK else 0
        self._last = now

    @property
    def may_pause(self) -> bool:
        """Whether there was a row of quick calls."""
        return self._row >= QUICK_CALLS

    def pause(self, lock: LockType, idle: Callable[[], bool]) -> bytes:
        """Let callers read for as long as they do; return what they have read that is not theirs. Takes `lock`, the link's.

        `idle()` says whether no call is in flight. Blocks the reader's tasklet. Ends within PAUSE after the last use, also when a
        caller never comes back: an interrupt may strike it anywhere.
        """
        while True:
            with lock:
                if self._resumes or not (idle() or self.caller is not None):
                    return self._resume()
                self.paused = True
                wake = self._wake = Waiter()
                used = self._used
            try:
                wake.wait(PAUSE)
            except TimeoutError:
                with lock:
                    if self._used == used:
                        return self._resume()

    def _resume(self) -> bytes:
        self.paused = False
        self._resumes = False
        self.caller = None
        self._row = 0
        unread = b"".join(self._unread)
        self._unread.clear()
        return unread

    def want_reader(self) -> None:
        """Let the reader go on, after the caller that reads now: only the reader takes what will come. Under the lock."""
        if self.paused:
            self._resumes = True
            if self.caller is None:
                self._wake.succeed()

    # ---- the caller

    def grant(self, number: int) -> bool:
        """Whether the caller of the call `number`, the only one in flight, may read. It must then `read`, or `release`."""
        if self.paused and not self._resumes and self.caller is None and getruncount() == 1:
            self.caller = number
            return True
        return False

    def release(self, *, used: bool) -> None:
        """End the caller's reading. `used`: it took its answer; else the reader goes on, with what was read. Under the lock."""
        self.caller = None
        if used:
            self._used += 1
        else:
            self._resumes = True
        if self._resumes:
            self._wake.succeed()

    def read(self, number: int) -> Answer | None:
        """Read the answer to the call `number`, which was granted. None when something else came first, or nothing.

        Blocks this tasklet, for some milliseconds at most.
        """
        try:
            found: Answer | Literal[False] | None = self._watch(lambda: self._poll(number))
            return found or None
        finally:
            if self.caller == number:
                with self._in_flight.lock:
                    if self.caller == number:
                        self.release(used=False)

    def _poll(self, number: int) -> Answer | Literal[False] | None:
        """The answer to the call; False if its caller may no longer read, None if nothing has come."""
        with self._in_flight.lock:
            if self.caller != number:
                return False
            # Into a list that the reader has, too: an exception of a signal's handler may come between any two of these steps.
            if not self._process.read_if_open(READ_SIZE, self._unread):
                return None
            (data,) = self._unread
            answer = self._answer_in(data, number)
            if answer is None:
                self.release(used=False)
                return False
            self._unread.clear()
            self.release(used=True)
            self._in_flight.calls.pop(number, None)
            self.bytes_up += len(data)
            return answer

    def _answer_in(self, data: bytes, number: int) -> Answer | None:
        """The answer to a call if the bytes are that, whole, and nothing else."""
        if len(data) < protocol.HEADER_SIZE:
            return None
        destination, source, its, length, kind = protocol.HEADER.unpack_from(data)
        if (
            (destination, source, its) != (ROOT, self._identifier, number)
            or kind not in (protocol.RESULT, protocol.ERROR)
            or length != len(data) - protocol.HEADER_SIZE
            or length > self._in_flight.largest_result
        ):
            return None
        return kind, data[protocol.HEADER_SIZE :]

    def _watch(self, poll: Callable[[], T | None]) -> T | None:
        """Call `poll` until it finds something, and return that; None when nothing has come for a while.

        Blocks the caller's tasklet; for SPIN seconds also its thread, while no other tasklet is runnable in that.
        """
        # Or a row of calls that all find their answers would keep the thread from timers, descriptors and kills.
        sleep(0)
        found = self._spin(poll) if getruncount() == 1 else None
        if found is None:
            until = self._now() + LONGEST_WAIT
            try:
                io.wait_readable(self._process.up, LONGEST_WAIT)
            except TimeoutError:
                if self._now() < until:
                    raise  # another time-out: thrown into this tasklet, or raised by a signal's handler
                return None
            except OSError as error:
                if error.errno != errno.EBADF:
                    raise
                return None  # it was closed
            found = poll()
        return found

    def _spin(self, poll: Callable[[], T | None]) -> T | None:
        if CPUS == 1 or self._failed_spins >= FAILED_SPINS:
            again = self._failed_spins >= FAILED_SPINS + SKIPPED_SPINS
            self._failed_spins = FAILED_SPINS - 1 if again else self._failed_spins + 1
            return None
        until = self._precisely_now() + SPIN
        while True:
            found = poll()
            if found is not None:
                self._failed_spins = 0
                return found
            if self._precisely_now() > until:
                self._failed_spins += 1
                return None
