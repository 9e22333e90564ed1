"""The area `libraries`: C code of others that waits by itself. Where it asks somebody to wait, roamlet does; else it is named.

psycopg 3 hands its waits to a function, psycopg2 to a callback; trio keeps a lock that it takes in signal handlers. What cannot be
asked blocks the thread whatever is patched: a warning says so when it is imported, and blocking_libraries() afterwards. zmq and
grpc bring a module for asyncio that blocks nothing: for these the warning comes with the first socket or channel that would.
"""

import functools
import inspect
import os
import sys
import time
import warnings
from collections.abc import Callable, Generator
from time import monotonic
from typing import Any, NamedTuple

from roamlet.core import os_threads
from roamlet.io import _native
from roamlet.patch._after_import import after_import
from roamlet.patch._pipe_files import Selector
from roamlet.patch.changes import Changes


class BlockingLibraryWarning(RuntimeWarning):
    """A library is used whose calls wait in C: they block the whole thread."""


class BlockingLibrary(NamedTuple):
    """A library that waits in C and offers no other way."""

    module: str
    calls: str
    """What blocks the thread."""
    instead: str

    def __str__(self) -> str:
        return f"{self.module} waits in C: {self.calls} blocks every tasklet of its thread. {self.instead}"


_WORKER = "Make these calls by roamlet.io.call_async(), which runs them on a worker thread"

KNOWN = (
    BlockingLibrary("MySQLdb", "each query of a connection", f"Use PyMySQL (pymysql.install_as_MySQLdb()). {_WORKER}"),
    BlockingLibrary("mariadb", "each query of a connection", f"Use PyMySQL. {_WORKER}"),
    BlockingLibrary("_mysql_connector", "each query", "Pass use_pure=True to mysql.connector.connect(), which follows"),
    BlockingLibrary("pymssql", "each query of a connection", f"Use python-tds. {_WORKER}"),
    BlockingLibrary("pyodbc", "each query of a connection", _WORKER),
    BlockingLibrary("cx_Oracle", "each query of a connection", "Use oracledb in its thin mode, which follows"),
    BlockingLibrary("ibm_db", "each query of a connection", _WORKER),
    BlockingLibrary("grpc", "a call of a synchronous stub", f"Use grpc.aio in roamlet.aio. {_WORKER}"),
    BlockingLibrary("confluent_kafka", "poll(), consume() and flush() with a time-out", f"Use kafka-python. {_WORKER}"),
    BlockingLibrary("zmq", "send(), recv() and poll() of a socket", "Use zmq.asyncio in roamlet.aio, or zmq.NOBLOCK with "
                    "roamlet.io.wait_readable(socket.FD)"),
    BlockingLibrary("pycurl", "Curl.perform()", f"Use CurlMulti with roamlet.io.wait_readable(), or requests. {_WORKER}"),
    BlockingLibrary("pylibmc", "each request", f"Use pymemcache. {_WORKER}"),
    BlockingLibrary("ldap", "each result() of a connection", f"Use ldap3. {_WORKER}"),
)  # fmt: skip


_WITH_ASYNCIO = ("zmq", "grpc")
_begun: set[str] = set()  # those of _WITH_ASYNCIO of which something that blocks was made


def blocking_libraries() -> tuple[BlockingLibrary, ...]:
    """Those of the known libraries that are imported now. Does not block.

    zmq and grpc are among them once a socket or channel that blocks was made.
    """
    return tuple(
        each
        for each in KNOWN
        if each.module in sys.modules and (each.module in _begun or each.module not in _WITH_ASYNCIO)
    )


def apply(changes: Changes) -> None:
    """Hook onto the libraries as they are imported."""
    after_import(changes, "psycopg.waiting", lambda module: _psycopg(changes, module))
    after_import(changes, "psycopg2.extensions", lambda module: _psycopg2(changes, module))
    after_import(changes, "trio._core._entry_queue", lambda module: _trio(changes, module))
    after_import(changes, "zmq", lambda module: _zmq(changes, module))
    after_import(changes, "grpc", lambda module: _grpc(changes, module))
    for library in KNOWN:
        if library.module not in _WITH_ASYNCIO:
            after_import(changes, library.module, _saying(library))
    if (sched := sys.modules.get("sched")) is not None:
        _sched(changes, sched)


_MACHINERY = ("importlib", "_frozen_importlib", "_frozen_importlib_external", "roamlet")


def _saying(library: BlockingLibrary) -> Callable[[object], None]:
    """The warning is for the line that imports it or, where that was earlier, calls install()."""

    def say(_: object) -> None:
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _MACHINERY:
            frame = frame.f_back
        warnings.warn_explicit(
            str(library),
            BlockingLibraryWarning,
            frame.f_code.co_filename,
            frame.f_lineno,
            frame.f_globals.get("__name__", "sys"),
            frame.f_globals.setdefault("__warningregistry__", {}),
        )

    return say


# ---- those that have a module for asyncio ----


