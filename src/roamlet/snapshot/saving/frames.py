"""The names of variables, and the lines, in the frames that are saved: for messages, and for what a checkpoint shows."""

import types


def variable_names(code: types.CodeType) -> list[str]:
    """The names of a frame's first slots."""
    plain = [*code.co_varnames, *(name for name in code.co_cellvars if name not in code.co_varnames)]
    return [*plain, *code.co_freevars]


def line_of(code: types.CodeType, unit: int) -> int | None:
    """The line of the instruction at this unit of the code."""
    at = max(unit, 0) * 2
    return next((line for start, end, line in code.co_lines() if start <= at < end), code.co_firstlineno)


def variable(function: types.FunctionType, unit: int, number: int) -> str:
    """What the slot of this number is, in a frame of the function that is at this unit."""
    names = variable_names(function.__code__)
    what = f"the variable {names[number]!r}" if number < len(names) else "a value that an expression is about to use"
    return (
        f"{what} of {function.__qualname__} ({function.__code__.co_filename}, line {line_of(function.__code__, unit)})"
    )
