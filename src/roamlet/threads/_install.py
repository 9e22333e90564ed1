"""Putting our classes into threading and queue, and taking them out again."""

import functools
import queue
import threading
from typing import Any

import roamlet.sync
from roamlet.core import outside_atomic
from roamlet.sync import _native

# What is left alone: _thread.allocate_lock, which importlib, the start and end of threads and C code use and look into, and with
# it what threading made for itself before we came; Thread itself takes its Event from the module and so gets ours.
NAMES = {
    threading: ("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "Event", "Barrier"),
    queue: ("Queue", "LifoQueue", "PriorityQueue", "SimpleQueue"),
}

_originals: dict[tuple[Any, str], object] = {}

_join = threading.Thread.join


@functools.wraps(_join)
def _join_outside_atomic(self: threading.Thread, timeout: float | None = None) -> None:
    """The thread that ends may need atomic code for that; join() itself waits for a lock that is not ours."""
    outside_atomic(_join, (self, timeout))


def install() -> None:
    """Put roamlet's classes into threading and queue, for all that is made from now on. Once is enough.

    Thread.join() gives up roamlet.atomic() from now on while it waits, as all that waits in these classes does.

    Modules that have taken a class by name (`from threading import Lock`) keep what they have: call this before they are
    imported. A wait for one of these classes is then never a Deadlock: a signal handler may end it.
    """
    for module, names in NAMES.items():
        for name in names:
            ours = getattr(roamlet.sync, name)
            found = getattr(module, name)
            if found is not ours:
                _originals[module, name] = found
                setattr(module, name, ours)
    if threading.Thread.join is _join:
        _originals[threading.Thread, "join"] = _join
        setattr(threading.Thread, "join", _join_outside_atomic)  # noqa: B010 - a method is not to be assigned to
    _native.wait_for_signals(True)


def uninstall() -> None:
    """Put back what install() has replaced; objects that were made meanwhile stay what they are."""
    while _originals:
        (module, name), original = _originals.popitem()
        setattr(module, name, original)
    _native.wait_for_signals(False)
