"""Exceptions from the target, made again here out of plain data.

Nothing of the other side's code or classes is used: only the interpreter's own exceptions are made, by name out of a fixed
table; everything else becomes a RemoteError with the type's name and the remote traceback as text.
"""

import builtins
from typing import Any

from roamlet._escapes import escaped
from roamlet.remote.errors import RemoteError
from roamlet.remote.modules.main_script import name_here

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
FURTHEST = 1 << 16  # column or line of a SyntaxError: code that shows it pads with that many blanks


def rebuilt(
    *, module: str, type_name: str, args: Any, text: str, traceback: str, context: str, function: str
) -> Exception:
    """The exception to raise for one that `function` raised in `context`.

    `args` is used only for the interpreter's own exceptions. The remote traceback is attached as a note.
    """
    error = _builtin(module, type_name, args)
    if error is None:
        full_name = type_name if module in BUILTIN_MODULES else f"{name_here(module)}.{type_name}"
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
    """Attach the remote traceback as a note: text, so that it keeps no frame alive; escaped, as Python prints notes as they are."""
    if traceback:
        error.add_note(f"In {context}, called as {function}:\n{_indented(escaped(traceback))}")


def _builtin(module: str, type_name: str, args: Any) -> Exception | None:
    """One of the interpreter's own exceptions, or None for another one, or when `args` do not fit it."""
    if module not in BUILTIN_MODULES or not isinstance(args, (tuple, list)):
        return None
    cls = BUILTIN.get(RENAMED.get(type_name, type_name))
    if cls is None or not _can_be_shown(cls, tuple(args)):
        return None
    try:
        # The whole constructor, not __new__ alone: both halves are the interpreter's own C code for exactly these types,
        # and UnicodeError, SyntaxError and ImportError keep their fields in the second.
        return cls(*args)
    except (TypeError, ValueError, OverflowError):
        return None


def _can_be_shown(cls: type[Exception], args: tuple[Any, ...]) -> bool:
    """Whether the fields that the interpreter itself reads when it shows such an error are what it takes them to be.

    Its constructors check too little: a UnicodeError whose range lies outside of its text makes str() read memory that is not
    its own, and the traceback module fails on a SyntaxError whose text is no string.
    """
    if issubclass(cls, UnicodeError) and cls is not UnicodeError:
        if len(args) not in (4, 5):
            return False
        text, start, end = args[-4:-1]
        kinds = (type(text) in (str, bytes), type(start) is int, type(end) is int)
        return all(kinds) and 0 <= start <= end <= len(text)
    if issubclass(cls, SyntaxError) and len(args) > 1:
        where = args[1]
        if not isinstance(where, tuple) or len(args) != 2 or len(where) not in (4, 6):
            return False
        texts, numbers = (where[0], where[3]), (*where[1:3], *where[4:])
        return all(text is None or type(text) is str for text in texts) and all(
            number is None or (type(number) is int and -1 <= number <= FURTHEST) for number in numbers
        )
    return True


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.rstrip().splitlines())
