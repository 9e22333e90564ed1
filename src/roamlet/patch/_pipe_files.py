"""Pipes to child processes as files of Python's io that block their tasklet alone, and a selector that does.

The descriptors stay blocking: a child may share them, and programs use their numbers.
"""

import io
import os
import select
import selectors
import warnings
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any

from roamlet.io import _native
from roamlet.patch._handlers import wait_readable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_epoll = getattr(select, "epoll", None)

_CHUNK = 64 * 1024  # bytes; a pipe holds as many


class PipeFile(io.FileIO):
    """One end of a pipe by its number: a FileIO whose reads and writes block one tasklet only.

    One that is not blocking (os.set_blocking) is read and written as FileIO does. A buffer around it serves one tasklet at
    a time: another one of the same thread gets RuntimeError. Closing it lets the tasklets that wait here raise OSError.
    """

    def __init__(self, fd: int, mode: str) -> None:
        """Take over `fd`; mode is "rb" or "wb"."""
        super().__init__(fd, mode, closefd=False)  # closed by close(), which tells the waiting tasklets

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Read what is there, waiting for the first byte; return how many bytes, 0 at the end."""
        view = memoryview(buffer).cast("B")
        if not self._waits(self.readable()) or not view:
            return super().readinto(buffer)
        data = _native.read(self.fileno(), len(view))
        view[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to `size` bytes, waiting for the first; without a size all there is, to the end."""
        if size is None or size < 0:
            return self.readall()
        if not self._waits(self.readable()) or size == 0:
            return super().read(size)
        return _native.read(self.fileno(), size)

    def readall(self) -> bytes:
        """Read to the end."""
        if not self._waits(self.readable()):
            return super().readall()
        parts = []
        while data := _native.read(self.fileno(), _CHUNK):
            parts.append(data)
        return b"".join(parts)

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write all of `data`; return its length in bytes. BrokenPipeError when the reading end is closed."""
        if not self._waits(self.writable()):
            return super().write(data)
        return _native.write(self.fileno(), data)

    def close(self) -> None:
        """Close it. Does not block."""
        if not self.closed:
            fd = self.fileno()
            super().close()
            _native.close(fd)

    def __del__(self) -> None:
        if not self.closed:
            self._dealloc_warn(self)
            self.close()

    def _dealloc_warn(self, source: object) -> None:
        """A buffer around it calls this when it is freed unclosed, in place of FileIO's, which looks at closefd."""
        if not self.closed:
            warnings.warn(f"unclosed file {source!r}", ResourceWarning, stacklevel=2, source=source)

    def _waits(self, capable: bool) -> bool:
        """Whether it is for us to wait; FileIO says what is wrong with the call where it is not `capable`."""
        return capable and os.get_blocking(self.fileno())


def open_pipe(fd: int, mode: str, bufsize: int = -1) -> io.RawIOBase | io.BufferedIOBase:
    """What io.open(fd, mode, bufsize) makes of a pipe's end, "rb" or "wb", over a PipeFile."""
    if bufsize == 1:
        message = "line buffering (buffering=1) isn't supported in binary mode, the default buffer size will be used"
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    raw = PipeFile(fd, mode)
    if bufsize == 0:
        return raw
    size: int = bufsize if bufsize > 1 else getattr(raw, "_blksize", io.DEFAULT_BUFFER_SIZE)
    return io.BufferedReader(raw, size) if mode == "rb" else io.BufferedWriter(raw, size)


class Io(ModuleType):
    """The module `io`, as another module sees it: open() of a descriptor's number makes what blocks its tasklet only."""

    def __init__(self) -> None:
        super().__init__("io", io.__doc__)

    def __getattr__(self, name: str) -> Any:
        return getattr(io, name)

    @staticmethod
    def open(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **options: Any) -> Any:
        """io.open(), over a PipeFile where a number is opened as subprocess does."""
        if isinstance(file, int) and mode in ("rb", "wb") and not args and not options:
            return open_pipe(file, mode, buffering)
        return open(file, mode, buffering, *args, **options)


class Selector(selectors.PollSelector):
    """A PollSelector whose select() blocks one tasklet only."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As PollSelector.select(): wait for at most `timeout` seconds, not at all for 0 and less."""
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0) or _epoll is None:
            return ready if _epoll is not None else super().select(timeout)
        with _epoll() as many:  # one descriptor that is ready when any of them is
            for key in self.get_map().values():
                bits = select.EPOLLIN * bool(key.events & selectors.EVENT_READ)
                many.register(key.fd, bits | select.EPOLLOUT * bool(key.events & selectors.EVENT_WRITE))
            with suppress(TimeoutError):
                wait_readable(many.fileno(), timeout)
        return super().select(0)
