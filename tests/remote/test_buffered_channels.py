"""Channels with a buffer that contexts use, and those of streams: when a send returns, and in which order values come back."""

from collections.abc import Iterator
from typing import Any

import pytest
import roamlet_channels_sent as sent

import roamlet
from roamlet import remote
from roamlet.remote.calls.spawn import Stream
from roamlet.remote.channels.requeue import requeue
from roamlet.remote.channels.streams import ENOUGH, ENOUGH_BYTES, StreamChannel
from tests.remote import interpreters
from tests.remote.inside import link_of
from tests.remote.raising import raises

ENDS = sorted({name: path for name, path in interpreters.found().items() if name in ("2.7", "3.6", "3.13")}.items())


@pytest.fixture(scope="module")
def context() -> Iterator[remote.Context]:
    with remote.local() as opened:
        yield opened


@pytest.fixture(scope="module", params=ENDS, ids=[name for name, _ in ENDS])
def everywhere(request: Any) -> Iterator[remote.Context]:
    with remote.local(request.param[1]) as opened:
        yield opened


def wait_for_requests(context: remote.Context, count: int) -> None:
    while len(link_of(context).channels._requests) < count:
        roamlet.sleep(0.001)


# ---- sends into a buffer ----


def test_a_send_returns_when_the_buffer_has_the_value(everywhere: remote.Context) -> None:
    channel: roamlet.channel[int] = roamlet.channel(2)
    assert everywhere.call(sent.send_all, (channel, [0, 1])) == 2
    assert channel.buffered == 2
    call = everywhere.spawn(sent.send_all, (channel, [2, 3]))
    wait_for_requests(everywhere, 1)
    assert (channel.balance, channel.buffered) == (0, 2)  # it waits in a select
    assert [channel.receive() for _ in range(2)] == [0, 1]
    assert call.join() == 2
    assert [channel.receive() for _ in range(2)] == [2, 3]


def test_a_context_sees_the_buffer(everywhere: remote.Context) -> None:
    channel: roamlet.channel[int] = roamlet.channel(3)
    channel.send(1)
    assert everywhere.call(sent.buffer_of, (channel,)) == (3, 1)
    assert channel.receive() == 1


def test_a_closed_buffer_refuses_a_send_although_it_has_room(everywhere: remote.Context) -> None:
    channel: roamlet.channel[int] = roamlet.channel(3)
    channel.close()
    assert "closed" in everywhere.call(sent.send_to_closed, (channel,))
    assert channel.closed


def test_a_call_killed_while_it_waits_for_room_has_sent_nothing(context: remote.Context) -> None:
    channel: roamlet.channel[int] = roamlet.channel(1)
    channel.send(0)
    call = context.spawn(sent.send_all, (channel, [1]))
    wait_for_requests(context, 1)
    call.kill()
    with raises(roamlet.TaskletKilled):
        call.join()
    assert (channel.receive(), channel.buffered) == (0, 0)


def test_a_sequence_into_a_buffer_has_as_many_values_under_way_as_the_buffer_holds(everywhere: remote.Context) -> None:
    channel: roamlet.channel[int] = roamlet.channel(3)
    call = everywhere.spawn(sent.send_sequence, (channel, 8))
    while channel.buffered < 3:
        roamlet.sleep(0.001)
    wait_for_requests(everywhere, 3)  # one at a time would be one
    assert [channel.receive() for _ in range(8)] == list(range(8))
    assert call.join() == 8


def test_a_sequence_into_a_channel_without_a_buffer_has_one_value_under_way(context: remote.Context) -> None:
    channel: roamlet.channel[int] = roamlet.channel()
    call = context.spawn(sent.send_sequence, (channel, 3))
    wait_for_requests(context, 1)
    assert context.call(sent.same, (channel, channel))[0]  # what was on its way has come by now
    assert len(link_of(context).channels._requests) == 1
    assert [channel.receive() for _ in range(3)] == [0, 1, 2]
    assert call.join() == 3


