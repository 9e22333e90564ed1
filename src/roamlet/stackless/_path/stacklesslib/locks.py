"""Locks for tasklets, and for threads: roamlet.sync's, with the arguments that old programs give them.

A time-out of None or less than 0 is no limit. Nothing has to be pumped for time-outs to work.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from roamlet import channel, sync

from .base import SignalChannel, atomic
from .base import time as elapsed_time
from .errors import TimeoutError
from .util import _exception, channel_wait
from .util import timeout as limit
from .wait import WaitSite

__all__ = [
    "Barrier",
    "BoundedSemaphore",
    "BrokenBarrierError",
    "Condition",
    "Event",
    "Lock",
    "LockMixin",
    "NLCondition",
    "RLock",
    "Semaphore",
    "ValueEvent",
    "lock_channel_wait",
    "released",
    "set_channel_pref",
    "wait_for_condition",
]

T = TypeVar("T")

Barrier = sync.Barrier
BrokenBarrierError = sync.BrokenBarrierError


@contextmanager
def released(lock: Any) -> Iterator[None]:
    """Give a lock back while the `with` lasts."""
    lock.release()
    try:
        yield
    finally:
        lock.acquire()


def set_channel_pref(chan: Any) -> None:
    """Let the sender go on when it meets somebody at `chan`: a release() runs to its end before a waiting tasklet."""
    chan.preference = 1


def lock_channel_wait(chan: Any, timeout: float | None) -> bool:
    """Receive from `chan`, at most `timeout` seconds: whether something came."""
    try:
        channel_wait(chan, timeout)
    except TimeoutError:
        return False
    return True


def _seconds(blocking: bool, timeout: float | None) -> float | None:
    """A time-out as roamlet.sync wants it: None for no limit, and none in a call that does not block."""
    return timeout if blocking and timeout is not None and timeout >= 0 else None


class LockMixin:
    """`with` for what has acquire() and release()."""

    def __enter__(self) -> None:
        self.acquire()  # type: ignore[attr-defined]

    def __exit__(self, *_: object) -> None:
        self.release()  # type: ignore[attr-defined]


class Lock(LockMixin):
    """roamlet.sync.Lock. RuntimeError for a release() of a free lock, unlike in the old library."""

    def __init__(self) -> None:
        self._lock = sync.Lock()

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take the lock, waiting at most `timeout` seconds; whether it was taken. Blocks this tasklet only."""
        seconds = _seconds(blocking, timeout)
        return self._lock.acquire(bool(blocking), -1 if seconds is None else seconds)

    def release(self) -> None:
        """Give the lock back, whoever took it."""
        self._lock.release()

    def locked(self) -> bool:
        """Whether somebody holds it."""
        return self._lock.locked()


class RLock(sync.RLock):
    """roamlet.sync.RLock: a lock that the tasklet which holds it may take again."""

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take the lock, or take it once more, waiting at most `timeout` seconds; whether it was taken."""
        seconds = _seconds(blocking, timeout)
        return super().acquire(bool(blocking), -1 if seconds is None else seconds)


class Semaphore(sync.Semaphore):
    """roamlet.sync.Semaphore."""

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take one, waiting at most `timeout` seconds; whether it was taken."""
        return super().acquire(bool(blocking), _seconds(blocking, timeout))

    def release(self, count: int = 1) -> None:
        """Give back so many."""
        super().release(count)


class BoundedSemaphore(Semaphore, sync.BoundedSemaphore):
    """roamlet.sync.BoundedSemaphore: ValueError for giving back more than was taken."""


class Condition(sync.Condition):
    """roamlet.sync.Condition, on a lock of its own or on a given one."""

    def __init__(self, lock: Any = None) -> None:
        self.lock = lock if lock is not None else RLock()
        super().__init__(self.lock._lock if isinstance(self.lock, Lock) else self.lock)

    def wait(self, timeout: float | None = None) -> bool:
        """Give the lock back, wait for notify() at most `timeout` seconds, take the lock again; whether notify() came."""
        return super().wait(_seconds(True, timeout))

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T:
        """wait() until predicate() is true or the time is over; what it returned last."""
        return super().wait_for(predicate, _seconds(True, timeout))

    def notifyAll(self) -> None:
        """notify_all(), not deprecated."""
        self.notify_all()


