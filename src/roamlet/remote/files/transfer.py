"""Files to and from a context, in pieces that do not wait for each other. Whole folders stand in files/trees.py.

Both ends of a transfer are the same code, roamlet.wire.files: one called over there, one on a worker thread here. What comes up is
checked here before it is used; what is written here goes through roamlet.wire.files too, which leaves the named place by no way.
"""

import contextlib
import errno
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from roamlet.core import sleep
from roamlet.io import call_async
from roamlet.remote.calls import pipeline
from roamlet.remote.calls.pipeline import Pipeline
from roamlet.remote.errors import DamagedFile, FileChanged, RemoteError
from roamlet.wire import files as wire
from roamlet.wire import folders

if TYPE_CHECKING:
    from roamlet.remote.context import Context

__all__ = ["Progress", "Transferred"]

ProgressFunction = Callable[["Progress"], object]
Facts = list[Any]  # as roamlet.wire.files.facts_of makes them
Opening = tuple[Facts, Any, str | None, bool]  # what roamlet.wire.files.start_reading returns

ALGORITHMS = ("sha256", "blake2b")
SYMLINKS = ("keep", "follow", "skip")
WORD = 1 << 63
HERE = "here"
STOP = 10.0  # seconds for the other side to take away what failed
LETS_GO = 5.0  # seconds for the other side to notice that a transfer, or its link, has ended


@dataclass(frozen=True)
class Progress:
    """How far a transfer is. `path` is the file that goes on, `done` of its `size` bytes are there; the sums are over all files."""

    path: str
    done: int
    size: int
    files: int
    bytes: int


@dataclass(frozen=True)
class Transferred:
    """What a transfer has done. `path` is where the file or folder stands now.

    `bytes` are those of all files, of which `resumed` were there from an earlier time. `checksum` is the file's, in hexadecimal;
    None for a folder. `skipped` names what was left out: devices, pipes, sockets, and symbolic links when that was asked for.
    """

    path: str
    bytes: int
    files: int
    seconds: float
    checksum: str | None = None
    resumed: int = 0
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Options:
    """What `put` and `get` were asked for, checked."""

    mode: int | None = None
    owner: bool = False
    times: bool = True
    overwrite: bool = True
    parents: bool = False
    resume: bool = False
    sync: bool = True
    symlinks: str = "keep"
    checksum: str = "sha256"
    progress: ProgressFunction | None = None
    key: str = field(default_factory=lambda: secrets.token_hex(4))

    def __post_init__(self) -> None:
        if self.checksum not in ALGORITHMS:
            raise ValueError(f"checksum={self.checksum!r}: say one of {', '.join(map(repr, ALGORITHMS))}")
        if self.symlinks not in SYMLINKS:
            raise ValueError(f"symlinks={self.symlinks!r}: say one of {', '.join(map(repr, SYMLINKS))}")
        if self.mode is not None and (type(self.mode) is not int or not 0 <= self.mode <= 0o7777):
            raise ValueError(
                f"mode={self.mode!r}: give permissions such as 0o644, or None for those of the file itself"
            )
        if self.progress is not None and not callable(self.progress):
            raise TypeError(f"progress must be a function of one Progress, or None, not {self.progress!r}")

    @property
    def keep(self) -> list[str]:
        words = {"owner": self.owner, "time": self.times, "bits": self.mode is not None}
        return [word for word, wanted in words.items() if wanted]

    def how(self, **more: Any) -> dict[str, Any]:
        """What roamlet.wire.files.Writer asks for."""
        return {
            "algorithm": self.checksum,
            "overwrite": self.overwrite,
            "parents": self.parents,
            "resume": self.resume,
            "key": "unfinished" if self.resume else self.key,
            "sync": self.sync,
            **more,
        }

    def facts(self, facts: Facts) -> Facts:
        """Those of the source with what was asked for instead."""
        return facts if self.mode is None else [self.mode, *facts[1:]]


