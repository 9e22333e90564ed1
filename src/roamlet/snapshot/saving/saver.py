"""Saving: a graph of objects with tasklets and channels in it, as a row of pickles that share one memo.

What could lead from one object to the next without end (tasklets, channels, cells) is saved as an empty object first; their
contents follow in the order in which they were met, each as a pickle of its own. So no chain of tasklets is too long for
the C stack.
"""

import _thread
import contextvars
import copyreg
import functools
import io
import marshal
import pickle
import re
import socket
import sys
import threading
import traceback
import types
import warnings
import weakref
from collections.abc import Callable, Collection, Generator
from typing import Any

from roamlet.core import atomic, channel, tasklet
from roamlet.snapshot import _native
from roamlet.snapshot._errors import CannotSave, Copied, LeftOut
from roamlet.snapshot.loading import load
from roamlet.snapshot.references import by_name, lazy_imports, values
from roamlet.snapshot.references.code import Reference, code_reference, digest_of, fingerprint, function_reference
from roamlet.snapshot.references.contexts import items_of, place_of
from roamlet.snapshot.references.links import of
from roamlet.snapshot.saving import closed, module_state, object_state
from roamlet.snapshot.saving.frames import variable
from roamlet.snapshot.state import FUNCTION, GENERATOR, PLAIN_RECORD, SLOTS, STARTED, Flag, Record
from roamlet.sync import Event

Reduced = tuple[Any, ...]


