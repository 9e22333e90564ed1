"""The calls by which a tasklet migrates to a context: prepare restores and suspends it there, commit lets it go on, drop ends it.

They call functions of roamlet.snapshot.migration.arrivals in the destination.
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

ARRIVALS = "roamlet.snapshot.migration.arrivals"

_numbers = itertools.count(1)
_log = logging.getLogger("roamlet.remote")


def check_destination(calls: Calls, moving: str) -> None:
    """Refuse a context that takes no tasklets."""
    calls.link.refuse_if_ended("move()")
    if not _native.known:
        raise NoCore("tasklets are moved by CPython 3.11 to 3.15 alone")
    if not calls.shipping.has_sent("calls.tasklets"):
        here, there = sys.version_info[:2], calls.facts.python[:2]
        hint = "Open it with tasklets=True"
        if here != there:
            hint += f", and with python{here[0]}.{here[1]}: the target has {there[0]}.{there[1]}, and frames fit their own version"
        raise NoCore(f"{moving} cannot move to {calls.name!r}: calls run as threads there, not as tasklets. {hint}")


def main_script_name() -> str | None:
    """The name that the main script has in destinations, if it can be sent."""
    found, _ = modules.script()
    return modules.name_on_target() if found is not None else None


def send_modules(calls: Calls, names: Iterable[str], *, needed: bool = True) -> None:
    """Send what the frames need in the destination: roamlet.snapshot, and their modules.

    If not `needed`, another context has named the modules: those that were imported here are sent, and no other is looked for.
    """
    calls.shipping.send_own(modules.snapshot, calls.facts.for_extensions)
    own = modules.name_on_target()
    for name in dict.fromkeys(names):  # a context may name one a million times
        if not needed and name != own and name not in sys.modules:
            continue
        try:
            calls.shipping.send_module(name)
        except (RemoteModuleNotFound, CannotTravel):
            if needed:
                raise


def prepare(calls: Calls, arguments: tuple[Any, ...], moving: str, problem_of: Callable[[], str | None]) -> int:
    """Have the tasklet restored and suspended in the destination; return its number there, which the other calls take.

    `arguments`: those of arrivals.prepare() after the number. `problem_of` returns, after that, why the tasklet is not to move.
    Raises, and nothing is left in the destination; NotMoved for such a problem, too.
    """
    number = next(_numbers)
    asked = request(calls, "prepare", (number, *arguments))
    waiter = calls.send(asked, None)[1]
    try:
        calls.value(waiter.wait(EVER), asked.text)
        problem = problem_of()
        if problem is None:
            return number
    except BaseException as error:
        notify(calls, "drop", number)
        if not isinstance(error, RemoteError) or error.type_name is None:  # else it was raised in the destination
            raise
        problem = f"{error.type_name.rpartition('.')[2]} there: {error}"
    else:
        notify(calls, "drop", number)
    raise NotMoved(f"{moving} was not moved to {calls.name!r}: {problem}", context=calls.name)


def commit(calls: Calls, number: int) -> Any:
    """Send the order to go on in the destination; return the waiter for its answer. Raises, and it was not sent."""
    try:
        return calls.send(request(calls, "commit", (number,)), None)[1]
    except BaseException:
        notify(calls, "drop", number)
        raise


def doubt_in(calls: Calls, answer: Answer, moving: str) -> str | None:
    """Why an answer to commit leaves it in doubt whether the tasklet goes on there; None if it says yes or no.

    In doubt the context is closed.
    """
    try:
        calls.value(answer, moving)
    except (ProtocolError, CannotTravel) as error:
        calls.link.break_off("an answer to a commit that makes no sense")
        return str(error)
    except Exception as error:
        _log.debug("%s does not go on in %r: %r", moving, calls, error)
    return None


def notify(calls: Calls, function: str, number: int) -> None:
    """Call this function for a tasklet in the destination, if the context is still there, and wait for nothing."""

    def ask() -> None:
        try:
            calls.value(calls.send(request(calls, function, (number,)), None)[1].wait(), function)
        except RemoteError as error:
            _log.debug("%r has ended with the tasklet that had arrived there: %s", calls, error)

    calls.background(ask)


def request(calls: Calls, function: str, arguments: tuple[Any, ...], text: str = "") -> Request:
    """A call of a function of arrivals."""
    return calls.prepare_own(ARRIVALS, function, arguments, text=text, purpose=text or "move()")
