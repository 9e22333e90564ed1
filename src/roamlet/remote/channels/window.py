"""Channels with a window: `remote.channel(window=n)` accepts n values before senders wait. Built from the core's channel.

Receivers wait in a channel of the core; senders wait in a queue of this class, in the order of coming, because an accepted value,
one that waits for room, and the tasklet that sends it may have different ends. What must be decided and done in one step is done
inside of `roamlet.atomic`, which a call that blocks gives up at the moment when it waits in the channel's queue.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import roamlet
from roamlet.core import ChannelClosed, Waiter, atomic, select, tasklet
from roamlet.remote.base.threads import acquire, release

T = TypeVar("T")
Value = tuple[Any, bool]
"""A value, and whether it is an exception for the receiver to raise."""

LARGEST_WINDOW = 1 << 16
LARGEST_SIZE = 1 << 23  # bytes


class _Sender:
    """A value that waits for room, and what is to be called when it has been accepted."""

    __slots__ = ("accepted", "is_error", "size", "value")

    def __init__(self, value: Any, is_error: bool, size: int, accepted: Callable[[], object]) -> None:
        self.value = value
        self.is_error = is_error
        self.size = size
        self.accepted = accepted


class WindowChannel(Generic[T]):
    """A channel whose send returns when the value was accepted, of which there are `window` at most, or received.

    Everything else is as with roamlet.channel: first come, first served; thread-safe; blocks tasklets only. It is not one of
    the cases that roamlet.select takes.
    """

    def __init__(self, window: int) -> None:
        if isinstance(window, bool) or not isinstance(window, int) or not 1 <= window <= LARGEST_WINDOW:
            raise ValueError(
                f"window must be a number from 1 to {LARGEST_WINDOW}, not {window!r}; a channel without one is roamlet.channel()"
            )
        self.window = window
        self._kept: deque[tuple[Any, bool, int]] = deque()  # accepted: value, whether it is an exception to raise, size
        self._bytes = 0  # of those that came from contexts
        self._senders: deque[_Sender] = deque()  # none while there is room
        # No fewer than wait to receive: a receiver that was just given a value counts until it runs.
        self._receivers = 0
        self._inner: roamlet.channel[tuple[Any, bool]] = roamlet.channel()  # receivers wait in it, and only they
        self._inner.preference = 0

    def send(self, value: T) -> None:
        """Have the value accepted, waiting for room. Raises ChannelClosed on a closed channel."""
        self._send(value, is_error=False)

    def send_exception(self, exception: type[BaseException] | BaseException, /, *args: Any) -> None:
        """Like send, but the receiver raises exception(*args)."""
        if isinstance(exception, type):
            exception = exception(*args)
        self._send(exception, is_error=True)

    def _send(self, value: Any, *, is_error: bool) -> None:
        with atomic():
            if self.offer(value, is_error=is_error):
                return
            waiter: Waiter[None] = Waiter()
            sender = _Sender(value, is_error, 0, waiter.succeed)
            self._senders.append(sender)
        try:
            waiter.wait()
        except BaseException:
            with atomic():
                if sender in self._senders:
                    self._senders.remove(sender)
            raise

    def offer(self, value: Any, *, is_error: bool = False, size: int = 0) -> bool:
        """Send the value if that needs no wait; whether it was sent. Never blocks. Raises ChannelClosed on a closed channel.

        `size` in bytes, if it is known: there is room for LARGEST_SIZE of them in all, or for a single larger value.
        """
        with atomic():
            if self._hand_over(value, is_error):
                return True
            if self._inner.closing:
                raise ChannelClosed(f"send on a closed channel: {self!r} was closed; open() lets it be used again")
            if self._senders or not self._has_room(size):
                return False
            self._keep(value, is_error, size)
            return True

    def accept(self, value: Any, accepted: Callable[[], object], *, is_error: bool, size: int) -> bool:
        """Like offer, but a value that has no room is queued after those before it, and False is returned.

        `accepted()` is called once it has room, inside of `atomic` in the thread that makes the room: it must not block or raise. A
        closed channel accepts values that were queued before.
        """
        with atomic():
            if self.offer(value, is_error=is_error, size=size):
                return True
            self._senders.append(_Sender(value, is_error, size, accepted))
            return False

    def _has_room(self, size: int) -> bool:
        return not self._kept or (len(self._kept) < self.window and self._bytes + size <= LARGEST_SIZE)

    def _keep(self, value: Any, is_error: bool, size: int) -> None:
        self._kept.append((value, is_error, size))
        self._bytes += size

    def _hand_over(self, value: Any, is_error: bool) -> bool:
        """Give it to a waiting receiver, if there is one. Only atomic; nothing is kept while a receiver waits."""
        return self._receivers > 0 and select((self._inner, (value, is_error)), default=None)[0] is not None

    def requeue(self, values: Sequence[Value]) -> None:
        """See the function of this name."""
        with atomic():
            back = deque(values)
            while back and self._hand_over(*back[0]):
                back.popleft()
            self._kept.extendleft((value, is_error, 0) for value, is_error in reversed(back))

    def receive(self) -> T:
        """Take the oldest value, waiting for one. Raises what send_exception has sent, ChannelClosed when closed and empty."""
        with atomic():
            return self._taken(*(self._next_kept() if self._kept else self._waiting(self._inner.receive)))

    def receive_unless(self, stop: "roamlet.channel[Any]") -> tuple[bool, Any]:
        """(True, value), or (False, what came by `stop`) when that came first."""
        with atomic():
            if self._kept:
                return True, self._taken(*self._next_kept())
            met, came = self._waiting(select, self._inner, stop)
            if met is not self._inner:
                return False, came
            try:
                return True, self._taken(*came)
            finally:
                del came  # an error's traceback holds this frame

    def _next_kept(self) -> tuple[T, bool]:
        value, is_error, size = self._kept.popleft()
        self._bytes -= size
        while self._senders and self._has_room(self._senders[0].size):
            sender = self._senders.popleft()
            self._keep(sender.value, sender.is_error, sender.size)
            sender.accepted()
        return value, is_error

    def _waiting(self, receive: Callable[..., Any], *args: Any) -> Any:
        self._receivers += 1
        try:
            return receive(*args)
        finally:
            self._receivers -= 1

    @staticmethod
    def _taken(value: Any, is_error: bool) -> T:
        if is_error:
            try:
                raise value
            finally:
                del value  # its traceback holds this frame
        return value  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        with atomic():
            return self._taken(*(self._next_kept() if self._kept else self._waiting(next, self._inner)))

    def close(self) -> None:
        """Refuse new values and receivers. Accepted values, and values and receivers that wait already, are still served."""
        self._inner.close()

    def open(self) -> None:
        """Undo close."""
        self._inner.open()

    @property
    def balance(self) -> int:
        """Accepted values and those that wait for room count up, tasklets that wait to receive down."""
        return len(self._kept) + len(self._senders) + self._inner.balance

    @property
    def closing(self) -> bool:
        """Whether close() was called."""
        return self._inner.closing

    @property
    def closed(self) -> bool:
        """Whether it is closing, and no value is kept or waits for room, and no receiver waits."""
        return self._inner.closed and not self._kept

    def __repr__(self) -> str:
        state = " closing" if self.closing else ""
        return f"<roamlet.remote.WindowChannel of {self.window}{state}, {len(self._kept)} kept>"


def channel(*, window: int) -> WindowChannel[Any]:
    """A channel that accepts `window` values before senders wait; roamlet.channel() is the one without.

    In a context, a send into it costs no round trip: it returns when the value is on the way. Each context has at most `window`
    values on the way. Those are lost when its link breaks; values that this process has accepted stay.
    """
    return WindowChannel(window)


def requeue(channel: roamlet.channel[Any] | WindowChannel[Any], values: Sequence[Value]) -> None:
    """Put values that a context was sent and did not take back in front, in this order. Never blocks; on the thread for links only.

    A channel without a window stores nothing: tasklets on the thread for links wait in it to send the values, and keep it alive.
    """
    if isinstance(channel, WindowChannel):
        channel.requeue(values)
        return
    threads = acquire()
    waiting = deque(values)
    while waiting and not waiting[0][1] and select((channel, waiting[0][0]), default=None)[0] is not None:
        waiting.popleft()  # a receiver was waiting
    left = [None] * len(waiting)

    def send(value: Any, is_error: bool) -> None:
        try:
            channel.give_back(value, is_error)
        finally:
            left.pop()
            if not left:
                release(threads)

    for value, is_error in reversed(waiting):
        tasklet(send)(value, is_error).run()  # until it waits
    if not waiting:
        release(threads)
