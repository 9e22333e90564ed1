"""Files of this account in its cache folder, for what takes long to make: private, bounded, checked when they are read.

What is kept here only saves time: a file that is missing, damaged or of another account is made again, and without a folder nothing
is kept.
"""

import contextlib
import hashlib
import os
import stat
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from roamlet.core.os_threads import allocate_lock

PLACE = "ROAMLET_CACHE"  # names the folder; empty: nothing is kept
MOST = 1 << 30  # bytes of all files together; those that were used longest ago go first
DIGEST = 16  # bytes

_MAGIC = b"roamlet pieces 1\n"
_COUNT = struct.Struct(">I")
_ENTRY = struct.Struct(">16sI")  # digest and size of a piece
_MOST_PIECES = 1 << 16
_FRESH = 3600.0  # seconds: a file's time of change is that of its last use, to within this; an older unfinished file is removed


def digest_of(data: bytes) -> bytes:
    """The digest by which a piece is known: BLAKE2b of 16 bytes."""
    return hashlib.blake2b(data, digest_size=DIGEST).digest()


def place() -> Path | None:
    """The folder of this account, which may not exist yet; None where nothing is to be kept."""
    named = os.environ.get(PLACE)
    if named is not None:
        return Path(named) if os.path.isabs(named) else None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base, "roamlet") if os.path.isabs(base) else None


class Entry(NamedTuple):
    """One piece of a file."""

    digest: bytes
    size: int
    start: int


class Stored:
    """A file of pieces, open for reading. Not thread-safe."""

    def __init__(self, descriptor: int, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self._descriptor = descriptor

    def piece(self, index: int) -> bytes | None:
        """The piece with this number; None if it is not what was written."""
        digest, size, start = self.entries[index]
        try:
            data = os.pread(self._descriptor, size, start)
        except OSError:
            return None
        return data if digest_of(data) == digest else None


class DiskCache:
    """Files of pieces below `place()`, each under a name of hexadecimal digits. Thread-safe; no method raises OSError."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._total: tuple[Path, int] | None = None  # of the files in this folder, as far as this process knows
        self._lock = allocate_lock()
        self._parts = 0

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[Stored | None]:
        """The file of this name while the block lasts; None without one that can be used."""
        descriptor = None
        folder = place()
        if folder is not None and _is_private(folder):
            with contextlib.suppress(OSError):
                descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor is None:
            yield None
            return
        try:
            yield _read_head(descriptor)
        finally:
            os.close(descriptor)

    def write(self, name: str, pieces: Sequence[bytes]) -> bool:
        """Keep `pieces` under this name, and remove what was used longest ago until all fits. Whether they are kept."""
        folder = place()
        if folder is None or len(pieces) > _MOST_PIECES or sum(map(len, pieces)) > self._most // 2:
            return False
        head = _MAGIC + _COUNT.pack(len(pieces)) + b"".join(_ENTRY.pack(digest_of(one), len(one)) for one in pieces)
        data = [head, digest_of(head), *pieces]
        try:
            _make(folder)
            if not _is_private(folder):
                return False
            with self._lock:
                self._parts += 1
                part = folder / f".{name}.{os.getpid()}.{self._parts}"
            _write_and_rename(part, folder / name, data)
            self._make_room(folder, sum(map(len, data)))
        except OSError:
            return False
        return True

    def remove(self, name: str) -> None:
        """Forget the file of this name, which is damaged."""
        folder = place()
        if folder is not None:
            with contextlib.suppress(OSError):
                (folder / name).unlink()

    def _make_room(self, folder: Path, added: int) -> None:
        with self._lock:
            if self._total is not None and self._total[0] == folder and self._total[1] + added <= self._most:
                self._total = folder, self._total[1] + added
                return
            files = []
            for entry in os.scandir(folder):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if entry.name.startswith("."):
                        if time.time() - status.st_mtime > _FRESH:
                            os.unlink(entry.path)
                    else:
                        files.append((status.st_mtime_ns, status.st_size, entry.path))
            total = sum(size for _, size, _ in files)
            for _, size, path in sorted(files):
                if total <= self._most:
                    break
                with contextlib.suppress(OSError):
                    os.unlink(path)
                total -= size
            self._total = folder, total

    def renew(self) -> None:
        """Make this usable in a forked process, whose other threads may have held the lock and are gone."""
        self._lock = allocate_lock()


def _make(folder: Path) -> None:
    """Make the folder, 0700, in a base folder that is there or can be made in a folder of this account: root makes none in a home.

    Raises OSError.
    """
    base = folder.parent
    if not base.is_dir():
        if os.lstat(base.parent).st_uid != os.geteuid():
            raise PermissionError(f"{base.parent} belongs to another account")
        base.mkdir(0o700, exist_ok=True)
    folder.mkdir(0o700, exist_ok=True)
    status = os.lstat(folder)
    if (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and status.st_mode & 0o077
        and not status.st_mode & 0o022
    ):
        os.chmod(folder, 0o700)  # others could look into it, but have put nothing there


def _is_private(folder: Path) -> bool:
    """Whether it is a folder of this account that no other one can write in, or look into."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _read_head(descriptor: int) -> Stored | None:
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return None
        begin = os.pread(descriptor, len(_MAGIC) + _COUNT.size, 0)
        if len(begin) != len(_MAGIC) + _COUNT.size or not begin.startswith(_MAGIC):
            return None
        count = _COUNT.unpack(begin[len(_MAGIC) :])[0]
        if count > _MOST_PIECES:
            return None
        rest = os.pread(descriptor, count * _ENTRY.size + DIGEST, len(begin))
        table, digest = rest[:-DIGEST], rest[-DIGEST:]
        if len(table) != count * _ENTRY.size or digest_of(begin + table) != digest:
            return None
        entries = []
        start = len(begin) + len(rest)
        for digest, size in _ENTRY.iter_unpack(table):
            entries.append(Entry(digest, size, start))
            start += size
        if start != status.st_size:
            return None
        if time.time() - status.st_mtime > _FRESH:
            os.utime(descriptor)
    except OSError:
        return None
    return Stored(descriptor, entries)


def _write_and_rename(part: Path, path: Path, data: Sequence[bytes]) -> None:
    """Write a file, 0600, that is never seen in part under its name. Raises OSError; nothing is left behind then."""
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.writelines(data)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
