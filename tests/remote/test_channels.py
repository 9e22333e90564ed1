"""Channels of this process that contexts use."""

import gc
import os
import sys

import pytest
import roamlet_channels_sent as sent

import roamlet
from roamlet import remote
from roamlet.remote.channels.served import ChannelReferences
from roamlet.testing.links import holds
from tests.remote import interpreters
from tests.remote.inside import link_of
from tests.remote.raising import raises

BARE = getattr(sys, "_base_executable", sys.executable)
ENDS = sorted({name: path for name, path in interpreters.found().items() if name in ("2.7", "3.6", "3.13")}.items())


@pytest.fixture
def context():
    with remote.local() as context:
        yield context


@pytest.fixture(scope="module", params=ENDS, ids=[name for name, _ in ENDS])
def everywhere(request):
    """Contexts of the oldest and the newest Pythons, for what depends on them."""
    with remote.local(request.param[1]) as context:
        yield context


def wait_for_requests(context, count):
    """Wait until tasklets in the context wait at `count` channels."""
    channels = link_of(context).channels
    while len([given for given in channels._served.values() if given.pumping]) + len(channels._requests) < count:
        roamlet.sleep(0.001)


def values_of(channel):
    """Everything that can be had without waiting."""
    found = []
    while channel.balance > 0 or channel.buffered:
        found.append(channel.receive())
    return found


def test_what_is_sent_here_is_received_there_and_the_other_way_round(everywhere):
    jobs, results = roamlet.channel(), roamlet.channel()
    call = roamlet.spawn(lambda: everywhere.call(sent.double, (jobs, results)))
    for number in range(5):
        jobs.send(number)
        assert results.receive() == 2 * number
    jobs.close()
    assert call.join() == "done"


def test_a_channel_with_a_buffer_passes_a_stream_in_order(everywhere):
    jobs, results = roamlet.channel(20), roamlet.channel(20)
    call = roamlet.spawn(lambda: everywhere.call(sent.double, (jobs, results)))

    def feed():
        for number in range(500):
            jobs.send(number)
        jobs.close()

    feeding = roamlet.spawn(feed)
    assert [results.receive() for _ in range(500)] == [2 * number for number in range(500)]
    feeding.join()
    assert call.join() == "done"


def test_the_same_channel_is_one_object_there_and_comes_back_as_itself(everywhere):
    for channel in (roamlet.channel(), roamlet.channel(7)):
        assert everywhere.call(sent.same, (channel, channel)) == (True, channel.buffer)
        assert everywhere.call(sent.give, (channel,))["back"][0] is channel


def test_what_a_loop_that_is_left_had_not_taken_goes_back_in_front(everywhere):
    channel = roamlet.channel(50)
    for number in range(40):
        channel.send(number)
    assert everywhere.call(sent.take_some, (channel, 7)) == list(range(7))
    assert values_of(channel) == list(range(7, 40))


def test_exceptions_pass_both_ways_as_data(everywhere):
    channel = roamlet.channel()
    call = roamlet.spawn(lambda: everywhere.call(sent.receive_error, (channel,)))
    channel.send_exception(LookupError("gone", 4))
    assert call.join() == ("LookupError", ("gone", 4))
    call = roamlet.spawn(lambda: everywhere.call(sent.send_error, (channel,)))
    with raises(KeyError) as caught:
        channel.receive()
    assert caught.value.args == ("k", 3)
    with raises(remote.RemoteError, match="there.Own: text"):
        channel.receive()
    call.join()


def test_a_closed_channel_ends_loops_there_and_refuses_sends(everywhere):
    channel = roamlet.channel()
    call = roamlet.spawn(lambda: everywhere.call(sent.double, (channel, channel)))
    wait_for_requests(everywhere, 1)
    channel.close()
    assert call.join() == "done"
    assert "closed" in everywhere.call(sent.send_to_closed, (channel,))
    assert everywhere.call(sent.state, (channel,)) == (0, True, True)
    other = roamlet.channel()
    everywhere.call(sent.close, (other,))
    assert other.closed


