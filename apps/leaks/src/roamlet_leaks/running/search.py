"""Finds what holds a living exception: from object to referrer, up to the nearest object that has a name in the program.

The collector lists the referrers of an object, except those that were frozen (gc.freeze): an exception without a visible holder is
then looked for from the modules down.
"""

import gc
import inspect
import sys
from collections import deque
from contextvars import Context
from types import CellType, FrameType, FunctionType, ModuleType, TracebackType
from typing import Any, NamedTuple

from roamlet_leaks.running.frames import GENERATORS, is_tasklet
from roamlet_leaks.running.holders import CONTAINERS, is_exception, key_of, may_hold, named, namespace_of

MOST_STEPS = 6  # from an exception to what is named as its holder, container by container
MOST_OBJECTS = 2_000_000  # looked at from the modules down

KEPT_FOR_DEBUGGERS = {"last_exc", "last_value", "last_traceback"}  # in sys

OF_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def _variable_of(function: FunctionType, way: list[Any]) -> str | None:
    """The variable of an outer function that holds the first of `way`; None where something else of this function does."""
    cells = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
        if any(step is cell for step in way[:2]):  # the tuple of cells, and the cell in it
            return name
    return None


class Holder(NamedTuple):
    """What holds an exception, and under what name."""

    code: str
    """A key of roamlet_leaks.CASES."""
    name: str
    names: tuple[str, ...]
    """As the source may say it, the most telling first."""
    frame: FrameType | None
    """If it is a local of a function that runs."""


class Search:
    """One search for the holders of `errors`, by id; use it once.

    `live` has what the locals of running functions hold, by id; `handled` the ids of exceptions that may be held;
    `there` those of all objects that were there before the search, which is not to find itself.
    """

    def __init__(
        self, errors: dict[int, Any], live: dict[int, tuple[FrameType, str]], handled: set[int], there: set[int]
    ) -> None:
        self._errors = errors
        self._live = live
        self._handled = handled
        self._there = there
        self._modules = {
            id(module.__dict__): module for module in list(sys.modules.values()) if isinstance(module, ModuleType)
        }
        self._found: dict[int, Holder] = {}
        self._explained: set[int] = set()  # held by those that may

    def holders(self) -> dict[int, Holder]:
        """The holder of each error, by the error's id: the nearest that has a name. Errors without one are left out."""
        self._upwards()
        left = self._errors.keys() - self._found.keys() - self._explained
        if left and gc.get_freeze_count():
            self._downwards(left)
        return self._found

    def _take(self, held: set[int], holder: Holder) -> None:
        for number in held:
            self._found.setdefault(number, holder)

    def _take_live(self, way: list[Any], held: set[int]) -> None:
        """Whether a running function holds the first of `way`."""
        if id(way[0]) in self._live:
            frame, name = self._live[id(way[0])]
            text, attributes = named(name, way)
            code = "RL008" if frame.f_code.co_flags & OF_GENERATORS else "RL006"
            self._take(held, Holder(code, text, (*reversed(attributes), name), frame))

    def _upwards(self) -> None:
        # Each object of a level, by id: the way down from it to an error, and the ids of the errors that it holds.
        level: dict[int, tuple[list[Any], set[int]]] = {
            number: ([error], {number}) for number, error in self._errors.items()
        }
        seen = set(level)
        for _ in range(MOST_STEPS):
            above: dict[int, tuple[list[Any], set[int]]] = {}
            for referrer in gc.get_referrers(*(way[0] for way, _ in level.values())):
                if id(referrer) not in self._there or id(referrer) in seen:
                    continue
                if self._leads_on(referrer):
                    self._step(referrer, level, above)
                else:
                    inner = {id(value) for value in gc.get_referents(referrer)} & level.keys()
                    self._explained.update(*(level[number][1] for number in inner))
            # After those: an object that holds the exception lives longer than a variable that holds it too.
            for way, held in level.values():
                self._take_live(way, held)
            seen |= above.keys()
            level = {
                number: (way, rest) for number, (way, held) in above.items() if (rest := held - self._found.keys())
            }
            if not level:
                break

    def _leads_on(self, referrer: Any) -> bool:
        """Whether it can be, or be held by, what is looked for. Ended frames are held by the exceptions themselves."""
        kind = type(referrer)
        if id(referrer) in self._handled or id(referrer) in self._errors:
            return False  # what led to another exception goes with that one
        if kind in (TracebackType, FrameType) or kind in GENERATORS:
            return False
        # A waiting tasklet holds the exception that it handles; what its locals hold is among the live ones.
        if is_tasklet(kind) or kind.__name__ == "greenlet":
            return namespace_of(referrer) is not None
        return not may_hold(referrer, futures=True)

    def _step(
        self, referrer: Any, level: dict[int, tuple[list[Any], set[int]]], above: dict[int, tuple[list[Any], set[int]]]
    ) -> None:
        for number in {id(value) for value in gc.get_referents(referrer)} & level.keys():
            way, held = level[number]
            if (holder := self._named(referrer, way)) is not None:
                self._take(held, holder)
            elif not is_tasklet(type(referrer)):
                above.setdefault(id(referrer), ([referrer, *way], set()))[1].update(held)

    def _named(self, referrer: Any, way: list[Any]) -> Holder | None:
        """What holds the first of `way`, if it has a name; None for what has to be asked who holds it in turn."""
        kind = type(referrer)
        if id(referrer) in self._modules:
            key = key_of(referrer, way[0])
            if key is None or (self._modules[id(referrer)] is sys and key in KEPT_FOR_DEBUGGERS):
                return None
            text, attributes = named(key, way)
            return Holder("RL005", text, (*reversed(attributes), key), None)
        if issubclass(kind, type):
            names = dict(vars(referrer))
            key = next((key for step in way[:2] if (key := key_of(names, step)) is not None), "?")
            return Holder("RL005", f"{referrer.__qualname__}.{key}", (f".{key}", key), None)
        if kind is Context:
            variable = next((key for key, value in referrer.items() if any(value is step for step in way)), None)
            return variable and Holder("RL005", variable.name, (variable.name,), None)
        if kind is FunctionType:
            variable = _variable_of(referrer, way)
            return Holder("RL008", variable or referrer.__qualname__, (variable or referrer.__name__,), None)
        if kind is CellType or issubclass(kind, CONTAINERS) or is_exception(referrer):
            return None
        text, attributes = named(kind.__qualname__, [referrer, *way])
        return Holder("RL004", text, tuple(reversed(attributes)), None) if attributes else None

    def _downwards(self, left: set[int]) -> None:
        """Look for what is left from the modules on, the shortest way first."""
        above: dict[int, int] = {}
        todo: deque[Any] = deque(module.__dict__ for module in self._modules.values())
        things: dict[int, Any] = {id(space): space for space in todo}
        while todo and left and len(things) < MOST_OBJECTS:
            thing = todo.popleft()
            for value in gc.get_referents(thing):
                number = id(value)
                if number in left:
                    self._take_nearest(thing, value, above, things)
                    left.discard(number)
                elif number not in things and gc.is_tracked(value) and self._leads_on(value):
                    things[number] = value
                    above[number] = id(thing)
                    todo.append(value)

    def _take_nearest(self, thing: Any, error: Any, above: dict[int, int], things: dict[int, Any]) -> None:
        """Name the nearest holder on the way that leads from a module through `thing` to `error`."""
        way = [error]
        while True:
            if (holder := self._named(thing, way)) is not None:
                self._take({id(error)}, holder)
                return
            way.insert(0, thing)
            if id(thing) not in above:
                return
            thing = things[above[id(thing)]]
