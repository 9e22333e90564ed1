"""The calls of one link whose answers have not come: their numbers, who gets each answer, and results that come in pieces."""

import itertools
from _thread import LockType
from typing import Protocol

from roamlet.core import Waiter
from roamlet.wire.values import large_messages

NUMBERS = 0xFFFFFFFF
LARGEST_RESULT = 1 << 30  # bytes

Answer = tuple[int, bytes]
"""Kind (RESULT or ERROR) and body of an answer. The caller decodes it, because the thread for links is shared by all links."""


class Member(Protocol):
    """A call that belongs to a group. It is told its answer on the thread for links, and must not block there."""

    def joining(self, number: int) -> bytes:
        """The frame that goes ahead of the call, which has this number."""

    def succeed(self, answer: Answer) -> object: ...
    def fail(self, error: BaseException) -> object: ...


Entry = tuple[Waiter[Answer] | Member, str]
"""The recipient of an answer, and the name of the function for messages."""


class InFlight:
    """The table of calls in flight. Never blocks.

    `calls` may be read by any thread and is changed under `lock`, the link's. `largest_result` limits what is stored of a result.
    """

    __slots__ = (*("_arriving", "_numbers", "calls", "largest_result", "lock"),)

    def __init__(self, lock: LockType) -> None:
        self.lock = lock
        self.calls: dict[int, Entry] = {}
        self.largest_result = LARGEST_RESULT
        self._numbers = itertools.count(1)
        self._arriving: dict[int, large_messages.Arrival] = {}

    def free_number(self) -> int:
        """A number that no call in flight has. Only under the lock."""
        while True:
            number = next(self._numbers) & NUMBERS
            if number not in self.calls:
                return number

    def remove(self, number: int) -> Entry | None:
        """Take the call out of the table; None when it is not in there, because it was answered or cancelled."""
        with self.lock:
            if self._arriving:
                self._arriving.pop(number, None)
            return self.calls.pop(number, None)

    def forget(self, number: int) -> bool:
        """Drop the call and what has come of its result; whether it was in flight. Only under the lock."""
        self._arriving.pop(number, None)
        return self.calls.pop(number, None) is not None

    def remove_all(self) -> list[Entry]:
        """Empty the table. Only under the lock, once the link has ended."""
        entries = list(self.calls.values())
        self.calls = {}
        return entries

    def add_piece(self, number: int, body: bytes) -> bytes | None:
        """Add a piece of a result; return the whole result when this was its last piece. Pieces of cancelled calls are dropped.

        Raises large_messages.TooLarge for a result beyond `largest_result`, ValueError for pieces that no context sends.
        """
        if number not in self.calls:
            return None
        arrival = self._arriving.get(number)
        if arrival is None:
            arrival = large_messages.Arrival(body, self.largest_result)
            with self.lock:
                if number in self.calls:
                    self._arriving[number] = arrival
            return None
        if not body:
            raise ValueError("a result that ends before it is complete")
        message: bytes | None = arrival.add(body)
        return message
