"""Call chains: calls in one context that run one after the other, and are sent without waiting for each other's answers.

The order is kept on the target, by roamlet.wire.calls.chains. This module gives results, the first error, and the news that a
call was not run to their callers.
"""

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from roamlet.core import Waiter
from roamlet.core.os_threads import allocate_lock
from roamlet.remote.base.deadlines import EVER, deadline_of, limit
from roamlet.remote.calls.engine import Calls
from roamlet.remote.calls.request import Request
from roamlet.remote.calls.spawn import RemoteCall
from roamlet.remote.errors import ChainBroken, RemoteError
from roamlet.remote.link.frames import ROOT
from roamlet.remote.link.inflight import Answer
from roamlet.sync import Lock
from roamlet.sync._outcome import duplicate
from roamlet.wire import codec, protocol
from roamlet.wire.calls import chains

R = TypeVar("R")

MOST_CALLS = 1024  # of a chain that may be unanswered,
MOST_BYTES = 1 << 23  # and of their arguments: they wait on the target for their turn
NOWHERE = 1 << 62

_numbers = itertools.count(1)
_log = logging.getLogger("roamlet.remote")


class First(NamedTuple):
    """What has broken a chain: the call `name`, with this answer, or with this error, which is never raised itself."""

    name: str
    answer: Answer | None
    error: BaseException | None

    def raised(self, calls: Calls) -> BaseException:
        """A new exception for each caller."""
        if self.answer is None:
            return (self.error and duplicate(self.error)) or RemoteError(f"{self.name} failed: {self.error!r}")
        try:
            calls.value(self.answer, self.name)
        except Exception as error:
            error.__context__ = None  # the one that is being handled, with its frames
            return error.with_traceback(None)
        return RemoteError(f"{self.name} failed in {calls.name!r}")


