"""A tasklet on its way to another process: packed here, and made again over there, where it goes on. What moves the bytes is
roamlet.remote.

A tasklet travels alone. The channels that it holds stay where they are: over there they are what roamlet.remote makes of
channels in arguments. This module is sent to contexts with the rest of roamlet.snapshot. Whom a context has taken in: see
migration/arrivals.py.
"""

import io
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

from roamlet._move import Leaving, NotMoved
from roamlet.core import NoCore, tasklet
from roamlet.snapshot import _native
from roamlet.snapshot.image import format
from roamlet.snapshot.loading import load
from roamlet.snapshot.references import code
from roamlet.snapshot.references.by_name import Place
from roamlet.snapshot.references.by_name import warn_of as warn_of_copies
from roamlet.snapshot.references.contexts import warn_of
from roamlet.snapshot.saving.save import FUNCTION, STARTED, Reduced, Saver, save
from roamlet.sync._spawn import Body, Spawned

RAISES, SENDS_ERROR, ITERATES, ENDED, ATOMIC_FLAG, SCHEDULED, HAS_VALUE = (
    1,
    2,
    4,
    8,
    16,
    32,
    64,
)  # of the flags in a state
MAIN = "__main__"

_BODY = Body.__dict__["__call__"]

State = tuple[int, object, object, int, int]
"""Where a tasklet was before it was detached: direction, channel, value, flags, atomic depth. settle() takes it."""


class Parcel(Saver):
    """Writes one tasklet that was detached. Afterwards `lent` has its channels in the order of their numbers, `modules` the
    names of those that it needs over there, `generators` those that were copied with it.
    """

    saves_locks = False  # what they guard may stay in this process

    def __init__(
        self, moving: tasklet[...], state: State, lends: tuple[type, ...], stay: tuple[type, ...], main: str | None
    ) -> None:
        """`lends`: the classes of channels; `stay`: those of what is only named over there, which `stayed` has afterwards by
        number; `main`: by which name the main script can be imported over there, if it can.
        """
        self.file = io.BytesIO()
        super().__init__(self.file)
        self.moving = moving
        self.state = state
        self.lends = lends
        self.stay = stay
        self.main = main
        self.lent: list[Any] = []
        self.stayed: list[Any] = []
        self.modules: set[str] = set()
        self.generators: list[Any] = []
        self.body: Body[Any] | None = None  # of one that roamlet.spawn() made
        self._numbers: dict[int, int] = {}
        self._operations = {
            id(method): name
            for cls in lends
            for name, method in vars(cls).items()
            if isinstance(method, (types.MethodDescriptorType, types.FunctionType))
        }

    def packed(self) -> bytes:
        """The bytes. Raises CannotSave."""
        from roamlet import __version__  # roamlet imports nothing of ours, but must be there first

        save(self, self.moving)
        warn_of(self.left_out, 5)  # behind what roamlet.remote does for Context.move()
        warn_of_copies(self.copied, 5)
        self.modules.update(reference[0] for reference, _ in self.table)
        return format.write(self.table, self.file.getvalue(), __version__)

    def resolve(self, function: types.FunctionType) -> int | types.FunctionType:
        """See Saver. The functions of the main script are found by name too, where that script can travel."""
        if function.__module__ == MAIN and self.main is not None:
            reference = code.reference_in(sys.modules[MAIN], self.main, function)
            if reference is not None:
                return self._number(reference, function.__code__)
        return super().resolve(function)

    def carries_globals(self, where: str) -> bool:
        """See Saver."""
        return super().carries_globals(where) and (where != MAIN or self.main is None)

    def capture(self, item: tasklet[Any]) -> tuple[Any, ...]:
        """See Saver."""
        captured = super().capture(item)
        if isinstance(captured[FUNCTION], Body):
            self.body = captured[FUNCTION]
        return captured

    def tasklet_contents(self, item: tasklet[Any]) -> Reduced:
        """See Saver. What roamlet.spawn() puts around its function stays here, and so does where the tasklet waited."""
        contents = super().tasklet_contents(item)
        if type(item) is Spawned:  # whose outcome stays here
            contents = (*contents[:-1], getattr(item, "__dict__", None) or None)
        direction, waits_in, value, flags, depth = self.state
        if contents[0] != STARTED:
            function: Any = contents[FUNCTION]
            args, kwargs = contents[FUNCTION + 1 : FUNCTION + 3]
            if isinstance(function, Body):
                function, args, kwargs = function.function, function.args, function.kwargs
            return contents[0], function, args, kwargs, flags & ~HAS_VALUE, depth, None, *contents[7:]
        records = contents[1]
        if records and self.functions.get(_BODY) == records[0][0]:
            del records[0]
        return *contents[:6], direction, waits_in, value, flags, depth, *contents[11:]

    def refusal(self, value: object) -> str | None:
        """See Saver."""
        if isinstance(value, tasklet) and value is not self.moving:
            return "that is another tasklet, and a tasklet travels alone. Let them share a channel"
        return None

    def sees_to(self, value: object) -> bool:
        """See Saver."""
        return isinstance(value, (*self.lends, *self.stay))

    def named(self, item: Any, place: Place | None) -> Any:
        """See Saver."""
        reference = super().named(item, place)
        if isinstance(reference, tuple):
            self.modules.add(reference[0])
        return reference

    def lend(self, item: Any) -> Reduced:
        """How a channel is written: as its number."""
        number = self._numbers.setdefault(id(item), len(self.lent))
        if number == len(self.lent):
            self.lent.append(item)
        return load.lent, (number,)

    def reducer_override(self, item: Any) -> Any:
        """See Saver."""
        if isinstance(item, self.lends):
            return self.lend(item)
        if id(item) in self._operations:
            return Operation, (self._operations[id(item)],)
        if isinstance(item, self.stay):
            self.stayed.append(item)
            return Elsewhere, (repr(item), len(self.stayed) - 1)
        problem = self.refusal(item)
        if problem is not None:
            raise TypeError(problem)
        if type(item) is Spawned:
            self.queue.append(item)
            return load.plain_tasklet, ()
        if isinstance(item, type):
            self.modules.add(item.__module__)
        elif isinstance(item, types.ModuleType):
            self.modules.add(item.__name__)
        elif isinstance(item, (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)):
            self.generators.append(item)
        return super().reducer_override(item)


