"""The area `threads`, asked for by threads="tasklets": what starts a thread starts a tasklet of the process's main thread.

threading.Thread stays the class that it is, and so do Timer, ThreadPoolExecutor and all else that stands on it: what it calls in
`_thread` is replaced. CPython 3.13 has other names there: _joinable.py. Threads of roamlet's own (roamlet.core.os_threads) stay
threads of the operating system.
"""

import _thread
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import Context
from typing import Any, cast

import roamlet.core
from roamlet.core import TaskletExit, getcurrent, getcurrentid, os_threads, tasklet
from roamlet.io import _native
from roamlet.patch import _handlers, _handlers_in_main, forks
from roamlet.patch._after_import import after_import
from roamlet.patch.changes import Changes
from roamlet.patch.functions import stands_for
from roamlet.sync import Lock, RLock, SimpleQueue, local

_start_os_thread = _thread.start_new_thread
_count_os_threads = _thread._count
_pthread_kill: Any = getattr(signal, "pthread_kill", None)
_pthread_getcpuclockid: Any = getattr(time, "pthread_getcpuclockid", None)

# By id, until they end: a thread lives for as long as it runs, whatever refers to it.
_running: dict[int, tasklet[...]] = {}


def _forget_others() -> None:
    """A forked child has the tasklet that has forked alone."""
    ident = getcurrentid()
    for other in [each for each in _running if each != ident]:
        del _running[other]


os.register_at_fork(after_in_child=_forget_others)

# Of the tasklet: `ends` are called at its end, `dummy` removes the Thread object that stands for one that is no thread.
_own = local()


def apply(changes: Changes) -> None:
    """Replace what threading.Thread and _thread start, and which thread is running. The areas `locks` and `local` are in place."""
    for module in (threading, _thread):
        changes.replace(module, "get_ident", getcurrentid)
    for name in ("start_new_thread", "start_new"):
        changes.replace(_thread, name, start_new_thread)
    for name in ("allocate_lock", "allocate"):
        changes.replace(_thread, name, Lock)
    changes.replace(_thread, "RLock", RLock)
    changes.replace(_thread, "_local", local)
    changes.replace(_thread, "_count", _count)
    changes.replace(threading, "_CRLock", RLock)
    changes.replace(threading, "_allocate_lock", Lock)
    changes.replace(threading, "_make_invoke_excepthook", lambda: _invoke_excepthook)
    if _pthread_kill is not None:
        changes.replace(signal, "pthread_kill", pthread_kill)
    if _pthread_getcpuclockid is not None:
        changes.replace(time, "pthread_getcpuclockid", pthread_getcpuclockid)
    if sys.version_info < (3, 13):
        _before_313(changes)
    else:
        from roamlet.patch import _joinable  # what it stands on is not there before

        _joinable.apply(changes, cast(_joinable.Threads, sys.modules[__name__]))
    after_import(changes, "concurrent.futures.thread", lambda module: _suit_executors(changes, module))
    _handlers_in_main.apply(changes, _raise_in_main)
    changes.on_undo(_leave_running)
    forks.want()
    changes.on_undo(forks.unwant)


def _before_313(changes: Changes) -> None:
    """A Thread's end is a lock that is released by the thread state's, and its start is that of a plain thread."""
    original = _thread._set_sentinel  # type: ignore[attr-defined]
    for module in (threading, _thread):
        changes.replace(module, "_set_sentinel", lambda: original() if getcurrent().is_main else _sentinel())
    changes.replace(threading, "_start_new_thread", start_new_thread)
    changes.replace(threading, "_shutdown_locks_lock", Lock())  # held by one tasklet while another is joined
    changes.replace(threading, "_maintain_shutdown_locks", _maintaining(threading._maintain_shutdown_locks))  # type: ignore[attr-defined]
    changes.replace(threading, "_DummyThread", _dummy_thread())


