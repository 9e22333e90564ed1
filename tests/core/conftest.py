"""What the tests of the core share: a clock that moves only when nobody can run, and a collection afterwards."""

import gc
from collections.abc import Iterator

import pytest

from roamlet import core

# About the memory of one backend; the others have none of that.
collect_ignore = [] if core.backend == "stacks" else ["test_stacks.py"]


class VirtualClock:
    """Time for the core's timers: it stands still while tasklets run, and jumps when all of them wait."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.jumps: list[float] = []

    def read(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.jumps.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    clock = VirtualClock()
    core.set_clock(clock.read, clock.advance)
    yield clock
    core.set_clock()


@pytest.fixture
def cycles_of_local_classes_are_gone() -> Iterator[None]:
    yield
    gc.collect()
