"""What intermediaries keep of the bundles that were sent through them, and the frames that make use of it.

A module goes over each link once, whoever behind it needs it and however many of them: the first time it is kept at the far end,
and from then on a frame of some bytes says what to take.
"""

import hashlib
import itertools
from collections.abc import Collection, Sequence
from typing import NamedTuple

from roamlet.wire import bundle as wire_bundle
from roamlet.wire import codec, protocol

ROOT = 0
MOST_BYTES = 1 << 26  # that one intermediary keeps; beyond it forgets all, and what is needed again travels again
LEVEL = 6  # as in modules/bundle.py

Picks = list[tuple[int, int, int]]
"""Of the bundle with this number, the modules from this one up to that one."""


class Parcel:
    """A bundle on its way. What is in it is looked at only where that is needed."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.digest = _digest(data)
        self._unpacked: tuple[list[tuple[str, int, bytes, str]], object, object, object] | None = None
        self._digests: list[bytes] = []

    @property
    def modules(self) -> list[bytes]:
        """A digest of each module."""
        if self._unpacked is None:
            self._unpacked = wire_bundle.unpack(self.data)
            self._digests = [
                _digest(codec.dumps((name, kind, origin)), source) for name, kind, source, origin in self._unpacked[0]
            ]
        return self._digests

    def less(self, indices: Sequence[int]) -> bytes:
        """The same with these modules only."""
        assert self._unpacked is not None
        modules, absent, reasons, complete = self._unpacked
        packed: bytes = wire_bundle.pack([modules[index] for index in indices], absent, reasons, complete, LEVEL)
        return packed


class Frames(NamedTuple):
    """After which an intermediary keeps a bundle. `bring`, sent to the one before it, makes what was announced come."""

    forget: bytes = b""
    announce: bytes = b""
    bring: bytes = b""


class Copies:
    """What the intermediary `number` keeps. Not thread-safe: see Trunk.order.

    `packers`: the compressions that it can take apart. Of what is packed otherwise it can pass on the whole alone.
    """

    def __init__(self, number: int, packers: Collection[str] = ("zlib",)) -> None:
        self.number = number
        self._packers = packers
        self._keys = itertools.count(1)
        self._bundles: dict[bytes, tuple[int, Picks | None]] = {}  # how to make it; None: as it was kept
        self._modules: dict[bytes, tuple[int, int]] = {}
        self._size = 0

    def ensure(self, parcel: Parcel, before: "Copies | None") -> Frames:
        """The frames after which all of `parcel` is kept there; `before` is the intermediary in front of it, which keeps it."""
        if parcel.digest in self._bundles:
            return Frames()
        forget = b""
        if self._size + len(parcel.data) > MOST_BYTES:
            forget = self._forget()
        digests = parcel.modules
        missing = [index for index, digest in enumerate(digests) if digest not in self._modules]
        whole = len(missing) == len(digests)
        key = next(self._keys)
        if before is not None:
            bring = before.insert(parcel, self.number, key, protocol.KEEP, None if whole else missing)
        else:
            body = parcel.data if whole else parcel.less(missing)
            bring = protocol.frame(self.number, ROOT, key, protocol.KEEP, body)
        announce = protocol.frame(self.number, ROOT, key, protocol.KEEP | protocol.KIND_CUT, b"")
        self._size += len(parcel.data)
        if whole and wire_bundle.packer_of(parcel.data) not in self._packers:
            self._bundles[parcel.digest] = (key, None)
            return Frames(forget, announce, bring)
        self._modules.update((digests[index], (key, place)) for place, index in enumerate(missing))
        self._bundles[parcel.digest] = (key, None if whole else _ranges([self._modules[digest] for digest in digests]))
        return Frames(forget, announce, bring)

    def insert(self, parcel: Parcel, goal: int, identifier: int, kind: int, only: Sequence[int] | None = None) -> bytes:
        """The frame that makes it send `parcel`, or `only` these modules of it, to `goal`."""
        key, picks = self._bundles[parcel.digest]
        said: tuple[object, ...] = (goal, identifier, kind, key)
        if only is not None:
            places = _places(picks) if picks is not None else [(key, index) for index in range(len(parcel.modules))]
            picks = _ranges([places[index] for index in only])
        if picks is not None:
            said += (picks,)
        frame: bytes = protocol.frame(self.number, ROOT, 0, protocol.INSERT, codec.dumps(said))
        return frame

    def _forget(self) -> bytes:
        self._bundles.clear()
        self._modules.clear()
        self._size = 0
        frame: bytes = protocol.frame(self.number, ROOT, 0, protocol.KEEP, b"")
        return frame


def bring(path: Sequence[Copies], goal: int, identifier: int, data: bytes) -> bytes:
    """The frames that bring the bundle `data` to the context `goal` as the MODULES frame `identifier`.

    `path`: what the intermediaries keep, the nearest one first. The frames must be sent before those of the next call of this.
    The farthest hop is told first, and the bundle itself goes last: each hop knows for whom it is before its first byte comes.
    """
    parcel = Parcel(data)
    steps = []
    before = None
    for copies in path:
        steps.append(copies.ensure(parcel, before))
        before = copies
    assert before is not None
    frames = [step.forget for step in steps]
    bringing = before.insert(parcel, goal, identifier, protocol.MODULES)
    for step in reversed(steps):
        frames += [step.announce, bringing]
        bringing = step.bring
    return b"".join([*frames, bringing])


def _ranges(places: Sequence[tuple[int, int]]) -> Picks:
    """Neighbours taken together."""
    ranges: Picks = []
    for key, index in places:
        if ranges and ranges[-1][0] == key and ranges[-1][2] == index:
            ranges[-1] = (key, ranges[-1][1], index + 1)
        else:
            ranges.append((key, index, index + 1))
    return ranges


def _places(ranges: Picks) -> list[tuple[int, int]]:
    return [(key, index) for key, start, stop in ranges for index in range(start, stop)]


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()