def _suit_executors(changes: Changes, module: Any) -> None:
    """Let others run between jobs, which CPython 3.12 takes without a wait, and let run() return while idle workers wait."""
    init, run_job = module.ThreadPoolExecutor.__init__, module._WorkItem.run

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        if isinstance(self._work_queue, SimpleQueue):
            self._work_queue._idle = True

    @functools.wraps(run_job)
    def run(*args: Any) -> None:
        run_job(*args)
        _native.let_others_run()

    changes.replace(module.ThreadPoolExecutor, "__init__", __init__)
    changes.replace(module._WorkItem, "run", run)


# ---- starting and ending ----


def start(body: Callable[..., object], *args: Any) -> int:
    """Start a tasklet of the main thread, which calls body(*args) with no context variables; return its id. Does not switch."""
    started = tasklet(_life, (body, args))
    started.set_context(Context())
    if not os_threads.in_main_thread():
        started.bind_thread(os_threads.main_ident())
    ident = id(started)
    _running[ident] = started
    started.insert()
    return ident


def _life(body: Callable[..., object], args: tuple[Any, ...]) -> None:
    if threading.gettrace() is not None or threading.getprofile() is not None:
        # Thread calls sys.settrace(), which is for all tasklets of the thread that have no trace function of their own.
        me = getcurrent()
        me.trace_function = me.profile_function = None
    try:
        body(*args)
    finally:
        _running.pop(getcurrentid(), None)
        for end in vars(_own).pop("ends", ()):
            end()


def at_end(function: Callable[[], object]) -> None:
    """Have the running tasklet call this at its end."""
    _own.__dict__.setdefault("ends", []).append(function)


def _sentinel() -> Lock:
    """_set_sentinel: a lock that the caller takes, and that is free when its tasklet has ended."""
    lock = Lock()

    def end() -> None:
        threading._shutdown_locks.discard(lock)  # type: ignore[attr-defined]
        if lock.locked():
            lock.release()

    at_end(end)
    return lock


def _maintaining(original: Callable[[], object]) -> Callable[[], None]:
    """_maintain_shutdown_locks, which looks at all threads whenever one starts or ends: once for as many as there were."""
    fewest = limit = 100

    def _maintain_shutdown_locks() -> None:
        nonlocal limit
        if len(threading._shutdown_locks) > limit:  # type: ignore[attr-defined]
            original()
            limit = max(fewest, 2 * len(threading._shutdown_locks))  # type: ignore[attr-defined]

    return _maintain_shutdown_locks


@stands_for(_start_os_thread)
def start_new_thread(
    function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, /
) -> int:
    if is_os_thread(function):
        return _start_os_thread(function, args)
    if not callable(function):
        raise TypeError("first arg must be callable")
    if not isinstance(args, tuple):
        raise TypeError("2nd arg must be a tuple")
    if not isinstance(kwargs, dict | None):
        raise TypeError("optional 3rd arg must be a dictionary")
    refuse_at_exit()
    sys.audit("_thread.start_new_thread", function, args, kwargs)
    thread = _handlers.started_thread(function)
    if thread is None:
        return start(run_plain, function, args, kwargs or {})
    thread._tstate_lock = lock = Lock()  # until it has run and made its own: it is alive, and can be joined
    lock.acquire()
    ident = start(_run_early, lock, function, args, kwargs or {})
    let_start_return(thread, ident)
    return ident


def _run_early(lock: Lock, *args: Any) -> None:
    at_end(lock.release)
    run_plain(*args)


def let_start_return(thread: Any, ident: int) -> None:
    """Have Thread.start() not wait until it runs: that is after the handler."""
    thread._ident = ident
    thread._started.set()


def is_os_thread(bootstrap: Callable[..., object]) -> bool:
    """Whether this is the first function of a Thread that is one of the operating system."""
    return isinstance(getattr(bootstrap, "__self__", None), os_threads.OSThread)


def refuse_at_exit() -> None:
    """RuntimeError when the interpreter is being taken down: a tasklet would not run any more."""
    if sys.is_finalizing():
        raise RuntimeError("can't create new thread at interpreter shutdown")


