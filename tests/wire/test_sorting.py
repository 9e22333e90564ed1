"""Frames that are passed on: sorted while they arrive, cut where more is to come, checked before anything of them goes on."""

import pytest

from roamlet.wire import protocol
from roamlet.wire.link.sorting import Cutter, Sorter
from roamlet.wire.protocol import KIND_CUT, FrameReader, ProtocolError, frame

OURS, THEIRS, OTHERS = 1, 2, 3
STREAM = [
    frame(THEIRS, 0, 5, protocol.CALL, b"t" * 300),
    frame(OURS, 0, 6, protocol.PING, b"mine"),
    frame(OTHERS, 0, 7, protocol.CANCEL, b""),
    frame(OURS, 0, 8, protocol.KEEP, b"kept" * 50),
    frame(THEIRS, 0, 9, protocol.RESULT, b"u" * 40),
    frame(OURS, 0, 10, protocol.PONG, b""),
]


def sorter(events, before=None):
    def look(destination, *_):
        return None if destination == OURS else lambda data: events.append((destination, bytes(data)))

    return Sorter(before or FrameReader(), look, (protocol.KEEP,), lambda taken: events.append((OURS, taken[4])))


def joined(events, destination):
    return b"".join(data for goal, data in events if goal == destination)


@pytest.mark.parametrize("size", [1, 7, 16, 17, 18, 100, 1000])
def test_frames_are_sorted_however_the_stream_is_cut(size):
    events, ours, stream = [], [], b"".join(STREAM)
    sort = sorter(events)
    for start in range(0, len(stream), size):
        ours += sort.feed(stream[start : start + size])
    assert joined(events, THEIRS) == STREAM[0] + STREAM[4]
    assert joined(events, OTHERS) == STREAM[2]
    assert [taken[2] for taken in ours] == [6, 10]
    goals = list(dict.fromkeys(goal for goal, _ in events))
    assert goals == [THEIRS, OTHERS, OURS]  # what must be taken in order with the rest is


def test_a_frame_goes_on_as_soon_as_its_header_is_there():
    events = []
    sort = sorter(events)
    sort.feed(STREAM[0][:20])
    assert joined(events, THEIRS) == STREAM[0][:20]
    sort.feed(STREAM[0][20:21])
    assert joined(events, THEIRS) == STREAM[0][:21]


def test_sorting_goes_on_where_a_plain_reader_was():
    events, before = [], FrameReader()
    before.feed(STREAM[1][:10])
    assert sorter(events, before).feed(STREAM[1][10:]) == [(OURS, 0, 6, protocol.PING, b"mine")]


@pytest.mark.parametrize("size", [1, 5, 17, 19, 64, 1000])
def test_what_is_cut_off_is_the_same_when_it_is_put_together_again(size):
    stream, parts, whole = b"".join(STREAM), [], FrameReader()
    cutter = Cutter(lambda *header: None)
    for start in range(0, len(stream), size):
        parts.append(b"".join(cutter.feed(stream[start : start + size])))
    frames = [taken for part in parts if part for taken in whole.feed(part)]
    assert frames == [taken for one in STREAM for taken in FrameReader().feed(one)]


def test_each_part_that_is_cut_off_is_made_of_whole_frames():
    cutter = Cutter(lambda *header: None)
    begun = b"".join(cutter.feed(STREAM[5] + STREAM[0][:100]))
    reader = FrameReader()
    assert [taken[2] for taken in reader.feed(begun)] == [10]
    assert not reader._parts
    other = frame(OURS, 0, 77, protocol.PING, b"in between")
    end = b"".join(cutter.feed(STREAM[0][100:]))
    assert [taken[2] for taken in reader.feed(other + end)] == [77, 5]


def test_nothing_goes_on_of_a_frame_that_is_refused():
    def check(destination, source, identifier, kind):
        if identifier == 9:
            raise ProtocolError("forged")

    cutter = Cutter(check)
    with pytest.raises(ProtocolError, match="forged"):
        cutter.feed(STREAM[0] + STREAM[4])


def test_a_second_body_that_begins_in_the_middle_of_another_is_refused():
    reader = FrameReader()
    reader.feed(frame(OURS, 4, 1, protocol.RESULT | KIND_CUT, b"one"))
    with pytest.raises(ProtocolError, match="context 4 began a ERROR message before the end of a RESULT message"):
        reader.feed(frame(OURS, 4, 1, protocol.ERROR | KIND_CUT, b"two"))


def test_bodies_of_different_sources_are_put_together_apart():
    reader = FrameReader()
    reader.feed(frame(OURS, 4, 1, protocol.RESULT | KIND_CUT, b"a"))
    reader.feed(frame(OURS, 5, 1, protocol.RESULT | KIND_CUT, b"x"))
    assert [taken[4] for taken in reader.feed(frame(OURS, 4, 1, protocol.RESULT, b"b"))] == [b"ab"]
    assert [taken[4] for taken in reader.feed(frame(OURS, 5, 1, protocol.RESULT, b"y"))] == [b"xy"]


def test_a_body_that_grows_beyond_the_limit_piece_by_piece_is_refused(monkeypatch):
    monkeypatch.setattr(protocol, "MAX_BODY", 100)
    reader = FrameReader()
    reader.feed(frame(OURS, 4, 1, protocol.RESULT | KIND_CUT, b"a" * 90))
    with pytest.raises(ProtocolError, match="context 4 sent a RESULT message of more than 100 bytes"):
        reader.feed(frame(OURS, 4, 1, protocol.RESULT | KIND_CUT, b"a" * 90))
