"""What many tasklets of many threads wait for: a one-time event, and a lock."""

import threading
import time
from collections import deque
from types import TracebackType

from weft.core import Waiter


def remaining(deadline: float | None) -> float | None:
    """Seconds until `deadline` (time.monotonic), 0 when it has passed; None when there is none."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())


class Latch:
    """A one-time event. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: list[Waiter[None]] = []
        self.is_set = False

    def set(self) -> None:
        """Wake whoever waits; nobody waits from now on. Never blocks."""
        with self._lock:
            self.is_set = True
            waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.succeed()

    def wait(self, timeout: float | None = None) -> bool:
        """Block this tasklet until it is set; False when `timeout` seconds passed first."""
        waiter: Waiter[None] = Waiter()
        with self._lock:
            if self.is_set:
                return True
            self._waiters.append(waiter)
        try:
            waiter.wait(timeout)
        except TimeoutError:
            return self.is_set
        finally:
            with self._lock:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        return True


class Mutex:
    """A lock that blocks tasklets, not threads; first come, first served. Not re-entrant."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held = False
        self._waiters: deque[Waiter[None]] = deque()

    def __enter__(self) -> None:
        self.acquire()

    def acquire(self, deadline: float | None = None) -> None:
        """Block this tasklet until it has the lock. Raises TimeoutError when `deadline` (time.monotonic) passes first."""
        waiter: Waiter[None] = Waiter()
        with self._lock:
            if not self._held:
                self._held = True
                return
            self._waiters.append(waiter)
        try:
            waiter.wait(remaining(deadline))  # release hands the lock over, so nobody barges in between
        except BaseException:
            with self._lock:
                waiting = waiter in self._waiters
                if waiting:
                    self._waiters.remove(waiter)
            if not waiting:
                self.release()  # it was handed to a tasklet that is being killed, or that had just given up
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Hand the lock to who has waited longest."""
        while True:
            with self._lock:
                if not self._waiters:
                    self._held = False
                    return
                waiter = self._waiters.popleft()
            if waiter.succeed():
                return
