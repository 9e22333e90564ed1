"""What travels of an extension module: its file and the libraries that lie beside it, in compressed pieces.

Which of them can run on the target is decided in modules/native/extensions.py; when the pieces go is up to the link's side.
"""

import os
import zlib
from collections.abc import Hashable, Iterator
from typing import NamedTuple

from roamlet.core.os_threads import allocate_lock
from roamlet.remote.modules.bounded import Bounded
from roamlet.wire import codec

PIECE = 1 << 18  # bytes of the file that are compressed at a time: some 10 ms
SMALL = 1 << 20  # bytes of a file that may go along without being certain to be needed
_LEVEL = 3  # 6 makes 8 % less of numpy in 0.8 s more, which only links below 9 Mbit/s give back
_MOST_KEPT = 64 << 20

_Identity = tuple[int, int, int, int]
_numbers: dict[_Identity, int] = {}
_lock = allocate_lock()
_compressed: Bounded[int, tuple[bytes, ...]] = Bounded(_MOST_KEPT, lambda pieces: sum(map(len, pieces)))


class SharedFile(NamedTuple):
    """One shared object of this machine. `number` is that of the file in this process, for every path and every target."""

    number: int
    path: str
    size: int
    stamp: Hashable
    soname: str = ""
    """The name that it gives itself."""

    def pieces(self) -> Iterator[bytes]:
        """One zlib stream in pieces, for a link each; kept for the next link while there is room.

        Takes some 10 ms for each piece the first time. Raises OSError when the file cannot be read, or has changed since.
        """
        known = _compressed.get(self.number)
        if known is not None:
            yield from known
            return
        made = []
        for piece in self._compress():
            made.append(piece)
            yield piece
        _compressed.put(self.number, tuple(made))

    def _compress(self) -> Iterator[bytes]:
        packer = zlib.compressobj(_LEVEL)
        size = 0
        with open(self.path, "rb") as file:
            while data := file.read(PIECE):
                size += len(data)
                if piece := packer.compress(data):
                    yield piece
            if size != self.size or _identity(os.fstat(file.fileno())) != self.stamp:
                raise OSError(f"{self.path} was changed while it was sent")
        yield packer.flush()


class Extension(NamedTuple):
    """An extension module that can run on the target. The last one of `files` holds it, the others are libraries, for the linker to
    search in this order. `has_twin`: a Python file can take its place.
    """

    name: str
    is_package: bool
    files: tuple[SharedFile, ...]
    has_twin: bool = False

    @property
    def size(self) -> int:
        """In bytes, with its libraries."""
        return sum(one.size for one in self.files)

    def announcement(self) -> bytes:
        """What a bundle contains in place of a source: see roamlet.wire.modules.bundle."""
        files = [(one.number, os.path.basename(one.path), one.size, one.soname) for one in self.files]
        return bytes(codec.dumps((self.is_package, files, self.has_twin), "extension"))


def shared_file(path: str, soname: str = "") -> SharedFile:
    """The file at `path`; one file has one number, by whatever path it is reached. Raises OSError. Thread-safe."""
    identity = _identity(os.stat(path))
    with _lock:
        number = _numbers.setdefault(identity, len(_numbers) + 1)
    return SharedFile(number, path, identity[3], identity, soname)


def renew() -> None:
    """Make this usable in a forked process."""
    global _lock  # noqa: PLW0603 - the thread that held the old lock does not exist here
    _lock = allocate_lock()


def _identity(status: os.stat_result) -> _Identity:
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
