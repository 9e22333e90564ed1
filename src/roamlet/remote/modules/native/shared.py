"""What travels of an extension module: its file and the libraries that lie beside it, in compressed pieces.

Which of them can run on the target is decided in modules/native/extensions.py; when the pieces go is up to the link's side.

Compressing is most of what a first context with large packages costs, so the compressed form is kept: in the cache folder of
this account, for the next run as well, or in memory where there can be no such folder.
"""

import functools
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from roamlet.core.os_threads import allocate_lock
from roamlet.remote.modules.bounded import Bounded
from roamlet.remote.modules.disk_cache import DiskCache, Stored, digest_of
from roamlet.wire import codec
from roamlet.wire.modules import bundle as wire_bundle

PIECE = 1 << 18  # bytes of the file that are compressed at a time: some 10 ms
LARGEST = 1 << 17  # bytes of a piece: less than may be sent to a context behind an intermediary at once
SMALL = 1 << 20  # bytes of a file that may go along without being certain to be needed
# How a file is compressed: by which packer of wire.modules.bundle, and how hard.
# zlib: 6 makes 8 % less of numpy in 0.8 s more, which only links below 9 Mbit/s give back.
# stored: for what stays on this machine, where time counts and size does not; not kept.
_FORMS = {"zlib": ("zlib", 3), "zstd": ("zstd", 3), "stored": ("zlib", 0)}
_MOST_KEPT = 64 << 20  # bytes, in memory

_Identity = tuple[int, int, int, int, int]
_numbers: dict[_Identity, int] = {}
_lock = allocate_lock()
_compressed: "Bounded[tuple[int, str], tuple[Piece, ...]]" = Bounded(
    _MOST_KEPT, lambda pieces: sum(piece.size for piece in pieces)
)
_disk = DiskCache()


class Piece(NamedTuple):
    """A part of a compressed file. `digest`: see disk_cache.digest_of; `size` in bytes.

    `data()` returns the bytes; it may read a file, and raises OSError when they can no longer be had. Only while
    the iteration that has brought this piece is at it.
    """

    digest: bytes
    size: int
    data: Callable[[], bytes]
    mark: bytes = b"+"  # what goes in front of it in its frame: see roamlet.wire.protocol, PIECE


class SharedFile(NamedTuple):
    """One shared object of this machine. `number` is that of the file in this process, for every path and every target."""

    number: int
    path: str
    size: int
    stamp: _Identity
    soname: str = ""
    """The name that it gives itself."""

    def pieces(self, form: str = "zlib") -> Iterator[Piece]:
        """One stream in pieces of at most LARGEST bytes. `form`: "zlib", "zstd", or "stored", which is not compressed.

        Takes some 10 ms for each 256 KiB of the file when it has never been sent in this form, and is kept then for other
        contexts and later runs. Raises OSError when the file cannot be read, or has changed since.
        """
        if form == "stored":
            yield from map(_piece, self._compress(form))
            return
        known = _compressed.get((self.number, form))
        if known is not None:
            yield from known
            return
        name = self._name(form)
        with _disk.opened(name) as stored:
            if stored is not None:
                for index, (digest, size, _) in enumerate(stored.entries):
                    yield Piece(digest, size, functools.partial(self._stored, stored, name, index, form))
                return
        made: list[bytes] = []
        for data in self._compress(form):
            made.append(data)
            yield _piece(data)
        if not _disk.write(name, made):
            _compressed.put((self.number, form), tuple(map(_piece, made)))

    def _name(self, form: str) -> str:
        """Of the file with the compressed form."""
        said = (*self.stamp, *_FORMS[form], PIECE, LARGEST)
        return hashlib.sha256(repr(said).encode()).hexdigest()

    def _stored(self, stored: Stored, name: str, index: int, form: str) -> bytes:
        data = stored.piece(index)
        if data is None:  # damaged since; what was sent of it so far was not
            _disk.remove(name)
            digest = stored.entries[index].digest
            data = next((one for place, one in enumerate(self._compress(form)) if place == index), b"")
            if digest_of(data) != digest:
                raise OSError(f"{self.path} was changed while it was sent")
        return data

    def _compress(self, form: str) -> Iterator[bytes]:
        stream = wire_bundle.compressor(*_FORMS[form])
        size = 0
        with open(self.path, "rb") as file:
            while data := file.read(PIECE):
                size += len(data)
                yield from _cut(stream.compress(data))
            if size != self.size or _identity(os.fstat(file.fileno())) != self.stamp:
                raise OSError(f"{self.path} was changed while it was sent")
        yield from _cut(stream.flush())


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


def _piece(data: bytes) -> Piece:
    return Piece(digest_of(data), len(data), lambda: data)


def _cut(data: bytes) -> Sequence[bytes]:
    return [data[start : start + LARGEST] for start in range(0, len(data), LARGEST)]


def shared_file(path: str, soname: str = "") -> SharedFile:
    """The file at `path`; one file has one number, by whatever path it is reached. Raises OSError. Thread-safe."""
    identity = _identity(os.stat(path))
    with _lock:
        number = _numbers.setdefault(identity, len(_numbers) + 1)
    return SharedFile(number, path, identity[4], identity, soname)


def form_for(packer: str, *, is_near: bool) -> str:
    """The form for a target whose bundles are packed by `packer`; `is_near`: its bytes do not leave this machine."""
    if is_near:
        return "stored"
    return packer if packer in _FORMS else "zlib"  # xz would take minutes


def renew() -> None:
    """Make this usable in a forked process."""
    global _lock  # noqa: PLW0603 - the thread that held the old lock does not exist here
    _lock = allocate_lock()
    _disk.renew()


def _identity(status: os.stat_result) -> _Identity:
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
