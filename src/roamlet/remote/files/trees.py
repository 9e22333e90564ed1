"""Whole folders to and from a context: small files many to a message, large ones each as in files/transfer.py, some at once."""

import os
import secrets
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import roamlet
from roamlet.core.os_threads import allocate_lock
from roamlet.io import call_async
from roamlet.remote.calls.engine import Calls
from roamlet.remote.calls.pipeline import Pipeline, begin_later
from roamlet.remote.errors import UnsafeName
from roamlet.remote.files.options import Options, Transferred
from roamlet.remote.files.transfer import HERE, Transfer, checked_facts, checked_opening, get_file, put_file
from roamlet.sync import Semaphore
from roamlet.wire.files import files, trees

AT_ONCE = 8  # large files under way
BATCH = 1 << 20  # bytes of small files in one message
MOST_IN_BATCH = 500  # names in one message
NAME_COSTS = 256  # bytes that a name counts for besides its file
AHEAD = 4  # pages of names that are asked for at once

Entry = tuple[bytes, str, Any, bytes | None]
"""Name, kind, facts, where a link points: see roamlet.wire.files.trees.walk."""


class TreeTransfer(Transfer):
    """The put or get of a folder."""

    def __init__(self, calls: Calls, options: Options) -> None:
        if options.mode is not None:
            raise ValueError("mode= is for one file; of a folder, each file keeps its own")
        super().__init__(calls, options)
        calls.shipping.need("files.trees")
        self.skipped: list[str] = []
        self.folders: list[tuple[bytes, Any]] = []
        self.small: dict[str, Any] = options.how(resume=False, key=options.key)
        self._large = Semaphore(AT_ONCE)

    def leave_out(self, name: bytes) -> None:
        self.skipped.append(os.fsdecode(name))

    def in_turn(self, scope: roamlet.scope, work: Callable[[], object]) -> None:
        """Run `work` in a tasklet of its own once fewer than AT_ONCE run."""
        self._large.acquire()

        def run() -> None:
            try:
                work()
            finally:
                self._large.release()

        scope.spawn(run)


class Batch:
    """What is collected for one message."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self.weight: int = 0

    def add(self, entry: Any, size: int) -> None:
        self.entries.append(entry)
        self.weight += size + NAME_COSTS

    @property
    def full(self) -> bool:
        return self.weight >= BATCH or len(self.entries) >= MOST_IN_BATCH

    def taken(self) -> tuple[list[Any], int]:
        found = self.entries, self.weight
        self.__init__()  # type: ignore[misc] # empty again
        return found


def one_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error to raise: of several transfers that failed, the first tells enough."""
    error = group.exceptions[0]
    return one_error(error) if isinstance(error, BaseExceptionGroup) else error


# ---- put


def put(transfer: TreeTransfer, source: bytes, target: bytes) -> Transferred:
    """Send the folder `source` so that it becomes `target`."""
    target = target.rstrip(b"/") or b"/"
    error: BaseException | None = None
    with transfer.far_end() as (pipeline, _):
        pipeline.call(trees.make_top, (target, transfer.options.parents))
        top_facts = call_async(lambda: files.facts_of(os.stat(source)))
        transfer.folders.append((b"", top_facts))
        try:
            with roamlet.scope() as scope:
                _put_entries(transfer, pipeline, scope, source, target)
                pipeline.settle()
        except BaseExceptionGroup as group:
            error = one_error(group).with_traceback(None)
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback holds this frame
        _seal(transfer, lambda entries: pipeline.send(trees.seal, (target, entries, transfer.options.keep), 0))
        pipeline.settle()
    return transfer.meter.result(target, None, tuple(transfer.skipped))


