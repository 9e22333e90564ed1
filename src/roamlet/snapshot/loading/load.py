"""Restoring: the makers that the pickles name, and what brings saved tasklets to where they were. Snapshots have the names of this
module and of its makers, so both stay.

Nothing runs before all of it has been read and checked: then tasklets get their frames, each in a switch of its own, and in the end
all of them are put where they waited.
"""

import _thread
import contextvars
import io
import marshal
import pickle
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.machinery import ModuleSpec
from operator import itemgetter
from typing import Any, TypeVar

from roamlet import core
from roamlet.snapshot import _native
from roamlet.snapshot._errors import BadSnapshot, SnapshotError
from roamlet.snapshot.image import format
from roamlet.snapshot.loading.helpers import base
from roamlet.snapshot.references import by_name, lazy_imports, links, values
from roamlet.snapshot.references.code import Reference, digest_of, referenced_code, resolve
from roamlet.snapshot.references.contexts import context_of, variable_at
from roamlet.snapshot.state import GENERATOR, NEW, PLAIN_RECORD, SLOTS, STARTED, Flag
from roamlet.sync import Event

T = TypeVar("T")
Tasklet = core.tasklet[Any]
Channel = core.channel[Any]

_OF_GENERATORS = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR: inspect takes long to import
_FIRST = itemgetter(0)
_STATE_WITH_SLOTS = 2  # the length of a state that has the values of slots, too


# ---- makers that need no more than their arguments ----


def code(marshalled: bytes, digest: bytes) -> types.CodeType:
    if digest_of(marshalled) != digest:  # the interpreter believes its instructions, whatever they are
        raise BadSnapshot("the snapshot is damaged: code in it is not what was saved")
    made = marshal.loads(marshalled)
    if not isinstance(made, types.CodeType):
        raise BadSnapshot("the snapshot has something else where code should be")
    if digest not in _found_sound:
        _check_code(made)
        if len(_found_sound) >= _MOST_FOUND:
            _found_sound.clear()
        _found_sound.add(digest)
    return made


_found_sound: set[bytes] = set()  # digests of marshalled code; the code itself is made anew for each snapshot
_MOST_FOUND = 1024


def _check_code(made: types.CodeType) -> None:
    if not _native.is_sound(made):
        raise ValueError(f"the code of {made.co_qualname!r} is damaged")
    for each in made.co_consts:
        if isinstance(each, types.CodeType):
            _check_code(each)


def method(function: Callable[..., Any], instance: object) -> types.MethodType:
    return types.MethodType(function, instance)


def module(name: str) -> types.ModuleType:
    return import_module(name)


_NO_LOADER: Any = object()  # of a module that only functions by value have made


def new_function(body: types.CodeType, where: str, name: str, closure: tuple[Any, ...] | None) -> types.FunctionType:
    """A function by value. Its globals are those of its module, which is made if it does not exist."""
    try:
        space = sys.modules.get(where) or import_module(where)
    except ImportError:
        space = types.ModuleType(where)
        space.__loader__ = _NO_LOADER  # tracebacks warn of one that is None
        space.__spec__ = ModuleSpec(where, _NO_LOADER)
        sys.modules[where] = space
    if closure is None and body.co_freevars:  # the tasklet was interrupted before the function had it
        made = _native.function_begun(body, space.__dict__)
        made.__name__ = name
        return made
    made = types.FunctionType(body, space.__dict__, name, None, closure)
    if body.co_varnames[:1] == (".0",) and not body.co_flags & _OF_GENERATORS:
        _native.never_called(made)
    return made


def set_function(made: types.FunctionType, state: tuple[Any, ...]) -> None:
    (
        used,
        made.__qualname__,
        made.__module__,
        made.__defaults__,
        made.__kwdefaults__,
        attributes,
        made.__doc__,
        *said,
    ) = state
    made.__dict__.update(attributes)
    for each in said:
        for name, value in each.items():
            setattr(made, name, value)
    for name, value in used.items():
        made.__globals__.setdefault(name, value)


