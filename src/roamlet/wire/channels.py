"""Channels of the parent, used on a target: what a call got as a channel is a Channel of this file, bound to the real one.

There is no core of roamlet here: what blocks is the thread of the call. The other end is roamlet.remote.channels.served, which
imports the words below.

All goes by CHANNEL frames whose id is the channel's number, chosen by the parent. The first byte of a body is the verb,
integers are big-endian, values are roamlet.wire.codec's, and channels in them are references (its tag r).

up    A  u32 epoch, u64 wanted, u64 taken   values are wanted up to this total, and were taken up to this one
      B  u32 epoch, u64 taken               the epoch is over: what was sent in it and not taken goes back into the channel
      S  u32 request, value                 send the value; answered by D, in the channel of a stream by P or F
      X  u32 request, failure               the same for an exception: tuple module, type, args or None, text
      W  u32 request                        withdraw a send that has not happened; answered by the D of the send
      Q  u32 request                        answered by D with tuple balance, closing, closed, buffer, buffered
      C, O                                  close, open
      R  u32 count                          so many references to it are gone over here; after B when an epoch was open
down  N  u32 window                         of the channel of a stream: precedes its first reference
      V  u32 epoch, value                   one value of those that were wanted
      E  u32 epoch, failure                 an exception instead, as with X
      Z  u32 epoch                          the channel is closed: what is still wanted will not come
      P  u32 count                          so many of the values that were sent into the channel of a stream were taken
      F  u32 count                          so many were not, because it is closed
      D  u32 request, outcome               None: done. str: why not (CLOSED, WITHDRAWN). tuple: what Q asked for
      K                                     the id is that of a CALL: end it at its next use of a channel, or of `check`

One file of more than 600 lines, because Channel and Channels use each other's state under one lock, and each part that travels
costs an entry in a bundle.

An epoch begins with the first A that names it. Totals count within it and only grow, so that frames of two threads may overtake
each other.
"""

import collections
import itertools
import struct
import sys
import threading
from _weakref import ref  # weakref itself has not been imported everywhere when this part comes

from roamlet.wire import codec, protocol
from roamlet.wire.calls import calls
from roamlet.wire.link.link import allocate_lock

# No `try: import`: what is not there is asked of the parent, and the thread that imports this is the one that reads.
_builtins = sys.modules["__builtin__" if codec.PY2 else "builtins"]

U32 = struct.Struct(">I")
ASK = struct.Struct(">cIQQ")
BACK = struct.Struct(">cIQ")
VERB = struct.Struct(">cI")

CLOSED = "closed"
WITHDRAWN = "withdrawn"

_VERY_LONG = 1e8  # seconds

FIRST_WINDOW = 2
LAST_WINDOW = 1024  # values that a loop over a channel may have under way
MOST_REQUESTS = 1024  # sends of one context that may be unanswered
MOST_BYTES = 1 << 23  # of them; values of streams that were not taken have limits of their own, which are as large
MOST_VALUE = (1 << 22) - 64  # bytes of one value that is sent up
MOST_AHEAD = 64  # values of a sequence that may be under way into a buffer
_LARGE = 1 << 15  # bytes that are sent as they are rather than copied into a message


class Waiter(object):
    """One thread waits, another one settles it, before or after. Settled once; by who holds the lock of `Channels`."""

    def __init__(self):
        self._lock = allocate_lock()
        self._lock.acquire()
        self.outcome = None

    def wait(self):
        self._lock.acquire()
        return self.outcome

    def settle(self, *outcome):
        if self.outcome is not None:
            return False
        self.outcome = outcome
        self._lock.release()
        return True


class TaskletWaiter(object):
    """The same where calls are tasklets: blocks the tasklet alone, which can be killed, or run out of time, meanwhile."""

    def __init__(self, core, lock):
        self._core = core
        self._lock = lock
        self._waiter = core.Waiter()
        self.outcome = None

    def wait(self):
        try:
            self._waiter.wait(_VERY_LONG)  # with a limit it is no deadlock
        except BaseException:
            with self._lock:
                killed = self.settle("killed", sys.exc_info()[1])
            if not killed:  # it has what it waited for: take that, and be ended at the next switch
                self._core.getcurrent().kill(pending=True)
        return self.outcome

    def settle(self, *outcome):
        if self.outcome is not None:
            return False
        self.outcome = list(outcome)
        self._waiter.succeed()
        return True


