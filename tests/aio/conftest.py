"""What the tests of loops share: the thread's own loop ends with each test, and a tasklet shows that nothing was held up."""

from collections.abc import Callable, Iterator

import pytest

import roamlet
from roamlet import aio


@pytest.fixture(autouse=True)
def loop_of_the_thread() -> Iterator[None]:
    yield
    aio.shutdown()


@pytest.fixture
def ticks() -> Iterator[Callable[[], int]]:
    """How often another tasklet has run until now, about every 5 ms."""
    count = 0

    def tick() -> None:
        nonlocal count
        while True:
            roamlet.sleep(0.005)
            count += 1

    ticker = roamlet.tasklet(tick)()
    yield lambda: count
    ticker.kill()
