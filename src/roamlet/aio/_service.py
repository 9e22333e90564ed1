"""The event loop that each thread has for its tasklets: it runs in a tasklet of its own, and await_() waits for what runs there."""

import asyncio
import contextlib
import inspect
import os
from collections.abc import Awaitable, Generator
from contextvars import Context, copy_context
from types import TracebackType
from typing import Any, TypeVar, cast

from roamlet.aio._loop import Loop, selector_of
from roamlet.core import TaskletExit, Waiter, getcurrent, os_threads, tasklet, thread_ends
from roamlet.sync._timeout import shield

T = TypeVar("T")


class Service:
    """A thread's loop, the tasklet that runs it, and the tasklets that wait for its tasks."""

    __slots__ = ("context", "ended", "loop", "tasklet", "tasks", "waiting")

    def __init__(self) -> None:
        self.loop = Loop()
        selector = selector_of(self.loop)
        assert selector is not None
        selector.daemon = True
        self.context = Context()  # of what settles a wait; it never switches
        self.ended = False
        self.tasks: set[asyncio.Future[Any]] = set()
        self.waiting: set[Waiter[Any]] = set()
        self.tasklet = tasklet(_serve, (self,))
        self.tasklet.set_context(Context())
        self.tasklet.insert()
        self.tasklet.run()

    def end(self) -> None:
        """Cancel what runs on the loop, wait for its end, and close the loop. In the loop's tasklet."""
        self.ended = True
        loop = self.loop
        try:
            if not loop.is_closed():
                finish(loop)
        finally:
            if not loop.is_running():
                loop.close()
            for waiter in list(self.waiting):
                waiter.fail(_shut_down())


async def _ends(tasks: "set[asyncio.Task[Any]]") -> None:
    """Wait for all of them. Not gather(), whose future would keep them in a frame of the loop."""
    await asyncio.wait(tasks)


def finish(loop: asyncio.AbstractEventLoop) -> None:
    """What asyncio.Runner does before it closes a loop: run the ends of its tasks, asynchronous generators and threads."""
    try:
        _finish(loop)
    except TaskletExit:
        if not thread_ends():
            raise
        _finish(loop)  # the thread has ended meanwhile: now without other tasklets, and what was begun is cancelled