def set_state(made: Any, content: tuple[Any, list[Any] | None, list[Any] | None]) -> None:
    """Put back what an object had, past the __setattr__, __getattr__, __setitem__ of its class: those want a complete object."""
    state, items, pairs = content
    slots = None
    if isinstance(state, tuple) and len(state) == _STATE_WITH_SLOTS:
        state, slots = state
    if state:
        object.__getattribute__(made, "__dict__").update(state)
    for name, value in (slots or {}).items():
        object.__setattr__(made, name, value)
    if items is not None:
        list.extend(made, items)
    if pairs is not None:
        dict.update(made, pairs)


def made_anew(kind: Any) -> Any:
    """An object without anything in it. pickle's own maker wants to see its __class__, which may say something else."""
    try:
        return kind.__new__(kind)
    except TypeError:  # it wants what the attributes have
        base: Any = next(each for each in (dict, list, object) if issubclass(kind, each))
        return base.__new__(kind)


def value(base: type, kind: type, content: object) -> Any:
    """An instance of a subclass of a builtin value, whose __new__ may want more than that."""
    try:
        return kind.__new__(kind, content)
    except TypeError:
        return base.__new__(kind, content)


def match(pattern: "re.Pattern[Any]", text: Any, place: tuple[int, int], how: str, regs: Any) -> "re.Match[Any]":
    found = values.found_again(pattern, text, place, how, regs)
    if found is None:
        raise BadSnapshot(f"{pattern!r} does not match as it did where the snapshot was made")
    return found


def mapping_proxy(found: Any) -> Any:
    return types.MappingProxyType(found)


lazy_import: Callable[..., Any] = lazy_imports.made
lock: Callable[[], _thread.LockType] = _thread.allocate_lock
recursive_lock = _thread.RLock


