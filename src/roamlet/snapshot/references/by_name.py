"""What modules hold, by name: found when something is saved, and again when it is restored.

An object that is equal to nothing but itself, such as a sentinel, is useless as a copy: the module's own has to be there
afterwards. Values are as good as copies; those that can change are copied, with a warning to the caller.
"""

import contextvars
import dis
import sys
import types
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any, cast

from roamlet.core import channel, os_threads, tasklet
from roamlet.snapshot import _native
from roamlet.snapshot._errors import BadSnapshot
from roamlet.snapshot.references import lazy_imports
from roamlet.snapshot.references.values import is_held
from roamlet.sync import Event

Place = tuple[str, str]

_UNNAMED = (
    type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.CodeType, types.GeneratorType,
    types.CoroutineType, types.AsyncGeneratorType, types.FrameType, types.TracebackType, int, frozenset, tasklet,
    channel, Event, contextvars.ContextVar, contextvars.Context, *([lazy_imports.KIND] if lazy_imports.KIND else ()),
)  # fmt: skip
"""What has a way of its own."""

_VALUES: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    str: (lambda value: value.encode("utf-8", "surrogatepass"), lambda saved: saved.decode("utf-8", "surrogatepass")),
    bytes: (lambda value: value.decode("latin-1"), lambda saved: saved.encode("latin-1")),
    float: (float.hex, float.fromhex),
    tuple: (list, tuple),
}  # fmt: skip
"""Constants that code compares by `is` now and then, and that are as right as copies where the module does not hold them."""

_IN_TUPLES = (str, bytes, int, float, bool, type(None))
_MAIN = ("__main__", "__mp_main__")
_LIBRARY = sys.stdlib_module_names - {"builtins"}  # programs have put there what has no name of its own
_OF_THE_PROMPT = {("builtins", "_"), ("sys", "last_exc"), ("sys", "last_value")}
"""Where the interpreter keeps a program's object for a while: the last result, and the last exception that was printed."""

_OF_THE_IMPORT = {
    "__name__", "__file__", "__doc__", "__path__", "__package__", "__spec__", "__loader__", "__cached__", "__builtins__",
    "__annotations__", "__all__", "__warningregistry__",
}  # fmt: skip
_WRAPPERS = (staticmethod, classmethod, type(lru_cache(len)))
_MOST = 1 << 20  # places, some of them of objects that are gone

_places: dict[int, Place] = {}  # by id(); what was there before may be gone, so each is looked at before it is used
_locals: dict[Place, None] = {}  # where there are thread-locals
_versions: dict[str, int] = {}
_sums: dict[str, int] = {}
_rebound: dict[Place, bool] = {}


def places() -> dict[int, Place]:
    """Where the objects are that are attributes of modules now."""
    if len(_places) > _MOST or len(_sums) > len(sys.modules) + 1000:
        for each in (_places, _locals, _versions, _sums, _rebound):
            each.clear()
    for name in _native.names_changed(_versions, _sums):
        module = sys.modules.get(name)
        if module is not None and name not in _MAIN:
            _read(name, module)
    return _places


def _read(name: str, module: types.ModuleType) -> None:
    for attribute, value in list(module.__dict__.items()):
        if issubclass(type(value), type):
            _read_class(name, attribute, value)
        elif _can_be_named(attribute, value) and (name, attribute) not in _OF_THE_PROMPT:
            known = _places.get(id(value))
            if known is None or getattr(type(value), "__module__", None) == name or not is_at(value, known):
                _places[id(value)] = name, attribute
                if issubclass(type(value), os_threads.thread_local) and not isinstance(
                    type(value).__init__, types.FunctionType
                ):
                    _locals[name, attribute] = None


def _read_class(where: str, name: str, kind: type) -> None:
    """What a class of the module has, as far as it is equal to itself alone. An attribute that it gets later is a copy."""
    space = type.__dict__["__dict__"].__get__(kind)
    if space is None or space.get("__module__") != where:  # None: a type of C code that was never made ready
        return
    for attribute, value in list(space.items()):
        held_by: Any = type(value)
        if _can_be_named(attribute, value) and held_by.__eq__ is object.__eq__:
            known = _places.get(id(value))
            if known is None or not is_at(value, known):
                _places[id(value)] = where, f"{name}.{attribute}"


def thread_locals() -> "list[tuple[Place, os_threads.thread_local]]":
    """Those that are attributes of modules."""
    found = []
    for place in list(_locals):
        try:
            found.append((place, _found(*place)))
        except (LookupError, AttributeError):
            del _locals[place]
    return found