def discard(item: tasklet[...], generators: list[Any]) -> None:
    """End a detached tasklet of this thread, without any of its handlers and finally blocks. Switches to it and back.

    Of `generators`, which is emptied, those that nobody else holds end in the same way.
    """
    kept = _native.defuse(item)
    item.kill()
    del kept
    ended = True
    while ended:
        ended = False
        for number in range(len(generators) - 1, -1, -1):
            if sys.getrefcount(generators[number]) == _REFERENCES_OF_ONE_LIST:
                _native.generator_drop(generators[number])
                del generators[number]
                ended = True
    generators.clear()


_REFERENCES_OF_ONE_LIST = 2  # to what lies in it, where that is counted: its own, and the call's


# ---- the side that takes it


class Operation:
    """What stands over there for a method of a channel, where an expression is about to call it: that of the channel it finds."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, lent: Any, /, *args: Any) -> Any:
        return getattr(lent, self._name)(*args)


class Elsewhere:
    """What stands over there for a context of the process that this one belongs to: it can be named, held and moved to."""

    def __init__(self, shown: str, number: int) -> None:
        self._shown = shown
        self._number = number

    def _leaving(self, item: "tasklet[...]") -> Leaving:
        from roamlet.snapshot.migration import arrivals  # which imports this

        return arrivals.leave(item, self._number)

    def _visit(self, _: object) -> Any:
        raise NotMoved(
            "the block of roamlet.at() begins in the process that has opened the contexts, and this is one of them. To go on in "
            f"another one: roamlet.move_to({self._shown})"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NoCore(
            f"{self._shown} has stayed in the parent's process, which alone can use it (.{name}). This code runs in another one "
            "already, so call the function itself; or come home before"
        )

    def __reduce__(self) -> Reduced:
        return Elsewhere, (self._shown, self._number)

    def __repr__(self) -> str:
        return f"<elsewhere: {self._shown}>"


class ParcelLoader(load.Loader):
    """Reads a parcel."""

    def __init__(self, data: bytes, channels: Sequence[Any], names: Mapping[str, str]) -> None:
        """`names`: what modules are called here that have another name where it was written."""
        header, pickles = format.read(data)
        self.names = names
        references = [
            ((self._here(where), name, constants, layer), mark)
            for (where, name, constants, layer), mark in header.references
        ]
        super().__init__(references, pickles)
        self.channels = channels
        self.generators: list[Any] = []

    def make_new_generator(self, function: types.FunctionType) -> Any:
        made = load.new_generator(function)
        self.generators.append(made)
        return made

    def make_lent(self, number: int) -> Any:
        return self.channels[number]

    def make_new_function(
        self, body: types.CodeType, where: str, name: str, closure: tuple[Any, ...] | None
    ) -> types.FunctionType:
        return load.new_function(body, self._here(where), name, closure)

    def make_module(self, name: str) -> types.ModuleType:
        return load.module(self._here(name))

    def make_variable(self, module_name: str, name: str) -> Any:
        return load.variable(self._here(module_name), name)

    def find_class(self, module_name: str, name: str) -> Any:
        return super().find_class(self._here(module_name), name)

    def make_named(self, where: str, *rest: Any) -> Any:
        return super().make_named(self._here(where), *rest)

    def _here(self, module_name: str) -> str:
        return self.names.get(module_name, module_name)
