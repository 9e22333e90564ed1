"""Contexts behind contexts, seen from the root: tunnels through the one link that leads to all of them.

The other end is roamlet.wire.link.router. Which bundles an intermediary has cached is in link/bundle_cache.py.
"""

import errno
import struct
from collections import deque
from collections.abc import Callable, Collection
from typing import Protocol

from roamlet.core import Waiter
from roamlet.remote.base.deadlines import EVER, limit
from roamlet.remote.link import piece_cache
from roamlet.remote.link.bundle_cache import BundleCache, delivery_frames
from roamlet.remote.link.frames import ROOT
from roamlet.remote.link.output import Output
from roamlet.remote.link.pipe import Pipe
from roamlet.remote.modules import Piece
from roamlet.remote.terminal.relayed import RelayedTerminal
from roamlet.remote.terminal.terminal import Terminal
from roamlet.sync import Event, Lock
from roamlet.wire import codec, protocol
from roamlet.wire.link import router, streams

PIECE = 1 << 15  # bytes of a body that are sent at once: other senders wait for no more than that
WINDOW = 1 << 18  # bytes that a context may be sent beyond what has reached its pipe; more where the round trip is long
LARGEST_WINDOW = 1 << 24
KEPT = 1 << 20  # bytes that came and were not taken: beyond that its intermediary reads no more of it,
MOST_KEPT = 1 << 26  # and this is more than can have been on the way
LARGEST_EVENT = 1 << 17  # bytes
LARGEST_CODE = 1 << 16  # no exit code and no errno is larger
LINES_KEPT = 60
LONGEST_LINE = 1 << 12
STEP = 2.0  # seconds that a process gets for each step of its end
EVENTS = (protocol.SAID, protocol.GONE, protocol.CREDIT)

Sink = Callable[[bytes], None]

_NOTHING: "deque[bytes]" = deque()  # the inbox where nothing waits: one of its own takes 0.7 kB


class Hop(Protocol):
    """What a tunnel needs of the link to an intermediary, the context that has started its own."""

    name: str
    identifier: int
    process: Pipe
    output: Output
    packers: Collection[str]
    ended: Event
    trunk: "Trunk | None"
    tunnels: "dict[int, Tunnel]"
    bundle_cache: BundleCache | None

    @property
    def is_full(self) -> bool: ...
    @property
    def send(self) -> Callable[[bytes], None]: ...
    @property
    def send_at_once(self) -> Callable[[bytes], None]: ...
    @property
    def wait_for_room(self) -> Callable[[float | None], None]: ...
    def post(self, job: Callable[[], None]) -> None: ...


