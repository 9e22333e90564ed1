"""Hands the frames of `roamlet://` from one process of a cluster to another: the parent's own, and those of its workers."""

import contextlib
import itertools
import logging
import secrets
from functools import partial
from typing import Any

import roamlet
import roamlet_dask_comm as comm
import roamlet_dask_worker as on_target
from roamlet.core.os_threads import allocate_lock
from roamlet.remote import Context
from roamlet.remote.base.threads import TaskletThread
from roamlet.remote.errors import RemoteError

BUFFER = 64  # frames on their way to one worker

_log = logging.getLogger("roamlet.dask")


class _Malformed(ValueError):
    """What came from a worker is no frame."""


def _checked(frame: Any, name: str) -> comm.Frame:
    """A frame of the process `name`, whoever it says that it is."""
    if type(frame) is not tuple or [type(part) for part in frame[:4]] != [str, str, int, int] or len(frame) != 5:
        raise _Malformed(f"{frame!r:.80}")
    destination, _, number, kind, body = frame
    if type(body) is not (int if kind == comm.CREDIT else bytes) or not comm.OPEN <= kind <= comm.CLOSE:
        raise _Malformed(f"{frame!r:.80}")
    return destination, name, number, kind, body


class Exchange:
    """Of one cluster. `address`: of this process. Thread-safe; nothing blocks its callers."""

    def __init__(self) -> None:
        self._cluster = secrets.token_hex(4)
        self._thread = TaskletThread("roamlet-dask-exchange")
        self._numbers = itertools.count(1)
        self._lines: dict[str, roamlet.channel[Any]] = {}
        self._connections: dict[
            str, set[tuple[str, int]]
        ] = {}  # of each process: the other one, and the number in its frames
        self._lock = allocate_lock()
        self.port: Any = comm.Port(f"{self._cluster}/0", self.route)

    @property
    def address(self) -> str:
        return f"{comm.SCHEME}://{self.port.name}"

    def join(self) -> tuple[str, Any]:
        """The name of one more process, and the channel by which it gets its frames."""
        name = f"{self._cluster}/{next(self._numbers)}"
        line: roamlet.channel[Any] = roamlet.channel(buffer=BUFFER)
        with self._lock:
            self._lines[name] = line
        return name, line

    def serve(self, name: str, context: Context) -> None:
        """Take the frames of this process, until its context ends."""
        self._thread.post(partial(self._serve, name, context))

    def _serve(self, name: str, context: Context) -> None:
        try:
            for frame in context.iterate(on_target.outgoing):
                self.route(_checked(frame, name))
        except _Malformed as error:
            _log.error("%r has sent what is no frame, and takes part no longer: %s", context.name, error)
        except RemoteError:
            pass  # which the cluster hears about from elsewhere
        finally:
            self.leave(name)

    def route(self, frame: comm.Frame) -> None:
        """Hand it on; answer with CLOSE where no such process is left."""
        destination, source, number, kind, _ = frame
        with self._lock:
            for one, other in ((source, destination), (destination, source)):
                mine = number if one == source else -number
                if kind == comm.OPEN:
                    self._connections.setdefault(one, set()).add((other, mine))
                elif kind == comm.CLOSE and one in self._connections:
                    self._connections[one].discard((other, mine))
                    if not self._connections[one]:
                        del self._connections[one]
            line = self._lines.get(destination)
        if destination == self.port.name:
            self.port.take(frame)
        elif line is not None:
            self._thread.post(partial(self._send, line, frame))
        elif kind != comm.CLOSE:
            self.route((source, destination, -number, comm.CLOSE, b""))

    def _send(self, line: Any, frame: comm.Frame) -> None:
        with contextlib.suppress(RuntimeError, ValueError):  # it has left
            line.send(frame)

    def leave(self, name: str) -> None:
        """This process has ended: so have its connections."""
        with self._lock:
            line = self._lines.pop(name, None)
            connections = self._connections.pop(name, set())
        if line is not None:
            line.close()
        for other, number in connections:
            self.route((other, name, number, comm.CLOSE, b""))

    def close(self) -> None:
        """End all connections, and the thread."""
        for name in list(self._lines):
            self.leave(name)
        self.port.close()
        self._thread.stop()
