"""The descriptors of links and terminals, from the system call that makes them on: a forked child lets go of all of them.

Another thread may fork at any moment, also while a context is being opened. A child that kept such a pipe open would keep the other
end from seeing that this process is gone. What a program that is started inherits is another matter: they are closed on exec.
"""

import contextlib
import os
import socket
from collections.abc import Iterable

from roamlet import io
from roamlet.core.os_threads import RLock

# Held during a fork, so that no fork comes between a system call and the note of it.
_lock = RLock()
_ours: set[int] = set()


def pipe() -> tuple[int, int]:
    """As os.pipe()."""
    with _lock:
        ends = os.pipe()
        _ours.update(ends)
        return ends


def sockets(size: int) -> tuple[int, int]:
    """As `pipe`, and large values take half the time: a pipe is written to and read in turns, page by page.

    `size`: bytes that may be under way, as far as the system has them to give.
    """
    with _lock:
        reads, writes = socket.socketpair()
        writes.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
        ends = reads.detach(), writes.detach()
        _ours.update(ends)
        return ends


def terminal() -> tuple[int, int]:
    """As os.openpty()."""
    with _lock:
        ends = os.openpty()
        _ours.update(ends)
        return ends


def close(fd: int) -> None:
    """Close one of them; tasklets that wait for it are woken."""
    with _lock:
        _ours.discard(fd)
        io.close(fd)


def lend(fds: Iterable[int]) -> None:
    """Let a child that is forked now keep these: it is to serve on them."""
    with _lock:
        _ours.difference_update(fds)


def _forget() -> None:
    for fd in _ours:
        with contextlib.suppress(OSError):  # the program has closed or replaced it
            os.close(fd)
    _ours.clear()
    _release()


def _release() -> None:
    try:
        _lock.release()  # it belongs to this thread, which has forked
    except RuntimeError:  # another thread has imported this module while the fork began: it was not acquired
        pass


os.register_at_fork(before=_lock.acquire, after_in_parent=_release, after_in_child=_forget)
