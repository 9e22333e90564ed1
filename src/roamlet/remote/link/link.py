"""The link to one context: calls go down through its sender, its reader takes what comes up, and both end with its process.

Written to by any thread, read by one tasklet on the thread for links. Knows no module, no value and no channel: what comes for
these is handed to functions that are given to it.
"""

import functools
import logging
import weakref
from collections.abc import Callable, Collection

from roamlet.core import Waiter, schedule
from roamlet.core.os_threads import allocate_lock
from roamlet.remote.base.threads import Threads, release
from roamlet.remote.errors import CannotTravel, RemoteError
from roamlet.remote.link import piece_cache
from roamlet.remote.link.bundle_cache import BundleCache
from roamlet.remote.link.channel_server import ChannelServer
from roamlet.remote.link.end_reasons import Closed, Died, Forked, held
from roamlet.remote.link.frames import ROOT, BoundedFrameReader, refuse_large
from roamlet.remote.link.inflight import Answer, InFlight, Member
from roamlet.remote.link.inline import READ_SIZE, InlineReader
from roamlet.remote.link.output import Output
from roamlet.remote.link.pipe import Pipe
from roamlet.remote.link.process import Process
from roamlet.remote.link.routes import EVENTS, Hop, Trunk, Tunnel
from roamlet.remote.link.sender import QUEUED, Sender
from roamlet.remote.modules import Piece
from roamlet.remote.transports import Transport
from roamlet.sync import Event
from roamlet.wire import codec, protocol
from roamlet.wire.build import StartScanner
from roamlet.wire.link import sorting
from roamlet.wire.values import large_messages

READS_IN_A_ROW = 16
PATIENCE = 2.0  # seconds for a process to end by itself after it has closed its pipe
SHORT = 1 << 14  # bytes of a call that is put together under the lock
SMALL = 1 << 9  # bytes of a bundle that no intermediary need cache
ANSWERS = (protocol.RESULT, protocol.ERROR, protocol.RESULT | protocol.KIND_MORE)
LIMIT = 10.0  # seconds after which a process that not even SIGKILL ends is left to the system
STREAMS = {1: "stdout", 2: "stderr"}

_log = logging.getLogger("roamlet.remote")

# The links that have not ended; also of contexts that are being opened.
alive: "weakref.WeakSet[Link]" = weakref.WeakSet()


def _withdrawn(context: str, function: str) -> RemoteError:
    error = RemoteError(f"{function} was withdrawn while it was sent", context=context, function=function)
    error.sent = False
    return error


