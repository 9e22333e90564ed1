"""Calling what blocks from a tasklet: the call runs on a worker thread while the tasklet waits."""

from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from typing import Never, TypeVar

from roamlet.core import Waiter
from roamlet.io._workers.pool import Job, pool, withdraw

T = TypeVar("T")


def call_async(function: Callable[[], T], *refused: Never, **refused_too: Never) -> T:
    """Call `function`, which may block, on a worker thread; return what it returns, raise what it raises.

    Blocks this tasklet only; works in any thread, also one without tasklets. `function` takes no arguments, runs in a copy
    of the caller's context (contextvars), and must be safe to call in another thread. A tasklet that is killed, cancelled
    or timed out meanwhile goes on at once: a call that has not begun is not made; one that has cannot be stopped, and its
    outcome goes to roamlet.io.workers' handler of abandoned jobs, by default to the log. RuntimeError when not one
    thread can be started, or when the process is a fork of the one where the call was made.
    """
    if not callable(function) or refused or refused_too:
        what = f"not {function!r}" if not callable(function) else f"and none for {function!r}"
        raise TypeError(
            f"call_async() takes a callable without arguments, {what}: wrap the call in a lambda, "
            "call_async(lambda: function(argument))"
        )
    waiter: Waiter[T] = Waiter()
    job: Job = [waiter, function, copy_context()]
    try:
        pool.submit(job)
        return waiter.wait()
    except BaseException:
        waiter.succeed()  # abandoned, also where the wait had not begun and the job has
        withdraw(pool.jobs, job)
        raise
    finally:
        del function, job  # an exception's traceback leads here, and must not keep what the call needed


def iterate_async(iterable: Iterable[T]) -> Iterator[T]:
    """Yield what `iterable` yields, each item fetched on a worker thread while only this tasklet waits.

    For downloads in chunks, rows of a cursor, lines of a slow file: iter() and every next() of `iterable` run there, one
    at a time, though not always in the same thread. Any item is handed on as it is, None too. Errors as call_async's.
    Whoever leaves the loop early closes `iterable` itself, if it needs that.
    """
    # Compared by identity with what next() gives at the end: no item can be it.
    end = object()
    iterator: Iterator[T] | None = None

    def fetch() -> object:
        nonlocal iterator
        if iterator is None:
            iterator = iter(iterable)
        return next(iterator, end)

    while True:
        item = call_async(fetch)
        if item is end:
            return
        yield item  # type: ignore[misc] # not the end, so it is a T