class Meter:
    """Counts a transfer of one file or many, and tells whoever wants to know. Used by tasklets of one thread."""

    def __init__(self, progress: ProgressFunction | None) -> None:
        self.bytes = 0
        self.files = 0
        self.resumed = 0
        self._progress = progress
        self._began = time.monotonic()

    def count(self, path: bytes, more: int, done: int, size: int) -> None:
        """`more` bytes of a file have arrived, `done` of `size` in all. Raises what the caller's function raises."""
        self.bytes += more
        self.files += done == size
        if self._progress is not None:
            self._progress(Progress(os.fsdecode(path), done, size, self.files, self.bytes))

    def uncount(self, path: bytes, size: int) -> None:
        """All of a file was for nothing, and comes again."""
        if size:
            self.files -= 1
            self.count(path, -size, 0, size)

    def result(self, path: bytes, checksum: str | None, skipped: tuple[str, ...] = ()) -> Transferred:
        seconds = time.monotonic() - self._began
        return Transferred(os.fsdecode(path), self.bytes, self.files, seconds, checksum, self.resumed, skipped)


class Transfer:
    """What the parts of one put or get have in common."""

    def __init__(self, context: "Context", options: Options) -> None:
        if options.checksum != "sha256" and context.facts.python < (3, 6):
            raise ValueError(
                f"{context.name!r} is {context.facts}, which knows no {options.checksum}: checksum='sha256'"
            )
        context._shipping.need("files")
        self.context = context
        self.options = options
        self.meter = Meter(options.progress)

    @contextlib.contextmanager
    def far_end(self) -> Iterator[tuple[Pipeline, str]]:
        """A row of calls, and the token of what they are about. Over there nothing of it is left when this has failed.

        What was cut off by something else than an error may be gone on with, when `resume` was said.
        """
        token = secrets.token_hex(8)
        calls = Pipeline(self.context)
        try:
            yield calls, token
        except Exception:
            calls.close()
            if not self.context.closed:
                with contextlib.suppress(RemoteError):
                    self.context.call(wire.stop, (token, False), timeout=STOP)
            raise
        except BaseException:
            calls.close()
            pipeline.begin_later(self.context, wire.stop, (token, True))
            raise
        calls.close()

    def changed(self, path: bytes, where: str) -> FileChanged:
        return FileChanged(
            f"{os.fsdecode(path)!r} {where} was changed while it was read; nothing was put in place.\n"
            "    Transfer it when nobody writes to it, or transfer a copy.",
            context=self.context.name,
        )

    def damaged(self, path: bytes) -> DamagedFile:
        return DamagedFile(
            f"{os.fsdecode(path)!r} did not arrive as it was sent; nothing was put in place.\n"
            "    Its checksum is another one at the other end: something on the way, or a memory or a disk, is broken.",
            context=self.context.name,
        )

    @property
    def there(self) -> str:
        return f"in {self.context.name!r}"


class Closable(Protocol):
    """A Reader or Writer."""

    def close(self, keep: bool = ...) -> object:
        """End it."""


Made = TypeVar("Made", bound=Closable)


@contextlib.contextmanager
def made(make: Callable[[], Made], *, keep: bool = False) -> Iterator[Made]:
    """What `make` makes on a worker thread, closed in the end; also when nobody waits any more for it to be made.

    `keep`: closed so that another transfer can go on with it, if it was meant to be.
    """
    lock = threading.Lock()
    finished: list[Made] = []
    abandoned = False

    def job() -> None:
        one = make()
        with lock:
            if not abandoned:
                finished.append(one)
                return
        one.close()

    try:
        call_async(job)
        yield finished[0]
    finally:
        with lock:
            abandoned = True
        for one in finished:
            one.close(keep)


@contextlib.contextmanager
def _paths_as_text() -> Iterator[None]:
    """Let errors name paths as they were given: within transfers they are bytes."""
    try:
        yield
    except OSError as error:
        if isinstance(error.filename, bytes):
            error.filename = os.fsdecode(error.filename)
        raise


