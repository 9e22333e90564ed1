"""concurrent.futures for tasklets: waiting for a future blocks the tasklet that waits, and not its thread.

The names, states and errors are the standard module's: a Future here is one of its Futures, its functions take futures of
both kinds, and everything may be settled in any thread.
"""

import operator
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    ALL_COMPLETED,
    FIRST_COMPLETED,
    FIRST_EXCEPTION,
    BrokenExecutor,
    CancelledError,
    Executor,
    InvalidStateError,
)
from concurrent.futures import Future as _Future
from concurrent.futures._base import (
    CANCELLED,
    CANCELLED_AND_NOTIFIED,
    FINISHED,
    DoneAndNotDoneFutures,
)
from typing import Any, ParamSpec, TypeVar, cast

from roamlet.core import TaskletExit, Waiter, atomic, os_threads, tasklet
from roamlet.sync._native import Event
from roamlet.sync._outcome import alike

__all__ = [
    "ALL_COMPLETED",
    "FIRST_COMPLETED",
    "FIRST_EXCEPTION",
    "BrokenExecutor",
    "CancelledError",
    "Executor",
    "Future",
    "InvalidStateError",
    "TaskletExecutor",
    "TimeoutError",
    "WorkItem",
    "as_completed",
    "wait",
]

T = TypeVar("T")
P = ParamSpec("P")

TimeoutError = TimeoutError  # noqa: PLW0127 - the builtin, under the name that concurrent.futures gives it too

_ATOMIC = atomic()


class _Guard:
    """What the standard Future wants as its Condition. The lock is roamlet.atomic(): it is held for moments, and taking it can
    neither be cancelled nor keep other tasklets of the thread from giving it back.
    """

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: list[Waiter[None]] = []

    def acquire(self) -> bool:
        _ATOMIC.__enter__()
        return True

    def release(self) -> None:
        _ATOMIC.__exit__(None, None, None)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *args: object) -> None:
        self.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Block this tasklet until notify_all(), with the lock given up meanwhile; False when `timeout` passed first."""
        waiter: Waiter[None] = Waiter()
        self._waiters.append(waiter)
        try:
            waiter.wait(
                timeout and max(0.0, timeout)
            )  # Executor.map gives what is left of its own, which may be negative
        except TimeoutError:
            return False
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        return True

    def notify_all(self) -> None:
        """Wake all who wait. Never switches."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.succeed()


class Future(_Future[T]):
    """concurrent.futures.Future whose result() and exception() block the calling tasklet only. Thread-safe.

    result() raises an error like the one that was set, with its traceback, and not that object itself: a future that a
    frame refers to, and whose error refers to the frame, would be a reference cycle. exception() returns the object. An error
    that cannot be copied is raised itself, once: from then on the future has a RuntimeError that names it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._condition = cast(threading.Condition, _Guard())

    def result(self, timeout: float | None = None) -> T:
        """Block this tasklet until it is settled; return the result or raise the error.

        Raises CancelledError when it was cancelled, TimeoutError when it is not settled within `timeout` seconds.
        """
        error = self.exception(timeout)
        if error is None:
            return cast(T, self._result)
        try:
            raise alike(error) or self._given_away(error)
        finally:
            del self, error

    def _given_away(self, error: BaseException) -> BaseException:
        """The error, of which there is no second one, and to which this refers no longer."""
        self._exception = RuntimeError(
            f"{error!r}, of which there is no second one, was raised for somebody else first"
        )
        return error

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Like result(), but return the error that was set, or None."""
        with self._condition:
            if self._state not in _DONE:
                self._condition.wait(timeout)
            if self._state == FINISHED:
                return self._exception
            if self._state in _DONE:
                raise CancelledError(f"{self!r} was cancelled: it has no result")
            raise TimeoutError(f"{self!r} has no result within {timeout} seconds")


_DONE = (CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED)


def _watchers(future: _Future[Any]) -> list[Any]:
    return cast(list[Any], future._waiters)


