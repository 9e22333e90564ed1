"""Channels with a buffer: values that wait without a receiver, and what becomes of senders when it is full."""

import contextlib
import copy
import gc
import pickle
import subprocess
import sys
import threading
import weakref

import pytest

import roamlet
from roamlet import core


def filled(size, *values):
    channel = roamlet.channel(size)
    for value in values:
        channel.send(value)
    return channel


def senders(channel, *values):
    made = [roamlet.tasklet(channel.send)(value) for value in values]
    roamlet.run()
    return made


# ---- what a buffer does ----


def test_values_wait_up_to_the_size_and_the_next_sender_waits():
    channel, sent = roamlet.channel(buffer=2), []

    def send():
        for value in range(4):
            channel.send(value)
            sent.append(value)

    roamlet.tasklet(send)()
    roamlet.run()
    assert (sent, channel.buffered, channel.balance) == ([0, 1], 2, 1)
    assert channel.receive() == 0
    assert (channel.buffered, channel.balance) == (2, 0)  # the sender's value has the room at once, and it goes on
    roamlet.run()
    assert (sent, channel.balance) == ([0, 1, 2], 1)
    assert [channel.receive() for _ in range(3)] == [1, 2, 3]
    assert (channel.buffered, channel.balance) == (0, 0)
    roamlet.run()


@pytest.mark.parametrize("make", [roamlet.channel, lambda: roamlet.channel(0), lambda: roamlet.channel(buffer=0)])
def test_without_a_buffer_each_send_meets_a_receive(make):
    channel = make()
    assert (channel.buffer, channel.buffered, channel.preference) == (0, 0, -1)
    senders(channel, 1)
    assert channel.balance == 1
    assert channel.receive() == 1
    roamlet.run()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 100, 5000])
