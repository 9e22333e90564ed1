"""The area `pipes`, which install() leaves out unless asked: os.read, os.write, os.readv and os.writev block one tasklet.

For descriptors that block: pipes, terminals, sockets by number. One that does not block is read and written as ever, and a
regular file is always ready. os.close lets the tasklets that wait for its descriptor raise OSError.
"""

import functools
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from roamlet.io import _native
from roamlet.patch.changes import Changes

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_get_blocking = os.get_blocking


def apply(changes: Changes) -> None:
    """Replace the functions of os that read and write by a descriptor's number."""
    changes.replace(os, "read", _reading(os.read))
    changes.replace(os, "write", _writing(os.write))
    changes.replace(os, "readv", _reading_into(os.readv))
    changes.replace(os, "writev", _writing_several(os.writev))
    changes.replace(os, "close", _closing(os.close))


def _waits(fd: object) -> bool:
    """Whether a call on it may block the thread; the original refuses a wrong number."""
    try:
        return type(fd) is int and _get_blocking(fd)
    except (OSError, OverflowError):
        return False


def _reading(original: Callable[[int, int], bytes]) -> Callable[[int, int], bytes]:
    @functools.wraps(original)
    def read(fd: int, length: int, /) -> bytes:
        if not _waits(fd) or not isinstance(length, int) or length <= 0:
            return original(fd, length)
        return _native.read(fd, length)

    return read


def _writing(original: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(original)
    def write(fd: int, data: "ReadableBuffer", /) -> int:
        return _native.write(fd, data) if _waits(fd) else original(fd, data)

    return write


def _reading_into(original: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(original)
    def readv(fd: int, buffers: "Sequence[WriteableBuffer]", /) -> int:
        if _waits(fd) and any(memoryview(each).nbytes for each in buffers):
            _native.wait_readable(fd)
        return original(fd, buffers)

    return readv


def _writing_several(original: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(original)
    def writev(fd: int, buffers: "Sequence[ReadableBuffer]", /) -> int:
        if not _waits(fd):
            return original(fd, buffers)
        return _native.write(fd, b"".join(memoryview(each).cast("B") for each in buffers))

    return writev


def _closing(original: Callable[[int], None]) -> Callable[[Any], None]:
    @functools.wraps(original)
    def close(fd: Any) -> None:
        if type(fd) is int and fd >= 0:
            _native.close(fd)
        else:
            original(fd)

    return close