def wait_for_condition(cond: Any, predicate: Callable[[], T], timeout: float | None = None) -> T:
    """cond.wait() until predicate() is true or `timeout` seconds have passed in all; what it returned last."""
    deadline = None if timeout is None else elapsed_time() + timeout
    while not (result := predicate()):
        left = None if deadline is None else deadline - elapsed_time()
        if left is not None and left < 0:
            break
        cond.wait(left)
    return result


class NLCondition(LockMixin):
    """A condition without a lock, for programs whose tasklets are not interrupted."""

    def __init__(self) -> None:
        self._chan = SignalChannel()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for notify(), at most `timeout` seconds; whether it came."""
        return lock_channel_wait(self._chan, timeout)

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T:
        """wait() until predicate() is true or the time is over; what it returned last."""
        return wait_for_condition(self, predicate, timeout)

    def notify(self, n: int = 1) -> None:
        """Wake up to `n` of those who wait now."""
        with atomic():
            for _ in range(min(n, -self._chan.balance)):
                self._chan.asignal()

    def notify_all(self) -> None:
        """Wake all who wait now."""
        self._chan.signal_all()

    notifyAll = notify_all

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Do nothing: there is no lock."""
        del blocking, timeout
        return True

    def release(self) -> None:
        """Do nothing: there is no lock."""


class Event(WaitSite):
    """roamlet.sync.Event, which can also be waited for with stacklesslib.wait."""

    def __init__(self) -> None:
        super().__init__()
        self._event = sync.Event()

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._event.is_set()

    isSet = is_set
    waitsite_signalled = is_set

    def clear(self) -> None:
        """Let wait() block again."""
        self._event.clear()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most `timeout` seconds; whether it was."""
        return self._event.wait(_seconds(True, timeout))

    def set(self) -> None:
        """Wake all who wait, and who will."""
        with atomic():
            self._event.set()
            self.waitsite_signal()


class ValueEvent(channel[Any]):
    """A value that is set once, or an error, for all who wait. After `timeout` seconds it aborts itself.

    RuntimeError for setting or aborting it a second time.
    """

    def __new__(
        cls, timeout: float | None = None, timeoutException: Any = None, timeoutExceptionValue: Any = None
    ) -> Any:
        """The arguments are __init__'s."""
        return super().__new__(cls)

    def __init__(
        self,
        timeout: float | None = None,
        timeoutException: Any = None,
        timeoutExceptionValue: Any = None,
    ) -> None:
        if timeoutException is None:
            timeoutException, timeoutExceptionValue = TimeoutError, "Event timed out"
        self.timeout = timeout
        self._deadline = elapsed_time() + timeout if timeout is not None and timeout > 0 else None
        self._timed_out = (timeoutException, (timeoutExceptionValue,))
        self.exception: Any = RuntimeError
        self.value: tuple[Any, ...] = ("Already resumed",)

    def __repr__(self) -> str:
        return (
            f"<ValueEvent object at {id(self):#x}, balance={self.balance}, queue={self.queue}, timeout={self.timeout}>"
        )

    def set(self, value: Any = None) -> None:
        """Let wait() return `value` in all who wait now."""
        self._refuse_a_second_time()
        while self.queue:
            self.send(value)
        self.close()

    def abort(self, exception: Any = None, *value: Any) -> None:
        """Let wait() raise exception(*value), now and from now on."""
        self._refuse_a_second_time()
        self._abort(*((self.exception, self.value) if exception is None else (exception, value)))

    def wait(self) -> Any:
        """The value. Raises what it was aborted with, the time-out's error when that comes first, RuntimeError after set()."""
        if self._deadline is not None and not self.closed:
            left = max(0.0, self._deadline - elapsed_time())
            try:
                with limit(left):
                    return self.receive()
            except TimeoutError:
                # Others who wait have the same deadline, or somebody has set or aborted it meanwhile.
                if not self.closed:
                    self._abort(*self._timed_out)
        if self.closed:
            raise _exception(self.exception, self.value)
        return self.receive()

    def _abort(self, exception: Any, value: tuple[Any, ...]) -> None:
        self.exception, self.value = exception, value
        while self.queue:
            self.send_throw(_exception(exception, value))
        self.close()

    def _refuse_a_second_time(self) -> None:
        if self._deadline is not None and not self.closed and elapsed_time() >= self._deadline:
            self._abort(*self._timed_out)
        if self.closed:
            raise RuntimeError("ValueEvent object already signaled or aborted.")
