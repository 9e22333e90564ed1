"""The parent process of tasklets that travel: `python -m bench.snapshot.traveller`, asked through bench.workers."""

from statistics import median
from time import perf_counter
from typing import Any

import roamlet
from roamlet import remote

from ..shipped import shipped
from ..workers import serve

FRAMES = 4


class Traveller:
    """One open context, and what is sent to it."""

    def __init__(self) -> None:
        self._context: Any = None
        self._functions = shipped("goes_there")
        self._no_op = shipped("no_op").no_op

    def open(self, python: str) -> None:
        """Open it and do each once, so that the target has roamlet's core and the functions."""
        self._context = remote.local(python=python, tasklets=True)
        self.calls(1)
        self.moves(1)
        self.blocks(1)

    def calls(self, count: int) -> float:
        """The median of the seconds of a call that does nothing."""
        return median(self._timed(self._context.call, self._no_op) for _ in range(count))

    def moves(self, count: int) -> float:
        """The median of the seconds in which a waiting tasklet moves to the target; each answers afterwards, over its channels."""
        return median(self._move() for _ in range(count))

    def blocks(self, count: int) -> float:
        """The median of the seconds of a remote block that changes a variable."""
        return median(roamlet.spawn(self._functions.has_blocks, (self._context, count)).join())

    def _move(self) -> float:
        questions, replies = roamlet.channel(), roamlet.channel()
        tasklet = roamlet.tasklet(self._functions.answers)(questions, replies, FRAMES - 1)
        tasklet.run()
        began = perf_counter()
        handle = self._context.move(tasklet)
        seconds = perf_counter() - began
        questions.send(1)
        assert replies.receive() == 2
        handle.join()
        return seconds

    @staticmethod
    def _timed(function: Any, *arguments: Any) -> float:
        began = perf_counter()
        function(*arguments)
        return perf_counter() - began

    def close(self) -> None:
        if self._context is not None:
            self._context.close()
            self._context = None


if __name__ == "__main__":
    traveller = Traveller()
    questions = (traveller.open, traveller.calls, traveller.moves, traveller.blocks, traveller.close)
    serve({question.__name__: question for question in questions})
    traveller.close()
