"""The interpreters of this machine that serve as targets: one for each version that matters, where it is found.

ROAMLET_TARGET=/path/of/an/interpreter makes that one the only target, which is how another implementation is tried.
"""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

WANTED = ("2.7", "3.6", "3.8", "3.13")
DEBIANS_OWN = "/usr/bin/python3"
QUESTION = "import sys; print(sys.executable); print('%d.%d' % sys.version_info[:2])"


@functools.cache
def found() -> dict[str, str]:
    """Version or "debian" -> path. Without any of the wanted ones, this interpreter."""
    paths: dict[str, str] = {}
    if chosen := os.environ.get("ROAMLET_TARGET"):
        if (answer := _ask(chosen)) is None:
            raise ValueError(f"ROAMLET_TARGET={chosen} does not say which Python it is")
        return {answer: chosen}
    for version in WANTED:
        for path in _candidates(version):
            if _ask(path) == version:
                paths[version] = path
                break
    if os.access(DEBIANS_OWN, os.X_OK):
        paths["debian"] = DEBIANS_OWN
    return paths or {"own": sys.executable}


def others() -> list[str]:
    """The names of those found that are of another version than this interpreter, for a test of what that changes."""
    own = "{}.{}".format(*sys.version_info)
    return [name for name, path in found().items() if _ask(path) != own]


def _candidates(version: str) -> list[str]:
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    try:
        kept = [str(path) for path in sorted(root.glob(f"versions/{version}*/bin/python"))]
    except PermissionError:  # root's, and we are somebody else
        kept = []
    on_path = shutil.which(f"python{version}")
    return [*kept, *([on_path] if on_path else [])]


@functools.cache
def _ask(path: str) -> str | None:
    try:
        done = subprocess.run([path, "-c", QUESTION], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.split("\n")[1].strip() if done.returncode == 0 and "\n" in done.stdout else None
