"""Files to and from a context, in pieces that do not wait for each other. Whole folders are in files/trees.py.

Both ends of a transfer are the same code, roamlet.wire.files.files: one called on the target, one on a worker thread here.
What comes up is checked here before it is used; what is written here goes through roamlet.wire.files.files too, which leaves
the named place by no way.
"""

import contextlib
import errno
import os
import secrets
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol, TypeVar

from roamlet.core import sleep
from roamlet.core.os_threads import allocate_lock
from roamlet.io import call_async
from roamlet.remote.calls.engine import Calls
from roamlet.remote.calls.pipeline import Pipeline, begin_later
from roamlet.remote.errors import DamagedFile, FileChanged, RemoteError
from roamlet.remote.files.options import Facts, Options, Progress, ProgressFunction, Transferred
from roamlet.wire.files import files as wire
from roamlet.wire.files import folders

Opening = tuple[Facts, Any, str | None, bool]  # what roamlet.wire.files.files.start_reading returns

WORD = 1 << 63
HERE = "here"
STOP = 10.0  # seconds for the other side to take away what failed
LETS_GO = 5.0  # seconds for the other side to notice that a transfer, or its link, has ended


class Meter:
    """Counts a transfer of one file or many, and reports its progress. Used by tasklets of one thread."""

    def __init__(self, progress: ProgressFunction | None) -> None:
        self.bytes: int = 0
        self.files: int = 0
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

    def __init__(self, calls: Calls, options: Options) -> None:
        if options.checksum != "sha256" and calls.facts.python < (3, 6):
            raise ValueError(f"{calls.name!r} is {calls.facts}, which knows no {options.checksum}: checksum='sha256'")
        calls.shipping.need("files.files")
        self.calls = calls
        self.options = options
        self.meter: Meter = Meter(options.progress)

    @contextlib.contextmanager
    def far_end(self) -> Iterator[tuple[Pipeline, str]]:
        """A row of calls, and the token of what they are about. When this has failed, nothing of it is left on the target.

        What was cut off by something else than an error may be gone on with, when `resume` was said.
        """
        token = secrets.token_hex(8)
        pipeline = Pipeline(self.calls)
        try:
            yield pipeline, token
        except Exception:
            pipeline.close()
            if not self.calls.closed:
                with contextlib.suppress(RemoteError):
                    self.calls.call(wire.stop, (token, False), timeout=STOP)
            raise
        except BaseException:
            pipeline.close()
            begin_later(self.calls, wire.stop, (token, True))
            raise
        pipeline.close()

    def changed(self, path: bytes, where: str) -> FileChanged:
        return FileChanged(
            f"{os.fsdecode(path)!r} {where} was changed while it was read; nothing was put in place.\n"
            "    Transfer it when no program writes to it, or transfer a copy.",
            context=self.calls.name,
        )

    def damaged(self, path: bytes) -> DamagedFile:
        return DamagedFile(
            f"{os.fsdecode(path)!r} did not arrive as it was sent; nothing was put in place.\n"
            "    Its checksum is another one at the other end: something on the way, or a memory or a disk, is broken.",
            context=self.calls.name,
        )

    @property
    def there(self) -> str:
        return f"in {self.calls.name!r}"


class Closable(Protocol):
    """A Reader or Writer."""

    def close(self, keep: bool = ...) -> object:
        """End it."""


Made = TypeVar("Made", bound=Closable)


@contextlib.contextmanager
def made(make: Callable[[], Made], *, keep: bool = False) -> Iterator[Made]:
    """What `make` makes on a worker thread, closed in the end; also when the caller no longer waits for it to be made.

    `keep`: closed so that another transfer can go on with it, if it was meant to be.
    """
    lock = allocate_lock()
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


# ---- put


def put_file(
    transfer: Transfer, opened: Callable[[], int], source: bytes, start: Callable[..., Any], where: tuple[bytes, bytes]
) -> str:
    """Send one file, which `opened` opens, and return its checksum. `start` begins to write it, `where` are its arguments."""
    options = transfer.options
    for _ in range(2):
        with transfer.far_end() as (pipeline, token), made(lambda: wire.Reader(opened(), options.checksum)) as reader:
            how = options.how(needs=reader.needs)
            if reader.size <= wire.PIECE and start is wire.start_writing and not options.resume:
                digest, resumed = _put_whole(transfer, pipeline, reader, source, where, how), 0
            else:
                resumed = _begin(pipeline, start, (token, *where, reader.size, how), wait=options.resume)
                digest = _put_pieces(transfer, pipeline, token, reader, source, resumed)
            if digest is not None:
                transfer.meter.resumed += resumed
                return digest
        if not resumed:
            break
        # What was there from an earlier time is another file's.
        transfer.meter.count(source, -reader.size, 0, reader.size)
        transfer.meter.files -= 1
    raise transfer.damaged(source)


def _begin(pipeline: Pipeline, start: Callable[..., Any], arguments: tuple[Any, ...], *, wait: bool) -> int:
    """Begin to write on the target; return how much is there. Without `wait` nothing can be, and the pieces follow at once."""
    if wait:
        return _number(pipeline, _once_let_go(lambda: pipeline.call(start, arguments)), arguments[-2])

    def started(position: Any) -> int:
        return _number(pipeline, position, 0)

    pipeline.send(start, arguments, 0, started)
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
    pipeline: Pipeline,
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
    whole = pipeline.call(wire.write_whole, (*where, size, how, piece, digest, facts, transfer.options.keep))
    transfer.meter.count(source, size, size, size)
    return digest if whole is True else None