class _NoItems:
    """From 3.15 on the function of a generator expression asks for its iterator before it makes the generator."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __aiter__(self) -> Any:
        return self

    def __anext__(self) -> Any:
        raise StopAsyncIteration


_NO_ITEMS = _NoItems()


def new_generator(function: types.FunctionType) -> Any:
    """A fresh generator of the function: calling it runs none of its code."""
    body = function.__code__
    if not body.co_flags & _OF_GENERATORS:
        raise ValueError(f"the snapshot has a generator of {body.co_qualname}, which makes none")
    plain = body.co_argcount
    return function(*(_NO_ITEMS,) * plain, **dict.fromkeys(body.co_varnames[plain : plain + body.co_kwonlyargcount]))


def set_generator(made: Any, state: tuple[Any, ...]) -> None:
    content, made.__name__, made.__qualname__ = state
    if content is not None:  # else its frame comes with a tasklet
        _native.generator_set(made, *content)


def _ended() -> Any:
    yield


async def _awaited() -> None:
    pass


def ended_generator(awaitable: bool) -> Any:
    made: Any = _awaited() if awaitable else _ended()
    made.close()
    return made


async def _ended_async() -> Any:
    return
    yield


def ended_async_generator() -> Any:
    made = _ended_async()
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, None)  # no event loop is to be told
    try:
        made.asend(None).send(None)
    except StopAsyncIteration:
        return made
    finally:
        sys.set_asyncgen_hooks(*hooks)


def awaited(coroutine: "types.CoroutineType[Any, Any, Any]") -> Any:
    return coroutine.__await__()


def _type_awaited() -> type:
    coroutine = _awaited()
    try:
        return type(coroutine.__await__())
    finally:
        coroutine.close()


AwaitedType: type = _type_awaited()  # of what a coroutine's __await__() returns: it has no name


def exception(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """An exception without running an __init__ in Python."""
    if isinstance(kind.__init__, types.FunctionType):
        return kind.__new__(kind, *args)
    return kind(*args)


def set_exception(made: BaseException, state: tuple[Any, ...]) -> None:
    attributes, made.__cause__, made.__context__, made.__suppress_context__, text, *more = state
    for name, value in attributes.items():
        setattr(made, name, value)
    if more:
        (made.__traceback__,) = more
    if text:
        made.add_note("Traceback before it was saved in a snapshot:\n" + text.rstrip())


def nothing(*_: object) -> None:
    """In the place of a traceback, in snapshots that know no better."""


def _before_it_was_saved() -> Iterator[types.FrameType]:
    yield sys._getframe()


_WAITING = _before_it_was_saved()  # a frame that has returned would keep all frames of the first importer
SAVED_FRAME = next(_WAITING)


def saved_traceback() -> types.TracebackType:
    """In the place of a traceback: `except*` tells by their tracebacks which exceptions were raised in its blocks."""
    return types.TracebackType(None, SAVED_FRAME, 0, SAVED_FRAME.f_code.co_firstlineno)


def event(is_set: bool) -> Event:
    made = Event()
    if is_set:
        made.set()
    return made


def variable(module: str, name: str) -> "contextvars.ContextVar[Any]":
    """A function of this module, unlike what it calls: so Loader.make_variable may take its place."""
    return variable_at(module, name)


context = context_of


# ---- makers that belong to one loading: the names are looked up in Loader ----


def _only_in_loads(name: str) -> Callable[..., Any]:
    """What pickles name so, and Loader.make_NAME makes."""

    def made(*_: object) -> Any:
        raise pickle.UnpicklingError("this belongs to a snapshot: roamlet.snapshot.loads() reads those")

    made.__name__ = made.__qualname__ = name
    return made


function: Callable[..., Any] = _only_in_loads("function")
nested: Callable[..., Any] = _only_in_loads("nested")
cell: Callable[..., Any] = _only_in_loads("cell")
plain_tasklet: Callable[..., Any] = _only_in_loads("plain_tasklet")
plain_channel: Callable[..., Any] = _only_in_loads("plain_channel")
tasklet: Callable[..., Any] = _only_in_loads("tasklet")
channel: Callable[..., Any] = _only_in_loads("channel")
channel_by_number: Callable[..., Any] = _only_in_loads(
    "channel_by_number"
)  # it stays in the process that a tasklet migrates from
named: Callable[..., Any] = _only_in_loads("named")  # what a class holds


class Loader(pickle.Unpickler):
    """Reads one snapshot, whose header was checked."""

    held = -1
    """How many operands of the outermost frame are of use, from the top; -1: all."""

    def __init__(self, references: Iterable[tuple[Reference, bytes]], pickles: memoryview) -> None:
        self.stream: io.BytesIO = io.BytesIO(pickles)
        self.size: int = len(pickles)
        super().__init__(self.stream)
        self.references = references
        self.functions: list[types.FunctionType] = []  # those that they mean
        self.objects: list[Any] = []
        self.entered: set[int] = set()  # generators whose frames are those of tasklets
        self.begun: set[int] = set()  # functions that lack their closure, and that no frame is about to give it
        # Globals, and entries of sys.modules, that functions by value have brought.
        self.added: list[tuple[dict[str, Any], str]] = []

    def make_function(self, number: int) -> types.FunctionType:
        return self.functions[number]

    def make_nested(self, number: int, path: tuple[int, ...]) -> types.CodeType:
        return referenced_code(self.functions[number], path)

    def make_new_function(
        self, body: types.CodeType, where: str, name: str, closure: tuple[Any, ...] | None
    ) -> types.FunctionType:
        known = where in sys.modules
        made = new_function(body, where, name, closure)
        if made.__closure__ is None and body.co_freevars:
            self.begun.add(id(made))
        if not known and getattr(sys.modules[where], "__loader__", None) is _NO_LOADER:  # it was made, not imported
            self.added.append((sys.modules, where))
        return made

    def make_set_function(self, made: types.FunctionType, state: tuple[Any, ...]) -> None:
        space = made.__globals__
        self.added += [(space, name) for name in state[0] if name not in space]
        set_function(made, state)

    def take_back(self) -> None:
        """Leave modules as they were: the snapshot cannot be restored after all."""
        for space, name in self.added:
            space.pop(name, None)

    def ticket(self, records: Any, handled: object, before: int, end: int, returns: object, waits_in: object) -> object:
        """What a tasklet with these frames is built from. Raises ValueError when it cannot be."""
        made = _native.check(self.functions, records, handled, before, end, returns, waits_in, self.held)
        for generator in [id(record[GENERATOR]) for record in records if len(record) > PLAIN_RECORD]:
            if generator in self.entered:
                raise ValueError("two frames are of one generator")
            self.entered.add(generator)
        if self.begun and before >= 0:
            # Its frame was interrupted right before it gives the function on top the closure.
            self.begun.discard(id(records[-1][SLOTS][-1]))
        return made

    def make_cell(self) -> types.CellType:
        return self._noted(types.CellType())

    def make_plain_tasklet(self) -> Tasklet:
        return self._noted(core.tasklet.__new__(core.tasklet))

    def make_plain_channel(self) -> Channel:
        return self._noted(core.channel.__new__(core.channel))

    def make_tasklet(self, kind: type[Tasklet]) -> Tasklet:
        return self._noted(_new(kind, core.tasklet))

    def make_channel(self, kind: type[Channel]) -> Channel:
        return self._noted(_new(kind, core.channel))

    def _noted(self, made: T) -> T:
        self.objects.append(made)
        return made

    def persistent_load(self, named: Any) -> Any:
        """What was saved by name: see references/by_name.py."""
        if isinstance(named, str):
            return sys.intern(named)
        where, name, kind, value = named
        return self.make_named(where, name, kind, value)

    def make_named(self, where: str, name: str, kind: str, value: Any) -> Any:
        return by_name.resolve(where, name, kind, value)

    def find_class(self, module_name: str, name: str) -> Any:
        """The makers above in the place of the module's functions of their names, or what pickle finds."""
        if module_name == __name__:
            return getattr(self, "make_" + name, None) or globals()[name]
        return super().find_class(module_name, name)

    def read(self) -> tuple[Any, list[Any]]:
        """The root, and what belongs into each object that was made empty."""
        self.functions += [resolve(reference, fingerprint) for reference, fingerprint in self.references]
        try:
            root = self.load()
            contents: list[Any] = []
            while len(contents) < len(self.objects):
                contents.append(self.load())
            if self.stream.tell() < self.size:
                links.check(self.load())
        finally:
            self.memo.clear()  # it holds makers, which refer to us
        return root, contents


