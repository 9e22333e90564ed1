"""concurrent.futures' Executor over roamlet's worker threads, with futures that block one tasklet only.

A module of its own because the standard one costs milliseconds to import, which call_async does not need.
"""

import operator
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar

from roamlet.core import Waiter, atomic
from roamlet.io._workers.pool import pool
from roamlet.sync.futures import Future, WorkItem

__all__ = ["WorkerExecutor"]

T = TypeVar("T")
P = ParamSpec("P")


class WorkerExecutor(Executor):
    """Calls functions on the threads that call_async uses, at most `max_workers` of its calls at once (None: any number).

    submit() returns a roamlet.sync.futures.Future, which is one of concurrent.futures too. Calls begin in order, and as
    roamlet.io.workers allows. Thread-safe. Leaving it as a context manager waits for all calls; the interpreter's exit does not.
    """

    def __init__(self, max_workers: int | None = None) -> None:
        if max_workers is not None and operator.index(max_workers) <= 0:
            raise ValueError(f"max_workers must be greater than 0, or None for any number, not {max_workers}")
        self._max_workers = max_workers
        self._items: deque[WorkItem] = deque()
        self._running = 0
        self._waiting: list[Waiter[None]] = []  # not an Event: a tasklet that waits for jobs keeps roamlet.run() going
        self._shutdown = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have fn(*args, **kwargs) called in a worker thread; return its Future. Does not block.

        RuntimeError after shutdown(). When no thread can be started the future has that error.
        """
        future: Future[T] = Future()
        with atomic():
            if self._shutdown:
                raise RuntimeError("cannot schedule new futures after shutdown: this executor takes no more calls")
            self._items.append(WorkItem(future, fn, args, kwargs))
        self._begin()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. With `wait`, block this tasklet until all are done.

        With `cancel_futures`, those that have not begun are cancelled. May be called again.
        """
        with atomic():
            self._shutdown = True
            cancelled = list(self._items) if cancel_futures else []
            if cancel_futures:
                self._items.clear()
        for item in cancelled:
            item.cancel()
        if wait:
            waiter: Waiter[None] = Waiter()
            self._waiting.append(waiter)
            self._tell_if_idle()
            waiter.wait()

    def _begin(self) -> None:
        """Give the pool as many calls as may run."""
        while True:
            with atomic():
                if not self._items or (self._max_workers is not None and self._running >= self._max_workers):
                    return
                self._running += 1
                item = self._items.popleft()
            pool.submit([_Call(self, item), item.run, copy_context()])

    def _ended(self, lost: BaseException | None = None) -> None:
        """A call is over. With `lost` the others are not made either."""
        with atomic():
            self._running -= 1
            items = list(self._items) if lost is not None else []
            if lost is not None:
                self._items.clear()
        for item in items:
            _fail(item, lost)
        self._begin()
        self._tell_if_idle()

    def _tell_if_idle(self) -> None:
        with atomic():
            waiting = self._waiting if not self._running and not self._items else []
            if waiting:
                self._waiting = []
        for waiter in waiting:
            waiter.succeed()


class _Call:
    """In place of the Waiter of a job: the call's own future has its outcome."""

    done = False  # a future that was cancelled says so when it is about to run

    def __init__(self, executor: WorkerExecutor, item: WorkItem) -> None:
        self._executor = executor
        self._item = item

    def succeed(self, _: object = None, /) -> bool:
        """The future is settled."""
        self._executor._ended()
        return True

    def fail(self, error: BaseException, /) -> bool:
        """It raised TaskletExit; or it is not made: no thread can be started, or we are a forked child without that thread."""
        if self._item.future.done():
            self._executor._ended()
        else:
            _fail(self._item, error)
            self._executor._ended(error)
        return True


def _fail(item: WorkItem, error: BaseException | None) -> None:
    future: Future[Any] = item.future  # type: ignore[assignment]
    if not future.done() and (future.running() or future.set_running_or_notify_cancel()):
        future.set_exception(RuntimeError(str(error)))
