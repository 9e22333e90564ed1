"""The frames that go down to one context: written at once while nothing is queued, else queued up to a limit.

A tasklet on the thread for links writes the queue. Senders wait for room before they add more.
"""

from _thread import LockType
from collections import deque

from roamlet.core import Waiter
from roamlet.remote.base.deadlines import remaining
from roamlet.remote.base.threads import TaskletThread
from roamlet.remote.link.end_reasons import Closed, Died, Forked
from roamlet.remote.link.pipe import Pipe

QUEUED = 1 << 20  # bytes that may wait for the pipe before senders do

_NOTHING: "deque[memoryview]" = deque()  # the queue where nothing was ever queued: one of its own takes 0.7 kB


class Sender:
    """The sending half of a link. Thread-safe, except for `put` and `end`, which need `lock`; blocks tasklets only.

    `lock` is the link's one lock: a call is noted as in flight and its frames are queued in one step. `end` says why nothing may
    be sent any more; it is set once. `bytes_down` counts the bytes that were sent or queued, `queued` those that wait for the pipe.
    """

    __slots__ = (
        *("_down_closed", "_links", "_pipe", "_queue", "_waiting_for_quiet", "_waiting_for_room"),
        *("bytes_down", "end", "lock", "queued"),
    )

    def __init__(self, pipe: Pipe, links: TaskletThread, lock: LockType) -> None:
        self.lock = lock
        self.end: Closed | Died | Forked | None = None
        self.bytes_down: int = 0
        self.queued: int = 0
        self._pipe = pipe
        self._links = links
        self._queue = _NOTHING
        self._waiting_for_room: list[Waiter[None]] = []
        self._waiting_for_quiet: list[Waiter[None]] = []
        self._down_closed = False

    @property
    def has_room(self) -> bool:
        """Whether `send` would not wait now."""
        return self.queued <= QUEUED

    @property
    def is_full(self) -> bool:
        """True while senders have to wait."""
        return self.queued > QUEUED and self.end is None

    def send(self, data: bytes, function: str | None = None, deadline: float | None = None) -> None:
        """Send whole frames, those of a call of `function`. The frames of one call stay together.

        Blocks this tasklet while more than QUEUED bytes wait for the pipe.
        Raises ContextClosed or ContextDied when the link has ended, TimeoutError when `deadline` (time.monotonic) passes first.
        """
        while self.is_full:
            self.wait_for_room(remaining(deadline))
        with self.lock:
            if self.end is not None:
                raise self.end.error(function, sent=False)
            self.put(data)

    def send_at_once(self, frame: bytes) -> None:
        """Send a frame without waiting for room. It is dropped when the link has ended."""
        with self.lock:
            if self.end is None:
                self.put(frame)

    def send_when_quiet(self, data: bytes) -> None:
        """Send whole frames once the queue is empty. Large data is sent in such pieces, so that calls overtake it.

        Blocks this tasklet. Raises ContextClosed or ContextDied when the link has ended.
        """
        while True:
            with self.lock:
                if self.end is not None:
                    raise self.end.error(None, sent=False)
                if not self.queued:
                    self.put(data)
                    return
            self.wait_until_quiet()

    def wait_until_quiet(self) -> None:
        """Block this tasklet until the queue is empty. Raises ContextClosed or ContextDied when the link has ended."""
        while True:
            waiter: Waiter[None] = Waiter()
            with self.lock:
                if self.end is not None:
                    raise self.end.error(None, sent=False)
                if not self.queued:
                    return
                self._waiting_for_quiet.append(waiter)
            try:
                waiter.wait()
            finally:
                with self.lock:
                    if waiter in self._waiting_for_quiet:
                        self._waiting_for_quiet.remove(waiter)

    def wait_for_room(self, timeout: float | None) -> None:
        """Block this tasklet until the link takes more, or has ended. Raises TimeoutError."""
        waiter: Waiter[None] = Waiter()
        with self.lock:
            if self.end is not None or self.queued <= QUEUED:
                return
            self._waiting_for_room.append(waiter)
        try:
            waiter.wait(timeout)
        finally:
            with self.lock:
                if waiter in self._waiting_for_room:
                    self._waiting_for_room.remove(waiter)

    def put(self, data: bytes) -> None:
        """Write or queue whole frames. Never blocks. Only under the lock."""
        self.bytes_down += len(data)
        left = memoryview(data)
        if not self._queue:
            left = left[self._write(left) :]
            if not left:
                return
            self._links.post(self._write_queue)
        if self._queue is _NOTHING:
            self._queue = deque()
        self._queue.append(left)
        self.queued += len(left)

    def _write(self, data: memoryview) -> int:
        """Write as much as the pipe takes at once. A closed pipe takes all: the link's reader reports the reason.

        Only under the lock: the number of a closed descriptor may be in use again.
        """
        return len(data) if self._down_closed else self._pipe.write(data)

    def _write_queue(self) -> None:
        """Write the queue until it is empty. Runs as a tasklet while something is queued."""
        while True:
            try:
                self._pipe.wait_writable()
            except OSError:  # the link has ended
                return
            with self.lock:
                while self._queue:
                    written = self._write(self._queue[0])
                    self.queued -= written
                    if written < len(self._queue[0]):
                        self._queue[0] = self._queue[0][written:]
                        break
                    self._queue.popleft()
                empty = not self._queue
                woken: list[Waiter[None]] = []
                if self.queued <= QUEUED // 2:
                    woken, self._waiting_for_room = self._waiting_for_room, []
                if empty:
                    woken += self._waiting_for_quiet
                    self._waiting_for_quiet = []
            for waiter in woken:
                waiter.succeed()
            if empty:
                return

    def close(self) -> None:
        """Close the pipe that leads down: the target reads the end of its input. Only on the thread for links."""
        with self.lock:
            self._down_closed = True
        self._pipe.close_down()

    def take_waiters(self) -> list[Waiter[None]]:
        """The waiters of all blocked senders, which the caller wakes. Only under the lock, once `end` is set."""
        waiters = self._waiting_for_room + self._waiting_for_quiet
        self._waiting_for_room, self._waiting_for_quiet = [], []
        return waiters
