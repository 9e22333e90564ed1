"""Which line of a function stored an exception: told from its bytecode, from where it passed and under what name it is kept.

The handler for that place comes first, and what stores the name there; then what uses the name there; then any store of it.
"""

import dis
import inspect
from functools import lru_cache
from itertools import pairwise
from types import CodeType, FrameType
from typing import NamedTuple

from roamlet_leaks.cases import CASES
from roamlet_leaks.finding import Finding


class Place(NamedTuple):
    """In a source file; the first column is 1."""

    line: int
    column: int = 1


def place_of(
    frame: FrameType, names: tuple[str, ...], passed: int | None, otherwise: int, error: object = None
) -> Place:
    """Where the function of `frame` stores what is kept under one of `names`, the most telling name first; `.name` is an attribute.

    `passed` is the offset of the instruction through which `error` came, if it came through this function. `otherwise` is the
    line to name when nothing tells.
    """
    instructions = instructions_of(frame.f_code)
    behind = _behind_handler(frame, passed, error)
    if behind:
        for name in names:
            found = next((one for one in behind if _stores(one, name)), None) or next(
                (one for one in behind if _mentions(one, name)), None
            )
            if found is not None:
                return _place(found, otherwise)
        if (used := _first_use_of_the_exception(behind)) is not None:
            return _place(used, otherwise)
    for name in names:
        stores = [one for one in instructions if _stores(one, name)]
        before = [one for one in stores if passed is not None and one.offset <= passed]
        if before or stores:
            return _place(before[-1] if before else stores[-1], otherwise)
    return Place(otherwise)


def finding_at(kind: str, case: str, frame: FrameType, place: Place, name: str) -> Finding:
    """What is found in the function of `frame`, at `place`, under `name`, without what it keeps."""
    return Finding(
        kind=kind,
        code=case,
        path=frame.f_code.co_filename,
        line=place.line,
        column=place.column,
        function=frame.f_code.co_qualname,
        name=name,
        message=CASES[case].message(name),
        mend=CASES[case].mended(name),
    )


def is_parameter(code: CodeType, name: str, passed: int | None) -> bool:
    """Whether `name` came as an argument and was not filled by a handler of what came through the instruction at `passed`."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    if name not in code.co_varnames[:count]:
        return False
    if not any(_stores(one, name) for one in instructions_of(code)):
        return True
    return passed is not None and _handler(code, passed) is None


def uses(code: CodeType, line: int, name: str) -> bool:
    """Whether `line` mentions `name`."""
    return any(
        one.positions and one.positions.lineno == line and (_mentions(one, name) or _mentions(one, f".{name}"))
        for one in instructions_of(code)
    )


@lru_cache(maxsize=256)
def instructions_of(code: CodeType) -> list[dis.Instruction]:
    return list(dis.get_instructions(code))


def _handler(code: CodeType, passed: int | None) -> int | None:
    """The offset of the handler for an exception that came through the instruction at `passed`."""
    if passed is None:
        return None
    for entry in dis.Bytecode(code).exception_entries:  # type: ignore[attr-defined]  # typeshed lacks it; there since 3.11
        if entry.start <= passed < entry.end:
            return int(entry.target)
    return None


def _behind_handler(frame: FrameType, passed: int | None, error: object) -> list[dis.Instruction]:
    """The instructions from the except clause on that took `error`, as far as that can be told: else from the first clause on."""
    target = _handler(frame.f_code, passed)
    if target is None:
        return []
    behind = [one for one in instructions_of(frame.f_code) if one.offset >= target]
    while (jump := _clause(behind)) is not None:
        kinds = _looked_up([one for one in behind if one.offset < jump.offset], frame)
        if kinds is None or any(kind in kinds for kind in type(error).__mro__):
            break
        behind = [one for one in behind if one.offset >= jump.argval]
    return behind


def _clause(behind: list[dis.Instruction]) -> dis.Instruction | None:
    """The jump to the next except clause, if one begins here."""
    for one, following in pairwise(behind):
        if one.opname == "CHECK_EXC_MATCH":
            return following if "JUMP" in following.opname and following.argval > following.offset else None
        if not one.opname.startswith(("LOAD_", "PUSH_EXC_INFO", "BUILD_TUPLE", "CACHE", "NOP")):
            return None
    return None


def _looked_up(before: list[dis.Instruction], frame: FrameType) -> tuple[type, ...] | None:
    """The exceptions of an except clause, where they are plain names; None where finding out would run something."""
    kinds = []
    for one in before:
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            kind = frame.f_globals.get(one.argval, frame.f_builtins.get(one.argval))
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                return None
            kinds.append(kind)
        elif one.opname.startswith("LOAD_"):
            return None
    return tuple(kinds)


def _names(one: dis.Instruction) -> tuple[object, ...]:
    """What the instruction names. 3.13 joins two loads or stores of locals into one instruction, with a pair of names."""
    return one.argval if isinstance(one.argval, tuple) else (one.argval,)


def _stores(one: dis.Instruction, name: str) -> bool:
    if name.startswith("."):
        return one.opname == "STORE_ATTR" and name[1:] == one.argval
    if not one.opname.startswith("STORE_") or one.opname == "STORE_ATTR":
        return False
    names = _names(one)
    return name in (names[:1] if one.opname == "STORE_FAST_LOAD_FAST" else names)


def _mentions(one: dis.Instruction, name: str) -> bool:
    attribute = one.opname in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR")
    if name.startswith(".") or attribute:
        return attribute and name == f".{one.argval}"
    return one.opname.startswith(("LOAD_", "STORE_")) and not one.opname.endswith("_CONST") and name in _names(one)


def _first_use_of_the_exception(behind: list[dis.Instruction]) -> dis.Instruction | None:
    """Where a handler first uses what `except ... as error` has bound."""
    stored = next((at for at, one in enumerate(behind) if one.opname.startswith("STORE_")), None)
    if stored is None or not isinstance(name := _names(behind[stored])[0], str):
        return None
    return next((one for one in behind[stored + 1 :] if one.opname.startswith("LOAD_") and name in _names(one)), None)


def _place(one: dis.Instruction, otherwise: int) -> Place:
    if one.positions is None or one.positions.lineno is None:
        return Place(otherwise)
    return Place(one.positions.lineno, (one.positions.col_offset or 0) + 1)
