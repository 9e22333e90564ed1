"""Context variables by reference: pickle knows neither them nor contexts."""

import contextvars
import sys
from typing import Any

from weft.snapshot._errors import BadSnapshot, CannotSave

_MOST = 1000  # variables whose place is remembered

_places: dict["contextvars.ContextVar[Any]", tuple[str, str]] = {}


def place_of(variable: "contextvars.ContextVar[Any]") -> tuple[str, str]:
    """(module, name) of the module's attribute that is this variable; CannotSave when there is none."""
    place = _places.get(variable)
    if place is not None and getattr(sys.modules.get(place[0]), place[1], None) is variable:
        return place
    for name, module in list(sys.modules.items()):
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is variable:
                if len(_places) >= _MOST:
                    _places.clear()
                _places[variable] = name, attribute
                return name, attribute
    raise CannotSave(
        f"cannot save {variable!r}: the context variable is no module's attribute, by which it would be found again. Make it a "
        "global of its module"
    )


def variable_at(module: str, name: str) -> "contextvars.ContextVar[Any]":
    """The variable of this place; imports its module."""
    __import__(module)
    found = getattr(sys.modules[module], name, None)
    if not isinstance(found, contextvars.ContextVar):
        raise BadSnapshot(
            f"{module}.{name} is no context variable here: the snapshot was made with another version of the module"
        )
    return found


def items_of(context: contextvars.Context | None) -> list[tuple[object, object]] | None:
    """What a context holds: variable and value; decimal's own variable, which is nobody's attribute, stands as None."""
    if not context:
        return None
    return [
        (None if variable.name == "decimal_context" and type(value).__module__ == "decimal" else variable, value)
        for variable, value in context.items()
    ]


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
