"""A clock that a test owns: time passes only while no tasklet can run."""

import threading
from types import TracebackType
from typing import Self

from roamlet import core


class VirtualClock:
    """Time for every timer of roamlet: it stands still while tasklets run, and jumps to the next timer when none can.

    For the length of a `with` block, `roamlet.sleep`, timeouts, deadlines of scopes and timed waits of locks, queues and channels
    follow this clock, in all threads; `time.monotonic()` and the sockets' own time limits do not. A test that waits an hour takes
    no time, and always the same. Only one can be in use at a time: RuntimeError for a second one. `start` is the time in seconds
    at which it begins.
    """

    _in_use = threading.Lock()

    def __init__(self, start: float = 1000.0) -> None:
        if start < 0:
            raise ValueError(f"a clock starts at 0 seconds or later, not at {start!r}")
        self.now: float = start
        """Seconds. A test may set it to a later time itself; timers that are due then end when tasklets next wait."""
        self.jumps: list[float] = []
        """The length in seconds of each jump so far, in order."""
        self._start = start

    @property
    def elapsed(self) -> float:
        """The seconds that have passed on this clock since it was made."""
        return self.now - self._start

    def __enter__(self) -> Self:
        if not self._in_use.acquire(blocking=False):
            raise RuntimeError("a VirtualClock is in use already, for all threads: leave its block first")
        core.set_clock(self._read, self._advance)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        core.set_clock()
        self._in_use.release()

    def _read(self) -> float:
        return self.now

    def _advance(self, seconds: float) -> None:
        self.jumps.append(seconds)
        self.now += seconds
