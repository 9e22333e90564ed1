"""What Context.put and Context.get do: they find out whether it is a file or a folder, and transfer it."""

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import Any

from roamlet.io import call_async
from roamlet.remote.calls.engine import Calls
from roamlet.remote.files import trees
from roamlet.remote.files.options import Options, Transferred
from roamlet.remote.files.transfer import Transfer, get_file, put_file
from roamlet.wire.files import files as wire


@contextlib.contextmanager
def _paths_as_text() -> Iterator[None]:
    """Let errors name paths as they were given: within transfers they are bytes."""
    try:
        yield
    except OSError as error:
        if isinstance(error.filename, bytes):
            error.filename = os.fsdecode(error.filename)
        raise


@_paths_as_text()
def put(calls: Calls, local: str | os.PathLike[str], remote: str, options: Options) -> Transferred:
    """See Context.put."""
    source, target = _path(local, "local"), _path(remote, "remote")
    if stat.S_ISDIR(call_async(lambda: os.stat(source)).st_mode):
        return trees.put(trees.TreeTransfer(calls, options), source, target)
    transfer = Transfer(calls, options)
    if target.endswith(b"/"):
        target += os.path.basename(source)
    digest = put_file(transfer, lambda: wire.open_to_read(source), source, wire.start_writing, (target, b""))
    return transfer.meter.result(target, digest)


@_paths_as_text()
def get(calls: Calls, remote: str, local: str | os.PathLike[str], options: Options) -> Transferred:
    """See Context.get."""
    source, target = _path(remote, "remote"), _path(local, "local")
    transfer = Transfer(calls, options)
    if target.endswith(b"/"):
        target += os.path.basename(source.rstrip(b"/"))
    target = os.path.abspath(target)

    def opened(size: int, how: dict[str, Any]) -> wire.Writer:
        writer: wire.Writer = wire.writer(target, b"", size, how)
        return writer

    digest = get_file(transfer, wire.start_reading, (source,), target, opened)
    if digest is None:
        return trees.get(trees.TreeTransfer(calls, options), source, target)
    return transfer.meter.result(target, digest)


def _path(path: str | os.PathLike[str], what: str) -> bytes:
    try:
        raw = os.fsencode(path)
    except TypeError:
        raise TypeError(f"{what} must be a path, not {path!r:.80}: put(local, remote), get(remote, local)") from None
    if not raw or b"\0" in raw:
        raise ValueError(f"{what}={path!r:.80} is no path")
    return raw
