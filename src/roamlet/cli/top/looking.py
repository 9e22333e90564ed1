"""Looks at processes again and again, of this machine on worker threads and of others through their contexts, into a Board."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import roamlet
from roamlet.cli.top.board import Board, Key
from roamlet.diagnose.model import Process
from roamlet.diagnose.outside import travelling
from roamlet.diagnose.outside.following import Following

if TYPE_CHECKING:
    from roamlet.remote import Context

Told = Callable[[list[Key]], None]  # is told which processes of the board are new or have changed
Looks = Sequence[
    Callable[[Told, int | None], None]
]  # each looks so many times, None: for ever, and tells what has changed

SHORTEST_REST = 0.05  # seconds between two looks, however long one takes


class Source(Protocol):
    """Where looks come from: this machine, or one host. `pid`: that of the one process, where one was asked for."""

    host: str | None
    pid: int | None

    def look(self) -> list[dict[str, Any]]:
        """What following.Following.look() returns. Blocks this tasklet only. Raises where nothing can be looked at."""


class Local:
    """This machine."""

    host: str | None = None

    def __init__(self, pid: int | None, name: str | None) -> None:
        self.pid = pid
        self._following = Following(pid, name)

    def look(self) -> list[dict[str, Any]]:
        # The stop of a process and its end come from one thread, as ptrace demands: that of the worker.
        return roamlet.call_async(self._following.look)


class Remote:
    """One host, through an open context."""

    def __init__(self, host: str, context: "Context", pid: int | None, name: str | None, timeout: float | None) -> None:
        self.host: str | None = host
        self.pid = pid
        self._context, self._timeout = context, timeout
        self._request = {"pid": pid, "name": name, "locals": False, "again": True}
        self._sources: list[tuple[str, str | None]] = travelling.sources()

    def look(self) -> list[dict[str, Any]]:
        found = self._context.call(travelling.function(), (self._sources, self._request), timeout=self._timeout)
        self._sources = []  # it has them now
        return [_checked(each) for each in found]


def _checked(found: Any) -> dict[str, Any]:
    """What a host has said of one process. What makes no sense is its error."""
    pid = found.get("pid") if isinstance(found, dict) else None
    if type(pid) is not int:
        raise ValueError("the host says nothing that makes sense of a process")
    if "error" in found:
        return {"pid": pid, "error": str(found["error"])}
    try:
        full = found["full"]
        return {
            "pid": pid,
            "counters": Process.from_json(found["counters"]),
            "full": None if full is None else Process.from_json(full),
            "pause": float(found["pause"]),
        }
    except (KeyError, TypeError, ValueError) as error:
        return {"pid": pid, "error": f"not read: {error}"}


def take(board: Board, source: Source) -> list[Key]:
    """Look once; which processes of the board are new or have changed."""
    found = source.look()
    if source.pid is None:
        board.keep_only(source.host, {each["pid"] for each in found})
    changed = []
    for each in found:
        pid = each["pid"]
        try:
            if "error" not in each:
                board.take(source.host, pid, each["counters"], each["full"], each["pause"])
                changed.append((source.host, pid))
        except ValueError as error:
            each["error"] = str(error)
        if "error" in each:
            board.refuse(source.host, pid, each["error"], keep=source.pid is not None)
            if (source.host, pid) in board.seen:
                changed.append((source.host, pid))
    return changed


def keep_looking(board: Board, source: Source, interval: float, told: Told, count: int | None = None) -> None:
    """Look each `interval` seconds, and tell what has changed: so often, None for as long as the process asked for is there."""
    looks = 0
    while True:
        began = time.monotonic()
        told(take(board, source))
        looks += 1
        if looks == count or (source.pid is not None and not board.goes_on(source.host, source.pid)):
            return
        roamlet.sleep(max(interval - (time.monotonic() - began), SHORTEST_REST))


def attend(
    board: Board,
    name: str,
    opened: "AbstractContextManager[Context]",
    message: Callable[[Exception], str],
    work: Callable[["Context"], None],
) -> None:
    """Do work(context) with the context of a host. What ends it goes to the board, and not further."""
    # Inside: loading the remote layer takes longer than all of `roamlet --help`.
    from roamlet.remote import ConnectError

    board.connecting.add(name)
    try:
        with opened as context:
            board.connecting.discard(name)
            work(context)
    except Exception as error:
        board.hosts[name] = message(error)
        if isinstance(error, ConnectError):
            board.unreachable.add(name)
    finally:
        board.connecting.discard(name)
