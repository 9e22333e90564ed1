"""A process that is looked at: `python -m bench.seeing.worker`, asked through bench.workers."""

import os
import time
from typing import Any

import roamlet

from ..workers import serve

ROUND = 1000  # messages between two looks at the clock


class Looked:
    """So many blocked tasklets, and two that exchange messages at full speed while they are asked to."""

    def __init__(self) -> None:
        self._idle: roamlet.channel[int] = roamlet.channel()
        self._busy: roamlet.channel[int] = roamlet.channel()

    def begin(self, count: int) -> int:
        """Make `count` tasklets that wait; this process's PID."""
        for _ in range(count):
            roamlet.tasklet(self._waits)(3)
        roamlet.tasklet(self._receives)()
        roamlet.schedule()
        return os.getpid()

    def turn(self, seconds: float) -> dict[str, Any]:
        """Messages a second, and the longest time between two looks at the clock."""
        send = self._busy.send
        began = last = time.perf_counter()
        rounds, longest = 0, 0.0
        while last - began < seconds:
            for number in range(ROUND):
                send(number)
            now = time.perf_counter()
            longest, last, rounds = max(longest, now - last), now, rounds + 1
        return {"per_s": rounds * ROUND / (last - began), "longest": longest}

    def _waits(self, depth: int) -> None:
        if depth:
            self._waits(depth - 1)
        else:
            self._idle.receive()

    def _receives(self) -> None:
        while True:
            self._busy.receive()


if __name__ == "__main__":
    looked = Looked()
    serve({"begin": looked.begin, "turn": looked.turn})
