"""A bare interpreter to start contexts in, and the line to it: nothing but the standard library, whatever this machine has."""

import shlex
import sys
import venv
from pathlib import Path

from roamlet_bench.programs import relay

RELAY = Path(relay.__file__)


def bare_python(folder: Path) -> Path:
    """The interpreter of a new virtual environment in `folder`: our own version, no site-packages of ours, not even pip."""
    venv.create(folder / "bare", symlinks=True, with_pip=False)
    return folder / "bare" / "bin" / "python"


def command(folder: Path, name: str, python: Path, line: tuple[str, float, Path] | None = None) -> Path:
    """An executable file that starts `python`, with no PYTHONPATH and away from this checkout, both of which would bring modules.

    `line` is (the relay's RTT[:JITTER:LOSS:SEED] in seconds, bytes per second or 0, counters file) to go through the relay;
    without it, directly.
    """
    started = [str(python)]
    if line is not None:
        delays, rate, counters = line
        started = [sys.executable, "-I", "-S", str(RELAY), delays, str(rate), str(counters), str(python)]
    path = folder / name
    path.write_text(
        f'#!/bin/sh\nunset PYTHONPATH PYTHONHOME\ncd {shlex.quote(str(folder))}\nexec {shlex.join(started)} "$@"\n'
    )
    path.chmod(0o755)
    return path
