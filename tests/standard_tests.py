"""CPython's own tests, the package `test` of the interpreter that runs us, also where Debian packages most of it apart.

Then they are unpacked into a private folder (tools/unpack_debian.py), which is found before the interpreter's own `test`, by
this process and by those that it starts with `environment()`. Nothing of them is copied into this repository.
"""

import contextlib
import functools
import importlib
import importlib.util
import os
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

from tools import unpack_debian

VERSION = "{}.{}".format(*sys.version_info)
UNPACKED = Path(__file__).parents[1] / ".venv" / f"standard-tests-{VERSION}"

# In every version, and in Debian's package of tests.
ONE_OF_THEM = "test_socket"


def module(name: str) -> ModuleType:
    """test.NAME; the tests of the caller, a module, are skipped where it can be had from nowhere."""
    folder, reason = found()
    if reason:
        pytest.skip(reason, allow_module_level=True)
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
        if package := sys.modules.get("test"):  # the interpreter's own part, with test.support alone
            package.__path__.insert(0, str(Path(folder) / "test"))
    return importlib.import_module(f"test.{name}")


def environment(name: str = ONE_OF_THEM) -> dict[str, str]:
    """The environment of a process that imports test.NAME; the test is skipped where it can be had from nowhere."""
    folder, reason = found()
    package = Path(folder or sysconfig.get_path("stdlib")) / "test"
    if reason or not ((package / name).is_dir() or (package / f"{name}.py").exists()):
        pytest.skip(reason or f"this Python was installed without test.{name}")  # as `make install` of 3.11.7 does it
    path = filter(None, [folder, os.environ.get("PYTHONPATH")])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


@functools.cache
def found() -> tuple[str, str]:
    """The folder that sys.path needs in front, empty for none; and why there are no such tests, empty when there are.

    Downloads them, once for each environment, where Debian has them for this interpreter.
    """
    own = Path(sysconfig.get_path("stdlib")) / "test"
    if (own / f"{ONE_OF_THEM}.py").exists():
        return "", ""
    package = f"libpython{VERSION}-testsuite"
    if sys.base_prefix != "/usr":
        return "", f"this Python was installed without CPython's own tests; Debian's has them in {package}"
    try:
        unpack_debian.unpack(UNPACKED, [package])
    except unpack_debian.CannotUnpack as error:
        return "", f"this Python has no tests of its own: {error}"
    return str(joined(own, UNPACKED)), ""


def joined(own: Path, unpacked: Path) -> Path:
    """A folder in which `test` is what was unpacked, and links to what the interpreter has of it already."""
    package = unpacked / "usr" / "lib" / f"python{VERSION}" / "test"
    for path in own.iterdir():
        if path.name != "__pycache__":
            _link(package / path.name, path)
    folder = unpacked / "first"
    folder.mkdir(exist_ok=True)
    _link(folder / "test", package)
    return folder


def _link(link: Path, to: Path) -> None:
    """Several processes may do so at once, and what was unpacked stays."""
    with contextlib.suppress(FileExistsError):
        link.symlink_to(to)
