"""What a trace of this process is told of its contexts: roamlet.diagnose.trace() sets `observer` while it takes one."""

from collections.abc import Collection
from typing import Any, Protocol


class Observer(Protocol):
    """Called in whichever thread and tasklet it happens; must not raise. Only `opened` and `closing` may block."""

    def opened(self, calls: Any) -> None:
        """A context is open: its call engine."""

    def closing(self, calls: Any) -> None:
        """It is about to be closed."""

    def sent(self, calls: Any, number: int, text: str, began: int) -> None:
        """A call was sent, with this number. Sending it, and what goes ahead of it, began at `began`, in ns as below."""

    def answered(self, calls: Any, number: int) -> None:
        """Its answer has come."""

    def shipped(self, context: str, names: Collection[str]) -> None:
        """Modules were sent to a context."""

    def moved(self, context: str, item: Any, name: str, begin: int) -> None:
        """A tasklet has moved to a context; it left at `begin`, in ns of time.monotonic_ns()."""


observer: Observer | None = None
