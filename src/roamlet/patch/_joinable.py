"""Threads that are tasklets, in CPython 3.13 and later: a Thread has a handle there, by which it is started and joined."""

import _thread
import os
import threading
from collections.abc import Callable
from typing import Any, Protocol

from roamlet.core import getcurrentid, os_threads
from roamlet.patch import _handlers
from roamlet.patch.changes import Changes
from roamlet.patch.functions import stands_for
from roamlet.sync import Event, local

_start_os_thread: Any = getattr(_thread, "start_joinable_thread", None)
_make_os_handle: Any = getattr(_thread, "_make_thread_handle", None)

# Handles of threads that the program waits for at its end.
_awaited: set["Handle"] = set()


class Handle:
    """_thread._ThreadHandle of a thread that is a tasklet."""

    __slots__ = ("__weakref__", "_ended", "_process", "ident")

    def __init__(self) -> None:
        self.ident = 0
        self._ended = Event()
        self._process = 0

    def begin(self, ident: int) -> None:
        """It runs from now on, in this process."""
        self.ident = ident
        self._process = os.getpid()

    def is_done(self) -> bool:
        """Whether it has ended. A forked child has the tasklet that has forked alone."""
        if self._process != os.getpid() and self._process and self.ident != getcurrentid():
            self._set_done()
        return self._ended.is_set()

    def _set_done(self) -> None:
        self._ended.set()
        _awaited.discard(self)

    def join(self, timeout: float | None = None) -> None:
        """Block this tasklet until it has ended, or `timeout` seconds have passed; a negative one is no limit."""
        if self.is_done():
            return
        if not self._process:
            raise RuntimeError("thread not started")
        if self.ident == getcurrentid():
            raise RuntimeError("Cannot join current thread")
        self._ended.wait(None if timeout is None or timeout < 0 else timeout)


class Threads(Protocol):
    """What areas/threads.py does, whichever version of CPython asks for it."""

    def start(self, function: Callable[..., object], /, *args: Any) -> int: ...
    def run_plain(self, function: Callable[..., object], args: Any, kwargs: Any, /) -> None: ...
    def at_end(self, function: Callable[[], object], /) -> None: ...
    def refuse_at_exit(self) -> None: ...
    def let_start_return(self, thread: Any, ident: int, /) -> None: ...


def _starting(threads: Threads) -> Callable[..., Any]:
    """_thread.start_joinable_thread, by a tasklet."""

    def start(function: Callable[[], object], handle: Any = None, daemon: bool = True) -> Any:
        if not callable(function):
            raise TypeError("thread function must be callable")
        if isinstance(handle, os_threads.ThreadHandle):  # of roamlet's own, or made before
            return _start_os_thread(function, handle=handle, daemon=daemon)
        handle = Handle() if handle is None else handle
        if not isinstance(handle, Handle):
            raise TypeError("'handle' must be a _ThreadHandle")
        if handle.ident:
            raise RuntimeError("thread already started")
        threads.refuse_at_exit()
        if not daemon:
            _awaited.add(handle)
        thread = _handlers.started_thread(function)
        handle.begin(threads.start(run, function, handle))
        if thread is not None:
            threads.let_start_return(thread, handle.ident)
        return handle

    def run(function: Callable[[], object], handle: Handle) -> None:
        threads.at_end(handle._set_done)
        threads.run_plain(function, (), {})

    return start


def apply(changes: Changes, threads: Threads) -> None:
    """Replace what threading.Thread of these versions calls."""
    start = stands_for(_start_os_thread)(_starting(threads))
    shutdown: Callable[[], object] = threading._thread_shutdown  # type: ignore[attr-defined]

    def wait_for_all() -> None:
        while _awaited:
            handle = next(iter(_awaited))
            handle.join()
            _awaited.discard(handle)
        shutdown()

    def make_handle(ident: int) -> Any:
        if ident == os_threads.get_ident():
            return _make_os_handle(ident)
        handle = Handle()
        handle.begin(ident)
        return handle

    changes.replace(_thread, "start_joinable_thread", start)
    changes.replace(threading, "_start_joinable_thread", start)
    changes.replace(threading, "_ThreadHandle", Handle)
    changes.replace(threading, "_make_thread_handle", make_handle)
    changes.replace(threading, "_thread_shutdown", wait_for_all)
    changes.replace(
        threading, "_thread_local_info", local()
    )  # what removes the Thread objects of those that are no Thread
