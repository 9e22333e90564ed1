"""The settings of the worker threads behind `roamlet.io.call_async`, files and DNS, and what they are doing."""

import threading
from typing import NamedTuple

from roamlet.io._workers.pool import AbandonedHandler, pool

__all__ = ["AbandonedHandler", "Status", "configure", "status"]


class Status(NamedTuple):
    """How many worker threads there are, how many of them rest, and how many jobs have not begun."""

    threads: int
    idle: int
    queued: int


class _Unchanged:
    def __repr__(self) -> str:
        return "unchanged"


_UNCHANGED = _Unchanged()
_LARGEST = 10_000


def configure(
    *,
    max_threads: int | _Unchanged = _UNCHANGED,
    idle_seconds: float | _Unchanged = _UNCHANGED,
    stack_size: int | _Unchanged | None = _UNCHANGED,
    on_abandoned: AbandonedHandler | _Unchanged | None = _UNCHANGED,
) -> None:
    """Set what is given, for the whole process; nothing is set when one of the values is refused.

    max_threads (1 to 10,000; at first 64): how many jobs run at once; others wait. With fewer than there are, threads end as
    they come to rest.
    idle_seconds (0 to a day; at first 10): how long a thread rests before it ends; for one that rests, from its next rest on.
    stack_size, in bytes (256 KiB to 1 GiB): of threads that start from now on; None, as at first, is the process's
    (threading.stack_size). A larger one costs address space only. CPython's limits of recursion assume up to 8 MiB: below 2,
    recursion in C may end the process where RecursionError was due. While such a thread starts, one that somebody else
    starts may get the same size.
    on_abandoned(function, result, error): called in the worker thread when a job has ended that no tasklet waits for any more;
    error is None when it returned. None, as at first: errors are logged as warnings of the logger roamlet.io.workers, results
    as debug messages.
    Thread-safe; does not block. Raises TypeError, ValueError.
    """
    if not isinstance(max_threads, _Unchanged):
        _require_number("max_threads", max_threads, int, 1, _LARGEST)
    if not isinstance(idle_seconds, _Unchanged):
        _require_number("idle_seconds", idle_seconds, (int, float), 0, 86400)
    if not isinstance(stack_size, _Unchanged) and stack_size is not None:
        _require_number("stack_size", stack_size, int, 256 * 1024, 1 << 30)
        threading.stack_size(threading.stack_size(stack_size))  # what the platform refuses is refused here
    if not isinstance(on_abandoned, _Unchanged) and not (on_abandoned is None or callable(on_abandoned)):
        raise TypeError(f"on_abandoned must be a callable or None, not {on_abandoned!r}")
    if not isinstance(max_threads, _Unchanged):
        pool.max_threads = max_threads
        pool.recruit_if_needed()
    if not isinstance(idle_seconds, _Unchanged):
        pool.idle_seconds = idle_seconds
    if not isinstance(stack_size, _Unchanged):
        pool.stack_size = stack_size
    if not isinstance(on_abandoned, _Unchanged):
        pool.on_abandoned = on_abandoned


def _require_number(name: str, value: float, kind: type | tuple[type, ...], least: float, most: float) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number ({'int' if kind is int else 'int or float'}), not {value!r}")
    if not least <= value <= most:
        raise ValueError(f"{name} must be from {least:,} to {most:,}, not {value!r}")


def status() -> Status:
    """What the workers do at this moment. Thread-safe; does not block."""
    return Status(len(pool.workers), len(pool.idle) - (pool.searcher in pool.idle), len(pool.jobs))
