"""Context variables by reference: pickle knows neither them nor contexts."""

import contextvars
import sys
from typing import Any

from roamlet.snapshot._errors import BadSnapshot, CannotSave

_MOST = 1000  # variables whose place is remembered

_places: dict["contextvars.ContextVar[Any]", tuple[str, str]] = {}

_nameless: dict["contextvars.ContextVar[Any]", int] = {}  # how many modules there were without an attribute that is it

_NAMELESS = (
    "cannot save {!r}: the context variable is no module's attribute, by which it would be found again. Make it a global of its "
    "module"
)


def place_of(variable: "contextvars.ContextVar[Any]") -> tuple[str, str]:
    """(module, name) of the module's attribute that is this variable; CannotSave when no module has it."""
    place = _places.get(variable)
    if place is not None and getattr(sys.modules.get(place[0]), place[1], None) is variable:
        return place
    if _nameless.get(variable) == len(sys.modules):
        raise CannotSave(_NAMELESS.format(variable))
    for name, module in list(sys.modules.items()):
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is variable:
                if len(_places) >= _MOST:
                    _places.clear()
                _places[variable] = name, attribute
                return name, attribute
    if len(_nameless) >= _MOST:
        _nameless.clear()
    _nameless[variable] = len(sys.modules)
    raise CannotSave(_NAMELESS.format(variable))


def variable_at(module: str, name: str) -> "contextvars.ContextVar[Any]":
    """The variable of this place; imports its module."""
    __import__(module)
    found = getattr(sys.modules[module], name, None)
    if not isinstance(found, contextvars.ContextVar):
        raise BadSnapshot(
            f"{module}.{name} is no context variable here: the snapshot was made with another version of the module"
        )
    return found


def items_of(
    context: contextvars.Context | None, left_out: "dict[contextvars.ContextVar[Any], None]"
) -> list[tuple[object, object]] | None:
    """What a context holds: variable and value; None is written for decimal's own variable, which is no module's attribute.

    Others that are no module's attribute are noted in `left_out` instead: libraries make such, and a caller did not ask for them.
    """
    if not context:
        return None
    items: list[tuple[object, object]] = []
    for variable, value in context.items():
        if variable.name == "decimal_context" and type(value).__module__ == "decimal":
            items.append((None, value))
            continue
        try:
            place_of(variable)
        except CannotSave:
            left_out[variable] = None
        else:
            items.append((variable, value))
    return items


def context_of(items: "list[tuple[contextvars.ContextVar[Any] | None, Any]] | None") -> contextvars.Context:
    """A new context with these."""
    context = contextvars.Context()
    for variable, value in items or ():
        if variable is None:
            import decimal  # takes milliseconds, and few need it

            context.run(decimal.setcontext, value)
        else:
            context.run(variable.set, value)
    return context
