"""Futures of tasklets and threads, and executors that make them. A future can be waited for with stacklesslib.wait as well."""

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any
from weakref import WeakSet

from roamlet import TaskletExit, getcurrent, tasklet
from roamlet.sync._outcome import alike

from . import threadpool, util
from . import wait as _wait_module
from .base import atomic
from .errors import CancelledError, TimeoutError

__all__ = [
    "ALL_COMPLETED",
    "CANCELLED",
    "CANCELLED_AND_NOTIFIED",
    "FINISHED",
    "FIRST_COMPLETED",
    "FIRST_EXCEPTION",
    "PENDING",
    "RUNNING",
    "BoundedExecutorMixIn",
    "CancelledError",
    "DirectExecutor",
    "ExecutorBase",
    "Future",
    "ImmediateTaskletExecutor",
    "NullExecutor",
    "SimpleTaskletExecutor",
    "TaskletExecutor",
    "ThreadPoolExecutor",
    "ThreadPoolExecutorBase",
    "TimeoutError",
    "WaitingExecutorMixIn",
    "all_results",
    "any_result",
    "as_completed",
    "direct_executor",
    "immediate_tasklet_executor",
    "null_executor",
    "tasklet_executor",
    "thread_executor",
    "wait",
]

PENDING = "PENDING"
RUNNING = "RUNNING"
CANCELLED = "CANCELLED"
CANCELLED_AND_NOTIFIED = "CANCELLED_AND_NOTIFIED"
FINISHED = "FINISHED"

FIRST_COMPLETED = 0
FIRST_EXCEPTION = 1
ALL_COMPLETED = 2

Job = tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]


class Future(_wait_module.WaitSite):
    """The result of a function that runs elsewhere. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self.state = PENDING
        # (True, result), (False, (type, exception, traceback)) or, when it was cancelled, (False, (None, arguments)).
        self._result: Any = None
        self.tasklet: tasklet[...] | None = None

    def execute(self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] = {}) -> None:
        """Run fn(*args, **kwargs) in this tasklet and keep what it returns or raises; not when it was cancelled before."""
        try:
            if self.attach():
                self.set_result(fn(*args, **kwargs))
        except TaskletExit as killed:
            self.set_cancelled(killed.args)
        except BaseException as error:
            self.set_exception(error)
        finally:
            self.tasklet = None
            del self, fn, args, kwargs  # the error's traceback holds this frame

    def attach(self) -> bool:
        """Say that this tasklet will settle it: False when it was cancelled before."""
        with atomic():
            if self.state is not PENDING:
                return False
            self.state = RUNNING
            self.tasklet = getcurrent()
            return True

    def cancel(self, args: tuple[Any, ...] = ()) -> bool:
        """Let result() raise CancelledError(*args), and end the tasklet that works on it with TaskletExit. True.

        A function that runs on another thread goes on; its result is dropped.
        """
        with atomic():
            working = self.tasklet
            self.set_cancelled(args)
        if working is not None and working.thread_id == getcurrent().thread_id:
            working.raise_exception(TaskletExit, *args)
        return True

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self.state is CANCELLED

    def running(self) -> bool:
        """Whether its function has begun and not ended."""
        return self.state is RUNNING

    def done(self) -> bool:
        """Whether there is anything to wait for."""
        return self.state in (CANCELLED, FINISHED)

    def result(self, timeout: float | None = None) -> Any:
        """What the function returned; raises what it raised, CancelledError, or TimeoutError after `timeout` seconds."""
        self.wait(timeout)
        good, result = self._result
        if good:
            return result
        self._refuse_cancelled(result)
        try:
            raise alike(result[1].with_traceback(result[2])) or result[1]
        finally:
            del self, result

    def exception(self, timeout: float | None = None) -> Any:
        """(type, exception, traceback) of what the function raised, or None. Otherwise like result()."""
        self.wait(timeout)
        good, result = self._result
        if good:
            return None
        self._refuse_cancelled(result)
        return result

    def _refuse_cancelled(self, result: Any) -> None:
        if self.state is not FINISHED:
            raise CancelledError(*result[1])

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it is done. TimeoutError after `timeout` seconds."""
        if not self.done():
            _wait_module.swait(self, timeout)

    def waitsite_signalled(self) -> Any:
        """Whether it is done."""
        return self._result

    def set_result(self, result: Any) -> None:
        """Settle it; nothing happens when it was cancelled."""
        self._settle(FINISHED, (True, result))

    def set_exception(self, exc: Any, val: Any = None, tb: TracebackType | None = None) -> None:
        """Settle it with an exception; nothing happens when it was cancelled."""
        error = util._exception(exc, val)
        self._settle(FINISHED, (False, (type(error), error, tb or error.__traceback__)))

    def set_cancelled(self, args: tuple[Any, ...] = ()) -> None:
        """Settle it as cancelled, whatever runs."""
        self._settle(CANCELLED, (False, (None, args)))

    def _settle(self, state: str, result: Any) -> None:
        with atomic():
            if self._result is None:
                self._result = result
                self.state = state
                self.waitsite_signal()


