"""Exceptions from over there, made again over here out of plain data.

Nothing of the other side's code or classes is used: only the interpreter's own exceptions are made, by name out of a fixed
table; everything else becomes a RemoteError with the type's name and the remote traceback as text.
"""

import builtins
from typing import Any

from weft.remote.errors import RemoteError

# Not here: exceptions that are no Exception (they end threads and processes), groups (their members would be data too).
BUILTIN: dict[str, type[Exception]] = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, type)
    and issubclass(value, Exception)
    and not issubclass(value, BaseExceptionGroup)
    and value.__name__ == name  # not IOError and EnvironmentError, which are OSError
}
# What 2.7 and older 3.x called them.
RENAMED = {"IOError": "OSError", "EnvironmentError": "OSError", "StandardError": "Exception", "WindowsError": "OSError"}
BUILTIN_MODULES = ("builtins", "exceptions")


def rebuilt(
    *, module: str, type_name: str, args: Any, text: str, traceback: str, context: str, function: str
) -> Exception:
    """The exception to raise for one that `function` raised in `context`.

    `args` is used only for the interpreter's own exceptions. The remote traceback is attached as a note.
    """
    error = _builtin(module, type_name, args)
    if error is None:
        full_name = type_name if module in BUILTIN_MODULES else f"{module}.{type_name}"
        error = RemoteError(
            f"{full_name}: {text}" if text else full_name,
            context=context,
            function=function,
            type_name=full_name,
            traceback=traceback,
        )
    add_traceback(error, traceback, context, function)
    return error


def add_traceback(error: Exception, traceback: str, context: str, function: str) -> None:
    """Attach the remote traceback as a note: text, so that it keeps no frame alive."""
    if traceback:
        error.add_note(f"In {context}, called as {function}:\n{_indented(traceback)}")


def _builtin(module: str, type_name: str, args: Any) -> Exception | None:
    """One of the interpreter's own exceptions, or None where it is none or `args` do not fit it."""
    if module not in BUILTIN_MODULES or not isinstance(args, (tuple, list)):
        return None
    cls = BUILTIN.get(RENAMED.get(type_name, type_name))
    if cls is None:
        return None
    try:
        # The whole constructor, not __new__ alone: both halves are the interpreter's own C code for exactly these types,
        # and UnicodeError, SyntaxError and ImportError keep their fields in the second.
        return cls(*args)
    except (TypeError, ValueError, OverflowError):
        return None


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.rstrip().splitlines())
