"""Loops in threads of their own, for those that block their whole thread: uvloop's, say."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from types import TracebackType
from typing import Any, Self, TypeVar

from roamlet.aio._service import awaited, finish
from roamlet.aio._wrap import homes
from roamlet.core import Waiter, end_thread, getcurrent, os_threads
from roamlet.io import start_thread
from roamlet.sync._timeout import shield

T = TypeVar("T")


class Portal:
    """A way to an event loop that runs in a thread of its own. For any number of tasklets of any thread: what portal() returns."""

    def __init__(self, loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[Waiter[Any]] = set()
        self._closing = False
        self._home = os_threads.get_ident()
        started: Waiter[None] = Waiter()
        self._ended: Waiter[None] = Waiter()
        getcurrent()  # this thread can run tasklets from here on
        self._thread = start_thread(lambda: self._serve(loop_factory, started), "roamlet-portal")
        try:
            started.wait()
        except BaseException:
            self._stop()
            raise

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop. Of its methods other threads may call call_soon_threadsafe() alone."""
        assert self._loop is not None
        return self._loop

    def await_(self, awaitable: Awaitable[T]) -> T:
        """Wait for an awaitable in a tasklet: it runs as a task of the portal's loop. Return its result, or raise its error.

        As roamlet.aio.await_(), in another thread: thread-safe, in a copy of the caller's contextvars context. RuntimeError when
        the portal is closed, also meanwhile, and in the portal's own thread.
        """
        result: T = self._wait_for(lambda: awaited(awaitable))
        return result

    def call(self, function: Callable[..., Awaitable[T] | T], /, *args: Any) -> T:
        """Call function(*args) in the portal's thread; if it is a coroutine function, as a task. Otherwise like await_()."""

        async def body() -> Any:
            result = function(*args)
            return await result if inspect.isawaitable(result) else result

        outcome: T = self._wait_for(body)
        return outcome

    def close(self) -> None:
        """Cancel all that runs on the loop, wait for its end, close the loop and end its thread.

        Blocks this tasklet. Tasklets that wait in await_() raise RuntimeError. The second call does nothing.
        """
        if os_threads.current_thread() is self._thread:
            raise RuntimeError(
                "close() was called in the portal's own thread, whose end it would wait for: call it outside"
            )
        self._stop()
        with shield():
            if not self._ended.done:
                self._ended.wait()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{'closed ' if self._closing else ''}roamlet.aio.portal to {self._loop!r}>"

    # ---- in the tasklets' threads ----

    def _stop(self) -> None:
        loop = self._loop
        if self._closing or loop is None:
            return
        self._closing = True
        loop.call_soon_threadsafe(loop.stop)

    def _wait_for(self, make: Callable[[], Any]) -> Any:
        if self._closing:
            raise self._closed_error()
        if os_threads.current_thread() is self._thread:
            raise RuntimeError("the portal's own thread cannot wait for its loop: write `await` in its coroutines")
        waiter: Waiter[Any] = Waiter()
        task: list[asyncio.Task[Any]] = []
        self._waiting.add(waiter)
        try:
            self.loop.call_soon_threadsafe(self._begin, make, waiter, task, copy_context())
            try:
                done = waiter.wait()
            except BaseException:
                self._cancel(task)
                raise
            if done.cancelled() and self._is_closing():
                raise self._closed_error()
            return done.result()
        finally:
            self._waiting.discard(waiter)
            task.clear()
            done = None
            del make, waiter, task

    def _cancel(self, task: "list[asyncio.Task[Any]]") -> None:
        """Cancel the task of a tasklet that no longer waits for its result, and wait for its end."""
        if self._closing:
            return
        ended: Waiter[Any] = Waiter()
        kept = list(task)

        def cancel() -> None:
            if not kept:  # begun meanwhile
                kept.extend(task)
            if not kept or kept[0].done():
                ended.succeed(None)
            else:
                kept[0].cancel()
                kept[0].add_done_callback(ended.succeed)

        self._waiting.add(ended)
        try:
            self.loop.call_soon_threadsafe(cancel)
            with shield():
                ended.wait()
        except RuntimeError:
            if not self._closing:
                raise
        finally:
            self._waiting.discard(ended)
            kept.clear()

    def _is_closing(self) -> bool:
        return self._closing

    def _closed_error(self) -> RuntimeError:
        return RuntimeError(
            f"{self!r} was closed: nothing can run on its loop any more. Let tasklets that use it end before close()"
        )

    # ---- in the portal's thread ----

    def _serve(self, loop_factory: Callable[[], asyncio.AbstractEventLoop], started: Waiter[None]) -> None:
        try:
            loop = loop_factory()
        except BaseException as error:
            self._closing = True
            self._ended.succeed(None)
            started.fail(error)
            return
        self._loop = loop
        homes[loop] = self._home
        loop.call_soon(started.succeed, None)
        try:
            try:
                loop.run_forever()
            finally:
                self._closing = True
                finish(loop)
        finally:
            loop.close()
            homes.pop(loop, None)
            for waiter in list(self._waiting):
                waiter.fail(self._closed_error())
            end_thread()
            self._ended.succeed(None)

    def _begin(
        self, make: Callable[[], Any], waiter: Waiter[Any], task: "list[asyncio.Task[Any]]", context: Context
    ) -> None:
        """Start the task that a tasklet waits for."""
        if waiter.done:  # killed before that
            return
        try:
            begun = self.loop.create_task(make(), context=context)
            task.append(begun)
            begun.add_done_callback(waiter.succeed)
        except BaseException as error:
            waiter.fail(error)


def portal(loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop) -> Portal:
    """Start an event loop in an OS thread of its own, and return the way to it: `with portal(uvloop.new_event_loop) as p:`.

    For loops that block their thread, and to take work off this one. `await wrap(function)` in coroutines of such a loop calls
    the function in a tasklet of the calling thread. Blocks this tasklet until the loop runs. Raises what `loop_factory` raises.
    """
    return Portal(loop_factory)
