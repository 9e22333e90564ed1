"""Tasklets that note what they do."""

from collections.abc import Callable
from typing import Any

import weft


def noting(log: list[Any], name: Any, body: Callable[[], Any]) -> "weft.tasklet[[]]":
    """A tasklet, already begun, that notes (name, what `body` returned), or (name, the class of what it raised)."""

    def run() -> None:
        try:
            log.append((name, body()))
        except BaseException as error:
            log.append((name, type(error).__name__))

    tasklet = weft.tasklet(run)()
    tasklet.run()
    return tasklet


def holding(log: list[Any], name: Any, lock: Any, steps: int = 1) -> "weft.tasklet[[]]":
    """A tasklet, already begun, that holds the lock while others run `steps` times, and notes that it did."""

    def run() -> None:
        with lock:
            log.append(name)
            for _ in range(steps):
                weft.schedule()

    tasklet = weft.tasklet(run)()
    tasklet.run()
    return tasklet