class _Watch:
    """What is put among the `_waiters` of futures: told by each, with its lock held and in any thread, that it is settled."""

    def __init__(self, futures: Iterable[_Future[Any]], enough: str) -> None:
        self.futures = set(futures)
        for future in self.futures:
            if not isinstance(future, _Future):
                raise TypeError(
                    f"it takes futures, which submit() of an executor returns, not {future!r}: a tasklet of spawn() has "
                    "join() and wait() of its own"
                )
        self.settled: deque[_Future[Any]] = deque()
        self.event = Event()
        self._enough = enough
        self._left = len(self.futures)
        for future in self.futures:
            with future._condition:
                if future._state not in (CANCELLED_AND_NOTIFIED, FINISHED):
                    _watchers(future).append(self)
                elif future._state == FINISHED and future._exception is not None:
                    self.add_exception(future)
                else:
                    self.add_result(future)
        if not self.futures:
            self.event.set()

    def add_result(self, future: _Future[Any]) -> None:
        """The future has a result, or was cancelled and its worker knows."""
        self._note(future, self._enough == FIRST_COMPLETED)

    add_cancelled = add_result

    def add_exception(self, future: _Future[Any]) -> None:
        """The future has an error."""
        self._note(future, self._enough != ALL_COMPLETED)

    def _note(self, future: _Future[Any], enough: bool) -> None:
        with _ATOMIC:
            self.settled.append(future)
            self._left -= 1
            if enough or self._left == 0:
                self.event.set()

    def leave(self, future: _Future[Any]) -> None:
        """Forget a future."""
        self.futures.discard(future)
        with future._condition:
            if self in _watchers(future):
                _watchers(future).remove(self)

    def leave_all(self) -> None:
        """Forget all futures: none knows of this any longer."""
        for future in list(self.futures):
            self.leave(future)


def wait(
    fs: Iterable[_Future[T]], timeout: float | None = None, return_when: str = ALL_COMPLETED
) -> DoneAndNotDoneFutures[T]:
    """Block this tasklet until futures are settled: all, the first, or the first with an error, as `return_when` says.

    Returns two sets, `done` and `not_done`; after `timeout` seconds (None: no limit) as it is then. Takes futures of
    concurrent.futures too.
    """
    if return_when not in (ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION):
        raise ValueError(
            f"Invalid return condition: {return_when!r}; use ALL_COMPLETED, FIRST_COMPLETED or FIRST_EXCEPTION"
        )
    watch = _Watch(fs, return_when)
    futures = set(watch.futures)
    try:
        watch.event.wait(timeout)
    finally:
        watch.leave_all()
    done = set(watch.settled)
    return DoneAndNotDoneFutures(done, futures - done)


