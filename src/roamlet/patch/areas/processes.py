"""The part of the area `subprocess` that is about multiprocessing: its connections, its start methods and its semaphores.

Process.join and pools follow os.waitpid, multiprocessing.connection.wait and the locks of threading. Everything is done when
the modules are imported. A child that is forked begins with the tasklet that has forked alone.
"""

import io
import os
from typing import Any

from roamlet.io import _native
from roamlet.patch import forks
from roamlet.patch._after_import import after_import
from roamlet.patch._asking import ask_until
from roamlet.patch._pipe_files import PipeFile, Selector
from roamlet.patch.changes import Changes


def apply(changes: Changes) -> None:
    """Replace what blocks in multiprocessing, as soon as it is imported."""
    after_import(changes, "multiprocessing.connection", lambda module: _connections(changes, module))
    after_import(changes, "multiprocessing.synchronize", lambda module: _semaphores(changes, module))
    after_import(changes, "multiprocessing.popen_fork", lambda module: _forks(changes, module))
    after_import(changes, "multiprocessing.forkserver", lambda module: _forkserver(changes, module))
    for name in ("multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver"):
        after_import(changes, name, lambda module: changes.replace(module, "open", _open))


def _connections(changes: Changes, module: Any) -> None:
    connection = module.Connection
    recv, send, close = (vars(connection)[name] for name in ("_recv", "_send", "_close"))

    def _recv(self: Any, size: int, read: Any = _native.read) -> Any:
        return recv(self, size, read)

    def _send(self: Any, buf: Any, write: Any = _native.write) -> Any:
        return send(self, buf, write)

    def _close(self: Any, _close: Any = _native.close) -> None:
        close(self, _close)

    changes.replace(connection, "_recv", _recv)
    changes.replace(connection, "_send", _send)
    changes.replace(connection, "_close", _close)
    changes.replace(module, "_WaitSelector", Selector)


def _semaphores(changes: Changes, module: Any) -> None:
    """A semaphore of the kernel's has no descriptor: it is asked for. It belongs to the thread, as without the patch."""
    kind = module.SemLock
    make_methods = vars(kind)["_make_methods"]

    def _make_methods(self: Any) -> None:
        make_methods(self)
        semaphore = self._semlock

        def acquire(block: bool = True, timeout: float | None = None) -> bool:
            """Take it. Blocks this tasklet while it is held, at most `timeout` seconds; False when time is up."""
            if not block or semaphore.acquire(False):
                return bool(block or semaphore.acquire(False))
            return (
                ask_until(lambda: semaphore.acquire(False) or None, None if timeout is None else max(timeout, 0))
                is True
            )

        self.acquire = acquire

    def __enter__(self: Any) -> bool:
        taken: bool = self.acquire()
        return taken

    changes.replace(kind, "_make_methods", _make_methods)
    changes.replace(kind, "__enter__", __enter__)


def _forks(changes: Changes, module: Any) -> None:
    launch = module.Popen._launch

    def _launch(self: Any, process_obj: Any) -> None:
        forks.want()  # nothing switches until it has forked
        try:
            launch(self, process_obj)  # does not return in the child
        finally:
            forks.unwant()

    changes.replace(module.Popen, "_launch", _launch)


def _forkserver(changes: Changes, module: Any) -> None:
    original = module.read_signed

    def read_signed(fd: int) -> int:
        _native.wait_readable(fd)
        number: int = original(fd)
        return number

    changes.replace(module, "read_signed", read_signed)


def _open(file: Any, mode: Any = "r", *args: Any, closefd: bool = True, **options: Any) -> Any:
    """open(), over a PipeFile for what the parent writes for a child that it starts."""
    if not isinstance(file, int) or mode != "wb" or args or options:
        plain: Any = open
        return plain(file, mode, *args, closefd=closefd, **options)
    return io.BufferedWriter(PipeFile(file if closefd else os.dup(file), mode))
