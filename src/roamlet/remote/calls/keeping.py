"""Values that stay in a context for the calls there: sent once, through each intermediary once, and named by a handle."""

import functools
import logging
from typing import Any, TypeVar

from roamlet.remote.calls.engine import Calls
from roamlet.remote.calls.spawn import RemoteCall
from roamlet.remote.errors import ProtocolError, RemoteError
from roamlet.remote.values.kept import Kept
from roamlet.wire.values.large_messages import LargeMessage

T = TypeVar("T")

MODULE = "roamlet.wire.values.kept"
MOST = 0xFFFFFFFF  # a number travels as 32 bits

_log = logging.getLogger("roamlet.remote")


def keep(calls: Calls, value: T) -> Kept[T]:
    """See Context.keep."""
    request = calls.prepare_kept(MODULE, "put", value)
    calls.shipping.need("values.kept")
    putting: RemoteCall[Any] = RemoteCall(calls, request, "keep()")
    try:
        number = putting.join()
    except BaseException:  # this tasklet may have been killed meanwhile
        if isinstance(request.body, LargeMessage):
            request.body.withdrawn = True
        putting._asked_for = True  # no caller will ask why it failed
        putting.then(functools.partial(_drop_answer, calls, putting))
        raise
    if type(number) is not int or not 0 < number <= MOST:
        calls.link.break_off(f"{number!r:.80} as the number of a value that it keeps")
        raise ProtocolError(f"{calls.name!r} answered keep() with {number!r:.80}", context=calls.name)
    return Kept(calls, calls.name, number, functools.partial(_drop, calls))


def _drop_answer(calls: Calls, putting: "RemoteCall[Any]") -> None:
    """Let go of a value whose handle no caller got. In a thread of roamlet's."""
    if not putting.failed:
        number = putting.result
        if type(number) is int:
            _drop(calls, number)


def _drop(calls: Calls, number: int) -> None:
    """Tell the context. Never blocks: the collector may call this at any moment."""

    def tell() -> None:
        try:
            calls.run(calls.prepare_own(MODULE, "drop", (number,)), None, None)
        except RemoteError as error:  # it has ended, and what it kept with it
            _log.debug("%r was not told to let go of value %d: %s", calls, number, error)

    if not calls.closed:
        calls.background(tell)
