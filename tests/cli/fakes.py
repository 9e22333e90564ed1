"""Contexts that run what they are asked to run right here; no process, no pipe."""

import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any


@dataclass
class FakeStats:
    modules: int = 41
    round_trips: int = 1
    bytes_down: int = 123_456
    bytes_up: int = 789


@dataclass
class FakeContext:
    """`error` is raised instead of an answer; `log` gets what happened, in order."""

    name: str
    error: Exception | None = None
    log: list[Any] = field(default_factory=list)
    stats: FakeStats = field(default_factory=FakeStats)

    def __enter__(self) -> "FakeContext":
        self.log.append(("open", self.name))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.log.append(("close", self.name))

    def call(self, function: Any, args: Any = (), *, timeout: float | None = None) -> Any:
        assert threading.current_thread() is threading.main_thread()
        self.log.append(("call", self.name, args, timeout))
        if self.error is not None:
            # A fresh one: kept by us, its traceback would hold this frame and with it us.
            error = type(self.error)(*self.error.args)
            for note in getattr(self.error, "__notes__", ()):
                error.add_note(note)
            try:
                raise error
            finally:
                del error
        return function(*args)
