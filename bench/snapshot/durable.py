"""The chain as generators that dispatch-py makes picklable: each runs the one below it."""

from collections.abc import Generator
from typing import Any

from dispatch.experimental.durable import durable


@durable
def leaf(value: int) -> Generator[int, int, int]:
    received = yield value
    return received * 10


@durable
def deep(value: int, levels: int) -> Generator[int, int, int]:
    if levels:
        return (yield from deep(value, levels - 1)) + 1
    return (yield from leaf(value))


def chain(frames: int) -> Any:
    """So many of them, of which the last waits."""
    made = deep(1, frames - 2)
    next(made)
    return made
