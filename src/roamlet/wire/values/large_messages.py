"""Messages of any size, cut into frames and put together again; wire/life/target.py and remote/values/registry.py decide which.

A message is cut when it has a buffer beyond codec.BIG or is larger than protocol.MAX_BODY. Both sides use this file; a target
gets it when such a message goes down, or asks for it when one is to go up. All frames of a message have the same destination,
source and id, and KIND_MORE in their kind; frames of other messages may come in between, and whoever passes frames on need not
know of any of this.

    the first          >QI size of the message, number of buffers, then >BQ for each: how it arrives (BYTES, BYTEARRAY), its size
    those that follow  the message (roamlet.wire.codec), then the buffers, up to PIECE bytes in each frame
    an empty one       the sender gives up; what came is dropped

Nothing is put into place before it has come, and nothing is copied twice: a buffer grows as its pieces come, which the allocator
does by moving pages, and is handed over as it is. (2.7 copies it once more.)
"""

import io
import struct

from roamlet.wire import protocol
from roamlet.wire.values.values import MOST_ASIDE, Message

PIECE = 1 << 16  # bytes; what a pipe holds, and small enough to stay in the cache on its way there
BYTES = 0
BYTEARRAY = 1
NO_LIMIT = 1 << 62
_LAYOUT = struct.Struct(">QI")
_BUFFER = struct.Struct(">BQ")


class TooLarge(protocol.WireError, ValueError):
    """A message is announced that is larger than its receiver takes. `size` in bytes."""

    def __init__(self, size):
        protocol.WireError.__init__(self, "a message of %d bytes" % size)
        self.size = size


class LargeMessage(object):
    """A message on its way out: its bytes, and the buffers that come behind."""

    def __init__(self, message, buffers=()):
        """`buffers`: bytes, bytearrays, or what has a `view` (kinds.Buffer). They must not be resized meanwhile."""
        self.message = message
        self.buffers = list(buffers)
        self.size = len(message) + sum(map(len, self.buffers))
        self.withdrawn = False
        self.shared = False  # other contexts may get the same: intermediaries keep its pieces

    def frames(self, destination, source, identifier, kind):
        """Yield whole frames, as bytes. Ends early, by an empty one, when `withdrawn` is set meanwhile."""
        kind |= protocol.KIND_MORE
        layout = _LAYOUT.pack(len(self.message), len(self.buffers))
        for buffer in self.buffers:
            layout += _BUFFER.pack(BYTES if isinstance(buffer, bytes) else BYTEARRAY, len(buffer))
        yield protocol.frame(destination, source, identifier, kind, layout)
        for buffer in [self.message] + self.buffers:
            view = getattr(buffer, "view", None) or memoryview(buffer)
            for start in range(0, len(buffer), PIECE):
                if self.withdrawn:
                    yield protocol.frame(destination, source, identifier, kind, b"")
                    return
                yield protocol.frame(destination, source, identifier, kind, view[start : start + PIECE].tobytes())


class Arrival(object):
    """A message on its way in."""

    def __init__(self, layout, limit=NO_LIMIT):
        """`layout`: the body of the first frame. Raises TooLarge, or ProtocolError when it is no such body."""
        try:
            size, count = _LAYOUT.unpack_from(layout)
            if count > MOST_ASIDE or len(layout) != _LAYOUT.size + count * _BUFFER.size or not size:
                raise ValueError("%d buffers in %d bytes" % (count, len(layout)))
            self._waiting = [(BYTES, size)]
            places = range(_LAYOUT.size, len(layout), _BUFFER.size)
            self._waiting += [_BUFFER.unpack_from(layout, place) for place in places]
        except (struct.error, ValueError) as error:
            raise protocol.ProtocolError("a message in pieces begins with none of it: %s" % error)
        if not all(kind in (BYTES, BYTEARRAY) and size for kind, size in self._waiting):
            raise protocol.ProtocolError("a message in pieces has a buffer of no kind or of no size")
        self.size = sum(size for _, size in self._waiting)
        if self.size > limit:
            raise TooLarge(self.size)
        self._waiting.reverse()
        self._done = []
        self._next()

    def _next(self):
        self._kind, self._left = self._waiting.pop()
        self._sink = io.BytesIO() if self._kind == BYTES else bytearray()
        self._add = self._sink.write if self._kind == BYTES else self._sink.extend

    def add(self, piece):
        """Take the body of the next frame; return the Message when it is complete, else None.

        Raises ProtocolError when it is more than was announced.
        """
        if len(piece) > self._left:
            raise protocol.ProtocolError("a piece of %d bytes where %d are missing" % (len(piece), self._left))
        self._add(piece)
        self._left -= len(piece)
        if self._left:
            return None
        self._done.append(self._sink.getvalue() if self._kind == BYTES else self._sink)
        if self._waiting:
            self._next()
            return None
        message = Message(self._done[0])
        message.buffers = self._done[1:]
        return message


class _Calls(object):
    """The calls that come to a target in pieces."""

    def __init__(self, child):
        self._child = child
        self._arrivals = {}

    def take(self, destination, source, identifier, kind, body):
        key = source, identifier
        if not body:
            self._arrivals.pop(key, None)
        elif key not in self._arrivals:
            self._arrivals[key] = Arrival(body)
        else:
            message = self._arrivals[key].add(body)
            if message is not None:
                del self._arrivals[key]
                self._child.pool.take([(destination, source, identifier, protocol.CALL, message)])


def install(child):
    """Let this target take calls in pieces."""
    child.kinds.setdefault(protocol.CALL | protocol.KIND_MORE, _Calls(child).take)
