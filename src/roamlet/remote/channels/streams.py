"""The channel of one stream: a channel with a buffer whose values are acknowledged to the context when the reader takes them.

So what waits here is bounded by what one context may have under way, in values and in bytes; no stream needs a bound of its own.
"""

import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import roamlet
from roamlet.core import atomic, select

T = TypeVar("T")

WINDOW = 1024  # values of a stream that may be under way, or wait here
ENOUGH = 128  # values that are acknowledged together while the reader has more
ENOUGH_BYTES = 1 << 20


class StreamChannel(roamlet.channel[T]):
    """Its reader calls `take` alone; the thread for links calls `put`, in the order of the values."""

    def __init__(self) -> None:
        super().__init__(sys.maxsize)
        self.left: bool = False  # by its reader: what comes is dropped
        self._sizes: deque[int] = deque()  # of the values that wait, in bytes
        self._taken: list[int] = []  # of those that were taken and are not acknowledged yet
        self._bytes = 0  # of these
        self._acknowledge: Callable[[list[int]], object] = list

    def put(self, value: Any, size: int, *, is_error: bool, acknowledge: Callable[[list[int]], object]) -> None:
        """Let a value of `size` bytes in; never blocks. Raises ChannelClosed on a closed channel.

        `acknowledge` is called with the sizes of values that were taken, in any thread, inside of `atomic`; it must not block.
        """
        self._acknowledge = acknowledge
        if is_error:
            self.send_exception(value)
        else:
            self.send(value)
        self._sizes.append(size)
        if self.left:
            self.drop()
        elif len(self._sizes) > self.buffered:  # taken already, by a reader in another thread
            self._count(ENOUGH)

    def take(self) -> T:
        """Return the next value, or raise the exception that was sent; StopIteration at the end."""
        if not self.buffered:
            self._count(1)  # before it waits
        try:
            return next(self)
        finally:
            self._count(ENOUGH)

    def drop(self) -> None:
        """Take all that waits, unseen; nothing that comes waits from now on."""
        self.left = True
        while self.buffered:
            with suppress(Exception):
                select(self, default=None)
        self._count(1)

    def _count(self, enough: int) -> None:
        """Note what was taken: what came and waits no longer. Acknowledge it when that is `enough` values, or many bytes."""
        with atomic():
            while len(self._sizes) > self.buffered:
                self._taken.append(self._sizes.popleft())
                self._bytes += self._taken[-1]
            if len(self._taken) >= enough or self._bytes >= ENOUGH_BYTES:
                taken, self._taken, self._bytes = self._taken, [], 0
                self._acknowledge(taken)
