"""Barrier: so many tasklets wait for one another, again and again."""

from collections.abc import Callable
from threading import BrokenBarrierError

from roamlet.sync._native import Condition, Lock


class _Round:
    """One filling of a barrier. A waiting tasklet looks at the round that it joined, whatever happens to the barrier meanwhile."""

    __slots__ = ("arrived", "broken", "full")

    def __init__(self, broken: bool = False) -> None:
        self.arrived = 0
        self.full = False
        self.broken = broken


class Barrier:
    """Let `parties` tasklets wait for one another, as threading.Barrier: all go on when the last of them has come.

    `action`, if given, is called by the last one before the others go on. `timeout` is what wait() takes when it is called
    without one. ValueError for less than one party. Thread-safe.
    """

    def __init__(self, parties: int, action: Callable[[], object] | None = None, timeout: float | None = None) -> None:
        if parties < 1:
            raise ValueError(f"parties must be > 0: it says how many wait for one another, not {parties!r}")
        self._cond = Condition(Lock())
        self._action = action
        self._timeout = timeout
        self._parties = parties
        self._round = _Round()

    def __repr__(self) -> str:
        state = "broken" if self.broken else f"waiters={self.n_waiting}/{self.parties}"
        module = type(self).__module__.removeprefix("roamlet.")
        return f"<{module}.{type(self).__qualname__} at {id(self):#x}: {state}>"

    def wait(self, timeout: float | None = None) -> int:
        """Wait until all parties have come; return which one the caller is, from 0 for the first to parties - 1.

        Blocks this tasklet, at most `timeout` seconds. BrokenBarrierError when the barrier is broken, or becomes so: because
        the time of one party was up or it was killed while it waited, because the action raised, or by abort() and reset().
        """
        if timeout is None:
            timeout = self._timeout
        with self._cond:
            joined = self._round
            if joined.broken:
                raise BrokenBarrierError
            index = joined.arrived
            joined.arrived += 1
            if joined.arrived == self._parties:
                self._complete(joined)
            else:
                self._wait_for_others(joined, timeout)
            return index

    def _complete(self, joined: _Round) -> None:
        try:
            if self._action is not None:
                self._action()
        except BaseException:
            self._break(joined)
            raise
        joined.full = True
        self._round = _Round()
        self._cond.notify_all()

    def _wait_for_others(self, joined: _Round, timeout: float | None) -> None:
        try:
            in_time = self._cond.wait_for(lambda: joined.full or joined.broken, timeout)
        except BaseException:
            if not joined.full:  # the others would wait for one that does not come any more
                self._break(joined)
            raise
        if not in_time:
            self._break(joined)
        if joined.broken:
            raise BrokenBarrierError

    def _break(self, joined: _Round) -> None:
        joined.broken = True
        self._cond.notify_all()

    def reset(self) -> None:
        """Make the barrier new, also when it is broken; those who wait get BrokenBarrierError. Never switches for long."""
        with self._cond:
            left = self._round
            self._round = _Round()
            self._break(left)

    def abort(self) -> None:
        """Break the barrier: those who wait, and all who come, get BrokenBarrierError until reset()."""
        with self._cond:
            self._break(self._round)

    @property
    def parties(self) -> int:
        """How many wait for one another."""
        return self._parties

    @property
    def n_waiting(self) -> int:
        """How many have come and wait."""
        return 0 if self._round.broken else self._round.arrived

    @property
    def broken(self) -> bool:
        """Whether wait() raises BrokenBarrierError."""
        return self._round.broken


Barrier.__module__ = "roamlet.sync"
