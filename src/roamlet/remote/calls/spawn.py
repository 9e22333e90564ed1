"""Calls that the caller need not wait for: handles on them, streams of values from them, and calls from asyncio.

Each is a tasklet on the thread that plans modules: it sends the call, waits for its answer, and says so. The answer is
decoded in the tasklet that asks for it.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from roamlet import _observing as observing
from roamlet.core import TaskletExit
from roamlet.core.os_threads import allocate_lock
from roamlet.remote.base.deadlines import deadline_of, limit
from roamlet.remote.calls.engine import Calls
from roamlet.remote.calls.request import Request
from roamlet.remote.channels.streams import StreamChannel
from roamlet.remote.errors import RemoteError
from roamlet.remote.link.inflight import Answer
from roamlet.sync import Event
from roamlet.sync._outcome import TaskletKilled, duplicate
from roamlet.wire import codec, protocol

R = TypeVar("R")
T = TypeVar("T")


_log = logging.getLogger("roamlet.remote")


class RemoteCall(Generic[R]):
    """A call that runs in a context: what context.spawn() returns. Thread-safe."""

    stays_here = "calls stay with the process that waits for them: send what join() returns"  # see values/functions.py
    _runs_already = False  # what it waits for, before it is sent

    def __init__(self, calls: Calls, request: Request, name: str | None) -> None:
        self.name: str = name or request.text
        self._calls = calls
        self._request = request
        self._lock = allocate_lock()
        self._ended = Event()
        self._number: int | None = None
        self._killed = False
        self._told = False  # that it is to end
        self._answer: Answer | None = None
        self._error: BaseException | None = None
        self._then: Callable[[], object] | None = None
        self._asked_for = False
        self._begin()

    def _begin(self) -> None:
        if not self._calls.background(self._run):
            self._run()  # which raises at once what there is to say

    def _run(self) -> None:
        try:
            with self._lock:
                if self._killed and not self._runs_already:
                    self._error = self._was_killed()
            if self._error is None:
                self._number, waiter = self._calls.send(self._request, None)
                if self._killed:
                    self._ask_to_end()
                self._answer = waiter.wait(limit(None))
                if observing.observer is not None:
                    observing.observer.answered(self._calls, self._number)
        except TaskletExit:  # with the thread, which ends with the last context
            self._error = self._was_killed()
        except BaseException as error:
            self._error = self._why(error).with_traceback(None)
        finally:
            self._settle()

    def _settle(self) -> None:
        observed = self._request.observed
        if observed is not None:
            if self._answer is not None:
                observed.answered(self._answer)
            else:
                observed.failed(self._error)
        self._request.let_go_of_kept()
        with self._lock:
            self._ended.set()
            then, self._then = self._then, None
        if then is not None:
            then()

    def _why(self, error: BaseException) -> BaseException:
        """What join() raises when this has come in place of an answer."""
        return error

    def join(self, timeout: float | None = None) -> R:
        """Block this tasklet until the call has ended; return what its function returned, or raise what context.call would.

        Any number of tasklets of any thread may join. Raises TaskletKilled when it was killed, TimeoutError when it has not ended
        within `timeout` seconds, or a large result was not decoded by then; 0 sets decoding no limit.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._ended.wait(limit(deadline)):
            raise TimeoutError(f"{self!r} has not ended within {timeout} seconds")
        try:
            return self._taken(deadline if timeout else None)
        except codec.OutOfTime:
            pass  # raised out here, so that the error holds no other one with its frames
        raise TimeoutError(f"{self!r} has ended, but its result was not decoded within {timeout} seconds; join() again")

    def wait(self, timeout: float | None = None) -> bool:
        """Block this tasklet until the call has ended, in whatever way; return whether it has within `timeout` seconds.

        Raises nothing of the call's: its error stays for join() and `result`. Any number of tasklets of any thread may wait.
        """
        return self._ended.wait(limit(None if timeout is None else time.monotonic() + timeout))

    def _taken(self, deadline: float | None) -> R:
        """What join() returns or raises, once it has ended. Raises codec.OutOfTime where a large result takes until `deadline`."""
        self._asked_for = True
        if self._error is not None:
            raise duplicate(self._error) or RemoteError(f"{self.name} failed: {self._error!r}")
        assert self._answer is not None  # it has ended
        try:
            return self._calls.value(self._answer, self._request.text, deadline)  # type: ignore[no-any-return]
        except RemoteError as error:
            if not self._killed or error.type_name not in (None, "roamlet.TaskletExit"):
                raise
        raise self._was_killed()

    @property
    def _size(self) -> int:
        """Bytes of its answer."""
        return 0 if self._answer is None else len(self._answer[1])

    @property
    def done(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self._ended.is_set()

    @property
    def failed(self) -> bool:
        """Whether it has ended, and join() raises an error. An answer need not be decoded to know that."""
        return self._error is not None or (self._answer is not None and self._answer[0] == protocol.ERROR)

    @property
    def unanswered(self) -> BaseException | None:
        """The error by which it has ended without an answer of the target: ContextDied, or one of sending. None else.

        The caller has been told of that error then.
        """
        self._asked_for = self._asked_for or self._error is not None
        return self._error

    @property
    def result(self) -> R:
        """What join() returns or raises, without waiting: RuntimeError while it has not ended."""
        if not self.done:
            raise RuntimeError(f"{self!r} has no result yet: join() waits for it")
        return self.join(0)

    def kill(self) -> None:
        """Let it end: at once if it has not begun, else at its next use of a channel, or of roamlet.wire.channels.check().

        TaskletExit is raised there. Does not wait for it: join() does. May block this tasklet while much is being sent.
        """
        with self._lock:
            self._killed = True
            if (self._number is None and not self._runs_already) or self._ended.is_set():
                return
        self._ask_to_end()

    def _ask_to_end(self) -> None:
        """Once: what is raised on the target is raised in its `finally` blocks, too."""
        with self._lock:
            if self._told:
                return
            self._told = True
        calls = self._calls
        try:
            calls.shipping.need("channels")
        except RemoteError as error:
            _log.debug("%r is not told to end: %s", self, error)
            return
        link = calls.link
        for kind, body in ((protocol.CANCEL, b""), (protocol.CHANNEL, b"K")):
            link.send_at_once(protocol.frame(link.identifier, 0, self._number, kind, body))

    def _was_killed(self) -> TaskletKilled:
        return TaskletKilled(f"{self.name} in {self._calls.name!r} was killed")

    def then(self, function: Callable[[], object]) -> None:
        """Call this once it has ended, in a thread of roamlet's; at once if it has. It must not block. One function only."""
        with self._lock:
            if not self._ended.is_set():
                self._then = function
                return
        function()

    def __repr__(self) -> str:
        state = "killed" if self._killed else "done" if self.done else "running"
        return f"<roamlet.remote.RemoteCall {self.name} in {self._calls.name!r}, {state}>"

    def __del__(self) -> None:
        if self.failed and not self._asked_for and not self._killed:
            _log.warning("%r has failed, and no caller has asked for its result: join() raises the error", self)


class Stream(Generic[T], Iterator[T]):
    """The values of a generator function that runs in a context, as they come: what context.iterate() returns.

    It runs ahead by as much as may wait here. `close()` ends it on the target too; leaving a loop over it, or `with`, does that.
    """

    stays_here = "streams stay with the process that reads them: send the values, or a channel"  # see RemoteCall

    def __init__(self, calls: Calls, request: Request, channel: StreamChannel[T]) -> None:
        self._channel = channel
        self._calls = calls
        self._call: RemoteCall[None] | None = None
        wakers = calls.wakers()
        wakers.may_wake(1)  # the other side lets go of the channel before this one closes it
        self._call = RemoteCall(calls, request, None)

        def close() -> None:
            channel.close()
            wakers.may_wake(-1)

        self._call.then(close)

    def __next__(self) -> T:
        call = self._call
        if call is None:
            raise StopIteration
        try:
            return self._channel.take()
        except StopIteration:
            pass
        self._call = None
        call.join()
        raise StopIteration

    def close(self) -> None:
        """End it: the generator on the target is closed when it gives its next value. Never blocks; again does nothing."""
        call, self._call = self._call, None
        if call is None:
            return
        call._asked_for = True  # a loop that was left wants no error either
        channel = self._channel

        def end() -> None:
            try:  # first: after the end of the channel it would be raised in the generator's `finally` blocks
                call.kill()
            finally:
                channel.close()

        self._calls.background(end)
        channel.drop()

    def __enter__(self) -> "Stream[T]":
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def iterate(
    calls: Calls, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None
) -> Stream[Any]:
    channel: StreamChannel[Any] = StreamChannel()
    through = ("roamlet.wire.channels", "stream", (channel,))
    return Stream(calls, calls.prepare(function, args, kwargs, through=through), channel)


async def acall(
    calls: Calls,
    function: Callable[..., R],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    timeout: float | None,
) -> R:
    import asyncio  # here, because it takes 30 ms to import and few need it

    deadline = deadline_of(timeout)
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    call: RemoteCall[R] = RemoteCall(calls, calls.prepare(function, args, kwargs), None)

    def tell() -> None:
        if not ended.done():
            ended.set_result(None)

    def ended_there() -> None:
        try:
            loop.call_soon_threadsafe(tell)
        except RuntimeError:  # the loop was closed meanwhile, and no task waits
            _log.debug("%r has ended behind its event loop", call)

    call.then(ended_there)
    late = False
    try:
        async with asyncio.timeout(timeout):
            await ended
    except TimeoutError:
        late = True
    finally:
        if not call.done:
            calls.background(call.kill)
        call._asked_for = True
    if late and not call.done:
        raise calls.too_late(timeout, call.name, sent=call._number is not None)
    try:
        return call._taken(deadline)
    except codec.OutOfTime:
        pass  # as in join()
    raise calls.too_late(timeout, call.name, sent=True, came=call._size)
