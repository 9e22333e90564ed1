"""Frames cut out of any stream of bytes, and streams of other bytes."""

import random

import pytest

from roamlet.wire import protocol
from roamlet.wire.protocol import FrameReader, ProtocolError, frame

SOME = [
    (1, 0, 5, protocol.CALL, b"body"),
    (0, 1, 5, protocol.RESULT, b""),
    (2**32 - 1, 7, 2**32 - 1, protocol.PONG, b"x" * 1000),
    (0, 1, 1, protocol.STREAM, bytes(range(256))),
]
STREAM = b"".join(frame(*one) for one in SOME)


def test_a_frame_has_17_bytes_in_front():
    assert protocol.HEADER_SIZE == 17
    assert frame(1, 2, 3, protocol.CALL, b"abc") == b"\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\3\5abc"


@pytest.mark.parametrize("size", [1, 2, 3, 16, 17, 18, 100, 5000])
def test_frames_come_out_whatever_pieces_they_came_in(size):
    reader = FrameReader()
    found = []
    for at in range(0, len(STREAM), size):
        found.extend(reader.feed(STREAM[at : at + size]))
    assert found == SOME
    assert not reader._parts


def test_frames_come_out_of_random_pieces():
    chance = random.Random(1)
    for _ in range(200):
        reader, found, rest = FrameReader(), [], STREAM * 3
        while rest:
            size = chance.randrange(1, 200)
            found.extend(reader.feed(rest[:size]))
            rest = rest[size:]
        assert found == SOME * 3


def test_a_stream_that_was_cut_says_so():
    reader = FrameReader()
    assert len(reader.feed(STREAM[:-3])) == 3
    assert reader._parts


def test_a_length_above_the_limit_is_refused_before_the_body_comes():
    header = protocol.HEADER.pack(0, 9, 1, protocol.MAX_BODY + 1, protocol.RESULT)
    with pytest.raises(
        ProtocolError, match=r"context 9 sent no valid frame: RESULT, 134217729 bytes \(limit 134217728\)"
    ):
        FrameReader().feed(header)


@pytest.mark.parametrize(
    "kind", [0, protocol.LAST_KIND + 1, 63, 63 | protocol.KIND_MORE, 63 | protocol.KIND_CUT, protocol.KIND_CUT, 255]
)
def test_an_unknown_kind_is_refused(kind):
    with pytest.raises(ProtocolError, match=f"unknown kind {kind}"):
        FrameReader().feed(protocol.HEADER.pack(0, 1, 1, 0, kind))


def test_text_among_the_frames_is_refused():
    with pytest.raises(ProtocolError, match="something else writes to the descriptors"):
        FrameReader().feed(b"Welcome to alpha! You have mail.\n")


def test_a_body_that_is_too_long_is_refused_where_it_is_made(monkeypatch):
    monkeypatch.setattr(protocol, "MAX_BODY", 10)
    with pytest.raises(ProtocolError, match="a RESULT message of 11 bytes is longer than the limit of 10 bytes"):
        frame(0, 1, 1, protocol.RESULT, b"x" * 11)


def test_every_kind_has_a_name():
    kinds = {name: value for name, value in vars(protocol).items() if name in protocol.KIND_NAMES}
    assert {protocol.kind_name(value) for value in kinds.values()} == set(kinds)
    assert len(kinds) == protocol.LAST_KIND
    assert protocol.kind_name(99) == "unknown kind 99"
