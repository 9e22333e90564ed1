"""What the code has in its slots at each instruction, by which saved frames are judged: for all that the standard library does."""

import asyncio
import collections
import dataclasses
import difflib
import dis
import email
import importlib
import inspect
import itertools
import json
import logging
import shutil
import sys
import tarfile
import types
import typing
import unittest
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
CALLS = ("CALL", "CALL_KW", "CALL_FUNCTION_EX", "BINARY_OP", "COMPARE_OP", "FOR_ITER")
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


def _fits(function: types.FunctionType, unit: int, following: int, operands: int) -> bool:
    """Whether a frame that has so many operands can be in a call at this unit, and go on at the other one with its value."""
    slots = (None,) * (function.__code__.co_nlocals + len(_cells(function.__code__)) + operands)
    at, offset = (unit, following - unit) if KEEPS_NEXT else (following - 1, 0)
    try:
        _native.check([], [(function, at, offset, 0, slots)], None, -1, -1, None, None)
    except ValueError as error:
        return "slot" in str(error)  # there is one more, which does not fit: None does seldom
    return True


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
        depths = _depths(code)
        has_expression = any(
            isinstance(each, types.CodeType) and each.co_name == "<genexpr>" for each in code.co_consts
        )
        for call, following in itertools.pairwise(dis.get_instructions(code)):
            if call.opname not in CALLS or call.offset not in depths:
                continue
            units, depth = (call.offset // 2, following.offset // 2), depths[following.offset]
            fits = [_fits(function, *units, depth - 1 + more) for more in (-1, 0, 1)]
            if has_expression and call.arg == 0 and not any(fits):
                continue  # what makes a generator returns nothing else: the code may go through it, from 3.14 on
            assert fits == [False, True, False], (code.co_qualname, call)
            tried += 1
    assert tried > 300


WHOLE = (asyncio, collections, dataclasses, difflib, email, importlib, json, logging, typing, unittest)


@pytest.mark.parametrize("package", WHOLE, ids=lambda package: package.__name__)
def test_all_that_an_instruction_takes_for_granted_is_there_in_code_of_the_compiler(package: types.ModuleType) -> None:
    assert package.__file__ is not None
    file = Path(package.__file__)
    sources = file.parent.rglob("*.py") if file.name == "__init__.py" else [file]
    codes = [each for path in sources for each in _codes(compile(path.read_bytes(), str(path), "exec"))]
    assert [each for each in codes if not _native.is_sound(each)] == []
    assert len(codes) > 20


SYNTAX = """
async def waits(manager, source):
    async with manager as value, manager:
        async for each in source:
            yield [each async for each in source if await each]
    await value

def catches(run, kinds):
    try:
        return run(*kinds, key=1, **{"a": 2}, **kinds)
    except* ValueError as group:
        run(group)
    except* (TypeError, *kinds):
        raise
    finally:
        del run

def matches(value, *rest, **named):
    match value:
        case {"a": [x, *more], **others} if x:
            return x, more, others
        case complex(real=0, imag=y) | [y, _]:
            return lambda z=y, *, w: (x, y, z, w)
    for value in rest:
        with value:
            if value:
                continue
            break
    return {k: {*v} for k, v in named.items() if (n := k)}, f"{value!r:>{n}}", rest[1:2]
"""
GENERIC = """
def bounded[T: (int, str), *Ts, **P](value: T = 1, *, key: T = 2) -> T:
    class Inner[U](list[U]):
        def method(self):
            return super().method([value for _ in key], __class__)
    type Alias = list[T]
    return Inner
"""


def test_each_kind_of_statement_is_understood() -> None:
    text = SYNTAX + (GENERIC if sys.version_info >= (3, 12) else "")
    codes = list(_codes(compile(text, "<syntax>", "exec")))
    assert [each for each in codes if not _native.is_sound(each)] == []