def run_plain(function: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Call it; what it raises is reported, but for SystemExit, which ends a thread."""
    try:
        function(*args, **kwargs)
    except SystemExit:
        pass
    except KeyboardInterrupt:
        if not _interrupt_main():
            raise
    except BaseException as error:
        text = "Exception ignored in thread started by"
        sys.unraisablehook(_type_of_unraisable()((type(error), error, error.__traceback__, text, function)))


class _Unraisable:
    def __del__(self) -> None:
        raise LookupError


@functools.cache
def _type_of_unraisable() -> Any:
    """The type of what sys.unraisablehook takes, which CPython makes and shows to hooks alone."""
    shown: list[Any] = []
    hook, sys.unraisablehook = sys.unraisablehook, shown.append
    try:
        _Unraisable()
    finally:
        sys.unraisablehook = hook
    return type(shown[0])


def _invoke_excepthook(thread: threading.Thread) -> None:
    """Thread._invoke_excepthook: the end of a tasklet that is killed is no error, and Ctrl-C is for the main program."""
    error = sys.exception()
    if isinstance(error, TaskletExit) or (isinstance(error, KeyboardInterrupt) and _interrupt_main()):
        return
    _originals_invoke()(thread)


_originals_invoke: Callable[[], Callable[[threading.Thread], None]] = threading._make_invoke_excepthook  # type: ignore[attr-defined]


def _interrupt_main() -> bool:
    """Raise KeyboardInterrupt in the main program: its handler runs in whichever tasklet is running. False where that is it."""
    main = forks.main_tasklet()
    if getcurrent() is main or not os_threads.in_main_thread():
        return False
    main.throw(KeyboardInterrupt, pending=True)
    return True


def _raise_in_main(error: BaseException) -> bool:
    """Raise in the main program what a signal handler has raised in a thread that runs. False in any other tasklet."""
    if getcurrentid() not in _running or getcurrent().blocked:
        return False  # while all tasklets wait it comes out in main anyway
    main = forks.main_tasklet()
    if getcurrent() is main:
        return False
    main.throw(error, pending=True)
    return True


# ---- which thread is running ----


def _count() -> int:
    return _count_os_threads() + len(_running)


def os_ident(ident: int) -> int:
    """The id of the thread in which this one runs. ProcessLookupError without one: C would follow it as a pointer."""
    if ident == getcurrentid():
        return os_threads.get_ident()
    if (running := _running.get(ident)) is not None:
        return running.thread_id
    if ident not in roamlet.core.threads():
        raise ProcessLookupError(
            f"no thread {ident} runs; threading.get_ident() and Thread.ident are the ids of those that do"
        )
    return ident


def pthread_kill(thread_id: int, signalnum: int, /) -> None:
    """signal.pthread_kill: send the signal to a thread; for one that is a tasklet, to the thread that it runs in."""
    _pthread_kill(os_ident(thread_id), signalnum)


def pthread_getcpuclockid(thread_id: int, /) -> int:
    """time.pthread_getcpuclockid: of a thread that is a tasklet, the clock of the thread that it runs in."""
    clock: int = _pthread_getcpuclockid(os_ident(thread_id))
    return clock


def _dummy_thread() -> type[threading.Thread]:
    """threading's class of Thread objects for what is no Thread: those of tasklets go with them."""
    original: Any = threading._DummyThread

    class _DummyThread(original):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            _own.dummy = _Forgets(self)

    _DummyThread.__module__, _DummyThread.__qualname__ = original.__module__, original.__qualname__
    return _DummyThread


class _Forgets:
    """Removes the Thread object of a tasklet, at whose end it goes."""

    def __init__(self, thread: threading.Thread) -> None:
        self._thread = thread

    def __del__(self) -> None:
        active, ident = threading._active, self._thread.ident  # type: ignore[attr-defined]
        if active.get(ident) is self._thread:
            del active[ident]


def _leave_running() -> None:
    """The patch is taken out while such threads run: at their end they remove themselves by the ids that they have."""
    for ident in list(_running):
        thread = threading._active.get(ident)  # type: ignore[attr-defined]
        if thread is not None:
            vars(thread)["_delete"] = _forgetting(ident)


def _forgetting(ident: int) -> Callable[[], object]:
    return lambda: threading._active.pop(ident, None)  # type: ignore[attr-defined]
