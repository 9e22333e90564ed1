"""Wheels for aarch64 from another machine: cross-compiled with CPython's own means for that, and tried with an emulator.

A Python of this machine builds them, and takes itself for one on aarch64: what it tells setuptools (names, a compiler) it reads
from a module of the name `_PYTHON_SYSCONFIGDATA_NAME`, which is made here from its own. Both are Linux with 64 bits and glibc:
its headers are those of the other one in all that roamlet's C reads of them.
"""

import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.commands import ROOT, Failed, call
from tools.wheels.interpreters import WORK, Interpreter, own_environment, platform_tag
from tools.wheels.judging import TRIAL

MACHINE = "aarch64"
SYSTEMS = ROOT / "build/aarch64"
ENTER = ROOT / "tools/in_aarch64.sh"

# Debian releases with a Python of this version for arm64, in which wheels are tried. The first one's C library is compiled against.
SUITES = {"3.11": "bookworm", "3.13": "trixie"}


@dataclass(frozen=True)
class Cross:
    """A Python of this machine that builds for aarch64."""

    interpreter: Interpreter
    settings: dict[str, str]

    @property
    def version(self) -> str:
        """Of both."""
        return self.interpreter.version

    @property
    def tag(self) -> str:
        """Of its wheels."""
        return self.interpreter.tag


def prepare(found: Iterable[Interpreter]) -> list[Cross]:
    """What builds for aarch64: each of these Pythons that is on this machine itself. Unpacks the compiler and the system."""
    suite = next(iter(SUITES.values()))
    call([ENTER, suite, "true"])
    programs = SYSTEMS / "tools/usr"
    compiler = f"{programs}/bin/aarch64-linux-gnu-gcc --sysroot={SYSTEMS / suite}"
    crossed = []
    for interpreter in found:
        if interpreter.enter:
            continue
        folder = WORK / f"cross-{interpreter.version}"
        folder.mkdir(parents=True, exist_ok=True)
        python = own_environment(interpreter)
        call([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "setuptools>=77"])
        settings = {
            **pretend(python, folder),
            "CC": compiler,
            "LDSHARED": f"{compiler} -shared",
            "LD_LIBRARY_PATH": f"{programs}/lib/x86_64-linux-gnu",
        }
        crossed.append(Cross(interpreter, settings))
    return crossed


def pretend(python: Path, folder: Path) -> dict[str, str]:
    """The environment in which a Python takes itself for one on aarch64. Writes the module that this takes into `folder`."""
    name = "_sysconfigdata__linux_aarch64-linux-gnu"
    (folder / f"{name}.py").write_text(_sysconfigdata(python), "utf-8")
    return {
        "_PYTHON_HOST_PLATFORM": f"linux-{MACHINE}",
        "_PYTHON_SYSCONFIGDATA_NAME": name,
        "PYTHONPATH": str(folder),
    }


def _sysconfigdata(python: Path) -> str:
    """This Python's own module with the names of the other machine."""
    asked = "import sysconfig, importlib; print(importlib.import_module(sysconfig._get_sysconfigdata_name()).__file__)"
    text = Path(call([python, "-c", asked]).strip()).read_text("utf-8")
    return re.sub(r"x86_64(?=-linux-gnu)", MACHINE, text)


def build(cross: Cross, sdist: Path, into: Path, environment: dict[str, str]) -> None:
    """The wheel, into a folder."""
    python = own_environment(cross.interpreter)
    wheel = [python, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-build-isolation"]
    call([*wheel, "--no-deps", "--no-cache-dir", "--wheel-dir", into, sdist], **{**environment, **cross.settings})


def try_out(wheel: Path, cross: Cross) -> str:
    """Install it as pip does for that platform, and use it with the emulator; its backend, or why it was not tried."""
    suite = SUITES.get(cross.version)
    if suite is None:
        return f"not tried: Debian has no CPython {cross.version} for arm64"
    with tempfile.TemporaryDirectory(prefix="trial-", dir=WORK) as scratch:
        folder = Path(scratch) / "packages"
        pip = [
            own_environment(cross.interpreter),
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            "--no-deps",
        ]
        pip += ["--only-binary", ":all:", "--implementation", "cp", "--python-version", cross.version]
        call([*pip, "--platform", platform_tag(MACHINE), "--target", folder, wheel])
        (Path(scratch) / "trial.py").write_text(TRIAL, "utf-8")
        told = call([ENTER, suite, f"PYTHONPATH={folder} PYTHONDONTWRITEBYTECODE=1 python3 {scratch}/trial.py"]).strip()
    if not told.startswith("native"):
        raise Failed(f"{wheel.name} did not take the native backend: {told}")
    return f"{told}; emulated, Debian {suite}"
