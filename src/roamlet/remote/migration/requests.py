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
from roamlet.remote.calls.engine import Calls
from roamlet.remote.calls.request import Request
from roamlet.remote.errors import CannotTravel, NotMoved, ProtocolError, RemoteError, RemoteModuleNotFound
from roamlet.remote.link.inflight import Answer
from roamlet.snapshot import _native

THERE = "roamlet.snapshot.migration.arrivals"

_numbers = itertools.count(1)
_log = logging.getLogger("roamlet.remote")


def check_place(calls: Calls, moving: str) -> None:
    """Refuse a context that takes no tasklets."""
    calls.link.refuse_if_ended("move()")
    if not _native.known:
        raise NoCore("tasklets are moved by CPython 3.11, 3.12, 3.13 and 3.14 alone")
    if not calls.shipping.has_sent("calls.tasklets"):
        here, there = sys.version_info[:2], calls.facts.python[:2]
        hint = "Open it with tasklets=True"
        if here != there:
            hint += f", and with python{here[0]}.{here[1]}: over there is {there[0]}.{there[1]}, and frames fit their own version"
        raise NoCore(f"{moving} cannot move to {calls.name!r}: calls there are threads, and no tasklets. {hint}")


def main() -> str | None:
    """The name of the main script over there, if it can go there."""
    found, _ = modules.script()
    return modules.name_over_there() if found is not None else None


def bring(calls: Calls, names: Iterable[str], *, needed: bool = True) -> None:
    """Have what the frames need over there: what restores them, and their modules.

    If not `needed`, somebody else says which these are: those that were imported here are sent, and no other is looked for.
    """
    calls.shipping.send_own(modules.snapshot, calls.facts.for_extensions)
    own = modules.name_over_there()
    for name in dict.fromkeys(names):  # a context may say one a million times
        if not needed and name != own and name not in sys.modules:
            continue
        try:
            calls.shipping.send_module(name)
        except (RemoteModuleNotFound, CannotTravel):
            if needed:
                raise


def restored(calls: Calls, arguments: tuple[Any, ...], moving: str, problem_of: Callable[[], str | None]) -> int:
    """Let it be restored over there, from the arguments of prepare() behind its number, and return that.

    Raises, and nothing is left there; NotMoved also for what `problem_of` says then.
    """
    number = next(_numbers)
    sent = False
    try:
        asked = request(calls, "prepare", (number, *arguments))
        waiter = calls.send(asked, None)[1]
        sent = True
        calls.value(waiter.wait(EVER), asked.text)
        problem = problem_of()
        if problem is None:
            return number
    except RemoteError as error:
        if sent:
            tell(calls, "drop", number)
        if error.type_name is None:  # else it was raised over there
            raise
        problem = f"{error.type_name.rpartition('.')[2]} there: {error}"
    except BaseException:
        if sent:
            tell(calls, "drop", number)
        raise
    else:
        tell(calls, "drop", number)
    raise NotMoved(f"{moving} was not moved to {calls.name!r}: {problem}", context=calls.name)


def commit(calls: Calls, number: int) -> Any:
    """Send the order to go on over there; return who is told that it has come. Raises, and it was not sent."""
    try:
        return calls.send(request(calls, "commit", (number,)), None)[1]
    except BaseException:
        tell(calls, "drop", number)
        raise


def nonsense(calls: Calls, answer: Answer, moving: str) -> str | None:
    """What is wrong with an answer to that order which leaves it open whether it was followed; None if it says yes or no.

    The context is closed then.
    """
    try:
        calls.value(answer, moving)
    except (ProtocolError, CannotTravel) as error:
        calls.link.break_off("an answer to the order to let a tasklet go on that is none")
        return str(error)
    except Exception as error:
        _log.debug("%s does not go on in %r: %r", moving, calls, error)
    return None


def tell(calls: Calls, function: str, number: int) -> None:
    """Have something done with a tasklet over there, if anybody is there, and wait for nothing."""

    def ask() -> None:
        try:
            calls.value(calls.send(request(calls, function, (number,)), None)[1].wait(), function)
        except RemoteError as error:
            _log.debug("%r has ended with the tasklet that came there: %s", calls, error)

    calls.background(ask)


def request(calls: Calls, function: str, arguments: tuple[Any, ...], text: str = "") -> Request:
    """A call of a function of THERE."""
    return calls.prepare_own(THERE, function, arguments, text=text, purpose=text or "move()")
