"""Channels: who runs on when two meet, what closing means, errors instead of values. Stackless's order, exactly."""

import sys
import traceback
import weakref

import pytest

import roamlet


def receiver(channel, name, log):
    log.append(f"{name} waits")
    log.append((name, channel.receive()))


def sender(channel, name, log):
    log.append(f"{name} sends")
    channel.send(name)
    log.append(f"{name} sent")


def raised_by(call):
    """The arguments of the ValueError that `call` raises, and the functions in its traceback. Keeps no cycle."""
    try:
        call()
    except ValueError as error:
        return error.args, [entry.name for entry in traceback.extract_tb(error.__traceback__)]
    return None


def bystander(log):
    log.append("bystander")


@pytest.mark.parametrize(
    ("preference", "expected"),
    [
        # The receiver runs at once, before whoever else is runnable; the sender is the last of the queue.
        (-1, ["r waits", "main sends", ("r", 1), "bystander", "main sent"]),
        # The sender goes on; the receiver is the last of the queue, after the bystander.
        (1, ["r waits", "main sends", "main sent", "bystander", ("r", 1)]),
        (0, ["r waits", "main sends", "main sent", "bystander", ("r", 1)]),
    ],
)
def test_who_runs_on_when_a_sender_meets_a_waiting_receiver(preference, expected):
    channel, log = roamlet.channel(), []
    channel.preference = preference
    roamlet.tasklet(receiver)(channel, "r", log)
    roamlet.run()
    roamlet.tasklet(bystander)(log)
    log.append("main sends")
    channel.send(1)
    log.append("main sent")
    roamlet.run()
    assert log == expected


@pytest.mark.parametrize(
    ("preference", "expected"),
    [
        (-1, ["s sends", "main receives", ("main", "s"), "bystander", "s sent"]),
        (1, ["s sends", "main receives", "s sent", "bystander", ("main", "s")]),
        (0, ["s sends", "main receives", ("main", "s"), "bystander", "s sent"]),
    ],
)
def test_who_runs_on_when_a_receiver_meets_a_waiting_sender(preference, expected):
    channel, log = roamlet.channel(), []
    channel.preference = preference
    roamlet.tasklet(sender)(channel, "s", log)
    roamlet.run()
    roamlet.tasklet(bystander)(log)
    log.append("main receives")
    log.append(("main", channel.receive()))
    roamlet.run()
    assert log == expected


@pytest.mark.parametrize("preference", [-1, 0, 1])
def test_schedule_all_lets_the_next_tasklet_run_whatever_the_preference(preference):
    channel, log = roamlet.channel(), []
    channel.preference = preference
    channel.schedule_all = True
    roamlet.tasklet(receiver)(channel, "r", log)
    roamlet.run()
    roamlet.tasklet(bystander)(log)
    channel.send(1)
    log.append("main sent")
    roamlet.run()
    assert log == ["r waits", "bystander", ("r", 1), "main sent"]


def test_schedule_all_when_the_partner_is_the_only_other_tasklet():
    channel, log = roamlet.channel(), []
    channel.schedule_all = True
    roamlet.tasklet(sender)(channel, "s", log)
    roamlet.run()
    log.append(("main", channel.receive()))
    assert log == ["s sends", "s sent", ("main", "s")]


def test_a_blocked_operation_gives_way_to_the_next_in_the_queue():
    channel, log = roamlet.channel(), []
    for name in "abc":
        roamlet.tasklet(receiver)(channel, name, log)
    roamlet.tasklet(bystander)(log)
    roamlet.run()
    assert log == ["a waits", "b waits", "c waits", "bystander"]
    for value in (1, 2, 3):
        channel.send(value)
    assert log[4:] == [("a", 1), ("b", 2), ("c", 3)]


def test_values_are_served_first_come_first_served():
    channel, log = roamlet.channel(), []
    for name in "abcd":
        roamlet.tasklet(sender)(channel, name, log)
    roamlet.run()
    assert [channel.receive() for _ in range(4)] == ["a", "b", "c", "d"]
    roamlet.run()
    assert log == [*(f"{name} sends" for name in "abcd"), *(f"{name} sent" for name in "abcd")]


