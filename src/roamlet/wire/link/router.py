"""The part of the payload that makes a context an intermediary: it starts other contexts and passes their frames on.

The parent uses the codes of HOLD, and in_english. The kinds that are handled here: roamlet.wire.protocol.

Three threads touch a frame that is passed on, and none of them ever waits for a child: the one that reads the link sorts it
by destination and writes what the child's pipe takes at once; `roamlet-down` writes the rest; `roamlet-up` reads what the children
send. How much waits here for a child that does not read is limited by the parent, which counts what CREDIT reports.
"""

import os
import sys

from roamlet.wire import codec, protocol
from roamlet.wire.link.bundle_cache import BundleCache, body_of
from roamlet.wire.link.sorting import Sorter
from roamlet.wire.link.streams import KILL, TERMINATE, Loop, Stream
from roamlet.wire.protocol import KIND_CUT

READ_ON, HOLD_ON, CLOSE = range(3)  # what HOLD says; the rest are TERMINATE and KILL
UNCOUNTED = (protocol.KEEP, protocol.INSERT, protocol.HOLD)  # what the parent sends without asking for credit
__all__ = ["CLOSE", "HOLD_ON", "KILL", "READ_ON", "TERMINATE", "in_english", "install"]


def install(child):
    """See roamlet.wire.protocol: PART."""
    Router(child)


class Router(object):
    """What an intermediary knows: which stream leads to which context, and the bundles that it keeps for them."""

    def __init__(self, child):
        self.link = child._link
        self._child = child
        self.routes = {}  # number of a context -> the Stream that leads to it
        self._streams = {}  # number of a context that was started here -> its Stream
        self._bundles = BundleCache()
        self._left = False
        self.touched = set()  # streams that were given something by what is being read
        self.up = Loop("roamlet-up", self._failed)
        self.down = Loop("roamlet-down", self._failed)
        kinds = {
            protocol.SPAWN: self._spawn,
            protocol.HOLD: self._hold,
            protocol.KEEP: self._keep,
            protocol.INSERT: self._insert,
        }
        child.kinds.update(kinds)
        child.life.on_loss.append(self._lose)
        at_fork = getattr(os, "register_at_fork", None)  # 3.7 and later
        if at_fork is not None:
            at_fork(after_in_child=self._leave)
        self._sorter = Sorter(self.link._reader, self._look, kinds, child.handle)
        self.link._reader = self

    # ---- down: in the thread that reads the link

    def feed(self, data):
        """Stands for the link's FrameReader."""
        frames = self._sorter.feed(data)
        while self.touched:
            self.touched.pop().push()
        return frames

    def _look(self, destination, source, identifier, length, kind):
        last = not kind & KIND_CUT
        kind &= ~KIND_CUT
        if destination == self.link.context:
            return self._bundles.keep(identifier, length, last) if kind == protocol.KEEP else None
        stream = self.routes.get(destination)
        if stream is None:
            return _drop  # it has ended, and the parent does not know it yet
        if kind == protocol.SPAWN:
            self.routes[identifier] = stream
        return stream.take if destination == stream.number and kind not in UNCOUNTED else stream.pass_on

    def _spawn(self, destination, source, identifier, kind, body):
        said = codec.loads(body)
        first = _payload() + protocol.frame(identifier, 0, 0, protocol.CONFIG, said["config"])
        stream = Stream(self, identifier, said["token"].encode("ascii"), first)
        self._streams[identifier] = self.routes[identifier] = stream
        # Not text: what that becomes depends on the locale here, and the parent's names are UTF-8.
        argv = [word if isinstance(word, bytes) else word.encode("utf-8") for word in said["argv"]]
        stream.start(argv, in_english(os.environ) if said["translated"] else None)

    def _hold(self, destination, source, identifier, kind, body):
        stream = self._streams.get(identifier)
        if stream is None:
            return
        what = ord(body)
        if what <= HOLD_ON:
            self.up.post(stream.hold, what == HOLD_ON)
        elif what == CLOSE:
            stream.close_down()
        else:
            stream.tell(what)

    def _keep(self, destination, source, identifier, kind, body):
        """One that was read together with what made this an intermediary; see `_look` for all others."""
        self._bundles.keep(identifier, len(body), True)(protocol.frame(destination, source, identifier, kind, body))

    def _insert(self, destination, source, identifier, kind, body):
        said = codec.loads(body)
        stream = self.routes.get(said[0])
        if said[0] == self.link.context:
            self._bundles.insert(said, None, self._take_in)
        elif stream is not None:
            if identifier:  # counted by what was sent of it, so that it must not be cut on its way
                self._bundles.insert(said, None, lambda made: stream.insert(made, identifier))
            else:
                self._bundles.insert(said, stream.pass_on, stream.insert)

    def _take_in(self, made):
        self._child.handle((made[0], 0, made[1], made[2], body_of(*made[3:])))

    # ---- up: in the thread roamlet-up

    def check(self, stream, destination, source, identifier, kind):
        """Raise ProtocolError for a frame that must not come by this stream."""
        if destination != 0 or self.routes.get(source) is not stream:
            raise protocol.ProtocolError(
                "a frame from %d to %d came up from contexts behind %d" % (source, destination, stream.number)
            )
        if kind == protocol.GONE and identifier != stream.number and self.routes.get(identifier) is stream:
            del self.routes[identifier]

    def remove(self, stream):
        """Forget the way to whatever lies behind a stream."""
        for number in [number for number, way in list(self.routes.items()) if way is stream]:
            self.routes.pop(number, None)

    def gone(self, stream, code, number, wrong):
        """Tell the parent that a process has ended, behind all that it has sent."""
        self.remove(stream)
        self._streams.pop(stream.number, None)
        self.link.send(protocol.GONE, stream.number, codec.dumps({"code": code, "errno": number, "wrong": wrong}))

    # ---- the end

    def _failed(self):
        child = self._child
        text = "routing failed; this is a mistake in roamlet: %r\n" % (sys.exc_info()[1],)
        os.write(child._errors, text.encode("utf-8", "replace"))
        child.life.end(False)

    def _lose(self, reason):
        for stream in list(self._streams.values()):
            stream.close_down()

    def _leave(self):
        """In a process that a call forked off: hold no pipe open whose end somebody waits for."""
        if self._left:
            return  # that process has forked in turn, and these numbers are others' by now
        self._left = True
        fds = self.up.ends + self.down.ends
        for stream in list(self._streams.values()):
            fds += (stream.stdin, stream.stdout, stream.stderr)
        for fd in fds:
            if fd is not None:
                os.close(fd)


def _payload():
    """What this context read first. One that was forked off the parent makes it, as the parent does."""
    payload = getattr(sys.modules["roamlet.wire.life.target"], "payload", None)
    if payload is None:
        # Imported here because no other target has it.
        from roamlet.wire import build

        payload = build.payload()
    return payload


def in_english(variables):
    """Return the environment for a command whose messages the parent reads: of all that has a language, only they change."""
    variables = dict(variables)
    everything = variables.pop("LC_ALL", "")
    if everything:
        for name in [name for name in variables if name[:3] == "LC_"]:
            del variables[name]
        variables["LANG"] = everything
    variables.pop("LANGUAGE", None)
    variables["LC_MESSAGES"] = "C"
    return variables


def _drop(data):
    pass
