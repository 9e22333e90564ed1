"""The three functions of ours in restored chains of frames, with their bytecode changed so that they are in no traceback.

Without a RESUME instruction a frame never counts as complete: it is in no traceback and no f_back, and sends no events.
"""

import dis
import functools
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from roamlet.snapshot import _native
from roamlet.snapshot._errors import CannotSave

__all__ = ["base"]


def base(box: list[Any]) -> object:
    """Run as a restored tasklet: box holds its ticket, or afterwards the error that kept it from being built."""
    try:
        ticket = box.pop()
        _native.build(ticket)
    except BaseException as error:  # also of a signal handler, after either call
        ticket = None  # as it goes it gives back what was built, while that is still on top of the data stack
        box.append(error)  # roamlet: keep - no cycle: this frame is in no traceback
        return None
    return bridge(_native.go_on, ticket, _A_NUMBER)


def bridge(go_on: Callable[[object], object], ticket: object, a_number: object) -> object:
    """Return what the innermost frame is to get; its caller is that frame, once go_on() has been called."""
    value = go_on(ticket)
    if value is ticket:
        return go_on  # patched: returns a NULL, into a slot that was empty
    if value is a_number:
        return go_on  # which go_on() has replaced by a number that is no object
    return value


_A_NUMBER = object()


def initialised(self: object, call: Callable[[], object]) -> object:
    """Takes the place of type.__call__, above an __init__ that was in progress: only ever resumed inside the call."""
    value = call()
    if value is not None:
        raise TypeError(f"__init__() should return None, not '{type(value).__name__}'")
    return self


def _patched(code: CodeType, *, empty: bool = False) -> CodeType:
    """The code without RESUME; with `empty` its first `return <first argument>` returns a NULL."""
    instructions = [each for each in dis.get_instructions(code) if each.opname != "CACHE"]
    changed = bytearray(code.co_code)
    for each, following in zip(instructions, [*instructions[1:], None], strict=True):
        if each.opname == "RESUME":
            end = following.offset if following else len(changed)  # from 3.15 on it has a cache
            changed[each.offset : end] = bytes((dis.opmap["NOP"], 0)) * ((end - each.offset) // 2)
        elif (
            empty
            and each.opname in ("LOAD_FAST", "LOAD_FAST_BORROW")
            and each.arg == 0
            and following
            and following.opname == "RETURN_VALUE"
        ):
            changed[each.offset : each.offset + 2] = bytes((dis.opmap["PUSH_NULL"], 0))
            empty = False
    assert not empty, "the compiler no longer returns an argument as it used to"
    return code.replace(co_code=bytes(changed))


def _install(function: FunctionType, *, empty: bool = False) -> CodeType:
    function.__code__ = _patched(function.__code__, empty=empty)
    return function.__code__


if _native.known:
    _install(initialised)  # type: ignore[arg-type]
    _native.setup(
        CannotSave,
        _install(base),  # type: ignore[arg-type]
        _install(bridge, empty=True),  # type: ignore[arg-type]
        initialised,  # type: ignore[arg-type]
        functools.partial,
    )
