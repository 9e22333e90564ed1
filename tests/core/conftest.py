"""What the tests of the core share: a clock that moves only when no tasklet can run, and a collection afterwards."""

import gc
from collections.abc import Iterator

import pytest

from roamlet import core
from roamlet.testing import VirtualClock


@pytest.fixture(autouse=True)
def several_stacks() -> Iterator[None]:
    """Tasklets begin on stacks as they do where no test has imported greenlet."""
    before = core.set_single_stack(False)
    yield
    core.set_single_stack(before)


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    with VirtualClock() as clock:
        yield clock


@pytest.fixture
def cycles_of_local_classes_are_gone() -> Iterator[None]:
    yield
    gc.collect()
