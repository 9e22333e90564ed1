"""Finds and reads the files that are to be checked."""

import stat
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from roamlet.diagnose._finding import Finding, shown
from roamlet.diagnose.check._source import check_source

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
        return f"{shown(self.path)}:{self.line}:1: {shown(self.why)}"


def check_paths(paths: Iterable[str]) -> Iterator[Finding | Unreadable]:
    """What is found in files, and in all `*.py` below folders, as it is found: file by file, in the order of their names.

    Below a folder, those of virtual environments and those whose name begins with a dot are left out. Reads files, runs nothing.
    """
    for path in paths:
        for file in _files_of(Path(path), frozenset()):
            if isinstance(file, Unreadable):
                yield file
            else:
                yield from _checked(file)


def _checked(file: Path) -> Iterator[Finding | Unreadable]:
    path = str(file)
    try:
        with tokenize.open(file) as stream:  # the encoding that the file itself names
            text = stream.read()
        yield from check_source(text, path)
    except SyntaxError as error:
        yield Unreadable(path, error.lineno or 1, f"this Python cannot parse it: {error.msg}")
    except LookupError as error:  # `# coding: rot13` is a codec, and no encoding
        yield Unreadable(path, 1, f"this Python cannot parse it: {error}")
    except UnicodeDecodeError as error:
        yield Unreadable(path, 1, f"it is not in the encoding that it names: {error.reason} at byte {error.start}")
    except ValueError as error:
        yield Unreadable(path, 1, f"this Python cannot parse it: {error}")
    except (RecursionError, MemoryError):
        yield Unreadable(path, 1, "it is nested too deeply to be followed")
    except OSError as error:
        yield Unreadable(path, 1, f"it cannot be read: {error.strerror}")


def _files_of(path: Path, around: frozenset[tuple[int, int]]) -> Iterator[Path | Unreadable]:
    """`around` tells the folders that lead here: a link to one of those leads round in a circle."""
    try:
        about = path.stat()
        folder = about.st_dev, about.st_ino
        if stat.S_ISDIR(about.st_mode) and folder in around:
            return
        entries = sorted(path.iterdir()) if stat.S_ISDIR(about.st_mode) else None
    except (OSError, ValueError):  # reading it tells why
        entries = None
    if entries is None:
        yield path
        return
    for entry in entries:
        try:
            kind = entry.stat().st_mode if entry.exists() else 0
            foreign = entry.name in FOREIGN or entry.name.startswith(".")
            if stat.S_ISDIR(kind) and not foreign and not (entry / "pyvenv.cfg").exists():
                yield from _files_of(entry, around | {folder})
            # Nothing comes of a pipe or a device, but a wait. A link with a dot that leads nowhere is the lock of an editor.
            elif entry.suffix == ".py" and (stat.S_ISREG(kind) or (not kind and not entry.name.startswith("."))):
                yield entry
        except OSError as error:
            yield Unreadable(str(entry), 1, f"it cannot be read: {error.strerror}")
