"""Moving a tasklet to a context: prepare, commit, and a handle on what comes of it over there.

What is packed and restored stands in weft.snapshot._travel, which is sent over there. Until the commit is sent the tasklet is ours,
and whatever fails puts it back where it was; from then on it is theirs.
"""

import itertools
import logging
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import weft
from weft.core import NoCore, tasklet
from weft.remote import modules
from weft.remote._spawn import RemoteCall
from weft.remote._values import Outgoing
from weft.remote._window import WindowChannel
from weft.remote.channels import Luggage
from weft.remote.context import Context, Request, _encoded
from weft.remote.errors import CannotTravel, MoveInDoubt, NotMoved, RemoteError
from weft.snapshot import _native
from weft.snapshot._travel import ATOMIC_FLAG, SENDS_ERROR, Parcel, State, discard
from weft.sync._outcome import Outcome
from weft.sync._spawn import Body
from weft.wire import codec

THERE = "weft.snapshot._travel"
LENT = (weft.channel, WindowChannel)

_numbers = itertools.count(1)
_log = logging.getLogger("weft.remote")


class Suspended:
    """A tasklet between here and there: nobody but who kills it wakes it, and it can be put back where it was."""

    def __init__(self, moving: "tasklet[...]") -> None:
        self.tasklet = moving
        self.state: State = _native.detach(moving)
        self._begun = moving.frame is not None
        self._nowhere: weft.channel[None] = weft.channel()
        if self._begun:  # insert() and run() refuse what is blocked
            _native.settle(moving, -1, self._nowhere, None, self.state[3] & ATOMIC_FLAG, self.state[4])
        _under_way.add(moving)

    @property
    def is_ours(self) -> bool:
        """Whether it is still as it was left: nobody has killed it, or let it begin."""
        moving = self.tasklet
        if self._begun:
            return self._nowhere.queue is moving
        return moving.alive and moving.paused and moving.frame is None

    def put_back(self) -> None:
        """Let it be where it was, behind others."""
        _under_way.discard(self.tasklet)
        if self.is_ours:
            _native.detach(self.tasklet)
            _native.settle(self.tasklet, *self.state)

    def end(self, generators: list[Any], body: "Body[Any] | None") -> None:
        """It lives elsewhere: end what is left here. Whoever joins a tasklet of weft.spawn() goes on waiting."""
        _under_way.discard(self.tasklet)
        if body is not None:
            del body.outcome
        if self.is_ours:
            discard(self.tasklet, generators)


_under_way: "weakref.WeakSet[tasklet[...]]" = weakref.WeakSet()  # the tasklets of Suspended


def move(context: Context, moving: "tasklet[...]") -> RemoteCall[Any]:
    """What Context.move() does."""
    check(context, moving)
    name = name_of(moving)
    suspended = Suspended(moving)
    try:
        _check_value(context, suspended)
        parcel = Parcel(moving, suspended.state, LENT, (Context,), main())
        number = prepared(context, parcel, suspended)
        waiter = commit(context, number)
    except BaseException:
        suspended.put_back()
        raise
    body = parcel.body
    outcome = None if body is None else body.outcome
    lost = None
    killed = True
    try:
        answer = waiter.wait()
        killed = False
    except RemoteError as error:
        lost, killed = str(error), False
    finally:
        if killed:  # whoever waits here; the order to go on was sent
            generators = parcel.generators
            del parcel
            suspended.end(generators, body)
            _call(context, number, name, outcome)
    if lost is not None:
        raise MoveInDoubt(
            f"{name} was on its way to {context.name!r} when the link broke; nobody knows whether it goes on over there: {lost}\n"
            "    It is suspended here. If it did not go on, error.take_back() lets it go on here; else error.tasklet.kill().",
            context=context.name,
            tasklet=moving,
            take_back=suspended.put_back,
        )
    try:
        context._value(answer, name)
    except BaseException:
        suspended.put_back()
        raise
    generators = parcel.generators
    del parcel  # it holds what it has saved
    suspended.end(generators, body)
    return _call(context, number, name, outcome)


class Handle(RemoteCall[Any]):
    """On a tasklet that has moved. It is killed by its number, whether the call that waits for it has come there or not."""

    _runs_already = True

    def __init__(self, context: Context, number: int, name: str) -> None:
        self._moved = number
        super().__init__(context, _request(context, "join", (number,), name), name)

    def _why(self, error: BaseException) -> BaseException:
        """That nobody could be asked for the outcome any more does not say that nothing has happened."""
        if isinstance(error, RemoteError) and error.sent is False:
            return self._context._link.why_ended(self.name) or error
        return error

    def _ask_to_end(self) -> None:
        tell(self._context, "kill", self._moved)


def _call(context: Context, number: int, name: str, outcome: Outcome[Any] | None) -> RemoteCall[Any]:
    """The handle on what lives over there; `outcome` of one that weft.spawn() made gets the result, too."""
    call = Handle(context, number, name)
    if outcome is not None:
        call.then(_passed_on(call, outcome, threading.get_ident()))
    return call


