"""The table of calls in flight: numbers are unique, and nothing of a result is kept for a call that has left the table."""

import itertools
import threading

import pytest

from roamlet.remote.link.inflight import InFlight
from roamlet.wire import codec, protocol
from roamlet.wire.values import large_messages


@pytest.fixture
def in_flight() -> InFlight:
    table = InFlight(threading.Lock())
    for _ in range(3):
        table.calls[table.free_number()] = (object(), "work.f")
    return table


def pieces_of(size):
    """The bodies of the frames of a result with `size` bytes."""
    message = large_messages.LargeMessage(codec.dumps(b"x" * size))
    return [frame[protocol.HEADER_SIZE :] for frame in message.frames(0, 7, 2, protocol.RESULT)]


def test_a_number_is_used_again_only_when_its_call_has_left_the_table(in_flight):
    assert in_flight.remove(2) is not None
    in_flight._numbers = itertools.count(0xFFFFFFFF + 2)  # after the largest one
    assert in_flight.free_number() == 2


def test_a_result_in_pieces_is_whole_with_its_last_piece(in_flight):
    *first, last = pieces_of(100_000)
    assert [in_flight.add_piece(2, piece) for piece in first] == [None] * len(first)
    assert codec.loads(in_flight.add_piece(2, last)) == b"x" * 100_000


@pytest.mark.parametrize("leave", ["remove", "forget"])
def test_pieces_are_dropped_with_their_call(in_flight, leave):
    for piece in pieces_of(100_000)[:-1]:
        in_flight.add_piece(2, piece)
    assert getattr(in_flight, leave)(2)
    assert not in_flight._arriving
    assert in_flight.add_piece(2, pieces_of(100_000)[0]) is None
    assert not in_flight._arriving


def test_a_result_beyond_the_limit_is_refused_before_any_of_it_is_stored(in_flight):
    in_flight.largest_result = 1000
    with pytest.raises(large_messages.TooLarge):
        in_flight.add_piece(2, pieces_of(5000)[0])
    assert not in_flight._arriving
