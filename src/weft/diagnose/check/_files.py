"""Finds and reads the files that are to be checked."""

import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from weft.diagnose._finding import Finding
from weft.diagnose.check._source import check_source

__all__ = ["Unreadable", "check_paths"]

# Folders that hold somebody else's code, beside those whose name begins with a dot.
FOREIGN = frozenset({"__pycache__", "node_modules", "site-packages"})


@dataclass(frozen=True)
class Unreadable:
    """A file that could not be checked, and why."""

    path: str
    line: int
    why: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:1: {self.why}"


def check_paths(paths: Iterable[str]) -> Iterator[Finding | Unreadable]:
    """What is found in files, and in all `*.py` below folders, as it is found: file by file, in the order of their names.

    Below a folder, those of virtual environments and those whose name begins with a dot are left out. Reads files, runs nothing.
    """
    for path in paths:
        for file in _files_of(Path(path)):
            yield from _checked(file)


def _checked(file: Path) -> Iterator[Finding | Unreadable]:
    path = str(file)
    try:
        with tokenize.open(file) as stream:  # the encoding that the file itself names
            text = stream.read()
        yield from check_source(text, path)
    except SyntaxError as error:
        yield Unreadable(path, error.lineno or 1, f"this Python cannot parse it: {error.msg}")
    except UnicodeDecodeError as error:
        yield Unreadable(path, 1, f"it is not in the encoding that it names: {error.reason} at byte {error.start}")
    except ValueError as error:
        yield Unreadable(path, 1, f"this Python cannot parse it: {error}")
    except (RecursionError, MemoryError):
        yield Unreadable(path, 1, "it is nested too deeply to be followed")
    except OSError as error:
        yield Unreadable(path, 1, f"it cannot be read: {error.strerror}")


def _files_of(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for entry in sorted(path.iterdir()):
        if entry.is_dir():
            foreign = entry.name in FOREIGN or entry.name.startswith(".") or (entry / "pyvenv.cfg").exists()
            if not foreign:
                yield from _files_of(entry)
        elif entry.suffix == ".py":
            yield entry
