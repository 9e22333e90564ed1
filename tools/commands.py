"""Commands that a tool runs and waits for: their output, or Failed with the end of it."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What of a failed command's output goes into the message: the last screen or two.
LAST_CHARACTERS = 4000


class Failed(Exception):
    """The tool cannot go on, or has found something that is not as it should be; the message says what, and what to do."""


def say(text: str) -> None:
    """Print a line, and let it be seen at once where the output is a pipe."""
    print(text, flush=True)


def call(words: Iterable[object], folder: Path = ROOT, **environment: str) -> str:
    """Run a command with nothing to read. Returns what it printed, on both outputs; Failed with the end of that when it fails.

    Blocks the thread until it ends.
    """
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
        raise Failed(f"$ {' '.join(command)}\n{done.stdout[-LAST_CHARACTERS:]}")
    return done.stdout