def _put_entries(
    transfer: TreeTransfer, pipeline: Pipeline, scope: roamlet.scope, source: bytes, target: bytes
) -> None:
    options = transfer.options
    small, rest = Batch(), Batch()

    def store(entries: list[Any], weight: int) -> None:
        def arrived(damaged: Any) -> int:
            if damaged != []:
                raise transfer.damaged(source)
            for entry in entries:
                if entry[1] == "f":
                    size = entry[2][2]
                    transfer.meter.count(entry[0], size, size, size)
            return weight

        pipeline.send(trees.store, (target, entries, transfer.small, options.keep), weight, arrived)

    def send_small() -> None:
        names, weight = small.taken()
        read = call_async(lambda: trees.fetch(source, names, options.symlinks == "follow", options.checksum))
        entries = []
        for name, (facts, piece, digest, same) in zip(names, read, strict=True):
            if not same:
                raise transfer.changed(os.path.join(source, name), HERE)
            entries.append([name, "f", facts, piece, digest])
        store(entries, weight)

    def send_large(name: bytes) -> None:
        path = os.path.join(source, name)
        follow = options.symlinks == "follow"
        put_file(transfer, lambda: trees.opened(source, name, follow), path, trees.start_writing, (target, name))

    for page in _pages(trees.walk(source, options.symlinks == "follow")):
        for name, kind, facts, link in page:
            if kind == "x" or (kind == "l" and options.symlinks == "skip"):
                transfer.leave_out(name)
            elif kind == "f" and facts[2] > trees.SMALL:
                transfer.in_turn(scope, lambda name=name: send_large(name))  # type: ignore[misc]
            elif kind == "f":
                small.add(name, facts[2])
            else:
                rest.add([name, "d"] if kind == "d" else [name, "l", link], 0)
                if kind == "d":
                    transfer.folders.append((name, facts))
            if small.full:
                send_small()
            if rest.full:
                store(*rest.taken())
    if small.entries:
        send_small()
    if rest.entries:
        store(*rest.taken())


