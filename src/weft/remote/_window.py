"""Channels with a window: `remote.channel(window=n)` accepts n values before senders wait. Built from the core's channel.

The core's own has no buffer. What must be decided and done in one step is done inside of `weft.atomic`, which a call that
blocks gives up at the moment when it waits in the channel's queue.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

import weft
from weft.core import ChannelClosed, atomic, select

T = TypeVar("T")

LARGEST_WINDOW = 1 << 16
LARGEST_SIZE = 1 << 23  # bytes


class WindowChannel(Generic[T]):
    """A channel whose send returns when the value was accepted, of which there are `window` at most, or received.

    Everything else is as with weft.channel: first come, first served; thread-safe; blocks tasklets only. It is not one of the cases
    that weft.select takes.
    """

    def __init__(self, window: int) -> None:
        if isinstance(window, bool) or not isinstance(window, int) or not 1 <= window <= LARGEST_WINDOW:
            raise ValueError(
                f"window must be a number from 1 to {LARGEST_WINDOW}, not {window!r}; a channel without one is weft.channel()"
            )
        self.window = window
        self._kept: deque[tuple[Any, bool, int]] = deque()  # accepted: value, whether it is an exception to raise, size
        self._bytes = 0  # of those that came from contexts
        self._inner: weft.channel[T] = weft.channel()
        self._inner.preference = 0

    def send(self, value: T) -> None:
        """Have the value accepted, waiting for room. Raises ChannelClosed on a closed channel."""
        with atomic():
            if not self.offer(value):
                self._inner.send(value)

    def send_exception(self, exception: type[BaseException] | BaseException, /, *args: Any) -> None:
        """Like send, but the receiver raises exception(*args)."""
        if isinstance(exception, type):
            exception = exception(*args)
        with atomic():
            if not self.offer(exception, is_error=True):
                self._inner.send_exception(exception)

    def offer(self, value: Any, *, is_error: bool = False, size: int = 0) -> bool:
        """Send if nobody has to wait for that: whether it was done. Never blocks. Raises ChannelClosed on a closed channel.

        `size` in bytes, if it is known: LARGEST_SIZE of them have room, in whatever number of values.
        """
        with atomic():
            if self._hand_over(value, is_error):
                return True
            if self._inner.closing:
                raise ChannelClosed(f"send on a closed channel: {self!r} was closed; open() lets it be used again")
            if len(self._kept) >= self.window or self._inner.balance > 0 or self._bytes + size > LARGEST_SIZE:
                return False
            self._kept.append((value, is_error, size))
            self._bytes += size
            return True

    def _hand_over(self, value: Any, is_error: bool) -> bool:
        """Give it to somebody who waits to receive. Only atomic, with nothing kept."""
        if is_error:
            if self._inner.balance >= 0:
                return False
            self._inner.send_exception(value)
            return True
        return select((self._inner, value), default=None)[0] is not None

    def keep(self, value: Any, *, is_error: bool) -> None:
        """Accept it whether or not there is room: the sender was promised that it would be, and has died. Never blocks."""
        with atomic():
            if not self._hand_over(value, is_error):
                self._kept.append((value, is_error, 0))

    def give_back(self, values: Iterable[tuple[Any, bool]]) -> None:
        """Put back in front what was taken out and not used, in this order. Never blocks."""
        with atomic():
            back = deque(values)
            while back and self._hand_over(*back[0]):
                back.popleft()
            self._kept.extendleft((value, is_error, 0) for value, is_error in reversed(back))

    def receive(self) -> T:
        """Take the oldest value, waiting for one. Raises what send_exception has sent, ChannelClosed when closed and empty."""
        with atomic():
            if self._kept:
                return self._next_kept()
            return self._inner.receive()

    def receive_unless(self, stop: "weft.channel[Any]") -> tuple[bool, Any]:
        """(True, value), or (False, what came by `stop`) when that came first."""
        with atomic():
            if self._kept:
                return True, self._next_kept()
            met, value = select(self._inner, stop)
            return met is self._inner, value

    def send_unless(self, value: T, stop: "weft.channel[Any]", size: int) -> bool:
        """Send a value of `size` bytes; False, and nothing sent, when something comes by `stop` while it waits for room."""
        with atomic():
            return self.offer(value, size=size) or select((self._inner, value), stop)[0] is self._inner

    def _next_kept(self) -> T:
        value, is_error, size = self._kept.popleft()
        self._bytes -= size
        while self._inner.balance > 0 and len(self._kept) < self.window:  # there is room for those who wait
            try:
                self._kept.append((self._inner.receive(), False, 0))
            except BaseException as error:
                self._kept.append((error, True, 0))
        if is_error:
            raise value
        return value  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        with atomic():
            if self._kept:
                return self._next_kept()
            return next(self._inner)

    def close(self) -> None:
        """Let nobody new wait here; what was accepted, and who waits already, may still be met."""
        self._inner.close()

    def open(self) -> None:
        """Undo close."""
        self._inner.open()

    @property
    def balance(self) -> int:
        """Accepted values and tasklets that wait to send count up, those that wait to receive down."""
        return len(self._kept) + self._inner.balance

    @property
    def closing(self) -> bool:
        """Whether close() was called."""
        return self._inner.closing

    @property
    def closed(self) -> bool:
        """Whether it is closing, and nothing is kept and nobody waits here any more."""
        return self._inner.closed and not self._kept

    def __repr__(self) -> str:
        state = " closing" if self.closing else ""
        return f"<weft.remote.WindowChannel of {self.window}{state}, {len(self._kept)} kept>"


def channel(*, window: int) -> WindowChannel[Any]:
    """A channel that accepts `window` values before senders wait; weft.channel() is the one without.

    Over there a send into it costs no round trip: it returns when the value is on its way, of which there are `window` at most
    from each context. What a context had on its way when its link broke is lost; what was accepted here stays.
    """
    return WindowChannel(window)
