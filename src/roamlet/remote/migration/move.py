"""The source of a migration to a context: a tasklet, or one block of it, is prepared and committed there.

roamlet.snapshot.migration.pickling writes it here and reads it there. Until the commit is sent the tasklet belongs to the source,
and any failure puts it back where it was; from then on it belongs to the destination. The tasklet of a block stays in the source,
suspended at its `with`; what comes back is data, see roamlet.snapshot.migration.block.
"""

import re
import sys
import time
from typing import Any

from roamlet import _observing as observing
from roamlet._migration import MigrationDecision
from roamlet.core import TaskletExit, channel, os_threads, tasklet
from roamlet.remote import modules
from roamlet.remote.calls.engine import Calls, ContextBase
from roamlet.remote.channels.streams import StreamChannel
from roamlet.remote.errors import CannotTravel, MoveInDoubt, NotMoved, RemoteError
from roamlet.remote.migration import requests
from roamlet.remote.migration.handle import ArrivalHandle, MigrationHandle, ReturnedOutcome, report
from roamlet.snapshot import _native
from roamlet.snapshot.migration.block import BlockPickler, go_on
from roamlet.snapshot.migration.pickling import MAIN, TaskletPickler
from roamlet.snapshot.migration.source import Suspended, migrating
from roamlet.snapshot.state import Captured, Flag
from roamlet.sync._outcome import Outcome
from roamlet.sync._spawn import Body
from roamlet.wire import codec

CHANNELS = (channel, StreamChannel)

_OF_A_VARIABLE = re.compile(
    r"(?P<ran>.*), but what it returned cannot (travel|be taken): "
    r"result\['variables'\]\['(?P<name>\w+)'\](?P<inside>.*?) cannot travel: (?P<why>[^\n]*?)\.?(\n.*)?",
    re.DOTALL,
)


def move(calls: Calls, moving: "tasklet[...]", decision: MigrationDecision | None = None) -> MigrationHandle:
    """What Context.move() does. `decision`: what the tasklet waits for, if it has called roamlet.move_to() itself."""
    _check(calls, moving)
    name = _name_of(moving)
    left = time.monotonic_ns()
    suspended = Suspended(moving, decision)
    try:
        _check_value(calls, suspended)
        pickler = TaskletPickler(moving, suspended.wait, CHANNELS, (ContextBase,), requests.main_script_name())
        number = _prepare(calls, pickler, suspended)
        suspended.hold()  # without a switch since it was found to be unchanged
        waiter = requests.commit(calls, number)
    except BaseException:
        suspended.put_back()
        raise
    committed = _Committed(calls, number, name, suspended, pickler)
    del pickler
    lost = None
    killed = True
    try:
        answer = waiter.wait()
        killed = False
        lost = requests.doubt_in(calls, answer, name)
    except RemoteError as error:
        lost, killed = str(error), False
    finally:
        if killed:  # the tasklet that waits here was; the commit was sent
            committed.end()
    if lost is not None:
        if suspended.release() and decision is None:
            moving.kill(pending=True)
        raise MoveInDoubt(
            f"{name} was on its way to {calls.name!r} when the link broke, and it is not known whether it goes on there: {lost}\n"
            "    It is suspended here. If it did not go on, error.take_back() lets it go on here; else error.tasklet.kill().",
            context=calls.name,
            tasklet=moving,
            take_back=suspended.put_back,
        )
    try:
        calls.value(answer, name)
    except BaseException:
        suspended.put_back()
        raise
    if observing.observer is not None:
        observing.observer.moved(calls.name, moving, name, left)
    return committed.end()


class _Committed:
    """A tasklet for which the commit was sent, and what is done in the source then."""

    def __init__(self, calls: Calls, number: int, name: str, suspended: Suspended, pickler: TaskletPickler) -> None:
        self._calls = calls
        self._number = number
        self._name = name
        self._suspended = suspended
        self._pickler = pickler

    def end(self) -> MigrationHandle:
        """End what is left in the source, and return the handle on what lives in the destination."""
        pickler = self._pickler
        del self._pickler  # it holds what it has saved
        body, generators, contexts = pickler.body, pickler.generators, pickler.contexts
        del pickler
        outcome: Outcome[Any] | None = None if body is None else body.outcome
        item, decision = self._suspended.tasklet, self._suspended.decision
        killed = self._suspended.end(generators, body)
        if isinstance(outcome, ReturnedOutcome):  # it had come home
            handle = outcome.take_handle().leave_home(self._calls, self._number, contexts)
        else:
            handle = MigrationHandle(self._calls, self._number, self._name, item, contexts)
            if outcome is not None:
                handle.forward_to(outcome)
            elif decision is not None:  # no code gets the handle
                handle.report_errors()
        if killed:
            handle.kill()
        return handle


def begin_migration(calls: Calls, item: "tasklet[...]") -> MigrationDecision:
    """For roamlet.move_to(): the current tasklet, which suspends itself next, goes on in this context."""
    if item.is_main:
        raise NotMoved(
            "roamlet.move_to() takes a tasklet along, and this is the main one of its thread: roamlet.spawn(function).join()",
            context=calls.name,
        )
    _check(calls, item)
    decision = MigrationDecision()
    tasklet(_migrate)(calls, item, decision)
    return decision


def _migrate(calls: Calls, item: "tasklet[...]", decision: MigrationDecision) -> None:
    try:
        move(calls, item, decision)
    except TaskletExit:  # its thread ends
        raise
    except MoveInDoubt as error:
        _report_doubt(error.with_traceback(None), item, decision)
    except BaseException as error:
        decision.decide(item, error.with_traceback(None))


