"""Moving a tasklet to a context: prepare, commit, and a handle on what comes of it over there.

What is packed and restored stands in roamlet.snapshot.migration.pickling, which is sent over there. Until the commit is
sent the tasklet is ours, and whatever fails puts it back where it was; from then on it is theirs.
"""

import threading
from typing import Any

import roamlet
from roamlet._migration import MigrationDecision
from roamlet.core import TaskletExit, tasklet
from roamlet.remote import modules
from roamlet.remote.calls.engine import Calls, ContextBase
from roamlet.remote.channels.window import WindowChannel
from roamlet.remote.errors import CannotTravel, MoveInDoubt, NotMoved, RemoteError
from roamlet.remote.migration.arrival import HomeOutcome
from roamlet.remote.migration.handle import Journey, report
from roamlet.remote.migration.requests import bring, check_place, commit, main, nonsense, restored
from roamlet.snapshot import _native
from roamlet.snapshot.migration.pickling import MAIN, TaskletPickler
from roamlet.snapshot.migration.source import Suspended, migrating
from roamlet.snapshot.state import Captured, Flag
from roamlet.sync._outcome import Outcome
from roamlet.sync._spawn import Body
from roamlet.wire import codec

LENT = (roamlet.channel, WindowChannel)


def move(calls: Calls, moving: "tasklet[...]", decision: MigrationDecision | None = None) -> Journey:
    """What Context.move() does. `leaving`: the tasklet itself has called roamlet.move_to()."""
    check(calls, moving)
    name = name_of(moving)
    suspended = Suspended(moving, decision)
    try:
        _check_value(calls, suspended)
        parcel = TaskletPickler(moving, suspended.wait, LENT, (ContextBase,), main())
        number = prepared(calls, parcel, suspended)
        suspended.hold()  # without a switch since it was found to be ours
        waiter = commit(calls, number)
    except BaseException:
        suspended.put_back()
        raise
    arrived = _Departed(calls, number, name, suspended, parcel)
    del parcel
    lost = None
    killed = True
    try:
        answer = waiter.wait()
        killed = False
        lost = nonsense(calls, answer, name)
    except RemoteError as error:
        lost, killed = str(error), False
    finally:
        if killed:  # whoever waits here; the order to go on was sent
            arrived.end()
    if lost is not None:
        if suspended.release() and decision is None:
            moving.kill(pending=True)
        raise MoveInDoubt(
            f"{name} was on its way to {calls.name!r} when the link broke; nobody knows whether it goes on over there: {lost}\n"
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
    return arrived.end()


class _Departed:
    """A tasklet that was told to go on over there, and what is to be done here then."""

    def __init__(self, calls: Calls, number: int, name: str, suspended: Suspended, parcel: TaskletPickler) -> None:
        self._calls = calls
        self._number = number
        self._name = name
        self._suspended = suspended
        self._parcel = parcel

    def end(self) -> Journey:
        """End what is left here, and return the handle on what lives there."""
        parcel = self._parcel
        del self._parcel  # it holds what it has saved
        body, generators, contexts = parcel.body, parcel.generators, parcel.contexts
        del parcel
        outcome: Outcome[Any] | None = None if body is None else body.outcome
        item, decision = self._suspended.tasklet, self._suspended.decision
        killed = self._suspended.end(generators, body)
        if isinstance(outcome, HomeOutcome):  # it had come home
            journey = outcome.taken().leaves_home(self._calls, self._number, contexts)
        else:
            journey = Journey(self._calls, self._number, self._name, item, contexts)
            if outcome is not None:
                journey.passes_on(outcome)
            elif decision is not None:  # nobody gets the handle
                journey.reports()
        if killed:
            journey.kill()
        return journey


def leaves(calls: Calls, item: "tasklet[...]") -> MigrationDecision:
    """For roamlet.move_to(): the current tasklet, which suspends itself next, goes on in this context."""
    if item.is_main:
        raise NotMoved(
            "roamlet.move_to() takes a tasklet along, and this is the main one of its thread: roamlet.spawn(function).join()",
            context=calls.name,
        )
    check(calls, item)
    decision = MigrationDecision()
    tasklet(_leave)(calls, item, decision)
    return decision


def _leave(calls: Calls, item: "tasklet[...]", decision: MigrationDecision) -> None:
    try:
        move(calls, item, decision)
    except TaskletExit:  # its thread ends
        raise
    except MoveInDoubt as error:
        _tell_of_doubt(error.with_traceback(None), item, decision)
    except BaseException as error:
        decision.decide(item, error.with_traceback(None))


def _tell_of_doubt(error: MoveInDoubt, item: "tasklet[...]", decision: MigrationDecision) -> None:
    """To whoever joins the tasklet, else to the main one of its thread: it is suspended, and can be told nothing itself."""
    take_back = error._take_back
    assert take_back is not None
    function = Captured._make(_native.capture(item, {}, lambda function: function)).function
    outcome = function.outcome if isinstance(function, Body) else None
    del function

    def comes_back() -> None:
        if outcome is not None:
            outcome.reopen()
        take_back()
        decision.decide(item, NotMoved(str(error), context=error.context))

    error._take_back = comes_back
    if outcome is None:
        report(error, item.thread_id)
    else:
        outcome.fail(error)


def check(calls: Calls, moving: "tasklet[...]") -> None:
    """Refuse what can be refused before anything of it is touched."""
    if not isinstance(moving, tasklet):
        raise TypeError(f"move() takes a tasklet, not {moving!r:.80}")
    if moving in migrating:
        raise NotMoved(f"{moving!r} is on its way to a context already", context=calls.name)
    if not moving.alive:
        raise NotMoved(f"{moving!r} cannot move: it has ended, or has no arguments", context=calls.name)
    if moving.thread_id != threading.get_ident():
        raise NotMoved(
            f"{moving!r} cannot be moved from here: it belongs to another thread. Move it there", context=calls.name
        )
    check_place(calls, repr(moving))


def _check_value(calls: Calls, suspended: Suspended) -> None:
    """Refuse what it sends at present if that could not come back up."""
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


def name_of(moving: "tasklet[...]") -> str:
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


def prepared(calls: Calls, parcel: TaskletPickler, suspended: Suspended, *, block: bool = False) -> int:
    """Let it be restored over there, suspended, and return its number. Raises, and nothing is left there."""
    data = parcel.pickled()
    bring(calls, [modules.name_over_there() if module == MAIN else module for module in sorted(parcel.modules)])
    return restored(
        calls,
        (data, parcel.channels, parcel.main, block),
        repr(suspended.tasklet),
        lambda: None if suspended.is_unchanged else "it was killed, or begun, meanwhile",
    )