def test_several_threads_on_the_target_receive_from_one_channel(everywhere):
    channel = roamlet.channel(8)
    call = roamlet.spawn(lambda: everywhere.call(sent.in_threads, (channel, 8)))
    for number in range(8):
        channel.send(number)
    assert call.join() == list(range(8))


def test_send_returns_when_the_value_was_received(context):
    channel = roamlet.channel()
    call = roamlet.spawn(lambda: context.call(sent.send_all, (channel, [1, 2])))
    assert channel.receive() == 1
    wait_for_requests(context, 1)  # the second one waits over here
    assert not call.done
    assert channel.receive() == 2
    assert call.join() == 2


def test_receive_asks_for_one_value_only(context):
    channel = roamlet.channel(10)
    for number in range(10):
        channel.send(number)
    assert context.call(sent.receive, (channel, 3)) == [0, 1, 2]
    assert channel.buffered == 7


def test_a_channel_travels_through_a_channel(context):
    out, carried = roamlet.channel(), roamlet.channel()
    call = roamlet.spawn(lambda: context.call(sent.forward, ({"out": out, "carried": carried},)))
    assert out.receive() is carried
    call.join()
    way, end = roamlet.channel(), roamlet.channel()
    call = roamlet.spawn(lambda: context.call(sent.receive_channel_and_send, (way, "through")))
    way.send(end)
    assert end.receive() == "through"
    call.join()


def test_two_contexts_talk_over_a_channel_that_both_were_given():
    channel, results = roamlet.channel(), roamlet.channel()
    with remote.local() as one, remote.local() as other:
        feeding = roamlet.spawn(lambda: one.call(sent.send_all, (channel, list(range(20)))))
        doubling = roamlet.spawn(lambda: other.call(sent.double, (channel, results)))
        assert [results.receive() for _ in range(20)] == [2 * number for number in range(20)]
        assert feeding.join() == 20
        channel.close()
        doubling.join()


def test_one_tasklet_waits_for_the_first_of_several_contexts_to_send():
    first, second, told = roamlet.channel(), roamlet.channel(), roamlet.channel()
    with remote.local() as one, remote.local() as other:
        call = one.spawn(sent.receive, (told,))  # sends nothing
        sending = other.spawn(sent.send_all, (second, ["from the other"]))
        assert roamlet.select(first, second) == (second, "from the other")
        told.send(None)
        assert call.join() == [None]
        assert sending.join() == 1
        sending = one.spawn(sent.send_all, (first, ["from the one"]))
        assert roamlet.select(first, second) == (first, "from the one")
        sending.join()


def test_contexts_use_a_service_of_their_parents():
    questions = roamlet.channel()

    def serve():
        for number, answers in questions:
            answers.send(number * number)

    service = roamlet.spawn(serve)
    with remote.open_all([remote.local] * 2) as opened:
        calls = [
            context.spawn(sent.ask, (questions, roamlet.channel(), number))
            for number, context in enumerate(opened.contexts * 5)
        ]
        assert [call.join() for call in calls] == [number * number for number in range(10)]
    questions.close()
    service.join()


def test_a_channel_reaches_a_context_behind_another_and_what_that_had_not_taken_comes_back():
    with remote.local() as hop, remote.local(via=hop) as behind:
        channel, results = roamlet.channel(50), roamlet.channel()
        for number in range(30):
            channel.send(number)
        call = behind.spawn(sent.double, (channel, results))
        assert [results.receive() for _ in range(10)] == [2 * number for number in range(10)]
        hop.close()
        with raises(remote.RemoteError):
            call.join(20)
        left = values_of(channel)
        assert left == list(range(30 - len(left), 30))
        assert len(left) >= 18  # the one whose result was not taken is gone, and perhaps one more


@pytest.mark.parametrize("size", [0, 50])
def test_what_a_context_had_not_taken_when_it_died_goes_back_in_order(size):
    channel = roamlet.channel(size)
    with remote.local() as context:
        feeding = [roamlet.spawn(lambda number=number: channel.send(number)) for number in range(30)]
        roamlet.schedule()
        with raises(remote.ContextDied):
            context.call(sent.die_after, (channel, 5))
        assert [channel.receive() for _ in range(25)] == list(range(5, 30))
        for sender in feeding:
            sender.join()


