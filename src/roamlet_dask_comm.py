"""`roamlet://` for Dask: its messages over roamlet's links, for hosts that reach one another in no other way.

Runs in the parent and, sent there, in workers: a module beside roamlet, as targets have no roamlet to import. Each process has a
Port; the parent hands frames from one to another. What goes through a connection is bounded by the credit that its reader gives.
"""

import asyncio
import itertools
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from distributed.comm.core import BaseListener, Comm, CommClosedError, Connector
from distributed.comm.registry import Backend, backends
from distributed.comm.utils import from_frames, to_frames
from distributed.utils import ensure_memoryview

SCHEME = "roamlet"
OPEN, ACCEPT, DATA, CREDIT, CLOSE = range(5)
CHUNK = 1 << 19  # bytes of one frame: a small one waits for no large one
WINDOW = 1 << 24  # bytes that may be under way in one direction of a connection

Frame = tuple[str, str, int, int, Any]
"""Its receiver, its sender, the connection (below zero: from the side that has accepted it), the kind, what it carries."""

ports: "dict[str, Port]" = {}
"""Of this process, by the cluster."""


class Port:
    """This process in one cluster. `name` is its address, "CLUSTER/NUMBER"; `send` never blocks. Thread-safe."""

    def __init__(self, name: str, send: Callable[[Frame], object]) -> None:
        self.name = name
        self.send = send
        self.listener: Listener | None = None
        self.opened: dict[int, Linked] = {}
        self.accepted: dict[tuple[str, int], Linked] = {}
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()
        ports[name.partition("/")[0]] = self

    def take(self, frame: Frame) -> None:
        """A frame has come. Never blocks."""
        _, source, number, kind, body = frame
        if kind == OPEN:
            listener = self.listener
            if listener is None:
                self.send((source, self.name, -number, CLOSE, b""))
            else:
                listener.open(source, number)
            return
        with self.lock:
            comm = self.opened.get(-number) if number < 0 else self.accepted.get((source, number))
        if comm is not None:
            comm.take(kind, body)
        elif kind != CLOSE:
            self.send((source, self.name, -number, CLOSE, b""))

    def forget(self, comm: "Linked") -> None:
        with self.lock:
            if comm.number > 0:
                self.opened.pop(comm.number, None)
            else:
                self.accepted.pop((comm.peer, -comm.number), None)

    def close(self) -> None:
        """No frame comes any more."""
        if ports.get(self.name.partition("/")[0]) is self:
            del ports[self.name.partition("/")[0]]
        with self.lock:
            comms = [*self.opened.values(), *self.accepted.values()]
        for comm in comms:
            comm.take(CLOSE, b"")


class Linked(Comm):  # type: ignore[misc] # distributed has types for itself alone
    """A connection to another Port. `number`: what its frames carry. Used in the thread of one event loop, but for take()."""

    def __init__(self, port: Port, peer: str, number: int, deserialize: bool) -> None:
        super().__init__(deserialize=deserialize)
        self.port = port
        self.peer = peer
        self.number = number
        self._local_addr = f"{SCHEME}://{port.name}"  # names that distributed.comm.core looks at
        self._peer_addr = f"{SCHEME}://{peer}"
        self.accepted = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._incoming = _Messages()
        self._ready: deque[list[Any]] = deque()
        self._changed = asyncio.Event()  # a message has come, credit, or the end
        self._credit = WINDOW
        self._owed = 0
        self._closed = False  # here
        self._ended = False  # by the other side

    @property
    def local_address(self) -> str:
        return self._local_addr

    @property
    def peer_address(self) -> str:
        return self._peer_addr

    @property
    def same_host(self) -> bool:
        return False

    def take(self, kind: int, body: Any) -> None:
        """Thread-safe."""
        try:
            self._loop.call_soon_threadsafe(self._take, kind, body)
        except RuntimeError:  # the loop has ended, and with it the reader
            self.port.forget(self)

    def _take(self, kind: int, body: Any) -> None:
        if kind == ACCEPT:
            self.accepted.set()
        elif kind == DATA:
            self._ready.extend(self._incoming.messages(body))
            self._owed += len(body)
            if not self._ready or len(self._ready) == 1:
                self._pay()
        elif kind == CREDIT:
            self._credit += body
        else:
            self._ended = True
            self.accepted.set()
            self.port.forget(self)
        self._changed.set()

    def _pay(self) -> None:
        """What has been read, or is part of what is waited for, may be followed by as much."""
        if self._owed >= WINDOW // 4 and not self.closed():
            self._send(CREDIT, self._owed)
            self._owed = 0

    def _send(self, kind: int, body: Any) -> None:
        self.port.send((self.peer, self.port.name, self.number, kind, body))

    async def read(self, deserializers: Any = None) -> Any:
        while not self._ready:
            if self._closed or self._ended:
                self.abort()
                raise CommClosedError(f"the connection to {self.peer_address} is closed")
            self._changed.clear()
            await self._changed.wait()
        frames = self._ready.popleft()
        self._pay()
        return await from_frames(
            frames, deserialize=self.deserialize, deserializers=deserializers, allow_offload=self.allow_offload
        )

    async def write(self, msg: Any, serializers: Any = None, on_error: str = "message") -> int:
        if self.closed():
            raise CommClosedError(f"the connection to {self.peer_address} is closed")
        context = {"sender": self.local_info, "recipient": self.remote_info, **self.handshake_options}
        frames = await to_frames(
            msg, allow_offload=self.allow_offload, serializers=serializers, on_error=on_error, context=context
        )
        size = 0
        for chunk in _chunks(frames):
            while self._credit <= 0 and not self.closed():
                self._changed.clear()
                try:
                    await self._changed.wait()
                except BaseException:  # cancelled: what has been sent of the message must be followed by its rest
                    self.abort()
                    raise
            if self.closed():
                raise CommClosedError(f"the connection to {self.peer_address} was closed while a message was sent")
            self._credit -= len(chunk)
            size += len(chunk)
            self._send(DATA, chunk)
        return size

    async def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self._closed:
            self._closed = True
            self.port.forget(self)
            if not self._ended:
                self._send(CLOSE, b"")
            self._changed.set()

    def closed(self) -> bool:
        return self._closed or (self._ended and not self._ready)