def test_balance_counts_senders_up_and_receivers_down():
    channel, log = roamlet.channel(), []
    assert channel.balance == 0
    for count, name in enumerate("abc", 1):
        roamlet.tasklet(sender)(channel, name, log).run()
        assert channel.balance == count
    for count in (2, 1, 0):
        channel.receive()
        assert channel.balance == count
    for count, name in enumerate("de", 1):
        roamlet.tasklet(receiver)(channel, name, log).run()
        assert channel.balance == -count
    channel.send_sequence("xy")
    assert channel.balance == 0
    roamlet.run()


def test_queue_is_the_one_that_waited_longest_and_next_leads_through_the_others():
    channel, log = roamlet.channel(), []
    assert channel.queue is None
    tasklets = [roamlet.tasklet(receiver)(channel, name, log) for name in "abc"]
    roamlet.run()
    assert channel.queue is tasklets[0]
    assert [tasklet.next for tasklet in tasklets] == [tasklets[1], tasklets[2], None]
    assert [tasklet.prev for tasklet in tasklets] == [None, tasklets[0], tasklets[1]]
    tasklets[1].kill()
    assert (channel.queue, tasklets[0].next, tasklets[2].prev) == (tasklets[0], tasklets[2], tasklets[0])
    tasklets[0].kill()
    assert (channel.queue, tasklets[2].next, tasklets[2].prev) == (tasklets[2], None, None)
    tasklets[2].kill()
    assert (channel.queue, channel.balance) == (None, 0)


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_killed_sender_takes_its_value_with_it_and_leaves_the_order_of_the_others(victim):
    channel, log = roamlet.channel(), []
    tasklets = [roamlet.tasklet(sender)(channel, name, log) for name in "abc"]
    roamlet.run()
    tasklets[victim].kill()
    assert channel.balance == 2
    assert [channel.receive(), channel.receive()] == [name for index, name in enumerate("abc") if index != victim]
    roamlet.run()


def test_a_value_is_passed_by_identity_and_not_kept():
    class Value:
        pass

    channel, value = roamlet.channel(), Value()
    gone, got = weakref.ref(value), []
    roamlet.tasklet(lambda: got.append(channel.receive()))()
    roamlet.run()
    channel.send(value)
    assert got == [value]
    del value
    got.clear()
    assert gone() is None


def test_send_returns_none_and_any_object_can_travel():
    channel, got = roamlet.channel(), []
    roamlet.tasklet(lambda: got.extend(channel.receive() for _ in range(4)))()
    roamlet.run()
    assert [channel.send(value) for value in (None, roamlet.TaskletExit, KeyError("x"), channel)] == [None] * 4
    assert got[0] is None and got[1] is roamlet.TaskletExit and repr(got[2]) == "KeyError('x')" and got[3] is channel


# ---- closing ----


def test_states_of_a_channel_that_is_closed_empty_and_opened_again():
    channel = roamlet.channel()
    assert (channel.closing, channel.closed) == (False, False)
    assert channel.close() is None
    assert (channel.closing, channel.closed) == (True, True)
    assert channel.open() is None
    assert (channel.closing, channel.closed) == (False, False)


def test_what_waits_in_a_closed_channel_can_still_be_met_and_nobody_new_may_wait():
    channel, log = roamlet.channel(), []
    for name in "ab":
        roamlet.tasklet(sender)(channel, name, log)
    roamlet.run()
    channel.close()
    assert (channel.closing, channel.closed) == (True, False)
    with pytest.raises(roamlet.ChannelClosed, match="Send/receive operation on a closed channel"):
        channel.send("new")
    assert [channel.receive(), channel.receive()] == ["a", "b"]
    assert channel.closed is True
    with pytest.raises(roamlet.ChannelClosed, match=r"open\(\) lets it be used again"):
        channel.receive()
    roamlet.run()


def test_a_blocked_receive_stays_when_its_channel_is_closed_and_can_be_met():
    channel, log = roamlet.channel(), []
    tasklet = roamlet.tasklet(receiver)(channel, "r", log)
    roamlet.run()
    channel.close()
    roamlet.run()
    assert tasklet.blocked and not channel.closed
    channel.send("late")
    assert log == ["r waits", ("r", "late")]
    assert channel.closed