class Saver(pickle.Pickler):
    """Writes one graph. `table` has the code that it names, `captured` the tasklets that were read, with their records."""

    saves_locks = True  # those that are free

    def __init__(self, file: io.BytesIO, by_value: Collection[str] = ()) -> None:
        super().__init__(file, 5)
        self.by_value: frozenset[str] = frozenset(by_value)
        self.table: dict[tuple[Reference, bytes], int] = {}
        self.functions: dict[types.FunctionType, int | types.FunctionType] = {}
        self.queue: list[object] = []
        self.captured: list[tuple[tasklet[Any], list[tuple[Any, ...]]]] = []
        self.executing: dict[int, Generator[Any, Any, Any]] = {}  # generators whose frames are still to be met
        self.met: set[int] = set()
        self.positions: dict[int, dict[tasklet[Any], int]] = {}
        self.left_out: dict[contextvars.ContextVar[Any], None] = {}
        self.copied: dict[str, None] = {}  # what modules hold, and is in here once more
        self.references: dict[int, Any] = {}  # by id(), what named() has said
        self.ways: dict[type, Any] = {}
        # By id(), values in the middle of a method, in a saved frame, that may change them.
        self.inside: dict[int, Any] = {}
        self.reducing: list[Any] = []  # objects of classes that say in Python what is written of them
        # The one that save() fails for, if that is known; what no other object has if not.
        self.refused: object = self.reducing
        self.with_ids: list[Any] = []  # dictionaries and sets whose keys could be id()s
        # Neither _names nor a method of ours: asked for each object, and no cycle.
        self.persistent_id: Callable[[Any], Any] = _native.names(
            by_name.places(), types.MethodType(_named, weakref.proxy(self))
        )

    def save(self, root: object) -> None:
        """Write the root and all that belongs to it."""
        self.dump(root)
        done = 0
        while done < len(self.queue):
            self.dump(self.contents(self.queue[done]))
            done += 1
        for key, generator in self.executing.items():
            if key not in self.met:
                raise CannotSave(f"cannot save {generator!r}: it is running, in a tasklet that is not saved with it")
        self.refuse_ids()
        self.refuse_what_stays()
        for item, records in self.captured:
            numbers = _native.large_numbers(records)
            if numbers:
                self._refuse_variable(item, records, numbers)
        links = of(self.reducing, self.memo) if self.reducing else None
        if links:
            self.dump(links)

    def refuse_ids(self) -> None:
        """Raise TypeError for a dictionary or set whose keys are id()s of objects that were written."""
        if not self.with_ids:
            return
        written = self.memo.copy()
        for each in self.with_ids:
            for key in list(each):
                if type(key) is int and key in written:
                    self.refused = each
                    raise TypeError(
                        f"a {type(each).__name__} has id()s of objects as keys, such as that of {type(written[key][1]).__name__}, "
                        "which is another number where it is restored. Let the tasklet wait before such a call, or after it"
                    )

    def refuse_what_stays(self) -> None:
        """Raise CannotSave where the tasklets, while they run, have put into modules what is only right there."""
        written = functools.cache(self.memo.copy)
        numbers = self.functions_by_number()
        seen: set[int] = set()
        for item, records in self.captured:
            for record in records:
                function = numbers.get(record[FUNCTION], record[FUNCTION])
                if id(function) not in seen:
                    seen.add(id(function))
                    module_state.refuse_ids(item, function, written)
        if self.captured:
            module_state.refuse_locals(self.captured[0][0], written)

    def _refuse_variable(
        self, item: tasklet[Any], records: list[tuple[Any, ...]], numbers: list[tuple[int, int]]
    ) -> None:
        written = self.memo.copy()
        for at, slot in numbers:
            record = Record(*records[at][:PLAIN_RECORD])
            found = written.get(record.slots[slot])
            if found is not None:
                what = variable(self.function_of(record.function), record.unit, slot)
                raise CannotSave(
                    f"cannot save {item!r}: {what} holds the id() of a {type(found[1]).__name__} that is saved, which is another "
                    "number where it is restored. Let the tasklet wait before such a call, or after it"
                )

    def named(self, item: Any, place: "by_name.Place | None") -> Any:
        """The persistent id of what a module holds at this place, or held; None: it is pickled."""
        if place is None:
            self.with_ids.append(item)
            return None
        found = self.references.get(id(item), self)
        if found is self:
            found = self.references[id(item)] = self._reference(item, place)
            if found is None and isinstance(item, (dict, set, frozenset)):
                self.with_ids.append(item)  # the place may be that of an object that is gone
        return found

    def _reference(self, item: Any, place: "by_name.Place") -> Any:
        if not by_name.is_at(item, place) or place[0] in self.by_value or self.sees_to(item):
            return None
        decided = by_name.decide(item, place)
        if decided is True:
            self.copied[".".join(place)] = None
        return decided if isinstance(decided, tuple) else None

    def nameless(self, item: object) -> Any:
        """An object() that is no module's attribute may be that of a class."""
        place = by_name.in_a_class(item)
        if place is None or place[0] in self.by_value:
            return NotImplemented
        return load.named, (*place, by_name.type_name(item), None)

    # ---- code ----

    def _number(self, reference: Reference, code: types.CodeType) -> int:
        key = reference, fingerprint(code)  # a decorated function and what it wraps have the same name
        return self.table.setdefault(key, len(self.table))

    def resolve(self, function: types.FunctionType) -> int | types.FunctionType:
        """How a record names this function: by its number in the table, or by value."""
        reference = None if function.__module__ in self.by_value else function_reference(function)
        return function if reference is None else self._number(reference, function.__code__)

    def functions_by_number(self) -> dict[Any, types.FunctionType]:
        """The functions that records name by a number."""
        return {number: function for function, number in self.functions.items() if isinstance(number, int)}

    def function_of(self, named: int | types.FunctionType) -> types.FunctionType:
        """The function that a record names so."""
        return self.functions_by_number()[named] if isinstance(named, int) else named

    def function(self, function: types.FunctionType) -> Any:
        if function.__module__ in _PLAIN:
            return NotImplemented
        known = self.functions.get(function)
        if known is None:
            self.functions[function] = known = self.resolve(function)
        if isinstance(known, int):
            return load.function, (known,)
        space = function.__globals__
        where = space.get("__name__")
        module = sys.modules.get(where) if isinstance(where, str) else None
        if not isinstance(where, str) or module is None or module.__dict__ is not space:
            raise TypeError(f"the globals of {function!r} are no module's that could be found again")
        used = {}
        if self.carries_globals(where):
            used = {name: space[name] for name in sorted(_names_in(function.__code__)) if name in space}
        state = (used, function.__qualname__, function.__module__, function.__defaults__, function.__kwdefaults__,
                 function.__dict__, function.__doc__, *_said_of(function))  # fmt: skip
        new = (function.__code__, where, function.__name__, function.__closure__)
        return load.new_function, new, state, None, None, load.set_function

    def refusal(self, value: object) -> str | None:
        """Why this very value is not saved, where that depends on what is being saved."""
        return None

    def sees_to(self, value: object) -> bool:
        """Whether this very value is saved in a way of its own, whatever is in it."""
        return False

    def carries_globals(self, where: str) -> bool:
        """Whether functions by value of this module bring the globals along that they use."""
        return where == "__main__" or where in self.by_value

    def code(self, code: types.CodeType) -> Reduced:
        where = _module_of(code)
        reference = None if where in self.by_value else code_reference(code, where)
        if reference is None:
            marshalled = marshal.dumps(code)
            return load.code, (marshalled, digest_of(marshalled))
        return load.nested, (self._number(reference, code), reference[2])

    # ---- tasklets and channels ----

    def contents(self, item: object) -> object:
        """What is to be put into an object that was saved empty."""
        if isinstance(item, tasklet):
            return self.tasklet_contents(item)
        if isinstance(item, channel):
            return self.channel_contents(item)
        assert isinstance(item, types.CellType)
        try:
            return (item.cell_contents,)
        except ValueError:  # it is empty
            return ()

    def capture(self, item: tasklet[Any]) -> tuple[Any, ...]:
        """What the C side reads of a tasklet: the members of Captured."""
        return _native.capture(item, self.functions, self.resolve)

    def tasklet_contents(self, item: tasklet[Any]) -> Reduced:
        """What is written of a tasklet: a plain tuple of StartedContents, or of NewContents."""
        (stage, function, args, kwargs, context, direction, waits_in, value, flags, depth, records, before, end, returns,
         handled) = self.capture(item)  # fmt: skip
        position = self.position(item) if flags & Flag.SCHEDULED else 0
        variables, attributes = items_of(context, self.left_out), _attributes(item)
        if stage != STARTED:
            if flags & Flag.RAISES:
                raise CannotSave(
                    f"cannot save {item!r}: an exception was thrown into it, and it has not begun. Let it run first"
                )
            return stage, function, args, kwargs, flags, depth, value, position, variables, attributes
        self.captured.append((item, records))
        self.note_inside(item, records)
        return (stage, records, handled, before, end, returns, direction, waits_in, value, flags, depth, position, variables,
                attributes)  # fmt: skip

    def note_inside(self, item: tasklet[Any], records: list[tuple[Any, ...]]) -> None:
        """Note the generators whose frames these are, and each object that is in the middle of a method that may change it: its
        __reduce__ describes it as it is before such a call, or after.
        """
        numbers = self.functions_by_number()
        for record in records:
            if len(record) > PLAIN_RECORD:
                self.met.add(id(record[GENERATOR]))
            function = numbers.get(record[FUNCTION], record[FUNCTION])
            value = object_state.changing(function, record[SLOTS])
            if value is None or id(value) in self.inside:
                continue
            if any(value is each for each in self.reducing):
                raise CannotSave(
                    f"cannot save {item!r}: it is in the middle of {function.__qualname__}, and the object whose method that "
                    f"is was written by {type(value).__name__}.__reduce__ already, which knows no middle. Let the tasklet "
                    "wait outside of the object's methods, or be the first that leads to it"
                )
            self.inside[id(value)] = value

    def channel_contents(self, item: channel[Any]) -> Reduced:
        if _native.selects(item):
            raise CannotSave(f"cannot save {item!r}: tasklets wait there in select(), which is not saved")
        waiting = []
        each = item.queue
        while each is not None:
            waiting.append(each)
            each = each.next
        contents = (item.preference, item.schedule_all, item.closing, waiting, _attributes(item))
        if not item.buffer and not item.buffered:
            return contents
        return *contents, item.buffer, _native.buffered(item)

    def position(self, item: tasklet[Any]) -> int:
        """The place of a scheduled tasklet in the run queue of its thread."""
        places = self.positions.get(item.thread_id)
        if places is None:
            places = self.positions[item.thread_id] = {}
            each: tasklet[Any] | None = item
            while each is not None and each not in places:
                places[each] = len(places)
                each = each.next
            first = next((at for each, at in places.items() if each.is_current), 0)
            self.positions[item.thread_id] = places = {each: (at - first) % len(places) for each, at in places.items()}
        return places.get(item, 0)

    # ---- everything else that pickle does not know ----

    def generator(self, generator: Any) -> Reduced:
        stage, function, *rest = _native.generator_get(generator)
        if function is None:
            if isinstance(generator, types.AsyncGeneratorType):
                return load.ended_async_generator, ()
            return load.ended_generator, (isinstance(generator, types.CoroutineType),)
        if not rest:  # it runs
            self.executing[id(generator)] = generator
        state = ((stage, *rest) if rest else None, generator.__name__, generator.__qualname__)
        return load.new_generator, (function,), state, None, None, load.set_generator

    def lock(self, item: object, make: Callable[[], Any]) -> Reduced:
        """A lock that is not held is a new one where it is restored."""
        if not self.saves_locks:
            raise TypeError(f"cannot pickle {by_name.type_name(item)!r} object")
        if values.is_held(item):
            raise TypeError(
                f"cannot pickle {by_name.type_name(item)!r} object: it is held, and its holder is not saved"
            )
        return make, ()

    def reducer_override(self, item: Any) -> Any:
        """How an object is saved; pickle's own way for what it knows."""
        kind = type(item)
        reduce = _REDUCERS.get(kind)
        if reduce is not None:
            return reduce(self, item)
        if isinstance(item, BaseException):
            return _exception(item)
        if isinstance(item, types.ModuleType):  # one that has given itself another class
            return load.module, (_name_of_module(item),)
        if isinstance(item, (tasklet, channel)):
            self.queue.append(item)
            return (load.tasklet if isinstance(item, tasklet) else load.channel), (kind,)
        way = self.ways.get(kind)
        if way is None:
            way = self.ways[kind] = object_state.of(kind)
        if way is object_state.PICKLES:
            return NotImplemented
        if way is object_state.REDUCES:
            if id(item) in self.inside:
                return object_state.as_it_is(item)
            self.reducing.append(item)
            return NotImplemented
        return way(item)


