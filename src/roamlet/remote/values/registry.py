"""What travels besides plain values, seen from the parent: which classes may come up, and what a message needs on the target.

How values are taken apart and made again is in roamlet.wire.values.kinds and roamlet.wire.values.instances. What comes up is data:
Python's own exceptions, and classes that `register` was given, made without running any code of these classes.
"""

import functools
import types
from collections.abc import Callable
from typing import Any, TypeVar

from roamlet.remote import modules
from roamlet.remote.modules.main_script import name_here
from roamlet.remote.values.failures import BUILTIN, BUILTIN_MODULES, RENAMED
from roamlet.remote.values.functions import Packer
from roamlet.wire import codec, protocol
from roamlet.wire.values import instances, kinds, large_messages, values

C = TypeVar("C", bound=type)

PLAIN_TYPES: dict[str, type] = {
    kind.__name__: kind
    for kind in (bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, object)
}

Body = bytes | large_messages.LargeMessage
_registered: dict[tuple[str, str], type] = {}


def register(cls: C) -> C:
    """Let instances of `cls` come up from contexts, as results and as exceptions; also a decorator. Returns `cls`.

    For dataclasses, namedtuples, enums, exceptions, and other classes that are made by class statements alone. An instance that
    comes up is made by `__new__`, and its fields are set: neither `__init__` nor a property, a descriptor, `__reduce__` or
    `__setstate__` runs. Its fields are data from another machine, whatever their annotations say; so check what matters.
    Instances go down without this. Thread-safe; registering twice is harmless. Raises TypeError for what is no such class.
    """
    if not isinstance(cls, type):
        raise TypeError(f"register takes a class, not {cls!r:.80}: remote.register(type(value))")
    if instances.shape_of(cls) is None or vars(cls).get("__dict__", types.GetSetDescriptorType) is property:
        raise TypeError(
            f"{kinds.type_name(cls)} cannot come up: its instances hold what only C code knows. "
            "Return what is needed to make one, and make it here"
        )
    _registered[_name_on_target(cls)] = cls
    return cls


def _name_on_target(cls: type) -> tuple[str, str]:
    module = modules.name_on_target() if cls.__module__ == "__main__" else cls.__module__
    return module, cls.__qualname__


class Stranger:
    """An instance of a class that was not registered: it takes the place of the value until the caller is told where."""

    def __init__(self, name: str) -> None:
        self.name = name


class Incoming:
    """Decodes one message that came up."""

    def __init__(self) -> None:
        self.strangers: bool = False

    def loads(
        self, body: bytes, refer: Callable[[int], Any] | None = None, until: Callable[[], bool] | None = None
    ) -> Any:
        """The value of a body, be it plain or not. Raises CodecError, or codec.CannotTravel for what may not be made here.

        `until`: see codec.loads.
        """
        if body[:1] != b"V":
            return codec.loads(body, refer, until=until)
        value = codec.loads(values.to_decode(body, self.resolve), refer, until=until)
        if self.strangers:
            path, stranger = _find_stranger(value, "result", set()) or ("result", Stranger("an unknown class"))
            raise codec.CannotTravel(
                f"{path} cannot travel: it is a {stranger.name}, and classes that come up must be known here; call "
                f"remote.register({stranger.name.rpartition('.')[2]}) before, or return its fields",
                path,
                stranger.name,
            )
        return value

    def resolve(self, module: str, name: str, shape: str | None, fields: tuple[str, ...]) -> Any:
        """See values.loads."""
        cls = _registered.get((module, name))
        if shape is None:
            if cls is None and module in (*BUILTIN_MODULES, "__builtin__"):
                cls = PLAIN_TYPES.get({"unicode": "str", "long": "int"}.get(name, name))
            if cls is None:
                raise codec.CannotTravel(
                    f"result cannot travel: it holds the class {module}.{name}, and only data comes up"
                )
            return cls
        if shape == instances.EXCEPTION and module in BUILTIN_MODULES:
            cls = BUILTIN.get(RENAMED.get(name, name))
        if cls is None:
            self.strangers = True
            stranger = Stranger(f"{name_here(module)}.{name}" if module not in BUILTIN_MODULES else name)
            return lambda items: stranger
        return _maker(cls, shape, fields)


def resolve(module: str, name: str, shape: str | None, fields: tuple[str, ...]) -> Any:
    """As Incoming.resolve, for callers that need no path: a class that is not known is refused at once."""
    incoming = Incoming()
    make = incoming.resolve(module, name, shape, fields)
    if incoming.strangers:
        raise codec.CannotTravel(
            f"value cannot travel: it is a {name_here(module)}.{name}, and classes that come up must be known here; call "
            f"remote.register({name}) before"
        )
    return make


def registered_error(module: str, name: str, args: Any, fields: Any) -> Exception | None:
    """The exception to raise for one of a registered class; None when the class is not registered, or what came does not fit it."""
    cls = _registered.get((module, name))
    if cls is None or not issubclass(cls, Exception) or type(args) is not tuple:
        return None
    try:
        error = _maker(cls, instances.EXCEPTION, ("args", "fields"))([args, fields if type(fields) is dict else {}])
    except (codec.CodecError, codec.CannotTravel, TypeError, ValueError):
        return None
    return error if isinstance(error, Exception) else None


