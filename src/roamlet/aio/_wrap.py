"""From coroutines to tasklets: calls that may block a tasklet, awaited; channels among them."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from roamlet.aio._loop import selector_of
from roamlet.core import TaskletExit, channel, tasklet
from roamlet.sync._outcome import TaskletKilled

T = TypeVar("T")

homes: "WeakKeyDictionary[asyncio.AbstractEventLoop, int]" = WeakKeyDictionary()
"""Of loops that block their thread: the thread whose tasklets call functions for them."""


class _Call(tasklet[[]]):
    """A tasklet that calls a function for a coroutine, and settles a future with what comes of it."""

    __slots__ = ("_args", "_ended", "_function", "_future", "_home", "_loop", "_turn", "_unwanted")

    def begin(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        unwanted: Callable[[Any], object] | None,
    ) -> "asyncio.Future[Any]":
        """Start it: at once in the loop's own thread if tasklets run there, else in the thread that has opened the loop's portal.

        `unwanted` is called, in a tasklet of its own, with a result that the future no longer takes.
        """
        self._loop = loop = asyncio.get_running_loop()
        here = selector_of(loop) is not None
        self._home = None if here else homes.get(loop)  # the other thread that calls
        if not here and self._home is None:
            raise RuntimeError(
                f"wrap() was called in a coroutine of {loop!r}, which blocks its whole thread, so that no tasklet could run there: "
                "run the coroutine by roamlet.aio.run(), or open the loop in a thread of its own by roamlet.aio.portal()"
            )
        self._function, self._args, self._unwanted = function, args, unwanted
        self._future: asyncio.Future[Any] | None
        future = self._future = loop.create_future()
        self._ended: asyncio.Future[None] | None = None
        self._turn = [None]  # what takes this ends the call: the body as it begins, or stop() before that
        self.bind(self._body, ())
        if self._home is None:
            self.run()
        else:
            self.bind_thread(self._home)
            self.insert()
        return future

    def _body(self) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            if not self._take_turn():
                return
            result = self._function(*self._args)
        except TaskletExit:
            name = getattr(self._function, "__qualname__", None) or repr(self._function)
            error = TaskletKilled(f"{name}, which a coroutine called by wrap(), was killed before it had a result")
        except StopIteration as stopped:  # a future cannot carry it
            error = RuntimeError("the function of wrap() raised StopIteration")
            error.__cause__ = error.__context__ = stopped.with_traceback(None)
        except BaseException as raised:
            error = raised.with_traceback(raised.__traceback__ and raised.__traceback__.tb_next)
        try:
            if self._home is None:
                self._settle(result, error)
            else:
                self._loop.call_soon_threadsafe(self._settle, result, error)
        except RuntimeError:  # the loop is closed, and what waited for this has ended with it
            if not self._loop.is_closed():
                raise
        finally:
            del self._function, self._args  # they may lead back to the tasklet
            del self, result, error

    def _settle(self, result: Any, error: BaseException | None) -> None:
        future, ended = self._future, self._ended
        assert future is not None
        self._future = None  # code that keeps the tasklet does not keep what came of it
        if future.done():  # cancelled: its task goes on when this has ended
            if error is None and self._unwanted is not None:
                self.refuse(result)
        elif error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
        if ended is not None and not ended.done():
            ended.set_result(None)
        del future, result, error

    def _take_turn(self) -> bool:
        try:
            self._turn.pop()
        except IndexError:
            return False
        return True

    def refuse(self, result: Any) -> None:
        """Hand a result that is not taken to `unwanted`, in the thread where it came about."""
        if self._unwanted is not None:
            self._in_home(self._unwanted, result)

    def _in_home(self, function: Callable[..., object], *args: Any) -> None:
        """Call it in a tasklet of the thread whose tasklets call functions for this loop."""
        caller: tasklet[[]] = tasklet()
        caller.bind(function, args)
        if self._home is not None:
            caller.bind_thread(self._home)
        caller.insert()

    def _end(self) -> None:
        """Kill it, in its own thread."""
        if self._unwanted is not None and self.alive and not self.blocked:
            self.run()  # it has been given something, and would lose it
        if self.alive:
            self.kill()

    async def stop(self) -> None:
        """Kill it, and wait until it has ended, whatever cancels the calling task meanwhile."""
        if self._future is None:  # settled, if the tasklet is alive or not
            return
        if self._take_turn():  # it has not begun, and never will
            self.kill()
            self._future = None
            del self._function, self._args
            return
        ended = self._ended = self._loop.create_future()
        if self._home is None:
            self._end()
        else:
            self._in_home(self._end)
        while not ended.done():
            try:
                await asyncio.shield(ended)
            except asyncio.CancelledError:
                if ended.cancelled():
                    return


async def _called(
    function: Callable[..., T], args: tuple[Any, ...], unwanted: Callable[[T], object] | None = None
) -> T:
    call = _Call()
    future: asyncio.Future[T] | None = None
    try:
        future = call.begin(function, args, unwanted)
        return await future
    except asyncio.CancelledError:
        if future is not None:
            await call.stop()
            if not future.cancelled() and future.done() and future.exception() is None:
                call.refuse(future.result())
        raise
    finally:
        del call, future


async def wrap(function: Callable[..., T], /, *args: Any) -> T:
    """Call function(*args), which may block a tasklet, in a tasklet of its own; return what it returns, raise what it raises.

    Blocks neither the loop nor the thread: only the calling task waits. The tasklet begins at once, in a copy of the task's
    contextvars context and in no scope. When the task is cancelled the tasklet is killed, and the task goes on when that has
    ended. Raises roamlet.TaskletKilled when something else has killed it, RuntimeError on a loop that blocks its thread (uvloop's)
    unless a portal has opened it; the function is then called in the thread that did. TypeError for a coroutine function.
    """
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise TypeError(
            f"wrap() takes a plain function, which may block, and its arguments: wrap(channel.receive), not {function!r}"
        )
    return await _called(function, args)


async def receive(source: channel[T]) -> T:
    """channel.receive() for coroutines: take the next value, waiting for a sender if none is there.

    Only the calling task waits. A task that is cancelled loses no value: one that it had got already goes to the next receiver,
    in front of all others. Raises what was sent with send_exception, ChannelClosed when the channel is closed and empty.
    """
    _check(source, "receive")
    return await _called(source.receive, (), source.give_back)


async def send(target: channel[T], value: T) -> None:
    """channel.send() for coroutines: pass `value` to the receiver that has waited longest, waiting for one if none is there.

    Only the calling task waits, until the value was received or the task is cancelled. ChannelClosed on a closed channel.
    """
    _check(target, "send")
    await _called(target.send, (value,))


async def iterate(source: channel[T]) -> AsyncIterator[T]:
    """Yield what is received from a channel, until it is closed and empty: `async for value in iterate(channel)`.

    Only the calling task waits. A task that is cancelled loses no value, as in receive(). Raises what was sent with send_exception.
    """
    _check(source, "iterate")
    end: Any = object()

    def give_back(value: Any) -> None:
        if value is not end:
            source.give_back(value)

    while True:
        value = await _called(next, (source, end), give_back)
        if value is end:
            return
        yield value
        del value


def _check(given: object, name: str) -> None:
    if not isinstance(given, channel):
        raise TypeError(
            f"roamlet.aio.{name}() takes a roamlet.channel, not {given!r}: use wrap() for anything else that blocks"
        )