class Known(ref):
    """A weak reference to a Channel, with what the parent is to be told when that is gone.

    A callback and no `__del__`: while that runs, a thread that gets a value, or one that looks at frames, may take hold of the
    Channel again, whose references would be given back all the same, on 2.7 even twice.
    """

    __slots__ = ("number", "references", "epoch", "taken")

    def __new__(cls, channel, callback, number):
        return ref.__new__(cls, channel, callback)

    def __init__(self, channel, callback, number):
        ref.__init__(self, channel, callback)
        self.number = number
        self.references = 0  # that have come
        self.epoch = None
        self.taken = 0


class Channel(object):
    """A channel that lives in the parent. Every operation blocks the thread that makes it, never the others.

    receive() is a request: when this context ends first, or the call is killed, it is withdrawn, and what was on its way goes back
    into the channel. send() returns when the value was received, or is in the channel's buffer; in the channel of a stream when it
    is on its way, at most `window` values of this context being so. A loop over the channel has values sent ahead, the more the
    longer they take; what it has not taken when it ends goes back.
    """

    def __init__(self, home, number, window):
        self.window = window
        self._home = home
        self._number = number
        self._known = Known(self, home.forget, number)
        self._asked = self._arrived = 0
        self._told = None  # the last totals that were sent
        self._ahead = 0  # values that loops want beyond those that threads wait for
        self._values = collections.deque()  # outcomes that came ahead
        self._waiting = collections.deque()  # Waiters
        self._refused = 0  # values sent into a stream, without waiting, whose channel was closed

    # ---- receiving

    def receive(self):
        """Take the next value. Raises what was sent by send_exception, ChannelClosed when the channel is closed."""
        outcome = self._outcome(None)
        if outcome[0] == "closed":
            raise self._home.ChannelClosed(
                "receive on a closed channel: the parent has closed it, and nothing waits in it"
            )
        return self._value(outcome)

    def __iter__(self):
        return Values(self)

    def __next__(self):
        outcome = self._outcome(None)
        if outcome[0] == "closed":
            raise StopIteration
        return self._value(outcome)

    next = __next__

    def _value(self, outcome):
        if outcome[0] == "value":
            return outcome[1]
        if outcome[0] == "error":
            raise self._home.exception(*outcome[1])
        raise self._home.killed(outcome)

    def _outcome(self, loop):
        """Return what comes next: a tuple of "value", "error", "closed" or "killed", and what belongs to it."""
        home = self._home
        waiter = None
        with home.lock:
            home.refuse_if_killed()
            if self._values:
                outcome = self._values.popleft()
                self._known.taken += 1
            else:
                if loop is not None:
                    loop.starves()
                waiter = home.waiter()
                self._waiting.append(waiter)
                home.waits_for(waiter)
            frame = self._ask()
        home.send(self, frame)  # before the value is used: what was taken does not go back when this process dies
        if waiter is None:
            return outcome
        outcome = waiter.wait()
        with home.lock:
            home.waits_for(None)
            if outcome[0] in ("value", "error"):
                self._known.taken += 1
                frame = self._ask()
            else:
                frame = self._leave(waiter)
        home.send(self, frame)
        return outcome

    def _given(self):
        """How many values were given to threads that have not woken up yet."""
        return self._arrived - self._known.taken - len(self._values)

    def _ask(self):
        """Return the frame that says what is wanted and was taken, None when nothing of that is new. With the lock held."""
        known = self._known
        if known.epoch is None:
            known.epoch = next(self._home.numbers) & 0xFFFFFFFF
            self._asked = self._arrived = known.taken = 0
        self._asked = max(self._asked, known.taken + self._given() + len(self._waiting) + self._ahead)
        if self._told == (known.epoch, self._asked, known.taken):
            return None
        self._told = (known.epoch, self._asked, known.taken)
        return ASK.pack(b"A", *self._told)

    def _leave(self, waiter=None):
        """Return the frame that gives back what is not used any more, or None. With the lock held."""
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        known = self._known
        if known.epoch is None or self._waiting or self._ahead or self._given() or self._asked == known.taken:
            return None
        frame = BACK.pack(b"B", known.epoch, known.taken)
        known.epoch = None
        self._values.clear()
        return frame

    def arrived(self, epoch, outcome):
        """Take what was sent: for the thread that has waited longest. With the lock held; returns a frame to send, or None."""
        if epoch != self._known.epoch:
            return None
        self._arrived += 1
        while self._waiting:
            if self._waiting.popleft().settle(*outcome):
                return None
        self._values.append(outcome)
        return self._leave()

    def was_closed(self, epoch):
        """Nothing more comes for what was asked. With the lock held."""
        if epoch == self._known.epoch:
            self._asked = self._arrived
            self._told = None
            while self._waiting:
                self._waiting.popleft().settle("closed")

    # ---- sending

    def send(self, value):
        """Send a value. Raises ChannelClosed when the channel is closed, CannotTravel when the value is not plain."""
        self._accepted(*self._send(b"S", *self._packed(value)))

    def send_exception(self, exception, *args):
        """Send an exception for the receiver to raise; one that is no builtin arrives as RemoteError."""
        if isinstance(exception, type) and issubclass(exception, BaseException):
            exception = exception(*args)
        elif not isinstance(exception, BaseException) or args:
            raise TypeError(
                "send_exception() takes an exception class and its arguments, or an exception instance alone"
            )
        self._accepted(*self._send(b"X", failure(exception)))

    def send_sequence(self, values):
        """Send each of the values; return how many there were.

        Where the channel has a buffer as many are under way at a time as it holds, MOST_AHEAD at most, so that not each of them
        takes a round trip. Where one cannot be sent those before it have been. What is not accepted when the call is killed is
        withdrawn.
        """
        count, most = 0, 1
        ahead = collections.deque()  # what _send returned
        finish, refused = False, False
        try:
            for value in values:
                if count == 1 and not self.window:
                    most = max(1, min(self.buffer, MOST_AHEAD))
                packed = self._packed(value)
                while len(ahead) >= most:
                    refused = True
                    self._accepted(*ahead.popleft())
                    refused = False
                ahead.append(self._send(b"S", *packed))
                count += 1
            finish = True
        except Exception:
            finish = not refused  # else those after it are refused, too
            raise
        finally:
            try:
                while finish and ahead:
                    self._accepted(*ahead.popleft())
            finally:
                while ahead:
                    self._home.withdraw(self, ahead.pop()[0])  # the last first: what was accepted has no gaps
        return count

    def _packed(self, value):
        """What is sent of a value: a body, and a tail that is not copied."""
        if type(value) is bytes and len(value) > _LARGE and not codec.PY2:
            return codec.head_of(value), value
        return self._home.dumps(value, "value"), b""

    def _send(self, verb, body, tail=b""):
        """Send it, which may block; return the number of the request, and what its answer is waited for with: None in a stream."""
        home = self._home
        size = len(body) + len(tail)
        if size > MOST_VALUE:
            raise codec.CannotTravel(
                "value takes %d bytes, and a channel of the parent's takes %d at once; send it in parts, or return it"
                % (size, MOST_VALUE)
            )
        home.reserve(self, size)
        waiter = None if self.window else home.waiter()
        with home.lock:
            refused, self._refused = self._refused, 0
            number = home.begin(self, waiter, size) if not refused else None
        if refused:
            raise home.ChannelClosed(
                "the parent closed the channel before it had room for %d of the values sent" % refused
            )
        home.send(self, VERB.pack(verb, number) + body, tail)
        return number, waiter

    def _accepted(self, number, waiter):
        """Wait until what was sent is accepted. Raises ChannelClosed where it is not."""
        if waiter is not None and self._home.answer(self, number, waiter) == CLOSED:
            raise self._home.ChannelClosed("send on a closed channel: the parent has closed it")

    # ---- the rest

    def close(self):
        """Close it in the parent: nothing new waits there; loops over it end when they have taken what waits."""
        self._home.send(self, b"C")

    def open(self):
        """Undo close."""
        self._home.send(self, b"O")

    @property
    def balance(self):
        """How many wait at it in the parent: senders count up, receivers down. Costs a round trip, as do the next ones."""
        return self._state()[0]

    @property
    def closing(self):
        """Whether close() was called."""
        return self._state()[1]

    @property
    def closed(self):
        """Whether it is closing and nothing waits in it."""
        return self._state()[2]

    @property
    def buffer(self):
        """How many values may wait in it without a receiver."""
        return self._state()[3]

    @property
    def buffered(self):
        """How many values do."""
        return self._state()[4]

    def _state(self):
        home = self._home
        waiter = home.waiter()
        home.reserve(self, 0)
        with home.lock:
            number = home.begin(self, waiter, 0)
        home.send(self, VERB.pack(b"Q", number))
        return home.answer(self, number, waiter)

    def __repr__(self):
        return "<channel %d of the parent's>" % self._number

    def __reduce__(self):
        raise TypeError(
            "a channel of the parent's cannot be pickled: it travels in arguments, results and other channels"
        )