def check(context: Context, moving: "tasklet[...]") -> None:
    if not isinstance(moving, tasklet):
        raise TypeError(f"move() takes a tasklet, not {moving!r:.80}")
    if moving in _under_way:
        raise NotMoved(f"{moving!r} is on its way to a context already", context=context.name)
    if not moving.alive:
        raise NotMoved(f"{moving!r} cannot move: it has ended, or has no arguments", context=context.name)
    if moving.thread_id != threading.get_ident():
        raise NotMoved(
            f"{moving!r} cannot be moved from here: it belongs to another thread. Move it there", context=context.name
        )
    context._link.refuse_if_ended("move()")
    if not _native.known:
        raise NoCore("tasklets are moved by CPython 3.11, 3.12 and 3.13 alone")
    if not context._shipping.has_part("tasklets"):
        here, there = sys.version_info[:2], context.facts.python[:2]
        hint = "Open it with tasklets=True"
        if here != there:
            hint += f", and with python{here[0]}.{here[1]}: over there is {there[0]}.{there[1]}, and frames fit their own version"
        raise NoCore(f"{moving!r} cannot move to {context.name!r}: calls there are threads, and no tasklets. {hint}")


def _check_value(context: Context, suspended: Suspended) -> None:
    """Refuse what it sends at present if that could not come back up."""
    direction, _, value, flags, _ = suspended.state
    if direction > 0 and not flags & SENDS_ERROR:
        try:
            codec.dumps(value, "value", refer=lambda _: 1, otherwise=False)
        except codec.CannotTravel as error:
            problem = str(error)
        else:
            return
        raise CannotTravel(
            f"{suspended.tasklet!r} was not moved to {context.name!r}: it waits to send what could not be sent there: {problem}",
            context=context.name,
        )


def main() -> str | None:
    """The name of the main script over there, if it can go there."""
    found, _ = modules.script()
    return modules.name_over_there() if found is not None else None


def name_of(moving: "tasklet[...]") -> str:
    """For messages: the function that it runs."""
    frame, function = moving.frame, "a function"
    while frame is not None:
        if frame.f_code is not Body.__call__.__code__:
            function = frame.f_code.co_qualname
        frame = frame.f_back
    return f"the tasklet of {function}"


def prepared(context: Context, parcel: Parcel, suspended: Suspended, *, block: bool = False) -> int:
    """Let it be restored over there, suspended, and return its number. Raises, and nothing is left there."""
    data = parcel.packed()
    shipping = context._shipping
    shipping.bring_own(modules.snapshot, context.facts.for_extensions)
    for module in sorted(parcel.modules):
        shipping.bring_module(modules.name_over_there() if module == "__main__" else module)
    number = next(_numbers)
    sent = False
    try:
        request = _request(context, "prepare", (number, data, parcel.lent, parcel.main, block))
        waiter = context._sent(request, None)[1]
        sent = True
        context._value(waiter.wait(), request.text)
        if suspended.is_ours:
            return number
        problem = "it was killed, or begun, meanwhile"
    except RemoteError as error:
        if sent:
            tell(context, "drop", number)
        if error.type_name is None:  # else it was raised over there
            raise
        problem = f"{error.type_name.rpartition('.')[2]} there: {error}"
    except BaseException:
        if sent:
            tell(context, "drop", number)
        raise
    else:
        tell(context, "drop", number)
    raise NotMoved(f"{suspended.tasklet!r} was not moved to {context.name!r}: {problem}", context=context.name)


def commit(context: Context, number: int) -> Any:
    """Send the order to go on over there; return who is told that it has come. Raises, and it was not sent."""
    try:
        return context._sent(_request(context, "commit", (number,)), None)[1]
    except BaseException:
        tell(context, "drop", number)
        raise


def tell(context: Context, function: str, number: int) -> None:
    """Have something done with a tasklet over there, if anybody is there, and wait for nothing."""

    def ask() -> None:
        try:
            context._value(context._sent(_request(context, function, (number,)), None)[1].wait(), function)
        except RemoteError as error:
            _log.debug("%r has ended with the tasklet that came there: %s", context, error)

    context._background(ask)


def _request(context: Context, function: str, arguments: tuple[Any, ...], text: str = "") -> Request:
    luggage = Luggage(context._link.channels)
    outgoing = Outgoing(context.facts.python, luggage.let_go, True)
    body, problem = _encoded((THERE, function, arguments, None), outgoing, luggage)
    assert problem is None, problem
    return Request(len, modules.FunctionName(THERE, function), text or f"{THERE}.{function}", body, luggage, outgoing)


def _passed_on(call: RemoteCall[Any], outcome: Outcome[Any], thread: int) -> Callable[[], None]:
    def pass_on() -> None:
        try:
            result = call.join(0)
        except BaseException as error:
            outcome.fail(error.with_traceback(None))
            outcome._thread = thread
        else:
            outcome.succeed(result)

    return pass_on
