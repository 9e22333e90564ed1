"""From the words of a command line to a function and its arguments. Imports the function's module, calls nothing."""

import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

from roamlet.cli._errors import UsageError

EXAMPLE = "for example platform:platform, or mypackage.checks:disk_free"


def function_named(name: str) -> Callable[..., Any]:
    """Import MODULE of MODULE:FUNCTION, the current folder first on the path as with `python -m`, and return FUNCTION.

    FUNCTION may be dotted (Class.method). Raises UsageError for a name of another form, a module that is nowhere or
    fails while it is imported, a function that is not in it, and something that cannot be called.
    """
    module_name, colon, path = name.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module_name.split("."), *path.split(".")]):
        raise UsageError(
            f"{name!r} is not of the form MODULE:FUNCTION, {EXAMPLE}; a script ends in .py, and -c {name!r} is a shell command"
        )
    found: Any = _imported(module_name, name)
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise UsageError(f"there is no {part!r} in {_called(found)}{_did_you_mean(part, found)}") from None
    if not callable(found):
        raise UsageError(f"{name} is {type(found).__name__} and cannot be called; name a function, {EXAMPLE}")
    return found  # type: ignore[no-any-return] # checked to be callable right above


def _imported(module_name: str, name: str) -> object:
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # The module itself or a package above it, not something that the module wants to import.
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            meant = f". Did you mean {name.replace('.py:', ':', 1)}?" if ".py:" in name else ""
            raise UsageError(
                f"there is no module {error.name!r} here, so {name} cannot be sent anywhere. "
                f"Looked in {here} and in the packages of {sys.executable}{meant}"
            ) from None
        raise UsageError(f"{module_name} cannot be imported here: it needs {error.name!r}, which is missing") from error
    except SystemExit as error:
        raise UsageError(
            f"{module_name} cannot be imported here: it calls sys.exit({error.code!r}) while it is imported. "
            "Put that part under: if __name__ == '__main__':"
        ) from error
    except Exception as error:
        raise UsageError(f"{module_name} cannot be imported here: {type(error).__name__}: {error}") from error


def _called(thing: object) -> str:
    return str(getattr(thing, "__name__", None) or repr(thing))


def _did_you_mean(part: str, thing: object) -> str:
    close = get_close_matches(part, dir(thing), n=3)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def arguments_from(words: Sequence[str], *, as_text: bool = False) -> tuple[Any, ...]:
    """Read each word as JSON where it is JSON (3, 2.5, true, null, [1, 2], {"a": 1}, "3"), and as plain text elsewhere.

    With `as_text` every word stays text. NaN and Infinity are no JSON and stay text.
    """
    return tuple(word if as_text else _value_of(word) for word in words)


def _value_of(word: str) -> Any:
    def refuse(constant: str) -> float:
        raise ValueError(constant)

    try:
        return json.loads(word, parse_constant=refuse)
    except (ValueError, RecursionError):
        return word