def warn_of(left_out: "dict[contextvars.ContextVar[Any], None]", copied: Collection[str], stacklevel: int) -> None:
    """Warn of what a snapshot lacks, and of what it has a copy of, if there is any; from the caller's caller with stacklevel=2."""
    if left_out:
        names = ", ".join(sorted(repr(variable.name) for variable in left_out))
        warnings.warn(
            f"left out of the snapshot: the context variables {names}, which are no module's attributes, by which they would be "
            "found again. Where the snapshot is restored they have their defaults. To keep one, make it a global of its module",
            LeftOut,
            stacklevel + 1,
        )
    if copied:
        warnings.warn(
            f"copied into the snapshot: what the modules hold as {', '.join(sorted(copied))}. Where the snapshot is restored, the "
            "tasklet has the copy, and the module its own. Let the job keep what belongs to it in variables, or use the module's "
            "by its name",
            Copied,
            stacklevel + 1,
        )


def _named(saver: Saver, item: Any, place: Any) -> Any:
    return saver.named(item, place)


_PLAIN = {load.__name__, "copyreg"}  # whose functions are names in the pickles themselves


def _said_of(function: types.FunctionType) -> tuple[Any, ...]:
    """Annotations and type parameters, where there are any: as they are, or what computes them."""
    more: dict[str, Any] = {}
    annotate = getattr(function, "__annotate__", None)  # from 3.14 on
    if annotate is not None:
        more["__annotate__"] = annotate
    elif annotations := _native.annotations_of(function):
        more["__annotations__"] = annotations
    if getattr(function, "__type_params__", ()):
        more["__type_params__"] = function.__type_params__  # type: ignore[attr-defined]
    return (more,) if more else ()


