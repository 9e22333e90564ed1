"""What the tests of worker threads share: jobs that block until they may go on, and waiting for other threads."""

import threading
import time
from collections.abc import Callable

import roamlet
from roamlet.io import workers


class Gate:
    """A job that blocks its thread until it is opened. `entered` says how many are inside."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._entering = threading.Semaphore(0)

    def __call__(self) -> str:
        self._entering.release()
        assert self._open.wait(30)
        return "through"

    def wait_for(self, count: int = 1) -> None:
        for _ in range(count):
            assert self._entering.acquire(timeout=30)

    def open(self) -> None:
        self._open.set()


def wait_until(condition: Callable[[], bool]) -> None:
    """Other threads need a moment to get where they are going."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def all_rest() -> bool:
    threads, idle, queued = workers.status()
    return threads == idle and queued == 0


def started(function: Callable[[], object]) -> roamlet.tasklet:
    """A tasklet of `function` that has run until it blocks for the first time."""
    tasklet = roamlet.tasklet(function)()
    tasklet.run()
    return tasklet
