"""Threads of roamlet's own, which do work on behalf of others and wake no tasklet by themselves."""

import threading
from collections.abc import Callable

from roamlet.core import mark_service_thread
from roamlet.core.os_threads import OSThread


def start_thread(function: Callable[[], object], name: str) -> threading.Thread:
    """Run `function` in a daemon thread that deadlock detection knows as roamlet's own; return the started Thread.

    Returns when the thread is known, which takes a moment of this thread's time.
    """
    if not callable(function):
        raise TypeError(f"start_thread() takes a callable without arguments, not {function!r}")
    known = threading.Event()

    def serve() -> None:
        mark_service_thread()
        known.set()
        function()

    thread = OSThread(target=serve, name=name, daemon=True)
    thread.start()
    known.wait()
    return thread
