"""The calls by which a tasklet is sent to a context: made again there and suspended, told to go on, or dropped.

What they call over there stands in roamlet.snapshot.migration.arrivals.
"""

import itertools
import logging
import sys
from collections.abc import Callable, Iterable
from typing import Any

from roamlet.core import NoCore
from roamlet.remote import modules
from roamlet.remote.base.deadlines import EVER
from roamlet.remote.channels.served import ChannelReferences
from roamlet.remote.context import Context, Request, _encoded
from roamlet.remote.errors import CannotTravel, NotMoved, ProtocolError, RemoteError, RemoteModuleNotFound
from roamlet.remote.link.inflight import Answer
from roamlet.remote.values.registry import Outgoing
from roamlet.snapshot import _native

THERE = "roamlet.snapshot.migration.arrivals"

_numbers = itertools.count(1)
_log = logging.getLogger("roamlet.remote")


def check_place(context: Context, moving: str) -> None:
    """Refuse a context that takes no tasklets."""
    context._link.refuse_if_ended("move()")
    if not _native.known:
        raise NoCore("tasklets are moved by CPython 3.11, 3.12, 3.13 and 3.14 alone")
    if not context._shipping.has_sent("tasklets"):
        here, there = sys.version_info[:2], context.facts.python[:2]
        hint = "Open it with tasklets=True"
        if here != there:
            hint += f", and with python{here[0]}.{here[1]}: over there is {there[0]}.{there[1]}, and frames fit their own version"
        raise NoCore(f"{moving} cannot move to {context.name!r}: calls there are threads, and no tasklets. {hint}")


def main() -> str | None:
    """The name of the main script over there, if it can go there."""
    found, _ = modules.script()
    return modules.name_over_there() if found is not None else None


def bring(context: Context, names: Iterable[str], *, needed: bool = True) -> None:
    """Have what the frames need over there: what restores them, and their modules.

    If not `needed`, somebody else says which these are: those that were imported here are sent, and no other is looked for.
    """
    context._shipping.send_own(modules.snapshot, context.facts.for_extensions)
    own = modules.name_over_there()
    for name in dict.fromkeys(names):  # a context may say one a million times
        if not needed and name != own and name not in sys.modules:
            continue
        try:
            context._shipping.send_module(name)
        except (RemoteModuleNotFound, CannotTravel):
            if needed:
                raise


def restored(context: Context, arguments: tuple[Any, ...], moving: str, problem_of: Callable[[], str | None]) -> int:
    """Let it be restored over there, from the arguments of prepare() behind its number, and return that.

    Raises, and nothing is left there; NotMoved also for what `problem_of` says then.
    """
    number = next(_numbers)
    sent = False
    try:
        asked = request(context, "prepare", (number, *arguments))
        waiter = context._sent(asked, None)[1]
        sent = True
        context._value(waiter.wait(EVER), asked.text)
        problem = problem_of()
        if problem is None:
            return number
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
    raise NotMoved(f"{moving} was not moved to {context.name!r}: {problem}", context=context.name)


def commit(context: Context, number: int) -> Any:
    """Send the order to go on over there; return who is told that it has come. Raises, and it was not sent."""
    try:
        return context._sent(request(context, "commit", (number,)), None)[1]
    except BaseException:
        tell(context, "drop", number)
        raise


def nonsense(context: Context, answer: Answer, moving: str) -> str | None:
    """What is wrong with an answer to that order which leaves it open whether it was followed; None if it says yes or no.

    The context is closed then.
    """
    try:
        context._value(answer, moving)
    except (ProtocolError, CannotTravel) as error:
        context._link.break_off("an answer to the order to let a tasklet go on that is none")
        return str(error)
    except Exception as error:
        _log.debug("%s does not go on in %r: %r", moving, context, error)
    return None


def tell(context: Context, function: str, number: int) -> None:
    """Have something done with a tasklet over there, if anybody is there, and wait for nothing."""

    def ask() -> None:
        try:
            context._value(context._sent(request(context, function, (number,)), None)[1].wait(), function)
        except RemoteError as error:
            _log.debug("%r has ended with the tasklet that came there: %s", context, error)

    context._background(ask)


def request(context: Context, function: str, arguments: tuple[Any, ...], text: str = "") -> Request:
    """A call of a function of THERE."""
    luggage = ChannelReferences(context._link.channels)
    outgoing = Outgoing(context.facts.python, luggage.discard, True)
    body, problem = _encoded((THERE, function, arguments, None), outgoing, luggage)
    if problem is not None:
        luggage.discard()
        context._link.refuse_if_ended(text or "move()")  # a channel cannot travel where nobody is
        raise AssertionError(problem)
    return Request(len, modules.FunctionName(THERE, function), text or f"{THERE}.{function}", body, luggage, outgoing)
