"""Calls that do not wait for each other's answers, with a limit to the bytes that are under way on one context.

What a transfer of files stands on; it knows nothing of files.
"""

import contextlib
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, cast

from roamlet.core import Waiter
from roamlet.core.os_threads import RLock
from roamlet.remote import modules
from roamlet.remote.base.deadlines import EVER
from roamlet.remote.calls.engine import Calls
from roamlet.remote.calls.request import Request
from roamlet.remote.errors import ProtocolError, RemoteError
from roamlet.remote.link.inflight import Answer
from roamlet.sync import Condition

# Bytes that may be under way to or from one context, all its transfers together: what a target that writes more slowly than the
# line brings has to hold. What the line does not take waits at this end, and not in memory. The first fills 600 Mbit/s at
# 200 ms; it grows when it was what a transfer waited for.
START = 16 << 20
MOST = 32 << 20

Take = Callable[[Any], int]
"""Gets the value of an answer; returns how many bytes are no longer under way."""


class Budget:
    """The bytes that all transfers of a context have under way. Thread-safe."""

    def __init__(self) -> None:
        self.limit: int = START
        self.used: int = 0
        self._change = cast(Any, Condition(RLock()))  # of the system: a thread of roamlet's may have it
        self._short = False

    def take(self, count: int, *, wait: bool) -> bool:
        """Take `count` bytes if there is room, or nothing else is under way. `wait`: for room; blocks this tasklet only."""
        with self._change:
            while self.used and self.used + count > self.limit:
                self._short = True
                if not wait:
                    return False
                self._change.wait(EVER)
            self.used += count
            return True

    def give(self, count: int) -> None:
        """Give bytes back. If a tasklet had to wait for them, the pipeline gets more from now on."""
        with self._change:
            self.used -= count
            if self._short and count:
                self._short = False
                self.limit = min(MOST, self.limit + count)
            self._change.notify_all()


_budgets: "weakref.WeakKeyDictionary[Calls, Budget]" = weakref.WeakKeyDictionary()


class Pipeline:
    """A row of calls in one context, answered in the order in which they were sent. Used by one tasklet."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._budget = _budgets.setdefault(calls, Budget())
        self._under_way: deque[tuple[int, Waiter[Answer], str, Take]] = deque()
        self._taken = 0

    def call(self, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Call and wait for the answer, as Context.call does; answers before it are taken first."""
        found: list[Any] = []

        def keep(value: Any) -> int:
            found.append(value)
            return 0

        self.send(function, args, 0, keep)
        self.settle()
        return found[0]

    def send(self, function: Callable[..., Any], args: Sequence[Any], weight: int, take: Take | None = None) -> None:
        """Send a call that brings `weight` bytes under way. `take` gets its value later; without it, all are arrived then.

        Blocks this tasklet for as long as more would be under way than may be; raises what the answers that are due raise.
        """
        while not self._budget.take(weight, wait=not self._under_way):
            self.settle_one()
        self._taken += weight
        number, waiter, text = begin(self._calls, function, args)
        self._under_way.append((number, waiter, text, take or (lambda value: weight)))
        while self._under_way and self._under_way[0][1].done:
            self.settle_one()

    def settle(self) -> None:
        """Wait for all answers. Raises what the first one that failed raises."""
        while self._under_way:
            self.settle_one()

    def settle_one(self) -> None:
        """Wait for the oldest answer."""
        _, waiter, text, take = self._under_way[0]
        answer = waiter.wait()
        self._under_way.popleft()
        self._give(take(self._calls.value(answer, text)))

    def _give(self, count: int) -> None:
        self._taken -= count
        self._budget.give(count)

    @property
    def busy(self) -> bool:
        """Whether an answer is still to come."""
        return bool(self._under_way)

    def refuse(self, what: str) -> NoReturn:
        """End the context because of an answer that the functions called do not give."""
        self._calls.link.break_off(what)
        raise ProtocolError(
            f"{self._calls.name!r} answered what it must never send, so it was closed, and nothing of that was used: {what}.\n"
            "    Treat the target as hostile.",
            context=self._calls.name,
        )

    def close(self) -> None:
        """Let go of what is under way. Waits for nothing."""
        while self._under_way:
            self._calls.link.cancel(self._under_way.popleft()[0])
        self._give(self._taken)


def begin(calls: Calls, function: Callable[..., Any], args: Sequence[Any]) -> tuple[int, Waiter[Answer], str]:
    """Send a call of a function of the payload and its parts: its number, who gets the answer, and its name in messages."""
    request = Request.to_payload(*modules.name_of(function), args)
    return *calls.send(request, None), request.text


def begin_later(calls: Calls, function: Callable[..., Any], args: Sequence[Any]) -> None:
    """The same without waiting even for room, and the answer is dropped; not at all when the context has ended."""

    def send() -> None:
        with contextlib.suppress(RemoteError):
            number, _, _ = begin(calls, function, args)
            calls.link.forget(number)

    calls.background(send)
