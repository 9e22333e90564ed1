"""The area `locks`: roamlet.sync's classes in threading and queue, and Thread.join, which waits for a lock of C's otherwise.

What makes its locks by these names follows: concurrent.futures, logging, sched, Timer, multiprocessing's queues and pools.
Left as they are: locks that exist already, and _thread's own.
"""

import functools
import os
import sys
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

import roamlet.sync
from roamlet.core import os_threads, outside_atomic, sleep
from roamlet.io import _originals
from roamlet.patch import _handlers
from roamlet.patch._after_import import after_import
from roamlet.patch._asking import pauses
from roamlet.patch.changes import Changes
from roamlet.sync import Event, Lock, _native
from roamlet.threads._install import NAMES

# Where a thread's end is kept for those that join it.
_ENDED = "_roamlet_ended"

# Seconds. A joined thread that says nothing of its end is looked at so often: one that a forked child does not have.
_LOOK_AGAIN = 1.0


def apply(changes: Changes) -> None:
    """Replace the classes of threading and queue, and what Thread.join waits for."""
    for module, names in NAMES.items():
        for name in names:
            ours = getattr(roamlet.sync, name)
            if getattr(module, name) is not ours:  # roamlet.threads may have been here
                changes.replace(module, name, ours)
    _native.wait_for_signals(True)
    changes.on_undo(lambda: _native.wait_for_signals(False))
    starts = "_start_new_thread" if sys.version_info < (3, 13) else "_start_joinable_thread"
    changes.replace(threading, starts, _starting(vars(threading)[starts]))
    changes.replace(threading.Thread, "_delete", _telling(vars(threading.Thread)["_delete"]))
    if sys.version_info < (3, 13):
        wait = vars(threading.Thread)["_wait_for_tstate_lock"]
        changes.replace(threading.Thread, "_wait_for_tstate_lock", _waiting_for_tstate_lock(wait))
    else:
        changes.replace(threading.Thread, "join", _joining(vars(threading.Thread)["join"]))
    after_import(changes, "concurrent.futures.thread", lambda module: _free_executors(changes, module))


def _starting(original: Callable[..., Any]) -> Callable[..., Any]:
    """What Thread.start calls before it waits until the thread runs. A signal handler cannot while all tasklets wait: here."""

    @functools.wraps(original)
    def start(function: Callable[..., object], *args: Any, **options: Any) -> Any:
        started = original(function, *args, **options)
        thread = _handlers.started_thread(function)
        if thread is not None:
            for pause in pauses():
                if thread._started.is_set():
                    break
                _originals.sleep(pause)
        return started

    return start


def _telling(original: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    """Thread._delete, the last method of a thread that ends."""

    @functools.wraps(original)
    def _delete(self: threading.Thread) -> None:
        try:
            original(self)
        finally:
            _end_of(self).set()

    return _delete


def _end_of(thread: threading.Thread) -> Event:
    """What is set when the thread's Python code is over. The first caller makes it."""
    ended: Event = vars(thread).setdefault(_ENDED, Event())
    return ended


def _wait_for_end(thread: threading.Thread, over: Callable[[], bool], timeout: float | None) -> bool:
    """Block this tasklet until over(); False when `timeout` seconds have passed first.

    A thread ends after its Python code does: its thread-local objects and its tasklets are ended in between.
    """
    deadline = None if timeout is None else monotonic() + timeout
    ended, pause = _end_of(thread), pauses()
    while not over():
        left = None if deadline is None else deadline - monotonic()
        if left is not None and left <= 0:
            return False
        if ended.is_set() or thread is threading.main_thread():  # which ends without _delete
            sleep(next(pause) if left is None else min(next(pause), left))
        else:
            ended.wait(_LOOK_AGAIN if left is None else min(_LOOK_AGAIN, left))
    return True


def _waiting_for_tstate_lock(original: Callable[..., None]) -> Callable[..., None]:
    """Thread._wait_for_tstate_lock of CPython 3.11 and 3.12."""

    @functools.wraps(original)
    def _wait_for_tstate_lock(self: Any, block: bool = True, timeout: float = -1) -> None:
        def over() -> bool:
            original(self, False)  # takes the lock if it is free, and notes that the thread has stopped
            return self._tstate_lock is None

        lock = self._tstate_lock
        if isinstance(lock, Lock):  # of a thread that is a tasklet: no other is stopped
            if lock.acquire(block, timeout):
                lock.release()
                self._stop()
        elif not block or lock is None:
            original(self, block, timeout)
        else:
            _wait_for_end(self, over, None if timeout < 0 else timeout)

    return _wait_for_tstate_lock


def _joining(original: Callable[..., None]) -> Callable[..., None]:
    """Thread.join of CPython 3.13 and later, where the handle of a thread is waited for."""

    @functools.wraps(original)
    def join(self: Any, timeout: float | None = None) -> None:
        handle = getattr(self, "_handle", None)
        if (
            not isinstance(handle, os_threads.ThreadHandle)
            or not self._started.is_set()
            or self is threading.current_thread()
        ):
            original(self, timeout)  # a tasklet; or it says why not
            return
        limit = None if timeout is None else max(timeout, 0)
        if _wait_for_end(self, handle.is_done, limit):
            outside_atomic(original, (self,))

    return join


def _free_executors(changes: Changes, module: Any) -> None:
    """The lock of all executors is held while one starts a thread and waits for it: one of C's would stop the next tasklet."""
    if not isinstance(module._global_shutdown_lock, Lock):
        changes.replace(module, "_global_shutdown_lock", _lock_of_executors)


_lock_of_executors = Lock()
os.register_at_fork(after_in_child=_lock_of_executors._at_fork_reinit)