def _new(kind: type[T], base_kind: type) -> T:
    if not (isinstance(kind, type) and issubclass(kind, base_kind)):
        raise BadSnapshot(f"the snapshot names {kind!r}, which is no class of {base_kind.__name__}s here")
    return kind.__new__(kind)


class Restoring:
    """What was read, on its way to being alive."""

    def __init__(self, loader: Loader, *, paused: bool) -> None:
        self.loader = loader
        self.flags_kept = ~Flag.SCHEDULED if paused else ~0
        # With the box that base() gets, and its state.
        self.started: list[tuple[Tasklet, list[Any], tuple[Any, ...]]] = []
        self.scheduled: list[tuple[int, Tasklet, tuple[Any, ...] | None]] = []

    def fill(self, made: Any, content: Any) -> None:
        """Give a cell, a channel or a tasklet its contents, as far as that changes no other object."""
        if isinstance(made, types.CellType):
            if content:
                (made.cell_contents,) = content
        elif isinstance(made, core.channel):
            preference, schedule_all, closing, _, attributes, *buffer = content
            core.channel.__setstate__(made, (preference, schedule_all, closing, None, *buffer))
            _set_attributes(made, attributes)
        elif content[0] == STARTED:
            (_, records, handled, before, end, returns, direction, waits_in, value, flags, depth, position, items,
             attributes) = content  # fmt: skip
            ticket = self.loader.ticket(records, handled, before, end, returns, waits_in)
            box, state = [ticket], (direction, waits_in, value, flags & self.flags_kept, depth)
            self.started.append((made, box, state))
            made.bind(base, (box,))
            made.set_context(context_of(items))
            if flags & self.flags_kept & Flag.SCHEDULED:
                self.scheduled.append((position, made, state))
            _set_attributes(made, attributes)
        else:
            self.fill_new(made, content)

    def fill_new(self, made: Tasklet, content: Any) -> None:
        state, function, args, kwargs, flags, _, value, position, items, attributes = content
        made.bind(function)
        if state == NEW:
            made.bind(None, args, kwargs)
            made.set_context(context_of(items))
            if flags & self.flags_kept & Flag.SCHEDULED:
                self.scheduled.append((position, made, None))
            if flags & Flag.HAS_VALUE:
                made.tempval = value
            if flags & Flag.ATOMIC:
                made.set_atomic(True)
        _set_attributes(made, attributes)

    def places(self, contents: list[Any]) -> list[tuple[Any, ...]]:
        """Where each tasklet goes, in the order in which they are put there: what settle_all() takes."""
        states = {id(made): state for made, _, state in self.started}
        places: list[tuple[Any, ...]] = []
        for made, content in zip(self.loader.objects, contents, strict=True):
            if isinstance(made, core.channel):
                places += [(each, *states.pop(id(each))) for each in content[3]]
        for _, made, state in sorted(self.scheduled, key=_FIRST):
            places.append((made,) if state is None else (made, *states.pop(id(made))))
        places += [(made, *state) for made, _, state in self.started if id(made) in states]
        return places

    def go(self, places: list[tuple[Any, ...]]) -> None:
        """Let each tasklet build its frames, and come back at once, suspended; then put each where it waited. If that fails, none
        of them is left. Switches.
        """
        try:
            self.start()
            _native.settle_all(places)
        except BaseException:  # memory was out, nothing may be switched here, or a signal handler raised
            self._abandon()
            raise

    def start(self) -> None:
        for made, box, _ in self.started:
            made.run()
            if box and isinstance(box[0], BaseException):
                raise box[0]
            if box:
                raise SnapshotError(f"{made!r} ended while it was restored")

    def _abandon(self) -> None:
        """End those that have started. Runs none of their code."""
        for made, _, _ in self.started:
            if made.alive:
                kept = _native.defuse(made)
                made.kill()
                del kept
        for _, made, state in self.scheduled:
            if state is None and made.scheduled:
                made.remove()