class _Messages:
    """Puts messages together from chunks: a number of frames, their lengths, the frames."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._lengths: list[int] | None = None
        self._frames: list[Any] = []
        self._filled = 0

    def messages(self, chunk: bytes) -> Iterator[list[Any]]:
        """The messages that end in this chunk."""
        rest = memoryview(chunk)
        while True:
            if self._lengths is None:
                rest = self._take_head(rest)
                if self._lengths is None:
                    return
            while len(self._frames) < len(self._lengths) or (self._frames and self._filled < len(self._frames[-1])):
                if not self._frames or self._filled == len(self._frames[-1]):
                    self._frames.append(bytearray(self._lengths[len(self._frames)]))
                    self._filled = 0
                frame = self._frames[-1]
                part = rest[: len(frame) - self._filled]
                frame[self._filled : self._filled + len(part)] = part
                self._filled += len(part)
                rest = rest[len(part) :]
                if self._filled < len(frame):
                    return
            yield self._frames
            self._lengths, self._frames, self._filled = None, [], 0
            self._head.clear()

    def _take_head(self, rest: memoryview) -> memoryview:
        while True:
            wanted = 8 if len(self._head) < 8 else 8 + 8 * struct.unpack_from("<Q", self._head)[0]
            part = rest[: wanted - len(self._head)]
            self._head += part
            rest = rest[len(part) :]
            if len(self._head) < wanted:
                return rest
            if wanted > 8 or struct.unpack_from("<Q", self._head)[0] == 0:
                self._lengths = list(struct.unpack_from(f"<{wanted // 8 - 1}Q", self._head, 8))
                return rest


def _chunks(frames: list[Any]) -> Iterator[bytes]:
    views = [ensure_memoryview(frame) for frame in frames]
    small = bytearray(struct.pack(f"<{len(views) + 1}Q", len(views), *(len(view) for view in views)))
    for view in views:
        if len(small) + len(view) <= CHUNK:
            small += view
            continue
        if small:
            yield bytes(small)
            small = bytearray()
        for start in range(0, len(view), CHUNK):
            yield bytes(view[start : start + CHUNK])
    if small:
        yield bytes(small)


class Listener(BaseListener):  # type: ignore[misc]
    """Takes connections of one Port."""

    prefix = SCHEME

    def __init__(self, port: Port, handle: Callable[[Comm], Any], deserialize: bool) -> None:
        super().__init__()
        self._port = port
        self._handle = handle
        self._deserialize = deserialize
        self._tasks: set[asyncio.Future[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._port.listener = self

    def stop(self) -> None:
        self._port.listener = None

    def open(self, peer: str, number: int) -> None:
        """A connection from there. Thread-safe."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._open, peer, number)
        except RuntimeError:  # it has ended
            self._port.send((peer, self._port.name, -number, CLOSE, b""))

    def _open(self, peer: str, number: int) -> None:
        comm = Linked(self._port, peer, -number, self._deserialize)
        with self._port.lock:
            self._port.accepted[peer, number] = comm
        self._port.send((peer, self._port.name, -number, ACCEPT, b""))
        task = asyncio.ensure_future(self._serve(comm))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, comm: Linked) -> None:
        try:
            await self.on_connection(comm)
        except CommClosedError:
            return
        await self._handle(comm)

    @property
    def listen_address(self) -> str:
        return f"{SCHEME}://{self._port.name}"

    contact_address = listen_address


class _Connector(Connector):  # type: ignore[misc]
    async def connect(self, address: str, deserialize: bool = True, **options: Any) -> Linked:
        port = _port(address)
        number = next(port.numbers)
        comm = Linked(port, address, number, deserialize)
        with port.lock:
            port.opened[number] = comm
        port.send((address, port.name, number, OPEN, b""))
        try:
            await comm.accepted.wait()
        except BaseException:
            comm.abort()
            raise
        if comm.closed():
            raise CommClosedError(f"nothing listens at {SCHEME}://{address}")
        return comm


def _port(address: str) -> Port:
    port = ports.get(address.partition("/")[0])
    if port is None:
        raise OSError(f"{SCHEME}://{address} is of a cluster that this process does not belong to")
    return port


class _Backend(Backend):  # type: ignore[misc]
    def get_connector(self) -> _Connector:
        return _Connector()

    def get_listener(self, loc: str, handle_comm: Any, deserialize: bool, **options: Any) -> Listener:
        # A scheduler names it, with a port that means nothing; a worker's process belongs to one cluster.
        port = _port(loc.partition(":")[0]) if loc else next(iter(ports.values()))
        return Listener(port, handle_comm, deserialize)

    def get_address_host(self, loc: str) -> str:
        return loc

    def resolve_address(self, loc: str) -> str:
        return loc

    def get_local_address_for(self, loc: str) -> str:
        return f"{SCHEME}://{_port(loc).name}"


backends[SCHEME] = _Backend()
