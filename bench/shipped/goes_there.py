"""A tasklet's function that is moved to a context, and one that has a block there."""

from time import perf_counter
from typing import Any

import roamlet


def answers(questions: Any, replies: Any, levels: int) -> None:
    """Wait for a question, so many calls deep, and answer it wherever that is."""
    if levels:
        answers(questions, replies, levels - 1)
        return
    replies.send(questions.receive() + 1)


def has_blocks(context: Any, count: int) -> list[float]:
    """Seconds of each block."""
    taken, number = [], 0
    for _ in range(count):
        began = perf_counter()
        with roamlet.at(context):
            number += 1
        taken.append(perf_counter() - began)
    assert number == count
    return taken
