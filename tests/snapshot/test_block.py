"""Where blocks of `with` end, looked up in the code: by that a claim from elsewhere is judged."""

import dis
import shutil
import subprocess
import sys
import threading
import types
import zipfile
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from roamlet.snapshot.migration.block import _enters_with, ends_of


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _codes(each)


def _exits(instructions: list[dis.Instruction]) -> Iterator[int]:
    """The units of all calls with three times None whose result is dropped: those are of __exit__."""
    for number in range(len(instructions) - 4):
        three = instructions[number : number + 3]
        if all(each.opname in ("LOAD_CONST", "LOAD_COMMON_CONSTANT") and each.argval is None for each in three):
            call = number + 3 + (instructions[number + 3].opname == "PRECALL")
            if [each.opname for each in instructions[call : call + 2]] == ["CALL", "POP_TOP"]:
                yield instructions[call].offset // 2


@pytest.mark.parametrize("module", [shutil, subprocess, threading, zipfile], ids=lambda module: module.__name__)
def test_each_call_of_exit_ends_exactly_one_block(module: types.ModuleType) -> None:
    spec = find_spec(module.__name__)
    assert spec is not None
    assert spec.origin is not None
    blocks = 0
    for code in _codes(compile(Path(spec.origin).read_bytes(), spec.origin, "exec")):
        instructions = [each for each in dis.get_instructions(code) if each.opname != "EXTENDED_ARG"]
        found: Counter[int] = Counter()
        assert ends_of(code, 0) is None
        for number, each in enumerate(instructions):
            if not _enters_with(instructions, number):
                continue
            blocks += 1
            for unit in ends_of(code, each.offset // 2) or ():
                calls = [one.offset // 2 for one in instructions if one.opname == "CALL" and one.offset // 2 <= unit]
                found[unit if sys.version_info >= (3, 13) else calls[-1]] += 1
        assert found == Counter(_exits(instructions))
    assert blocks
