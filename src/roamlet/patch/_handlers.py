"""Signal handlers that run while all tasklets of their thread wait: no tasklet can be suspended then.

So what they wait for blocks the thread, as it does without the patch. Only what no tasklet of the thread has to end is waited for
so: time, and children.
"""

import select
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

import roamlet.core
from roamlet.core import getcurrent, os_threads
from roamlet.io import _native, _originals

# So long the thread sleeps at most until a signal that another thread has received is looked at.
_LONGEST_SLEEP = 1.0


def started_thread(function: Callable[..., object]) -> Any:
    """The Thread whose first function this is, where such a handler of the main thread starts it; else None.

    Thread.start() would wait until it runs, which this thread's tasklets cannot do before the handler has returned.
    """
    thread = getattr(function, "__self__", None)
    if isinstance(thread, threading.Thread) and os_threads.in_main_thread() and getcurrent().blocked:
        return thread
    return None


def sleep(seconds: float) -> None:
    """roamlet.sleep(), also in such a handler."""
    try:
        roamlet.core.sleep(seconds)
    except RuntimeError:
        if not getcurrent().blocked:  # it would be running
            raise
    else:
        return
    _originals.sleep(seconds)


def wait_readable(fd: int, timeout: float | None = None) -> None:
    """As of roamlet.io, also in such a handler. TimeoutError when it was not readable in time."""
    try:
        _native.wait_readable(fd, timeout)
    except RuntimeError:
        if not getcurrent().blocked:
            raise
    else:
        return
    end = None if timeout is None else monotonic() + timeout
    look = _originals.poll()
    look.register(fd, select.POLLIN)
    while True:
        left = _LONGEST_SLEEP if end is None else min(end - monotonic(), _LONGEST_SLEEP)
        if look.poll(max(left, 0) * 1000):
            return
        if left <= 0:
            raise TimeoutError(f"descriptor {fd} was not readable within {timeout} seconds")