class Chain:
    """Calls in one context that run in the order in which they were made, without waiting here for each other's answers.

    What `context.chain()` returns. Each call is sent at once, so that a row of them takes one round trip. When one fails, is
    killed, or runs out of its time, those after it do not run, and raise ChainBroken. A block of `with` waits at its end for all
    of them and raises the first error, unless that has been raised already; it also raises that in place of a ChainBroken that
    leaves it. When another exception leaves it, what has not begun will not begin.

    Thread-safe. What is refused here, before it was sent (CannotTravel, FunctionNotFound), breaks nothing.
    """

    stays_here = "chains stay with the process that opened their context"  # see values/functions.py

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._number = next(_numbers) & 0xFFFFFFFF
        self._order = Lock(fair=True)  # of what is sent
        self._lock = allocate_lock()
        self._under_way: dict[ChainedCall[Any], int] = {}  # what was sent and not answered -> bytes
        self._bytes = 0
        self._room: Waiter[None] | None = None
        self._idle: list[Waiter[None]] = []
        self._first: First | None = None
        self._places = itertools.count()
        self._broken_at = NOWHERE  # the place of the call that has broken it
        self._told = True  # the first error was raised to a caller
        self._over_due = False  # the other side keeps in mind that this chain is broken

    def call(
        self,
        function: Callable[..., R],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> R:
        """Run `function(*args, **kwargs)` after the calls before it, and return what it returns.

        As Context.call in all else. `timeout` seconds include the wait for those before it. Raises ChainBroken when one of them
        has failed.
        """
        deadline = deadline_of(timeout)
        calls = self._calls
        call: ChainedCall[R] = ChainedCall(self, calls.prepare(function, args, kwargs, lent=True), None)
        try:
            self._send(call, deadline)
            ended = call._ended.wait(limit(deadline))
        except RemoteError:
            raise
        except TimeoutError:
            ended = False
        except BaseException:
            self._give_up(call, call._was_killed())
            raise
        if not ended:
            late = calls.too_late(timeout, call.name, sent=call._number is not None)
            self._give_up(call, duplicate(late) or late)
            try:
                raise late
            finally:
                del late, call  # its traceback holds this frame
        try:
            return call._taken(deadline)
        except codec.OutOfTime:
            pass  # raised out here, so that the error holds no other one with its frames
        raise calls.too_late(timeout, call.name, sent=True, came=call._size)

    def spawn(
        self,
        function: Callable[..., R],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
    ) -> RemoteCall[R]:
        """Send `function(*args, **kwargs)`, which runs after the calls before it; return a handle, as Context.spawn does.

        Waits for no answer, but for its modules to be sent, and while 1,024 calls of the chain, or 8 MB of arguments, are
        unanswered. Blocks this tasklet only. Raises ChainBroken as soon as it is known here that the chain is broken; else
        join() does.
        """
        call: ChainedCall[R] = ChainedCall(self, self._calls.prepare(function, args, kwargs), name)
        try:
            self._send(call, None)
        except RemoteError:
            raise
        except BaseException:
            self._give_up(call, call._was_killed())
            raise
        return call

    @property
    def broken(self) -> bool:
        """Whether it is known here that a call has failed, so that no other one runs until `reset()`."""
        return self._first is not None

    def join(self, timeout: float | None = None) -> None:
        """Block this tasklet until all calls have ended that were made so far; raise the first error, unless it was raised already.

        Raises TimeoutError when they have not ended within `timeout` seconds; they go on then.
        """
        if not self._wait_until_idle(deadline_of(timeout)):
            raise TimeoutError(f"{self!r} has not ended within {timeout} seconds")
        if not self._told:
            raise self._first_error()

    def reset(self) -> None:
        """Begin anew when the error was dealt with: wait for all calls made so far, and let those run that are made from now on.

        What ran out of its time, or was killed, and continues on the target all the same is not waited for. Blocks this tasklet.
        """
        self._order.acquire(timeout=EVER)  # a thread of roamlet's may have it: that is no deadlock
        try:
            self._wait_until_idle(None)
            self._send_over()
            with self._lock:
                self._first = None
                self._broken_at = NOWHERE
                self._told = True
            self._number = next(_numbers) & 0xFFFFFFFF
        finally:
            self._order.release()

    def __enter__(self) -> "Chain":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            try:
                self._wait_until_idle(None)
            except BaseException as killed:
                self._abandon(type(killed))
                raise
            self._end()
            if not self._told:
                raise self._first_error()
            return
        self._abandon(type(error))
        if isinstance(error, ChainBroken) and error._chain == self._number and error.__cause__ is not None:
            first = self._first_error()
            try:
                raise first
            finally:
                first.__context__ = None
                del first

    def __repr__(self) -> str:
        state = "broken" if self.broken else f"{len(self._under_way)} under way"
        return f"<roamlet.remote.Chain in {self._calls.name!r}, {state}>"

    def __del__(self) -> None:
        if not self._told:
            _log.warning(
                "%r was dropped: %s had failed, and no caller was told: use `with`, or join()", self, self._first_name()
            )
        if self._over_due:
            link, frame = self._calls.link, self._frame(0, chains.OVER)
            self._calls.background(lambda: link.send_at_once(frame))

    # ---- sending

    def _send(self, call: "ChainedCall[Any]", deadline: float | None) -> None:
        """Send it after all that were sent before. Raises TimeoutError when that was not possible by `deadline`."""
        calls, request = self._calls, call._request
        try:
            calls.link.refuse_if_ended(request.text)
            if not self._order.acquire(timeout=limit(deadline)):
                raise TimeoutError("other calls of the chain were still being sent")
            try:
                body = request.body
                size = len(body) if isinstance(body, bytes) else body.size
                self._wait_for_room(size, deadline)
                calls.shipping.need("calls.chains", deadline)
                with self._lock:
                    refused = self._first is not None
                    if not refused:
                        self._under_way[call] = size
                        call.place = next(self._places)
                        self._bytes += size
                if refused:
                    raise self._broken(request.text)
                try:
                    call._number, _ = calls.send(request, deadline, call)
                except BaseException:
                    self._ended(call, None)
                    raise
            finally:
                self._order.release()
        except BaseException:
            request.let_go()
            raise

    def _frame(self, number: int, verb: bytes) -> bytes:
        body = chains.VERB.pack(verb, self._number)
        frame: bytes = protocol.frame(self._calls.link.identifier, ROOT, number, protocol.CHAIN, body)
        return frame

    def _send_over(self) -> None:
        """With the order held: none of this number is sent after it."""
        due, self._over_due = self._over_due, False
        if due:
            self._calls.link.send_at_once(self._frame(0, chains.OVER))

    def _wait_for_room(self, size: int, deadline: float | None) -> None:
        while True:
            waiter: Waiter[None] = Waiter()
            with self._lock:
                fits = len(self._under_way) < MOST_CALLS and self._bytes + size <= MOST_BYTES
                if fits or not self._under_way or self._first is not None:
                    return
                self._room = waiter
            try:
                waiter.wait(limit(deadline))
            finally:
                with self._lock:
                    self._room = None

    # ---- the ends of calls

    def _ended(self, call: "ChainedCall[Any]", first: First | None) -> bool:
        """It is no longer under way; `first`: and has failed so. Never blocks. True when it is the first that has."""
        woken: list[Waiter[None]] = []
        with self._lock:
            size = self._under_way.pop(call, None)
            self._bytes -= size or 0
            is_first = first is not None and self._first is None
            if is_first:
                self._first = first
                self._broken_at = call.place
                self._told = False
                self._over_due = True
            few = len(self._under_way) <= MOST_CALLS // 2 and self._bytes <= MOST_BYTES // 2
            if self._room is not None and (few or self._first is not None):
                woken.append(self._room)
            if not self._under_way:
                woken += self._idle
                self._idle = []
        for waiter in woken:
            waiter.succeed()
        return is_first

    def _give_up(self, call: "ChainedCall[Any]", error: BaseException) -> None:
        """No caller waits for this call any more, so the chain is broken by it. The caller of this raises."""
        if call._number is not None:
            self._calls.link.cancel(call._number)
        if self._ended(call, First(call.name, None, error)):
            self._told = True

    def _wait_until_idle(self, deadline: float | None) -> bool:
        waiter: Waiter[None] = Waiter()
        with self._lock:
            if not self._under_way:
                return True
            self._idle.append(waiter)
        try:
            waiter.wait(limit(deadline))
        except TimeoutError:
            return False
        finally:
            with self._lock:
                if waiter in self._idle:
                    self._idle.remove(waiter)
        return True

    def _abandon(self, kind: type[BaseException]) -> None:
        """The block is left by an error: what has not begun does not begin, and what runs is cancelled. Waits for nothing."""
        with self._lock:
            sent = [call for call in self._under_way if call._number is not None]
            if self._under_way and self._first is None:
                left = RemoteError(f"the block of the chain was left by {kind.__name__}", context=self._calls.name)
                self._first = First("the block", None, left)
            self._over_due = self._over_due or bool(self._under_way)
        for call in sent:
            assert call._number is not None
            if self._calls.link.forget(call._number):
                is_behind = call.place > self._broken_at  # it will be told so, and need not wait for that
                call._killed = not is_behind
                call.fail(ChainBroken("", context=self._calls.name) if is_behind else call._was_killed())
        self._end()

    def _end(self) -> None:
        """Have the other side forget that the chain is broken, if it is; soon, if another tasklet is sending at this moment."""
        if not self._over_due:
            return

        def end() -> None:
            with self._order:
                self._send_over()

        if self._order.acquire(blocking=False):
            try:
                self._send_over()
            finally:
                self._order.release()
        else:
            self._calls.background(end)

    # ---- errors

    def _first_name(self) -> str:
        return "a call" if self._first is None else self._first.name

    def _first_error(self) -> BaseException:
        """What has broken the chain, to be raised now."""
        assert self._first is not None
        self._told = True
        return self._first.raised(self._calls)

    def _broken(self, text: str) -> ChainBroken:
        """What a call raises that was not run."""
        first = self._first_error()
        said = str(first).partition("\n")[0]
        broken = ChainBroken(
            f"{text} was not run in {self._calls.name!r}: {self._first_name()}, before it in its chain, failed: "
            f"{type(first).__name__}: {said}\n    When that is dealt with, chain.reset() begins anew.",
            context=self._calls.name,
            function=text,
        )
        broken.first = self._first_name()
        broken._chain = self._number
        broken.__cause__ = first
        return broken


class ChainedCall(RemoteCall[R]):
    """A call of a chain, and a Member of it: the link tells it its answer, so that no tasklet waits for it in between."""

    def __init__(self, chain: Chain, request: Request, name: str | None) -> None:
        self._chain = chain
        self.place = NOWHERE  # in the chain, once it is sent
        self._is_first = False  # that has failed
        super().__init__(chain._calls, request, name)
        self._asked_for = True  # the chain makes sure that a caller is told

    def _begin(self) -> None:
        pass  # the chain sends it

    def joining(self, number: int) -> bytes:
        return self._chain._frame(number, chains.JOIN)

    def succeed(self, answer: Answer) -> None:
        self._answer = answer
        failed = None
        if answer[0] == protocol.ERROR:
            failed = First(self.name, None, self._was_killed()) if self._killed else First(self.name, answer, None)
        self._over(failed)

    def fail(self, error: BaseException) -> None:
        self._error = error
        self._over(First(self.name, None, error))

    def _over(self, first: First | None) -> None:
        self._is_first = self._chain._ended(self, first)
        self._settle()

    def _taken(self, deadline: float | None) -> R:
        """As RemoteCall._taken. Raises ChainBroken when it was not run, because a call before it in its chain has failed."""
        try:
            return super()._taken(deadline)
        except ChainBroken as broken:
            error: BaseException = broken.with_traceback(None)
        finally:
            if self._is_first and self.done:
                self._chain._told = True
        if self._killed:
            error = self._was_killed()
        elif not self._is_first and self._chain.broken:
            error = self._chain._broken(self._request.text)
        try:
            raise error
        finally:
            del error
