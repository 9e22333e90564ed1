"""The interpreters of this machine that the payload is tried on: one of each minor version that can be found.

ROAMLET_TARGET=/path/of/an/interpreter tries that one alone, which is how another implementation is tried.
"""

import functools
import glob
import os
import shutil
import subprocess
import sys
from typing import Any

from tests.exhaustive import telling

VERSIONS = [(2, 7)] + [(3, minor) for minor in range(6, 30)]


@functools.cache
def found() -> dict[str, str]:
    """ "major.minor" -> path, oldest first; at least the interpreter that runs the tests."""
    paths: dict[str, str] = {}
    if chosen := os.environ.get("ROAMLET_TARGET"):
        if (answer := version_of(chosen)) is None:
            raise ValueError(f"ROAMLET_TARGET={chosen} does not say which Python it is")
        return {"%d.%d" % answer: chosen}
    for version in VERSIONS:
        name = "%d.%d" % version
        for path in candidates(name):
            if version_of(path) == version:
                paths[name] = path
                break
    return paths


def since(*version: int) -> list[Any]:
    """Parameters: those found that are of this version or later, for a test of what older ones do not have.

    `make test` takes the oldest of them, 3.6, this interpreter's own version and the newest, `make nightly` all.
    """
    names = [name for name in found() if tuple(map(int, name.split("."))) >= version]
    return telling(names, {*names[:1], "3.6", "%d.%d" % sys.version_info[:2], *names[-1:]}.__contains__)


def candidates(name: str) -> list[str]:
    paths = [sys.executable] if name == "%d.%d" % sys.version_info[:2] else []
    root = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    paths += sorted(glob.glob(f"{glob.escape(root)}/versions/{name}.*/bin/python"))
    on_path = shutil.which(f"python{name}")
    return paths + ([on_path] if on_path else [])


def version_of(path: str) -> tuple[int, int] | None:
    question = "import sys; print('%d %d' % sys.version_info[:2])"
    try:
        done = subprocess.run([path, "-c", question], capture_output=True, text=True, timeout=20, check=False)
        major, minor = done.stdout.split()
        return int(major), int(minor)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