# ---- put


@_paths_as_text()
def put(context: "Context", local: str | os.PathLike[str], remote: str, options: Options) -> Transferred:
    """See Context.put."""
    source, target = _path(local, "local"), _path(remote, "remote")
    if stat.S_ISDIR(call_async(lambda: os.stat(source)).st_mode):
        # Inside: the two files need each other.
        from roamlet.remote.files import trees

        return trees.put(trees.TreeTransfer(context, options), source, target)
    transfer = Transfer(context, options)
    if target.endswith(b"/"):
        target += os.path.basename(source)
    digest = put_file(transfer, lambda: wire.open_to_read(source), source, wire.start_writing, (target, b""))
    return transfer.meter.result(target, digest)


def put_file(
    transfer: Transfer, opened: Callable[[], int], source: bytes, start: Callable[..., Any], where: tuple[bytes, bytes]
) -> str:
    """Send one file, which `opened` opens, and return its checksum. `start` begins to write it, `where` are its arguments."""
    options = transfer.options
    for _ in range(2):
        with transfer.far_end() as (calls, token), made(lambda: wire.Reader(opened(), options.checksum)) as reader:
            how = options.how(needs=reader.needs)
            if reader.size <= wire.PIECE and start is wire.start_writing and not options.resume:
                digest, resumed = _put_whole(transfer, calls, reader, source, where, how), 0
            else:
                resumed = _begin(calls, start, (token, *where, reader.size, how), wait=options.resume)
                digest = _put_pieces(transfer, calls, token, reader, source, resumed)
            if digest is not None:
                transfer.meter.resumed += resumed
                return digest
        if not resumed:
            break
        transfer.meter.count(
            source, -reader.size, 0, reader.size
        )  # what was there from an earlier time is another file's
        transfer.meter.files -= 1
    raise transfer.damaged(source)


def _begin(calls: Pipeline, start: Callable[..., Any], arguments: tuple[Any, ...], *, wait: bool) -> int:
    """Begin to write over there; return how much is there. Without `wait` nothing can be, and the pieces follow at once."""
    if wait:
        return _number(calls, _once_let_go(lambda: calls.call(start, arguments)), arguments[-2])

    def started(position: Any) -> int:
        return _number(calls, position, 0)

    calls.send(start, arguments, 0, started)
    return 0


def _once_let_go(begin: Callable[[], Any]) -> Any:
    """What `begin` returns, tried again for a while when another transfer has the file: one that was interrupted a moment ago,
    here or with its link, has it until the other end knows.
    """
    until = time.monotonic() + LETS_GO
    while True:
        try:
            return begin()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() >= until:
                raise
        _pause()


def _pause() -> None:
    sleep(0.05)


def _put_whole(
    transfer: Transfer,
    calls: Pipeline,
    reader: wire.Reader,
    source: bytes,
    where: tuple[bytes, bytes],
    how: dict[str, Any],
) -> str | None:
    """A file of one piece: one call. None when it did not arrive as it was."""
    size, facts = reader.size, transfer.options.facts(reader.facts)
    piece = call_async(lambda: reader.read(0, size))
    digest, same = reader.finish(size) if _length(piece) == size else ("", False)
    if not same:
        raise transfer.changed(source, HERE)
    whole = calls.call(wire.write_whole, (*where, size, how, piece, digest, facts, transfer.options.keep))
    transfer.meter.count(source, size, size, size)
    return digest if whole is True else None