def _names_in(code: types.CodeType) -> set[str]:
    """All global names that the code, or code nested in it, may use."""
    names = set(code.co_names)
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            names |= _names_in(each)
    return names


_modules: dict[str, str] = {}  # by file


def _module_of(code: types.CodeType) -> str | None:
    name = _modules.get(code.co_filename)
    if name is not None and getattr(sys.modules.get(name), "__file__", None) == code.co_filename:
        return name
    for name, module in list(sys.modules.items()):
        if name != "__main__" and getattr(module, "__file__", None) == code.co_filename:
            if len(_modules) > 1000:
                _modules.clear()
            _modules[code.co_filename] = name
            return name
    return None


Attributes = dict[str, object] | tuple[dict[str, object] | None, dict[str, object]]  # alone, or with those in slots


def _attributes(item: object) -> Attributes | None:
    if type(item) in (tasklet, channel):
        return None
    plain = getattr(item, "__dict__", None) or None
    names: list[str] = copyreg._slotnames(type(item))  # type: ignore[attr-defined]
    slots = {name: getattr(item, name) for name in names if hasattr(item, name)}
    return (plain, slots) if slots else plain


def _match(item: "re.Match[Any]") -> Reduced:
    return load.match, (item.re, item.string, (item.pos, item.endpos), values.how_found(item), item.regs)


def _name_of_module(module: types.ModuleType) -> str:
    name = module.__name__
    if sys.modules.get(name) is not module:
        name = next((each for each, found in list(sys.modules.items()) if found is module), "")
        if not name:
            raise TypeError(f"{module!r} is no module that could be imported")
    return name


