"""Calls that run one after the other, in the order in which they were sent, whatever threads or tasklets run calls over here.

See roamlet.wire.protocol: CHAIN.

No thread waits for a turn: a call whose turn has not come stays in its chain, and is handed to the pool by the thread
that answered the one before it. The first that fails breaks its chain: what lies there is answered by ERROR "chain",
and so is what is still on its way. A chain in which nothing lies and nothing runs is forgotten, unless it is broken:
then the parent says when.
"""

import collections
import os
import struct
import threading

from roamlet.wire import codec, protocol
from roamlet.wire.calls import calls

VERB = struct.Struct(">cI")
JOIN, OVER = b"J", b"E"


class _Chain(object):
    """One chain: which calls wait in it, and the one that was handed to the pool."""

    def __init__(self, number):
        self.number = number
        self.waiting = collections.deque()  # keys of calls: (source, id)
        self.frames = {}  # of those of them that are here in full
        self.current = None
        self.told = False  # the current one is to end
        self.broken = False


class Chains(object):
    """All chains of a context. It comes before the pool: what the pool takes, cancels and answers passes through it."""

    def __init__(self, child):
        self._pool = pool = child.pool
        self._link = child._link
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._chains = {}  # number -> _Chain
        self._members = {}  # key of a call that was announced, and has not been answered -> its _Chain
        pool.keeps = self.keeps
        self._cancel, pool.cancel = pool.cancel, self.cancel
        self._answer, pool._answer = pool._answer, self.answer
        self._framed, pool._framed = pool._framed, self.framed
        self._text = calls._message(protocol.ERROR_CHAIN, "a call before it in its chain failed")
        child.kinds[protocol.CHAIN] = self.take_verb

    # ---- in the thread that reads

    def take_verb(self, destination, source, identifier, kind, body):
        verb, number = VERB.unpack(body)
        with self._lock:
            chain = self._chains.get(number)
            if verb == JOIN:
                if chain is None:
                    chain = self._chains[number] = _Chain(number)
                key = source, identifier
                self._members[key] = chain
                if not chain.broken:
                    chain.waiting.append(key)
                return
            if verb != OVER:
                raise protocol.ProtocolError("a chain is told %r" % verb)
            if chain is None:
                return
            del self._chains[number]
            self._break(chain)
            key = None if chain.told else chain.current
            chain.told = True
        if key is not None:
            self._cancel(key[1], key[0])

    def keeps(self, frame):
        """Whether the call belongs to a chain, and has been seen to."""
        key = frame[1], frame[2]
        with self._lock:
            chain = self._members.get(key)
            if chain is None or chain.current == key:
                return False
            if chain.broken and key not in chain.waiting:
                self._drop(key, frame)
            else:
                chain.frames[key] = frame
                self._go_on(chain)
        return True

    def cancel(self, identifier, source):
        """Drop a call that has not begun, and with it those after it; those before it run."""
        key = source, identifier
        with self._lock:
            chain = self._members.get(key)
            if chain is not None and chain.current != key:
                self._break(chain, key)
                self._members.pop(key, None)  # its message may never come
                return
            if chain is not None:
                self._break(chain)
                chain.told = True
        self._cancel(identifier, source)

    # ---- in whatever thread

    def answer(self, frame, kind, body):
        """Answer a call; the next one of its chain begins, or none does any more."""
        if os.getpid() != self._process:
            # Which ends it: a call forked it off, without the thread that holds the lock.
            self._answer(frame, kind, body)
        key = frame[1], frame[2]
        with self._lock:
            chain = self._members.get(key)
            if chain is None or chain.current != key:
                chain = None
            else:
                del self._members[key]
                if kind == protocol.RESULT:
                    chain.current = None
                    self._go_on(chain)  # first, so that answers of short calls go out together
        self._answer(frame, kind, body)
        if chain is not None and kind != protocol.RESULT:
            with self._lock:
                chain.current = None
                self._break(chain)

    def framed(self, frame, kind, body):
        """Note the end of a call that was dropped while it waited for a thread: nothing else answers it."""
        with self._lock:
            key = frame[1], frame[2]
            chain = self._members.get(key)
            if chain is not None and chain.current == key:
                del self._members[key]
                chain.current = None
        return self._framed(frame, kind, body)

    # ---- with the lock held

    def _go_on(self, chain):
        """Hand the next call to the pool, if it is its turn and all of it is here."""
        if chain.current is None and chain.waiting and chain.waiting[0] in chain.frames:
            chain.current = chain.waiting.popleft()
            chain.told = False
            self._pool.begin(chain.frames.pop(chain.current))
        elif chain.current is None and not chain.waiting and not chain.broken:
            self._chains.pop(chain.number, None)

    def _break(self, chain, first=None):
        """Nothing of it begins any more, from the call `first` on (None: what is waiting), nor what is still to come."""
        chain.broken = True
        dropped = []
        while chain.waiting and dropped[-1:] != [first]:
            dropped.append(chain.waiting.pop())
        for key in reversed(dropped):  # the call that has broken it is answered first
            frame = chain.frames.pop(key, None)
            if frame is not None:
                self._drop(key, frame)

    def _drop(self, key, frame):
        """Answer a call that does not begin, and have what it refers to let go; both are done by whoever looks next."""
        del self._members[key]
        pool = self._pool
        pool._answers.append(protocol.frame(key[0], self._link.context, key[1], protocol.ERROR, self._text))
        if pool.loads is not codec.loads:
            pool._pending.append(frame[:3] + (protocol.CANCEL, frame[4]))
        if pool.runner is not None:
            pool._turns.wake()


def install(child):
    Chains(child)
