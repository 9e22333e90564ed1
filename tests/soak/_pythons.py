"""The Pythons that a soak test runs on, each with roamlet as it stands in this repository, in build/bench-X.Y."""

import os
import subprocess
import sys
from pathlib import Path

from roamlet.cli.programs.interpreters import interpreters

ROOT = Path(__file__).resolve().parents[2]
KNOWN = [(3, 11), (3, 12), (3, 13), (3, 14)]


def pythons():
    """(version, interpreter) of each that is on this machine; the interpreter that runs this is last, as None."""
    own = sys.version_info[:2]
    found = {one.version[:2]: one.path for one in interpreters()}
    return [(version, found[version]) for version in KNOWN if version in found and version != own] + [(own, None)]


def with_roamlet(version, path):
    """An interpreter that has roamlet."""
    if path is None:
        return sys.executable
    venv = ROOT / "build" / "bench-{}.{}".format(*version)
    done = subprocess.run(
        [ROOT / "tools" / "prepare.sh", venv, ""],
        env={**os.environ, "PYTHON": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return str(venv / "bin" / "python")
