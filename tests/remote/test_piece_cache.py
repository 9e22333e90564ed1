"""Pieces of shared objects by way of intermediaries that cache them: each crosses a link once, what is forgotten again."""

import itertools
import os

import pytest

from roamlet.remote.link.piece_cache import PieceCache, delivery_frames, size_of
from roamlet.remote.modules import Piece
from roamlet.remote.modules.disk_cache import digest_of
from roamlet.wire import codec, protocol
from roamlet.wire.link.bundle_cache import BundleCache as WireCache
from roamlet.wire.link.bundle_cache import frames_of

GOAL = 99
FILE = 7


def piece(data: bytes) -> Piece:
    return Piece(digest_of(data), len(data), lambda: data)


class Hops:
    """Intermediaries 1, 2, ... in a row; `received` is what the goal got, `bytes` what each of them was sent."""

    def __init__(self, count: int, most: int = 1 << 20) -> None:
        self.path = [PieceCache(number, itertools.count(1), most) for number in range(1, count + 1)]
        self.caches = {cache.number: WireCache() for cache in self.path}
        self.received: list[bytes] = []
        self.bytes = dict.fromkeys(self.caches, 0)

    def bring(self, one: Piece, path: "list[PieceCache] | None" = None) -> bytes:
        self.feed(delivery_frames(path or self.path, GOAL, FILE, one))
        return self.received[-1]

    def feed(self, data: bytes) -> None:
        for destination, _, number, kind, body in self.whole(data):
            if destination == GOAL:
                assert (number, kind) == (FILE, protocol.PIECE)
                self.received.append(body)
                continue
            self.bytes[destination] += len(body)
            cache = self.caches[destination]
            if kind & ~protocol.KIND_CUT == protocol.KEEP:
                frame = protocol.frame(destination, 0, number, kind, body)
                sink = cache.keep(number, len(body), kind == protocol.KEEP)
                middle = protocol.HEADER_SIZE + len(body) // 2
                sink(frame[:middle])
                if middle < len(frame):
                    sink(frame[middle:])
                continue
            said = codec.loads(body)
            if number:
                assert said[0] == GOAL

                def make(made: list[object], size: int = number) -> None:
                    whole = b"".join(frames_of(*made))
                    assert len(whole) == size
                    self.feed(whole)

                cache.insert(said, None, make)
            else:
                # What goes on to the next one piece by piece is taken in whole here: test_bundle_cache.py has the rest.
                cache.insert(said, None, lambda made: self.feed(b"".join(frames_of(*made))))

    def whole(self, data: bytes) -> "list[tuple[int, int, int, int, bytes]]":
        frames = []
        while data:
            destination, source, number, length, kind = protocol.unpack_header(data)
            end = protocol.HEADER_SIZE + length
            frames.append((destination, source, number, kind, data[protocol.HEADER_SIZE : end]))
            data = data[end:]
        return frames


def test_a_piece_arrives_as_it_was_and_costs_some_bytes_the_second_time() -> None:
    hops = Hops(2)
    one = piece(os.urandom(5000))
    assert hops.bring(one) == b"+" + one.data()
    before = dict(hops.bytes)
    assert before[1] > 5000 < before[2]
    assert hops.bring(one) == b"+" + one.data()
    assert hops.bytes[1] == before[1]  # not even a word: the second one has it
    assert hops.bytes[2] - before[2] < 50


def test_one_that_joins_later_gets_it_from_the_one_before_it() -> None:
    hops = Hops(2)
    one = piece(os.urandom(5000))
    hops.bring(one, hops.path[:1])
    before = hops.bytes[1]
    assert hops.bring(one) == b"+" + one.data()
    assert hops.bytes[1] - before < 50


def test_it_comes_from_the_last_one_that_has_it() -> None:
    hops = Hops(3, most=10_000)
    one, two = piece(os.urandom(5000)), piece(os.urandom(9000))
    hops.bring(one)
    hops.bring(two, hops.path[:1])  # the first one has forgotten the other by now
    before = dict(hops.bytes)
    assert hops.bring(one) == b"+" + one.data()
    assert [hops.bytes[number] - before[number] < 50 for number in (1, 2, 3)] == [True] * 3
    hops.bring(two, hops.path[:2])
    hops.bring(one)
    assert hops.bring(two) == b"+" + two.data()


def test_what_was_used_longest_ago_is_forgotten_on_both_sides() -> None:
    hops = Hops(2, most=10_000)
    pieces = [piece(os.urandom(3000)) for _ in range(5)]
    for one in pieces[:3]:
        hops.bring(one)
    hops.bring(pieces[0])
    for one in pieces[3:]:
        assert hops.bring(one) == b"+" + one.data()
    # The nearest one was not asked when the second had it: there the first piece is the oldest.
    assert [len(cache._bundles) for cache in hops.caches.values()] == [3, 3]
    for one in pieces:
        assert hops.bring(one) == b"+" + one.data()
        assert [cache._size <= 10_000 for cache in hops.path] == [True, True]
        assert [len(cache._bundles) for cache in hops.caches.values()] == [len(cache._kept) for cache in hops.path]


def test_a_piece_larger_than_the_cache_is_passed_on() -> None:
    hops = Hops(1, most=1000)
    for _ in range(3):
        one = piece(os.urandom(3000))
        assert hops.bring(one) == b"+" + one.data()
    assert len(hops.caches[1]._bundles) == 1


def test_a_piece_that_cannot_be_read_changes_nothing() -> None:
    hops = Hops(2)

    def fail() -> bytes:
        raise OSError("changed")

    broken = piece(b"x" * 100)._replace(data=fail)
    with pytest.raises(OSError, match="changed"):
        hops.bring(broken)
    assert hops.received == []
    assert hops.bring(piece(b"x" * 100)) == b"+" + b"x" * 100


def test_its_credit_is_what_the_context_gets() -> None:
    hops = Hops(1)
    one = piece(b"y" * 1000)
    frames = hops.whole(delivery_frames(hops.path, GOAL, FILE, one))
    assert [number for _, _, number, kind, _ in frames if kind == protocol.INSERT] == [size_of(one)]
    assert size_of(one) == protocol.HEADER_SIZE + 1001