def _put_pieces(
    transfer: Transfer, calls: Pipeline, token: str, reader: wire.Reader, source: bytes, position: int
) -> str | None:
    """Send what is behind `position`. None when it did not arrive as it was."""
    size, arrived = reader.size, position
    call_async(lambda: reader.skip(position))
    if position or not size:
        transfer.meter.count(source, position, position, size)

    def taken(value: Any) -> int:
        nonlocal arrived
        more = max(0, _number(calls, value, size) - arrived)
        arrived += more
        if more:
            transfer.meter.count(source, more, arrived, size)
        return more

    def next_piece() -> Any:
        return reader.read(position, min(wire.PIECE, size - position))

    while position < size:
        piece = call_async(next_piece)
        length = _length(piece)
        if not length:
            raise transfer.changed(source, HERE)
        calls.send(wire.write, (token, position, piece, length), length, taken)
        position += length
    digest, same = call_async(lambda: reader.finish(size))
    if not same:
        raise transfer.changed(source, HERE)
    facts = transfer.options.facts(reader.facts)
    whole = calls.call(wire.finish, (token, size, digest, facts, transfer.options.keep))
    return digest if whole is True else None


# ---- get


@_paths_as_text()
def get(context: "Context", remote: str, local: str | os.PathLike[str], options: Options) -> Transferred:
    """See Context.get."""
    source, target = _path(remote, "remote"), _path(local, "local")
    transfer = Transfer(context, options)
    if target.endswith(b"/"):
        target += os.path.basename(source.rstrip(b"/"))
    target = os.path.abspath(target)

    def opened(size: int, how: dict[str, Any]) -> wire.Writer:
        writer: wire.Writer = wire.writer(target, b"", size, how)
        return writer

    digest = get_file(transfer, wire.start_reading, (source,), target, opened)
    if digest is None:
        # Inside: the two files need each other.
        from roamlet.remote.files import trees

        return trees.get(trees.TreeTransfer(context, options), source, target)
    return transfer.meter.result(target, digest)


def get_file(
    transfer: Transfer,
    start: Callable[..., Any],
    where: tuple[Any, ...],
    target: bytes,
    opened: Callable[[int, dict[str, Any]], wire.Writer],
) -> str | None:
    """Fetch one file and return its checksum, None when it is a folder. `opened` makes the Writer.

    `start` begins to read it, `where` are its arguments.
    """
    options = transfer.options
    skipped = call_async(lambda: _size_of_unfinished(options, target))
    while True:
        with transfer.far_end() as (calls, token):
            answer = calls.call(start, (token, *where, options.checksum, skipped))
            if answer is None:
                return None
            size, begun, digest = _get_opened(
                transfer, calls, token, checked_opening(calls, answer), target, opened, skipped
            )
        if digest:
            transfer.meter.resumed += begun
            return digest
        if not skipped:
            raise transfer.damaged(target)
        transfer.meter.uncount(target, begun and size)
        skipped = 0


def _get_opened(
    transfer: Transfer,
    calls: Pipeline,
    token: str,
    opening: Opening,
    target: bytes,
    opened: Callable[[int, dict[str, Any]], wire.Writer],
    skipped: int,
) -> tuple[int, int, str]:
    """Fetch what is behind the first `skipped` bytes, which are here; return size, how many of those counted, and checksum.

    The checksum is empty when the whole is not what it is over there.
    """
    options = transfer.options
    facts, first, digest, same = opening
    size = facts[2]
    begun = min(skipped, size)
    with made(lambda: opened(size, options.how()), keep=True) as writer:
        if writer.position != begun:  # what is here is none of it
            calls.call(wire.stop, (token,))
            return size, 0, ""
        if begun:
            transfer.meter.count(target, begun, begun, size)
        _take(transfer, writer, first, size, target)
        if digest is None:
            digest, same = _get_pieces(transfer, calls, token, writer, size, target)
        if not same or writer.ordered.position != size:
            raise transfer.changed(target, transfer.there)
        whole = call_async(lambda: writer.finish(size, digest, options.facts(facts), options.keep))
        return size, begun, digest if whole else ""


def _size_of_unfinished(options: Options, target: bytes) -> int:
    """How much of the file is here from an earlier time."""
    if not options.resume:
        return 0
    folder, name = os.path.split(target)
    try:
        return os.lstat(os.path.join(folder, folders.beside(name, options.how()["key"]))).st_size
    except OSError:
        return 0


