"""A tasklet that comes home: what it is read into, what runs it, who is told what comes of it. Who lets it in:
migration/handle.py.
"""

import threading
from typing import TYPE_CHECKING, Any

from roamlet.core import tasklet
from roamlet.remote.calls.engine import ContextBase
from roamlet.remote.errors import MoveInDoubt
from roamlet.snapshot.migration.pickling import ContextReference, TaskletUnpickler
from roamlet.sync._outcome import Outcome
from roamlet.sync._spawn import Body, without_first_frame

if TYPE_CHECKING:  # it imports us
    from roamlet.remote.migration.handle import Departure, Journey

CONTEXT_REFERENCE = ContextReference.__module__, ContextReference.__name__


class HomeOutcome(Outcome[Any]):
    """What came of a tasklet that had come home: settles its handle."""

    __slots__ = ("journey",)

    def __init__(self, journey: "Journey") -> None:
        super().__init__()
        self.journey: Journey | None = journey

    def taken(self) -> "Journey":
        """The handle; it goes elsewhere, and comes to no end here."""
        journey, self.journey = self.journey, None
        assert journey is not None
        return journey

    def succeed(self, result: Any) -> None:
        """See Outcome."""
        super().succeed(result)
        self._tell()

    def fail(self, error: BaseException, *, taken: bool = False) -> None:
        """See Outcome."""
        super().fail(error, taken=taken)
        self._tell(is_over=not isinstance(error, MoveInDoubt))

    def give_up(self, why: str) -> None:
        """See Outcome."""
        super().give_up(why)
        self._tell()

    def _tell(self, *, is_over: bool = True) -> None:
        journey = self.journey
        if is_over:
            self.journey = None
        if journey is not None:
            journey._settle()

    def reopen(self) -> None:
        """See Outcome."""
        super().reopen()
        if self.journey is not None:
            self.journey._reopen()


class AtHome(Body[Any]):
    """The function of a tasklet that has come home."""

    __slots__ = ()

    def __init__(self, *args: Any, qualname: str = "") -> None:
        super().__init__(*args)
        self.__qualname__ = qualname

    def keeps(self, error: BaseException) -> bool:
        """See Body: whoever has the handle gets the error."""
        if isinstance(error, Exception):
            self.outcome.fail(without_first_frame(error))
            return True
        return super().keeps(error)


class HomeLoader(TaskletUnpickler):
    """Reads the parcel of a tasklet that comes home, into the tasklet that has left if that is still there."""

    def __init__(
        self, departure: "Departure", names: dict[str, str], contexts: list[ContextBase], item: "tasklet[...] | None"
    ) -> None:
        super().__init__(departure.data, departure.channels, names)
        self._contexts = contexts
        free = item is not None and not item.alive and item.thread_id == threading.get_ident()
        self._item = item if free else None
        self._taken: tasklet[...] | None = None

    def make_plain_tasklet(self) -> Any:
        return self._left() or super().make_plain_tasklet()

    def make_tasklet(self, kind: type["tasklet[...]"]) -> Any:
        return self._left() or super().make_tasklet(kind)

    def _left(self) -> Any:
        item, self._item = self._item, None
        self._taken = self._taken or item
        return item and self._noted(item)

    def gives_up(self) -> None:
        """It cannot be made here: leave the tasklet as it was, which others may use again."""
        if self._taken is not None and self._taken.alive:
            self._taken.kill()

    def find_class(self, module_name: str, name: str) -> Any:
        """The contexts themselves, in the place of what stood for them."""
        if (module_name, name) == CONTEXT_REFERENCE:
            return lambda shown, number: self._contexts[number]
        return super().find_class(module_name, name)