class Values(object):
    """A loop over a channel: has values sent ahead of it, so that they do not cost a round trip each."""

    def __init__(self, channel):
        self._channel = channel
        with channel._home.lock:
            self._window = FIRST_WINDOW
            channel._ahead += FIRST_WINDOW

    def starves(self):
        """Nothing is there for it: let more come ahead if all that was asked for has come. With the lock held."""
        channel = self._channel
        if channel._asked and channel._asked == channel._arrived and self._window < LAST_WINDOW:
            channel._ahead += self._window
            self._window *= 2

    def __iter__(self):
        return self

    def __next__(self):
        if self._window < 0:
            with self._channel._home.lock:
                self._window = -self._window
                self._channel._ahead += self._window
        if self._window:
            outcome = self._channel._outcome(self)
            if outcome[0] != "closed":
                return self._channel._value(outcome)
            self.close()
        raise StopIteration

    next = __next__

    def pause(self):
        """Until the next value is asked for, what it has not taken goes back into the channel, before this returns."""
        channel, window = self._channel, self._window
        if window > 0:
            with channel._home.lock:
                self._window = -window
                channel._ahead -= window
                frame = channel._leave()
            channel._home.send(channel, frame)

    def close(self):
        """End the loop: what it has not taken goes back into the channel. Done by itself when the loop is left."""
        window, self._window = self._window, 0
        if window > 0:
            self._channel._home.left.append((self._channel, window))
            self._channel._home.tidy()

    __del__ = close