def test_a_sequence_of_a_call_that_is_killed_has_no_gaps_and_leaves_nothing(everywhere: remote.Context) -> None:
    channel: roamlet.channel[int] = roamlet.channel(4)
    call = everywhere.spawn(sent.send_sequence, (channel, 100))
    wait_for_requests(everywhere, 4)
    got = [channel.receive() for _ in range(3)]
    call.kill()
    with raises(roamlet.TaskletKilled):
        call.join()
    while link_of(everywhere).channels._requests:
        roamlet.sleep(0.001)
    channel.close()
    got += channel
    assert got == list(range(len(got))) and 7 <= len(got) < 100


def test_what_comes_before_a_value_that_cannot_be_sent_is_sent(everywhere: remote.Context) -> None:
    channel: roamlet.channel[int] = roamlet.channel(10)
    assert "cannot travel" in everywhere.call(sent.send_until_error, (channel, 5))
    channel.close()
    assert list(channel) == list(range(5))


def test_a_sequence_into_a_buffer_that_is_closed_meanwhile_ends(everywhere: remote.Context) -> None:
    channel: roamlet.channel[int] = roamlet.channel(2)
    call = everywhere.spawn(sent.send_sequence, (channel, 50))
    wait_for_requests(everywhere, 2)
    channel.close()
    got = list(channel)
    with raises(remote.RemoteError, match="ChannelClosed: send on a closed channel"):
        call.join()
    assert got == list(range(len(got)))
    assert not link_of(everywhere).channels._requests


def test_select_takes_what_contexts_send_into_buffers(context: remote.Context) -> None:
    first, second = roamlet.channel(2), roamlet.channel(2)
    call = context.spawn(sent.send_all, (second, ["a", "b", "c"]))
    assert [roamlet.select(first, second) for _ in range(3)] == [(second, value) for value in "abc"]
    assert call.join() == 3


def test_an_exception_reaches_a_context_that_waits_already(context: remote.Context) -> None:
    channel: roamlet.channel[Any] = roamlet.channel(5)
    call = roamlet.spawn(lambda: context.call(sent.receive_error, (channel,)))
    assert context.call(sent.same, (channel, channel))[0]  # the request has come by now, too
    channel.send_exception(KeyError, "gone")
    assert "gone" in str(call.join())


def test_what_waited_for_room_when_its_context_ended_is_not_sent() -> None:
    channel: roamlet.channel[int] = roamlet.channel(2)
    with remote.local() as context:
        call = context.spawn(sent.send_all, (channel, [0, 1, 2]))
        wait_for_requests(context, 1)
        while channel.buffered < 2:
            roamlet.sleep(0.001)
        context.close()
        with raises(remote.ContextClosed):
            call.join()
    channel.close()
    assert list(channel) == [0, 1]


# ---- what comes back ----


@pytest.mark.parametrize("receivers", [0, 1, 3, 5])
@pytest.mark.parametrize("selects", [True, False])
def test_what_comes_back_is_received_in_order_by_those_who_wait_and_then_is_in_front(
    receivers: int, selects: bool
) -> None:
    channel: roamlet.channel[int] = roamlet.channel(2)
    got: list[int] = []
    waiting = [
        roamlet.spawn(lambda: got.append(roamlet.select(channel)[1] if selects else channel.receive()))
        for _ in range(receivers)
    ]
    roamlet.schedule()
    if not receivers:
        channel.send(4)
    requeue(channel, [(number, False) for number in range(4)])
    if receivers == 5:
        channel.send(4)
    for one in waiting:
        one.join()
    channel.close()
    assert [*got, *channel] == list(range(5 if receivers in (0, 5) else 4))


def test_exceptions_come_back_in_their_place() -> None:
    channel: roamlet.channel[int] = roamlet.channel(1)
    requeue(channel, [(KeyError("k"), True), (1, False), (LookupError("l"), True)])
    with raises(KeyError):
        channel.receive()
    assert channel.receive() == 1
    with raises(LookupError):
        channel.receive()
    assert channel.buffered == 0


