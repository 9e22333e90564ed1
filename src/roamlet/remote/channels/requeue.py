"""Values that a context was sent and did not take go back into their channel, in front and in order."""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import roamlet
from roamlet.core import atomic, select, tasklet
from roamlet.remote.base.threads import acquire, release

Value = tuple[Any, bool]
"""A value, and whether it is an exception for the receiver to raise."""


def requeue(channel: "roamlet.channel[Any]", values: Sequence[Value]) -> None:
    """Put the values back in front, in this order. Never blocks; on the thread for links only.

    A buffer takes them, whether there is room or not. A channel without one stores nothing: tasklets on the thread for links
    wait in it to send the values, and keep it alive.
    """
    waiting = deque(values)
    if channel.buffer:
        _into_buffer(channel, waiting)
        return
    threads = acquire()
    while waiting and not waiting[0][1] and select((channel, waiting[0][0]), default=None)[0] is not None:
        waiting.popleft()  # a receiver was waiting
    left = [None] * len(waiting)

    def send(value: Any, is_error: bool) -> None:
        try:
            channel.give_back(value, is_error)
        finally:
            left.pop()
            if not left:
                release(threads)

    for value, is_error in reversed(waiting):
        tasklet(send)(value, is_error).run()  # until it waits
    if not waiting:
        release(threads)


def _into_buffer(channel: "roamlet.channel[Any]", waiting: deque[Value]) -> None:
    with atomic():
        while waiting and not channel.buffered and _received(channel, waiting[0]):
            waiting.popleft()
        for value in reversed(waiting):
            channel.give_back(*value)


def _received(channel: "roamlet.channel[Any]", value: Value) -> bool:
    """Give the value back. Whether a receiver was waiting and has it now; else it is not in the empty buffer either."""
    channel.give_back(*value)
    if not channel.buffered:
        return True
    with suppress(BaseException):
        channel.receive()
    return False
