"""Channels that were given to a context: what it does with them happens here, one tasklet for each that has to wait.

The other end, and what the frames between say, stand in roamlet.wire.channels. A context can use what it was given and nothing
else; what it had not taken when it ends goes back where it came from.
"""

import itertools
import logging
import struct
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import roamlet
from roamlet.core import ChannelClosed, Waiter, select, tasklet, thread_ends
from roamlet.remote.base.deadlines import EVER
from roamlet.remote.base.threads import Threads
from roamlet.remote.channels import requeue
from roamlet.remote.channels.window import WindowChannel
from roamlet.remote.errors import RemoteError
from roamlet.remote.values import failures
from roamlet.wire import channels as wire
from roamlet.wire import codec, protocol

if TYPE_CHECKING:  # _link makes these
    from roamlet.remote.link.link import Link

MOST_AHEAD = 1 << 16  # values sent to one context and not taken there
BYTES_AHEAD = 1 << 23  # of one channel; a single value may be larger
ROOT = 0
NOTHING = object()

Any_channel = roamlet.channel[Any] | WindowChannel[Any]


class Tally:
    """Values that came into a channel with a window, and of which the other side has not been told yet.

    What waits in the channel refers to this, and not to the channel's Given, which refers to the channel.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.accepted = self.refused = 0


class Given:
    """One channel that a context may use. The reader of the link and its tasklets touch it, all on one thread."""

    def __init__(self, number: int, channel: Any_channel) -> None:
        self.number = number
        self.channel = channel
        self.references = 0  # over there, or in messages that are being made
        self.announced = False
        self.epoch = 0  # 0: nothing is wanted over there
        self.ended = 0  # the last epoch that is over
        self.later: dict[int, tuple[int, int] | None] = {}  # epochs that wait for its end: wanted, taken; None: over
        self.pumping = 0  # the epoch that a tasklet receives for
        self.wanted = self.sent = self.taken = 0
        self.untaken: deque[tuple[Any, bool, int]] = deque()  # value, whether it is an exception, bytes
        self.bytes = 0
        self.stop: roamlet.channel[None] = roamlet.channel()
        self.room: Waiter[None] | None = None
        self.tally = Tally(number)


class Luggage:
    """The channels inside of one message: `refer` counts them while it is encoded."""

    def __init__(self, channels: "Channels") -> None:
        self.numbers: list[int] = []
        self._channels = channels

    def refer(self, channel: Any_channel) -> int | None:
        number = self._channels.number_of(channel)
        if number is not None:
            self.numbers.append(number)
        return number

    def announce(self) -> None:
        """Right before it is sent, when the part of the payload that knows channels is there."""
        self._channels.announce(self.numbers)

    def let_go(self) -> None:
        """It was not sent after all."""
        for number in self.numbers:
            self._channels.uncount(number)
        self.numbers = []


class Channels:
    """The channels of one link. What counts references may be called by any thread, the rest on the thread for links."""

    def __init__(self, link: "Link", threads: Threads) -> None:
        self._link: Link = weakref.proxy(link)  # it has us
        self._threads = threads
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._last = 0
        self._given: dict[int, Given] = {}
        self._by_id: dict[int, Given] = {}
        self._faded: weakref.WeakValueDictionary[int, Any_channel] = weakref.WeakValueDictionary()
        self._requests: dict[
            int, tuple[Callable[[], object], int]
        ] = {}  # how to stop each send that waits, and its size
        self._bytes = 0
        self._under_way = 0  # values that channels with a window have not settled
        self._news: deque[tuple[Tally, int]] = deque()  # of these: those that have found room, and their sizes
        self._told = False  # the thread for links has been asked to look at the news
        self._due: dict[Tally, None] = {}  # channels of which something is to be told
        self._pumps = 0
        self._ended = False

    # ---- what travels

    def __len__(self) -> int:
        return len(self._given)

    def number_of(self, channel: Any_channel) -> int | None:
        """The number by which the context knows it, for one more reference. None when the link has ended."""
        with self._lock:
            if self._ended:
                return None
            given = self._by_id.get(id(channel))
            if given is None:
                self._last = next(self._numbers)
                given = Given(self._last, channel)
                self._given[given.number] = self._by_id[id(channel)] = given
                self._threads.links.may_wake(1)
            given.references += 1
            return given.number

    def announce(self, numbers: list[int]) -> None:
        """Tell the other side what it must know of these before it meets their first references."""
        with self._lock:
            for number in numbers:
                given = self._given.get(number)
                if given is not None and not given.announced and isinstance(given.channel, WindowChannel):
                    given.announced = True
                    self._tell(given, wire.VERB.pack(b"N", given.channel.window))

    def uncount(self, number: int, count: int = 1) -> None:
        """So many references are not over there any more; the last one takes the number along."""
        with self._lock:
            given = self._given.get(number)
            if given is not None:
                given.references -= count
                if given.references <= 0:
                    self._forget(given)

    def _forget(self, given: Given) -> None:
        """Only under the lock."""
        del self._given[given.number]
        del self._by_id[id(given.channel)]
        self._faded[given.number] = given.channel
        self._threads.links.may_wake(-1)

    def resolve(self, number: int) -> Any_channel:
        """The channel that a value from over there names. Raises CodecError when it was not given.

        Who reads a result may come later than the end of the last reference over there.
        """
        with self._lock:
            given = self._given.get(number)
            if given is not None:
                return given.channel
            if not 0 < number <= self._last:
                raise codec.CodecError(f"it names channel {number}, which it was not given")
            return self._faded.get(number) or roamlet.channel()  # that one has nobody left: as good as a new one

    # ---- frames from over there

    def take(self, number: int, body: bytes) -> None:
        """One CHANNEL frame. Never blocks. Raises ValueError for what no context of ours sends."""
        try:
            self._take(number, body)
        except struct.error as error:
            raise ValueError(f"a CHANNEL message that is cut: {body[:20]!r}") from error

    def _take(self, number: int, body: bytes) -> None:
        verb, given = body[:1], self._given.get(number)
        if given is None:
            if verb in (b"A", b"B") and 0 < number <= self._last:
                return  # overtaken by the end of its last reference
            raise ValueError(f"it uses channel {number}, which it was not given")
        if verb == b"A" and len(body) == wire.ASK.size:
            self._asked(given, *wire.ASK.unpack(body)[1:])
        elif verb == b"B" and len(body) == wire.BACK.size:
            self._left(given, *wire.BACK.unpack(body)[1:])
        elif verb in (b"S", b"X"):
            self._sent(given, wire.U32.unpack_from(body, 1)[0], body, verb == b"X")
        elif verb == b"W":
            request = self._requests.get(wire.U32.unpack_from(body, 1)[0])
            if request is not None:
                request[0]()
        elif verb == b"Q":
            channel = given.channel
            self._begin(wire.U32.unpack_from(body, 1)[0], int, 0)
            state = (channel.balance, channel.closing, channel.closed)
            tasklet(self._answer)(given, wire.U32.unpack_from(body, 1)[0], state)
        elif body == b"C":
            given.channel.close()
        elif body == b"O":
            given.channel.open()
        elif verb == b"R":
            self._released(given, wire.U32.unpack_from(body, 1)[0])
        else:
            raise ValueError(f"a CHANNEL message that means nothing: {body[:20]!r}")

    def _released(self, given: Given, references: int) -> None:
        if references > given.references:
            raise ValueError(f"it gives back channel {given.number} more often than it got it")
        self.uncount(given.number, references)
        if not given.references:
            given.later.clear()
            self._end_epoch(given)

    # ---- they receive

    def _asked(self, given: Given, epoch: int, wanted: int, taken: int) -> None:
        if epoch <= given.ended:
            return
        if given.epoch and epoch != given.epoch:
            self._asked_later(given, epoch, wanted, taken)
            return
        given.epoch = epoch
        self._taken(given, taken)
        given.wanted = max(given.wanted, wanted)
        if given.room is not None:
            given.room.succeed()
        if given.wanted > given.sent and given.pumping != epoch:
            if self._pumps >= len(self._given) + wire.MOST_REQUESTS:
                raise ValueError("more is asked of channels at once than a context can wait for")
            self._pumps += 1
            given.pumping = epoch
            given.stop = roamlet.channel()
            given.stop.preference = 0
            tasklet(self._pump)(given, epoch, given.stop)

    def _asked_later(self, given: Given, epoch: int, wanted: int, taken: int) -> None:
        """Another thread's frame has overtaken the one that ends the epoch, and only that one says what was taken in it."""
        if len(given.later) >= wire.MOST_REQUESTS:
            raise ValueError(f"it begins to receive from channel {given.number} again and again without an end")
        before = given.later.setdefault(epoch, (0, 0))
        if before is not None:
            given.later[epoch] = max(before[0], wanted), max(before[1], taken)

    def _left(self, given: Given, epoch: int, taken: int) -> None:
        """An epoch is over; the next one may have been waiting for that."""
        if epoch in given.later:
            given.later[epoch] = None
        if epoch != given.epoch:
            return
        self._taken(given, taken)
        self._end_epoch(given)
        while given.later and not given.epoch:
            epoch = min(given.later)
            asked = given.later.pop(epoch)
            if asked is None:
                given.ended = max(given.ended, epoch)
            else:
                self._asked(given, epoch, *asked)

    def _taken(self, given: Given, taken: int) -> None:
        if taken > given.sent:
            raise ValueError(f"it took {taken} values from channel {given.number}, where {given.sent} were sent")
        while given.taken < taken:
            given.taken += 1
            given.bytes -= given.untaken.popleft()[2]

    def _end_epoch(self, given: Given) -> None:
        """Nothing is wanted any more: what was sent and not taken goes back, and nobody here waits for more."""
        back = [(value, is_error) for value, is_error, _ in given.untaken]
        given.ended = max(given.ended, given.epoch)
        given.epoch = given.wanted = given.sent = given.taken = given.bytes = 0
        given.untaken.clear()
        if given.pumping:
            given.pumping = 0
            _stop(given.stop)
        if given.room is not None:
            given.room.succeed()
        if back:
            requeue.give_back(given.channel, back)

    def _pump(self, given: Given, epoch: int, stop: "roamlet.channel[None]") -> None:
        """Receive what is wanted over there and send it, until nothing more is."""
        try:
            if self._link.is_full:
                self._link.wait_for_room(
                    EVER
                )  # who reads no answers gets no more of them, not even that there is nothing
            while given.epoch == epoch and given.sent < given.wanted:
                if given.untaken and (given.bytes > BYTES_AHEAD or len(given.untaken) >= MOST_AHEAD):
                    given.room = Waiter()
                    given.room.wait(EVER)
                    given.room = None
                    continue
                value, is_error = _received(given.channel, stop)
                if value is NOTHING:
                    return
                if given.epoch != epoch:
                    requeue.give_back(given.channel, [(value, is_error)])
                    return
                self._send_value(given, epoch, value, is_error)
        except _Closed:
            if given.epoch == epoch:
                given.wanted = given.sent
                self._tell(given, wire.VERB.pack(b"Z", epoch))
        except RemoteError as error:  # the link has ended, and its end gives back what was not taken
            self._say(logging.DEBUG, f"{self._link.name} receives no more from a channel: {error}")
        finally:
            self._pumps -= 1
            if given.pumping == epoch:
                given.pumping = 0

    def _send_value(self, given: Given, epoch: int, value: Any, is_error: bool) -> None:
        luggage = Luggage(self)
        if is_error:
            body = b"E" + wire.U32.pack(epoch) + wire.failure(value)
        else:
            try:
                # Plain values alone, also where this process is a context itself: they are decoded by the thread that reads there.
                plain = codec.dumps(value, "the value", refer=luggage.refer, otherwise=False)
                body = b"V" + wire.U32.pack(epoch) + plain
            except codec.CannotTravel as error:  # its sender has gone on; who should have got it is told
                luggage.let_go()
                text = f"a value was sent to {self._link.name!r} that cannot travel: {error}"
                self._say(logging.WARNING, text)
                body = b"E" + wire.U32.pack(epoch) + wire.failure(TypeError(text))
        given.untaken.append((value, is_error, len(body)))
        given.bytes += len(body)
        given.sent += 1
        if luggage.numbers:
            luggage.announce()
        self._link.send(self._frame(given, body))

    # ---- they send

    def _begin(self, number: int, stop: Callable[[], object], size: int) -> None:
        self._refuse_more()
        if number in self._requests:
            raise ValueError("the same request of a channel twice at once")
        self._requests[number] = (stop, size)
        self._bytes += size

    def _refuse_more(self) -> None:
        if len(self._requests) + self._under_way >= wire.MOST_REQUESTS:
            raise ValueError("more requests of channels at once than a context makes")
        if self._bytes > wire.MOST_BYTES:
            raise ValueError("more bytes at once into channels than a context sends")

    def _sent(self, given: Given, number: int, body: bytes, is_error: bool) -> None:
        value = self._exception(codec.loads(body, start=5)) if is_error else codec.loads(body, self.resolve, start=5)
        channel = given.channel
        if isinstance(channel, WindowChannel):
            self._accept(given.tally, channel, value, len(body), is_error=is_error)
            return
        stop: roamlet.channel[None] = roamlet.channel()
        stop.preference = 0
        if is_error:
            worker: tasklet[Given, int, Exception] = tasklet(self._send_error)
            self._begin(number, lambda: _kill_if_blocked(worker), len(body))
            worker(given, number, value).run()
        else:
            self._begin(number, lambda: _stop(stop), len(body))
            tasklet(self._send)(
                given, channel, number, value, stop
            ).run()  # until it waits: what comes behind it finds it there

    def _send(
        self, given: Given, channel: "roamlet.channel[Any]", number: int, value: Any, stop: "roamlet.channel[None]"
    ) -> None:
        said = None
        try:
            if select((channel, value), stop)[0] is stop:
                said = wire.WITHDRAWN
        except ChannelClosed:
            said = wire.CLOSED
        self._answer(given, number, said)

    def _send_error(self, given: Given, number: int, error: Exception) -> None:
        said = None
        try:
            given.channel.send_exception(error)
        except ChannelClosed:
            said = wire.CLOSED
        except roamlet.TaskletExit:
            if thread_ends():
                raise
            said = wire.WITHDRAWN
        self._answer(given, number, said)

    def _accept(self, tally: Tally, channel: "WindowChannel[Any]", value: Any, size: int, *, is_error: bool) -> None:
        """Let a value into a channel with a window, or have it wait there for its turn, also when its context has ended.

        The other side is told of many at once: `tell`, when all was read that had come.
        """
        self._refuse_more()
        self._under_way += 1
        self._bytes += size

        def accepted() -> None:  # later, in any thread
            self._news.append((tally, size))
            if not self._told and not self._ended:
                self._told = True
                self._threads.links.post(self._take_news)

        try:
            if channel.accept(value, accepted, is_error=is_error, size=size):
                self._settled(tally, size)
        except ChannelClosed:
            tally.refused += 1
            self._settled(tally, size, accepted=0)

    def _settled(self, tally: Tally, size: int, accepted: int = 1) -> None:
        tally.accepted += accepted
        self._under_way -= 1
        self._bytes -= size
        self._due[tally] = None

    def _take_news(self) -> None:
        """Behind the values that have found room: on the thread for links. Blocks while the other side reads nothing."""
        self._told = False
        while self._news:
            self._settled(*self._news.popleft())
        if self._ended:
            return
        try:
            while self._link.is_full:
                self._link.wait_for_room(EVER)
        except RemoteError:
            return
        self.tell()

    def tell(self) -> None:
        """Say how many values were accepted and refused, if anything of that is new. Never blocks."""
        if not self._due:
            return
        if self._link.is_full:  # who reads no answers gets no more of them
            if not self._told:
                self._told = True
                self._threads.links.post(self._take_news)
            return
        due, self._due = self._due, {}
        for tally in due:
            for verb, count in ((b"P", tally.accepted), (b"F", tally.refused)):
                if count:
                    self._tell(tally, wire.VERB.pack(verb, count))
            tally.accepted = tally.refused = 0

    def _answer(self, given: Given, number: int, said: Any) -> None:
        try:
            self._link.send(self._frame(given, wire.VERB.pack(b"D", number) + codec.dumps(said)))
        except RemoteError as error:
            self._say(logging.DEBUG, f"{self._link.name} gets no answer: {error}")
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

    def _say(self, level: int, text: str) -> None:
        """Log it, but not in the thread that all links share: a handler is the user's, and may block."""
        self._link.output.say(level, text)

    # ---- frames to over there

    def _frame(self, given: Given | Tally, body: bytes) -> bytes:
        frame: bytes = protocol.frame(self._link.identifier, ROOT, given.number, protocol.CHANNEL, body)
        return frame

    def _tell(self, given: Given | Tally, body: bytes) -> None:
        """Send what is short, without waiting for room."""
        self._link.send_at_once(self._frame(given, body))

    def leave_to_parent(self) -> None:
        """In a forked child: nothing can be given any more; what was given is the parent's affair."""
        self._lock = threading.Lock()
        self._ended = True

    def end(self) -> None:
        """The link has ended: whatever waits here for the other side stops, and what it had not taken goes back."""
        with self._lock:
            self._ended = True
            all_given = list(self._given.values())
            for given in all_given:
                self._forget(given)
        for given in all_given:
            given.later.clear()
            self._end_epoch(given)
        for stop, _ in list(self._requests.values()):
            stop()


class _Closed(Exception):
    """The channel is closed and empty."""


def _stop(stop: "roamlet.channel[None]") -> None:
    """End the wait of the tasklet that listens to it; one that has met somebody meanwhile goes on and sees for itself."""
    select((stop, None), default=None)


def _kill_if_blocked(worker: "tasklet[...]") -> None:
    if worker.blocked:
        worker.kill()


def _received(channel: Any_channel, stop: "roamlet.channel[None]") -> tuple[Any, bool]:
    """The next value, and whether it is an exception that was sent; NOTHING when `stop` comes first. Raises _Closed."""
    try:
        if isinstance(channel, WindowChannel):
            came, value = channel.receive_unless(stop)
        else:
            met, value = select(channel, stop)
            came = met is channel
        return (value if came else NOTHING), False
    except ChannelClosed as error:
        if not channel.closed:
            return error.with_traceback(None), True
    except BaseException as error:
        if thread_ends():
            raise
        return error.with_traceback(None), True
    raise _Closed


codec.carry(roamlet.channel)
codec.carry(WindowChannel)
