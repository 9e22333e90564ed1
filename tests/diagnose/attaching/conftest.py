"""Processes to be asked for a trace."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from roamlet import diagnose

PROGRAM = str(Path(__file__).with_name("program.py"))


class Running(subprocess.Popen[str]):
    """A process of program.py."""

    def says(self) -> dict[str, Any]:
        assert self.stdout is not None
        line = self.stdout.readline()
        assert line, "the program has ended"
        facts: dict[str, Any] = json.loads(line)
        return facts

    def is_told(self, line: str = "") -> None:
        assert self.stdin is not None
        self.stdin.write(f"{line}\n")
        self.stdin.flush()


@pytest.fixture
def folder(monkeypatch):
    """Where sockets are, in a folder of the test's own: its path has to be shorter than that of tmp_path."""
    with tempfile.TemporaryDirectory(dir="/tmp") as above:
        monkeypatch.setattr("tempfile.tempdir", above)
        monkeypatch.setenv("TMPDIR", above)
        yield Path(above, f"roamlet-{os.geteuid()}")


@pytest.fixture
def started(folder) -> Iterator[Callable[..., Running]]:
    """started(NAME): a function of program.py in a process that may be asked."""
    processes = []

    def start(*words: str, **environment: str) -> Running:
        process = Running(
            [sys.executable, "-W", "error", PROGRAM, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # ended with its children
            env={**os.environ, **environment},
        )
        processes.append(process)
        assert process.says() == {"pid": process.pid}
        return process

    yield start
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stderr is not None
        problems = process.stderr.read()
        for file in (process.stdin, process.stdout, process.stderr):
            assert file is not None
            file.close()
        assert problems == ""


@pytest.fixture
def prepared(folder) -> Iterator[int]:
    """This process listens; its PID."""
    diagnose.enable(signal.SIGUSR2)
    yield os.getpid()
    diagnose.disable(signal.SIGUSR2)
