"""roamlet and Mitogen under one interface of a few calls, so that the same code measures both.

A side opens contexts on this machine through a given command, calls functions in them one at a time or many at once, and counts how
often a context had to wait for a module. Everything is done the way each project's own documentation does it.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from .shipped import shipped


class Side(Protocol):
    """One of the two. Contexts are opaque to the caller."""

    def about(self) -> dict[str, Any]:
        """Sizes that each side reports, such as that of its payload."""

    def open(self, python: str, via: Any = None, *, far: bool = False) -> Any:
        """A fresh context, ready for calls, whose interpreter is started with the command `python`: here, or by context `via`.

        `far`: the command is a line to somewhere else, and a side that treats this machine specially must not do so.
        """

    def close(self, context: Any) -> None:
        """End the context and wait until its process has gone."""

    def call(self, context: Any, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call and wait for the result."""

    def call_many(self, context: Any, function: Callable[..., Any], count: int, at_once: int) -> None:
        """Make `count` calls without arguments, `at_once` of them under way at any time, and wait for all results."""

    def values(self, context: Any, count: int, size: int) -> Iterator[Any]:
        """The values of one remote function, one by one: `count` blocks of `size` bytes, or small tuples when that is 0."""

    def requests(self, context: Any) -> int:
        """How often a remote import has waited for an answer of this process, by the side's own count."""

    def stop(self) -> None:
        """Leave no thread and no process behind."""


class MitogenSide:
    """Mitogen: a broker thread, a router, and the calling thread outside of both."""

    def __init__(self) -> None:
        import mitogen.core
        import mitogen.master

        self._broker = mitogen.master.Broker()
        self._router = mitogen.master.Router(self._broker)
        self._served = 0

    def about(self) -> dict[str, Any]:
        return {}

    def open(self, python: str, via: Any = None, *, far: bool = False) -> Any:
        self._served = self._router.responder.get_module_count
        return self._router.local(python_path=python, via=via)

    def close(self, context: Any) -> None:
        context.shutdown(wait=True)

    def call(self, context: Any, function: Callable[..., Any], *arguments: Any) -> Any:
        return context.call(function, *arguments)

    def call_many(self, context: Any, function: Callable[..., Any], count: int, at_once: int) -> None:
        """A window that slides: for each result that is taken, the next call is made."""
        waiting = deque(context.call_async(function) for _ in range(at_once))
        for _ in range(count - at_once):
            waiting.popleft().get().unpickle()
            waiting.append(context.call_async(function))
        while waiting:
            waiting.popleft().get().unpickle()

    def values(self, context: Any, count: int, size: int) -> Iterator[Any]:
        """A receiver here, and its sender as an argument."""
        import mitogen.core

        receiver = mitogen.core.Receiver(self._router)
        sent = context.call_async(shipped("send_values").values, receiver.to_sender(), count, size)
        for message in receiver:
            yield message.decode()
        sent.get().unpickle()
        receiver.close()

    def requests(self, context: Any) -> int:
        """Mitogen counts them per router: right for one context, as a router here has only one at a time."""
        count: int = self._router.responder.get_module_count - self._served
        return count

    def stop(self) -> None:
        self._broker.shutdown()
        self._broker.join()


class RoamletSide:
    """roamlet: tasklets of the calling thread."""

    def about(self) -> dict[str, Any]:
        return {}

    def open(self, python: str, via: Any = None, *, far: bool = False) -> Any:
        """What is far gets sources, as from ssh() without any option: local() would send bytecode, of twice the size."""
        from roamlet import remote

        return remote.local(python=python, via=via, modules=remote.Modules(bytecode=False if far else None))

    def close(self, context: Any) -> None:
        context.close()

    def call(self, context: Any, function: Callable[..., Any], *arguments: Any) -> Any:
        return context.call(function, arguments)

    def call_many(self, context: Any, function: Callable[..., Any], count: int, at_once: int) -> None:
        """`at_once` tasklets, each making its share of the calls one after the other."""
        from roamlet import run, tasklet

        def share() -> None:
            for _ in range(count // at_once):
                context.call(function)

        for _ in range(at_once):
            tasklet(share)()
        run()

    def values(self, context: Any, count: int, size: int) -> Iterator[Any]:
        values: Iterator[Any] = context.iterate(shipped("yield_values").values, (count, size))
        return values

    def requests(self, context: Any) -> int:
        count: int = context.stats.round_trips
        return count

    def stop(self) -> None:
        pass


SIDES: dict[str, Callable[[], Side]] = {"roamlet": RoamletSide, "mitogen": MitogenSide}
