"""Under what name an object holds another one, and which objects may hold exceptions: futures and the like.

Nothing of the program is run for it: no property, no `__getattr__`, no comparison.
"""

import sys
from collections import deque
from collections.abc import Iterator
from types import CellType, MemberDescriptorType
from typing import Any

CONTAINERS = (list, tuple, dict, set, frozenset, deque)

# Classes, and what derives from them, that hold an exception until it is asked for, by module and name, so that none of
# them has to be imported.
HOLD_FOR_OTHERS = {
    "concurrent.futures._base.Future",
    "asyncio.futures.Future",
    "_asyncio.Future",
    "roamlet.sync._outcome.Outcome",
}
# pytest keeps what a test has caught, what its fixtures gave and what it was called with until it has been reported, and longer.
OF_PYTEST = ("_pytest.", "pluggy.")


def is_exception(thing: Any) -> bool:
    """Whether it is an exception object; `isinstance` would ask a proxy for the class of its target."""
    return issubclass(type(thing), BaseException)


def may_hold(thing: Any, *, futures: bool) -> bool:
    """Whether holding exceptions is what `thing` is for: pytest's own; and futures, if they count."""
    for kind in type(thing).__mro__:
        if str(kind.__module__).startswith(OF_PYTEST):
            return True
        if futures and f"{kind.__module__}.{kind.__qualname__}" in HOLD_FOR_OTHERS:
            return True
    return False


def namespace_of(thing: Any) -> dict[str, Any] | None:
    """The dictionary of its attributes, if it has one."""
    try:
        found = object.__getattribute__(thing, "__dict__")
    except (AttributeError, TypeError):
        return None
    return found if type(found) is dict else None


def attributes_of(thing: Any) -> Iterator[tuple[str, Any]]:
    """Its attributes and slots that have a value."""
    yield from list((namespace_of(thing) or {}).items())
    for kind in type(thing).__mro__:
        for name, member in list(vars(kind).items()):
            if type(member) is MemberDescriptorType:
                try:
                    yield name, member.__get__(thing)
                except (AttributeError, TypeError):
                    continue


def key_of(names: dict[str, Any], value: Any) -> str | None:
    """The first name that stands for this very object, or for a cell that holds it."""
    for name, held in list(names.items()):
        if held is value or (type(value) is CellType and held is _content(value)):
            return name if isinstance(name, str) else None
    return None


def named(base: str, way: list[Any]) -> tuple[str, tuple[str, ...]]:
    """`base`, which stands for the first object of `way`, with the attributes that lead on to its last; and those, each as `.name`.

    The name ends at the first container.
    """
    attributes: list[str] = []
    at = 0
    while at + 1 < len(way):
        here, there = way[at], way[at + 1]
        if type(here) is CellType:
            at += 1
            continue
        if issubclass(type(here), CONTAINERS) or is_exception(here):
            break
        step = 1
        if there is namespace_of(here) and at + 2 < len(way):
            there, step = way[at + 2], 2
        attribute = next((name for name, held in attributes_of(here) if held is there), None)
        if attribute is None:
            break
        attributes.append(attribute)
        at += step
    return ".".join([base, *attributes]), tuple(f".{each}" for each in attributes)


def inside(cell: Any) -> Any:
    """What a cell holds; anything else itself."""
    return _content(cell) if type(cell) is CellType else cell


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return sys
