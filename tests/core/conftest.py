"""What the tests of the core share: a clock that moves only when no tasklet can run, and a collection afterwards."""

import gc
from collections.abc import Iterator

import pytest

from roamlet import core
from roamlet.testing import VirtualClock

# About the memory of one backend; the others have none of that.
collect_ignore = [] if core.backend == "stacks" else ["test_stacks.py"]


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    with VirtualClock() as clock:
        yield clock


@pytest.fixture
def cycles_of_local_classes_are_gone() -> Iterator[None]:
    yield
    gc.collect()