def test_values_come_in_their_order_however_the_ring_turns(size):
    channel, expected = roamlet.channel(size), iter(range(10**6))
    sent = 0
    for amount in (size, 1, size // 2, size - 1, size, 3):
        while channel.buffered < min(size, amount):
            channel.send(sent)
            sent += 1
        for _ in range((channel.buffered + 1) // 2):
            assert channel.receive() == next(expected)
    assert [channel.receive() for _ in range(channel.buffered)] == list(range(next(expected), sent))


def test_a_receiver_that_waits_gets_the_value_and_the_sender_goes_on():
    channel, log = roamlet.channel(2), []
    roamlet.tasklet(lambda: log.append(channel.receive()))()
    roamlet.run()
    channel.send("a")
    channel.send("b")
    assert (log, channel.buffered, channel.balance) == ([], 1, 0)
    roamlet.run()
    assert log == ["a"]
    assert channel.receive() == "b"


@pytest.mark.parametrize(
    ("preference", "expected"), [(-1, ["got", "sent"]), (0, ["sent", "got"]), (1, ["sent", "got"])]
)
def test_who_runs_on_when_a_receiver_waits(preference, expected):
    channel, log = roamlet.channel(2), []
    channel.preference = preference
    roamlet.tasklet(lambda: [channel.receive(), log.append("got")])()
    roamlet.run()
    channel.send(1)
    log.append("sent")
    roamlet.run()
    assert log == expected


@pytest.mark.parametrize(
    ("preference", "expected"), [(-1, ["got", "sent"]), (0, ["got", "sent"]), (1, ["sent", "got"])]
)
def test_who_runs_on_when_a_sender_waits_for_room(preference, expected):
    channel, log = filled(1, 0), []
    channel.preference = preference
    roamlet.tasklet(lambda: [channel.send(1), log.append("sent")])()
    roamlet.run()
    assert channel.receive() == 0
    log.append("got")
    roamlet.run()
    assert log == expected
    assert channel.receive() == 1


def test_schedule_all_lets_the_next_tasklet_run_at_each_operation():
    channel, log = roamlet.channel(2), []
    channel.schedule_all = True
    for name in "ab":
        roamlet.tasklet(log.append)(name)
        if name == "a":
            channel.send(1)
        else:
            assert channel.receive() == 1
        log.append("main")
    assert log == ["a", "main", "b", "main"]
    channel.send(1)  # alone
    assert channel.receive() == 1


def test_the_default_preference_is_that_of_neither_where_there_is_a_buffer():
    assert roamlet.channel(3).preference == 0


# ---- closing, iterating, errors ----


def test_what_waits_in_a_closed_channel_is_received_and_no_value_comes_in():
    channel = filled(2, 1, 2)
    waiting = senders(channel, 3)
    channel.close()
    assert (channel.closing, channel.closed) == (True, False)
    assert channel.receive() == 1
    assert (channel.buffered, channel.balance, waiting[0].blocked) == (2, 0, False)  # the sender was there before
    with pytest.raises(roamlet.ChannelClosed):
        channel.send(4)
    assert channel.receive() == 2
    with pytest.raises(roamlet.ChannelClosed):
        channel.send(4)  # although there is room
    assert list(channel) == [3]
    assert channel.closed
    with pytest.raises(roamlet.ChannelClosed):
        channel.receive()
    channel.open()
    channel.send(5)
    assert channel.receive() == 5
    roamlet.run()


def test_a_loop_takes_the_values_and_those_of_waiting_senders_and_ends():
    channel, got = filled(2, 1, 2), []
    senders(channel, 3, 4)
    channel.close()
    got.extend(channel)
    assert got == [1, 2, 3, 4]
    roamlet.run()


def test_close_ends_a_loop_that_waits():
    channel, got = roamlet.channel(2), []
    roamlet.tasklet(lambda: got.append(list(channel)))()
    roamlet.run()
    channel.close()
    roamlet.run()
    assert got == [[]]


def test_exceptions_keep_their_place_among_the_values():
    channel = roamlet.channel(4)
    channel.send(1)
    channel.send_exception(KeyError, "k")
    channel.send_throw(LookupError("l"))
    channel.send(4)
    assert (channel.buffered, channel.receive()) == (4, 1)
    roamlet.tasklet(channel.send_exception)(OSError, "o")
    roamlet.tasklet(channel.send_exception)(ValueError, "v")  # waits
    roamlet.run()
    with pytest.raises(KeyError):
        channel.receive()
    with pytest.raises(LookupError, match="l"):
        next(channel)
    assert channel.receive() == 4
    for kind in (OSError, ValueError):
        with pytest.raises(kind):
            channel.receive()
    roamlet.run()


def test_an_exception_sent_as_a_value_is_a_value():
    channel, error = roamlet.channel(1), KeyError("k")
    channel.send(error)
    assert channel.receive() is error


def test_send_sequence_fills_the_buffer_and_waits():
    channel, done = roamlet.channel(3), []
    roamlet.tasklet(lambda: done.append(channel.send_sequence(range(5))))()
    roamlet.run()
    assert (done, channel.buffered) == ([], 3)
    got = []
    for _ in range(5):
        got.append(channel.receive())
        roamlet.run()
    assert (got, done) == ([0, 1, 2, 3, 4], [5])


def test_what_is_given_back_is_the_first_also_where_the_buffer_is_full_or_closed():
    channel = filled(2, "c", "d")
    senders(channel, "e")
    channel.close()
    channel.give_back("b")
    channel.give_back(KeyError("a"), True)
    assert (channel.buffered, channel.balance) == (4, 1)
    with pytest.raises(KeyError):
        channel.receive()
    assert (channel.receive(), channel.buffered, channel.balance) == ("b", 2, 1)  # no room for the sender before
    assert list(channel) == ["c", "d", "e"]
    roamlet.run()


def test_what_is_given_back_goes_to_a_receiver_that_waits():
    channel, got = roamlet.channel(2), []
    roamlet.tasklet(lambda: got.append(channel.receive()))()
    roamlet.run()
    channel.give_back(1)
    roamlet.run()
    assert (got, channel.buffered) == ([1], 0)


# ---- ends of tasklets ----


def test_a_sender_killed_before_there_is_room_takes_its_value_with_it():
    channel = filled(1, 0)
    first, _second = senders(channel, 1, 2)
    first.kill()
    assert [channel.receive(), channel.receive(), channel.buffered] == [0, 2, 0]
    roamlet.run()


def test_a_sender_killed_after_its_value_was_let_in_leaves_it():
    channel = filled(1, 0)
    (sender,) = senders(channel, 1)
    assert channel.receive() == 0
    sender.kill()
    assert channel.receive() == 1


def test_a_receiver_killed_while_it_waits_gets_nothing():
    channel = roamlet.channel(1)
    receiver = roamlet.tasklet(channel.receive)()
    roamlet.run()
    receiver.kill()
    channel.send(1)
    assert (channel.buffered, channel.balance, channel.receive()) == (1, 0, 1)


@pytest.mark.parametrize("sends", [True, False])
def test_a_time_out_ends_the_wait_and_leaves_the_values(clock, sends):
    channel = filled(1, 7) if sends else roamlet.channel(1)
    with pytest.raises(TimeoutError), roamlet.timeout(3):
        channel.send(8) if sends else channel.receive()
    assert (channel.buffered, channel.balance) == (int(sends), 0)
    channel.close()
    assert list(channel) == ([7] if sends else [])


def test_a_deadlock_tells_that_the_buffer_is_full():
    channel = filled(1, 0)
    with pytest.raises(roamlet.Deadlock, match=r"for <roamlet\.channel at 0x\w+, 1 of 1 buffered, 1 to send waiting>"):
        channel.send(1)
    assert (channel.buffered, channel.balance) == (1, 0)


def test_block_trap_forbids_the_wait_alone():
    channel, main = roamlet.channel(1), roamlet.getcurrent()
    main.block_trap = True
    try:
        channel.send(1)
        with pytest.raises(RuntimeError, match="block_trap"):
            channel.send(2)
        assert channel.receive() == 1
        with pytest.raises(RuntimeError, match="block_trap"):
            channel.receive()
    finally:
        main.block_trap = False


def test_where_no_tasklet_may_be_switched_values_still_pass():
    channel = roamlet.channel(2)
    core.switch_trap(1)
    try:
        channel.send(1)
        assert channel.receive() == 1
    finally:
        core.switch_trap(-1)


# ---- select ----


def test_select_receives_from_a_buffer_and_sends_into_one():
    channel, other = filled(2, 1), roamlet.channel()
    assert roamlet.select(channel, other) == (channel, 1)
    assert roamlet.select((channel, 2), other) == (channel, None)
    assert roamlet.select((channel, 3), default="full") == (channel, None)
    assert roamlet.select((channel, 4), default="full") == (None, "full")
    assert [channel.receive(), channel.receive()] == [2, 3]
    assert roamlet.select(channel, default="empty") == (None, "empty")


def test_a_select_that_waits_for_room_has_its_turn_after_those_that_only_send():
    channel, met = filled(1, 0), []
    roamlet.tasklet(lambda: met.append(roamlet.select((channel, 2))))()
    roamlet.run()
    senders(channel, 1)
    assert [channel.receive() for _ in range(3)] == [0, 1, 2]
    roamlet.run()
    assert met == [(channel, None)]


def test_a_select_that_waits_gets_the_value_before_the_buffer_does():
    channel, met = roamlet.channel(2), []
    roamlet.tasklet(lambda: met.append(roamlet.select(channel, roamlet.channel())))()
    roamlet.run()
    channel.send(1)
    assert channel.buffered == 0
    roamlet.run()
    assert met == [(channel, 1)]


def test_select_takes_what_waits_in_a_closed_channel_and_sends_nothing_into_it():
    channel = filled(2, 1)
    channel.close()
    with pytest.raises(roamlet.ChannelClosed):
        roamlet.select((channel, 2))
    assert roamlet.select(channel) == (channel, 1)
    with pytest.raises(roamlet.ChannelClosed):
        roamlet.select(channel)


# ---- threads ----


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_values_pass_between_threads_in_order(size):
    channel, got = roamlet.channel(size), []

    def receive():
        got.extend(channel)

    thread = threading.Thread(target=receive)
    thread.start()
    for value in range(3000):
        channel.send(value)
    channel.close()
    thread.join()
    assert got == list(range(3000))


# ---- values ----


class Uses:
    """A value whose destructor uses the channel that it was in."""

    def __init__(self, channel, log):
        self.channel, self.log = channel, log

    def __del__(self):
        self.log.append(self.channel.buffered)
        if self.channel.buffered < self.channel.buffer:
            self.channel.send("from a destructor")


def test_a_destructor_may_use_the_same_channel():
    channel, log = roamlet.channel(2), []
    channel.send(Uses(channel, log))
    channel.send(Uses(channel, log))
    for left in (1, 1):
        channel.receive()  # dropped at once
        assert log.pop() == left
    assert [channel.receive(), channel.receive()] == ["from a destructor"] * 2


def test_a_channel_that_is_dropped_drops_its_values():
    class Value:
        pass

    value = Value()
    gone = weakref.ref(value)
    channel = filled(2, value)
    del value
    assert gone() is not None
    del channel
    assert gone() is None


def test_a_channel_in_its_own_buffer_is_found_by_the_collector():
    log = []

    class Mark:
        def __del__(self):
            log.append("gone")

    channel = filled(3, Mark())
    channel.send(channel)
    gone = weakref.ref(channel)
    del channel
    gc.collect()
    assert (gone(), log) == (None, ["gone"])


def test_a_destructor_that_sends_while_the_collector_clears_the_channel():
    log = []
    channel = roamlet.channel(2)
    channel.send(Uses(channel, log))
    gone = weakref.ref(channel)
    del channel
    gc.collect()
    gc.collect()
    assert (gone(), len(log)) == (None, 1)


def test_channels_in_channels_are_dropped_without_deep_recursion():
    channel = roamlet.channel(1)
    for _ in range(200_000):
        outer = roamlet.channel(1)
        outer.send(channel)
        channel = outer
    gone = weakref.ref(channel)
    del outer, channel
    assert gone() is None


@pytest.mark.parametrize("taken", [0, 1, 5])
def test_values_keep_their_order_when_the_buffer_gets_more_memory(taken):
    """Its memory doubles while the oldest value lies anywhere in it, and once more after values were given back."""
    channel, values = roamlet.channel(1000), list(range(100))
    for value in values[: taken + 3]:
        channel.send(value)
    assert [channel.receive() for _ in range(taken)] == values[:taken]
    for value in values[taken + 3 :]:
        channel.send(value)
    for value in (-1, -2, -3):
        channel.give_back(value)
    assert [channel.receive() for _ in range(channel.buffered)] == [-3, -2, -1, *values[taken:]]


def test_a_value_is_not_kept_after_it_was_received():
    channel, value = roamlet.channel(1), object()
    before = sys.getrefcount(value)
    channel.send(value)
    assert sys.getrefcount(value) == before + 1
    assert channel.receive() is value
    assert sys.getrefcount(value) == before


def test_memory_is_taken_as_values_come_and_given_back():
    channel = roamlet.channel(sys.maxsize)
    empty = sys.getsizeof(channel)
    assert empty == sys.getsizeof(roamlet.channel())
    for value in range(10_000):
        channel.send(value)
    assert sys.getsizeof(channel) >= empty + 80_000
    for value in range(10_000):
        assert channel.receive() == value
    assert sys.getsizeof(channel) == empty


# ---- making, copying, seeing ----


@pytest.mark.parametrize("bad", [-1, -(10**30), 10**30, sys.maxsize + 1])
def test_a_number_that_is_no_size_is_refused(bad):
    with pytest.raises(
        ValueError, match=rf"channel\(buffer={bad}\): a buffer holds from 0 \(none\) to {sys.maxsize} values"
    ):
        roamlet.channel(bad)


@pytest.mark.parametrize("bad", [1.0, "3", None, True, [], object])
def test_what_is_no_number_is_refused(bad):
    with pytest.raises(TypeError, match=r"channel\(buffer\): how many values may wait"):
        roamlet.channel(buffer=bad)


def test_other_arguments_are_refused():
    with pytest.raises(TypeError, match="at most 1 argument"):
        roamlet.channel(1, 2)
    with pytest.raises(TypeError, match="size"):
        roamlet.channel(size=1)


def test_a_number_is_what_has_an_index():
    class Three:
        def __index__(self):
            return 3

    class Fails:
        def __index__(self):
            raise LookupError("asked")

    assert roamlet.channel(Three()).buffer == 3
    with pytest.raises(LookupError, match="asked"):
        roamlet.channel(Fails())


def test_subclasses_take_arguments_of_their_own_and_say_which_buffer():
    class Named(roamlet.channel):
        def __init__(self, name, *, buffer=0):
            super().__init__(buffer)
            self.name = name

    class Silent(roamlet.channel):
        def __init__(self, name):
            self.name = name

    class Pair(roamlet.channel):
        def __new__(cls, name, size):
            made = super().__new__(cls, size)
            made.name = name
            return made

    class Plain(roamlet.channel):
        pass

    named = Named("jobs", buffer=2)
    assert (named.name, named.buffer, named.preference) == ("jobs", 2, 0)
    assert (Named("jobs").buffer, Silent("jobs").buffer, Pair("jobs", 4).buffer, Plain(3).buffer) == (0, 0, 4, 3)
    with pytest.raises(ValueError, match="buffer=-1"):
        Named("jobs", buffer=-1)
    with pytest.raises(TypeError, match="how many values"):
        Pair("jobs", "many")


def test_the_buffer_is_given_once():
    channel = filled(2, 1)
    channel.__init__()
    channel.__init__(2)
    assert channel.buffer == 2
    with pytest.raises(RuntimeError, match="cannot be changed: tasklets or values wait there"):
        channel.__init__(3)
    with pytest.raises(AttributeError):
        channel.buffer = 3
    with pytest.raises(AttributeError):
        channel.buffered = 0
    assert channel.receive() == 1


def test_a_channel_is_true_also_when_nothing_waits_in_it():
    assert roamlet.channel(3)
    with pytest.raises(TypeError):
        len(roamlet.channel(3))


def test_repr_shows_the_buffer():
    channel = filled(2, 1, 2)
    assert repr(channel).endswith(", 2 of 2 buffered>")
    (sender,) = senders(channel, 3)
    channel.close()
    assert repr(channel).endswith(" closing, 2 of 2 buffered, 1 to send waiting>")
    sender.kill()
    assert list(channel) == [1, 2]
    assert repr(channel).endswith(" closed, 0 of 2 buffered>")


def copied(channel):
    return pickle.loads(pickle.dumps(channel))


@pytest.mark.parametrize("way", [copied, copy.copy, copy.deepcopy])
def test_copies_have_the_values(way):
    channel = filled(3, 1, [2])
    channel.send_exception(KeyError, "k")
    channel.give_back(0)
    channel.preference, channel.schedule_all = 1, True
    channel.close()
    other = way(channel)
    assert (other.buffer, other.buffered, other.preference, other.schedule_all, other.closing) == (3, 4, 1, True, True)
    other.schedule_all = False
    assert [other.receive() for _ in range(3)] == [0, 1, [2]]
    with pytest.raises(KeyError):
        other.receive()
    assert channel.buffered == 4
    for _ in range(4):  # a copy.copy has raised the same exception, whose traceback leads here
        with contextlib.suppress(KeyError):
            channel.receive()


def test_a_channel_in_its_own_buffer_is_copied():
    channel = roamlet.channel(1)
    channel.send(channel)
    other = copied(channel)
    assert other.receive() is other
    channel.receive()


@pytest.mark.parametrize(
    ("buffer", "values"), [(-1, ()), (1, (1,)), (1, (1, 2)), (1, (1, True)), (1, (1, False, 2)), (1, [1, False])]
)
def test_a_state_that_is_none_is_refused(buffer, values):
    channel = roamlet.channel()
    with pytest.raises((ValueError, TypeError)):
        channel.__setstate__((0, False, False, None, buffer, values))
    assert (channel.buffer, channel.buffered) == (0, 0)


def test_a_channel_in_use_takes_no_other_buffer():
    channel = filled(1, 1)
    with pytest.raises(ValueError, match="cannot be replaced"):
        channel.__setstate__((0, False, False, None, 3, (2, False)))
    assert channel.receive() == 1


# ---- callbacks ----


def test_the_channel_callback_is_told_whether_the_operation_will_wait():
    channel, told = roamlet.channel(1), []
    core.set_channel_callback(lambda channel, tasklet, sending, willblock: told.append((sending, willblock)))
    try:
        channel.send(1)
        roamlet.tasklet(channel.send)(2)
        roamlet.run()
        channel.receive()
        channel.receive()
        roamlet.tasklet(channel.receive)().run()
    finally:
        core.set_channel_callback(None)
    assert told == [(True, False), (True, True), (False, False), (False, False), (False, True)]
    channel.send(3)
    roamlet.run()


def test_a_process_ends_while_values_and_senders_wait():
    program = """
import roamlet
class Value:
    def __del__(self): print("gone")
channel = roamlet.channel(1)
channel.send(Value())
roamlet.tasklet(channel.send)(Value())
roamlet.run()
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (run.stdout.split(), run.stderr) == (["gone", "gone"], "")
