"""roamlet.move_to and roamlet.at: the current tasklet, or one block of it, goes on in another context. The migration itself is in
roamlet.snapshot.migration and roamlet.remote.migration.

Both ends have these names: a function that moves from context to context calls them wherever it is.
"""

import sys
from typing import Any

from roamlet.core import RoamletError, getcurrent, schedule_remove, tasklet, thread_ends


class NotMoved(RoamletError, RuntimeError):
    """A tasklet was not moved to another context: it is where it was, and nothing of it is elsewhere."""

    __module__ = "roamlet"  # where users find it


class MigrationDecision:
    """What a tasklet waits for in move_to(): whether it moves. Restored at the destination, it is decided."""

    def __init__(self) -> None:
        self.decided: bool = False
        self.error: BaseException | None = None
        self.killed: BaseException | None = None  # the first exception that was thrown into it while it waited
        self.wait: Any = schedule_remove  # how it goes on waiting after that

    def decide(self, item: "tasklet[...]", error: BaseException | None = None) -> None:
        """The paused tasklet stays: let it go on here, with this error."""
        self.decided = True
        self.error = error
        item.insert()

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return _decided, ()


def _decided() -> MigrationDecision:
    made = MigrationDecision()
    made.decided = True
    return made


arrivals: Any = None
"""The module roamlet.snapshot.migration.arrivals, once a tasklet has arrived in this process. It enters itself here."""


class Home:
    """The process that has opened the contexts: what `roamlet.home` is, there and in every context."""

    def _begin_migration(self, item: "tasklet[...]") -> MigrationDecision | None:
        if arrivals is not None and arrivals.has_arrived(item):
            return arrivals.begin_migration(item, None)  # type: ignore[no-any-return]
        if is_context():
            raise NotMoved(STARTED_THERE)
        return None

    def __reduce__(self) -> str:
        return "home"

    def __repr__(self) -> str:
        return "roamlet.home"


home: Home = Home()

STARTED_THERE = "a tasklet moves on from a context that it has moved to, and this one was started there: let it return"


def is_context() -> bool:
    """Whether this process is a context whose calls are tasklets."""
    runner = sys.modules.get("roamlet.wire.calls.tasklets")
    return runner is not None and runner._runner is not None


def move_to(place: Any) -> None:
    """Let the current tasklet go on in `place`, after this call: a context with tasklets=True, or roamlet.home.

    From the process that has opened the contexts it does what Context.move does with the tasklet. From a context the tasklet moves
    on only where the user has allowed it: context.allow_moves_to(...). A context that it holds in a variable can be used in that
    process and named in every context. Channels stay joined. Nothing happens when it is there already; roamlet.home is the process
    that has opened the contexts, and there the thread that the tasklet has left.

    Blocks the tasklet. It happens at most once; what keeps it from moving is raised in the source: what Context.move raises, and
    NotMoved, which names the context and what would allow it. When the link breaks after the commit was sent, callers that join the
    tasklet get MoveInDoubt. kill() reaches it when it is decided where it is.
    """
    begin = getattr(type(place), "_begin_migration", None)
    if begin is None:
        raise TypeError(
            f"move_to() takes a context, such as remote.ssh('alpha', tasklets=True), or roamlet.home, not {place!r:.80}"
        )
    decision: MigrationDecision | None = begin(place, getcurrent())
    del begin
    if decision is None:
        return
    while not decision.decided:
        try:
            if decision.killed is None:
                schedule_remove()
            else:
                decision.wait()
        except BaseException as error:
            if thread_ends():
                raise
            decision.killed = decision.killed or error.with_traceback(None)
    problem = decision.killed or decision.error
    del decision
    if problem is not None:
        try:
            raise problem
        finally:
            del problem  # its traceback has this frame


class at:
    """`with roamlet.at(context):` runs the code in the block in that context, the code before and after it in this process.

    In a tasklet, on CPython 3.11 to 3.15; the context is one with tasklets=True. The function's variables are sent as those of a
    tasklet that moves, see Context.move; those that the block has changed come back as data, as results do. What the block
    raises is raised here. Blocks the tasklet; meanwhile kill() ends the block. It happens at most once.

    Raises, at the `with`: what Context.move does, and the block has not begun; ContextDied when the context ends while the block
    runs; MoveInDoubt when it is not known whether that has begun; CannotTravel when the block has run and a variable or what it
    returns cannot come back.
    """

    _migration: Any = None  # in the source, while the block runs
    _running: Any = None  # in the destination

    def __init__(self, context: Any) -> None:
        if not hasattr(context, "_begin_block"):
            raise TypeError(f"at() takes a context, such as remote.ssh('alpha', tasklets=True), not {context!r:.80}")
        self._context = context

    def __enter__(self) -> None:
        self._migration = self._context._begin_block(getcurrent())
        try:
            schedule_remove()
        except BaseException as error:
            if self._running is not None:  # killed in the destination, before the block has begun
                self._running.end(error)
                schedule_remove()
            migration, self._migration = self._migration, None
            if migration is not None:
                migration.abandon()
            raise

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        # Only in the destination: in the source the function goes on after this call.
        self._running.end(error)
        schedule_remove()

    def __getstate__(self) -> None:
        """Its attributes stay."""
