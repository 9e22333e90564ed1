"""The Pythons of this machine that tools build for and run tests with: where they are looked for, and what they must have."""

import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

# Those that roamlet is for.
VERSIONS = ("3.11", "3.12", "3.13", "3.14", "3.15")

_BUILDS = """
import ensurepip, os, sys, sysconfig, venv
assert "t" not in sys.abiflags and os.path.exists(sysconfig.get_path("include") + "/Python.h")
print("%d.%d" % sys.version_info[:2])
"""


def pyenv_versions() -> Path:
    """The folder where pyenv keeps versions; it need not exist."""
    return Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"


def candidates(versions: Iterable[str] = VERSIONS) -> Iterator[Path]:
    """Interpreters that may be of these versions: for each version those on PATH first, then those of pyenv, newest first."""
    places = [Path(place) for place in os.environ.get("PATH", "").split(os.pathsep) if place]
    for version in versions:
        found = [place / f"python{version}" for place in places]
        found += sorted(pyenv_versions().glob(f"{version}.*/bin/python"), key=_patch_of, reverse=True)
        yield from filter(Path.exists, found)


def _patch_of(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in path.parent.parent.name.split(".") if part.isdigit())


def that_build(versions: Iterable[str] = VERSIONS) -> dict[str, Path]:
    """{version: the first interpreter of it} of those that can build extensions: with headers and venv, and with a GIL."""
    found: dict[str, Path] = {}
    for version in versions:
        for candidate in candidates([version]):
            done = subprocess.run([candidate, "-I", "-c", _BUILDS], capture_output=True, text=True, check=False)
            if done.returncode == 0 and done.stdout.strip() == version:
                found[version] = candidate
                break
    return found
