"""Finds and reads the files that are to be checked."""

import concurrent.futures
import itertools
import multiprocessing
import stat
import tokenize
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from roamlet_leaks.check.source import check_source
from roamlet_leaks.finding import Finding, shown

# One process reads so many files in the time that others need to start.
FEW = 100
# Files that are given to a process at a time, and how many such parts wait for each.
PART = 16
WAITING = 4

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


def check_paths(
    paths: Iterable[str], *, processes: int = 1, progress: Callable[[int], object] | None = None
) -> Iterator[Finding | Unreadable]:
    """What is found in files, and in all `*.py` below folders, as it is found: file by file, in the order of their names.

    Below a folder, those of virtual environments and those whose name begins with a dot are left out. Reads files, runs nothing.
    With `processes` more than 1, that many new ones read them once there are many files; they import the main module of the
    program, which has to be guarded. `progress` is called with the number of files that have been read, after some of them.
    """
    files = itertools.chain.from_iterable(_files_of(Path(path), frozenset()) for path in paths)
    first = list(itertools.islice(files, FEW if processes > 1 else 0))
    done = 0
    several = len(first) == FEW
    every = itertools.chain(first, files)
    for number, found in _by_several(every, processes) if several else _by_one(every):
        yield from found
        done += number
        if progress is not None:
            progress(done)


def _by_one(files: Iterable[Path | Unreadable]) -> Iterator[tuple[int, Iterable[Finding | Unreadable]]]:
    for file in files:
        yield 1, _found_in([file])


def _by_several(
    files: Iterator[Path | Unreadable], processes: int
) -> Iterator[tuple[int, Iterable[Finding | Unreadable]]]:
    """Files in parts, each read by a process; what they find comes in the order of the files."""
    # Not forked: the program may have threads. A process ends with its last part, also when the caller asks for no more.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=context) as pool:
        waiting: deque[tuple[int, concurrent.futures.Future[list[Finding | Unreadable]]]] = deque()
        try:
            while part := list(itertools.islice(files, PART)):
                waiting.append((len(part), pool.submit(_found_in, part)))
                if len(waiting) > WAITING * processes:
                    number, future = waiting.popleft()
                    yield number, future.result()
            for number, future in waiting:
                yield number, future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _found_in(files: Iterable[Path | Unreadable]) -> list[Finding | Unreadable]:
    found: list[Finding | Unreadable] = []
    for file in files:
        found.extend([file] if isinstance(file, Unreadable) else _checked(file))
    return found


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