class Channels(object):
    """All channels of a context, what its threads wait for, and the frames between."""

    def __init__(self, child):
        self.lock = threading.Lock()
        self.numbers = itertools.count(1)
        self._gone = collections.deque()  # Known of channels that have no reference any more
        self.left = collections.deque()  # (channel, window) of loops that have ended
        self._link = child._link
        self._pool = child.pool
        self._here = child.pool.here
        self._known = {}  # number -> Known
        self._windows = {}
        self._requests = {}  # number -> (channel, Waiter, size)
        self._ahead = {}  # number of a stream's channel -> sizes of the values on their way into it
        self._under_way = 0  # how many these are
        self._stream_bytes = 0  # bytes of them
        self._bytes = 0  # of the requests
        self._room = []  # Waiters of those who wait for some request to be answered
        self._waiters = {}  # number of a call -> the Waiter that it waits for
        self._killed = collections.OrderedDict()  # numbers of calls

    @property
    def ChannelClosed(self):
        return sys.modules["roamlet"].ChannelClosed  # of the stand-in, or of the real one, which comes while this runs

    def killed(self, outcome):
        """What is raised in a call that is killed. It is taken out: frames that hold `outcome` are in its traceback."""
        return outcome.pop() if len(outcome) > 1 else sys.modules["roamlet"].TaskletExit("the call was killed")

    def waiter(self):
        """Something to wait with, for this thread, or for this tasklet where calls are tasklets."""
        core = sys.modules.get("roamlet.core") if self._pool.runner is not None else None
        return Waiter() if core is None else TaskletWaiter(core, self.lock)

    # ---- what travels

    def refer(self, value):
        """The number of a Channel, for codec.dumps."""
        return value._number if value._home is self else None

    def resolve(self, number):
        """The Channel of a number that came in a value, for codec.loads."""
        with self.lock:
            known = self._known.get(number)
            channel = known() if known is not None else None
            if channel is None:
                channel = Channel(self, number, self._windows.get(number, 0))
                self._known[number] = channel._known
            channel._known.references += 1
        return channel

    def dumps(self, value, root):
        # Only results may hold more than plain values: what a channel brings is decoded where all links are read.
        return codec.dumps(value, root, refer=self.refer, otherwise=None if root == "result" else False)

    def loads(self, data):
        return codec.loads(data, self.resolve)

    def exception(self, module, name, args, text):
        """The exception that somebody has sent: a builtin one as it is, others as RuntimeError with its name."""
        kind = getattr(_builtins, name, None) if module == "builtins" else None
        if isinstance(kind, type) and issubclass(kind, Exception) and type(args) is tuple:
            try:
                return kind(*args)
            except Exception:  # its arguments are not what its constructor takes
                text = text or repr(args)
        return RuntimeError("%s.%s: %s" % (module, name, text))

    # ---- calls that are killed

    def waits_for(self, waiter):
        """This thread's call waits for it, or for nothing. With the lock held."""
        number = getattr(self._here, "number", None)
        if waiter is None:
            self._waiters.pop(number, None)
        elif number is not None:
            self._waiters[number] = waiter

    def refuse_if_killed(self):
        """Raise in a call that was killed; once, so that it can still say what it has to in its `finally` blocks."""
        if self._killed and self._killed.pop(getattr(self._here, "number", None), False):
            raise self.killed(())

    def _kill(self, number):
        if self._pool.runner is not None:  # it kills tasklets itself, for the CANCEL that came before
            return
        with self.lock:
            waiter = self._waiters.get(number)
            if waiter is None or not waiter.settle("killed"):
                self._killed[number] = True
                if len(self._killed) > MOST_REQUESTS:  # those of calls that had ended already
                    self._killed.popitem(False)

    # ---- frames

    def send(self, channel, frame, tail=b""):
        if frame is not None:
            self._link.send(protocol.CHANNEL, channel._number, frame, 0, tail)
        if self._gone or self.left:
            self.tidy()

    def reserve(self, channel, size):
        """Wait until one more request of `size` bytes may be under way, and one more value of this channel."""
        while True:
            with self.lock:
                self.refuse_if_killed()
                if self._has_room(channel, size):
                    return
                waiter = self.waiter()
                self._room.append(waiter)
                self.waits_for(waiter)
            outcome = waiter.wait()
            with self.lock:
                self.waits_for(None)
            if outcome[0] == "killed":
                raise self.killed(outcome)

    def _has_room(self, channel, size):
        """Whether one more request, or value of a stream, may be under way. With the lock held.

        The reader of a stream may wait for a request, or for another stream, and takes no value meanwhile: so requests do not count
        what streams have under way, and a stream that has nothing under way may send in any case.
        """
        if not channel.window:
            count = len(self._requests)
            return not count or (count < MOST_REQUESTS - 64 and self._bytes + size <= MOST_BYTES)
        ahead = len(self._ahead.get(channel._number, ()))
        if ahead:
            return (
                ahead < channel.window
                and self._under_way < MOST_REQUESTS - 64
                and self._stream_bytes + size <= MOST_BYTES
            )
        return not self._under_way or (
            self._under_way < MOST_REQUESTS - 16 and self._stream_bytes + size <= 2 * MOST_BYTES
        )

    def begin(self, channel, waiter, size):
        """Return the number of a new request; 0 for a value of a stream, which are counted. With the lock held."""
        if waiter is None:
            self._ahead.setdefault(channel._number, collections.deque()).append(size)
            self._under_way += 1
            self._stream_bytes += size
            return 0
        self._bytes += size
        number = next(self.numbers) & 0xFFFFFFFF
        self._requests[number] = (channel, waiter, size)
        return number

    def answer(self, channel, number, waiter):
        """Wait for the answer to a request, and return it. A call that is killed before or meanwhile withdraws it first."""
        with self.lock:
            killed = self._killed and self._killed.pop(getattr(self._here, "number", None), False)
            if not killed:
                self.waits_for(waiter)
        outcome = ["killed"] if killed else waiter.wait()
        with self.lock:
            self.waits_for(None)
        if outcome[0] == "killed":
            self.withdraw(channel, number)
            raise self.killed(outcome)
        return outcome[1]

    def withdraw(self, channel, number):
        """Withdraw a request that has not been answered, and wait for the answer that says whether that came too late."""
        with self.lock:
            waiter = self.waiter()
            request = self._requests.get(number)
            if request is not None:
                self._requests[number] = (channel, waiter, request[2])
        if request is not None:
            self.send(channel, VERB.pack(b"W", number))
            waiter.wait()

    def take(self, destination, source, number, kind, body):
        """Handle a CHANNEL frame. Runs in the thread that reads."""
        verb = body[:1]
        if verb == b"K":
            self._kill(number)
            return
        argument = U32.unpack_from(body, 1)[0]
        if verb == b"N":
            self._windows[number] = argument
        elif verb == b"D":
            self._answered(argument, codec.loads(body, start=5))
        elif verb in (b"P", b"F"):
            self._settled(number, argument, verb == b"F")
        else:
            outcome = ("closed",)
            if verb != b"Z":
                if verb == b"V":
                    outcome = ("value", codec.loads(body, self.resolve, 5))
                else:
                    outcome = ("error", codec.loads(body, start=5))
            known = self._known.get(number)
            channel = known() if known is not None else None
            if channel is not None:
                with self.lock:
                    frame = channel.was_closed(argument) if verb == b"Z" else channel.arrived(argument, outcome)
                self.send(channel, frame)

    def _answered(self, number, said):
        with self.lock:
            waiter, size = self._requests.pop(number)[1:]
            self._bytes -= size
            waiter.settle("answer", said)
            self._make_room()

    def _settled(self, number, count, refused):
        channel = None
        with self.lock:
            sizes = self._ahead[number]
            for _ in range(count):
                self._stream_bytes -= sizes.popleft()
            self._under_way -= count
            if not sizes:
                del self._ahead[number]
            if refused and number in self._known:
                channel = self._known[number]()
                if channel is not None:
                    channel._refused += count
            self._make_room()

    def _make_room(self):
        room, self._room = self._room, []
        for waiter in room:
            waiter.settle("room")

    def forget(self, known):
        """A Channel has no reference any more. Runs in the middle of anything."""
        self._gone.append(known)
        self.tidy()

    def tidy(self):
        """Tell the parent what is not needed any more. Waits for no lock: a finalizer may run this in the middle of anything."""
        while (self._gone or self.left) and not self._link.busy() and self.lock.acquire(False):
            try:
                channel, number, frame = self._last_words()
            finally:
                self.lock.release()
            if frame is not None:
                try:
                    self._link.send(protocol.CHANNEL, number, frame)
                except EnvironmentError:
                    return

    def _last_words(self):
        if self.left:
            channel, window = self.left.popleft()
            channel._ahead -= window
            # With the channel, so that it is not gone before this was said.
            return channel, channel._number, channel._leave()
        if not self._gone:
            return None, 0, None
        known = self._gone[0]
        number, epoch = known.number, known.epoch
        if epoch is not None:
            # One that is not ended here would never end: another Channel of this number may be there already, so that references
            # are left, and what that one asks for waits for the end of this one's.
            known.epoch = None
            return None, number, BACK.pack(b"B", epoch, known.taken)
        self._gone.popleft()
        if self._known.get(number) is known:
            del self._known[number]
        return None, number, VERB.pack(b"R", known.references)


