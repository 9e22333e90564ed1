"""The pool of worker threads: who runs a job, when a thread is started and when it ends. Knows nothing of what jobs do.

A job is a list of three: the Waiter that gets its outcome, the callable, the context that it runs in; empty once it has begun.
Jobs are begun in the order in which they come. No thread waits for a lock here: each step is one operation that the GIL makes
atomic, in an order in which a thread that comes in between sees the other's step. `atomic` only keeps the number of threads
exact, and preemption out of the middle.

At most one worker at a time is on its way to a job: the searcher. As soon as it has one it sends for the next, if more jobs
wait. So a hundred short jobs are run by one or two threads one after the other, without a hundred wake-ups that would fight
for the GIL, and a hundred that block get a hundred threads.
"""

import atexit
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context
from itertools import count
from typing import Any, Protocol, TypeAlias

from roamlet.core import inside_atomic, mark_service_thread, outside_atomic
from roamlet.core.os_threads import OSThread, allocate_lock
from roamlet.sync._spawn import without_first_frame


class Settled(Protocol):
    """What the pool does with the Waiter of a job; another object may replace it."""

    @property
    def done(self) -> bool: ...
    def succeed(self, value: Any = ..., /) -> bool: ...
    def fail(self, error: BaseException, /) -> bool: ...


# The Waiter comes first: where lists are compared it decides, and no __eq__ of the caller's is asked.
Job: TypeAlias = list[Any]
AbandonedHandler: TypeAlias = Callable[[Callable[[], Any], Any, BaseException | None], object]

_JOIN_SECONDS = 1.0  # how long a fork or the interpreter's exit waits for an idle worker to end


class Pool:
    """Jobs, and the threads that run them. One for the process; thread-safe."""

    def __init__(self) -> None:
        self.max_threads = 64
        self.idle_seconds = 10.0
        self.stack_size: int | None = None
        self.on_abandoned: AbandonedHandler | None = None
        self.jobs: deque[Job] = deque()
        self.workers: set[Worker] = set()
        self.idle: list[Worker] = []  # who rested last is woken first: its memory is warm, and the others can end
        self.searcher: Worker | None = None
        self._numbers = count(1)

    def submit(self, job: Job) -> None:
        """Have the job run. Does not block but where a thread is started. Cannot fail: the job's Waiter would say so."""
        if sys.is_finalizing():  # CPython 3.11 would wait for a new thread for ever
            job[0].fail(RuntimeError("no worker thread can be started any more: the interpreter is being taken down"))
            return
        self.jobs.append(job)
        if self.searcher is None:
            self.recruit()

    def recruit_if_needed(self) -> None:
        """Send for a worker if jobs wait."""
        if self.jobs:
            self.recruit()

    def recruit(self) -> None:
        """Send a worker to the jobs that wait, a new one if no other rests, unless one is on its way."""
        inside_atomic(self._recruit)

    def _recruit(self) -> None:
        while self.searcher is None:
            try:
                worker = self.idle[-1]
            except IndexError:
                if len(self.workers) < self.max_threads:
                    self._start()
                return
            # From here on the worker does not end; before, it may have decided to. Nothing up to its bell lets a signal
            # handler raise, which would leave a searcher that was never woken.
            self.searcher = worker
            if worker in self.idle:
                try:
                    worker.bell.release()
                except RuntimeError:  # it was rung as its time ran out
                    pass
                worker.counts_again()
                return
            self.searcher = None

    def _start(self) -> None:
        worker = Worker(self, f"roamlet-service-worker-{next(self._numbers)}")
        previous = None
        try:
            self.searcher = worker
            self.workers.add(worker)
            if self.stack_size is not None:
                previous = threading.stack_size(self.stack_size)
            # It waits for the thread, in which a finalizer may run first that wants to be atomic.
            outside_atomic(worker.start)
        except BaseException as error:
            self.workers.discard(worker)
            if self.searcher is worker:
                self.searcher = None
            if not isinstance(error, Exception):
                # A signal handler's, raised who knows where. If the thread runs it counts itself; others need one in any case.
                self.recruit_if_needed()
                raise
            if not self.workers:
                self._fail_all(error)
        finally:
            if previous is not None:
                threading.stack_size(previous)

    def _fail_all(self, cause: Exception) -> None:
        """No thread is there and none can be started: these jobs would never run."""
        while self.jobs:
            failure = RuntimeError(
                f"no worker thread can be started ({cause}), and none is there to wait for: "
                "is a limit on threads (ulimit -u, a container's pids limit) or on memory reached?"
            )
            failure.__cause__ = cause.with_traceback(None)
            self.jobs.popleft()[0].fail(failure)
            del failure  # it must not be kept by this frame, which its cause's traceback may show

    def dismiss_idle(self) -> None:
        """End the workers that rest and wait for their threads: at exit, and before a fork, which warns of threads."""
        dismissed = []
        while self.idle:
            worker = self.idle.pop()
            worker.dismissed = True
            if worker is not self.searcher and worker.bell.locked():  # else it was rung, and a lock is released once
                worker.bell.release()
            dismissed.append(worker)
        for worker in dismissed:
            worker.join(_JOIN_SECONDS)

    def forget_after_fork(self) -> None:
        """We are a forked child, which has none of these threads. What they were to do, the parent's do."""
        waiters = [worker.waiter for worker in self.workers] + [job[0] for job in self.jobs if job]
        self.workers.clear()
        self.idle.clear()
        self.jobs.clear()
        self.searcher = None
        for waiter in waiters:
            if waiter is not None:
                waiter.fail(
                    RuntimeError(
                        "the job of a worker thread was lost in a fork: it goes on in the parent process only. "
                        "Call os.fork() while no tasklet waits for call_async()"
                    )
                )