def test_closed_is_a_value_error_as_in_stackless():
    channel = roamlet.channel()
    channel.close()
    with pytest.raises(ValueError, match="closed channel"):
        channel.receive()
    assert issubclass(roamlet.ChannelClosed, roamlet.RoamletError)


# ---- iteration ----


def test_a_for_loop_takes_what_comes_and_ends_when_the_channel_is_closed():
    channel, got = roamlet.channel(), []

    def consumer():
        for value in channel:
            got.append(value)
        got.append("end")

    tasklet = roamlet.tasklet(consumer)()
    roamlet.run()
    channel.send_sequence("abc")
    assert tasklet.blocked
    channel.close()
    assert got == ["a", "b", "c"]
    roamlet.run()
    assert got == ["a", "b", "c", "end"]
    assert channel.closed


def test_close_ends_every_waiting_loop_and_leaves_waiting_receives():
    channel, ended = roamlet.channel(), []

    def consumer(name):
        for value in channel:
            ended.append(value)
        ended.append(name)

    loops = [roamlet.tasklet(consumer)(name) for name in "ab"]
    plain = roamlet.tasklet(channel.receive)()
    loops.append(roamlet.tasklet(consumer)("c"))
    roamlet.run()
    channel.close()
    assert channel.balance == -1 and channel.queue is plain
    roamlet.run()
    assert ended == ["a", "b", "c"]
    assert not any(tasklet.alive for tasklet in loops)
    plain.kill()


def test_a_loop_over_a_closed_channel_takes_what_waits_and_ends():
    channel, log = roamlet.channel(), []
    for name in "abc":
        roamlet.tasklet(sender)(channel, name, log)
    roamlet.run()
    channel.close()
    assert list(channel) == ["a", "b", "c"]
    assert list(channel) == []
    roamlet.run()


def test_an_iterator_goes_on_after_the_channel_was_opened_again():
    channel = roamlet.channel()
    channel.close()
    assert iter(channel) is channel
    with pytest.raises(StopIteration):
        next(channel)
    channel.open()
    roamlet.tasklet(channel.send)(7)
    assert next(channel) == 7
    roamlet.run()


def test_a_loop_ends_at_a_sent_stop_iteration_as_in_stackless():
    channel, got = roamlet.channel(), []

    def producer():
        channel.send_sequence(range(3))
        channel.send_exception(StopIteration)

    def consumer():
        got.extend(channel)

    roamlet.tasklet(producer)()
    roamlet.tasklet(consumer)()
    roamlet.run()
    assert got == [0, 1, 2]
    assert not channel.closed


def test_an_error_sent_to_a_loop_is_raised_from_it():
    channel = roamlet.channel()
    roamlet.tasklet(channel.send_exception)(KeyError, "sent")
    with pytest.raises(KeyError, match="sent"):
        list(channel)
    roamlet.run()


def test_a_loop_woken_by_close_can_be_killed_before_it_runs():
    channel, log = roamlet.channel(), []

    def consumer():
        try:
            for _ in channel:
                pass
            log.append("ended")
        except roamlet.TaskletExit:
            log.append("killed")
            raise

    tasklet = roamlet.tasklet(consumer)()
    roamlet.run()
    channel.close()
    tasklet.kill()
    assert log == ["killed"]
    channel.open()
    roamlet.tasklet(channel.send)(1)
    roamlet.run()
    assert channel.receive() == 1
    roamlet.run()


def test_a_tasklet_whose_loop_was_ended_by_close_receives_values_afterwards():
    channel, other, got = roamlet.channel(), roamlet.channel(), []

    def consumer():
        got.extend(channel)
        got.append(other.receive())

    roamlet.tasklet(consumer)()
    roamlet.run()
    channel.close()
    roamlet.run()
    other.send(None)
    assert got == [None]


# ---- errors in place of values ----