def test_a_wait_of_a_context_that_dies_is_withdrawn():
    channel, unused = roamlet.channel(), roamlet.channel()
    with remote.local() as context:
        waiting = [roamlet.spawn(lambda: context.call(sent.receive, (channel,))) for _ in range(2)]
        sending = roamlet.spawn(lambda: context.call(sent.send_all, (unused, ["never"])))
        wait_for_requests(context, 2)
        context.close()
        for call in [*waiting, sending]:
            with raises(remote.ContextClosed):
                call.join()
    for one in (channel, unused):
        assert roamlet.select(one, default="nothing")[1] == "nothing"
        assert roamlet.select((one, 1), default="nothing")[1] == "nothing"


def test_values_that_a_buffer_had_accepted_outlive_the_context_that_sent_them():
    channel = roamlet.channel(5)
    with remote.local() as context:
        context.call(sent.send_all, (channel, [1, 2, 3]))
    assert values_of(channel) == [1, 2, 3]


def test_what_the_target_no_longer_uses_is_let_go_here(context):
    channels = [roamlet.channel(), roamlet.channel(2)]
    for channel in channels:
        context.call(sent.state, (channel,))
        context.call(sent.keep, (channel,))
    assert holds(context).channels == 1
    context.call(sent.drop)
    assert not holds(context).channels


def test_a_receive_is_heard_although_the_channel_was_let_go_while_it_was_on_its_way_again(everywhere):
    channel = roamlet.channel()
    on_its_way = ChannelReferences(link_of(everywhere).channels)
    on_its_way.refer(channel)  # as by a message that arrives when the first call has let go of the channel
    for number in range(3):
        call = everywhere.spawn(sent.receive, (channel,))
        with roamlet.timeout(60):
            channel.send(number)
        assert call.join() == [number]
    on_its_way.discard()
    assert not holds(everywhere).channels


def test_a_channel_is_let_go_once_although_its_frames_are_looked_at_meanwhile(everywhere):
    everywhere.call(sent.return_while_frames_are_looked_at, (roamlet.channel(),))
    assert everywhere.call(sent.look_away)
    # The context was not ended for a channel that was given back twice.
    assert everywhere.call(sent.look_away) == 0


def test_a_channel_that_comes_again_while_it_is_let_go_can_be_used(everywhere):
    channel = roamlet.channel()
    first = everywhere.spawn(sent.return_and_let_go_slowly, (channel,))
    assert everywhere.call(sent.until_let_go)  # else what lets go has another name than the test knows
    second = everywhere.spawn(sent.arrive, (channel,))
    assert channel.receive() == "arrived"
    first.join()
    second.join()


def test_a_value_that_cannot_travel_is_refused_where_it_is_sent(context):
    channel = roamlet.channel()
    with raises(remote.RemoteError, match=r"CannotTravel: value cannot travel: it is a object"):
        context.call(sent.send_what_cannot_travel, (channel,))
    call = roamlet.spawn(lambda: context.call(sent.receive, (channel,)))
    channel.send(object())
    with raises(TypeError, match="a value was sent to 'local' that cannot travel"):
        call.join()


def test_a_call_that_is_not_made_leaves_no_reference(context):
    with raises(remote.CannotTravel):
        context.call(sent.same, (roamlet.channel(), object()))
    assert not holds(context).channels


