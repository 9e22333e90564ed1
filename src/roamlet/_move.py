"""roamlet.move_to: the current tasklet goes on in another context. What moves it stands in roamlet.remote and roamlet.snapshot.

It is for both ends: a function that moves from place to place says so by these names, wherever it is.
"""

import sys
from typing import Any

from roamlet.core import RoamletError, getcurrent, schedule_remove, tasklet, thread_ends


class NotMoved(RoamletError, RuntimeError):
    """A tasklet was not moved to another context: it is where it was, and nothing of it is elsewhere."""

    __module__ = "roamlet"  # where users find it


class Leaving:
    """What a tasklet waits for in move_to(). It travels along, and where the tasklet goes on all is decided."""

    def __init__(self) -> None:
        self.decided = False
        self.error: BaseException | None = None
        self.killed: BaseException | None = None  # what was thrown into it while it was under way
        self.wait: Any = schedule_remove  # how it goes on waiting then

    def decide(self, item: "tasklet[...]", error: BaseException | None = None) -> None:
        """It stays: let it go on here, with this error. It is paused."""
        self.decided = True
        self.error = error
        item.insert()

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return _arrived, ()


def _arrived() -> Leaving:
    made = Leaving()
    made.decided = True
    return made


class Home:
    """The process that has opened the contexts: what `roamlet.home` is, there and in every context."""

    def _leaving(self, item: "tasklet[...]") -> Leaving | None:
        onward = sys.modules.get("roamlet.snapshot.migration.arrivals")  # which is where tasklets have come to
        if onward is not None and onward.is_guest(item):
            return onward.leave(item, None)  # type: ignore[no-any-return]
        if is_context():
            raise NotMoved(STARTED_THERE)
        return None

    def __reduce__(self) -> str:
        return "home"

    def __repr__(self) -> str:
        return "roamlet.home"


home = Home()

STARTED_THERE = "a tasklet moves on from a context that it has moved to, and this one was started there: let it return"


def is_context() -> bool:
    """Whether this process is the far end of a context whose calls are tasklets."""
    runner = sys.modules.get("roamlet.wire.tasklets")
    return runner is not None and runner._runner is not None


def move_to(place: Any) -> None:
    """Let the current tasklet go on in `place`, behind this call: a context with tasklets=True, or roamlet.home.

    From here it is what Context.move does with the tasklet. From a context it has come to, it moves on only where the user has
    let it: context.allow_moves_to(...). A context that it holds in a variable can be used here and named everywhere. Channels
    stay joined. Nothing happens when it is there already; roamlet.home is the process that has opened the contexts, and in the
    thread that it has left.

    Blocks the tasklet. It happens at most once; what keeps it from moving is raised here, where it was: what Context.move raises,
    and NotMoved, which names the context and what would allow it. When the link breaks behind the order to go on, whoever joins
    it gets MoveInDoubt. kill() reaches it when it is decided where it is.
    """
    leaves = getattr(type(place), "_leaving", None)
    if leaves is None:
        raise TypeError(
            f"move_to() takes a context, such as remote.ssh('alpha', tasklets=True), or roamlet.home, not {place!r:.80}"
        )
    leaving: Leaving | None = leaves(place, getcurrent())
    del leaves
    if leaving is None:
        return
    while not leaving.decided:
        try:
            if leaving.killed is None:
                schedule_remove()
            else:
                leaving.wait()
        except BaseException as error:
            if thread_ends():
                raise
            leaving.killed = leaving.killed or error.with_traceback(None)
    problem = leaving.killed or leaving.error
    del leaving
    if problem is not None:
        try:
            raise problem
        finally:
            del problem  # whose traceback has this frame
