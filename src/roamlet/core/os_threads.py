"""Threads of the operating system as they were when roamlet was imported: roamlet.patch may make tasklets of all others.

What is in roamlet and means the thread, not the tasklet, asks here: who am I, start a thread, a lock that blocks the thread, values
of the thread.
"""

import _thread
import os
import threading
from _thread import RLock, allocate_lock, get_ident
from _thread import _local as thread_local
from collections.abc import Callable
from typing import Any

__all__ = [
    "OSThread",
    "RLock",
    "allocate_lock",
    "current_thread",
    "get_ident",
    "in_main_thread",
    "main_ident",
    "thread_local",
]

# CPython 3.13 and later; None where a thread has no such object.
ThreadHandle: Any = getattr(_thread, "_ThreadHandle", None)

_main = [threading.main_thread().ident]


def main_ident() -> int:
    """Return the id of the process's main thread: after a fork that is the thread that has forked."""
    ident = _main[0]
    assert ident is not None  # it runs
    return ident


def in_main_thread() -> bool:
    """Whether this is the process's main thread, in whichever tasklet."""
    return get_ident() == _main[0]


def _after_fork() -> None:
    _main[0] = get_ident()


os.register_at_fork(after_in_child=_after_fork)


def current_thread() -> threading.Thread | None:
    """Return the Thread of this thread, in whichever tasklet; None for one that threading does not know."""
    active: dict[int, threading.Thread] = threading._active  # type: ignore[attr-defined]
    return active.get(get_ident())


class OSThread(threading.Thread):
    """A Thread that is one of the operating system, also under roamlet.patch with threads="tasklets"."""

    def __init__(
        self,
        *,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: tuple[Any, ...] = (),
        daemon: bool | None = None,
    ) -> None:
        super().__init__(target=target, name=name, args=args, daemon=daemon)
        if ThreadHandle is not None:
            self._handle = ThreadHandle()
