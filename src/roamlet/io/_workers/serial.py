"""Calls on worker threads one after the other: for an object that must not be used by two threads at once."""

from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

from roamlet.core import Waiter, inside_atomic
from roamlet.io._workers.pool import Job, Settled, perform, pool, withdraw

T = TypeVar("T")


class Serial:
    """A queue of calls of which one runs at a time, in the order in which they came; also after one was abandoned.

    It takes a worker only while there is something to do. Thread-safe.
    """

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._running: Settled | None = None
        self._busy = False

    def call(self, function: Callable[[], T]) -> T:
        """Like roamlet.call_async, after all calls that came before."""
        waiter: Waiter[T] = Waiter()
        job: Job = [waiter, function, copy_context()]
        try:
            self._submit(job)
            return waiter.wait()
        except BaseException:
            withdraw(self._jobs, job)
            raise
        finally:
            del function, job  # as in call_async

    def start(self, function: Callable[[], object]) -> None:
        """Have the call made without waiting for it. Does not block."""
        self._submit([Waiter(), function, copy_context()])

    def _submit(self, job: Job) -> None:
        self._jobs.append(job)
        # This object replaces the Waiter of the job that runs all others: its failure is theirs.
        runner: Job = [self, self._run, copy_context()]
        inside_atomic(self._have_run, runner)
        pool.recruit_if_needed()

    def _have_run(self, runner: Job) -> None:
        if not self._busy:
            # No signal handler can raise between these two lines, and leave a queue that is busy with nothing.
            self._busy = True
            pool.jobs.append(runner)

    def _becomes_busy(self) -> bool:
        return inside_atomic(self._become_busy)

    def _become_busy(self) -> bool:
        if self._busy:
            return False
        self._busy = True
        return True

    def _run(self) -> None:
        """In a worker: make all calls that there are."""
        job: Job | None
        while True:
            try:
                job = self._jobs.popleft()
            except IndexError:
                job = None
            if job is not None:
                self._running = job[0]
                perform(pool, job)
                self._running = None
                del job
                continue
            self._busy = False
            # One that came before the line above has found us busy.
            if not self._jobs or not self._becomes_busy():
                return

    # ---- in place of a Waiter ----

    done = False  # it is never withdrawn

    def succeed(self, _: object = None, /) -> bool:
        """Nothing to tell: each call had its own Waiter."""
        return True

    def fail(self, error: BaseException, /) -> bool:
        """No thread could be started, or we are a forked child that does not have it: these calls are never made."""
        waiters = [self._running] + [job[0] for job in self._jobs if job]
        self._jobs.clear()
        self._running = None
        self._busy = False
        for waiter in waiters:
            if waiter is not None:
                waiter.fail(RuntimeError(str(error)))  # one each: they are raised in different tasklets
        return True
