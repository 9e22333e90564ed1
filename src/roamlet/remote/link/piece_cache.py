"""Which pieces of shared objects the intermediaries have cached, and the frames that make use of that.

As bundle_cache.py for bundles: a shared object crosses each link once, however many contexts beyond the link load it, and from
then on some fifty bytes for each piece say what to take from there. Pieces are known by their digests. The parent decides what is
forgotten: what was used longest ago.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from roamlet.remote.link.frames import ROOT
from roamlet.remote.modules import Piece
from roamlet.wire import codec, protocol

MOST_BYTES = 1 << 28  # of pieces that one intermediary caches
MORE = b"+"  # in front of each piece: see roamlet.wire.protocol, PIECE


class PieceCache:
    """What the intermediary `number` has cached; `keys` are numbers for what it is given. Not thread-safe: see Trunk.cache_lock."""

    def __init__(self, number: int, keys: Iterator[int], most: int = MOST_BYTES) -> None:
        self.number = number
        self._keys = keys
        self._most = most
        self._kept: OrderedDict[bytes, tuple[int, int]] = OrderedDict()  # digest -> key, size
        self._size = 0

    def ensure(self, piece: Piece, previous: "PieceCache | None") -> "Steps":
        """The frames after which it has `piece`. `previous` is that of the intermediary on the way, which has it.

        Raises what piece.data() does, nothing having changed.
        """
        if piece.digest in self._kept:
            self._kept.move_to_end(piece.digest)
            return Steps()
        key = next(self._keys)
        if previous is None:
            deliver = protocol.frame(self.number, ROOT, key, protocol.KEEP, piece.mark + piece.data())
        else:
            deliver = previous.insert(piece, self.number, key, protocol.KEEP)
        announce = protocol.frame(self.number, ROOT, key, protocol.KEEP | protocol.KIND_CUT, b"")
        self._kept[piece.digest] = key, piece.size
        self._size += piece.size
        return Steps(self._forget_oldest(), announce, deliver)

    def insert(self, piece: Piece, goal: int, identifier: int, kind: int, credit: int = 0) -> bytes:
        """The frame that makes the intermediary send `piece`, which it has, to `goal`. `credit`: bytes of it that CREDIT counts."""
        said = goal, identifier, kind, self._kept[piece.digest][0]
        frame: bytes = protocol.frame(self.number, ROOT, credit, protocol.INSERT, codec.dumps(said))
        return frame

    def _forget_oldest(self) -> bytes:
        keys: list[int] = []
        while self._size > self._most and len(self._kept) > 1:
            _, (key, size) = self._kept.popitem(last=False)
            self._size -= size
            keys.append(key)
        if not keys:
            return b""
        frame: bytes = protocol.frame(self.number, ROOT, 0, protocol.KEEP, codec.dumps(keys))
        return frame


class Steps(NamedTuple):
    """Frames after which an intermediary has cached something. `deliver`, sent to the previous one, sends what was announced."""

    forget: bytes = b""
    announce: bytes = b""
    deliver: bytes = b""


def in_order(steps: Sequence[Steps], delivery: bytes) -> bytes:
    """The frames of all intermediaries, the nearest one first in `steps`, and of `delivery`, for the last one: it has the goal.

    The farthest hop is told first, and what is delivered goes last: each hop knows its destination before its first byte comes.
    """
    frames = [step.forget for step in steps]
    for step in reversed(steps):
        frames += [step.announce, delivery]
        delivery = step.deliver
    return b"".join([*frames, delivery])


def digest_of_body(body: bytes) -> bytes:
    """The digest of a piece that is a whole body, without a mark; that of no piece of a file."""
    return hashlib.sha256(b"body" + body).digest()


def size_of(piece: Piece) -> int:
    """The bytes of the frame that the context gets."""
    return protocol.HEADER_SIZE + len(piece.mark) + piece.size


def delivery_frames(
    path: Sequence[PieceCache], goal: int, number: int, piece: Piece, kind: int = protocol.PIECE
) -> bytes:
    """The frames that deliver `piece` to the context `goal` as a PIECE frame of the file `number`, or a frame of another kind.

    `path` holds the caches of the intermediaries, the nearest one first. Raises what piece.data() does; nothing is to be sent
    then, and nothing is thought to be cached.
    """
    having = [place for place, cache in enumerate(path) if piece.digest in cache._kept]
    path = path[having[-1] :] if having else path  # each forgets by what it was asked for
    if not having:
        data = piece.data()  # may fail: before anything is noted
        piece = piece._replace(data=lambda: data)
    steps = []
    previous = None
    for cache in path:
        steps.append(cache.ensure(piece, previous))
        previous = cache
    assert previous is not None
    return in_order(steps, previous.insert(piece, goal, number, kind, size_of(piece)))