def _queued(make: Callable[..., object]) -> Callable[[Saver, Any], Reduced]:
    def reduce(saver: Saver, item: object) -> Reduced:
        saver.queue.append(item)
        return make, ()

    return reduce


def _exception(error: BaseException) -> Any:
    kind = type(error)
    if not isinstance(kind.__reduce__, types.MethodDescriptorType) or kind.__reduce_ex__ is not object.__reduce_ex__:
        return NotImplemented  # it has a way of its own
    made = error.__reduce__()
    assert isinstance(made, tuple)
    attributes = dict(made[2]) if len(made) > 2 and made[2] else {}
    found = error.__traceback__
    state = (attributes, error.__cause__, error.__context__, error.__suppress_context__, _text_of(found), found)
    return load.exception, (kind, made[1]), state, None, None, load.set_exception


def _text_of(found: types.TracebackType | None) -> str:
    """The lines of a traceback, without what stands for lines that a snapshot has as text."""
    lines = traceback.format_tb(found)
    while found is not None and found.tb_next is not None:
        found = found.tb_next
    if found is not None and found.tb_frame is load.SAVED_FRAME:
        lines.pop()
    return "".join(lines)


def _refused(what: str) -> Callable[[Saver, Any], Reduced]:
    def reduce(saver: Saver, item: object) -> Reduced:
        raise TypeError(what)

    return reduce


def _only_referent(item: Any) -> Any:
    """The dictionary behind a view of it, itself and not a proxy; the coroutine behind its __await__()."""
    import gc  # only for this

    (found,) = gc.get_referents(item)
    return found


def _behind_proxy(item: "types.MappingProxyType[Any, Any]") -> Any:
    found = _only_referent(item)
    if isinstance(getattr(found.get("__dict__"), "__objclass__", None), type) or "__module__" in found:
        raise TypeError("the attributes of a class, as its __dict__ has them, are saved by no name")
    return found


_REDUCERS: dict[type, Callable[[Saver, Any], Any]] = {
    types.FunctionType: Saver.function,
    types.CodeType: Saver.code,
    types.GeneratorType: Saver.generator,
    types.CoroutineType: Saver.generator,
    types.CellType: _queued(load.cell),
    tasklet: _queued(load.plain_tasklet),
    channel: _queued(load.plain_channel),
    type: lambda saver, item: NotImplemented,
    object: Saver.nameless,
    types.MethodType: lambda saver, item: (load.method, (item.__func__, item.__self__)),
    types.ModuleType: lambda saver, item: (load.module, (_name_of_module(item),)),
    threading.Condition: _refused("it is for other threads, which are not saved"),
    re.Match: lambda saver, item: _match(item),
    _thread.LockType: lambda saver, item: saver.lock(item, load.lock),
    _thread.RLock: lambda saver, item: saver.lock(item, load.recursive_lock),
    types.TracebackType: lambda saver, item: (load.saved_traceback, ()),
    contextvars.ContextVar: lambda saver, item: (load.variable, place_of(item)),
    contextvars.Context: lambda saver, item: (load.context, (items_of(item, saver.left_out),)),
    type({}.keys()): lambda saver, item: (dict.keys, (_only_referent(item),)),
    type({}.values()): lambda saver, item: (dict.values, (_only_referent(item),)),
    type({}.items()): lambda saver, item: (dict.items, (_only_referent(item),)),
    types.MappingProxyType: lambda saver, item: (load.mapping_proxy, (_behind_proxy(item),)),
    type(atomic()): lambda saver, item: (atomic, ()),
    # Tasklets that wait for it are refused, or stay in the source.
    Event: lambda saver, item: (load.event, (item.is_set(),)),
    types.AsyncGeneratorType: Saver.generator,
    load.AwaitedType: lambda saver, item: (load.awaited, (_only_referent(item),)),
    **dict.fromkeys(closed.FILES, lambda saver, item: closed.file(item)),
    **dict.fromkeys(closed.IN_MEMORY, lambda saver, item: closed.file(item) if item.closed else NotImplemented),
    socket.socket: lambda saver, item: closed.opened(item),
    types.FrameType: _refused("frames are saved with their tasklet alone"),
}
if lazy_imports.KIND is not None:
    _REDUCERS[lazy_imports.KIND] = lambda saver, item: (load.lazy_import, lazy_imports.described(item))