def _can_be_named(attribute: str, value: object) -> bool:
    # By type(): the __class__ of a lazy object runs code, which may fail.
    kind = type(value)
    if value is None or issubclass(kind, _UNNAMED) or attribute in _OF_THE_IMPORT:
        return False
    if issubclass(kind, tuple):  # optparse.NO_DEFAULT; one that has more in it than words and numbers is a copy
        found = cast(tuple[object, ...], value)
        return kind is tuple and bool(found) and all(type(each) in _IN_TUPLES for each in found)
    return not issubclass(kind, (str, bytes)) or len(cast(str, value)) > 1  # of the shorter ones there is one each


def _found(module: str, name: str) -> Any:
    """What is there now; a LookupError or AttributeError where that is nothing."""
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = found.__dict__[part]
    return found


def is_at(value: object, place: Place) -> bool:
    """Whether this place holds it."""
    try:
        return _found(*place) is value
    except (LookupError, AttributeError):
        return False


def type_name(value: object) -> str:
    """How the type of an object is written beside its name."""
    kind = type(value)
    return f"{getattr(kind, '__module__', None)}.{kind.__qualname__}"


def decide(item: Any, place: Place) -> tuple[Any, ...] | bool:
    """How an object that is at this place is saved: the arguments of resolve(); True: as a copy, with a warning; False: as a
    copy.
    """
    where, name = place
    if is_held(item):  # a state that the present process alone has: it is refused
        return False
    if type(item) in _VALUES:
        return where, name, type(item).__name__, _VALUES[type(item)][0](item)
    if where == "sys" and name in ("stdin", "stdout", "stderr") and item is not getattr(sys, f"__{name}__"):
        return True  # a program's own, which will put the other one back
    if where.partition(".")[0] not in _LIBRARY:
        kind: Any = type(item)
        if kind.__eq__ is not object.__eq__:
            return kind.__hash__ is None
        if is_rebound(place):
            return True
    return where, name, type_name(item), None


def is_rebound(place: Place) -> bool:
    """Whether functions of the module give this global another value: what it holds is no constant then."""
    known = _rebound.get(place)
    if known is None:
        where, name = place
        known = _rebound[place] = any(_stores(code, name) for code in _codes(where, vars(sys.modules[where]).values()))
    return known


def _codes(where: str, values: Iterable[Any]) -> "list[types.CodeType]":
    """The code of the functions and methods that a module has defined, below their decorators too."""
    found: dict[types.CodeType, None] = {}
    todo, seen = list(values), set()
    while todo:
        value = todo.pop()
        kind = type(value)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if kind is types.FunctionType:
            found[value.__code__] = None
            todo += [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
        elif issubclass(kind, type):
            todo += vars(value).values() if getattr(value, "__module__", None) == where else ()
        elif issubclass(kind, property):
            todo += (value.fget, value.fset, value.fdel)
        elif issubclass(kind, _WRAPPERS):
            todo.append(value.__wrapped__)
    return list(found)


def _stores(code: types.CodeType, name: str) -> bool:
    # An attribute of a class may be stored through anything: it is the name that counts.
    last, by = name.rpartition(".")[2], "STORE_ATTR" if "." in name else "STORE_GLOBAL"
    if last in code.co_names and any(each.opname == by and each.argval == last for each in dis.get_instructions(code)):
        return True
    return any(isinstance(each, types.CodeType) and _stores(each, name) for each in code.co_consts)


def in_a_class(item: object) -> Place | None:
    """Where a class has this object as an attribute, for one that is no module's: takes milliseconds."""
    for where, module in list(sys.modules.items()):
        if where in _MAIN or not issubclass(type(module), types.ModuleType):
            continue
        for name, each in list(module.__dict__.items()):
            if issubclass(type(each), type) and getattr(each, "__module__", None) == where:
                for attribute, value in list(vars(each).items()):
                    if value is item:
                        return where, f"{name}.{attribute}"
    return None


def resolve(where: str, name: str, kind: str, saved: Any) -> Any:
    """The module's own. May import it. BadSnapshot where it is not there; of a constant then a copy."""
    make = next((make for each, (_, make) in _VALUES.items() if saved is not None and each.__name__ == kind), None)
    try:
        if sys.modules.get(where) is None:
            import_module(where)
        found = _found(where, name)
    except (ImportError, LookupError, AttributeError) as error:
        if make is not None:
            return make(saved)
        raise BadSnapshot(
            f"the snapshot refers to {where}.{name}, a {kind} that the module holds, and it is not here "
            f"({type(error).__name__}: {error}). Restore it with the version of the module that it was saved with"
        ) from error
    if make is not None:
        value = make(saved)
        return found if type(found) is type(value) and repr(found) == repr(value) else value
    if type_name(found) != kind:
        raise BadSnapshot(
            f"{where}.{name} is a {type_name(found)} here, and was a {kind} where the snapshot was made. Restore it with the "
            "version of the module that it was saved with"
        )
    return found