class Link:
    """The parent's end of one context. Thread-safe; blocks tasklets only.

    `greeted` is set when HELLO has come, `ended` when the process is gone and its descriptors are closed; the end sets
    both, and `wrong` says how the context broke the protocol, if it did. `on_want(number, name)` is called for each WANT,
    `on_piece(number)` for each PIECE, on the thread for links; they must not block. `send`, `send_at_once`, `send_when_quiet` and
    `wait_for_room` are those of its Sender.
    """

    __slots__ = (
        *("__weakref__", "_bytes_read", "_inline", "_reads", "_threads", "bundle_cache", "calls", "channels", "ended"),
        *("greeted", "hello", "identifier", "in_flight", "is_near", "name", "on_piece", "on_want", "output", "packers"),
        *("process", "scanner", "send", "send_at_once", "send_when_quiet", "sender", "stalled", "trunk", "transport"),
        *("tunnels", "wait_for_room", "wrong"),
    )

    def __init__(
        self,
        process: Pipe,
        transport: Transport,
        threads: Threads,
        output: Output,
        *,
        name: str,
        identifier: int,
        token: str,
        serve_channels: "Callable[[Link, Threads], ChannelServer]",
    ) -> None:
        self.process = process
        self.transport = transport
        self.output = output
        self.name = name
        self.identifier = identifier
        self.scanner: StartScanner = StartScanner(token)
        self.hello: bytes | None = None
        self.greeted: Event = Event()
        self.ended: Event = Event()
        self.calls: int = 0
        self.is_near = False  # its bytes do not leave this machine
        self.packers: Collection[str] = ("zlib",)  # the compressions that it can take apart
        self.tunnels: dict[int, Tunnel] = {}  # to the contexts that this one has started
        self.bundle_cache: BundleCache | None = None  # what it caches for them, once it has started one
        self.trunk: Trunk | None = process.trunk if isinstance(process, Tunnel) else None
        self.on_want: Callable[[int, str], None] | None = None
        self.on_piece: Callable[[int], None] | None = None
        lock = allocate_lock()
        self.sender: Sender = Sender(process, threads.links, lock)
        self.in_flight: InFlight = InFlight(lock)
        self._inline = InlineReader(process, self.in_flight, identifier) if isinstance(process, Process) else None
        self.send: Callable[..., None] = self.sender.send
        self.send_at_once: Callable[[bytes], None] = self.sender.send_at_once
        self.send_when_quiet: Callable[[bytes], None] = self.sender.send_when_quiet
        self.wait_for_room: Callable[[float | None], None] = self.sender.wait_for_room
        self._threads = threads
        self._bytes_read = 0
        self._reads = 0
        self.wrong: str | None = None
        self.stalled: str | None = None  # why it was given up although it is not broken
        self.channels: ChannelServer = serve_channels(self, threads)
        alive.add(self)
        threads.links.post(self._read)

    @property
    def closed(self) -> bool:
        """True when nothing can be sent any more, or soon nothing will be."""
        return self.sender.end is not None

    @property
    def bytes_up(self) -> int:
        """How many bytes of frames have come."""
        return self._bytes_read if self._inline is None else self._bytes_read + self._inline.bytes_up

    def refuse_if_ended(self, function: str | None) -> None:
        """Raise for a call of `function` what `ask` would raise when the link has ended. Never blocks."""
        end = self.sender.end
        if end is not None:
            raise end.error(function, sent=False)

    def why_ended(self, function: str) -> RemoteError | None:
        """The error for `function`, which already runs in the context; None while the link has not ended."""
        end = self.sender.end
        return None if end is None else end.error(function, sent=True)

    # ---- calls

    def ask(
        self,
        function: str,
        head: bytes,
        body: bytes | large_messages.LargeMessage,
        deadline: float | None = None,
        member: Member | None = None,
        *,
        reads: bool = False,
    ) -> tuple[int, Waiter[Answer]]:
        """Send CALL with `body`, after the frames in `head`; the waiter gets the Answer, or the error of the link's end.

        `member`, if given, gets it in place of the waiter. `reads`: the caller calls `read_answer` before it waits.

        Blocks this tasklet while the queue is full. Raises what `send` raises; nothing has been sent then. Thread-safe.
        """
        waiter: Waiter[Answer] = Waiter()
        sender, in_flight = self.sender, self.in_flight
        number = 0  # no call's
        try:
            with sender.lock:
                if sender.end is not None:
                    raise sender.end.error(function, sent=False)
                number = in_flight.free_number()
                self._refuse_if_held(number, function)
                in_flight.calls[number] = (member or waiter, function)
                self.calls += 1
                inline = self._inline
                if (
                    inline is not None
                    and inline.paused
                    and not (reads and len(in_flight.calls) == 1 and inline.grant(number))
                ):
                    inline.want_reader()
                if member is None and sender.queued <= QUEUED and type(body) is bytes and len(body) <= SHORT:
                    sender.put(head + protocol.frame(self.identifier, ROOT, number, protocol.CALL, body))
                    return number, waiter
            if member is not None:
                head += member.joining(number)
            if isinstance(body, bytes):
                sender.send(
                    head + protocol.frame(self.identifier, ROOT, number, protocol.CALL, body), function, deadline
                )
            else:
                self._send_pieces(number, head, body, function, deadline)
        except BaseException:
            if member is None:
                self.forget(number)
            else:
                self.cancel(number)  # it may have been announced
            raise
        return number, waiter

    def _refuse_if_held(self, number: int, function: str) -> None:
        """Raise for a call by an output function whose answer would have to wait for that function itself. Under the lock, right
        before the call is noted. A call that gets into that state later is refused then.
        """
        before = self.process.path if isinstance(self.process, Tunnel) else ()
        for link in (*before, self):
            if link.output.calls:
                refuse = functools.partial(self._refuse_held, number, link.name)
                if not link.output.may_ask(refuse, lambda: number not in self.in_flight.calls):
                    raise held(link.name, self.name, function, sent=False)

    def _refuse_held(self, number: int, talker: str) -> None:
        waiting = self.in_flight.remove(number)
        if waiting is not None:
            waiting[0].fail(held(talker, self.name, waiting[1], sent=True))
            self._send_cancel(number)

    def _send_pieces(
        self, number: int, head: bytes, message: large_messages.LargeMessage, function: str, deadline: float | None
    ) -> None:
        """Send a CALL that is larger than a frame. Each piece waits for room, and frames of other calls go in between.

        Raises RemoteError when the message is withdrawn before its last piece: it gets no answer then.
        """
        shared = message.shared and bool(self._caching_links_before())
        for piece in message.frames(self.identifier, ROOT, number, protocol.CALL):
            try:
                if shared and not head and len(piece) >= SMALL:
                    self._send_shared(number, piece)
                else:
                    self.send(head + piece, function, deadline)
            except BaseException:
                empty = protocol.frame(self.identifier, ROOT, number, protocol.CALL | protocol.KIND_MORE, b"")
                self.send_at_once(empty)
                raise
            head = b""
            if len(piece) == protocol.HEADER_SIZE:  # message.withdrawn does not say that it was cut short
                raise _withdrawn(self.name, function)

    def _send_shared(self, number: int, frame: bytes) -> None:
        """Send a frame of a CALL in pieces, from the nearest intermediary that has had the same body."""
        body = frame[protocol.HEADER_SIZE :]
        digest = piece_cache.digest_of_body(body)
        piece = Piece(digest, len(body), lambda: body, b"")
        self.send_piece(number, piece, protocol.CALL | protocol.KIND_MORE)

    def forget(self, number: int) -> bool:
        """Drop the call: no tasklet waits for its answer. True when the answer had not come yet."""
        with self.sender.lock:
            if self._inline is not None and self._inline.caller == number:
                self._inline.release(used=False)
            return self.in_flight.forget(number)

    def read_answer(self, number: int) -> Answer | None:
        """The answer to the call `number` if its caller may read, and nothing else comes first; else None.

        Blocks this tasklet, for some milliseconds at most.
        """
        inline = self._inline
        return None if inline is None or inline.caller != number else inline.read(number)

    def cancel(self, number: int) -> None:
        """Forget the call and tell the context, if that can be done without waiting."""
        if self.forget(number):
            self._send_cancel(number)

    def _send_cancel(self, number: int) -> None:
        self.send_at_once(protocol.frame(self.identifier, ROOT, number, protocol.CANCEL, b""))

    # ---- bundles of modules

    def bundle_frame(self, number: int, data: bytes, deadline: float | None = None) -> bytes:
        """The frame that carries the bundle `data`, as the answer to the WANT `number` or 0; to be sent in order.

        Empty for a context behind an intermediary: then the bundle was sent, after all earlier bundles and ahead of all frames
        that are sent from now on. Blocks this tasklet while the link is full; raises TimeoutError when `deadline` passes first.
        """
        caching = self._caching_links()
        trunk = self.trunk
        if caching and trunk is not None and len(data) >= SMALL:
            self.sender.bytes_down += trunk.send_bundle(self.identifier, number, data, caching, deadline)
            return b""
        return self.after_bundle(protocol.frame(self.identifier, ROOT, number, protocol.MODULES, data))

    def after_bundle(self, frame: bytes) -> bytes:
        """The small frame that must come after a bundle and ahead of the next one; empty when it was sent."""
        if isinstance(self.process, Tunnel) and self._caching_links():
            with self.sender.lock:
                self.sender.bytes_down += len(frame)
                self.process.send_ahead(frame)
            return b""
        return frame

    def send_piece(self, number: int, piece: Piece, kind: int = protocol.PIECE) -> None:
        """Send a piece of the shared object `number` once nothing else waits, from the nearest intermediary that has it.

        With another `kind`, that is what the frame is.
        Blocks this tasklet. Raises ContextClosed or ContextDied when the link has ended, and what piece.data() does.
        """
        tunnel, trunk = self.process, self.trunk
        caching = self._caching_links_before()
        if not caching or trunk is None or not isinstance(tunnel, Tunnel):
            body = piece.mark + piece.data()
            self.send_when_quiet(protocol.frame(self.identifier, ROOT, number, kind, body))
            return
        size = piece_cache.size_of(piece)
        self.sender.wait_until_quiet()
        tunnel.wait_for_credit(size)

        def note() -> None:
            with self.sender.lock:
                tunnel.use_credit(size)

        sent = trunk.send_piece(self.identifier, number, piece, caching, note, kind)
        with self.sender.lock:
            self.sender.bytes_down += sent

    def _caching_links_before(self) -> list[Hop]:
        """The links on the way to this context whose contexts cache bundles."""
        path = self.process.path if isinstance(self.process, Tunnel) else []
        return [link for link in path if link.bundle_cache is not None]

    def _caching_links(self) -> list[Hop]:
        """The links on the way to this context, itself included, whose contexts cache bundles."""
        return [*self._caching_links_before(), *([self] if self.bundle_cache is not None else [])]

    # ---- flow

    @property
    def is_full(self) -> bool:
        """True while senders have to wait."""
        return self.sender.is_full

    @property
    def is_held(self) -> bool:
        """Whether nothing is read of it at present, because output was not taken: its own, or that of the nearest intermediary."""
        trunk = self.trunk
        return self.output.is_full or (trunk is not None and trunk.link.output.is_full)

    # ---- reading

    def _read(self) -> None:
        """The reader's tasklet: from the first byte until the process is gone."""
        try:
            self._read_start()
            if self.scanner.status == protocol.STARTED:
                self._read_frames()
        except (protocol.WireError, ValueError) as error:
            self.wrong = str(error)
        except OSError as error:
            self.output.say(logging.DEBUG, f"reading from {self.name} failed: {error}")
        except Exception as error:
            _log.exception("reading from %r failed; this is a mistake in roamlet", self.name)
            self.wrong = repr(error)
        finally:  # whatever has happened, the waiting tasklets are told
            self.process.drained.set()
            self._finish()

    def _read_start(self) -> None:
        while self.scanner.status is None:
            data = self._more()
            if not data:
                return
            self.scanner.feed(data)

    def _read_frames(self) -> None:
        frames: protocol.FrameReader = BoundedFrameReader(self.identifier)
        data = self.scanner.rest
        while True:
            if data:
                self._bytes_read += len(data)
                if self.trunk is not None and self.trunk.link is self and type(frames) is BoundedFrameReader:
                    frames = sorting.Sorter(frames, self.trunk.sink_for, EVENTS, self.trunk.event)
                for frame in frames.feed(data):
                    self._take(*frame)
                self.channels.report()
                self.output.wait_for_room()
            data = self._pause(frames) or self._more()
            if not data:
                return

    def _pause(self, frames: protocol.FrameReader) -> bytes:
        """Let callers read their answers where that pays; return what they have read that is not theirs."""
        inline = self._inline
        if inline is None or not inline.may_pause or type(frames) is not BoundedFrameReader or not frames.is_empty:
            return b""
        return inline.pause(self.sender.lock, lambda: not self.in_flight.calls and self.sender.end is None)

    def _more(self) -> bytes:
        """What the pipe has, waiting for it; empty at its end. Switches now and then, so that other links are read too."""
        self._reads += 1
        if self._reads == READS_IN_A_ROW:
            self._reads = 0
            schedule()
        while True:
            data = self.process.try_read(READ_SIZE)
            if data is not None:
                return data
            self._reads = 0
            self.process.wait_readable()

    def _take(self, destination: int, source: int, number: int, kind: int, body: bytes) -> None:
        """Take one frame of the context. Nothing in it is trusted until it was checked."""
        if source != self.identifier or destination != ROOT:
            raise ValueError(f"a frame from {source} to {destination} on the link of {self.identifier}")
        refuse_large(kind, len(body))
        if kind in ANSWERS:
            self._take_answer(number, kind, body)
        elif kind == protocol.STREAM and number in STREAMS:
            self.output.text(STREAMS[number], body)
        elif kind == protocol.LOG:
            self.output.log_record(body)
        elif kind == protocol.WANT:
            self._want(number, body)
        elif kind == protocol.HELLO and self.hello is None:
            self.hello = body
            self.greeted.set()
        elif kind == protocol.PIECE and not body and self.on_piece is not None:
            self.on_piece(number)
        elif kind == protocol.CHANNEL:
            self.channels.take(number, body)
        elif kind == protocol.GOODBYE:
            self.output.say(logging.DEBUG, f"{self.name} said goodbye")
        elif kind == protocol.PING:
            if self.sender.has_room:  # a context that asks on and on without reading the answers gets no more of them
                self.send_at_once(protocol.frame(self.identifier, ROOT, number, protocol.PONG, body))
        elif kind != protocol.PONG:
            raise ValueError(f"a {protocol.kind_name(kind)} message that does not belong here")

    def _take_answer(self, number: int, kind: int, body: bytes) -> None:
        if kind & protocol.KIND_MORE:
            self._take_piece(number, body)
            return
        in_flight, inline = self.in_flight, self._inline
        if len(body) > in_flight.largest_result:
            self._refuse(number, len(body))
        waiting = in_flight.remove(number)
        if waiting is not None:  # else it was cancelled
            if inline is not None:
                inline.answered(alone=not in_flight.calls)
            waiting[0].succeed((kind, body))

    def _take_piece(self, number: int, body: bytes) -> None:
        try:
            message = self.in_flight.add_piece(number, body)
        except large_messages.TooLarge as error:
            self._refuse(number, error.size)
            return
        waiting = None if message is None else self.in_flight.remove(number)
        if waiting is not None and message is not None:
            waiting[0].succeed((protocol.RESULT, message))

    def _refuse(self, number: int, size: int) -> None:
        """Drop a result that is larger than this context may send, and stop what has not come of it."""
        waiting = self.in_flight.remove(number)
        if waiting is not None:
            limit = self.in_flight.largest_result
            waiting[0].fail(
                CannotTravel(
                    f"{waiting[1]} ran in {self.name!r}, but what it returned takes {size} bytes, and {limit} may come up.\n"
                    f"    Return it in parts, or raise the limit: context.largest_result = {size}",
                    context=self.name,
                    function=waiting[1],
                )
            )
            self._send_cancel(number)

    def _want(self, number: int, body: bytes) -> None:
        name = codec.loads(body)
        if not isinstance(name, str) or self.on_want is None:
            raise ValueError("a malformed WANT message, or one that came too early")
        self.on_want(number, name)

    # ---- the end

    def begin_close(self) -> None:
        """Begin to end in order: GOODBYE. Never blocks."""
        sender = self.sender
        with sender.lock:
            if sender.end is None:
                sender.end = Closed(self.name)
                if self._inline is not None:
                    self._inline.want_reader()
                sender.put(protocol.frame(self.identifier, ROOT, 0, protocol.GOODBYE, b""))

    def close(self, patience: float) -> None:
        """End in order, and the process has `patience` seconds to go. Blocks this tasklet until it is gone."""
        self.begin_close()
        if not self.ended.wait(patience):
            self.process.end(patience=0)
            self.ended.wait(LIMIT)

    def break_off(self, why: str) -> None:
        """End the link because of what the context sent: kill its process. Never blocks; the reader does the rest."""
        with self.sender.lock:
            if self.sender.end is None:
                self.wrong = why
        self.process.kill()

    def post(self, job: Callable[[], None]) -> None:
        """Run `job` soon as a tasklet on the thread for links. Never blocks."""
        self._threads.links.post(job)

    def give_up(self, why: str) -> None:
        """End the link because nothing comes any more: kill its process. Never blocks; the reader does the rest."""
        self.stalled = why
        self.process.kill()

    def abandon(self, patience: float = PATIENCE) -> None:
        """End the link as `close` does, because its context is no longer referred to, and release the threads. Never blocks."""
        self._threads.links.post(functools.partial(self._end_and_release, patience))

    def _end_and_release(self, patience: float) -> None:
        self.close(patience)
        release(self._threads)

    def leave_to_parent(self) -> None:
        """In a forked child, where no other thread is left: let go of the pipes, and refuse all calls."""
        self.sender.lock = self.in_flight.lock = allocate_lock()
        self.sender.end = Forked(self.name)
        self.channels.leave_to_parent()
        self.process.leave_to_parent()

    def _finish(self) -> None:
        """Nothing more comes: let the process end, wake all waiting tasklets, give the descriptors back."""
        sender = self.sender
        sender.close()
        self.process.end(patience=0 if self.wrong else PATIENCE)
        self.process.wait_for_last_lines()
        self.output.flush()
        with sender.lock:
            if sender.end is None:
                sender.end = self._died()
            in_flight = self.in_flight.remove_all()
            blocked = sender.take_waiters()
        end = sender.end
        self.channels.end()  # before callers are told: values that were not taken are back in their channels by then
        for tunnel in list(self.tunnels.values()):
            tunnel.lose(self.process.lost or end.text())
        if self.trunk is not None and self.trunk.link is self:
            self.trunk.tunnels.clear()
        self.trunk = None
        for caller, function in in_flight:
            caller.fail(end.error(function, sent=True))
        for waiter in blocked:
            waiter.succeed()
        self.on_want = self.on_piece = None
        alive.discard(self)
        self.process.close()
        self.greeted.set()
        self.ended.set()

    def _died(self) -> Died:
        process = self.process
        how = f"the way to it is lost: {process.lost}" if process.lost else None
        how = self.stalled or how or self.transport.describe_end(process.exit_code, list(process.said))
        return Died(self.name, self.wrong, how, process.exit_code, [*process.said, *self.output.last_errors])
