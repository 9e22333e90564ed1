"""Asking again at growing intervals, for what the kernel has no descriptor for: groups of children, blocked signals, semaphores."""

from collections.abc import Callable, Iterator
from time import monotonic
from typing import TypeVar

from roamlet.patch._handlers import sleep

T = TypeVar("T")

# Seconds between two questions: the first, and the longest after doubling.
_FIRST_PAUSE, _LONGEST_PAUSE = 20e-6, 0.01


def pauses() -> Iterator[float]:
    """Yield the seconds to wait before each question but the first, without end."""
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 2, _LONGEST_PAUSE)


def ask_until(ask: Callable[[], T | None], timeout: float | None = None) -> T | None:
    """Call ask() until it returns something but None, and return that; None when `timeout` seconds have passed.

    Blocks this tasklet between the calls. It is asked at least once, and once more at the end. Raises what ask() raises.
    """
    deadline = None if timeout is None else monotonic() + timeout
    for pause in pauses():
        answer = ask()
        if answer is not None:
            return answer
        left = None if deadline is None else deadline - monotonic()
        if left is not None and left <= 0:
            return None
        sleep(pause if left is None else min(pause, left))
    raise AssertionError("pauses() has no end")
