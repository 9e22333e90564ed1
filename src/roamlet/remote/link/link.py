"""The frames between this process and one context: what is sent, what comes, who waits for which answer, and the end.

Written to by any thread, read by one tasklet on the thread for links. A frame goes straight into the pipe while nothing is
queued; what the pipe does not take is queued and written by a tasklet there, and senders wait for room before they add more.
"""

import functools
import itertools
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Collection
from typing import Literal, Protocol

from roamlet.core import Waiter, schedule
from roamlet.remote.base.deadlines import remaining
from roamlet.remote.base.threads import Threads, release
from roamlet.remote.channels.served import Channels
from roamlet.remote.errors import (
    CannotTravel,
    RemoteError,
)
from roamlet.remote.link.bundle_cache import Copies
from roamlet.remote.link.ends import Closed, Died, Forked, held
from roamlet.remote.link.frames import Frames, refuse_large
from roamlet.remote.link.inline import Turn
from roamlet.remote.link.output import Output
from roamlet.remote.link.pipe import Pipe
from roamlet.remote.link.process import Process
from roamlet.remote.link.routes import EVENTS, Trunk, Tunnel
from roamlet.remote.transports import Transport
from roamlet.sync import Event
from roamlet.wire import codec, protocol, series, sorting
from roamlet.wire.build import StartScanner

ROOT = 0
QUEUED = 1 << 20  # bytes that may wait for the pipe before senders do
READ_SIZE = 1 << 16  # bytes; more would come from mmap and go back with munmap, for each read
READS_IN_A_ROW = 16
PATIENCE = 2.0  # seconds for a process to end by itself after it has closed its pipe
NUMBERS = 0xFFFFFFFF
SHORT = 1 << 14  # bytes of a call that is put together under the lock
SMALL = 1 << 9  # bytes of a bundle that no intermediary need keep
ANSWERS = (protocol.RESULT, protocol.ERROR, protocol.RESULT | protocol.KIND_MORE)
LARGEST_RESULT = 1 << 30  # bytes
HIGHEST_LEVEL = 1000  # of a log record
LONGEST_NAME = 1000  # characters of a logger's name
LIMIT = 10.0  # seconds after which a process that not even SIGKILL ends is left to the system
LOG_TYPES = (str, int, str, float, str, int, str)  # and the traceback: str or None
STREAMS = {1: "stdout", 2: "stderr"}

_log = logging.getLogger("roamlet.remote")

Answer = tuple[int, bytes]
"""Kind (RESULT or ERROR) and body of an answer. The caller decodes it: that is no work for the thread that all links share."""


alive: "weakref.WeakSet[Link]" = weakref.WeakSet()  # those that have not ended; also of contexts that are being opened


class Member(Protocol):
    """A call that belongs to others. It is told its answer on the thread for links, and must not block there."""

    def joining(self, number: int) -> bytes:
        """The frame that goes ahead of the call, which has this number."""

    def succeed(self, answer: Answer) -> object: ...
    def fail(self, error: BaseException) -> object: ...


