"""What has been built: compared with a second build, looked through as an index would, and tried without a compiler."""

import hashlib
import json
import os
import platform
import tempfile
import zipfile
from pathlib import Path

from tools.commands import ROOT, Failed, call, say
from tools.wheels.interpreters import WORK, Interpreter

# What check-wheel-contents would report, and why it is right:
# W004  wire/ is for Python 2.7 too: the folder of one of its modules needs no __init__.py.
# W009  Beside the package roamlet there are modules: the command, which handles Ctrl-C while roamlet is imported, pytest's plugin,
#       which each run of pytest loads, and two for Dask, which are sent to targets, where no roamlet is.
IGNORED = "W004,W009"

# What a new user could do first, without the command line.
TRIAL = """
import importlib.util
import roamlet
from roamlet import core, io, remote, snapshot, sync

numbers = roamlet.channel()
got = []
roamlet.tasklet(lambda: got.extend(numbers.receive() for _ in range(3)))()
roamlet.tasklet(lambda: [numbers.send(n) for n in range(3)])()
roamlet.run()
assert got == [0, 1, 2]
assert io.call_async(lambda: 42) == 42
with remote.local() as context:
    assert context.call(pow, (2, 10)) == 1024
brought = [name for name in ("greenlet", "rich") if importlib.util.find_spec(name)]
print(f"{core.backend}; with {' and '.join(brought) or 'no other package'}")
"""


def sums(folder: Path) -> dict[str, str]:
    """{name: SHA-256} of all files in a folder."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def compare(first: Path, second: Path) -> None:
    """Failed unless both folders have the same files, bit for bit."""
    one, other = sums(first), sums(second)
    differ = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    if differ:
        raise Failed(f"built twice, these differ: {', '.join(differ)}. Both are kept in {first} and {second}")


def check(programs: Path, folder: Path) -> None:
    """What an index would refuse, and what does not belong into a wheel."""
    for path in folder.glob("*.whl"):
        sources = [name for name in zipfile.ZipFile(path).namelist() if name.endswith((".c", ".h"))]
        if sources and not path.name.startswith("roamlet_lab-"):  # the lab compiles one program where it is used
            raise Failed(f"{path.name} has sources in C: {', '.join(sources[:3])}")
    call([programs / "twine", "check", "--strict", *sorted([*folder.glob("*.whl"), *folder.glob("*.tar.gz")])])
    call([programs / "check-wheel-contents", "--ignore", IGNORED, *sorted(folder.glob("*.whl"))])


def try_out(wheel: Path, interpreter: Interpreter) -> str:
    """Install a wheel without a compiler at hand, and use it. Returns its switching backend, and which packages it brought."""
    with tempfile.TemporaryDirectory(prefix="trial-", dir=WORK) as scratch:
        interpreter.call([interpreter.python, "-m", "venv", Path(scratch) / "venv"])
        inside = Path(scratch) / "venv/bin"
        alone = {"PATH": f"{inside}{os.pathsep}/nowhere", "CC": "/nowhere/cc"}
        pip = [inside / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:"]
        interpreter.call([*pip, wheel], Path(scratch), **alone)
        told = interpreter.call([inside / "python", "-c", TRIAL], Path(scratch), **alone).strip()
        version = interpreter.call([inside / "roamlet", "--version"], Path(scratch), **alone).strip()
    return f"{told}; {version}"


def bill_of_materials(programs: Path, interpreter: Interpreter, folder: Path) -> None:
    """Write what an installation of the wheel with its command line has, as CycloneDX: packages, their versions and licences."""
    (wheel,) = folder.glob(f"roamlet-*-{interpreter.tag}-*_{platform.machine()}.whl")
    version = wheel.name.split("-")[1]
    target = folder / f"roamlet-{version}.cdx.json"
    with tempfile.TemporaryDirectory(prefix="sbom-", dir=WORK) as scratch:
        venv = Path(scratch) / "venv"
        interpreter.call([interpreter.python, "-m", "venv", "--without-pip", venv])
        pip = [programs / "python", "-m", "pip", "-q", "--disable-pip-version-check", "--python", venv / "bin/python"]
        call([*pip, "install", "--only-binary", ":all:", f"roamlet[cli] @ file://{wheel}"])
        words = [
            programs / "cyclonedx-py",
            "environment",
            "--output-reproducible",
            "--of",
            "JSON",
            "--spec-version",
            "1.6",
        ]
        words += ["--pyproject", ROOT / "pyproject.toml", "--mc-type", "library", "--output-file", target, venv]
        call(words)
    told = json.loads(target.read_text("utf-8"))
    names = sorted(f"{each['name']} {each['version']}" for each in told["components"])
    if "rich" not in {each["name"] for each in told["components"]} or scratch in target.read_text("utf-8"):
        raise Failed(f"{target} does not list what roamlet[cli] brings, or names a folder of this machine")
    say(f"{target.name}: {', '.join(names)}")