def _finish(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    task: asyncio.Task[Any] | None
    error: BaseException | None
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(_ends(tasks))
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            loop.call_exception_handler(
                {"message": "unhandled exception while a loop was shut down", "exception": error, "task": task}
            )
    tasks.clear()  # the frames of what they have raised lead here
    task = error = None
    loop.run_until_complete(loop.shutdown_asyncgens())
    if not thread_ends():  # no thread can be started any more to wait for those of the executor
        loop.run_until_complete(loop.shutdown_default_executor())


def _serve(service: Service) -> None:
    """What the loop's tasklet does: runs the loop until shutdown(), a stop() of somebody's or the end of the thread."""
    try:
        while True:
            try:
                service.loop.run_forever()
            except TaskletExit:
                raise
            except (SystemExit, KeyboardInterrupt) as error:
                if _belongs_to_a_waiter(service, error):
                    error.__traceback__ = _without_loop(error.__traceback__)
                    continue
                raise
            break
    finally:
        with contextlib.suppress(TaskletExit):
            service.end()


def _belongs_to_a_waiter(service: Service, error: BaseException) -> bool:
    """Whether a task raised it that a tasklet waits for, which will raise it: the loop itself goes on."""
    return any(task.done() and not task.cancelled() and task.exception() is error for task in service.tasks)


def _without_loop(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback of an error that has passed through the loop, without its frames: they refer to the task that has the error."""
    ours = ("asyncio.", "roamlet.aio.")
    while traceback is not None and traceback.tb_frame.f_globals.get("__name__", "").startswith(ours):
        traceback = traceback.tb_next
    return traceback


def _shut_down() -> BaseException:
    """What a tasklet gets that waits in await_() when the loop ends."""
    if thread_ends():  # and this tasklet with it
        return TaskletExit()
    return RuntimeError(
        "the event loop of this thread was shut down while a tasklet waited in await_(): roamlet.aio.shutdown() and "
        "loop().stop() cancel all that runs there. Call them when nothing is awaited any more"
    )


_own = os_threads.thread_local()  # of the thread, also where threading.local belongs to tasklets


def service() -> Service:
    """This thread's, made when first needed. May switch."""
    found: Service | None = getattr(_own, "service", None)
    if found is None or found.ended or found.loop.is_closed():
        found = _own.service = Service()
    return found


def _forked() -> None:
    """In a forked child: the loop is the parent's."""
    _own.service = None


os.register_at_fork(after_in_child=_forked)


def loop() -> asyncio.AbstractEventLoop:
    """The event loop of this thread that await_() uses, running in a tasklet of its own; made when first needed.

    For what has to be made for a loop, and for its settings. Its tasks go on while tasklets of the thread wait. It ends with the
    thread, or by shutdown(). May switch.
    """
    return service().loop


def shutdown() -> None:
    """End this thread's event loop: cancel its tasks, wait for their ends, close it. The next await_() makes a new one.

    Blocks this tasklet until it is closed. A tasklet that waits in await_() meanwhile raises RuntimeError. Does nothing where
    there is no loop. RuntimeError when it is called by a coroutine of that loop.
    """
    found: Service | None = getattr(_own, "service", None)
    if found is None:
        return
    if getcurrent() is found.tasklet:
        raise RuntimeError(
            "shutdown() was called by a coroutine of the loop that it would wait for: call it from a tasklet"
        )
    _own.service = None
    found.ended = True
    if found.loop.is_closed():
        return
    closed: Waiter[None] = Waiter()
    found.waiting.add(closed)
    found.loop.stop()
    try:
        closed.wait()
    except RuntimeError:
        if not found.loop.is_closed():
            raise


def awaited(awaitable: Awaitable[T]) -> Generator[Any, None, T] | Any:
    """The coroutine that a task runs for any awaitable. TypeError for anything else."""
    if inspect.iscoroutine(awaitable):
        return awaitable
    if not inspect.isawaitable(awaitable):
        raise TypeError(
            f"await_() takes what `await` takes, a coroutine say, not {awaitable!r}"
            + (": call it, await_(function())" if callable(awaitable) else "")
        )
    return _await(awaitable)


async def _await(awaitable: Awaitable[T]) -> T:
    return await awaitable


def await_(awaitable: Awaitable[T]) -> T:
    """Wait for an awaitable in a tasklet: it runs as a task of this thread's loop (loop()). Return its result, or raise its error.

    Blocks this tasklet only. The task runs in a copy of the caller's contextvars context. A tasklet that is killed, cancelled or
    timed out meanwhile cancels the task and waits for its end before it goes on; a second kill() ends that wait. Raises
    asyncio.CancelledError when another task has cancelled it, TypeError for what cannot be awaited, RuntimeError when a coroutine
    of this same loop calls it (it would wait for itself: use `await`) and when the loop is shut down meanwhile.
    """
    where = service()
    on = where.loop
    if getcurrent() is where.tasklet:
        if inspect.iscoroutine(awaitable):
            awaitable.close()
        raise RuntimeError(
            "await_() was called in a coroutine of the loop that it would wait for: write `await` there, or let a tasklet "
            "call it: await roamlet.aio.wrap(function)"
        )
    task: asyncio.Task[T] | None = None
    waiter: Waiter[Any] = Waiter()
    try:
        if on.get_task_factory() is None:
            task = on.create_task(cast("Any", awaited(awaitable)), context=copy_context())
        else:  # a factory may run the task at once, which belongs into the loop's tasklet
            task = _made_in(on, awaited(awaitable), where)
        where.tasks.add(task)
        where.waiting.add(waiter)
        task.add_done_callback(cast("Any", waiter.succeed), context=where.context)
        try:
            waiter.wait()
        except BaseException:
            _cancel(task, where)
            raise
        if where.ended and task.cancelled():
            raise _shut_down()
        return task.result()
    finally:
        where.waiting.discard(waiter)
        if task is not None:
            where.tasks.discard(task)
        del awaitable, task, waiter  # the traceback of an error leads here


def _made_in(on: Loop, coroutine: Any, where: Service) -> "asyncio.Task[Any]":
    """A task that the loop's task factory has made in the loop's tasklet."""
    made: Waiter[asyncio.Task[Any]] = Waiter()
    where.waiting.add(made)
    try:
        on.call_soon(_make, on, coroutine, copy_context(), made)
        return made.wait()
    finally:
        where.waiting.discard(made)
        del coroutine, made


def _make(on: Loop, coroutine: Any, context: Context, made: "Waiter[asyncio.Task[Any]]") -> None:
    if made.done:  # the tasklet was killed before
        coroutine.close()
        return
    try:
        made.succeed(on.create_task(coroutine, context=context))
    except Exception as error:
        made.fail(error)
    finally:
        del coroutine, made


def _cancel(task: "asyncio.Task[Any]", where: Service) -> None:
    """Cancel the task of a tasklet that no longer waits for its result, and wait for its end.

    What it raises then is not lost: asyncio logs it.
    """
    if task.done() or where.ended:
        return
    task.cancel()
    if thread_ends():
        return
    ended: Waiter[Any] = Waiter()
    task.add_done_callback(cast("Any", ended.succeed), context=where.context)
    where.waiting.add(ended)
    try:
        with shield():
            ended.wait()
    except RuntimeError:  # the loop was shut down meanwhile
        if not where.ended:
            raise
    finally:
        where.waiting.discard(ended)
