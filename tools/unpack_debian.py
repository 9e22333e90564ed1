"""Unpack Debian packages that are not installed here into a private folder: nothing is installed, nothing is started.

    python tools/unpack_debian.py FOLDER PACKAGE...

The packages and whatever they need that is missing are downloaded with apt (no root needed, only package lists that
`apt-get update` has filled) and unpacked with dpkg-deb. Running it again with the same packages does nothing. As a
module: `unpack(folder, packages)`; `command(folder, name)`, the words that run one of the unpacked programs; and
`environment(folder)`, the variables with which the unpacked programs find each other. With ROAMLET_ARCHIVES=FOLDER, what was
downloaded is kept in that folder and not downloaded again.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NAME = re.compile(r"^Inst (\S+)", re.MULTILINE)
ARCHIVE = re.compile(r"^'[^']*' (\S+\.deb) ", re.MULTILINE)


class CannotUnpack(Exception):
    """apt or dpkg-deb is missing or failed; the message says which and what to type instead."""


def unpack(folder: Path, packages: list[str]) -> Path:
    """Make `folder` hold `packages` and what they need beyond what is installed; returns `folder`.

    Blocks while it downloads. Two processes may call it for the same folder: the first to finish wins.
    """
    marker = folder / ".packages"
    wanted = " ".join(sorted(packages))
    if marker.is_file() and marker.read_text().strip() == wanted:
        return folder
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise CannotUnpack(
                f"{program} is missing, so {wanted} cannot be unpacked. Install it with your own packager."
            )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".unpack-") as scratch:
        fresh = Path(scratch) / "root"
        fresh.mkdir()
        for archive in _download(Path(scratch), _missing(packages)):
            _run(["dpkg-deb", "-x", str(archive), str(fresh)], cwd=scratch)
        (fresh / ".packages").write_text(wanted + "\n")
        try:
            fresh.rename(folder)
        except OSError:  # it exists: another process was first, or it holds other packages
            if not (marker.is_file() and marker.read_text().strip() == wanted):
                shutil.rmtree(folder)
                fresh.rename(folder)
    return folder


def environment(folder: Path) -> dict[str, str]:
    """PATH and LD_LIBRARY_PATH with the unpacked folder in front; for the unpacked programs alone."""
    programs = [str(folder / part) for part in ("usr/sbin", "usr/bin", "sbin", "bin")]
    libraries = sorted({str(path.parent) for path in folder.rglob("lib*.so*") if path.is_file()})
    return {
        "PATH": os.pathsep.join([*programs, os.environ.get("PATH", os.defpath)]),
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [*libraries, os.environ.get("LD_LIBRARY_PATH", "")])),
    }


def command(folder: Path, name: str) -> list[str]:
    """The words that run the unpacked program `name`, or the last of those that match, where it is a pattern below `folder`.

    Each program among the words is an absolute path.
    A stand-in of the name of any of these programs, first on PATH, is not taken for it. Raises CannotUnpack where the
    packages have no such program.
    """
    places = [folder / part / name for part in ("usr/sbin", "usr/bin", "sbin", "bin")]
    for program in sorted(folder.glob(name), reverse=True) if "/" in name else places:
        if os.access(program, os.X_OK):
            break
    else:
        packages = (folder / ".packages").read_text().strip()
        raise CannotUnpack(f"there is no program {name} in {packages}")
    libraries = environment(folder)["LD_LIBRARY_PATH"]
    env = shutil.which("env", path=os.defpath)
    return [env, f"LD_LIBRARY_PATH={libraries}", str(program)] if libraries and env else [str(program)]


def _missing(packages: list[str]) -> list[str]:
    """The packages that apt would install to have these."""
    simulate = ["apt-get", "--simulate", "-o", "Debug::NoLocking=1", "--no-install-recommends", "install", *packages]
    names = sorted(set(NAME.findall(_run(simulate, cwd="/"))))
    return names or packages


def _download(folder: Path, names: list[str]) -> list[Path]:
    """The archives of these packages: in `folder`, which is empty, or where $ROAMLET_ARCHIVES says and older ones are as well."""
    if os.geteuid() == 0:
        folder.chmod(0o755)  # apt fetches as the user _apt where it can
    kept = os.environ.get("ROAMLET_ARCHIVES")
    if not kept:
        _run(["apt-get", "download", "-q", *names], cwd=str(folder))
        return sorted(folder.glob("*.deb"))
    archives = Path(kept)
    archives.mkdir(parents=True, exist_ok=True)
    # In the empty folder: where an archive is there already, apt names none.
    named = ARCHIVE.findall(_run(["apt-get", "download", "-q", "--print-uris", *names], cwd=str(folder)))
    with (archives / ".lock").open("w") as lock:  # apt itself has none for this command
        fcntl.flock(lock, fcntl.LOCK_EX)
        _run(["apt-get", "download", "-q", *names], cwd=kept)
    return [archives / name for name in named]


def _run(argv: list[str], cwd: str) -> str:
    done = subprocess.run(
        argv, cwd=cwd, capture_output=True, text=True, check=False, timeout=300, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise CannotUnpack(
            f"`{' '.join(argv)}` failed: {done.stderr.strip() or done.stdout.strip()}\n"
            "    If the package lists are empty, fill them as root with: apt-get update"
        )
    return done.stdout


def main(argv: list[str]) -> int:
    if len(argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print(unpack(Path(argv[0]), argv[1:]))
    except CannotUnpack as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
