"""The near end of `with roamlet.at(context):`: who takes the block over there, and lets the function go on here when it has ended.

The tasklet stays here, suspended at its `with`. What comes back are data, see roamlet.snapshot.migration.block.
"""

import re
import sys
from typing import Any

from roamlet.core import TaskletExit, tasklet
from roamlet.remote.calls.engine import Calls, ContextBase
from roamlet.remote.errors import CannotTravel, MoveInDoubt, NotMoved, RemoteError
from roamlet.remote.migration import move, requests
from roamlet.remote.migration.handle import Handle
from roamlet.snapshot.migration.block import BlockPickler, go_on
from roamlet.snapshot.migration.source import Suspended

OF_A_VARIABLE = re.compile(
    r"(?P<ran>.*), but what it returned cannot (travel|be taken): "
    r"result\['variables'\]\['(?P<name>\w+)'\](?P<inside>.*?) cannot travel: (?P<why>[^\n]*?)\.?(\n.*)?",
    re.DOTALL,
)


class Visit:
    """A block that runs in a context. Its `_run` is a tasklet of the same thread."""

    def __init__(self, calls: Calls, item: "tasklet[...]") -> None:
        """`item` is the current tasklet, which suspends itself next."""
        if item.is_main:
            raise NotMoved(
                "roamlet.at() takes a tasklet, and this is the main one of its thread: roamlet.spawn(function).join()",
                context=calls.name,
            )
        move.check(calls, item)
        self._calls = calls
        self._item = item
        frame = sys._getframe(2)  # behind Context._begin_block and __enter__
        self._function = frame.f_back.f_code.co_qualname if frame.f_back is not None else ""
        self._abandoned = False
        self._number: int | None = None
        tasklet(self._run)()

    def abandon(self) -> None:
        """The tasklet goes on without it: it was killed."""
        self._abandoned = True
        if self._number is not None:
            requests.tell(self._calls, "kill", self._number)

    def _run(self) -> None:
        item = self._item
        try:
            suspended = Suspended(item)
            try:
                said = self._said(suspended)
                if suspended.is_unchanged:
                    go_on(item, said, suspended.wait.flags)
            finally:
                suspended.put_back()
        except TaskletExit:  # its thread ends
            raise
        except BaseException as error:
            if not self._abandoned and item.alive:
                item.throw(error.with_traceback(None), pending=True)

    def _said(self, suspended: Suspended) -> Any:
        """Let the block run over there, and wait for what there is to say of it."""
        calls = self._calls
        parcel = BlockPickler(self._item, suspended.wait, move.LENT, (ContextBase,), requests.main())
        name = f"the block of {self._function}"
        number = move.prepared(calls, parcel, suspended, block=True)
        waiter = requests.commit(calls, number)
        del parcel
        try:
            answer = waiter.wait()
        except RemoteError as error:
            lost = str(error)
        else:
            calls.value(answer, name)
            self._number = number
            if self._abandoned:
                self.abandon()
            try:
                return Handle(calls, number, name).join()
            except CannotTravel as error:
                refused = _of_a_variable(error.with_traceback(None))
            try:
                raise refused  # here, where it takes no frame along as its context
            finally:
                del refused  # its traceback holds this frame
        raise MoveInDoubt(
            f"the link to {calls.name!r} broke when {name} was to begin there; nobody knows whether it did: {lost}",
            context=calls.name,
        )


def _of_a_variable(error: CannotTravel) -> CannotTravel:
    """The same in the words of whoever wrote the block, who has returned nothing."""
    found = OF_A_VARIABLE.fullmatch(str(error))
    if found is None:
        return error
    name, path = found["name"], found["name"] + found["inside"]
    told = CannotTravel(
        f"{found['ran']}, but its variable {path} cannot come back: {found['why']}.\n"
        f"    Keep what you need of it in variables of plain values, and end the block with  del {name}",
        context=error.context,
        function=error.function,
    )
    told.path = path
    return told