def test_send_exception_builds_the_exception_and_raises_it_in_the_receiver():
    channel, caught = roamlet.channel(), []

    def function():
        try:
            channel.receive()
        except ValueError as error:
            caught.append(error.args)

    roamlet.tasklet(function)()
    roamlet.run()
    channel.send_exception(ValueError, 1, 2, 3)
    roamlet.tasklet(channel.send_exception)(ValueError(4))
    with pytest.raises(ValueError, match="4"):
        channel.receive()
    roamlet.run()
    assert caught == [(1, 2, 3)]


def test_send_exception_waits_for_a_receiver_as_send_does():
    channel = roamlet.channel()
    tasklet = roamlet.tasklet(channel.send_exception)(LookupError, "waited")
    roamlet.run()
    assert tasklet.blocked and channel.balance == 1
    with pytest.raises(LookupError, match="waited"):
        channel.receive()
    roamlet.run()
    assert not tasklet.alive


def test_send_throw_keeps_the_traceback_of_what_it_sends():
    channel = roamlet.channel()

    def origin():
        raise ValueError(1, 2)

    def function():
        try:
            origin()
        except ValueError:
            channel.send_throw(*sys.exc_info())

    roamlet.tasklet(function)()
    arguments, names = raised_by(channel.receive)
    assert arguments == (1, 2)
    assert (names[0], names[-1]) == ("raised_by", "origin")
    roamlet.run()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (lambda: (ValueError,), ()),
        (lambda: (ValueError, None), ()),
        (lambda: (ValueError, "text"), ("text",)),
        (lambda: (ValueError, (1, 2)), (1, 2)),
        (lambda: (ValueError, ValueError(5)), (5,)),
        (lambda: (ValueError(6),), (6,)),
        (lambda: (ValueError(7), None, None), (7,)),
    ],
)
def test_send_throw_takes_the_forms_of_a_raise_with_three_arguments(arguments, expected):
    channel = roamlet.channel()
    roamlet.tasklet(channel.send_throw)(*arguments())
    assert raised_by(channel.receive)[0] == expected
    roamlet.run()


def test_an_exception_object_sent_as_a_value_is_not_raised():
    channel = roamlet.channel()
    roamlet.tasklet(channel.send)(ValueError("plain"))
    assert repr(channel.receive()) == "ValueError('plain')"
    roamlet.run()


# ---- sequences ----


def test_send_sequence_sends_each_value_and_returns_their_number():
    channel, got, counts = roamlet.channel(), [], []
    roamlet.tasklet(lambda: counts.append(channel.send_sequence(number * 2 for number in range(5))))()
    got.extend(channel.receive() for _ in range(5))
    roamlet.run()
    assert (got, counts) == ([0, 2, 4, 6, 8], [5])


def test_send_sequence_of_nothing_sends_nothing_and_does_not_switch():
    channel = roamlet.channel()
    assert channel.send_sequence([]) == 0
    assert channel.balance == 0


def test_send_sequence_over_another_channel_is_a_pipe():
    first, second, got = roamlet.channel(), roamlet.channel(), []
    roamlet.tasklet(second.send_sequence)(first)
    roamlet.tasklet(lambda: got.extend(second))()
    roamlet.run()
    first.send_sequence("abc")
    first.close()
    roamlet.run()
    second.close()
    roamlet.run()
    assert got == ["a", "b", "c"]


def test_an_error_of_the_iterable_comes_out_of_send_sequence_after_what_was_sent():
    channel, got = roamlet.channel(), []

    def values():
        yield 1
        raise LookupError("no more")

    roamlet.tasklet(lambda: got.append(channel.receive()))()
    roamlet.run()
    with pytest.raises(LookupError, match="no more"):
        channel.send_sequence(values())
    assert got == [1]


# ---- the object itself ----


def test_channels_can_be_subclassed_with_other_arguments_and_attributes():
    class Named(roamlet.channel):
        def __init__(self, name, *, size=0):
            super().__init__()
            self.name, self.size = name, size

    channel = Named("jobs", size=3)
    roamlet.tasklet(channel.send)(1)
    assert (channel.receive(), channel.name, channel.size) == (1, "jobs", 3)
    roamlet.run()


