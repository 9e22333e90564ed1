"""Files whose operations run on worker threads: each blocks its tasklet only. Path operations are in roamlet.io.files."""

import builtins
import io
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import IO, TYPE_CHECKING, Any, AnyStr, Generic, Self, TypeAlias, TypeVar, overload

from roamlet.core import CancelScope
from roamlet.io._workers.call_async import call_async
from roamlet.io._workers.serial import Serial

if TYPE_CHECKING:
    from _typeshed import OpenBinaryMode, OpenTextMode, ReadableBuffer

T = TypeVar("T")
Path: TypeAlias = str | bytes | int | os.PathLike[str] | os.PathLike[bytes]

_READ_AHEAD = 64 * 1024  # bytes or characters that iterating fetches in one go


class File(Generic[AnyStr]):
    """A file as roamlet.io.open() gives it: the methods of a file of Python's own, each a job for a worker thread.

    Each call blocks its tasklet only. Calls of several tasklets and threads are made one after the other, in order; a
    call that was abandoned by its tasklet is finished first. What raises is what the same method of the wrapped file raises.
    Iterating fetches many lines at once, which no other operation notices.
    """

    def __init__(self, file: IO[AnyStr]) -> None:
        self._file: IO[AnyStr] = file
        self._calls = Serial()
        self._ahead: deque[AnyStr] = deque()  # lines that iterating has fetched and that have not been taken
        self._batch_start = 0  # of text: what tell() gave before they were fetched
        self._taken = 0  # how many characters of the batch were taken

    # ---- reading ----

    def read(self, size: int | None = -1, /) -> AnyStr:
        """Read up to `size` bytes or characters; all there are by default."""
        return self._do(lambda: self._file.read(-1 if size is None else size))

    def readline(self, size: int = -1, /) -> AnyStr:
        """Read a line with its end, or up to `size` of it; empty at the end of the file."""
        return self._do(lambda: self._file.readline(size))

    def readlines(self, hint: int = -1, /) -> list[AnyStr]:
        """Read lines until `hint` bytes or characters are exceeded, by default to the end."""
        return self._do(lambda: self._lines(hint))

    def readinto(self, buffer: Any, /) -> int:
        """Read bytes into a writable buffer, which is written to by another thread; return how many, 0 at the end."""
        read_into: Callable[[Any], int] = self._file.readinto  # type: ignore[attr-defined] # of binary files only
        return self._do(lambda: read_into(buffer))

    def __iter__(self) -> Iterator[AnyStr]:
        return self

    def __next__(self) -> AnyStr:
        while True:
            line = self._take()
            if line is not None:
                return line
            line = self._calls.call(self._fetch)
            if line is not None:
                if not line:
                    raise StopIteration
                return line

    # ---- writing ----

    def write(self, data: "AnyStr | ReadableBuffer", /) -> int:
        """Write text or a bytes-like object, into the file's buffer at least; return its length."""
        return self._do(lambda: self._file.write(data))  # type: ignore[arg-type]

    def writelines(self, lines: Iterable[AnyStr], /) -> None:
        """Write each of `lines`, which are iterated over in the worker thread."""
        self._do(lambda: self._file.writelines(lines))

    def flush(self) -> None:
        """Hand what is in the buffer to the operating system."""
        self._do(self._file.flush)

    def sync(self) -> None:
        """Flush, and wait until the data are on the medium (os.fsync)."""

        def flush_and_sync() -> None:
            self._file.flush()
            os.fsync(self._file.fileno())

        self._do(flush_and_sync)

    def truncate(self, size: int | None = None, /) -> int:
        """Cut the file, or lengthen it, to `size` bytes; by default to the current position."""
        return self._do(lambda: self._file.truncate(size))

    # ---- where we are, and the end ----

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to a position: bytes from the start, from here (1) or from the end (2); for text what tell() has given."""
        return self._do(lambda: self._file.seek(offset, whence))

    def tell(self) -> int:
        """Return the position: what read() would return begins there."""
        return self._do(self._file.tell)

    def close(self) -> None:
        """Write what is in the buffer and close the file; once it is closed, nothing more.

        Waits also in a cancelled scope. A tasklet that is killed meanwhile goes on, and the file is closed nevertheless.
        """
        if self._file.closed:
            return
        try:
            with CancelScope(shield=True):
                self._calls.call(self._close)
        except BaseException:
            if not self._file.closed:  # what was raised is not the file's
                self._calls.start(self._close)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what does not block ----

    @property
    def name(self) -> Any:
        """What it was opened with."""
        return self._file.name

    @property
    def mode(self) -> str:
        """How it was opened."""
        return self._file.mode

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._file.closed

    @property
    def encoding(self) -> str:
        """How text becomes bytes. Files of bytes do not have it, nor the two that follow: AttributeError."""
        return self._file.encoding  # type: ignore[attr-defined,no-any-return]

    @property
    def errors(self) -> str | None:
        """What is done about text or bytes that cannot be converted, "strict" for example."""
        return self._file.errors  # type: ignore[attr-defined,no-any-return]

    @property
    def newlines(self) -> str | tuple[str, ...] | None:
        """The ends of lines that have been read so far, None where they are not translated."""
        return self._file.newlines  # type: ignore[attr-defined,no-any-return]

    def readable(self) -> bool:
        """Whether it was opened for reading."""
        return self._file.readable()

    def writable(self) -> bool:
        """Whether it was opened for writing."""
        return self._file.writable()

    def seekable(self) -> bool:
        """Whether seek() and tell() work."""
        return self._file.seekable()

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._file.isatty()

    def fileno(self) -> int:
        """Return the number of its descriptor."""
        return self._file.fileno()

    def __repr__(self) -> str:
        return f"<roamlet.io.File of {self._file!r}>"

    # ---- inside ----

    def _do(self, operation: Callable[[], T]) -> T:
        return self._calls.call(partial(self._do_in_place, operation))

    def _do_in_place(self, operation: Callable[[], T]) -> T:
        """In a worker: the position is where the caller believes it to be."""
        if self._ahead:
            if isinstance(self._file, io.TextIOBase):
                self._file.seek(self._batch_start)
                self._file.read(self._taken)
            else:
                self._file.seek(-sum(map(len, self._ahead)), os.SEEK_CUR)
            self._ahead.clear()
        return operation()

    def _take(self) -> AnyStr | None:
        """One of the lines that were fetched ahead, or None."""
        try:
            line = self._ahead.popleft()
        except IndexError:
            return None
        self._taken += len(line)
        return line

    def _fetch(self) -> AnyStr | None:
        """In a worker: fetch lines ahead and return None. At the end return an empty value; one line where the file cannot seek."""
        if self._ahead:
            return None
        if not self._file.seekable():
            return self._file.readline()
        if isinstance(self._file, io.TextIOBase):
            self._batch_start = self._file.tell()
        self._taken = 0
        lines = self._lines(_READ_AHEAD)
        if not lines:
            return self._file.read(0)
        self._ahead.extend(lines)
        return None

    def _lines(self, hint: int | None) -> list[AnyStr]:
        """In a worker: what readlines(hint) gives. Python's own leaves a text file that refuses tell() until it has a seek()."""
        if hint is None or hint <= 0:
            return list(iter(self._file.readline, self._file.read(0)))
        lines: list[AnyStr] = []
        size = 0
        while size <= hint and (line := self._file.readline()):
            lines.append(line)
            size += len(line)
        return lines

    def _close(self) -> None:
        self._ahead.clear()
        self._file.close()


@overload
def open(
    file: Path,
    mode: "OpenTextMode" = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
) -> File[str]: ...
@overload
def open(
    file: Path,
    mode: "OpenBinaryMode",
    buffering: int = -1,
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
) -> File[bytes]: ...
@overload
def open(
    file: Path,
    mode: str,
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
) -> File[Any]: ...
def open(
    file: Path,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
) -> File[Any]:
    """Open a file on a worker thread; blocks this tasklet only. Arguments and errors are those of Python's own open().

    Use it in a `with`, which closes it.
    """
    return File(call_async(lambda: builtins.open(file, mode, buffering, encoding, errors, newline, closefd, opener)))
