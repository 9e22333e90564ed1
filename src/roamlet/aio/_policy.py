"""What asyncio.set_event_loop() sets, for the tasklet: a policy's `_local`, which asyncio keeps for the thread."""

from typing import Any, ClassVar
from weakref import WeakSet

from roamlet.core import getcurrent, local, tasklet


class LoopOfTasklet:
    """A policy's `_local`: the loop that was set, and whether one was. The thread's main tasklet shares the original's with it.

    Nothing is kept for a tasklet that has set none, so that one whose asyncio.run() has ended can be saved. A tasklet that has
    set a loop cannot.
    """

    __slots__ = ("__weakref__", "_called", "_loops", "_of_thread")

    original: ClassVar[type[Any]]

    def __init__(self, of_thread: Any = None) -> None:
        self._of_thread = self.original() if of_thread is None else of_thread
        self._loops: Any = local()
        self._called: WeakSet[tasklet[...]] = WeakSet()

    @property
    def _loop(self) -> Any:
        return self._of_thread._loop if getcurrent().is_main else getattr(self._loops, "loop", None)

    @_loop.setter
    def _loop(self, loop: Any) -> None:
        if getcurrent().is_main:
            self._of_thread._loop = loop
        elif loop is not None:
            self._loops.loop = loop
        elif hasattr(self._loops, "loop"):
            del self._loops.loop

    @property
    def _set_called(self) -> bool:
        current = getcurrent()
        called: bool = self._of_thread._set_called if current.is_main else current in self._called
        return called

    @_set_called.setter
    def _set_called(self, called: bool) -> None:
        current = getcurrent()
        if current.is_main:
            self._of_thread._set_called = called
        elif called:
            self._called.add(current)
        else:
            self._called.discard(current)


def for_tasklets(original: type[Any]) -> type[LoopOfTasklet]:
    """The class in the place of a policy's `_Local`."""
    return type("_Local", (LoopOfTasklet,), {"__slots__": (), "original": original})