class Worker(OSThread):
    """One thread of the pool. It holds nothing of a job that it has done."""

    runs_calls_only = True  # for roamlet.scope, which takes no tasklets here: they would not run while it rests

    def __init__(self, pool: Pool, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.waiter: Settled | None = None  # of the job that it runs
        self.dismissed = False
        self.bell = allocate_lock()  # held; released to wake the worker
        self.bell.acquire()
        self._pool = pool

    def counts_again(self) -> None:
        """Say for the woken worker, which may not run for long, that it is about to do something: that is no deadlock."""
        if self.ident is not None:
            mark_service_thread(False, self.ident)

    def run(self) -> None:
        """Do jobs, until there is nothing to do for long enough."""
        pool, jobs = self._pool, self._pool.jobs
        pool.workers.add(self)
        job: Job | None
        try:
            while True:
                try:
                    job = jobs.popleft()
                except IndexError:
                    job = None
                if job is None:  # outside the handler: a thread that rests keeps no exception
                    if self._rest():
                        continue
                    return
                if pool.searcher is self:
                    pool.searcher = None
                    self._pass_on()
                self.waiter = job[0]
                perform(pool, job)
                self.waiter = None
                del job
        finally:
            self._leave()

    def _rest(self) -> bool:
        """Wait for a job; False when this worker is to end."""
        pool = self._pool
        if len(pool.workers) > pool.max_threads or self not in pool.workers:  # too many, or forked from inside a job
            return False
        pool.idle.append(self)
        if pool.searcher is self:
            pool.searcher = None
        # A thread that brought a job before the two lines above may have relied on the searcher, or found no worker resting.
        self._pass_on()
        # While it rests it wakes no tasklet, and hides no deadlock; a job may do anything. Not earlier, and not if it was sent
        # for by now: a thread that has brought a job and relies on this one may go to sleep at any moment. No other thread
        # comes in between the look and the call.
        if pool.searcher is not self:
            mark_service_thread()
        woken = self.bell.acquire(timeout=pool.idle_seconds)
        mark_service_thread(False)
        self._rests_no_more()
        return (woken or pool.searcher is self) and not self.dismissed

    def _rests_no_more(self) -> None:
        try:
            self._pool.idle.remove(self)
        except ValueError:
            pass

    def _pass_on(self) -> None:
        """Send another worker if jobs wait."""
        try:
            self._pool.recruit_if_needed()
        except (
            BaseException
        ):  # a warning that is an error: somebody is in atomic code for long. The next submit() sends one
            sys.excepthook(*sys.exc_info())

    def _leave(self) -> None:
        """The thread ends, as it was told to or by a fault. Who relied on it gets another."""
        pool = self._pool
        self._rests_no_more()
        pool.workers.discard(self)
        if pool.searcher is self:
            pool.searcher = None
        if self.waiter is not None:
            self.waiter.fail(RuntimeError(f"the worker thread {self.name} died in the middle of a job"))
        self._pass_on()


def withdraw(jobs: deque[Job], job: Job) -> None:
    """No tasklet waits for the job any more: it is not begun if it has not been."""
    try:
        job[0].succeed(None)  # a worker may have taken it and not begun it
        jobs.remove(job)
    except (IndexError, ValueError):  # it has begun, or a worker has taken it
        pass


def perform(pool: Pool, job: Job) -> None:
    """Run a job and settle its Waiter. A function of its own, so that its frame goes with everything that is in it."""
    waiter: Settled
    function: Callable[[], Any]
    context: Context
    waiter, function, context = job
    job.clear()
    try:
        if waiter.done:  # withdrawn
            return
        result = context.run(function)
    except BaseException as error:  # whatever it is, the caller gets it, as if it had made the call itself
        # By a function: no variable of this frame has the traceback when the waiting tasklet goes on.
        if not waiter.fail(without_first_frame(error)):
            _report_abandoned(pool, function, None, error)
    else:
        if not waiter.succeed(result):
            _report_abandoned(pool, function, result, None)
        del result
    finally:
        # The frames in an error's traceback lead back to this one: an error must not keep what the call was made with,
        # which may be what keeps the error.
        del waiter, function, context


def _report_abandoned(pool: Pool, function: Callable[[], Any], result: object, error: BaseException | None) -> None:
    """Whoever waited for this job was killed, cancelled or ran out of time while it ran: say what became of it."""
    try:
        if pool.on_abandoned is not None:
            pool.on_abandoned(function, result, error)
            return
        import logging  # here, because it costs milliseconds at start-up and few programs come here

        logger = logging.getLogger("roamlet.io.workers")
        if error is None:
            logger.debug("an abandoned job has returned: %r", function)
        else:
            logger.warning("an abandoned job has failed: %r", function, exc_info=error)
    except BaseException:  # the handler's own: the worker has others to serve
        sys.excepthook(*sys.exc_info())


pool = Pool()
atexit.register(pool.dismiss_idle)
os.register_at_fork(before=pool.dismiss_idle, after_in_child=pool.forget_after_fork)