class Link:
    """The parent's end of one context.

    `greeted` is set when HELLO has come, `ended` when the process is gone and its descriptors are closed; the end sets
    both, and `wrong` says what the other side did against the protocol, if it did. `wanted(number, name)` is called for
    each WANT, `wanted_piece(number)` for each PIECE, on the thread for links; they must not block.
    """

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
    ) -> None:
        self.process = process
        self.transport = transport
        self.output = output
        self.name = name
        self.identifier = identifier
        self.scanner = StartScanner(token)
        self.hello: bytes | None = None
        self.greeted = Event()
        self.ended = Event()
        self.bytes_down = 0
        self.bytes_up = 0
        self.calls = 0
        self.is_near = False  # its bytes do not leave this machine
        self.packers: Collection[str] = ("zlib",)  # the compressions that it can take apart
        self.tunnels: dict[int, Tunnel] = {}  # to the contexts that this one has started
        self.copies: Copies | None = None  # once it has started one
        self.trunk: Trunk | None = process.trunk if isinstance(process, Tunnel) else None
        self.wanted: Callable[[int, str], None] | None = None
        self.wanted_piece: Callable[[int], None] | None = None
        self._threads = threads
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._in_flight: dict[int, tuple[Waiter[Answer] | Member, str]] = {}
        self._arriving: dict[int, series.Arrival] = {}
        self.largest_result = LARGEST_RESULT
        self._queue: deque[memoryview] = deque()
        self._queued = 0
        self._room: list[Waiter[None]] = []
        self._quiet: list[Waiter[None]] = []
        self._reads = 0
        self._turn = Turn(process) if isinstance(process, Process) else None
        self._down_closed = False
        self.wrong: str | None = None
        self.stalled: str | None = None  # why it was given up although it is not broken
        self._end: Closed | Died | Forked | None = None  # set when nothing may be sent any more: why
        self.channels = Channels(self, threads)
        alive.add(self)
        threads.links.post(self._read)

    @property
    def closed(self) -> bool:
        """True when nothing can be sent any more, or soon nothing will be."""
        return self._end is not None

    def refuse_if_ended(self, function: str | None) -> None:
        """Raise for a call of `function` what `ask` would raise when the link has ended. Never blocks."""
        end = self._end
        if end is not None:
            raise end.error(function, sent=False)

    def why_ended(self, function: str) -> RemoteError | None:
        """The error for `function`, which runs there already; None while the link has not ended."""
        end = self._end
        return None if end is None else end.error(function, sent=True)

    # ---- sending

    def ask(
        self,
        function: str,
        head: bytes,
        body: bytes | series.Parcel,
        deadline: float | None = None,
        member: Member | None = None,
        *,
        reads: bool = False,
    ) -> tuple[int, Waiter[Answer]]:
        """Send CALL with `body`, behind the frames in `head`; the waiter gets the Answer, or the error of the link's end.

        `member`, if given, gets it in place of the waiter. `reads`: the caller calls `read_answer` before he waits.

        Blocks this tasklet while the queue is full. Raises what `send` raises; nothing has been sent then. Thread-safe.
        """
        waiter: Waiter[Answer] = Waiter()
        number = 0  # no call's
        try:
            with self._lock:
                if self._end is not None:
                    raise self._end.error(function, sent=False)
                number = self._free_number()
                self._refuse_if_held(number, function)
                self._in_flight[number] = (member or waiter, function)
                self.calls += 1
                turn = self._turn
                if turn is not None and turn.rests and not (reads and len(self._in_flight) == 1 and turn.take(number)):
                    turn.want_reader()
                if member is None and self._queued <= QUEUED and type(body) is bytes and len(body) <= SHORT:
                    self._put(head + protocol.frame(self.identifier, ROOT, number, protocol.CALL, body))
                    return number, waiter
            if member is not None:
                head += member.joining(number)
            if isinstance(body, bytes):
                self.send(head + protocol.frame(self.identifier, ROOT, number, protocol.CALL, body), function, deadline)
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
        """Raise for a call by an output function whose answer would have to wait for that function, and refuse it later should
        it come to that. Under the lock, right before the call is noted.
        """
        before = self.process.path if isinstance(self.process, Tunnel) else ()
        for link in (*before, self):
            if link.output.calls:
                refuse = functools.partial(self._refuse_held, number, link.name)
                if not link.output.may_ask(refuse, lambda: number not in self._in_flight):
                    raise held(link.name, self.name, function, sent=False)

    def _refuse_held(self, number: int, talker: str) -> None:
        with self._lock:
            waiting = self._in_flight.pop(number, None)
        if waiting is not None:
            waiting[0].fail(held(talker, self.name, waiting[1], sent=True))
            self.send_at_once(protocol.frame(self.identifier, ROOT, number, protocol.CANCEL, b""))

    def _send_pieces(
        self, number: int, head: bytes, parcel: series.Parcel, function: str, deadline: float | None
    ) -> None:
        """Send a CALL that is larger than a frame: its pieces wait for room one by one, and others' frames go in between."""
        for piece in parcel.frames(self.identifier, ROOT, number, protocol.CALL):
            try:
                self.send(head + piece, function, deadline)
            except BaseException:
                empty = protocol.frame(self.identifier, ROOT, number, protocol.CALL | protocol.KIND_MORE, b"")
                self.send_at_once(empty)
                raise
            head = b""

    def _free_number(self) -> int:
        while True:
            number = next(self._numbers) & NUMBERS
            if number not in self._in_flight:
                return number

    def forget(self, number: int) -> bool:
        """Nobody waits for this answer any more. True when it had not come yet."""
        with self._lock:
            self._arriving.pop(number, None)
            if self._turn is not None and self._turn.caller == number:
                self._turn.give_back(used=False)
            return self._in_flight.pop(number, None) is not None

    def read_answer(self, number: int) -> Answer | None:
        """The answer to the call `number` if it is its caller's turn to read, and nothing else comes first; else None.

        Blocks this tasklet, for some milliseconds at most.
        """
        turn = self._turn
        if turn is None or turn.caller != number:
            return None
        try:
            found: Answer | Literal[False] | None = turn.watch(lambda: self._look(number))
            return found or None
        finally:
            if turn.caller == number:
                with self._lock:
                    if turn.caller == number:
                        turn.give_back(used=False)

    def _look(self, number: int) -> Answer | Literal[False] | None:
        """The answer for the caller whose turn it is; False if it is not his turn any more, None if nothing has come."""
        turn, process = self._turn, self.process
        assert turn is not None
        assert isinstance(process, Process)  # there is a turn
        with self._lock:
            if turn.caller != number:
                return False
            # Into a list that the reader has, too: an exception of a signal's handler may come between any two of these steps.
            if not process.read_if_open(READ_SIZE, turn.unread):
                return None
            (data,) = turn.unread
            answer = self._answer_in(data, number)
            if answer is None:
                turn.give_back(used=False)
                return False
            turn.unread.clear()
            turn.give_back(used=True)
            self._in_flight.pop(number, None)
            self.bytes_up += len(data)
            return answer

    def _answer_in(self, data: bytes, number: int) -> Answer | None:
        """The answer to a call if the bytes are that, whole, and nothing else."""
        if len(data) < protocol.HEADER_SIZE:
            return None
        destination, source, its, length, kind = protocol.HEADER.unpack_from(data)
        if (
            (destination, source, its) != (ROOT, self.identifier, number)
            or kind not in (protocol.RESULT, protocol.ERROR)
            or length != len(data) - protocol.HEADER_SIZE
            or length > self.largest_result
        ):
            return None
        return kind, data[protocol.HEADER_SIZE :]

    def cancel(self, number: int) -> None:
        """Forget the call and tell the other side, if that can be done without waiting."""
        if self.forget(number):
            self.send_at_once(protocol.frame(self.identifier, ROOT, number, protocol.CANCEL, b""))

    def send_at_once(self, frame: bytes) -> None:
        """Send what nobody misses when the link has ended, without waiting for room."""
        with self._lock:
            if self._end is None:
                self._put(frame)

    @property
    def calls_in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def waiting(self) -> int:
        """How many bytes of what was sent wait for the pipe."""
        return self._queued

    @property
    def has_room(self) -> bool:
        """Whether `send` would not wait now."""
        return self._queued <= QUEUED

    def send(self, data: bytes, function: str | None = None, deadline: float | None = None) -> None:
        """Send whole frames, those of a call of `function`. Thread-safe; the frames of one call stay together.

        Blocks this tasklet while more than QUEUED bytes wait for the pipe; never blocks the thread.
        Raises ContextClosed or ContextDied when the link has ended, TimeoutError when `deadline` (time.monotonic) passes first.
        """
        while self.is_full:
            self.wait_for_room(remaining(deadline))
        with self._lock:
            if self._end is not None:
                raise self._end.error(function, sent=False)
            self._put(data)

    def send_when_quiet(self, data: bytes) -> None:
        """Send whole frames once nothing else waits for the pipe: what is large goes so, in pieces, and calls overtake it.

        Blocks this tasklet. Raises ContextClosed or ContextDied when the link has ended.
        """
        while True:
            waiter: Waiter[None] = Waiter()
            with self._lock:
                if self._end is not None:
                    raise self._end.error(None, sent=False)
                if not self._queued:
                    self._put(data)
                    return
                self._quiet.append(waiter)
            try:
                waiter.wait()
            finally:
                with self._lock:
                    if waiter in self._quiet:
                        self._quiet.remove(waiter)

    def bundle_frame(self, number: int, data: bytes, deadline: float | None = None) -> bytes:
        """The frame that brings the bundle `data`, as the answer to the WANT `number` or 0; to be sent in order.

        Empty behind a context: then it is on its way, ahead of all that is sent from now on, and behind all bundles before it.
        Blocks this tasklet while the link is full; raises TimeoutError when `deadline` passes first.
        """
        keepers = self._keepers()
        trunk = self.trunk
        if keepers and trunk is not None and len(data) >= SMALL:
            self.bytes_down += trunk.bring(self.identifier, number, data, keepers, deadline)
            return b""
        return self.behind_bundle(protocol.frame(self.identifier, ROOT, number, protocol.MODULES, data))

    def behind_bundle(self, frame: bytes) -> bytes:
        """The small frame that must come behind a bundle and ahead of the next one; empty where that has been seen to."""
        if isinstance(self.process, Tunnel) and self._keepers():
            with self._lock:
                self.bytes_down += len(frame)
                self.process.send_ahead(frame)
            return b""
        return frame

    def _keepers(self) -> "list[Link]":
        """Those on the way to this context, itself included, that keep bundles."""
        path = self.process.path if isinstance(self.process, Tunnel) else []
        return [link for link in (*path, self) if link.copies is not None]

    @property
    def is_held(self) -> bool:
        """Whether nothing is read of it at present, because output was not taken: its own, or that of who stands in front."""
        trunk = self.trunk
        return self.output.is_full or (trunk is not None and trunk.link.output.is_full)

    @property
    def is_full(self) -> bool:
        """True while senders have to wait."""
        return self._queued > QUEUED and self._end is None

    def _put(self, data: bytes) -> None:
        """Write or queue. Only under the lock."""
        self.bytes_down += len(data)
        left = memoryview(data)
        if not self._queue:
            left = left[self._write(left) :]
            if not left:
                return
            self._threads.links.post(self._flush)
        self._queue.append(left)
        self._queued += len(left)

    def _write(self, data: memoryview) -> int:
        """As much as the pipe takes at once. When nobody reads it any more, the reader of the other pipe will know why.

        Only under the lock: the descriptor's number may belong to somebody else once it is closed.
        """
        return len(data) if self._down_closed else self.process.write(data)

    def wait_for_room(self, timeout: float | None) -> None:
        """Block this tasklet until the link takes more, or has ended. Raises TimeoutError."""
        waiter: Waiter[None] = Waiter()
        with self._lock:
            if self._end is not None or self._queued <= QUEUED:
                return
            self._room.append(waiter)
        try:
            waiter.wait(timeout)
        finally:
            with self._lock:
                if waiter in self._room:
                    self._room.remove(waiter)

    def _flush(self) -> None:
        """Write the queue until it is empty. Runs as a tasklet while something is queued; a pipe without reader takes all."""
        while True:
            try:
                self.process.wait_writable()
            except OSError:  # the link has ended, and nobody reads the pipe
                return
            with self._lock:
                while self._queue:
                    written = self._write(self._queue[0])
                    self._queued -= written
                    if written < len(self._queue[0]):
                        self._queue[0] = self._queue[0][written:]
                        break
                    self._queue.popleft()
                empty = not self._queue
                if self._queued <= QUEUED // 2:
                    room, self._room = self._room, []
                else:
                    room = []
                if empty:
                    room += self._quiet
                    self._quiet = []
            for waiter in room:
                waiter.succeed()
            if empty:
                return

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
        finally:  # whatever has happened, those who wait are told
            self.process.drained.set()
            self._finish()

    def _read_start(self) -> None:
        while self.scanner.status is None:
            data = self._more()
            if not data:
                return
            self.scanner.feed(data)

    def _read_frames(self) -> None:
        frames: protocol.FrameReader = Frames(self.identifier)
        data = self.scanner.rest
        while True:
            if data:
                self.bytes_up += len(data)
                if self.trunk is not None and self.trunk.link is self and type(frames) is Frames:
                    frames = sorting.Sorter(frames, self.trunk.look, EVENTS, self.trunk.event)
                for frame in frames.feed(data):
                    self._take(*frame)
                self.channels.tell()
                self.output.wait_for_room()
            data = self._rest(frames) or self._more()
            if not data:
                return

    def _rest(self, frames: protocol.FrameReader) -> bytes:
        """Let callers read their answers where that pays; return what they have read and is not theirs."""
        turn = self._turn
        if turn is None or not turn.may_rest or type(frames) is not Frames or not frames.is_empty:
            return b""
        return turn.rest(self._lock, lambda: not self._in_flight and self._end is None)

    def _more(self) -> bytes:
        """What the pipe has, waiting for it; empty at its end. Lets other links have their turn now and then."""
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
        """One frame from over there. Everything in it is somebody else's claim until it was checked."""
        if source != self.identifier or destination != ROOT:
            raise ValueError(f"a frame from {source} to {destination} on the link of {self.identifier}")
        refuse_large(kind, len(body))
        if kind in ANSWERS:
            self._take_answer(number, kind, body)
        elif kind == protocol.STREAM and number in STREAMS:
            self.output.text(STREAMS[number], body)
        elif kind == protocol.LOG:
            self._record(body)
        elif kind == protocol.WANT:
            self._want(number, body)
        elif kind == protocol.HELLO and self.hello is None:
            self.hello = body
            self.greeted.set()
        elif kind == protocol.PIECE and not body and self.wanted_piece is not None:
            self.wanted_piece(number)
        elif kind == protocol.CHANNEL:
            self.channels.take(number, body)
        elif kind == protocol.GOODBYE:
            self.output.say(logging.DEBUG, f"{self.name} said goodbye")
        elif kind == protocol.PING:
            if self._queued <= QUEUED:  # who asks on and on without reading the answers gets no more of them
                self.send_at_once(protocol.frame(self.identifier, ROOT, number, protocol.PONG, body))
        elif kind != protocol.PONG:
            raise ValueError(f"a {protocol.kind_name(kind)} message that does not belong here")

    def _take_answer(self, number: int, kind: int, body: bytes) -> None:
        if kind & protocol.KIND_MORE:
            self._take_piece(number, body)
            return
        if len(body) > self.largest_result:
            self._refuse(number, len(body))
        with self._lock:
            waiting = self._in_flight.pop(number, None)
        if waiting is not None:  # else it was cancelled
            if self._turn is not None:
                self._turn.answered(alone=not self._in_flight)
            waiting[0].succeed((kind, body))

    def _take_piece(self, number: int, body: bytes) -> None:
        """A piece of a result; those of a call that nobody waits for are dropped."""
        if number not in self._in_flight:
            return
        arrival = self._arriving.get(number)
        if arrival is None:
            try:
                arrival = series.Arrival(body, self.largest_result)
            except series.TooLarge as error:
                self._refuse(number, error.size)
                return
            with self._lock:
                if number in self._in_flight:
                    self._arriving[number] = arrival
            return
        if not body:
            raise ValueError("a result that ends before it is complete")
        message = arrival.add(body)
        if message is not None:
            with self._lock:
                self._arriving.pop(number, None)
                waiting = self._in_flight.pop(number, None)
            if waiting is not None:
                waiting[0].succeed((protocol.RESULT, message))

    def _refuse(self, number: int, size: int) -> None:
        """Drop a result that is larger than this context may send, and stop it if it is still on its way."""
        with self._lock:
            waiting = self._in_flight.pop(number, None)
        if waiting is not None:
            waiting[0].fail(
                CannotTravel(
                    f"{waiting[1]} ran in {self.name!r}, but what it returned takes {size} bytes, and {self.largest_result} may "
                    f"come up.\n    Return it in parts, or raise the limit: context.largest_result = {size}",
                    context=self.name,
                    function=waiting[1],
                )
            )
            self.send_at_once(protocol.frame(self.identifier, ROOT, number, protocol.CANCEL, b""))

    def _record(self, body: bytes) -> None:
        fields = codec.loads(body)
        if not isinstance(fields, tuple) or tuple(map(type, fields[:7])) != LOG_TYPES or len(fields) != 8:
            raise ValueError("a malformed LOG message")
        logger, level, message, created, filename, line, thread, traceback = fields
        if (traceback is not None and type(traceback) is not str) or len(logger) > LONGEST_NAME:
            raise ValueError("a malformed LOG message")
        self.output.record(
            logger,
            max(0, min(level, HIGHEST_LEVEL)),
            message,
            created=created,
            pathname=filename,
            filename=os.path.basename(filename),
            lineno=line,
            threadName=thread,
            exc_text=traceback,
        )

    def _want(self, number: int, body: bytes) -> None:
        name = codec.loads(body)
        if not isinstance(name, str) or self.wanted is None:
            raise ValueError("a malformed WANT message, or one that came too early")
        self.wanted(number, name)

    # ---- the end

    def begin_close(self) -> None:
        """Begin to end in order: GOODBYE. Never blocks."""
        with self._lock:
            if self._end is None:
                self._end = Closed(self.name)
                if self._turn is not None:
                    self._turn.want_reader()
                self._put(protocol.frame(self.identifier, ROOT, 0, protocol.GOODBYE, b""))

    def close(self, patience: float) -> None:
        """End in order, and the process has `patience` seconds to go. Blocks this tasklet until it is gone."""
        self.begin_close()
        if not self.ended.wait(patience):
            self.process.end(patience=0)
            self.ended.wait(LIMIT)

    def break_off(self, why: str) -> None:
        """End it because of what came: its process is killed. Never blocks; the reader does the rest."""
        with self._lock:
            if self._end is None:
                self.wrong = why
        self.process.kill()

    def post(self, job: Callable[[], None]) -> None:
        """Run `job` soon as a tasklet on the thread for links. Never blocks."""
        self._threads.links.post(job)

    def give_up(self, why: str) -> None:
        """End it because nothing comes any more: its process is killed. Never blocks; the reader does the rest."""
        self.stalled = why
        self.process.kill()

    def abandon(self, patience: float = PATIENCE) -> None:
        """End it because nobody holds it any more, as `close` does, and let go of the threads. Never blocks."""
        self._threads.links.post(functools.partial(self._end_and_release, patience))

    def _end_and_release(self, patience: float) -> None:
        self.close(patience)
        release(self._threads)

    def leave_to_parent(self) -> None:
        """In a forked child, where no other thread is left: let go of the pipes, and refuse whatever comes."""
        self._lock = threading.Lock()
        self._end = Forked(self.name)
        self.channels.leave_to_parent()
        self.process.leave_to_parent()

    def _finish(self) -> None:
        """Nothing more comes: let the process end, tell everybody who waits, give the descriptors back."""
        with self._lock:
            self._down_closed = True
        self.process.close_down()
        self.process.end(patience=0 if self.wrong else PATIENCE)
        self.process.hear_out()
        self.output.flush()
        with self._lock:
            if self._end is None:
                self._end = Died(self, self.wrong)
            in_flight, self._in_flight = self._in_flight, {}
            room, self._room = self._room + self._quiet, []
            self._quiet = []
        self.channels.end()  # before callers are told: what was not taken is back by then
        for tunnel in list(self.tunnels.values()):
            tunnel.lose(self.process.lost or self._end.text())
        if self.trunk is not None and self.trunk.link is self:
            self.trunk.tunnels.clear()
        self.trunk = None
        for caller, function in in_flight.values():
            caller.fail(self._end.error(function, sent=True))
        for waiter in room:
            waiter.succeed()
        self.wanted = self.wanted_piece = None
        alive.discard(self)
        self.process.close()
        self.greeted.set()
        self.ended.set()
