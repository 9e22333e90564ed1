"""Objects whose __reduce__ writes a part of a graph by itself: what they refer to is compared with what else refers to it.

pickle keeps each object one where it is asked for each reference. A __reduce__ that turns a whole tree into plain data makes a
copy of the tree for each of its objects that is written; which of these was meant to be one is noted where they are saved.
"""

import copyreg
import datetime
import decimal
import fractions
import re
import types
from collections.abc import Iterator
from typing import Any

from roamlet.snapshot._errors import BadSnapshot

Step = tuple[str, Any]
Link = tuple[Any, tuple[Step, ...], Any]

_MOST = 10_000  # objects that are looked at below one
ATOMS = (
    str, bytes, int, float, complex, tuple, frozenset, type(None), type, types.ModuleType, types.FunctionType,
    types.BuiltinFunctionType, types.MethodType, range, slice, re.Pattern, datetime.date, datetime.time, datetime.timedelta,
    datetime.tzinfo, decimal.Decimal, fractions.Fraction,
)  # fmt: skip
"""What is as right as a copy, or saved by name. Tuples are looked into."""


def reduces(kind: type) -> bool:
    """Whether the class says itself, in Python, what is written of its instances."""
    return isinstance(kind.__reduce__, types.FunctionType) or isinstance(kind.__reduce_ex__, types.FunctionType)


def of(items: list[Any], memo: Any) -> list[Link]:
    """(object, way, other): by this way the object leads to another one that was written by itself."""
    written = memo.copy()
    return [(item, way, other) for item in items for way, other in _written_below(item, written)]


def _written_below(item: Any, written: dict[int, Any]) -> Iterator[tuple[tuple[Step, ...], Any]]:
    todo: list[tuple[tuple[Step, ...], Any]] = [((), item)]
    seen = {id(item)}
    while todo and len(seen) < _MOST:
        way, each = todo.pop()
        for step, value in _parts(each):
            if id(value) in seen or (isinstance(value, ATOMS) and type(value) is not tuple):
                continue
            seen.add(id(value))
            if id(value) in written and type(value) is not tuple:
                yield (*way, step), value
            else:
                todo.append(((*way, step), value))


def _parts(value: Any) -> Iterator[tuple[Step, Any]]:
    if isinstance(value, dict):
        yield from ((("key", key), each) for key, each in list(value.items()) if type(key) in (str, int))
    elif isinstance(value, (list, tuple)):
        yield from ((("item", number), each) for number, each in enumerate(value))
    else:
        for name, each in list(getattr(value, "__dict__", {}).items()):
            yield ("attribute", name), each
        names: list[str] = copyreg._slotnames(type(value))  # type: ignore[attr-defined]
        for name in names:
            if hasattr(value, name):
                yield ("attribute", name), getattr(value, name)


def check(links: list[Link]) -> None:
    """Raise BadSnapshot when a way leads to something else than it has."""
    for item, way, other in links:
        found = item
        try:
            for kind, name in way:
                found = getattr(found, name) if kind == "attribute" else found[name]
        except (AttributeError, LookupError, TypeError):
            found = None
        if found is not other:
            shown = "".join(f".{name}" if kind == "attribute" else f"[{name!r}]" for kind, name in way)
            raise BadSnapshot(
                f"two references disagree: {type(item).__name__}{shown} and another reference were one {type(other).__name__} "
                f"where the snapshot was made, and are two now, because {type(item).__name__}.__reduce__ writes what belongs to "
                "it by itself. Let the tasklet hold one of them alone, such as the root, while it is saved"
            )
