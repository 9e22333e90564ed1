"""A tasklet as bytes that migrate to another process: what writes it in the source, and what reads it in the destination.

A tasklet travels alone. The channels that it holds stay where they are: in the destination they are what roamlet.remote makes of
channels in arguments. This module is sent to contexts with the rest of roamlet.snapshot.
"""

import contextvars
import io
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

from roamlet import _migration
from roamlet._migration import MigrationDecision, NotMoved
from roamlet.core import NoCore, tasklet
from roamlet.snapshot.image import format
from roamlet.snapshot.loading import load
from roamlet.snapshot.references import code
from roamlet.snapshot.references.by_name import Place
from roamlet.snapshot.references.contexts import place_of
from roamlet.snapshot.saving.failures import save
from roamlet.snapshot.saving.saver import Reduced, Saver, warn_of
from roamlet.snapshot.state import STARTED, Captured, Flag, NewContents, Wait
from roamlet.sync._spawn import Body, Spawned

MAIN = "__main__"

_BODY = Body.__dict__["__call__"]
_FUNCTION = Captured._fields.index("function")


class TaskletPickler(Saver):
    """Writes one tasklet that was detached. Afterwards `channels` has its channels in the order of their numbers, `contexts` those
    that are only named in the destination, `modules` the names of those that it needs there, `generators` those that were copied.
    """

    saves_locks = False  # what they guard may stay in this process

    def __init__(
        self,
        item: tasklet[...],
        wait: Wait,
        channel_classes: tuple[type, ...],
        context_classes: tuple[type, ...],
        main: str | None,
    ) -> None:
        """`main`: by which name the main script can be imported in the destination, if it can."""
        self.file: io.BytesIO = io.BytesIO()
        super().__init__(self.file)
        self.item = item
        self.wait = wait
        self.channel_classes = channel_classes
        self.context_classes = context_classes
        self.main = main
        self.channels: list[Any] = []
        self.contexts: list[Any] = []
        self.modules: set[str] = set()
        self.generators: list[Any] = []
        self.body: Body[Any] | None = None  # of one that roamlet.spawn() made
        self._numbers: dict[int, int] = {}
        self._methods = {
            id(method): name
            for cls in channel_classes
            for name, method in vars(cls).items()
            if isinstance(method, (types.MethodDescriptorType, types.FunctionType))
        }

    def pickled(self) -> bytes:
        """The bytes. Raises CannotSave."""
        save(self, self.item)
        warn_of(self.left_out, self.copied, 5)  # after the frames of roamlet.remote in Context.move()
        self.modules.update(reference[0] for reference, _ in self.table)
        return format.write(self.table, self.file.getvalue())

    def resolve(self, function: types.FunctionType) -> int | types.FunctionType:
        """See Saver. The functions of the main script are found by name too, where that script can travel."""
        if function.__module__ == MAIN and self.main is not None:
            reference = code.reference_in(sys.modules[MAIN], self.main, function)
            if reference is not None:
                return self._number(reference, function.__code__)
        return super().resolve(function)

    def carries_globals(self, where: str) -> bool:
        return super().carries_globals(where) and (where != MAIN or self.main is None)

    def capture(self, item: tasklet[Any]) -> tuple[Any, ...]:
        captured = super().capture(item)
        function = captured[_FUNCTION]
        if isinstance(function, Body):
            self.body = function
        return captured

    def tasklet_contents(self, item: tasklet[Any]) -> Reduced:
        """See Saver. What roamlet.spawn() puts around its function stays, and so does where the tasklet waited."""
        contents = super().tasklet_contents(item)
        if type(item) is Spawned:  # its outcome stays
            contents = (*contents[:-1], getattr(item, "__dict__", None) or None)
        if contents[0] != STARTED:
            stage, call, args, kwargs, _, _, _, *rest = NewContents(*contents)
            if isinstance(call, Body):
                args, kwargs, call = call.args, call.kwargs, call.function
            return stage, call, args, kwargs, self.wait.flags & ~Flag.HAS_VALUE, self.wait.atomic, None, *rest
        stage, records, handled, before, end, returns, _, _, _, _, _, *rest = contents  # see StartedContents
        if records and self.functions.get(_BODY) == records[0][0]:
            del records[0]
        return (stage, records, handled, before, end, returns, *self.wait, *rest)

    def refusal(self, value: object) -> str | None:
        if isinstance(value, tasklet) and value is not self.item:
            return "that is another tasklet, and a tasklet travels alone. Let them share a channel"
        return None

    def sees_to(self, value: object) -> bool:
        return isinstance(value, (*self.channel_classes, *self.context_classes))

    def named(self, item: Any, place: Place | None) -> Any:
        reference = super().named(item, place)
        if isinstance(reference, tuple):
            self.modules.add(reference[0])
        return reference

    def by_number(self, item: Any) -> Reduced:
        """How a channel is written: as its number."""
        number = self._numbers.setdefault(id(item), len(self.channels))
        if number == len(self.channels):
            self.channels.append(item)
        return load.channel_by_number, (number,)

    def reducer_override(self, item: Any) -> Any:
        if isinstance(item, self.channel_classes):
            return self.by_number(item)
        if id(item) in self._methods:
            return ChannelMethod, (self._methods[id(item)],)
        if isinstance(item, self.context_classes):
            self.contexts.append(item)
            return ContextReference, (repr(item), len(self.contexts) - 1)
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
        elif isinstance(item, contextvars.ContextVar):
            self.modules.add(place_of(item)[0])
        elif isinstance(item, (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)):
            self.generators.append(item)
        return super().reducer_override(item)


