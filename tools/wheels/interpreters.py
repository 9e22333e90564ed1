"""The Pythons that wheels are built for, and how a program is run with each: on this machine, or in a system in a folder."""

import platform
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools import pythons
from tools.commands import ROOT, Failed, call

WORK = ROOT / "build/wheels"

# Debian releases whose Python is one that few machines have: tools/in_debian.sh makes a system of each.
DEBIAN = {"3.14": "forky", "3.15": "forky"}


@dataclass(frozen=True)
class Interpreter:
    """A CPython with headers and venv. `enter`: the words before a command that run it where this Python is."""

    version: str
    python: Path
    enter: tuple[str, ...] = ()

    def call(self, words: Iterable[object], folder: Path = ROOT, **environment: str) -> str:
        """Run a command where this Python is, as `commands.call` does. All folders below build/ have the same names there."""
        if not self.enter:
            return call(words, folder, **environment)
        settings = [f"{name}={value}" for name, value in environment.items()]
        inside = ["env", f"--chdir={folder}", *settings, *map(str, words)]
        return call([*self.enter, shlex.join(inside)])

    @property
    def tag(self) -> str:
        """Of its wheels: cp312 for 3.12."""
        return f"cp{self.version.replace('.', '')}"


def interpreters(wanted: Sequence[str]) -> list[Interpreter]:
    """One for each version that is wanted, or for each that is found. Failed names those that are not found."""
    found = pythons.that_build(wanted or pythons.VERSIONS)
    missing = [version for version in wanted if version not in found]
    if missing or not found:
        raise Failed(
            f"no CPython {', '.join(missing or pythons.VERSIONS)} with headers and venv is found on PATH or in "
            f"{pythons.pyenv_versions()}: install it (Debian: python3.X-dev and python3.X-venv), or name others"
        )
    return [Interpreter(version, python) for version, python in found.items()]


def in_debian(version: str) -> Interpreter:
    """The Python of this version in a system of a Debian release, which is made in build/pythons the first time. Takes root."""
    enter = (str(ROOT / "tools/in_debian.sh"), DEBIAN[version], version)
    found = Interpreter(version, Path(f"/usr/bin/python{version}"), enter)
    found.call(["true"])
    return found


def platform_tag(machine: str = "") -> str:
    """Of the wheels for a processor; by default this machine's."""
    return f"manylinux2014_{machine or platform.machine()}"


def own_environment(interpreter: Interpreter) -> Path:
    """The interpreter of an environment of this Python, made once."""
    folder = WORK / f"python-{interpreter.version}"
    if not (folder / "pyvenv.cfg").exists():
        interpreter.call([interpreter.python, "-m", "venv", folder])
    return folder / "bin/python"