class ExecutorBase:
    """What executors share. A subclass says in submit_future() where a job runs."""

    def submit_future(self, future: Future, job: Job) -> Future:
        """Have a job run whose outcome `future` gets."""
        raise NotImplementedError

    def submit(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
        """The future of fn(*args, **kwargs)."""
        return self.submit_future(Future(), (fn, args, kwargs))

    def submit_args(self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] = {}) -> Future:
        """submit() with the arguments in a sequence and a mapping."""
        return self.submit_future(Future(), (fn, args, kwargs))

    def map(self, fn: Callable[..., Any], *iterables: Iterable[Any], timeout: float | None = None) -> Iterator[Any]:
        """The results of fn() of each tuple of arguments, in order; all are submitted now. TimeoutError after `timeout` seconds."""
        limits = util.Timeouts(timeout)
        futures = [self.submit_future(Future(), (fn, args, {})) for args in zip(*iterables, strict=False)]

        def results() -> Iterator[Any]:
            for future in futures:
                with limits.timeout():
                    result = future.result()
                yield result

        return results()

    def execute_future(self, future: Future, job: Job) -> None:
        """Run a job here."""
        try:
            future.execute(*job)
        finally:
            del future, job  # the frames of an error lead back to this one

    def __enter__(self) -> "ExecutorBase":
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown(True)

    def shutdown(self, wait: bool = True) -> None:
        """Take no more jobs; wait for those there are, if `wait`."""


class ThreadPoolExecutorBase(ExecutorBase):
    """Runs jobs on the threads of a pool."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool

    def submit_future(self, future: Future, job: Job) -> Future:
        """Have it run on a thread."""
        self.pool.submit(functools.partial(self.execute_future, future, job))  # no lambda, whose frame would keep them
        return future

    def shutdown(self, wait: bool = True) -> None:
        """End the pool."""
        self.pool.shutdown(wait)


class NullExecutor(ExecutorBase):
    """Runs nothing."""

    def submit_future(self, future: Future, job: Job) -> Future:
        """Forget the job."""
        del job
        return future


class DirectExecutor(ExecutorBase):
    """Runs jobs at once, in the caller's tasklet."""

    def submit_future(self, future: Future, job: Job) -> Future:
        """Run it."""
        self.execute_future(future, job)
        try:
            return future
        finally:
            del future, job  # the frames of an error lead back to this one


class SimpleTaskletExecutor(ExecutorBase):
    """Runs each job in a new tasklet of this thread, in its turn."""

    def submit_future(self, future: Future, job: Job) -> Future:
        """Have it run in a tasklet."""
        self.start_tasklet(self.execute_future, (future, job))
        return future

    def start_tasklet(self, func: Callable[..., object], args: Sequence[Any]) -> tasklet[...]:
        """For subclasses: start the tasklet."""
        return tasklet(func)(*args)


class ImmediateTaskletExecutor(SimpleTaskletExecutor):
    """Runs each job in a new tasklet, at once."""

    def submit_future(self, future: Future, job: Job) -> Future:
        """Run it up to where it blocks."""
        self.start_tasklet(self.execute_future, (future, job)).run()
        return future


