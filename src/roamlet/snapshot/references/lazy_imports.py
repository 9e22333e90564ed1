"""Lazy imports (PEP 810) that nothing has needed yet: their placeholders in globals, as the statements that made them."""

import gc
import types
from typing import Any

from roamlet.snapshot._errors import BadSnapshot

# What is read from a module's dictionary is the placeholder as long as only local variables hold it: a global would be resolved.
KIND: Any = getattr(types, "LazyImportType", None)


def described(placeholder: Any) -> tuple[str, bool, tuple[str, ...]]:
    """Which module is imported, whether by `from`, and what of it is taken: nothing where the top-level package is bound.

    Nothing else tells an unresolved one apart: each attribute that it is asked for resolves it.
    """
    names: list[str] = []
    while True:
        found = gc.get_referents(placeholder)
        name = next(each for each in found if type(each) is str)
        above = [each for each in found if type(each) is KIND]
        if not above:
            return name, any(type(each) is tuple for each in found), tuple(reversed(names))
        names.append(name)
        (placeholder,) = above


def made(module: str, by_from: bool, names: tuple[str, ...]) -> Any:
    """A placeholder of the same import. An import that may not be lazy here is done at once."""
    words = [*module.split("."), *names]
    if not all(word.isidentifier() for word in words) or (by_from and len(names) != 1):
        raise BadSnapshot("the snapshot has a lazy import that no statement can be")
    if by_from:
        statement, bound = f"lazy from {module} import {names[0]} as found", "found"
    elif names:
        statement, bound = f"lazy import {module} as found", "found"
    else:
        statement, bound = f"lazy import {module}", words[0]
    space: dict[str, Any] = {}
    exec(statement, space)
    return space.get(bound)
