"""How objects of classes written in Python are saved: as pickle has it, or by their attributes, past the code of their class.

Pickle makes an empty object and fills it by what its class understands as an attribute or an item. A class that has a __getattr__,
a __setattr__ or a __setitem__ takes that for the use of a complete object, and fails.
"""

import copyreg
import types
from collections.abc import Callable, Iterator
from typing import Any

from roamlet.snapshot.loading import load
from roamlet.snapshot.references.code import _unwrapped

Way = Callable[[Any], Any]

_MADE_BY_CODE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_VALUES = (tuple, str, bytes, int, float, complex)  # whose __getnewargs__ is one argument: the value


def PICKLES(item: Any) -> Any:
    """Pickle's own way."""
    return NotImplemented


def REDUCES(item: Any) -> Any:
    """Pickle's own way, which is a __reduce__ in Python."""
    return NotImplemented


def of(kind: type) -> Way:
    """The way of this class; the same as long as the class does not change."""
    if kind in copyreg.dispatch_table or issubclass(kind, type):
        return PICKLES
    reduce, reduce_ex = _found(kind, "__reduce__"), _found(kind, "__reduce_ex__")
    if isinstance(reduce, types.FunctionType) or isinstance(reduce_ex, types.FunctionType):
        return REDUCES
    if reduce is not object.__reduce__ or reduce_ex is not object.__reduce_ex__:
        return PICKLES
    if _wants_more(kind):
        return _value
    if _found(kind, "__setstate__") is not None:
        return PICKLES
    if isinstance(_found(kind, "__getstate__"), types.FunctionType) and _is_plain(kind) and not _has_arguments(kind):
        return with_what_is_left_out
    return by_attributes if _interferes(kind) else PICKLES


def _found(kind: type, name: str) -> Any:
    """What the class itself has by this name, whatever its metaclass says."""
    for each in type.__dict__["__mro__"].__get__(kind):
        space = type.__dict__["__dict__"].__get__(each) or {}
        if name in space:
            return space[name]
    return None


def _interferes(kind: type) -> bool:
    names = ["__getattr__", "__setattr__", "__getattribute__"]
    if issubclass(kind, dict):
        names.append("__setitem__")
    if issubclass(kind, list):
        names += ["append", "extend"]
    return any(isinstance(_found(kind, name), types.FunctionType) for name in names)


def _base(kind: type) -> type | None:
    return next((each for each in _VALUES if issubclass(kind, each)), None)


def _wants_more(kind: type) -> bool:
    base = _base(kind)
    if base is None or _found(kind, "__getnewargs__") is not base.__dict__["__getnewargs__"]:
        return False
    return (
        isinstance(_found(kind, "__new__"), (staticmethod, types.FunctionType))
        and _found(kind, "__getnewargs_ex__") is None
    )


def _value(item: Any) -> Any:
    base = _base(type(item))
    assert base is not None
    made = object.__reduce_ex__(item, 5)
    return load.value, (base, type(item), base.__getnewargs__(item)[0]), *made[2:]  # type: ignore[attr-defined]


def by_attributes(item: Any) -> Any:
    """What pickle would write, put back past the code of the class."""
    kind = type(item)
    if _is_plain(kind) and not _has_arguments(kind) and _found(kind, "__getstate__") is object.__dict__["__getstate__"]:
        return as_it_is(item)  # without asking the object for anything: it may hand on even that
    made, arguments, state, items, pairs = (*object.__reduce_ex__(item, 5), None, None, None)[:5]
    return _put_back(made, arguments, state, items, pairs)


def with_what_is_left_out(item: Any) -> Any:
    """By its attributes, where its __getstate__ leaves some out and no __setstate__ makes them again: the tasklet goes on with it.

    What cannot be saved stays as __getstate__ has it: a file that is opened when it is needed.
    """
    said, had = item.__getstate__(), object.__getstate__(item)
    if type(said) is not dict or type(had) is not dict:
        return by_attributes(item) if _interferes(type(item)) else NotImplemented
    kept = {name: value for name, value in had.items() if said.get(name, said) is not value and _is_known(value)}
    return _put_back(load.made_anew, (type(item),), {**said, **kept}, *_items(item))


def _is_known(value: object) -> bool:
    """Whether pickle does not refuse it right away."""
    if isinstance(value, (type, types.FunctionType, types.GeneratorType, types.ModuleType)):
        return True
    reduce: Any = type(value).__reduce_ex__
    try:
        reduce(value, 5)
    except Exception:
        return False
    return True


def _has_arguments(kind: type) -> bool:
    return any(_found(kind, name) for name in ("__getnewargs__", "__getnewargs_ex__"))


def _items(item: Any) -> tuple[Any, Any]:
    kind = type(item)
    return list.__iter__(item) if issubclass(kind, list) else None, dict.items(item) if issubclass(kind, dict) else None


def _is_plain(kind: type) -> bool:
    return {each for each in kind.__mro__ if not each.__flags__ & _MADE_BY_CODE} <= {object, list, dict}


def as_it_is(item: Any) -> Any:
    """By its attributes, and its items where it is a list or a dictionary, whatever its __reduce__ says.

    TypeError where it has more than those.
    """
    kind = type(item)
    if not _is_plain(kind):
        raise TypeError(
            f"a {kind.__name__} is in the middle of a method of its own that is saved with the tasklet, and "
            f"{kind.__name__}.__reduce__ knows no middle. Let the tasklet wait outside of its methods"
        )
    return _put_back(load.made_anew, (kind,), object.__getstate__(item), *_items(item))


def _put_back(made: Any, arguments: Any, state: Any, items: Any, pairs: Any) -> Any:
    if state is None and items is None and pairs is None:
        return made, arguments
    content = (state, None if items is None else list(items), None if pairs is None else list(pairs))
    return made, arguments, content, None, None, load.set_state


def changing(function: types.FunctionType, slots: tuple[Any, ...]) -> Any:
    """The object whose method this is, if it says in Python how it is reduced and is a value that can change; None otherwise."""
    if not function.__code__.co_argcount or not slots:
        return None
    item = slots[0]
    if type(item) is types.CellType:
        try:
            item = item.cell_contents
        except ValueError:
            return None
    kind = type(item)
    if _found(kind, "__hash__") is not None or of(kind) is not REDUCES:
        return None
    return item if any(each is function for each in _methods(kind, function.__name__)) else None


def _methods(kind: type, name: str) -> Iterator[object]:
    for each in type.__dict__["__mro__"].__get__(kind):
        yield from _unwrapped((type.__dict__["__dict__"].__get__(each) or {}).get(name))
