"""Reading, writing and closing file descriptors by number."""

import os
import select
from typing import TypeAlias

from weft.io._hub import READ, WRITE, hub

ReadableBuffer: TypeAlias = bytes | bytearray | memoryview


def wait_readable(fd: int, timeout: float | None = None, daemon: bool = False) -> None:
    """Block this tasklet until reading from `fd` would not block: there is data, an end or an error.

    Raises TimeoutError after `timeout` seconds, OSError when `fd` is not open or is closed (io.close) meanwhile.
    """
    hub().wait(_descriptor(fd), READ, timeout, daemon)


def wait_writable(fd: int, timeout: float | None = None, daemon: bool = False) -> None:
    """Block this tasklet until writing to `fd` would not block. Otherwise like wait_readable."""
    hub().wait(_descriptor(fd), WRITE, timeout, daemon)


def read(fd: int, size: int, timeout: float | None = None, daemon: bool = False) -> bytes:
    """Return what `fd` has, 1 to `size` bytes, waiting for the first; b"" at its end.

    `fd` may be blocking or not. Blocks this tasklet only. Raises TimeoutError, OSError as os.read does.
    """
    blocking = os.get_blocking(fd)
    while True:
        while blocking and not _ready(fd, READ):
            wait_readable(fd, timeout, daemon)
        try:
            return os.read(fd, size)
        except BlockingIOError:
            wait_readable(fd, timeout, daemon)


def write(fd: int, data: ReadableBuffer, timeout: float | None = None, daemon: bool = False) -> int:
    """Write all of `data` to `fd` and return its length in bytes. `timeout` limits each wait, not their sum.

    `fd` may be blocking or not: it is written to as it can take it. Blocks this tasklet only. Raises TimeoutError or
    OSError (BrokenPipeError when nobody reads any more) with part of the data written.
    """
    view = memoryview(data).cast("B")
    size, done = len(view), 0
    blocking = os.get_blocking(fd)
    while done < size:
        while blocking and not _ready(fd, WRITE):
            wait_writable(fd, timeout, daemon)
        try:
            # A blocking descriptor that is ready takes this much at once (PIPE_BUF) without blocking the thread.
            done += os.write(fd, view[done : done + 4096] if blocking else view[done:])
        except BlockingIOError:
            wait_writable(fd, timeout, daemon)
    return size


def close(fd: int) -> None:
    """Close `fd`; this thread's tasklets that wait for it raise OSError (EBADF). Does not block or switch."""
    hub().forget(fd)
    os.close(fd)


def _ready(fd: int, event: int) -> bool:
    """Whether a call would not block now. Having been woken does not say so: others may have been woken with us."""
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(0))


def _descriptor(fd: int) -> int:
    if not isinstance(fd, int):
        raise TypeError(f"expected a file descriptor's number, not {fd!r}: pass its fileno()")
    if fd < 0:
        raise ValueError(f"{fd} is no file descriptor: is what it belonged to closed?")
    return fd
