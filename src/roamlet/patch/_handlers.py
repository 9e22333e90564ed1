"""Waits in a signal handler that runs while all tasklets of its thread wait: no tasklet can be suspended, so they block the thread.

That is what they do without the patch. Only what no tasklet of the thread has to end is waited for so: time, and children.
"""

import select
from time import monotonic

import roamlet.core
from roamlet.core import getcurrent
from roamlet.io import _native, _originals

# So long the thread sleeps at most until a signal that another thread has received is looked at.
_LONGEST_SLEEP = 1.0


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
