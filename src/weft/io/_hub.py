"""The hub of a thread: waits for descriptors on behalf of the thread's tasklets. Knows nothing of what is read or written.

Core calls `poll` when no tasklet can run, and now and then while tasklets do; `poll` wakes those whose descriptor is
ready. A hub appears in a thread when something first waits there.
"""

import errno
import os
import select
import threading
from typing import Protocol

from weft.core import Waiter, install_hub

READ = select.POLLIN
WRITE = select.POLLOUT
# What poll reports without being asked: an error or a hang-up wakes both directions, whose next call then reports it.
_ALWAYS = select.POLLERR | select.POLLHUP | select.POLLNVAL


class _Poller(Protocol):
    def register(self, fd: int, events: int, /) -> None: ...
    def modify(self, fd: int, events: int, /) -> None: ...
    def unregister(self, fd: int, /) -> None: ...
    def wait(self, timeout: float | None) -> list[tuple[int, int]]: ...
    def close(self) -> None: ...


class _Epoll:
    """select.epoll, whose event numbers are poll's for what is used here."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self.register = self._epoll.register
        self.modify = self._epoll.modify
        self.unregister = self._epoll.unregister
        self.close = self._epoll.close

    def wait(self, timeout: float | None) -> list[tuple[int, int]]:
        return self._epoll.poll(timeout)


class _Poll:
    """select.poll, where there is no epoll."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self.register = self._poll.register
        self.modify = self._poll.modify
        self.unregister = self._poll.unregister

    def wait(self, timeout: float | None) -> list[tuple[int, int]]:
        return self._poll.poll(None if timeout is None else timeout * 1000)

    def close(self) -> None:
        pass


class _Doorbell:
    """What another thread writes 8 bytes to when it made a tasklet of this thread runnable: an eventfd, or a pipe."""

    def __init__(self) -> None:
        if hasattr(os, "eventfd"):
            self.read_fd = self.write_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        else:
            self.read_fd, self.write_fd = os.pipe()
            os.set_blocking(self.read_fd, False)
            os.set_blocking(self.write_fd, False)

    def silence(self) -> None:
        os.read(self.read_fd, 4096)

    def close(self) -> None:
        os.close(self.read_fd)
        if self.write_fd != self.read_fd:
            os.close(self.write_fd)


class Hub:
    """What one thread waits for. Only that thread uses it; it is installed in core when it is made."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[tuple[int, Waiter[None]]]] = {}  # fd -> who waits there, for READ or WRITE
        self._open()

    def _open(self) -> None:
        self._poller: _Poller = _Epoll() if hasattr(select, "epoll") else _Poll()
        self._doorbell = _Doorbell()
        self._poller.register(self._doorbell.read_fd, READ)
        install_hub(self.poll, self._doorbell.write_fd)

    def wait(self, fd: int, event: int, timeout: float | None, daemon: bool) -> None:
        """Block this tasklet until `fd` is ready for `event` (READ or WRITE), which an error or hang-up is too.

        Raises TimeoutError after `timeout` seconds, OSError for a descriptor that is not open. A regular file is always
        ready.
        """
        waiter: Waiter[None] = Waiter()
        entry = (event, waiter)
        if not self._add(fd, entry):
            return
        try:
            waiter.wait(timeout, daemon)
        finally:
            self._drop(fd, entry)

    def _add(self, fd: int, entry: tuple[int, Waiter[None]]) -> bool:
        """Note a wait that begins; False when there is nothing to wait for, because `fd` is always ready."""
        waiting = self._waiting.get(fd)
        if waiting is not None:
            try:
                self._poller.modify(fd, _events([*waiting, entry]))
                waiting.append(entry)
                return True
            except OSError as error:  # what the others wait for was closed behind our back
                self.forget(fd)
                if error.errno != errno.ENOENT:
                    raise
        try:
            self._poller.register(fd, entry[0])
        except FileExistsError:  # closed behind our back, its number used again, and a duplicate keeps the old one
            self._poller.modify(fd, entry[0])
        except PermissionError:  # epoll's way to say that a regular file is always ready
            return False
        self._waiting[fd] = [entry]
        return True

    def _drop(self, fd: int, entry: tuple[int, Waiter[None]]) -> None:
        """Forget a wait that has ended; `poll` or `forget` may have done so before."""
        waiting = self._waiting.get(fd)
        if waiting is None or entry not in waiting:
            return
        waiting.remove(entry)
        self._watch(fd, waiting)

    def _watch(self, fd: int, waiting: list[tuple[int, Waiter[None]]]) -> None:
        try:
            if waiting:
                self._poller.modify(fd, _events(waiting))
            else:
                del self._waiting[fd]
                self._poller.unregister(fd)
        except OSError:  # closed behind our back: the kernel has forgotten it already
            pass

    def forget(self, fd: int) -> None:
        """`fd` is about to be closed, or was: whoever waits for it raises OSError (EBADF)."""
        waiting = self._waiting.pop(fd, [])
        if waiting:
            try:
                self._poller.unregister(fd)
            except OSError:  # closed behind our back
                pass
        for _, waiter in waiting:
            waiter.fail(OSError(errno.EBADF, f"descriptor {fd} was closed while a tasklet waited for it"))

    def poll(self, timeout: float | None) -> None:
        """Wait up to `timeout` seconds (None: without limit) for something to happen and wake whom it concerns.

        Called by core; blocks the thread, with the GIL released; may not block in weft. Raises what signal handlers raise.
        """
        for fd, events in self._poller.wait(timeout):
            if fd == self._doorbell.read_fd:
                self._doorbell.silence()
                continue
            waiting = self._waiting.get(fd)
            if waiting is None:
                continue
            ready = [entry for entry in waiting if events & (entry[0] | _ALWAYS)]
            waiting[:] = [entry for entry in waiting if entry not in ready]
            self._watch(fd, waiting)
            for _, waiter in ready:
                waiter.succeed(None)

    def reopen(self) -> None:
        """After a fork: the child shares neither the parent's epoll set nor its doorbell."""
        self._poller.close()
        self._doorbell.close()
        self._open()
        for fd, waiting in self._waiting.items():
            self._poller.register(fd, _events(waiting))

    def __del__(self) -> None:
        self._poller.close()
        self._doorbell.close()


def _events(waiting: list[tuple[int, Waiter[None]]]) -> int:
    events = 0
    for event, _ in waiting:
        events |= event
    return events


class _ThreadHub(threading.local):
    hub: Hub | None = None


_this_thread = _ThreadHub()


def hub() -> Hub:
    """This thread's hub, made when first needed."""
    found = _this_thread.hub
    if found is None:
        found = _this_thread.hub = Hub()
    return found


def _after_fork() -> None:
    if _this_thread.hub is not None:
        _this_thread.hub.reopen()


os.register_at_fork(after_in_child=_after_fork)
