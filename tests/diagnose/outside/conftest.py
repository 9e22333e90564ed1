"""Processes to be read from outside."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAM = str(Path(__file__).with_name("program.py"))
PYTHON = [sys.executable]


def part_of(numbers: range) -> range:
    """The part that ROAMLET_SOAK_PART asks a long test for, "2/5" for the second of five; all of them without it."""
    which, parts = map(int, os.environ.get("ROAMLET_SOAK_PART", "1/1").split("/"))
    count = len(numbers)
    return numbers[count * (which - 1) // parts : count * which // parts]


class Running(subprocess.Popen[str]):
    """A process of program.py that has said `facts` and may be looked at."""

    facts: dict[str, Any]

    def says(self) -> dict[str, Any]:
        assert self.stdout is not None
        line = self.stdout.readline()
        assert line, "the program has ended"
        facts: dict[str, Any] = json.loads(line)
        return facts

    def sleeps(self) -> None:
        """Until all its threads do."""
        while any(state_of(self.pid, int(tid)) == "R" for tid in os.listdir(f"/proc/{self.pid}/task")):
            time.sleep(0.001)


def state_of(pid: int, tid: int) -> str:
    with open(f"/proc/{pid}/task/{tid}/stat", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[0]


@pytest.fixture
def started() -> Iterator[Callable[..., Running]]:
    """started(NAME, *ARGS): a function of program.py in a process, as far as it is to be looked at."""
    processes = []

    def start(*words: str, cwd: str | None = None) -> Running:
        process = Running([*PYTHON, PROGRAM, *words], stdout=subprocess.PIPE, text=True, cwd=cwd)
        processes.append(process)
        process.facts = process.says()
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
