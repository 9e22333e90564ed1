"""Objects and functions that several tests use. Module-level classes: a class made in a test is a cycle of its own."""

from collections.abc import Callable

import roamlet


class Dropping:
    """Calls `function` when it is dropped; calling it does nothing."""

    def __init__(self, function: Callable[[], object]) -> None:
        self.function = function

    def __call__(self, *_: object) -> None:
        pass

    def __del__(self) -> None:
        self.function()


class Value:
    """Something that weak references can follow, made with any arguments."""

    def __init__(self, *_: object, **__: object) -> None:
        pass


def flags(tasklet: roamlet.tasklet) -> set[str]:
    """The names of the states that the tasklet is in."""
    names = ("alive", "scheduled", "blocked", "paused", "is_main", "is_current")
    return {name for name in names if getattr(tasklet, name)}


def nothing() -> None:
    pass


def waits_with_finally(log: list[str], block: Callable[[], object] = roamlet.schedule_remove) -> None:
    """Block, and note how that ended."""
    try:
        block()
        log.append("went on")
    except roamlet.TaskletExit:
        log.append("TaskletExit")
        raise
    finally:
        log.append("finally")