def _report_doubt(error: MoveInDoubt, item: "tasklet[...]", decision: MigrationDecision) -> None:
    """To callers that join the tasklet, else to the main one of its thread: the tasklet itself is suspended."""
    take_back = error._take_back
    assert take_back is not None
    function = Captured._make(_native.capture(item, {}, lambda function: function)).function
    outcome = function.outcome if isinstance(function, Body) else None
    del function

    def take_back_and_decide() -> None:
        if outcome is not None:
            outcome.reopen()
        take_back()
        decision.decide(item, NotMoved(str(error), context=error.context))

    error._take_back = take_back_and_decide
    if outcome is None:
        report(error, item.thread_id)
    else:
        outcome.fail(error)


def _check(calls: Calls, moving: "tasklet[...]") -> None:
    """Refuse what can be refused before the tasklet is touched."""
    if not isinstance(moving, tasklet):
        raise TypeError(f"move() takes a tasklet, not {moving!r:.80}")
    if moving in migrating:
        raise NotMoved(f"{moving!r} is on its way to a context already", context=calls.name)
    if not moving.alive:
        raise NotMoved(f"{moving!r} cannot move: it has ended, or has no arguments", context=calls.name)
    if moving.thread_id != os_threads.get_ident():
        raise NotMoved(
            f"{moving!r} cannot be moved from here: it belongs to another thread. Move it there", context=calls.name
        )
    requests.check_destination(calls, repr(moving))


def _check_value(calls: Calls, suspended: Suspended) -> None:
    """Refuse a value that it waits to send if that could not come back up."""
    direction, _, value, flags, _ = suspended.wait
    if direction > 0 and not flags & Flag.SENDS_ERROR:
        try:
            codec.dumps(value, "value", refer=lambda _: 1, otherwise=False)
        except codec.CannotTravel as error:
            problem = str(error)
        else:
            return
        raise CannotTravel(
            f"{suspended.tasklet!r} was not moved to {calls.name!r}: it waits to send what could not be sent there: {problem}",
            context=calls.name,
        )


def _name_of(moving: "tasklet[...]") -> str:
    """For messages: the function that it runs."""
    frame = moving.frame
    function = "a function"
    if frame is None:
        bound = Captured._make(_native.capture(moving, {}, lambda function: function)).function
        function = getattr(bound, "__qualname__", function)
    while frame is not None:
        if frame.f_code is not Body.__call__.__code__:
            function = frame.f_code.co_qualname
        frame = frame.f_back
    return f"the tasklet of {function}"


def _prepare(calls: Calls, pickler: TaskletPickler, suspended: Suspended, *, block: bool = False) -> int:
    """Have it restored and suspended in the destination; return its number there. Raises, and nothing is left there."""
    data = pickler.pickled()
    names = [modules.name_on_target() if module == MAIN else module for module in sorted(pickler.modules)]
    requests.send_modules(calls, names)
    return requests.prepare(
        calls,
        (data, pickler.channels, pickler.main, block),
        repr(suspended.tasklet),
        lambda: None if suspended.is_unchanged else "it was killed, or begun, meanwhile",
    )


# ---- a block


class BlockMigration:
    """A block of roamlet.at() that runs in a context. Its `_run` is a tasklet of the same thread."""

    def __init__(self, calls: Calls, item: "tasklet[...]") -> None:
        """`item` is the current tasklet, which suspends itself next."""
        if item.is_main:
            raise NotMoved(
                "roamlet.at() takes a tasklet, and this is the main one of its thread: roamlet.spawn(function).join()",
                context=calls.name,
            )
        _check(calls, item)
        self._calls = calls
        self._item = item
        frame = sys._getframe(2)  # above Context._begin_block and __enter__
        self._function = frame.f_back.f_code.co_qualname if frame.f_back is not None else ""
        self._abandoned = False
        self._number: int | None = None
        tasklet(self._run)()

    def abandon(self) -> None:
        """The tasklet goes on without it: it was killed."""
        self._abandoned = True
        if self._number is not None:
            requests.notify(self._calls, "kill", self._number)

    def _run(self) -> None:
        item = self._item
        try:
            suspended = Suspended(item)
            try:
                result = self._result(suspended)
                if suspended.is_unchanged:
                    go_on(item, result, suspended.wait.flags)
            finally:
                suspended.put_back()
        except TaskletExit:  # its thread ends
            raise
        except BaseException as error:
            if not self._abandoned and item.alive:
                item.throw(error.with_traceback(None), pending=True)

    def _result(self, suspended: Suspended) -> Any:
        """Let the block run in the destination, and wait for its BlockResult."""
        calls = self._calls
        pickler = BlockPickler(self._item, suspended.wait, CHANNELS, (ContextBase,), requests.main_script_name())
        name = f"the block of {self._function}"
        number = _prepare(calls, pickler, suspended, block=True)
        waiter = requests.commit(calls, number)
        del pickler
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
                return ArrivalHandle(calls, number, name).join()
            except CannotTravel as error:
                refused = _of_a_variable(error.with_traceback(None))
            try:
                raise refused  # here, where it takes no frame along as its context
            finally:
                del refused  # its traceback holds this frame
        raise MoveInDoubt(
            f"the link to {calls.name!r} broke when {name} was to begin there, and it is not known whether it did: {lost}",
            context=calls.name,
        )


def _of_a_variable(error: CannotTravel) -> CannotTravel:
    """The same error for a block, which has variables and no result."""
    found = _OF_A_VARIABLE.fullmatch(str(error))
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