def _pages(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    """In pieces, each read on a worker thread."""
    lock = allocate_lock()  # a job whose tasklet was killed may still run

    def next_page() -> list[Entry]:
        with lock:
            return [entry for _, entry in zip(range(trees.PAGE), entries, strict=False)]

    while page := call_async(next_page):
        yield page


def _seal(transfer: TreeTransfer, send: Callable[[list[Any]], object]) -> None:
    """Give folders their facts in the end, when nothing changes them any more: the deepest first."""
    folders = sorted(transfer.folders, reverse=True)
    for start in range(0, len(folders), MOST_IN_BATCH):
        send([[name, facts] for name, facts in folders[start : start + MOST_IN_BATCH]])


# ---- get


def get(transfer: TreeTransfer, source: bytes, target: bytes) -> Transferred:
    """Fetch the folder `source` so that it becomes `target` here."""
    options = transfer.options
    token = secrets.token_hex(8)
    error: BaseException | None = None
    with transfer.far_end() as (pipeline, _):
        try:
            facts = pipeline.call(trees.start_walk, (token, source, options.symlinks == "follow"))
            transfer.folders.append((b"", checked_facts(pipeline, facts)))
            call_async(lambda: trees.make_top(target, options.parents))
            with roamlet.scope() as scope:
                _get_entries(transfer, pipeline, scope, source, target, _listed(transfer, token))
                pipeline.settle()
        except BaseExceptionGroup as group:
            error = one_error(group).with_traceback(None)
            begin_later(transfer.calls, trees.stop_walk, (token,))
        except BaseException:
            begin_later(transfer.calls, trees.stop_walk, (token,))
            raise
    if error is not None:
        try:
            raise error
        finally:
            del error  # its traceback holds this frame
    _seal(transfer, lambda entries: call_async(lambda: trees.seal(target, entries, options.keep)))
    return transfer.meter.result(target, None, tuple(transfer.skipped))


def _listed(transfer: TreeTransfer, token: str) -> Iterator[Entry]:
    """What is in the folder on the target, each entry checked; some pages are asked for ahead."""
    pages: deque[Any] = deque()
    pipeline = Pipeline(transfer.calls)

    def arrived(page: Any) -> int:
        pages.append(page)
        return 0

    try:
        for _ in range(AHEAD):
            pipeline.send(trees.more, (token,), 0, arrived)
        while pipeline.busy or pages:
            if not pages:
                pipeline.settle_one()
                continue
            page = pages.popleft()
            if type(page) is not list or len(page) > trees.PAGE:
                pipeline.refuse("a malformed list of files")
            if len(page) == trees.PAGE:
                pipeline.send(trees.more, (token,), 0, arrived)
            for entry in page:
                yield _checked_entry(transfer, pipeline, entry)
    finally:
        pipeline.close()


def _checked_entry(transfer: TreeTransfer, pipeline: Pipeline, entry: Any) -> Entry:
    if type(entry) is not list or len(entry) != 4:
        pipeline.refuse("a malformed name of a file")
    name, kind, facts, link = entry
    if type(name) not in (bytes, bytearray) or kind not in ("d", "f", "l", "x"):
        pipeline.refuse("a malformed name of a file")
    name = bytes(name)
    try:
        trees.parts_of(name)
    except ValueError:
        raise _unsafe(transfer, name, "which is no name of something inside of it", "Do not trust that host") from None
    if kind == "l":
        if type(link) not in (bytes, bytearray):
            pipeline.refuse("a malformed symbolic link")
        link = bytes(link)
        if transfer.options.symlinks == "keep" and not trees.stays_inside(name, link):
            raise _unsafe(
                transfer,
                name,
                f"a symbolic link that leads out of it, to {os.fsdecode(link)!r}",
                "symlinks='follow' gets what it points to, symlinks='skip' leaves links out",
            )
    return name, kind, checked_facts(pipeline, facts), link


def _unsafe(transfer: TreeTransfer, name: bytes, what: str, hint: str) -> UnsafeName:
    return UnsafeName(
        f"the folder {transfer.there} has {os.fsdecode(name)!r}, {what}; it was not made here.\n    {hint}.",
        context=transfer.calls.name,
    )


def _get_entries(
    transfer: TreeTransfer,
    pipeline: Pipeline,
    scope: roamlet.scope,
    source: bytes,
    target: bytes,
    listed: Iterator[Entry],
) -> None:
    options = transfer.options
    follow = options.symlinks == "follow"
    small, rest, links = Batch(), Batch(), []

    def store(entries: list[Any]) -> None:
        if call_async(lambda: trees.store(target, entries, transfer.small, options.keep)):
            raise transfer.damaged(target)

    def ask() -> None:
        entries, weight = small.taken()
        names = [name for name, _ in entries]

        def arrived(answers: Any) -> int:
            if type(answers) is not list or len(answers) != len(names):
                pipeline.refuse("files that were not asked for")
            found = []
            for (name, _), answer in zip(entries, answers, strict=True):
                facts, piece, digest, same = checked_opening(pipeline, answer)
                if not same:
                    raise transfer.changed(name, transfer.there)
                found.append([name, "f", facts, piece, digest])
            store(found)
            for name, _, facts, _, _ in found:
                transfer.meter.count(name, facts[2], facts[2], facts[2])
            return weight

        pipeline.send(trees.fetch, (source, names, follow, options.checksum), weight, arrived)

    def get_large(name: bytes) -> None:
        where = (source, name, follow)
        path = os.path.join(target, name)
        get_file(transfer, trees.start_reading, where, path, lambda size, how: trees.writer(target, name, size, how))

    for name, kind, facts, link in listed:
        if kind == "x" or (kind == "l" and options.symlinks != "keep"):
            transfer.leave_out(name)
        elif kind == "f" and facts[2] > trees.SMALL:
            transfer.in_turn(scope, lambda name=name: get_large(name))  # type: ignore[misc]
        elif kind == "f":
            small.add((name, facts[2]), facts[2])
        elif kind == "l":
            links.append([name, "l", link])
        else:
            rest.add([name, "d"], 0)
            transfer.folders.append((name, facts))
        if small.full:
            ask()
        if rest.full:
            store(rest.taken()[0])
    if small.entries:
        ask()
    store(rest.taken()[0])
    pipeline.settle()
    store(links)  # last: nothing is written through them, and nothing would be
