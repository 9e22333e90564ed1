"""The tasklet that is saved: so many calls deep, waiting in a channel."""

from typing import Any

from weft import channel


def leaf(ch: "channel[int]") -> int:
    value = ch.receive()
    return value * 10


def deep(ch: "channel[int]", levels: int) -> int:
    if levels:
        return deep(ch, levels - 1) + 1
    return leaf(ch)


def outermost(ch: "channel[Any]", levels: int) -> int:
    return deep(ch, levels)