@pytest.mark.parametrize("size", [0, 100])
def test_bytes_of_any_size_come_as_they_were_sent(context, size):
    channel = roamlet.channel(size)
    sizes = [0, 1, (1 << 15) - 1, 1 << 15, (1 << 15) + 1, 1 << 16, 300_001, (1 << 20) + 7]
    values = [bytes(range(256)) * (size // 256) + b"." * (size % 256) for size in sizes]
    sender = roamlet.spawn(lambda: context.call(sent.send_all, (channel, values)))
    assert [channel.receive() for _ in values] == values
    sender.join()


def test_a_large_stream_is_not_held_here_or_there(context):
    """What is sent ahead is bounded in bytes, however many values a loop asks for."""
    channel, stop = roamlet.channel(64), roamlet.channel()
    for _ in range(64):
        channel.send(b"x" * (1 << 20))
    call = roamlet.spawn(lambda: context.call(sent.hold_wide_loop, (channel, stop)))
    assert stop.receive() == 1  # it has one, wants the other 63, and takes no more for now
    while channel.buffered > 64 - 9 or not any(given.room for given in link_of(context).channels._served.values()):
        roamlet.sleep(0.001)
    assert channel.buffered >= 64 - 11
    assert stop.receive() == 2
    channel.close()
    assert call.join() == 64


def test_what_was_received_does_not_come_back_when_its_context_dies_right_then():
    channel = roamlet.channel()
    with remote.local() as context:
        call = context.spawn(sent.receive_and_die, (channel,))
        wait_for_requests(context, 1)
        channel.send("taken")
        with raises(remote.ContextDied):
            call.join()
    assert roamlet.select(channel, default="nothing")[1] == "nothing"


@pytest.mark.parametrize("size", [0, 5])
def test_a_value_does_not_come_twice_although_the_next_question_overtakes_the_end_of_a_loop(context, size):
    channel = roamlet.channel(size)
    senders = [roamlet.spawn(channel.send, (number,)) for number in range(5)]
    assert context.call(sent.take_one_and_then_another, (channel,)) == (0, 1)
    assert values_of(channel) == [2, 3, 4]
    for sender in senders:
        sender.join()


def test_main_may_wait_for_a_context_and_is_no_deadlock_while_it_lives():
    channel = roamlet.channel()
    with remote.local() as context:
        context.call(sent.keep, (channel,))
        context.call(sent.send_later, (0.2,))
        assert channel.receive() == "later"
    with raises(roamlet.Deadlock):
        channel.receive()


@pytest.fixture(scope="module")
def with_tasklets():
    with remote.local(BARE, tasklets=True) as context:
        yield context


def test_calls_that_are_tasklets_wait_at_channels_without_holding_each_other_up(with_tasklets):
    jobs, results = roamlet.channel(), roamlet.channel()
    calls = [with_tasklets.spawn(sent.double, (jobs, results)) for _ in range(100)]  # more than a context has threads
    for number in range(100):
        jobs.send(number)
    assert sorted(results.receive() for _ in range(100)) == [2 * number for number in range(100)]
    jobs.close()
    assert [call.join() for call in calls] == ["done"] * 100


def test_a_call_that_is_a_tasklet_can_be_killed_while_it_waits_and_what_it_had_not_taken_goes_back(with_tasklets):
    channel, told = roamlet.channel(), roamlet.channel()
    call = with_tasklets.spawn(sent.wait_until_killed, (channel, told))
    wait_for_requests(with_tasklets, 1)
    call.kill()
    assert told.receive() == "killed"
    with raises(roamlet.TaskletKilled):
        call.join()
    assert roamlet.select((channel, 1), default="nothing")[1] == "nothing"
    other = roamlet.channel(50)
    for number in range(40):
        other.send(number)
    assert with_tasklets.call(sent.take_some, (other, 7)) == list(range(7))
    assert values_of(other) == list(range(7, 40))


def test_a_tasklet_that_was_killed_on_the_target_lets_go_of_its_channel_at_once(with_tasklets):
    """The error that ends it must not be held by the frames of its own traceback: here no collector runs."""
    with_tasklets.call(gc.disable)
    channel, told = roamlet.channel(), roamlet.channel()
    call = with_tasklets.spawn(sent.wait_until_killed, (channel, told))
    wait_for_requests(with_tasklets, 1)
    call.kill()
    assert told.receive() == "killed"
    with raises(roamlet.TaskletKilled):
        call.join()
    while holds(with_tasklets).channels:
        with_tasklets.call(sent.drop)  # what is gone is said ahead of an answer


def test_a_forked_child_can_give_its_parents_contexts_nothing(context):
    channel = roamlet.channel()
    context.call(sent.keep, (channel,))
    source, target = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            context.call(sent.keep, (roamlet.channel(),))
        except BaseException as error:
            os.write(target, type(error).__name__.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(source, 100) == b"ForkedContext"
    os.close(source)
    os.close(target)
    assert context.call(sent.state, (channel,)) == (0, False, False)
    context.call(sent.drop)