class Trunk:
    """One link with its own pipe, as the way to all contexts that are reached through it, over any number of hops.

    `cache_lock` is held from the look at the bundle caches until the frames that rely on it are queued.
    """

    def __init__(self, link: Hop) -> None:
        self.link = link
        self.tunnels: dict[int, Tunnel] = {}
        self.cache_lock: Lock = Lock(fair=True)

    def sink_for(self, destination: int, source: int, number: int, length: int, kind: int) -> Sink | None:
        """The function that takes a frame from below: see Sorter. Raises ValueError for one that no context on this link sends."""
        tunnel = self.tunnels.get(source)
        if destination != ROOT or (tunnel is None and source != self.link.identifier):
            raise ValueError(f"a frame from {source} to {destination} on the link of {self.link.identifier}")
        if kind & ~protocol.KIND_CUT in EVENTS:
            return None
        return None if tunnel is None else tunnel.deliver

    def event(self, frame: tuple[int, int, int, int, bytes]) -> None:
        """Take what an intermediary says about a context that it has started. Never blocks. Raises ValueError for nonsense."""
        _, source, number, kind, body = frame
        if len(body) > LARGEST_EVENT:
            raise ValueError(f"a {protocol.kind_name(kind)} message of {len(body)} bytes")
        tunnel = self.tunnels.get(number)
        if tunnel is None:
            return
        if tunnel.hop.identifier == source:
            tunnel.event(kind, body)
            return
        problem = f"a {protocol.kind_name(kind)} message about {number}, which it has not started"
        reporter = self.tunnels.get(source)
        if reporter is None:
            raise ValueError(problem)
        reporter.reject(problem)

    def forget(self, number: int) -> None:
        """Drop the tunnels of this context and of those reached through it: nothing more comes from them."""
        self.tunnels.pop(number, None)
        for tunnel in list(self.tunnels.values()):
            if tunnel.hop.identifier == number:
                self.forget(tunnel.number)

    def send_bundle(self, goal: int, identifier: int, data: bytes, path: list[Hop], deadline: float | None) -> int:
        """Send a bundle to the context `goal` from the nearest cache that has it; return how many bytes that took.

        `path`: the intermediaries on the way to it. Blocks this tasklet while the link is full; raises TimeoutError when `deadline`
        passes first. Sends nothing when the link has ended.
        """
        caches = [link.bundle_cache for link in path if link.bundle_cache is not None]
        if not self.cache_lock.acquire(timeout=limit(deadline)):
            raise TimeoutError("other modules were still being sent")
        try:
            while self.link.is_full:
                self.link.wait_for_room(limit(deadline))
            frames = delivery_frames(caches, goal, identifier, data)
            self.link.send_at_once(frames)
        finally:
            self.cache_lock.release()
        return len(frames)

    def send_piece(
        self, goal: int, number: int, piece: Piece, path: list[Hop], note: Callable[[], None], kind: int
    ) -> int:
        """Send a piece of the file `number` to the context `goal`, as send_bundle does a bundle; `note()` is called right before.

        `kind`: of the frame, PIECE for a file.

        Raises what piece.data() does; nothing is sent then.
        """
        caches = [link.bundle_cache.pieces for link in path if link.bundle_cache is not None]
        with self.cache_lock:
            while self.link.is_full:
                self.link.wait_for_room(None)
            frames = piece_cache.delivery_frames(caches, goal, number, piece, kind)
            note()
            self.link.send_at_once(frames)
        return len(frames)


