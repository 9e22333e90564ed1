"""Frames that are somebody else's: passed on by destination while they arrive, checked by source where they come up.

The parent and every intermediary use this file. Nothing here reads or writes.
"""

from roamlet.wire import protocol
from roamlet.wire.protocol import HEADER, HEADER_SIZE, KIND_CUT


class Sorter(protocol.FrameReader):
    """Cut a stream into our own frames, and pass on all others, byte for byte, while they arrive."""

    def __init__(self, before, look, kinds, take):
        """Go on where the FrameReader `before` is. `look(destination, source, id, length, kind)` is called for each header:
        it returns None for a frame of our own, else the function that takes the bytes of the frame as they come. `take(frame)`
        is called for frames of our own that are of these `kinds`, in order with what is passed on; `feed` returns the others.
        """
        protocol.FrameReader.__init__(self)
        self.__dict__.update(before.__dict__)
        self._look = look
        self._kinds = kinds
        self._take = take
        self._left = 0  # bytes of a frame that is being passed on
        self._sink = None

    def feed(self, data):
        """See FrameReader.feed. Raises what `look` raises."""
        position = 0
        if self._left:
            position = min(self._left, len(data))
            self._left -= position
            self._sink(data[:position])
        elif self._parts:
            data = self._with_held(data)
            if data is None:
                return ()
        frames = []
        end = len(data)
        need = HEADER_SIZE
        while end - position >= HEADER_SIZE:
            header = protocol.unpack_header(data, position)
            destination, source, identifier, length, kind = header
            stop = position + HEADER_SIZE + length
            sink = self._look(*header)
            if sink is not None:
                sink(data[position : min(stop, end)])
                if stop > end:
                    self._left = stop - end
                    self._sink = sink
                    return frames
            elif stop > end:
                need = stop - position
                break
            else:
                self._whole(frames, destination, source, identifier, kind, data[position + HEADER_SIZE : stop])
                if frames and frames[-1][3] in self._kinds:
                    self._take(frames.pop())
            position = stop
        self._hold(data, position, need)
        return frames


class Cutter(object):
    """Check the frames of a stream and cut off what has come of an unfinished one, so that others can come in between."""

    def __init__(self, check):
        """`check(destination, source, id, kind)` raises ProtocolError for a frame that must not come by this stream."""
        self._check = check
        self._rest = b""  # an unfinished header
        self._left = 0  # bytes that the body of `_header` still lacks
        self._header = None

    def feed(self, data):
        """Return bytes objects to be sent one after another: whole frames, the last one with KIND_CUT if need be."""
        parts = []
        position = 0
        if self._left:
            position = min(self._left, len(data))
            self._cut(parts, data[:position])
        data = self._rest + data if self._rest else data
        begin = position
        end = len(data)
        while end - position >= HEADER_SIZE:
            header = protocol.unpack_header(data, position)
            self._check(header[0], header[1], header[2], header[4])
            stop = position + HEADER_SIZE + header[3]
            if stop > end:
                parts.append(data[begin:position])
                begin = end
                self._header = header
                self._left = header[3]
                if end > position + HEADER_SIZE:
                    self._cut(parts, data[position + HEADER_SIZE :])
                position = end
                break
            position = stop
        if begin < position:
            parts.append(data[begin:position])
        self._rest = data[position:]
        return parts

    def _cut(self, parts, piece):
        self._left -= len(piece)
        destination, source, identifier, _, kind = self._header
        if self._left:
            kind |= KIND_CUT
        parts.append(HEADER.pack(destination, source, identifier, len(piece), kind))
        parts.append(piece)
