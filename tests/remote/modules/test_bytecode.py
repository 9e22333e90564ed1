"""The fast reading of bytecode says what `dis` says, on whatever is installed here."""

import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

from roamlet.remote.modules.imports import bytecode


def codes() -> Iterator[CodeType]:
    """The code of some hundred modules of Python's own, at every depth."""
    standard = Path(sysconfig.get_paths()["stdlib"])
    for folder in (".", "asyncio", "email", "importlib", "importlib/metadata", "unittest", "concurrent/futures"):
        for path in sorted((standard / folder).glob("*.py")):
            yield from bytecode.with_nested(compile(path.read_bytes(), str(path), "exec", dont_inherit=True))


def test_the_fast_reading_finds_the_same_as_dis(monkeypatch: pytest.MonkeyPatch) -> None:
    def everything() -> list[object]:
        result: list[object] = []
        for code in codes():
            dead = bytecode._dead_ranges(code)
            statements = bytecode._statements(code, dead)
            if statements:
                result.append((code.co_filename, code.co_qualname, dead, statements, bytecode._reads(code, dead)))
        return result

    if not bytecode._KNOWN:
        pytest.skip("this version is read through dis alone")
    fast = everything()
    monkeypatch.setattr(bytecode, "_KNOWN", False)
    slow = everything()
    assert len(fast) > 300
    assert fast == slow


def test_more_names_than_fit_into_one_byte_are_read_right() -> None:
    lines = [f"name{i} = {i}.5" for i in range(300)] + ["from ..far.away import one, two", "import last.of.all"]
    found = bytecode.imports(compile("\n".join(lines), "wide", "exec"))
    assert found.at_import == [
        bytecode.Statement(2, "far.away", ("one", "two")),
        bytecode.Statement(0, "last.of.all", ()),
    ]


def test_only_strings_that_could_be_modules_count_as_names() -> None:
    code = compile(
        "import importlib\nimportlib.import_module('a.b')\nx = ('not a name', 'utf-8', '_', '.near')", "x", "exec"
    )
    assert bytecode.imports(code).named_at_import == {"a.b", ".near"}