class Tunnel:
    """The way to a context that another one, `hop`, has started: a Pipe (see link/pipe.py).

    What comes is delivered and taken on the thread for links. `write` is called by one thread at a time.
    """

    def __init__(self, hop: Hop, number: int) -> None:
        if hop.trunk is None:
            hop.trunk = Trunk(hop)
        trunk: Trunk = hop.trunk
        self.hop = hop
        self.trunk = trunk
        self.number = number
        self.said: deque[str] = deque(maxlen=LINES_KEPT)
        self.exited: Event = Event()
        self.drained: Event = Event()
        self.lost: str | None = None
        self.terminal: Terminal | RelayedTerminal | None = None
        self.errno: int | None = None  # why its command could not be started
        self._exit_code: int | None = None
        self._unfinished = b""  # of a line of stderr
        self.is_ordered: bool = False  # the hop was told to start it
        self._started = False  # something has been heard of it
        self._over = False
        self._rejected: str | None = None
        self._inbox = _NOTHING
        self._kept = 0
        self._held = False
        self._reader: Waiter[None] | None = None
        self._sent = 0
        self._arrived = 0
        self._window = WINDOW
        self._needed = 0  # bytes of credit that the next piece takes; 0 when it was not credit that was lacking
        self._judge_at = 0
        self._left = 0  # bytes of a body that has been begun
        self._header = (0, 0, 0, 0, 0)
        self._credit: list[Waiter[None]] = []
        trunk.tunnels[number] = self
        hop.tunnels[number] = self

    def start(self, argv: list[str], token: str, config: dict[str, object], *, translated: bool) -> None:
        """Let the hop start the command, and send it the payload, which it has. Raises what Link.send does.

        `translated`: as for prompts.environment.
        """
        self.is_ordered = True
        body = {"argv": argv, "token": token, "config": codec.dumps(config, "config"), "translated": translated}
        self.hop.send(
            protocol.frame(self.hop.identifier, ROOT, self.number, protocol.SPAWN, codec.dumps(body, "spawn"))
        )

    @property
    def path(self) -> list[Hop]:
        """The links of the intermediaries, the nearest one first."""
        before = self.hop.process
        return [*(before.path if isinstance(before, Tunnel) else []), self.hop]

    @property
    def exit_code(self) -> int | None:
        return self._exit_code

    # ---- down

    def write(self, data: memoryview) -> int:
        if self._over or not self._started:
            return len(data)  # nothing is sent to what has not started: the hop sends the payload
        if self.trunk.link.is_full:
            return 0
        done = 0
        pieces: list[bytes | memoryview] = []
        while done < len(data):
            if not self._left:
                self._header = protocol.unpack_header(data, done)
                self._left = self._header[3]
            begun = self._left < self._header[3]
            size = min(self._left, PIECE)
            if self._sent + protocol.HEADER_SIZE + size > self._arrived + self._window:
                self._needed = protocol.HEADER_SIZE + size
                if not begun:
                    self._left = 0
                break
            if not begun:
                done += protocol.HEADER_SIZE
            self._left -= size
            destination, source, number, _, kind = self._header
            if self._left:
                kind |= protocol.KIND_CUT
            else:
                self._header = (0, 0, 0, 0, 0)
            pieces += [protocol.HEADER.pack(destination, source, number, size, kind), data[done : done + size]]
            done += size
            self._sent += protocol.HEADER_SIZE + size
        if pieces:
            self.trunk.link.send_at_once(b"".join(pieces))
        return done

    def send_ahead(self, frame: bytes) -> None:
        """Send a small frame ahead of what waits for credit; not while `write` is called."""
        self._sent += len(frame)
        self.trunk.link.send_at_once(frame)

    def wait_writable(self) -> None:
        while not self._over:
            if self.trunk.link.is_full:
                self.trunk.link.wait_for_room(EVER)
            elif self._sent + self._needed <= self._arrived + self._window:
                self._needed = 0
                return
            else:
                self._credit_waiter().wait()
        raise OSError(errno.EPIPE, "the tunnel is closed")

    def wait_for_credit(self, size: int) -> None:
        """Block this tasklet until `size` bytes may be sent beside what `write` sends, or the tunnel is over.

        `size` is WINDOW // 2 at most: what has arrived is told only now and then.
        """
        while not self._over and self._sent + size > self._arrived + self._window:
            waiter = self._credit_waiter()
            self._needed = self._needed or size
            if self._over or self._sent + size <= self._arrived + self._window:
                return  # it came before the waiter was there: on another thread
            waiter.wait()

    def use_credit(self, size: int) -> None:
        """Count bytes that the hop writes of its own; not while `write` is called."""
        self._sent += size

    def _credit_waiter(self) -> Waiter[None]:
        waiter: Waiter[None] = Waiter()
        self._credit.append(waiter)
        return waiter

    def close_down(self) -> None:
        self._tell(router.CLOSE)

    def _tell(self, what: int) -> None:
        if not self.exited.is_set():
            # Ahead of frames that wait for the hop's credit; but not ahead of the part that makes the hop an intermediary.
            link = self.trunk.link if self._started else self.hop
            link.send_at_once(protocol.frame(self.hop.identifier, ROOT, self.number, protocol.HOLD, bytes([what])))

    # ---- up, on the thread for links

    def deliver(self, data: bytes) -> None:
        """Take bytes of the context's frames. Never blocks. After `reject` nothing is kept."""
        if self._over or self._rejected is not None:
            return
        if self._inbox is _NOTHING:
            self._inbox = deque()
        self._inbox.append(data)
        self._kept += len(data)
        if self._kept > MOST_KEPT:
            self.reject(f"{self._kept} bytes that were not asked for")
        elif self._kept > KEPT and not self._held:
            self._held = True
            self._tell(router.HOLD_ON)
        self._wake()

    def try_read(self, size: int) -> bytes | None:
        if self._rejected is not None:
            raise ValueError(self._rejected)
        if not self._inbox:
            return b"" if self._over else None
        data = self._inbox.popleft()
        self._kept -= len(data)
        if not self._inbox:
            self._inbox = _NOTHING
        if self._held and self._kept < KEPT // 2:
            self._held = False
            self._tell(router.READ_ON)
        return data

    def wait_readable(self) -> None:
        if not self._inbox and not self._over and self._rejected is None:
            self._reader = Waiter()
            self._reader.wait()

    def event(self, kind: int, body: bytes) -> None:
        """Take what the hop says about the context. Never raises: nonsense of the hop ends this context."""
        if self._over:
            if kind == protocol.GONE:
                self.trunk.forget(self.number)
            return
        self._started = True
        if self.hop.bundle_cache is None:
            self.hop.bundle_cache = BundleCache(self.hop.identifier, self.hop.packers)
        try:
            if kind == protocol.SAID and body[:1] == b"\1":
                self.deliver(body[1:])
            elif kind == protocol.SAID:
                self._hear(body[1:])
            elif kind == protocol.CREDIT:
                self._credited(*streams.AMOUNTS.unpack(body))
            else:
                self._gone(codec.loads(body))
        except (ValueError, struct.error) as error:
            self.reject(f"a malformed {protocol.kind_name(kind)} message: {error}")

    def reject(self, problem: str) -> None:
        """Take note that it, or a context on the way to it, has sent what no context sends."""
        self._rejected = self._rejected or problem
        self._wake()

    def lose(self, why: str) -> None:
        """The way to it has ended. Called on the thread for links."""
        if not self._over:
            self.lost = why
            self._stop()

    def _hear(self, data: bytes) -> None:
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        self._unfinished = self._unfinished[-LONGEST_LINE:]
        self.said.extend(line.decode("utf-8", "replace").rstrip("\r")[:LONGEST_LINE] for line in lines)

    def _credited(self, arrived: int, waiting: int) -> None:
        if not self._arrived <= arrived <= self._sent:
            raise ValueError(f"{arrived} bytes have arrived of {self._sent}")
        self._arrived = arrived
        if arrived >= self._judge_at and self._needed:
            # Once in a round trip: did the window limit us, or does the context not read?
            if waiting < self._window // 8:
                self._window = min(2 * self._window, LARGEST_WINDOW)
            elif waiting > self._window // 2:
                self._window = max(self._window // 2, WINDOW)
            self._judge_at = self._sent
        self._wake_writer()

    def _gone(self, said: object) -> None:
        if not isinstance(said, dict):
            raise ValueError("no dict")
        code, number, wrong = (said.get(name) for name in ("code", "errno", "wrong"))
        for value in (code, number):
            if value is not None and (type(value) is not int or abs(value) > LARGEST_CODE):
                raise ValueError("no numbers")
        if type(wrong) not in (str, type(None)):
            raise ValueError("no text")
        if self._unfinished:
            self._hear(b"\n")
        self._exit_code, self.errno, self._rejected = code, number, self._rejected or wrong
        self.trunk.forget(self.number)
        self._stop()

    def _stop(self) -> None:
        self._over = True
        self.exited.set()
        self._wake_writer()
        self._wake()

    def _wake_writer(self) -> None:
        for _ in range(len(self._credit)):
            self._credit.pop(0).succeed()

    def _wake(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.succeed()

    # ---- the end

    def end(self, patience: float = STEP) -> None:
        if self.exited.wait(patience):
            return
        for what in (router.TERMINATE, router.KILL):
            if self.hop.ended.is_set() or not self.is_ordered:
                break
            self._tell(what)
            if self.exited.wait(STEP):
                return
        self.hop.post(self._give_up)
        self.exited.wait(STEP)

    def wait_for_last_lines(self) -> None:
        pass  # what it wrote to stderr came before the news of its end

    def kill(self) -> None:
        self._tell(router.KILL)
        self.hop.post(self._make_sure)

    def _make_sure(self) -> None:
        if not self.exited.wait(STEP):
            self._give_up()

    def _give_up(self) -> None:
        self.lose(f"{self.hop.name!r} does not answer")

    def close(self) -> None:
        self.hop.tunnels.pop(self.number, None)
        self._inbox = _NOTHING
        if self.hop.ended.is_set():
            self.hop.trunk = None

    def leave_to_parent(self) -> None:
        pass  # it has no descriptors of its own