# ---- in the destination


class ChannelMethod:
    """What a method of a channel becomes, where an expression is about to call it: that of the channel that is its argument."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, channel: Any, /, *args: Any) -> Any:
        return getattr(channel, self._name)(*args)


class ContextReference:
    """What a context becomes in another process than the one that has opened it: it can be named, held and moved to."""

    def __init__(self, shown: str, number: int) -> None:
        self._shown = shown
        self._number = number

    def _begin_migration(self, item: "tasklet[...]") -> MigrationDecision:
        return _migration.arrivals.begin_migration(item, self._number)  # type: ignore[no-any-return]

    def _begin_block(self, _: object) -> Any:
        raise NotMoved(
            "the block of roamlet.at() begins in the process that has opened the contexts, and this is one of them. To go on in "
            f"another one: roamlet.move_to({self._shown})"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NoCore(
            f"{self._shown} belongs to the parent's process, and only that can use it (.{name}). This code runs in another process "
            "already, so call the function itself; or move home before"
        )

    def __reduce__(self) -> Reduced:
        return ContextReference, (self._shown, self._number)

    def __repr__(self) -> str:
        return f"<reference to {self._shown}>"


class TaskletUnpickler(load.Loader):
    """Reads what a TaskletPickler has written."""

    def __init__(self, data: bytes, channels: Sequence[Any], names: Mapping[str, str]) -> None:
        """`names`: the names that modules have here, if they differ from those in the source."""
        header, pickles = format.read(data)
        self.names = names
        references = [
            ((self._name_here(where), name, constants, layer), mark)
            for (where, name, constants, layer), mark in header.references
        ]
        super().__init__(references, pickles)
        self.channels = channels
        self.generators: list[Any] = []

    def make_new_generator(self, function: types.FunctionType) -> Any:
        made = load.new_generator(function)
        self.generators.append(made)
        return made

    def make_channel_by_number(self, number: int) -> Any:
        return self.channels[number]

    def make_new_function(
        self, body: types.CodeType, where: str, name: str, closure: tuple[Any, ...] | None
    ) -> types.FunctionType:
        return load.new_function(body, self._name_here(where), name, closure)

    def make_module(self, name: str) -> types.ModuleType:
        return load.module(self._name_here(name))

    def make_variable(self, module_name: str, name: str) -> Any:
        return load.variable(self._name_here(module_name), name)

    def find_class(self, module_name: str, name: str) -> Any:
        return super().find_class(self._name_here(module_name), name)

    def make_named(self, where: str, *rest: Any) -> Any:
        return super().make_named(self._name_here(where), *rest)

    def _name_here(self, module_name: str) -> str:
        return self.names.get(module_name, module_name)