def _put_pieces(
    transfer: Transfer, pipeline: Pipeline, token: str, reader: wire.Reader, source: bytes, position: int
) -> str | None:
    """Send what is behind `position`. None when it did not arrive as it was."""
    size, arrived = reader.size, position
    call_async(lambda: reader.skip(position))
    if position or not size:
        transfer.meter.count(source, position, position, size)

    def taken(value: Any) -> int:
        nonlocal arrived
        more = max(0, _number(pipeline, value, size) - arrived)
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
        pipeline.send(wire.write, (token, position, piece, length), length, taken)
        position += length
    digest, same = call_async(lambda: reader.finish(size))
    if not same:
        raise transfer.changed(source, HERE)
    facts = transfer.options.facts(reader.facts)
    whole = pipeline.call(wire.finish, (token, size, digest, facts, transfer.options.keep))
    return digest if whole is True else None


# ---- get


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
        with transfer.far_end() as (pipeline, token):
            answer = pipeline.call(start, (token, *where, options.checksum, skipped))
            if answer is None:
                return None
            size, begun, digest = _get_opened(
                transfer, pipeline, token, checked_opening(pipeline, answer), target, opened, skipped
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
    pipeline: Pipeline,
    token: str,
    opening: Opening,
    target: bytes,
    opened: Callable[[int, dict[str, Any]], wire.Writer],
    skipped: int,
) -> tuple[int, int, str]:
    """Fetch what follows the first `skipped` bytes, which are here; return size, how many of those counted, and checksum.

    The checksum is empty when the whole is not what it is on the target.
    """
    options = transfer.options
    facts, first, digest, same = opening
    size = facts[2]
    begun = min(skipped, size)
    with made(lambda: opened(size, options.how()), keep=True) as writer:
        if writer.position != begun:  # the bytes that are here belong to another file
            pipeline.call(wire.stop, (token,))
            return size, 0, ""
        if begun:
            transfer.meter.count(target, begun, begun, size)
        _take(transfer, writer, first, size, target)
        if digest is None:
            digest, same = _get_pieces(transfer, pipeline, token, writer, size, target)
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
    transfer: Transfer, pipeline: Pipeline, token: str, writer: wire.Writer, size: int, target: bytes
) -> tuple[str, bool]:
    """Fetch what is not here yet; return the checksum on the target, and whether the file stayed as it was."""
    said: list[Any] = []

    def taken(length: int, piece: Any) -> int:
        if not _is_piece(piece) or _length(piece) > length:
            pipeline.refuse("a malformed piece of a file")
        if _length(piece) < length:
            raise transfer.changed(target, transfer.there)
        return _take(transfer, writer, piece, size, target)

    def ended(answer: Any) -> int:
        said.append(answer)
        return 0

    for position in range(writer.position, size, wire.PIECE):
        length = min(wire.PIECE, size - position)
        pipeline.send(wire.read, (token, position, length), length, partial(taken, length))
    pipeline.send(wire.stop_reading, (token, size), 0, ended)
    pipeline.settle()
    answer = said[0]
    if type(answer) is not tuple or tuple(map(type, answer)) != (str, bool):
        pipeline.refuse("a malformed checksum")
    return answer[0], answer[1]


# ---- what comes up


def checked_opening(pipeline: Pipeline, answer: Any) -> Opening:
    """What roamlet.wire.files.files.start_reading returns; whatever else comes ends the context."""
    if type(answer) is not list or len(answer) != 4:
        pipeline.refuse("no facts about a file")
    facts, first, digest, same = answer
    facts = checked_facts(pipeline, facts)
    if not _is_piece(first) or _length(first) > min(wire.PIECE, facts[2]):
        pipeline.refuse("a malformed first piece of a file")
    if digest is not None and (type(digest) is not str or len(digest) > 200):
        pipeline.refuse("a malformed checksum")
    return facts, first, digest, same is True


def checked_facts(pipeline: Pipeline, facts: Any) -> Facts:
    """What roamlet.wire.files.files.facts_of returns; whatever else comes ends the context."""
    good = (
        type(facts) is list and len(facts) == 4 and all(type(one) is int and -WORD <= one < WORD for one in facts[:3])
    )
    if good:
        owner = facts[3]
        good = facts[2] >= 0 and type(owner) is list and len(owner) == 4
        good = good and all(type(number) is int and 0 <= number < 1 << 32 for number in owner[:2])
        good = good and all(name is None or type(name) is str for name in owner[2:])
    if not good:
        pipeline.refuse("malformed facts about a file")
    return facts  # type: ignore[no-any-return]


def _is_piece(piece: Any) -> bool:
    return type(piece) in (bytes, bytearray) or (type(piece) is int and piece >= 0)


def _length(piece: Any) -> int:
    return piece if isinstance(piece, int) else len(piece)


def _number(pipeline: Pipeline, value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        pipeline.refuse("a position that is not in the file")
    return value