def _take(transfer: Transfer, writer: wire.Writer, piece: Any, size: int, target: bytes) -> int:
    length = _length(piece)
    if not length and size:
        return 0
    if length:
        at = writer.ordered.position
        call_async(lambda: writer.ordered.add(at, piece, length))
    transfer.meter.count(target, length, writer.position, size)
    return length


def _get_pieces(
    transfer: Transfer, calls: Pipeline, token: str, writer: wire.Writer, size: int, target: bytes
) -> tuple[str, bool]:
    """Fetch what is not here yet; return the checksum over there, and whether the file stayed as it was."""
    said: list[Any] = []

    def taken(length: int, piece: Any) -> int:
        if not _is_piece(piece) or _length(piece) > length:
            calls.refuse("a piece of a file that is none")
        if _length(piece) < length:
            raise transfer.changed(target, transfer.there)
        return _take(transfer, writer, piece, size, target)

    def ended(answer: Any) -> int:
        said.append(answer)
        return 0

    for position in range(writer.position, size, wire.PIECE):
        length = min(wire.PIECE, size - position)
        calls.send(wire.read, (token, position, length), length, partial(taken, length))
    calls.send(wire.stop_reading, (token, size), 0, ended)
    calls.settle()
    answer = said[0]
    if type(answer) is not tuple or tuple(map(type, answer)) != (str, bool):
        calls.refuse("a checksum that is none")
    return answer[0], answer[1]


# ---- what comes up


def checked_opening(calls: Pipeline, answer: Any) -> Opening:
    """What roamlet.wire.files.start_reading returns; whatever else comes ends the context."""
    if type(answer) is not list or len(answer) != 4:
        calls.refuse("no facts about a file")
    facts, first, digest, same = answer
    facts = checked_facts(calls, facts)
    if not _is_piece(first) or _length(first) > min(wire.PIECE, facts[2]):
        calls.refuse("a first piece of a file that is none")
    if digest is not None and (type(digest) is not str or len(digest) > 200):
        calls.refuse("a checksum that is none")
    return facts, first, digest, same is True


def checked_facts(calls: Pipeline, facts: Any) -> Facts:
    """What roamlet.wire.files.facts_of returns; whatever else comes ends the context."""
    good = (
        type(facts) is list and len(facts) == 4 and all(type(one) is int and -WORD <= one < WORD for one in facts[:3])
    )
    if good:
        owner = facts[3]
        good = facts[2] >= 0 and type(owner) is list and len(owner) == 4
        good = good and all(type(number) is int and 0 <= number < 1 << 32 for number in owner[:2])
        good = good and all(name is None or type(name) is str for name in owner[2:])
    if not good:
        calls.refuse("facts about a file that are none")
    return facts  # type: ignore[no-any-return]


def _is_piece(piece: Any) -> bool:
    return type(piece) in (bytes, bytearray) or (type(piece) is int and piece >= 0)


def _length(piece: Any) -> int:
    return piece if isinstance(piece, int) else len(piece)


def _number(calls: Pipeline, value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        calls.refuse("a position in a file that is none")
    return value


def _path(path: str | os.PathLike[str], what: str) -> bytes:
    try:
        raw = os.fsencode(path)
    except TypeError:
        raise TypeError(f"{what} must be a path, not {path!r:.80}: put(local, remote), get(remote, local)") from None
    if not raw or b"\0" in raw:
        raise ValueError(f"{what}={path!r:.80} is no path")
    return raw


def options_of(**given: Any) -> Options:
    """Raises TypeError and ValueError for what makes no sense."""
    known = [one.name for one in fields(Options) if one.name != "key"]
    for name in given:
        if name not in known:
            raise TypeError(f"put() and get() know no option {name!r}; they take {', '.join(known)}")
    return replace(Options(), **given)