def _maker(cls: type, shape: str, fields: tuple[str, ...]) -> Callable[[list[Any]], Any]:
    make: Callable[[list[Any]], Any] = instances.maker(cls, shape, fields)
    if shape == instances.OBJECT:
        _check_names(cls, fields)
    elif shape == instances.EXCEPTION:

        def make_exception(items: list[Any]) -> Any:
            if len(items) == 2 and type(items[1]) is dict:
                _check_names(cls, tuple(items[1]))
                notes = items[1].get("__notes__", [])
                if type(notes) is not list or not all(type(note) is str for note in notes):
                    raise codec.CodecError("a message is garbled: malformed notes of an exception")
            return make(items)

        return make_exception
    return make


def _check_names(cls: type, names: tuple[Any, ...]) -> None:
    """Refuse fields that would hide something of the class's own from code that uses the instance."""
    for name in names:
        if type(name) is not str or not name.isidentifier():
            raise codec.CodecError("a message is garbled: a field that has no name")
        held = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
        is_code = hasattr(type(held), "__get__") and type(held) not in (
            types.MemberDescriptorType,
            functools.cached_property,
        )
        if is_code or (name.startswith("__") and name.endswith("__") and name != "__notes__"):
            raise codec.CannotTravel(
                f"result cannot travel: it is a {kinds.type_name(cls)} with a field {name}, which is something else here; is it "
                "another version of the class on the target?"
            )


def _find_stranger(value: Any, path: str, done: set[int]) -> tuple[str, Stranger] | None:
    """Where in a value the first stranger stands."""
    if isinstance(value, Stranger):
        return path, value
    if id(value) in done:
        return None
    done.add(id(value))
    steps: list[tuple[Any, str]] = []
    if isinstance(value, dict):
        for key, item in dict.items(value):
            steps += [(key, f"{path}, key {_said(key)}"), (item, f"{path}[{_said(key)}]")]
    elif type(value) in _registered.values() or isinstance(value, (BaseException, types.SimpleNamespace)):
        shape = instances.shape_of(type(value)) or instances.OBJECT
        _, items, step = instances.fields_of(value, shape)
        steps = [(item, path + step(index)) for index, item in enumerate(items)]
    elif type(value).__module__ in ("builtins", "collections") and hasattr(value, "__iter__"):
        marked = isinstance(value, (set, frozenset))
        if not isinstance(value, (str, bytes, bytearray, range, memoryview)):
            steps = [
                (item, f"{path}, item {_said(item)}" if marked else f"{path}[{i}]") for i, item in enumerate(value)
            ]
    elif isinstance(value, slice):
        steps = [(value.start, path + ".start"), (value.stop, path + ".stop"), (value.step, path + ".step")]
    for item, where in steps:
        found = _find_stranger(item, where, done)
        if found is not None:
            return found
    return None


def _said(value: Any) -> str:
    return f"of type {value.name}" if isinstance(value, Stranger) else codec._name(value)


class Outgoing:
    """Encodes one message that goes down, and knows what must be there before it."""

    def __init__(
        self,
        version: tuple[int, ...],
        begin_again: Callable[[], None] = lambda: None,
        lent: bool = False,
        owner: object = None,
    ) -> None:
        """`begin_again()` is called when what was referred to so far was in vain: all of it follows once more.

        `lent`: the caller does not change large buffers before they are sent; else they are copied. `owner`: of the values that may
        be named because the target keeps them, which it does as long as `kept` holds what was put into it.
        """
        self._lent = lent
        self._owner = owner
        self.kept: list[Any] = []
        self._version = version
        self.parts: tuple[str, ...] = ()
        self.modules: dict[str, bool] = {}  # name -> whether the call makes no sense without
        self._begin_again = begin_again

    def dumps(self, arguments: tuple[Any, ...], names: tuple[str, ...], refer: Any = None) -> Body:
        """The body of a message. Raises codec.CannotTravel."""
        return codec.dumps(arguments, "value", names, refer, self._richer)  # type: ignore[no-any-return]

    def _richer(self, value: Any, root: str, parts: Any, refer: Any) -> Body:
        self._begin_again()
        buffers: list[Any] = []
        packer = Packer(refer, buffers, self._version, self._owner)
        body: bytes = packer.message(value, root, parts)  # type: ignore[no-untyped-call]
        if not self._lent:
            buffers = [one if type(one) is bytes else bytearray(getattr(one, "view", one)) for one in buffers]
        self.parts = ("values.values", "values.functions") if packer.code else ("values.values",)
        self.modules = packer.modules
        self.kept = packer.kept
        if not buffers and len(body) <= protocol.MAX_BODY:
            return body
        self.parts = (*self.parts, "values.large_messages")
        return large_messages.LargeMessage(body, buffers)


values.use(resolve, imports=False)
