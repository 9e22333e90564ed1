"""Tasklets that note what they do."""

import gc
from collections.abc import Callable
from typing import Any

import roamlet
from roamlet import core


def noting(log: list[Any], name: Any, body: Callable[[], Any]) -> "roamlet.tasklet[[]]":
    """A tasklet, already begun, that notes (name, what `body` returned), or (name, the class of what it raised)."""

    def run() -> None:
        try:
            log.append((name, body()))
        except BaseException as error:
            log.append((name, type(error).__name__))

    tasklet = roamlet.tasklet(run)()
    tasklet.run()
    return tasklet


def holding(log: list[Any], name: Any, lock: Any, steps: int = 1) -> "roamlet.tasklet[[]]":
    """A tasklet, already begun, that holds the lock while others run `steps` times, and notes that it did."""

    def run() -> None:
        with lock:
            log.append(name)
            for _ in range(steps):
                roamlet.schedule()

    tasklet = roamlet.tasklet(run)()
    tasklet.run()
    return tasklet


def noted_when_collected(body: Callable[[], Any]) -> list[str]:
    """What is noted once `body` waits for an object that nothing else refers to: ["ended"] when the collector has ended it."""
    log = []

    def run() -> None:
        try:
            body()
        finally:
            log.append("ended")

    before = len(core.started())
    roamlet.tasklet(run)().run()
    gc.collect()
    if core.backend == "greenlet":  # which sees no frames
        core.started()[before].kill()
    return log