def test_repr_tells_who_waits_and_whether_it_is_closed():
    channel = roamlet.channel()
    assert repr(channel).startswith("<roamlet.channel at 0x")
    tasklets = [roamlet.tasklet(channel.receive)() for _ in range(2)]
    roamlet.run()
    assert repr(channel).endswith(", 2 to receive waiting>")
    channel.close()
    assert " closing, 2 to receive waiting>" in repr(channel)
    for tasklet in tasklets:
        tasklet.kill()
    assert repr(channel).endswith(" closed>")


def test_channels_take_weak_references_and_type_arguments():
    channel = roamlet.channel[int]()
    gone = weakref.ref(channel)
    assert gone() is channel
    del channel
    assert gone() is None


@pytest.mark.parametrize(("value", "sign"), [(2, 1), (-2, -1), (10**30, 1), (-(10**30), -1), (True, 1), (False, 0)])
def test_the_sign_of_a_preference_counts(value, sign):
    channel = roamlet.channel()
    channel.preference = value
    assert channel.preference == sign


@pytest.mark.parametrize("value", ["1", None, 1.0, [1]])
def test_a_preference_that_is_no_integer_is_refused(value):
    channel = roamlet.channel()
    with pytest.raises(TypeError, match="preference must be set to an integer"):
        channel.preference = value
    with pytest.raises(TypeError, match="schedule_all must be set to a bool or integer"):
        channel.schedule_all = value
    with pytest.raises(TypeError, match="preference must be set"):
        del channel.preference
    assert (channel.preference, channel.schedule_all) == (-1, False)


@pytest.mark.parametrize("name", ["balance", "queue", "closing", "closed"])
def test_what_a_channel_tells_of_itself_cannot_be_set(name):
    with pytest.raises(AttributeError):
        setattr(roamlet.channel(), name, 1)


@pytest.mark.parametrize("bad", [None, 3, "ValueError", int, [ValueError]])
def test_what_is_no_exception_cannot_be_sent_as_one(bad):
    channel = roamlet.channel()
    for send in (channel.send_exception, channel.send_throw):
        with pytest.raises(TypeError, match="takes an exception class with its arguments, or one exception instance"):
            send(bad)
    assert channel.balance == 0


def test_an_exception_instance_takes_no_further_arguments():
    with pytest.raises(TypeError, match="one exception instance"):
        roamlet.channel().send_exception(ValueError(1), 2)


def test_an_exception_class_that_cannot_be_built_fails_in_the_sender():
    class Awkward(Exception):
        def __init__(self, needed):
            super().__init__(needed)

    class Liar(Exception):
        def __new__(cls):
            return 42

    channel = roamlet.channel()
    with pytest.raises(TypeError, match="needed"):
        channel.send_exception(Awkward)
    with pytest.raises(TypeError, match="gave 42, which is no exception"):
        channel.send_exception(Liar)
    with pytest.raises(TypeError, match="an exception class and its arguments"):
        channel.send_exception()
    with pytest.raises(TypeError, match="traceback or None, not int"):
        channel.send_throw(ValueError, None, 5)


def test_what_is_given_back_is_received_before_what_others_wait_to_send():
    channel = roamlet.channel()
    for value in ("c", "d"):
        roamlet.tasklet(channel.send)(value)
    roamlet.schedule()
    channel.close()
    for value in ("b", "a"):
        roamlet.tasklet(channel.give_back)(value)
    roamlet.schedule()
    assert channel.balance == 4
    assert list(channel) == ["a", "b", "c", "d"]
    roamlet.run()


def test_what_is_given_back_is_met_at_once_by_who_waits_and_may_be_an_exception():
    channel = roamlet.channel()
    got = []
    roamlet.tasklet(lambda: got.append(channel.receive()))()
    roamlet.schedule()
    channel.give_back(5)
    assert got == [5]
    roamlet.tasklet(channel.give_back)(KeyError("k"), True)
    with pytest.raises(KeyError):
        channel.receive()
    with pytest.raises(TypeError, match="no exception instance"):
        channel.give_back("text", True)
    with pytest.raises(TypeError, match="takes a value and whether"):
        channel.give_back()
    roamlet.run()
