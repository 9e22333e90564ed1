"""The Python interpreters of this machine, and what each is. Starts each of them once, for a fraction of a second."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ANSWER_SECONDS = 10.0

# Isolated as a context's interpreter is: neither the environment nor the user's own packages count.
QUESTION = """
import platform, sys
try:
    from importlib.util import find_spec
except ImportError:
    sys.exit(3)
print(sys.executable)
print("%d.%d.%d" % sys.version_info[:3])
print(platform.python_implementation())
print(" ".join(name for name in sys.argv[1:] if find_spec(name)))
"""


@dataclass(frozen=True)
class Interpreter:
    """One interpreter: where it is, its version, and which of the packages asked about it has."""

    path: str
    version: tuple[int, int, int]
    has: frozenset[str]

    @property
    def name(self) -> str:
        return f"python{self.version[0]}.{self.version[1]}"


def interpreters(packages: Sequence[str] = ()) -> list[Interpreter]:
    """Every CPython >= 3.6 found, one for each minor version, newest first. Among several of one version, the one with the
    fewest of `packages` is taken, and this process's own before others.

    Looks at this process's base interpreter, at PATH and at folders of versions as pyenv keeps them. Blocks the thread
    while each is asked for its version, 10 seconds at most.
    """
    paths = list(dict.fromkeys(_candidates()))
    with ThreadPoolExecutor(max_workers=8) as pool:
        asked = list(pool.map(lambda path: _ask(path, packages), paths))
    chosen: dict[tuple[int, int], Interpreter] = {}
    for found in sorted((one for one in asked if one is not None), key=lambda one: len(one.has)):
        chosen.setdefault(found.version[:2], found)
    return sorted(chosen.values(), key=lambda one: one.version, reverse=True)


def _candidates() -> Iterator[str]:
    # The base interpreter and not the virtual environment's: the packages of the latter are not on its path.
    yield os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    for minor in range(6, sys.version_info.minor + 10):
        path = shutil.which(f"python3.{minor}")
        if path:
            yield os.path.abspath(path)
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted((str(path) for path in root.glob("versions/3.*/bin/python")), reverse=True)


def _ask(path: str, packages: Sequence[str]) -> Interpreter | None:
    try:
        done = subprocess.run(
            [path, "-I", "-c", QUESTION, *packages],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.splitlines()
    if done.returncode != 0 or len(lines) != 4 or lines[2] != "CPython":
        return None
    major, minor, micro = (int(part) for part in lines[1].split("."))
    # Its own word for where it is: what was started may have been a version manager's shim.
    return Interpreter(lines[0] or path, (major, minor, micro), frozenset(lines[3].split()))
