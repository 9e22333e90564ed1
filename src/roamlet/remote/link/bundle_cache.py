"""Which bundles of modules the intermediaries have cached, and the frames that make use of that.

A module crosses each link once, however many contexts beyond the link need it: the first time, the intermediary at the far end
of the link caches it, and from then on a frame of some bytes says what to take from there.
"""

import hashlib
import itertools
from collections.abc import Collection, Sequence

from roamlet.remote.link.frames import ROOT
from roamlet.remote.link.piece_cache import PieceCache, Steps, in_order
from roamlet.wire import codec, protocol
from roamlet.wire.modules import bundle as wire_bundle

MOST_BYTES = 1 << 26  # that one intermediary caches; beyond that its cache is cleared, and modules are sent again
LEVEL = 6  # as in modules/bundle.py

Picks = list[tuple[int, int, int]]
"""Of the bundle with this number, the modules from this one up to that one."""


class BundleInTransit:
    """A bundle that is being sent. It is unpacked only where that is needed."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.digest: bytes = _digest(data)
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

    def subset(self, indices: Sequence[int]) -> bytes:
        """The bundle with these of its modules only."""
        assert self._unpacked is not None
        modules, absent, reasons, complete = self._unpacked
        packed: bytes = wire_bundle.pack([modules[index] for index in indices], absent, reasons, complete, LEVEL)
        return packed


class BundleCache:
    """What the intermediary `number` has cached. Not thread-safe: see Trunk.cache_lock.

    `packers` are the compressions that it can unpack. Bundles that are packed otherwise it can only pass on whole.
    `pieces`: what it has cached of shared objects.
    """

    def __init__(self, number: int, packers: Collection[str] = ("zlib",)) -> None:
        self.number = number
        self._packers = packers
        self._keys = itertools.count(1)
        self.pieces: PieceCache = PieceCache(number, self._keys)
        self._cached: list[int] = []  # keys
        self._bundles: dict[bytes, tuple[int, Picks | None]] = {}  # how to make it; None: as it was cached
        self._modules: dict[bytes, tuple[int, int]] = {}
        self._size = 0

    def ensure(self, bundle: BundleInTransit, previous: "BundleCache | None") -> Steps:
        """The frames after which all of `bundle` is cached. `previous` is that of the intermediary on the way, which has it."""
        if bundle.digest in self._bundles:
            return Steps()
        clear = b""
        if self._size + len(bundle.data) > MOST_BYTES:
            clear = self._clear()
        digests = bundle.modules
        missing = [index for index, digest in enumerate(digests) if digest not in self._modules]
        whole = len(missing) == len(digests)
        key = next(self._keys)
        self._cached.append(key)
        if previous is not None:
            deliver = previous.insert(bundle, self.number, key, protocol.KEEP, None if whole else missing)
        else:
            body = bundle.data if whole else bundle.subset(missing)
            deliver = protocol.frame(self.number, ROOT, key, protocol.KEEP, body)
        announce = protocol.frame(self.number, ROOT, key, protocol.KEEP | protocol.KIND_CUT, b"")
        self._size += len(bundle.data)
        if whole and wire_bundle.packer_of(bundle.data) not in self._packers:
            self._bundles[bundle.digest] = (key, None)
            return Steps(clear, announce, deliver)
        self._modules.update((digests[index], (key, place)) for place, index in enumerate(missing))
        self._bundles[bundle.digest] = (key, None if whole else _ranges([self._modules[digest] for digest in digests]))
        return Steps(clear, announce, deliver)

    def insert(
        self, bundle: BundleInTransit, goal: int, identifier: int, kind: int, only: Sequence[int] | None = None
    ) -> bytes:
        """The frame that makes the intermediary send `bundle`, or `only` these modules of it, to `goal`."""
        key, picks = self._bundles[bundle.digest]
        said: tuple[object, ...] = (goal, identifier, kind, key)
        if only is not None:
            places = _places(picks) if picks is not None else [(key, index) for index in range(len(bundle.modules))]
            picks = _ranges([places[index] for index in only])
        if picks is not None:
            said += (picks,)
        frame: bytes = protocol.frame(self.number, ROOT, 0, protocol.INSERT, codec.dumps(said))
        return frame

    def _clear(self) -> bytes:
        self._bundles.clear()
        self._modules.clear()
        self._size = 0
        keys, self._cached = self._cached, []
        frame: bytes = protocol.frame(self.number, ROOT, 0, protocol.KEEP, codec.dumps(keys))
        return frame


def delivery_frames(path: Sequence[BundleCache], goal: int, identifier: int, data: bytes) -> bytes:
    """The frames that deliver the bundle `data` to the context `goal` as the MODULES frame `identifier`.

    `path` holds the caches of the intermediaries, the nearest one first. The frames of one call must be sent before the next call.
    """
    bundle = BundleInTransit(data)
    steps = []
    previous = None
    for cache in path:
        steps.append(cache.ensure(bundle, previous))
        previous = cache
    assert previous is not None
    return in_order(steps, previous.insert(bundle, goal, identifier, protocol.MODULES))


def _ranges(places: Sequence[tuple[int, int]]) -> Picks:
    """Consecutive places joined."""
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
