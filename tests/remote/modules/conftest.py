"""Packages that a test writes, imports and forgets again."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from roamlet.remote import modules

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Write files below a folder on sys.path: make({"pkg/__init__.py": "import os"}). What they import is forgotten after."""
    before = set(sys.modules)

    def write(files: dict[str, str], folder: str = "src") -> Path:
        top = tmp_path / folder
        for name, text in files.items():
            path = top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text), encoding="utf-8")
        monkeypatch.syspath_prepend(str(top))
        importlib.invalidate_caches()
        return top

    modules.trim()
    yield write
    for name in set(sys.modules) - before:
        if name.partition(".")[0] not in sys.stdlib_module_names:  # standard modules stay: other modules refer to them
            del sys.modules[name]
    modules.trim()
    sys.path_importer_cache.clear()


@pytest.fixture
def bare() -> frozenset[str]:
    """The top-level names of a target that has this Python's standard modules and nothing else."""
    return frozenset(sys.stdlib_module_names)
