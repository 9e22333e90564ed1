"""The two small programs in C of a lab, compiled at first use by this machine's compiler, into the cache."""

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from roamlet_lab.errors import NotPossible

SOURCES = Path(__file__).parent / "c"
NAMES = ("hold", "relay")
FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra")


def programs(cache: Path) -> Path:
    """The folder with the programs `hold` and `relay` of these very sources; they are compiled if they are not there yet.

    Blocks for a second then. Raises NotPossible when there is no compiler, or it fails.
    """
    folder = cache / f"programs-{_key()}"
    if all((folder / name).is_file() for name in NAMES):
        return folder
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NotPossible(
            "a lab compiles its relay, and there is no C compiler here. Type: sudo apt-get install -y gcc libc6-dev"
        )
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".programs-") as scratch:
        for name in NAMES:
            _compile(compiler, name, Path(scratch))
        Path(scratch).chmod(0o755)
        fresh = Path(scratch) / "done"
        fresh.mkdir(mode=0o755)
        for name in NAMES:
            (Path(scratch) / name).rename(fresh / name)
        try:
            fresh.rename(folder)
        except OSError:  # somebody else was first
            if not all((folder / name).is_file() for name in NAMES):
                raise
    return folder


def _key() -> str:
    """What the programs depend on."""
    digest = hashlib.sha256(" ".join((*FLAGS, platform.machine())).encode())
    for path in sorted(SOURCES.iterdir()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _compile(compiler: str, name: str, folder: Path) -> None:
    """Without shared libraries where the compiler can: the programs run among those of another system."""
    said = ""
    for linked in (("-static",), ()):
        done = subprocess.run(
            [compiler, *FLAGS, *linked, "-o", str(folder / name), str(SOURCES / f"{name}.c")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
        if done.returncode == 0:
            return
        said = done.stdout
    raise NotPossible(f"{compiler} cannot compile the lab's {name}.c: {said.strip()[-2000:]}")
