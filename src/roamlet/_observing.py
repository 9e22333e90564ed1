"""What is told of the contexts of this process while a trace is taken, or OpenTelemetry's spans are made: to each observer.

Not in roamlet.remote: a program that opens no context would have to load all of that to be traced.
"""

from collections.abc import Collection
from typing import Any, Protocol


class Observed(Protocol):
    """What an observer makes of one call. Both are called in any thread, at most one of them counts; they must not block or raise.

    `carrier`: what goes to the target with the call, the value of a W3C traceparent header.
    """

    carrier: str

    def answered(self, answer: tuple[int, Any]) -> None:
        """Its answer has come: the kind of the frame, and the body."""

    def failed(self, error: BaseException | None) -> None:
        """There is no answer: it was not sent, or not waited for to the end."""


class Observer:
    """Called in whichever thread and tasklet it happens; must not raise. Only `opened` and `closing` may block."""

    def opened(self, calls: Any) -> None:
        """A context is open: its call engine."""

    def closing(self, calls: Any) -> None:
        """It is about to be closed."""

    def prepared(self, calls: Any, text: str) -> Observed | None:
        """A call of a function of the user's is about to be encoded; `text` is its name."""
        return None

    def sent(self, calls: Any, number: int, text: str, began: int) -> None:
        """A call was sent, with this number. Sending it, and what goes ahead of it, began at `began`, in ns as below."""

    def answered(self, calls: Any, number: int) -> None:
        """Its answer has come."""

    def shipped(self, context: str, names: Collection[str]) -> None:
        """Modules were sent to a context."""

    def moved(self, context: str, item: Any, name: str, begin: int) -> None:
        """A tasklet has moved to a context; it left at `begin`, in ns of time.monotonic_ns()."""


class _All(Observer):
    """Several observers as one."""

    def __init__(self, observers: tuple[Observer, ...]) -> None:
        self.observers = observers

    def opened(self, calls: Any) -> None:
        for each in self.observers:
            each.opened(calls)

    def closing(self, calls: Any) -> None:
        for each in self.observers:
            each.closing(calls)

    def prepared(self, calls: Any, text: str) -> Observed | None:
        for each in self.observers:
            observed = each.prepared(calls, text)
            if observed is not None:
                return observed
        return None

    def sent(self, calls: Any, number: int, text: str, began: int) -> None:
        for each in self.observers:
            each.sent(calls, number, text, began)

    def answered(self, calls: Any, number: int) -> None:
        for each in self.observers:
            each.answered(calls, number)

    def shipped(self, context: str, names: Collection[str]) -> None:
        for each in self.observers:
            each.shipped(context, names)

    def moved(self, context: str, item: Any, name: str, begin: int) -> None:
        for each in self.observers:
            each.moved(context, item, name, begin)


_observers: tuple[Observer, ...] = ()
observer: Observer | None = None


def add(new: Observer) -> None:
    """Tell this one too, from now on."""
    _set((*_observers, new))


def remove(old: Observer) -> None:
    """Tell this one no more. Idempotent."""
    _set(tuple(each for each in _observers if each is not old))


def _set(observers: tuple[Observer, ...]) -> None:
    global _observers, observer  # noqa: PLW0603 - one load where nothing is observed
    _observers = observers
    observer = None if not observers else observers[0] if len(observers) == 1 else _All(observers)
