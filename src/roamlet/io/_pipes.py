"""Pipes: the ends of one as files that block their tasklet only."""

import errno
import io
import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from roamlet.io import _native

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


class PipeEnd(io.RawIOBase):
    """One end of a pipe, as a raw binary file of Python's io: read() returns what is there, b"" at the end.

    Wrap it in io.BufferedReader or io.BufferedWriter for lines and buffers, and that in io.TextIOWrapper for text. Each call
    blocks its tasklet only. Such a buffer serves one tasklet at a time: another one that uses it meanwhile gets RuntimeError,
    one of another thread waits with its thread. Closing lets the tasklets of this thread that wait here raise OSError.
    """

    def __init__(self, fd: int, mode: str) -> None:
        """Take over `fd`, which becomes non-blocking; mode is "r" or "w"."""
        self._fd = fd
        self.mode: str = f"{mode}b"
        self._shared = False
        os.set_blocking(fd, False)

    @property
    def name(self) -> int:
        """The number of the descriptor, as for files that are opened by it."""
        return self._fd

    def readable(self) -> bool:
        """Whether it is the read end."""
        return self.mode == "rb"

    def writable(self) -> bool:
        """Whether it is the write end."""
        return self.mode == "wb"

    def fileno(self) -> int:
        """Return the number of the descriptor. ValueError once it is closed."""
        self._require(True)
        return self._fd

    def share(self) -> None:
        """Let the pipe block from now on: somebody else uses this end too, who knows no other pipes."""
        os.set_blocking(self.fileno(), True)
        self._shared = True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Read what is there, waiting for the first byte; return how many bytes, 0 at the end."""
        self._require(self.readable())
        view = memoryview(buffer).cast("B")
        if self._shared:
            data = _native.read(self._fd, len(view)) if view else b""
            view[: len(data)] = data
            return len(data)
        while view:
            self._wait(_native.wait_readable)
            try:
                return os.readv(self._fd, [view])
            except BlockingIOError:  # another tasklet was faster
                continue
        return 0

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write all of `data`; return its length in bytes. BrokenPipeError when the reading end is closed."""
        self._require(self.writable())
        view = memoryview(data).cast("B")
        if self._shared:
            return _native.write(self._fd, view)
        size, done = len(view), 0
        while done < size:
            self._wait(_native.wait_writable)
            try:
                done += os.write(self._fd, view[done:])
            except BlockingIOError:
                continue
        return size

    def _wait(self, ready: Callable[[int], None]) -> None:
        """Wait until a call may succeed; others have their turn also when it may at once."""
        try:
            ready(self._fd)
        except OSError as error:
            if not self.closed or error.errno != errno.EBADF:
                raise
        if self.closed:  # maybe between being woken and running: the number may be another file's by now
            raise OSError(errno.EBADF, f"descriptor {self._fd} was closed while a tasklet waited for it")

    def close(self) -> None:
        """Close it. Does not block."""
        if not self.closed:
            super().close()
            _native.close(self._fd)

    def __del__(self) -> None:
        if not self.closed:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)
            self.close()

    def __repr__(self) -> str:
        return f"<roamlet.io.PipeEnd fd={self._fd} mode={self.mode!r}{' closed' if self.closed else ''}>"

    def _require(self, capable: bool) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if not capable:
            raise io.UnsupportedOperation(f"this is the {'read' if self.readable() else 'write'} end of a pipe")


def pipe() -> tuple[PipeEnd, PipeEnd]:
    """Make a pipe; return its read end and its write end. Neither is inherited by child processes."""
    read_fd, write_fd = os.pipe()
    return PipeEnd(read_fd, "r"), PipeEnd(write_fd, "w")
