"""Calls on threads while a tasklet waits: call_on_thread() is roamlet's call_async() unless a pool or a stack size is given."""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from roamlet import TaskletExit, io
from roamlet.core.os_threads import OSThread

from .errors import CancelledError
from .locks import released
from .util import tasklet_call
from .util import timeout as limit

__all__ = ["DummyThreadPool", "SimpleThreadPool", "call_on_thread"]

Job = Callable[[], object]


class DummyThreadPool:
    """A new thread for each job, with a C stack of `stack_size` bytes."""

    def __init__(self, stack_size: int | None = None) -> None:
        self.stack_size = stack_size

    def start_thread(self, target: Job) -> threading.Thread:
        """Start a thread."""
        before = None if self.stack_size is None else threading.stack_size(self.stack_size)
        try:
            thread = OSThread(target=target)
            thread.start()
            return thread
        finally:
            if before is not None:
                threading.stack_size(before)

    def submit(self, job: Job) -> None:
        """Have a job run."""
        self.start_thread(job)

    def shutdown(self, wait: bool = True) -> None:
        """Nothing: threads end with their jobs."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.shutdown()


class SimpleThreadPool(DummyThreadPool):
    """At most `n_threads` threads, started when there is work and ended by shutdown()."""

    def __init__(self, n_threads: int | None = 1, stack_size: int | None = None) -> None:
        super().__init__(stack_size)
        self.threads_max = n_threads if n_threads is not None else 64
        self.threads_n = 0
        self.threads_executing = 0
        self.cond = threading.Condition()
        self.queue: deque[Job] = deque()

    def submit(self, job: Job) -> None:
        """Have a job run by the next thread that is free."""
        with self.cond:
            if self.threads_executing + len(self.queue) >= self.threads_n and self.threads_n < self.threads_max:
                self.threads_n += 1
                try:
                    self.start_thread(self._work)
                except BaseException:
                    self.threads_n -= 1
                    raise
            self.queue.append(job)
            self.cond.notify()

    def shutdown(self, wait: bool = True) -> None:
        """End the threads when they have done what they are at; jobs that wait are not begun. Blocks the thread if `wait`."""
        with self.cond:
            self.threads_max = 0
            self.cond.notify_all()
            while wait and self.threads_n:
                self.cond.wait()

    def _work(self) -> None:
        with self.cond:
            try:
                while True:
                    while not self.queue and self.threads_n <= self.threads_max:
                        self.cond.wait()
                    if self.threads_n > self.threads_max:
                        return
                    job = self.queue.popleft()
                    self.threads_executing += 1
                    try:
                        with released(self.cond):
                            job()
                    finally:
                        self.threads_executing -= 1
                        del job
            finally:
                self.threads_n -= 1
                self.cond.notify_all()


def call_on_thread(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] = {},
    stack_size: int | None = None,
    pool: Any = None,
    timeout: float | None = None,
    on_abandoned: Callable[[], object] | None = None,
) -> Any:
    """function(*args, **kwargs) on another thread: its result, or its exception raised here. Blocks this tasklet only.

    TimeoutError after `timeout` seconds. When this tasklet does not wait to the end, on_abandoned() is called in it; the function
    goes on. With a stack_size it gets a thread of its own.
    """
    if pool is not None or stack_size is not None:
        submit = (pool or DummyThreadPool(stack_size)).submit
        return tasklet_call(function, args, kwargs, dispatcher=submit, timeout=timeout, on_abandoned=on_abandoned)
    done: list[bool] = []

    def work() -> Any:
        try:
            return function(*args, **kwargs)
        except TaskletExit as killed:
            raise CancelledError(*killed.args) from None
        finally:
            done.append(True)

    try:
        with limit(timeout):
            return io.call_async(work)
    finally:
        if on_abandoned is not None and not done:
            on_abandoned()