def _set_attributes(made: object, attributes: Any) -> None:
    plain, slots = attributes if isinstance(attributes, tuple) else (attributes, {})
    if plain:
        made.__dict__.update(plain)
    for name, value in slots.items():
        setattr(made, name, value)


def load(data: bytes | bytearray | memoryview, *, paused: bool = False) -> Any:
    """What roamlet.snapshot.loads() does; with `paused` nothing is put into the run queue."""
    header, pickles = format.read(data)
    return restore(header, pickles, paused=paused)


def restore(
    header: format.Header,
    pickles: memoryview,
    *,
    paused: bool = False,
    reader: type[Loader] = Loader,
    wanted: Callable[[Any], None] = nothing,
) -> Any:
    """Restore what was read, and checked, of a snapshot. `wanted` may refuse its root, before there is anything of it."""
    if not _native.known:
        raise core.NoCore(UNKNOWN)
    loader = reader(header.references, pickles)
    try:
        restoring, root, places = _read(loader, paused, wanted)
        restoring.go(places)
    except BaseException:
        loader.take_back()
        raise
    return root


_UNREADABLE = (
    pickle.UnpicklingError,
    EOFError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ImportError,
    OverflowError,
)


def _read(loader: Loader, paused: bool, wanted: Callable[[Any], None]) -> tuple[Restoring, Any, list[tuple[Any, ...]]]:
    """What is about to be restored, the root, and where each tasklet goes. BadSnapshot, for any reason why it cannot be read."""
    try:
        root, contents = loader.read()
        wanted(root)
        restoring = Restoring(loader, paused=paused)
        for made, content in zip(loader.objects, contents, strict=True):
            restoring.fill(made, content)
        if loader.begun:
            raise ValueError("a function lacks its closure")
        places = restoring.places(contents)
    except _UNREADABLE as error:
        if isinstance(error, SnapshotError):
            raise
        raise BadSnapshot(f"the snapshot cannot be read here: {error}") from error
    return restoring, root, places


def load_paused(data: bytes) -> Any:
    """What pickles of single tasklets and channels name."""
    return load(data, paused=True)


UNKNOWN = (
    f"roamlet.snapshot does not know the frames of CPython {sys.version_info[0]}.{sys.version_info[1]} yet: tasklets are saved and "
    "restored on 3.11 to 3.15"
)
