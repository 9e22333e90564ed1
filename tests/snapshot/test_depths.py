"""How many operands there are before each instruction, by which saved frames are judged: for all that the standard library does."""

import asyncio
import contextlib
import dis
import inspect
import itertools
import shutil
import tarfile
import types
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from roamlet.snapshot import _native

KEEPS_NEXT = "CALL_KW" in dis.opmap  # from 3.13 on
NOTHING_BEHIND = (
    *("RETURN_VALUE", "RETURN_CONST", "RERAISE", "RAISE_VARARGS"),
    *("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"),
)
GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _codes(each)


def _depths(code: types.CodeType) -> dict[int, int]:
    """Of the operand stack, before the instruction at each offset that can be reached: by dis alone."""
    instructions = {each.offset: each for each in dis.get_instructions(code)}
    offsets = list(instructions)
    following = dict(itertools.pairwise(offsets))
    depths = {0: 0}
    for entry in dis._parse_exception_table(code):  # type: ignore[attr-defined]
        depths[entry.target] = entry.depth + entry.lasti + 1
    todo = list(depths)
    while todo:
        offset = todo.pop()
        each = instructions[offset]
        arg = each.arg if each.opcode >= dis.HAVE_ARGUMENT or each.arg else None
        ways = []
        if each.opcode in dis.hasjrel and each.opname != "END_ASYNC_FOR":
            ways.append((each.argval, dis.stack_effect(each.opcode, arg, jump=True)))
        if each.opname not in NOTHING_BEHIND:
            ways.append((following[offset], dis.stack_effect(each.opcode, arg, jump=False)))
        for target, effect in ways:
            if target not in depths:
                depths[target] = depths[offset] + effect
                todo.append(target)
            assert depths[target] == depths[offset] + effect, (code, each)
    return depths


def _fits(function: types.FunctionType, unit: int, operands: int) -> bool:
    """Whether a frame that has so many operands can get a value, and go on at this unit then."""
    slots = (None,) * (function.__code__.co_nlocals + len(_cells(function.__code__)) + operands)
    at = unit if KEEPS_NEXT else unit - 1
    with contextlib.suppress(ValueError):
        _native.check([], [(function, at, 0, 0, slots)], None, -1, -1, None, None)
        return True
    return False


def _cells(code: types.CodeType) -> tuple[str, ...]:
    return (*(name for name in code.co_cellvars if name not in code.co_varnames), *code.co_freevars)


@pytest.mark.parametrize("module", [asyncio.base_events, shutil, tarfile], ids=lambda module: module.__name__)
def test_a_frame_fits_where_it_has_as_many_operands_as_its_code_has_there(module: types.ModuleType) -> None:
    spec = find_spec(module.__name__)
    assert spec is not None
    assert spec.origin is not None
    tried = 0
    for code in _codes(compile(Path(spec.origin).read_bytes(), spec.origin, "exec")):
        if not code.co_flags & inspect.CO_OPTIMIZED or code.co_flags & GENERATORS:
            continue
        function = types.FunctionType(code, {}, closure=tuple(types.CellType() for _ in code.co_freevars))
        names = {each.offset: each.opname for each in dis.get_instructions(code)}
        for offset, depth in _depths(code).items():
            if depth == 0 or (names[offset] == "CALL" and "PRECALL" in dis.opmap):  # 3.11 counts its operands as gone
                continue
            assert [_fits(function, offset // 2, depth - 1 + more) for more in (-1, 0, 1)] == [False, True, False], (
                code.co_qualname,
                names[offset],
                offset,
            )
            tried += 1
    assert tried > 500
