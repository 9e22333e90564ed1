"""The background threads that contexts share: one for the links, one for users' callbacks, one for finding modules.

Each runs tasklets. They exist while a context is open: the first `acquire` makes them, the last `release` ends them and
waits until they have ended. What is separate here is separate because it may take long: a callback that blocks its thread
stalls no call, and neither does a large package that is being read and compressed.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable

from roamlet import io
from roamlet.core import Waiter, mark_service_thread, os_threads, outside_atomic, schedule, tasklet, thread_ends
from roamlet.core.os_threads import RLock, allocate_lock

JOIN = 5.0  # seconds

Job = Callable[[], None]

_log = logging.getLogger("roamlet.remote")


class TaskletThread:
    """An OS thread that runs each job as a tasklet of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        # Re-entrant: the collector may run a context's __del__ in the middle of `post`, which posts as well.
        self._lock = RLock()
        self._jobs: deque[Job] = deque()
        self._wake: Waiter[None] = Waiter()
        self._ending = False
        self._wakers = 0
        self._thread = io.start_thread(self._main, name)

    def post(self, job: Job) -> bool:
        """Run `job` in that thread soon, after those posted before. Thread-safe, never blocks. What it raises is logged.

        False when the thread is ending; the job is dropped then, because no context is left.
        """
        with self._lock:
            if self._ending:
                return False
            self._jobs.append(job)
        self._wake.succeed()
        return True

    def may_wake(self, change: int) -> None:
        """Add `change` to the number of things through which this thread may wake tasklets that it does not know of.

        While there are any, a tasklet that waits on a channel alone is no deadlock. Thread-safe, never blocks.
        """
        with self._lock:
            self._wakers += change
            ident = self._thread.ident
            if ident is not None:
                mark_service_thread(not self._wakers, ident)

    @property
    def thread(self) -> threading.Thread:
        return self._thread

    def is_current(self) -> bool:
        return os_threads.current_thread() is self._thread

    def stop(self) -> None:
        """Let the jobs that were posted start, then end the thread. Their tasklets must not need it any more."""
        with self._lock:
            self._ending = True
        self._wake.succeed()

    def join(self) -> None:
        """Wait until the thread has ended; it was told to. Blocks the calling thread, for an instant, outside of atomic code.

        A callback of the user's that blocks its thread for ever is abandoned in it.
        """
        if not self.is_current():
            outside_atomic(self._thread.join, (JOIN,))

    def _main(self) -> None:
        while True:
            wake = self._wake = Waiter()  # set before the look at the jobs: a `post` after that look wakes this one
            while self._jobs:
                tasklet(_guarded)(self._jobs.popleft())
            try:
                if self._ending:
                    schedule()  # each job begins: then the end of the thread is raised in it, and it tells what waits for it
                    return
                wake.wait()
            except BaseException:  # of a tasklet that a job or an output function started; the thread goes on
                if thread_ends():
                    raise
                _log.exception("a tasklet failed that was started in the thread %r, which serves contexts", self.name)


def _guarded(job: Job) -> None:
    try:
        job()
    except Exception:
        _log.exception("a background job of roamlet.remote failed; this is a mistake in roamlet")


class Threads:
    """The three threads, and how many contexts need them."""

    def __init__(self) -> None:
        self.links: TaskletThread = TaskletThread("roamlet-links")
        self.callbacks: TaskletThread = TaskletThread("roamlet-callbacks")
        self.modules: TaskletThread = TaskletThread("roamlet-modules")
        self.users = 0


_lock = allocate_lock()
_threads: Threads | None = None


def acquire() -> Threads:
    """The threads, for one more context. Pair it with `release`."""
    global _threads  # noqa: PLW0603 - they belong to the process
    with _lock:
        if _threads is None:
            _threads = Threads()
        _threads.users += 1
        return _threads


def release(threads: Threads) -> None:
    """One context less; the last one ends the threads."""
    global _threads  # noqa: PLW0603 - they belong to the process
    with _lock:
        threads.users -= 1
        if threads.users:
            return
        if _threads is threads:
            _threads = None
    for thread in (threads.links, threads.callbacks, threads.modules):
        thread.stop()
    for thread in (threads.links, threads.callbacks, threads.modules):
        thread.join()


def forget_after_fork() -> None:
    """In a forked child: the threads stayed with the parent, and so did their locks, in whatever state."""
    global _threads, _lock  # noqa: PLW0603 - they belong to the process
    _lock = allocate_lock()
    _threads = None
