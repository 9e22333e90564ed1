"""Cuts the bytes of one context into frames. The context is not trusted: what is stored of an unfinished frame is bounded.

Frames of contexts behind an intermediary are sorted out by roamlet.wire.link.sorting first.
"""

from roamlet.wire import protocol

ROOT = 0  # the number of this process, as the source and destination of frames
LARGEST_MESSAGE = 1 << 22  # bytes of a message that is decoded on the thread that all links share
LARGEST_OF_KIND = {protocol.STREAM: 1 << 17, protocol.WANT: 1 << 11}  # where it is less, because no context sends more


def refuse_large(kind: int, size: int) -> None:
    """Raise ValueError for a message that is larger than any context sends. Answers have limits of their own."""
    if size > LARGEST_OF_KIND.get(kind, LARGEST_MESSAGE) and kind not in (protocol.RESULT, protocol.ERROR):
        raise ValueError(f"a {protocol.kind_name(kind)} message of {size} bytes")


class BoundedFrameReader(protocol.FrameReader):
    """Keeps bodies that come in several frames for the context `identifier` alone, and no more of them than it may send."""

    def __init__(self, identifier: int) -> None:
        protocol.FrameReader.__init__(self)
        self._ends = (ROOT, identifier, False)  # no modules come up

    @property
    def is_empty(self) -> bool:
        """Whether nothing of an unfinished frame is held."""
        return not self._parts

    def _joined(self, ends: tuple[int, int, bool], identifier: int, kind: int, piece: bytes) -> bytes | None:
        if ends != self._ends:
            raise ValueError(f"a frame from {ends[1]} to {ends[0]} on the link of {self._ends[1]}")
        held = self._cut.get(ends)
        if held is not None:
            refuse_large(held[1], len(held[2]) + len(piece))
        joined: bytes | None = protocol.FrameReader._joined(self, ends, identifier, kind, piece)
        return joined
