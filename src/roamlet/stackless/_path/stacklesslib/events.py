"""A queue of calls to make later, which a loop pumps, such as stacklesslib.main.mainloop.

Nothing of roamlet's own depends on it: sleeping and time-outs work without a pump.
"""

import heapq
import threading
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

from .base import time as now

__all__ = ["DummyEventQueue", "EventQueue", "Handle", "event_queue"]

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]

# When, in which order, how often again (-1: once), what with which arguments.
Entry = tuple[float, int, float, Callable[..., object], tuple[Any, ...]]


class EventQueue:
    """Calls to be made at a time, in order of that time. Thread-safe; the calls are made in the tasklet that pumps."""

    def __init__(self) -> None:
        self.queue: list[Entry] = []
        self.time_offset = 0.0
        self.sequence = 0
        self.lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.queue)

    @staticmethod
    def time() -> float:
        """The clock that deadlines are on."""
        return now()

    def reschedule(self, delta_t: float) -> None:
        """Put off all that is queued by so many seconds."""
        self.time_offset -= delta_t

    def call_soon(self, callback: Callable[..., object], *args: Any) -> "Handle":
        """Call at the next pump."""
        return self._call_at(self.time() + self.time_offset, -1, callback, args)

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> "Handle":
        """Call in `delay` seconds."""
        return self._call_at(self.time() + self.time_offset + delay, -1, callback, args)

    def call_later_threadsafe(self, delay: float, callback: Callable[..., object], *args: Any) -> "Handle":
        """Like call_later, and wake who sleeps until the next call is due."""
        handle = self.call_later(delay, callback, *args)
        self.cancel_sleep()
        return handle

    def call_at(self, deadline: float, callback: Callable[..., object], *args: Any) -> "Handle":
        """Call when time() is `deadline`."""
        return self._call_at(deadline + self.time_offset, -1, callback, args)

    def call_repeatedly(self, interval: float, callback: Callable[..., object], *args: Any) -> "Handle":
        """Call every `interval` seconds."""
        return self._call_at(self.time() + self.time_offset + interval, interval, callback, args)

    def cancel_sleep(self) -> None:
        """For subclasses: wake the thread that sleeps until the next call is due."""

    def pump(self) -> int:
        """Make the calls that are due, and return how many they were. What a call queues is left for the next time."""
        due = self.time() + self.time_offset
        batch = []
        with self.lock:
            while self.queue and self.queue[0][0] <= due:
                entry = heapq.heappop(self.queue)
                batch.append(entry)
        for _, sequence, interval, callback, args in batch:
            if interval >= 0:
                with self.lock:
                    heapq.heappush(self.queue, (due + interval, sequence, interval, callback, args))
            try:
                callback(*args)
            except Exception as error:
                self.handle_exception((type(error), error, error.__traceback__))
        return len(batch)

    @property
    def is_due(self) -> bool:
        """Whether a call is due now."""
        delay = self.due_delay()
        return delay is not None and delay <= 0

    def due_delay(self) -> float | None:
        """Seconds until the next call is due, or None."""
        with self.lock:
            if not self.queue:
                return None
            return max(0.0, self.queue[0][0] - self.time() - self.time_offset)

    def handle_exception(self, exc_info: ExcInfo) -> None:
        """For subclasses: what becomes of the error of a call. It is printed."""
        traceback.print_exception(*exc_info)

    def _call_at(
        self, when: float, interval: float, callback: Callable[..., object], args: tuple[Any, ...]
    ) -> "Handle":
        with self.lock:
            sequence = self.sequence
            self.sequence += 1
            heapq.heappush(self.queue, (when, sequence, interval, callback, args))
        return Handle(self, sequence, callback, args)

    def _cancel(self, sequence: int) -> None:
        with self.lock:
            for place, entry in enumerate(self.queue):
                if entry[1] == sequence:
                    del self.queue[place]
                    heapq.heapify(self.queue)
                    return
        raise ValueError("event not in queue")


class Handle:
    """A call that is queued: cancel() takes it back."""

    def __init__(
        self, queue: EventQueue, sequence: int, callback: Callable[..., object], args: tuple[Any, ...]
    ) -> None:
        self._queue = queue
        self._sequence = sequence
        self.cancelled: bool | None = None
        self.callback = callback
        self.args = args

    def cancel(self) -> bool:
        """Take the call back: True, or False when it was made already."""
        if self.cancelled is None:
            try:
                self._queue._cancel(self._sequence)
            except ValueError:
                self.cancelled = False
            else:
                self.cancelled = True
        return self.cancelled


class DummyEventQueue:
    """Refuses every call: for programs that do not pump events."""

    def bork(self, *args: Any, **kwds: Any) -> NoReturn:
        """Say what is wrong."""
        raise NotImplementedError(
            "events are not being pumped: call stacklesslib.app.install_stackless() and run the main loop"
        )

    call_later = call_soon = call_later_threadsafe = call_at = call_repeatedly = pump = bork


event_queue = EventQueue()
"""The queue that stacklesslib.main.mainloop pumps; `main` and `app` give it out."""
