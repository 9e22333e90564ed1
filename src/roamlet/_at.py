"""roamlet.at: a block of a function that runs in another context. What moves it there stands in roamlet.remote, what is moved in
roamlet.snapshot.
"""

from typing import Any

from roamlet.core import getcurrent, schedule_remove


class at:
    """`with roamlet.at(context):` runs the code in the block over there, the code before and behind it here.

    In a tasklet, on CPython 3.11 to 3.14; the context is one with tasklets=True. The function's variables go there as those of a
    tasklet that moves, see Context.move; those that the block has changed come back as data, as results do. What the block
    raises is raised here. Blocks the tasklet; while it is away, kill() ends the block. It happens at most once.

    Raises, at the `with`: what Context.move does, and the block has not begun; ContextDied when the context ends while the block
    runs; MoveInDoubt when it is not known whether that has begun; CannotTravel when the block has run and a variable or what it
    returns cannot come back.
    """

    _visit: Any = None  # here, while the block runs
    _stay: Any = None  # over there

    def __init__(self, context: Any) -> None:
        if not hasattr(context, "_visit"):
            raise TypeError(f"at() takes a context, such as remote.ssh('alpha', tasklets=True), not {context!r:.80}")
        self._context = context

    def __enter__(self) -> None:
        self._visit = self._context._visit(getcurrent())
        try:
            schedule_remove()
        except BaseException as error:
            if self._stay is not None:  # killed over there, before the block has begun
                self._stay.end(error)
                schedule_remove()
            visit, self._visit = self._visit, None
            if visit is not None:
                visit.abandon()
            raise

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        # Only over there: here the function goes on behind this call.
        self._stay.end(error)
        schedule_remove()

    def __getstate__(self) -> None:
        """Nothing of it travels but that it is there."""
