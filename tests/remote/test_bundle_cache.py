"""Bundles by way of intermediaries that cache them: they arrive unchanged, and nothing crosses a link twice."""

import os

from roamlet.remote.link import bundle_cache
from roamlet.remote.link.bundle_cache import BundleCache, delivery_frames
from roamlet.wire import codec, protocol
from roamlet.wire.link.bundle_cache import BundleCache as WireCache
from roamlet.wire.link.bundle_cache import frames_of
from roamlet.wire.modules import bundle

GOAL = 99


class Hops:
    """Intermediaries 1, 2, ... in a row, as roamlet.wire.link.router has them; `received` is what the goal got."""

    def __init__(self, count, **options):
        self.path = [BundleCache(number, **options) for number in range(1, count + 1)]
        self.caches = {cache.number: WireCache() for cache in self.path}
        self.received = []
        self.bytes = {cache.number: 0 for cache in self.path}
        self.order = []  # to whom bytes of bundles went, or what was said
        self.goal = protocol.FrameReader()

    def bring(self, data, path=None):
        self.feed(delivery_frames(path or self.path, GOAL, 7, data))
        return self.received[-1]

    def feed(self, data):
        """Takes frames one by one, each body in two halves where it is a bundle's."""
        while data:
            header = protocol.unpack_header(data)
            end = protocol.HEADER_SIZE + header[3]
            self.take(header, data[:end])
            data = data[end:]

    def take(self, header, frame):
        destination, _, number, length, kind = header
        if destination == GOAL:
            self.order.append(GOAL)
            for *_, number, kind, body in self.goal.feed(frame):
                assert (number, kind) == (7, protocol.MODULES)
                self.received.append(body)
            return
        self.bytes[destination] += length
        cache = self.caches[destination]
        if kind & ~protocol.KIND_CUT == protocol.KEEP:
            if length:
                self.order.append(destination)
            sink = cache.keep(number, length, kind == protocol.KEEP)
            middle = protocol.HEADER_SIZE + length // 2
            sink(frame[:middle])
            if middle < len(frame):
                sink(frame[middle:])
            return
        said = codec.loads(frame[protocol.HEADER_SIZE :])
        pieces = []

        def write(data):
            pieces.append(data)
            whole = b"".join(pieces)
            if len(whole) == protocol.HEADER_SIZE + protocol.unpack_header(whole)[3]:
                pieces.clear()
                self.feed(whole)

        cache.insert(said, write, lambda made: self.feed(b"".join(frames_of(*made))))


def modules(*names):
    return [(name, bundle.MODULE, (name * 200).encode() + SALT[name], f"/{name}.py") for name in names]


SALT = {name: os.urandom(4000) for name in "abcdefg"}


def packed(*names, **more):
    return bundle.pack(modules(*names), [f"not_{names[0]}"], {f"not_{names[0]}": "why"}, {"p": list(names)}, **more)


def test_a_bundle_arrives_as_it_was_and_costs_some_bytes_the_second_time():
    hops = Hops(2)
    assert hops.bring(packed("a", "b")) == packed("a", "b")
    before = hops.bytes[1]
    assert before > 8000
    assert hops.bring(packed("a", "b")) == packed("a", "b")
    assert hops.bytes[1] - before < 100
    assert hops.bring(packed("a", "b"), hops.path[:1]) == packed("a", "b")
    assert hops.bytes[1] - before < 200


def test_each_hop_passes_a_bundle_on_before_the_rest_of_it_has_come():
    hops = Hops(3)
    hops.bring(packed("a", "b"))
    assert hops.order[:4] == [1, 2, 3, GOAL]
    assert hops.order.count(GOAL) > 1
    # Another one at the end: what all have but the last one goes on in the same way.
    hops.path[2] = BundleCache(3)
    hops.order.clear()
    hops.bring(packed("a", "b"))
    assert hops.order == [3, GOAL, GOAL]


def test_bundles_that_overlap_are_put_together_and_each_module_crosses_once():
    hops = Hops(3)
    for names in ("ab", "bc", "cbd", "dabc", "e", "ea", "gfedcba", "b"):
        assert bundle.unpack(hops.bring(packed(*names))) == bundle.unpack(packed(*names))
    assert hops.bytes[1] < 7 * 4100 + 8 * 400
    assert hops.bytes[3] < 7 * 4100 + 8 * 400


def test_a_hop_that_joins_later_gets_from_the_one_before_it_what_that_one_has():
    hops = Hops(2)
    hops.bring(packed("a", "b"), hops.path[:1])
    hops.bring(packed("b", "c"), hops.path[:1])
    before = hops.bytes[1]
    assert bundle.unpack(hops.bring(packed("c", "a"))) == bundle.unpack(packed("c", "a"))
    assert hops.bytes[1] - before < 500
    assert hops.bytes[2] > 8000


def test_what_a_hop_cannot_take_apart_is_passed_on_whole_or_sent_anew():
    hops = Hops(2)
    xz = packed("a", "b", packer="xz", level=6)
    assert hops.bring(xz) == xz
    before = hops.bytes[1]
    assert hops.bring(xz) == xz
    assert hops.bytes[1] - before < 100
    assert hops.bring(packed("b", "c")) == packed("b", "c")
    able = Hops(2, packers=("zlib", "xz"))
    able.bring(xz)
    before = able.bytes[1]
    assert bundle.unpack(able.bring(packed("a"))) == bundle.unpack(packed("a"))
    assert able.bytes[1] - before < 500


def test_a_hop_that_keeps_too_much_forgets_all_and_is_sent_it_again(monkeypatch):
    monkeypatch.setattr(bundle_cache, "MOST_BYTES", 15_000)
    hops = Hops(2)
    for names in ("ab", "cd", "ab", "ef", "fg", "a"):
        assert bundle.unpack(hops.bring(packed(*names))) == bundle.unpack(packed(*names))
        assert sum(len(one.body) for one in hops.caches[1]._bundles.values()) <= 15_000


def test_a_bundle_of_absent_names_alone_is_kept_too():
    hops = Hops(2)
    data = bundle.pack([], ["nowhere"], {"nowhere": "as was said"})
    assert hops.bring(data) == data
    assert hops.bring(data) == data