# ---- streams ----


def put(stream: "StreamChannel[int]", told: list[list[int]], *sizes: int) -> None:
    for size in sizes:
        stream.put(size, size, is_error=False, acknowledge=told.append)


def test_a_stream_acknowledges_what_was_taken_before_it_waits() -> None:
    stream, told = StreamChannel[int](), list[list[int]]()
    put(stream, told, 1, 2, 3)
    assert [stream.take() for _ in range(3)] == [1, 2, 3]
    assert told == []
    put(stream, told, 4)
    stream.close()
    assert stream.take() == 4
    with raises(StopIteration):
        stream.take()
    assert told == [[1, 2, 3, 4]]


def test_a_stream_acknowledges_many_values_and_many_bytes_at_once() -> None:
    stream, told = StreamChannel[int](), list[list[int]]()
    put(stream, told, *range(ENOUGH + 1))
    for _ in range(ENOUGH):
        stream.take()
    assert told == [list(range(ENOUGH))]
    put(stream, told, ENOUGH_BYTES, 1)
    stream.take()
    stream.take()
    assert told[1:] == [[ENOUGH, ENOUGH_BYTES]]
    assert stream.take() == 1


def test_a_stream_that_was_left_drops_what_comes() -> None:
    stream, told = StreamChannel[int](), list[list[int]]()
    put(stream, told, 1, 2)
    stream.drop()
    put(stream, told, 3)
    assert (told, stream.buffered) == ([[1, 2], [3]], 0)


def test_a_stream_that_is_not_read_is_bounded_by_what_a_context_may_have_under_way(context: remote.Context) -> None:
    stream = context.iterate(sent.count, (0, 5000))
    channels = link_of(context).channels
    while channels._under_way < 900:
        roamlet.sleep(0.001)
    for _ in range(20):
        roamlet.sleep(0.001)
    assert stream._channel.buffered == channels._under_way <= 1024
    assert list(stream) == list(range(5000))
    assert (channels._under_way, channels._stream_bytes) == (0, 0) or not stream._channel.buffered


def unread(context: remote.Context, blocks: bool) -> Stream[Any]:
    """A stream that has under way all that it may."""
    stream = context.iterate(*((sent.blocks, (20, 1 << 20)) if blocks else (sent.count, (0, 5000))))
    while link_of(context).channels._under_way < (7 if blocks else 900):
        roamlet.sleep(0.001)
    return stream


@pytest.mark.parametrize("blocks", [False, True])
def test_a_call_sends_while_a_stream_has_all_under_way_that_it_may(everywhere: remote.Context, blocks: bool) -> None:
    channel: roamlet.channel[Any] = roamlet.channel(1)
    with unread(everywhere, blocks):
        assert everywhere.call(sent.send_all, (channel, [b"x" * 100_000]), timeout=30) == 1


@pytest.mark.parametrize("blocks", [False, True])
def test_a_stream_goes_on_while_another_one_is_not_read(everywhere: remote.Context, blocks: bool) -> None:
    with unread(everywhere, blocks) as stream, roamlet.timeout(30):
        assert list(everywhere.iterate(sent.count, (0, 100))) == list(range(100))
        assert sum(map(len, everywhere.iterate(sent.blocks, (3, 1 << 20)))) == 3 << 20
        assert sum(1 for _ in stream) == (20 if blocks else 5000)


def test_a_stream_whose_function_has_ended_keeps_all_in_order(context: remote.Context) -> None:
    stream = context.iterate(sent.count, (0, 800))
    call = stream._call
    assert call is not None
    call.join()
    assert list(stream) == list(range(800))


def test_streams_that_are_left_give_back_what_they_had_under_way(context: remote.Context) -> None:
    for _ in range(5):
        with context.iterate(sent.count, (0, 100_000)) as stream:
            assert next(stream) == 0
    assert list(context.iterate(sent.count, (0, 2000))) == list(range(2000))
