"""Puts values that a context was sent and did not take back into their channel, in front of what waits there."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import roamlet
from roamlet.core import select, tasklet
from roamlet.remote.base.threads import acquire, release
from roamlet.remote.channels.window import WindowChannel

Value = tuple[Any, bool]
"""A value, and whether it is an exception for the receiver to raise."""


def requeue(channel: "roamlet.channel[Any] | WindowChannel[Any]", values: Sequence[Value]) -> None:
    """Put these in front, in this order. Never blocks; on the thread for links only.

    A channel without a window stores nothing: tasklets on the thread for links wait in it to send the values, and keep it alive.
    """
    if isinstance(channel, WindowChannel):
        channel.requeue(values)
        return
    threads = acquire()
    waiting = deque(values)
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
