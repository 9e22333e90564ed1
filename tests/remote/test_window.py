"""Channels with a window: what is accepted when, by whom, and in which order it is received."""

from collections.abc import Iterator
from typing import Any

import pytest
import roamlet_channels_sent as sent

import roamlet
from roamlet import remote
from roamlet.remote.channels.window import LARGEST_SIZE
from tests.remote.raising import raises


@pytest.fixture(scope="module")
def context() -> Iterator[remote.Context]:
    with remote.local() as opened:
        yield opened


def test_what_waits_for_room_is_accepted_in_its_order() -> None:
    channel: Any = remote.channel(window=2)
    accepted: list[object] = []

    def offer(value: object) -> bool:
        done: bool = channel.accept(value, lambda: accepted.append(value), is_error=False, size=0)
        return done

    assert [offer(number) for number in range(4)] == [True, True, False, False]
    sender = roamlet.spawn(lambda: (channel.send(4), accepted.append(4)))
    roamlet.schedule()
    assert not offer(5)
    assert (accepted, channel.balance) == ([], 6)
    assert [channel.receive() for _ in range(2)] == [0, 1]
    assert accepted == [2, 3]
    assert channel.receive() == 2
    sender.join()
    assert accepted == [2, 3, 4]
    assert [channel.receive() for _ in range(3)] == [3, 4, 5]
    assert (accepted, channel.balance) == ([2, 3, 4, 5], 0)


def test_a_closed_channel_accepts_what_waits_and_nothing_new() -> None:
    channel: Any = remote.channel(window=1)
    channel.send("accepted")
    sender = roamlet.spawn(lambda: channel.send("waits"))
    roamlet.schedule()
    channel.close()
    with raises(roamlet.ChannelClosed):
        channel.send("too late")
    assert not channel.closed
    assert list(channel) == ["accepted", "waits"]
    sender.join()
    assert channel.closed


def test_a_sender_killed_while_it_waits_for_room_has_sent_nothing() -> None:
    channel: Any = remote.channel(window=1)
    channel.send("accepted")
    sender = roamlet.tasklet(channel.send)("never")
    roamlet.schedule()
    sender.kill()
    assert channel.balance == 1
    assert channel.receive() == "accepted"
    assert channel.balance == 0


def test_room_is_counted_in_bytes_too_and_a_value_larger_than_all_of_it_gets_through_alone() -> None:
    channel: Any = remote.channel(window=100)

    def offer(size: int) -> bool:
        done: bool = channel.accept(size, lambda: None, is_error=False, size=size)
        return done

    assert offer(LARGEST_SIZE // 2)
    assert offer(LARGEST_SIZE // 2)
    assert not offer(1)
    assert not offer(2 * LARGEST_SIZE)
    assert [channel.receive() for _ in range(4)] == [LARGEST_SIZE // 2, LARGEST_SIZE // 2, 1, 2 * LARGEST_SIZE]
    assert offer(2 * LARGEST_SIZE)
    assert not offer(1)
    assert [channel.receive() for _ in range(2)] == [2 * LARGEST_SIZE, 1]


def test_a_small_value_that_would_fit_does_not_overtake_a_large_one_that_waits() -> None:
    channel: Any = remote.channel(window=100)

    def offer(size: int) -> bool:
        done: bool = channel.accept(size, lambda: None, is_error=False, size=size)
        return done

    assert offer(10)
    assert not offer(LARGEST_SIZE)
    assert not offer(1)
    assert [channel.receive() for _ in range(3)] == [10, LARGEST_SIZE, 1]


def test_an_exception_reaches_a_context_that_waits_already(context: remote.Context) -> None:
    channel: Any = remote.channel(window=5)
    call = roamlet.spawn(lambda: context.call(sent.receive_error, (channel,)))
    assert context.call(sent.same, (channel, channel))[0]  # the request has come by now, too
    channel.send_exception(KeyError, "gone")
    assert "gone" in str(call.join())


def test_a_stream_whose_function_has_ended_keeps_all_that_had_no_room_yet_in_order(context: remote.Context) -> None:
    stream = context.iterate(sent.count, (0, 1800))
    call = stream._call
    assert call is not None
    call.join()
    assert list(stream) == list(range(1800))


def test_values_that_had_no_room_yet_outlive_the_context_that_sent_them_in_order() -> None:
    channel: Any = remote.channel(window=10)
    with remote.local() as context:
        assert context.call(sent.send_all, (channel, list(range(15)))) == 15
    channel.close()
    assert list(channel) == list(range(15))
