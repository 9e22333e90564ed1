"""The channels of this process that a context may use: its sends and receives are carried out here, in one tasklet each.

The other end, and the frames between, are in roamlet.wire.channels. A context can use the channels that it was sent and no
others; values that it had not taken when its link ends are put back into their channels.
"""

import itertools
import logging
import struct
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import roamlet
from roamlet.core import ChannelClosed, Waiter, select, tasklet, thread_ends
from roamlet.core.os_threads import allocate_lock
from roamlet.remote.base.deadlines import EVER
from roamlet.remote.base.threads import Threads
from roamlet.remote.channels.requeue import requeue
from roamlet.remote.channels.streams import WINDOW, StreamChannel
from roamlet.remote.errors import RemoteError
from roamlet.remote.link.channel_server import ChannelServer
from roamlet.remote.link.frames import ROOT
from roamlet.remote.link.link import Link
from roamlet.remote.values import failures
from roamlet.wire import channels as wire
from roamlet.wire import codec, protocol

MOST_AHEAD = 1 << 16  # values sent to one context and not taken by it
BYTES_AHEAD = 1 << 23  # of one channel; a single value may be larger
NOTHING = object()

Any_channel = roamlet.channel[Any]


class Acknowledgements:
    """Counts of values that came into the channel of a stream and were settled, but not acknowledged to the context yet.

    The channel refers to this, and not to the ServedChannel, which refers to the channel.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.accepted = self.refused = 0


class ServedChannel:
    """One channel that a context may use. Used on the thread for links alone."""

    def __init__(self, number: int, channel: Any_channel) -> None:
        self.number = number
        self.channel = channel
        self.references = 0  # of the context, or in messages that are being made
        self.announced = False
        self.epoch = 0  # 0: the context wants nothing
        self.ended = 0  # the last epoch that is over
        # Epochs that wait for the end of this one: wanted, taken; None: over.
        self.later: dict[int, tuple[int, int] | None] = {}
        self.pumping = 0  # the epoch that a tasklet receives for
        self.wanted = self.sent = self.taken = 0
        self.untaken: deque[tuple[Any, bool, int]] = deque()  # value, whether it is an exception, bytes
        self.bytes = 0
        self.stop: roamlet.channel[None] = roamlet.channel()
        self.room: Waiter[None] | None = None
        self.acknowledgements: Acknowledgements = Acknowledgements(number)


class ChannelReferences:
    """The references to channels inside of one message. `refer` counts them while the message is encoded."""

    def __init__(self, channels: ChannelServer) -> None:
        self.numbers: list[int] = []
        self._channels = channels

    def refer(self, channel: Any_channel) -> int | None:
        number = self._channels.number_of(channel)
        if number is not None:
            self.numbers.append(number)
        return number

    def announce(self) -> None:
        """Announce the channels. Called right before the message is sent, after the part of the payload that serves channels."""
        self._channels.announce(self.numbers)

    def discard(self) -> None:
        """Undo the counting: the message was not sent."""
        for number in self.numbers:
            self._channels.uncount(number)
        self.numbers = []


class Channels:
    """The ChannelServer of one link. Methods that count references may be called by any thread, others on the thread for links."""

    def __init__(self, link: Link, threads: Threads) -> None:
        self._link: Link = weakref.proxy(link)  # which refers to this object
        self._threads = threads
        self._lock = allocate_lock()
        self._numbers = itertools.count(1)
        self._last = 0
        self._served: dict[int, ServedChannel] = {}
        self._by_id: dict[int, ServedChannel] = {}
        self._released_channels: weakref.WeakValueDictionary[int, Any_channel] = weakref.WeakValueDictionary()
        # How to stop each send that waits, and its size.
        self._requests: dict[int, tuple[Callable[[], object], int]] = {}
        self._bytes = 0
        self._under_way = 0  # values of streams that were not settled
        self._stream_bytes = 0  # bytes of them
        self._newly_taken: deque[tuple[Acknowledgements, list[int]]] = deque()  # of these, their sizes
        self._posted = False  # a job for the newly taken values
        self._unreported: dict[Acknowledgements, None] = {}
        self._pumps = 0
        self._ended = False

    def __len__(self) -> int:
        return len(self._served)

    # ---- what travels

    def number_of(self, channel: Any_channel) -> int | None:
        with self._lock:
            if self._ended:
                return None
            served = self._by_id.get(id(channel))
            if served is None:
                self._last = next(self._numbers)
                served = ServedChannel(self._last, channel)
                self._served[served.number] = self._by_id[id(channel)] = served
                self._threads.links.may_wake(1)
            served.references += 1
            return served.number

    def announce(self, numbers: list[int]) -> None:
        """Tell the context what it must know of these channels before it gets their first references."""
        with self._lock:
            for number in numbers:
                served = self._served.get(number)
                if served is not None and not served.announced and isinstance(served.channel, StreamChannel):
                    served.announced = True
                    self._tell(served, wire.VERB.pack(b"N", WINDOW))

    def uncount(self, number: int, count: int = 1) -> None:
        """Take off `count` references that the context no longer has. The number ends with the last one."""
        with self._lock:
            served = self._served.get(number)
            if served is not None:
                served.references -= count
                if served.references <= 0:
                    self._forget(served)

    def _forget(self, served: ServedChannel) -> None:
        """Only under the lock."""
        del self._served[served.number]
        del self._by_id[id(served.channel)]
        self._released_channels[served.number] = served.channel
        self._threads.links.may_wake(-1)

    def resolve(self, number: int) -> Any_channel:
        """The channel that a value from the context names. Raises CodecError when the context was not given it.

        A result may be decoded after the context has released its last reference.
        """
        with self._lock:
            served = self._served.get(number)
            if served is not None:
                return served.channel
            if not 0 < number <= self._last:
                raise codec.CodecError(f"it names channel {number}, which it was not given")
            # Nothing refers to a channel that is gone: a new one is as good.
            return self._released_channels.get(number) or roamlet.channel()

    # ---- frames from the context

    def take(self, number: int, body: bytes) -> None:
        try:
            self._take(number, body)
        except struct.error as error:
            raise ValueError(f"a CHANNEL message that is cut: {body[:20]!r}") from error

    def _take(self, number: int, body: bytes) -> None:
        verb, served = body[:1], self._served.get(number)
        if served is None:
            if verb in (b"A", b"B") and 0 < number <= self._last:
                return  # the release of its last reference has overtaken it
            raise ValueError(f"it uses channel {number}, which it was not given")
        if verb == b"A" and len(body) == wire.ASK.size:
            self._asked(served, *wire.ASK.unpack(body)[1:])
        elif verb == b"B" and len(body) == wire.BACK.size:
            self._epoch_ended(served, *wire.BACK.unpack(body)[1:])
        elif verb in (b"S", b"X"):
            self._sent(served, wire.U32.unpack_from(body, 1)[0], body, verb == b"X")
        elif verb == b"W":
            request = self._requests.get(wire.U32.unpack_from(body, 1)[0])
            if request is not None:
                request[0]()
        elif verb == b"Q":
            channel = served.channel
            self._begin(wire.U32.unpack_from(body, 1)[0], int, 0)
            state = (channel.balance, channel.closing, channel.closed, channel.buffer, channel.buffered)
            tasklet(self._answer)(served, wire.U32.unpack_from(body, 1)[0], state)
        elif body == b"C":
            served.channel.close()
        elif body == b"O":
            served.channel.open()
        elif verb == b"R":
            self._released(served, wire.U32.unpack_from(body, 1)[0])
        else:
            raise ValueError(f"a CHANNEL message that means nothing: {body[:20]!r}")

    def _released(self, served: ServedChannel, references: int) -> None:
        if references > served.references:
            raise ValueError(f"it gives back channel {served.number} more often than it got it")
        self.uncount(served.number, references)
        if not served.references:
            served.later.clear()
            self._end_epoch(served)

    # ---- the context receives

    def _asked(self, served: ServedChannel, epoch: int, wanted: int, taken: int) -> None:
        if epoch <= served.ended:
            return
        if served.epoch and epoch != served.epoch:
            self._asked_later(served, epoch, wanted, taken)
            return
        served.epoch = epoch
        self._taken(served, taken)
        served.wanted = max(served.wanted, wanted)
        if served.room is not None:
            served.room.succeed()
        if served.wanted > served.sent and served.pumping != epoch:
            if self._pumps >= len(self._served) + wire.MOST_REQUESTS:
                raise ValueError("more is asked of channels at once than a context can wait for")
            self._pumps += 1
            served.pumping = epoch
            served.stop = roamlet.channel()
            served.stop.preference = 0
            tasklet(self._pump)(served, epoch, served.stop)

    def _asked_later(self, served: ServedChannel, epoch: int, wanted: int, taken: int) -> None:
        """Store a request of the next epoch: it has overtaken the frame that ends this epoch and says what was taken."""
        if len(served.later) >= wire.MOST_REQUESTS:
            raise ValueError(f"it begins to receive from channel {served.number} again and again without an end")
        before = served.later.setdefault(epoch, (0, 0))
        if before is not None:
            served.later[epoch] = max(before[0], wanted), max(before[1], taken)

    def _epoch_ended(self, served: ServedChannel, epoch: int, taken: int) -> None:
        """An epoch is over; begin the next one if its request has come."""
        if epoch in served.later:
            served.later[epoch] = None
        if epoch != served.epoch:
            return
        self._taken(served, taken)
        self._end_epoch(served)
        while served.later and not served.epoch:
            epoch = min(served.later)
            asked = served.later.pop(epoch)
            if asked is None:
                served.ended = max(served.ended, epoch)
            else:
                self._asked(served, epoch, *asked)

    def _taken(self, served: ServedChannel, taken: int) -> None:
        if taken > served.sent:
            raise ValueError(f"it took {taken} values from channel {served.number}, where {served.sent} were sent")
        while served.taken < taken:
            served.taken += 1
            served.bytes -= served.untaken.popleft()[2]

    def _end_epoch(self, served: ServedChannel) -> None:
        """The context wants nothing more: put back what was sent and not taken, and stop the tasklet that receives for it."""
        back = [(value, is_error) for value, is_error, _ in served.untaken]
        served.ended = max(served.ended, served.epoch)
        served.epoch = served.wanted = served.sent = served.taken = served.bytes = 0
        served.untaken.clear()
        if served.pumping:
            served.pumping = 0
            _stop(served.stop)
        if served.room is not None:
            served.room.succeed()
        if back:
            requeue(served.channel, back)

    def _pump(self, served: ServedChannel, epoch: int, stop: "roamlet.channel[None]") -> None:
        """Receive what the context wants and send it, until it wants nothing more."""
        try:
            if self._ended:  # before this tasklet has begun
                return
            # A context that reads no answers gets no more of them, not even that a channel is closed.
            if self._link.is_full:
                self._link.wait_for_room(EVER)
            while served.epoch == epoch and served.sent < served.wanted:
                if served.untaken and (served.bytes > BYTES_AHEAD or len(served.untaken) >= MOST_AHEAD):
                    served.room = Waiter()
                    served.room.wait(EVER)
                    served.room = None
                    continue
                value, is_error = _received(served.channel, stop)
                if value is NOTHING:
                    return
                if served.epoch != epoch:
                    requeue(served.channel, [(value, is_error)])
                    return
                self._send_value(served, epoch, value, is_error)
        except _Closed:
            if served.epoch == epoch:
                served.wanted = served.sent
                self._tell(served, wire.VERB.pack(b"Z", epoch))
        except RemoteError as error:  # the link has ended, and `end` puts back what was not taken
            self._link.output.say(logging.DEBUG, f"{self._link.name} receives no more from a channel: {error}")
        finally:
            self._pumps -= 1
            if served.pumping == epoch:
                served.pumping = 0

    def _send_value(self, served: ServedChannel, epoch: int, value: Any, is_error: bool) -> None:
        references = ChannelReferences(self)
        if is_error:
            body = b"E" + wire.U32.pack(epoch) + wire.failure(value)
        else:
            try:
                # Plain values alone, also where this process is a context itself: the target's reading thread decodes them.
                plain = codec.dumps(value, "the value", refer=references.refer, otherwise=False)
                body = b"V" + wire.U32.pack(epoch) + plain
            except codec.CannotTravel as error:  # its sender has gone on; the receiver is told
                references.discard()
                text = f"a value was sent to {self._link.name!r} that cannot travel: {error}"
                self._link.output.say(logging.WARNING, text)
                body = b"E" + wire.U32.pack(epoch) + wire.failure(TypeError(text))
        served.untaken.append((value, is_error, len(body)))
        served.bytes += len(body)
        served.sent += 1
        if references.numbers:
            references.announce()
        self._link.send(self._frame(served, body))

    # ---- the context sends

    def _begin(self, number: int, stop: Callable[[], object], size: int) -> None:
        self._refuse_more(len(self._requests), self._bytes)
        if number in self._requests:
            raise ValueError("the same request of a channel twice at once")
        self._requests[number] = (stop, size)
        self._bytes += size

    @staticmethod
    def _refuse_more(count: int, size: int, most: int = wire.MOST_BYTES) -> None:
        if count >= wire.MOST_REQUESTS:
            raise ValueError("more requests of channels at once than a context makes")
        if size > most:
            raise ValueError("more bytes at once into channels than a context sends")

    def _sent(self, served: ServedChannel, number: int, body: bytes, is_error: bool) -> None:
        value = self._exception(codec.loads(body, start=5)) if is_error else codec.loads(body, self.resolve, start=5)
        channel = served.channel
        if isinstance(channel, StreamChannel):
            self._streamed(served.acknowledgements, channel, value, len(body), is_error=is_error)
            return
        stop: roamlet.channel[None] = roamlet.channel()
        stop.preference = 0
        if is_error:
            worker: tasklet[ServedChannel, int, Exception] = tasklet(self._send_error)
            self._begin(number, lambda: _kill_if_blocked(worker), len(body))
            worker(served, number, value).run()
        else:
            self._begin(number, lambda: _stop(stop), len(body))
            # Run until it waits: later values queue after it.
            tasklet(self._send)(served, channel, number, value, stop).run()

    def _send(
        self,
        served: ServedChannel,
        channel: "roamlet.channel[Any]",
        number: int,
        value: Any,
        stop: "roamlet.channel[None]",
    ) -> None:
        said = None
        try:
            if select((channel, value), stop)[0] is stop:
                said = wire.WITHDRAWN
        except ChannelClosed:
            said = wire.CLOSED
        self._answer(served, number, said)

    def _send_error(self, served: ServedChannel, number: int, error: Exception) -> None:
        said = None
        try:
            served.channel.send_exception(error)
        except ChannelClosed:
            said = wire.CLOSED
        except roamlet.TaskletExit:
            if thread_ends():
                raise
            said = wire.WITHDRAWN
        self._answer(served, number, said)

    def _streamed(
        self, acks: Acknowledgements, channel: "StreamChannel[Any]", value: Any, size: int, *, is_error: bool
    ) -> None:
        """Let a value into the channel of a stream. The context is told of many that were taken at a time: see `report`."""
        self._refuse_more(self._under_way, self._stream_bytes, 2 * wire.MOST_BYTES)
        self._under_way += 1
        self._stream_bytes += size
        if channel.left:
            self._settled(acks, size)
            return

        def taken(sizes: list[int]) -> None:  # later, in the reader's thread
            self._newly_taken.append((acks, sizes))
            if not self._posted and not self._ended:
                self._posted = True
                self._threads.links.post(self._settle_taken)

        try:
            channel.put(value, size, is_error=is_error, acknowledge=taken)
        except ChannelClosed:
            acks.refused += 1
            self._settled(acks, size, taken=0)

    def _settled(self, acks: Acknowledgements, size: int, taken: int = 1) -> None:
        acks.accepted += taken
        self._under_way -= 1
        self._stream_bytes -= size
        self._unreported[acks] = None

    def _settle_taken(self) -> None:
        """Settle the values that were taken. Runs on the thread for links; blocks while the context reads nothing."""
        self._posted = False
        while self._newly_taken:
            acks, sizes = self._newly_taken.popleft()
            for size in sizes:
                self._settled(acks, size)
        if self._ended:
            return
        try:
            while self._link.is_full:
                self._link.wait_for_room(EVER)
        except RemoteError:
            return
        self.report()

    def report(self) -> None:
        """Send the counts of taken and refused values that are new. Never blocks."""
        if not self._unreported:
            return
        if self._link.is_full:  # a context that reads no answers gets no more of them
            if not self._posted:
                self._posted = True
                self._threads.links.post(self._settle_taken)
            return
        unreported, self._unreported = self._unreported, {}
        for acks in unreported:
            for verb, count in ((b"P", acks.accepted), (b"F", acks.refused)):
                if count:
                    self._tell(acks, wire.VERB.pack(verb, count))
            acks.accepted = acks.refused = 0

    def _answer(self, served: ServedChannel, number: int, said: Any) -> None:
        try:
            if not self._ended:  # else the link may be gone, which this object does not keep alive
                self._link.send(self._frame(served, wire.VERB.pack(b"D", number) + codec.dumps(said)))
        except RemoteError as error:
            self._link.output.say(logging.DEBUG, f"{self._link.name} gets no answer: {error}")
        finally:
            request = self._requests.pop(number, None)
            if request is not None:
                self._bytes -= request[1]

    def _exception(self, said: Any) -> Exception:
        if not isinstance(said, tuple) or len(said) != 4 or [type(said[i]) for i in (0, 1, 3)] != [str, str, str]:
            raise ValueError("a malformed exception for a channel")
        module, kind, args, text = said
        return failures.rebuilt(
            module=module, type_name=kind, args=args, text=text, traceback="", context=self._link.name, function=""
        )

    # ---- frames to the context

    def _frame(self, served: ServedChannel | Acknowledgements, body: bytes) -> bytes:
        frame: bytes = protocol.frame(self._link.identifier, ROOT, served.number, protocol.CHANNEL, body)
        return frame

    def _tell(self, served: ServedChannel | Acknowledgements, body: bytes) -> None:
        """Send what is short, without waiting for room."""
        self._link.send_at_once(self._frame(served, body))

    def leave_to_parent(self) -> None:
        self._lock = allocate_lock()
        self._ended = True

    def end(self) -> None:
        """The link has ended: stop what waits for the context, and put back the values that it had not taken."""
        with self._lock:
            self._ended = True
            all_served = list(self._served.values())
            for served in all_served:
                self._forget(served)
        for served in all_served:
            served.later.clear()
            self._end_epoch(served)
        for stop, _ in list(self._requests.values()):
            stop()


class _Closed(Exception):
    """The channel is closed and empty."""


def _stop(stop: "roamlet.channel[None]") -> None:
    """End the wait of the tasklet that listens to it; one that has been woken by its channel meanwhile goes on."""
    select((stop, None), default=None)


def _kill_if_blocked(worker: "tasklet[...]") -> None:
    if worker.blocked:
        worker.kill()


def _received(channel: Any_channel, stop: "roamlet.channel[None]") -> tuple[Any, bool]:
    """The next value, and whether it is an exception that was sent; NOTHING when `stop` comes first. Raises _Closed."""
    try:
        met, value = select(channel, stop)
        return (value if met is channel else NOTHING), False
    except ChannelClosed as error:
        if not channel.closed:
            return error.with_traceback(None), True
    except BaseException as error:
        if thread_ends():
            raise
        return error.with_traceback(None), True
    raise _Closed


codec.carry(roamlet.channel)
codec.carry(StreamChannel)