def failure(exception):
    """Return an exception as the bytes of the tuple module, type, args or None, text."""
    kind = type(exception)
    module = str(getattr(kind, "__module__", None) or "builtins")
    described = ("builtins" if module == "exceptions" else module, str(kind.__name__))
    try:
        text = calls._text_of(exception)
    except Exception:
        text = ""
    try:
        return codec.dumps(described + (tuple(exception.args), text), otherwise=False)
    except codec.CannotTravel:
        return codec.dumps(described + (None, text))


def check():
    """Raise TaskletExit in a call that was killed: for functions that compute for long and use no channel."""
    _channels.refuse_if_killed()


def stream(channel, module, name, args, kwargs):
    """Call a function that returns an iterable, and send its values into `channel`."""
    function = calls._module(str(module))
    for part in str(name).split("."):
        function = getattr(function, part)
    values = iter(function(*args, **(kwargs or {})))
    try:
        for value in values:
            channel.send(value)
            value = None
    finally:
        close = getattr(values, "close", None)
        if close is not None:
            close()


_channels = None


def install(child):
    global _channels  # noqa: PLW0603 - the process is the context
    _channels = Channels(child)
    codec.carry(Channel)
    child.kinds[protocol.CHANNEL] = _channels.take
    child.pool.loads = _channels.loads
    child.pool.dumps = _channels.dumps
    child.pool.before_answers.append(_channels.tidy)