def as_completed(fs: Iterable[_Future[T]], timeout: float | None = None) -> Iterator[_Future[T]]:
    """Yield the futures as they are settled, each once; block this tasklet until the next one is.

    Raises TimeoutError when they are not all settled within `timeout` seconds of the first next(). Keeps no reference to
    what it has yielded. Takes futures of concurrent.futures too.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    watch = _Watch(fs, FIRST_COMPLETED)
    del fs
    total = len(watch.futures)
    try:
        while watch.futures:
            if watch.settled:
                watch.leave(watch.settled[0])
                yield watch.settled.popleft()
                continue
            watch.event.clear()
            if watch.settled:
                continue
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not watch.event.wait(left):
                raise TimeoutError(f"{len(watch.futures)} (of {total}) futures unfinished")
    finally:
        watch.leave_all()


class WorkItem:
    """A call whose outcome goes to a future. Executors of whatever kind run() it where they like, once."""

    __slots__ = ("args", "fn", "future", "kwargs")

    def __init__(
        self, future: _Future[Any], fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.future: _Future[Any] = future
        self.fn: Callable[..., Any] = fn
        self.args: tuple[Any, ...] = args
        self.kwargs: dict[str, Any] = kwargs

    def run(self) -> None:
        """Call the function, unless the future was cancelled, and settle the future. Raises nothing but TaskletExit.

        A tasklet that is killed in the function leaves a future that is settled with CancelledError.
        """
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            self.future.set_result(self.fn(*self.args, **self.kwargs))
        except TaskletExit:
            self.future.set_exception(CancelledError(f"the tasklet that ran {self.fn!r} was killed"))
            raise
        except BaseException as error:
            self.future.set_exception(error)
        finally:
            del self  # the frame is in the error's traceback

    def cancel(self) -> None:
        """Cancel the future, and tell those who wait for it."""
        if self.future.cancel():
            self.future.set_running_or_notify_cancel()


class TaskletExecutor(Executor):
    """An Executor whose calls run in tasklets of the thread that made it, at most `max_workers` (None: any number) at once.

    submit() may be called in any thread and does not block. Leaving it as a context manager waits for all calls.
    """

    def __init__(self, max_workers: int | None = None) -> None:
        if max_workers is not None and operator.index(max_workers) <= 0:
            raise ValueError(f"max_workers must be greater than 0, or None for any number, not {max_workers}")
        self._max_workers = max_workers
        self._thread = os_threads.get_ident()
        self._items: deque[WorkItem] = deque()
        self._workers = 0
        self._idle = Event()
        self._idle.set()
        self._shutdown = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> _Future[T]:
        """Have fn(*args, **kwargs) called in a tasklet; return its Future. RuntimeError after shutdown()."""
        future: Future[T] = Future()
        with _ATOMIC:
            if self._shutdown:
                raise RuntimeError("cannot schedule new futures after shutdown: this executor takes no more calls")
            self._items.append(WorkItem(future, fn, args, kwargs))
            try:
                self._work()
            except BaseException:
                self._items.pop()
                raise
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. With `wait`, block this tasklet until those there are have ended.

        With `cancel_futures`, those that have not begun are cancelled. May be called again.
        """
        with _ATOMIC:
            self._shutdown = True
            cancelled = list(self._items) if cancel_futures else []
            if cancel_futures:
                self._items.clear()
        for item in cancelled:
            item.cancel()
        if wait:
            self._idle.wait()

    def _work(self) -> None:
        """Let a tasklet more work, if there is need of one and there may be one. Atomic."""
        if not self._items or (self._max_workers is not None and self._workers >= self._max_workers):
            return
        worker = _Worker(self)
        runner = tasklet(worker, ())
        try:
            runner.bind_thread(self._thread)
        except ValueError as error:
            raise RuntimeError("cannot schedule new futures: the thread that made this executor has ended") from error
        worker.queued = True
        self._workers += 1
        self._idle.clear()
        runner.insert()

    def next_item(self) -> WorkItem | None:
        """For workers: what is to be called next, or None."""
        with _ATOMIC:
            return self._items.popleft() if self._items else None

    def worker_ended(self, *, begun: bool) -> None:
        """For workers: one has ended: for want of work, or killed. One that has not even begun ends with its thread."""
        with _ATOMIC:
            self._workers -= 1
            cancelled = [] if begun else list(self._items)
            if begun:
                self._work()
            else:
                self._items.clear()
            if self._workers == 0:
                self._idle.set()
        for item in cancelled:
            item.cancel()


class _Worker:
    """The function of a tasklet that works for an executor: one call after the other, until no call is left."""

    __slots__ = ("executor", "queued")

    def __init__(self, executor: TaskletExecutor) -> None:
        self.executor = executor
        self.queued = False

    def __call__(self) -> None:
        self.queued = False
        executor = self.executor
        try:
            while (item := executor.next_item()) is not None:
                item.run()
                del item  # nothing of a call is kept while the next one waits
        finally:
            executor.worker_ended(begun=True)
            del self, executor  # the frame is reached from the tracebacks of errors that calls have raised

    def __del__(self) -> None:
        if self.queued:
            self.executor.worker_ended(begun=False)