class WaitingExecutorMixIn:
    """Keeps the futures that are given out, so that shutdown() can wait for them."""

    def __init__(self) -> None:
        self.futures: WeakSet[Future] | None = WeakSet()

    def submit_future(self, future: Future, job: Job) -> Future:
        """RuntimeError after shutdown()."""
        if self.futures is None:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = super().submit_future(future, job)  # type: ignore[misc]
        self.futures.add(future)
        return future

    def shutdown(self, wait: bool = True) -> None:
        """Wait for all futures, if `wait`."""
        if self.futures and wait:
            _wait(set(self.futures))
        self.futures = None
        super().shutdown(wait)  # type: ignore[misc]


class BoundedExecutorMixIn:
    """At most `max_workers` jobs at once; the others wait for their turn."""

    def __init__(self, max_workers: int | None = None) -> None:
        self.max_workers = max_workers
        self.n_workers = 0
        self.jobs: deque[tuple[Future, Job]] = deque()

    def submit_future(self, future: Future, job: Job) -> Future:
        """Have it run when there is room."""
        with atomic():
            if self.max_workers is not None and self.n_workers >= self.max_workers:
                self.jobs.append((future, job))
                return future
            self.n_workers += 1
        try:
            future = super().submit_future(future, job)  # type: ignore[misc]
        except BaseException:
            self.n_workers -= 1
            raise
        return future

    def execute_future(self, future: Future, job: Job) -> None:
        """Run it, then let the next one begin."""
        try:
            super().execute_future(future, job)  # type: ignore[misc]
        finally:
            del future, job  # the frames of an error lead back to this one
            self.n_workers -= 1
            self.pump()

    def pump(self) -> None:
        """Let the next one begin, if there is room."""
        with atomic():
            if self.jobs and (self.max_workers is None or self.n_workers < self.max_workers):
                future, job = self.jobs.popleft()
                BoundedExecutorMixIn.submit_future(self, future, job)


class ThreadPoolExecutor(WaitingExecutorMixIn, ThreadPoolExecutorBase):
    """Runs jobs on at most `max_workers` threads."""

    def __init__(self, max_workers: int | None = None) -> None:
        WaitingExecutorMixIn.__init__(self)
        ThreadPoolExecutorBase.__init__(self, threadpool.SimpleThreadPool(n_threads=max_workers))


class TaskletExecutor(WaitingExecutorMixIn, BoundedExecutorMixIn, SimpleTaskletExecutor):
    """Runs jobs in at most `max_workers` tasklets at once."""

    def __init__(self, max_workers: int | None = None) -> None:
        WaitingExecutorMixIn.__init__(self)
        BoundedExecutorMixIn.__init__(self, max_workers)


null_executor = NullExecutor()
direct_executor = DirectExecutor()
thread_executor = ThreadPoolExecutorBase(threadpool.DummyThreadPool())
tasklet_executor = SimpleTaskletExecutor()
immediate_tasklet_executor = ImmediateTaskletExecutor()


def _failed(future: Future) -> bool:
    return not future.cancelled() and future.exception() is not None


def wait(
    fs: Iterable[Future], timeout: float | None = None, return_when: int = ALL_COMPLETED
) -> tuple[set[Future], set[Future]]:
    """(those that are done, the others) when return_when says so, or after `timeout` seconds."""
    everything = set(fs)
    done = {future for future in everything if future.done()}

    def enough(newest: Iterable[Future]) -> bool:
        if return_when == FIRST_COMPLETED:
            return any(True for _ in newest)
        return return_when == FIRST_EXCEPTION and any(_failed(future) for future in newest)

    if not enough(done):
        for future in _wait_module.iwait_no_raise(everything - done, timeout):
            done.add(future)
            if enough([future]):
                break
    return done, everything - done


_wait = wait

as_completed = _wait_module.iwait


def all_results(fs: Iterable[Future], timeout: float | None = None) -> list[Any]:
    """The result of each, in order. TimeoutError after `timeout` seconds in all."""
    with util.timeout(timeout):
        return [future.result() for future in fs]


def any_result(fs: Iterable[Future], timeout: float | None = None) -> Any:
    """The result of the one that is done first; None without any. TimeoutError after `timeout` seconds."""
    for future in as_completed(fs, timeout):
        return future.result()
    return None