def _warn_once(name: str) -> None:
    if name not in _begun:
        _begun.add(name)
        _saying(next(each for each in KNOWN if each.module == name))(None)


def _zmq(changes: Changes, module: Any) -> None:
    """Its sockets for asyncio are made by the same method; they have a recv() of their own."""
    original = module.Context.socket

    @functools.wraps(original)
    def socket(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(self, *args, **kwargs)
        if type(made).recv is module.Socket.recv:
            _warn_once("zmq")
        return made

    changes.replace(module.Context, "socket", socket)


def _grpc(changes: Changes, module: Any) -> None:
    """grpc.aio, which grpc imports by itself, has functions of these names of its own."""
    for name in ("insecure_channel", "secure_channel"):
        changes.replace(module, name, _opening(getattr(module, name)))


def _opening(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def channel(*args: Any, **kwargs: Any) -> Any:
        _warn_once("grpc")
        return original(*args, **kwargs)

    return channel


# ---- psycopg 3 ----


def _psycopg(changes: Changes, module: Any) -> None:
    """Its generators say what they wait for; PSYCOPG_WAIT_FUNC, if set, is the user's own choice."""
    if "PSYCOPG_WAIT_FUNC" in os.environ:
        return
    changes.replace(module, "wait", _waiting_for_psycopg(module))


def _waiting_for_psycopg(module: Any) -> Callable[..., Any]:
    errors = sys.modules["psycopg.errors"]
    read, write, nothing = int(module.WAIT_R), int(module.WAIT_W), 0

    def ready(fileno: int, state: int, limit: float | None) -> int:
        """Wait for the connection; what it is ready for."""
        try:
            if state == read:
                _native.wait_readable(fileno, limit)
            elif state == write:
                _native.wait_writable(fileno, limit)
            else:
                with Selector() as selector:
                    selector.register(fileno, state)
                    found = selector.select(limit)
                    return found[0][1] if found else nothing
        except TimeoutError:
            return nothing
        except OSError as error:
            raise errors.OperationalError("connection socket closed") from error
        return state

    def wait_for(gen: Generator[int, int, Any], fileno: int, interval: float | None, timeout: float | None) -> Any:
        deadline = None if timeout is None else monotonic() + timeout
        limit = None if interval is None else max(interval, 0.0)
        try:
            state = int(next(gen))
            while True:
                left = limit
                if deadline is not None:
                    left = max(deadline - monotonic(), 0.0)
                    left = left if limit is None else min(limit, left)
                found = ready(fileno, state, left)
                answer = gen.send(found)
                if found:
                    state = int(answer)
                if deadline is not None and monotonic() >= deadline:
                    raise errors._WaitTimeout("wait timeout expired")
        except StopIteration as end:
            return end.value

    parameter = inspect.signature(module.wait_select).parameters.get("interval")
    refuses_none = parameter is not None and parameter.default is not None  # as psycopg does since it has a default

    def wait(gen: Any, fileno: int, interval: float | None = 0.0, timeout: float | None = None) -> Any:
        """Run the generator to its end, waiting for the connection; the tasklet alone blocks."""
        if interval is None and refuses_none:
            raise ValueError("indefinite wait not supported anymore")
        return wait_for(gen, fileno, interval, timeout)

    def wait_of_3_1(gen: Any, fileno: int, timeout: float | None = None) -> Any:
        """Up to psycopg 3.1 an interval is called a time-out."""
        return wait_for(gen, fileno, timeout, None)

    return wait_of_3_1 if parameter is None else wait


# ---- psycopg2 ----


def _psycopg2(changes: Changes, module: Any) -> None:
    """With a wait callback it has no COPY and no large objects: use psycopg 3 for these."""
    before = module.get_wait_callback()
    if before is not None:  # the program has one
        return

    def wait(connection: Any) -> None:
        while (state := connection.poll()) != module.POLL_OK:
            if state == module.POLL_READ:
                _native.wait_readable(connection.fileno())
            elif state == module.POLL_WRITE:
                _native.wait_writable(connection.fileno())
            else:
                raise sys.modules["psycopg2"].OperationalError(f"poll() of the connection returned {state!r}")

    module.set_wait_callback(wait)
    changes.on_undo(lambda: module.set_wait_callback(None) if module.get_wait_callback() is wait else None)


# ---- trio ----


def _trio(changes: Changes, module: Any) -> None:
    """Its queue for other threads and signal handlers wants CPython's own RLock, and says so with an assert.

    It holds the lock for a few instructions that wait for nothing, so that no tasklet can find it held in its own thread.
    """
    initialize = module.EntryQueue.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        initialize(self, *args, **kwargs)
        self.lock = os_threads.RLock()

    changes.replace(module.EntryQueue, "__init__", __init__)


# ---- the standard library's ----


def _sched(changes: Changes, module: Any) -> None:
    """Imported before us, it has time.sleep as a default argument."""
    function = module.scheduler.__init__
    before = function.__defaults__
    function.__defaults__ = (before[0], time.sleep)
    changes.on_undo(lambda: setattr(function, "__defaults__", before))
