"""select: whoever comes first to one of several channels, once, and no trace of the others."""

import gc
import random
import threading
import weakref

import pytest

import roamlet
from tests.core._threads import in_thread


@pytest.fixture(autouse=True)
def who_was_met_ends():
    """A sender that was met goes on when the test is over."""
    yield
    roamlet.run()


def selecting(log, *cases, **options):
    """A tasklet that selects and notes what it got, or what was raised."""

    def function():
        try:
            log.append(roamlet.select(*cases, **options))
        except BaseException as error:
            log.append(type(error))
            raise

    tasklet = roamlet.tasklet(function)()
    roamlet.schedule()
    return tasklet


def ended(*tasklets):
    for tasklet in tasklets:
        tasklet.kill()


# ---- tasklets that wait already ----


def test_a_sender_that_waits_is_met():
    a, b = roamlet.channel(), roamlet.channel()
    roamlet.tasklet(b.send)("value")
    roamlet.schedule()
    assert roamlet.select(a, b) == (b, "value")
    assert (a.balance, b.balance) == (0, 0)


def test_a_receiver_that_waits_is_met():
    a, b, got = roamlet.channel(), roamlet.channel(), []
    roamlet.tasklet(lambda: got.append(b.receive()))()
    roamlet.schedule()
    assert roamlet.select(a, (b, "value")) == (b, None)
    assert got == ["value"]


def test_an_exception_that_is_sent_is_raised():
    a, b = roamlet.channel(), roamlet.channel()
    roamlet.tasklet(a.send_exception)(KeyError, "sent")
    roamlet.schedule()
    with pytest.raises(KeyError, match="sent"):
        roamlet.select(a, b)
    log = []
    waiting = selecting(log, a, b)
    roamlet.tasklet(b.send_exception)(KeyError, "later")
    with pytest.raises(KeyError, match="later"):
        roamlet.run()
    assert (log, waiting.alive) == ([KeyError], False)


def test_of_several_that_are_ready_each_has_its_turn():
    channels = [roamlet.channel() for _ in range(4)]

    def keep_sending(channel):
        while True:
            channel.send(channel)

    senders = [roamlet.tasklet(keep_sending)(channel) for channel in channels]
    roamlet.schedule()
    met = [channels.index(roamlet.select(*channels)[0]) for _ in range(40)]
    assert {channel: met.count(channel) for channel in range(4)} == dict.fromkeys(range(4), 10)
    ended(*senders)


# ---- waiting ----


@pytest.mark.parametrize("preference", [-1, 0, 1])
@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_select_that_waits_is_met_by_a_sender(index, preference):
    channels, log = [roamlet.channel() for _ in range(3)], []
    for channel in channels:
        channel.preference = preference
    waiting = selecting(log, *channels)
    assert (waiting.blocked, "blocked in select" in repr(waiting)) == (True, True)
    channels[index].send("value")
    assert bool(log) == (preference == -1)
    roamlet.run()
    assert log == [(channels[index], "value")]
    assert [channel.balance for channel in channels] == [0] * 3


@pytest.mark.parametrize("preference", [-1, 0, 1])
def test_a_select_that_waits_is_met_by_a_receiver(preference):
    a, b, log = roamlet.channel(), roamlet.channel(), []
    a.preference = b.preference = preference
    selecting(log, (a, 1), (b, 2))
    assert b.receive() == 2
    assert bool(log) == (preference == 1)
    roamlet.run()
    assert log == [(b, None)]


def test_a_select_that_waits_is_met_by_a_loop_over_the_channel():
    a, b, log = roamlet.channel(), roamlet.channel(), []
    selecting(log, (a, 1), b)
    for value in a:
        log.append(value)
        a.close()
    roamlet.run()
    assert log == [1, (a, None)]


def test_two_selects_on_both_sides_of_a_channel_meet():
    a, b, c, log = roamlet.channel(), roamlet.channel(), roamlet.channel(), []
    selecting(log, a, (b, "from one"))
    selecting(log, b, (c, "from the other"))
    roamlet.run()
    assert sorted(log, key=str) == sorted([(b, None), (b, "from one")], key=str)
    assert [channel.balance for channel in (a, b, c)] == [0] * 3


def test_a_select_that_does_not_wait_meets_one_that_does():
    a, b, log = roamlet.channel(), roamlet.channel(), []
    selecting(log, a, b)
    assert roamlet.select((b, 5), default="nobody") == (b, None)
    roamlet.run()
    assert log == [(b, 5)]
    assert roamlet.select((b, 6), default="nobody") == (None, "nobody")


def test_who_waits_at_the_channel_alone_goes_first():
    channel, log = roamlet.channel(), []
    selecting(log, channel)
    alone = roamlet.tasklet(lambda: log.append(channel.receive()))()
    roamlet.schedule()
    channel.send("first")
    assert log == [(channel, "first")] or log == ["first"]
    channel.send("second")
    assert len(log) == 2
    assert not alone.alive


def test_selects_at_one_channel_are_met_in_the_order_in_which_they_came():
    channel, other, logs = roamlet.channel(), roamlet.channel(), [[], [], []]
    for log in logs:
        selecting(log, other, channel)
    for number in range(3):
        channel.send(number)
        assert [len(log) for log in logs] == [1] * (number + 1) + [0] * (2 - number)


def test_a_select_of_one_channel_is_a_receive():
    channel = roamlet.channel()
    roamlet.tasklet(channel.send)(5)
    assert roamlet.select(channel) == (channel, 5)


def test_a_value_that_would_be_a_case_is_a_value():
    a, log = roamlet.channel(), []
    selecting(log, a)
    a.send((a, 1))
    assert log == [(a, (a, 1))]


def test_none_can_be_sent():
    a, log = roamlet.channel(), []
    selecting(log, (a, None))
    assert a.receive() is None
    roamlet.run()
    assert log == [(a, None)]


# ---- default, time-outs, cancelling, kill: no trace is left ----


def test_with_a_default_it_does_not_wait():
    a, b = roamlet.channel(), roamlet.channel()
    marker = object()
    assert roamlet.select(a, (b, 1), default=marker) == (None, marker)
    assert roamlet.select(a, default=None) == (None, None)
    roamlet.tasklet(a.send)(1)
    roamlet.schedule()
    assert roamlet.select(a, default=None) == (a, 1)


def still_clean(*channels):
    """Whether no tasklet waits at these channels."""
    return all(
        (channel.balance, *roamlet.select(channel, default=0), *roamlet.select((channel, 1), default=0))
        == (0, None, 0, None, 0)
        for channel in channels
    )


def test_a_time_out_leaves_no_trace(clock):
    a, b = roamlet.channel(), roamlet.channel()
    with pytest.raises(TimeoutError, match=r"select\(\): none of the 2 channels was ready within 2\.5 seconds"):
        roamlet.select(a, (b, 1), timeout=2.5)
    assert still_clean(a, b)
    assert clock.jumps == [2.5]


def test_who_comes_in_time_leaves_no_timer(clock):
    a, log = roamlet.channel(), []
    selecting(log, a, timeout=5)
    a.send(1)
    roamlet.run()
    assert (log, clock.jumps) == ([(a, 1)], [])


def test_a_kill_leaves_no_trace():
    a, b, log = roamlet.channel(), roamlet.channel(), []
    selecting(log, a, (b, 1)).kill()
    assert log == [roamlet.TaskletExit]
    assert still_clean(a, b)


def test_between_a_kill_and_its_end_nobody_meets_it():
    a, b, log = roamlet.channel(), roamlet.channel(), []
    selecting(log, a, (b, 1)).kill(pending=True)
    assert still_clean(a, b)
    assert log == []
    roamlet.run()
    assert log == [roamlet.TaskletExit]


def test_a_scope_and_a_time_out_around_it_end_it(clock):
    a, b = roamlet.channel(), roamlet.channel()
    with pytest.raises(TimeoutError), roamlet.timeout(2):
        roamlet.select(a, (b, 1))
    assert still_clean(a, b)
    with roamlet.scope() as s:
        s.spawn(roamlet.select, (a, b))
        roamlet.schedule()
        s.cancel()
    assert still_clean(a, b)


def test_a_value_that_came_before_the_scope_was_cancelled_is_had():
    a, log = roamlet.channel(), []
    a.preference = 0
    with roamlet.scope() as s:
        s.spawn(lambda: log.append(roamlet.select(a)))
        roamlet.schedule()
        a.send("in time")
        s.cancel()
    assert log == [(a, "in time")]


def test_another_exception_than_a_kill_that_comes_with_a_value_waits_for_the_next_call():
    a, log = roamlet.channel(), []
    a.preference = 0

    def function():
        log.append(roamlet.select(a))
        try:
            roamlet.sleep(0)
        except KeyError as error:
            log.append(error.args)

    tasklet = roamlet.tasklet(function)()
    roamlet.schedule()
    a.send("value")
    tasklet.throw(KeyError, "thrown")
    roamlet.run()
    assert log == [(a, "value"), ("thrown",)]


def test_block_trap_and_switch_trap_forbid_the_wait_only():
    a = roamlet.channel()
    roamlet.tasklet(a.send)(1)
    roamlet.schedule()
    roamlet.getcurrent().block_trap = True
    try:
        assert roamlet.select(a) == (a, 1)
        with pytest.raises(RuntimeError, match="does not like to be blocked"):
            roamlet.select(a)
    finally:
        roamlet.getcurrent().block_trap = False
    assert still_clean(a)


def test_nobody_can_ever_come_is_a_deadlock():
    a, b = roamlet.channel(), roamlet.channel()
    with pytest.raises(roamlet.Deadlock, match="main, blocked in select"):
        roamlet.select(a, (b, 1))
    assert still_clean(a, b)


# ---- closed channels ----


def test_a_closed_channel_raises_when_no_other_can_be_met():
    a, b = roamlet.channel(), roamlet.channel()
    a.close()
    roamlet.tasklet(b.send)(1)
    roamlet.schedule()
    assert roamlet.select(a, b) == (b, 1)
    for case in (a, (a, 1)):
        with pytest.raises(
            roamlet.ChannelClosed, match=f"{a!r} was closed and nothing waits in it".replace("(", r"\(")
        ):
            roamlet.select(case, b)
        with pytest.raises(roamlet.ChannelClosed):
            roamlet.select(case, b, default=None)


def test_what_waits_in_a_closing_channel_is_still_met():
    a = roamlet.channel()
    roamlet.tasklet(a.send)(1)
    roamlet.schedule()
    a.close()
    assert roamlet.select(a) == (a, 1)


@pytest.mark.parametrize("sends", [False, True])
def test_closing_ends_a_select_that_waits(sends):
    a, b, log = roamlet.channel(), roamlet.channel(), []
    selecting(log, b, (a, 1) if sends else a)
    a.close()
    with pytest.raises(roamlet.ChannelClosed):
        roamlet.run()
    assert log == [roamlet.ChannelClosed]
    assert still_clean(b)


def test_a_channel_that_is_opened_again_before_the_select_has_run_is_waited_for():
    a, log = roamlet.channel(), []
    selecting(log, a)
    a.close()
    a.open()
    roamlet.run()
    assert log == []
    a.send(1)
    assert log == [(a, 1)]


# ---- misuse ----


@pytest.mark.parametrize("bad", [None, 3, (), (1,), [1, 2], ("no channel", 1)])
def test_what_is_no_case_is_refused(bad):
    with pytest.raises(TypeError, match=r"select\(\) takes channels to receive from and \(channel, value\) pairs"):
        roamlet.select(roamlet.channel(), bad)


def test_three_things_are_no_case():
    with pytest.raises(TypeError, match="takes channels to receive from"):
        roamlet.select((roamlet.channel(), 1, 2))


def test_no_case_at_all_is_refused():
    with pytest.raises(ValueError, match=r"select\(\) takes at least one case"):
        roamlet.select()


@pytest.mark.parametrize("twice", [lambda c: (c, c), lambda c: (c, (c, 1)), lambda c: ((c, 1), (c, 2))])
def test_a_channel_stands_there_once(twice):
    channel = roamlet.channel()
    with pytest.raises(ValueError, match="stands there twice; one case a channel"):
        roamlet.select(*twice(channel), roamlet.channel())
    roamlet.tasklet(channel.send)(1)
    assert roamlet.select(channel) == (channel, 1)


def test_timeout_and_default_exclude_each_other():
    with pytest.raises(TypeError, match="timeout, to wait so long, or default, not to wait, and not both"):
        roamlet.select(roamlet.channel(), timeout=1, default=None)
    with pytest.raises(TypeError, match="unexpected keyword argument 'wait'"):
        roamlet.select(roamlet.channel(), wait=1)


@pytest.mark.parametrize(("bad", "error"), [(-1, ValueError), (float("nan"), ValueError), ("1", TypeError)])
def test_a_time_out_that_is_no_number_from_0_on_is_refused(bad, error):
    with pytest.raises(error, match=r"select\(timeout\) takes a number of seconds"):
        roamlet.select(roamlet.channel(), timeout=bad)


def test_a_channel_where_a_select_waits_is_not_pickled():
    channel = roamlet.channel()
    waiting = selecting([], channel)
    with pytest.raises(TypeError, match="tasklets wait there"):
        channel.__reduce__()
    ended(waiting)


# ---- memory ----


class Value:
    pass


def test_values_are_freed_however_it_ends():
    a, b = roamlet.channel(), roamlet.channel()
    gone = []
    for how in ("met", "killed", "default", "closed"):
        value = Value()
        gone.append(weakref.ref(value))
        if how == "default":
            roamlet.select((a, value), default=None)
        else:
            waiting = selecting([], (a, value), b)
            del value
            if how == "met":
                a.receive()
            elif how == "killed":
                ended(waiting)
            else:
                a.close()
                with pytest.raises(roamlet.ChannelClosed):
                    roamlet.run()
        value = waiting = None
    roamlet.run()
    assert [ref() for ref in gone] == [None] * 4


def test_a_select_that_nothing_can_wake_is_found_by_the_collector():
    log = []

    def function():
        a, b = roamlet.channel(), roamlet.channel()
        try:
            roamlet.select(a, (b, 1))
        finally:
            log.append("ended")

    roamlet.tasklet(function)()
    roamlet.schedule()
    gc.collect()
    kept = roamlet.core.started()
    for tasklet in kept:
        tasklet.kill()
    assert log == ["ended"]
    assert kept == [] or roamlet.core.backend == "greenlet"  # where frames are not seen, the channels are held


def test_a_select_that_somebody_can_wake_is_kept():
    a, b, log = roamlet.channel(), roamlet.channel(), []
    selecting(log, a, b)
    gc.collect()
    b.send(1)
    assert log == [(b, 1)]


# ---- threads ----


def test_partners_in_another_thread():
    a, b = roamlet.channel(), roamlet.channel()
    thread = threading.Thread(target=lambda: (b.send("over there"), a.send("and again")))
    thread.start()
    assert roamlet.select(a, b) == (b, "over there")
    assert roamlet.select(a, b) == (a, "and again")
    thread.join()


def test_selects_in_two_threads_meet():
    a, b = roamlet.channel(), roamlet.channel()
    rounds = 300

    def other():
        return [roamlet.select((a, number), (b, number))[0] is a for number in range(rounds)]

    got = []
    thread = threading.Thread(target=lambda: got.append(other()))
    thread.start()
    values = [roamlet.select(a, b) for _ in range(rounds)]
    thread.join()
    assert [value for _, value in values] == list(range(rounds))
    assert [channel is a for channel, _ in values] == got[0]


def test_in_a_thread_without_tasklets():
    assert in_thread(lambda: roamlet.select(roamlet.channel(), default="nobody")) == (None, "nobody")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("threads", [0, 2])
def test_a_storm_of_selects_sends_receives_kills_and_time_outs_loses_nothing(seed, threads):
    """Each value is received once; a value whose sender was killed or gave up is not received."""
    channels = [roamlet.channel(size) for size in (0, 0, 0, 0, 1, 3)]
    for number, channel in enumerate(channels):
        channel.preference = (-1, 0, 1, -1, 0, 1)[number]
    received, sent = [], []
    per_sender, senders = 40, 6

    def send(name, choose):
        for number in range(per_sender):
            value = (name, number)
            while True:
                some = choose.sample(channels, choose.randint(1, 3))
                try:
                    roamlet.select(*((channel, value) for channel in some), timeout=choose.choice([0, 0.001, 1]))
                except TimeoutError:
                    continue
                sent.append(value)
                break
        finished.append(name)

    def receive(choose):
        while True:
            some = choose.sample(channels, choose.randint(1, 3))
            try:
                _, value = roamlet.select(*some, timeout=choose.choice([0.001, 0.01]))
            except TimeoutError:
                if len(finished) == senders and not any(channel.buffered for channel in channels):
                    return
                continue
            received.append(value)

    def work(first, step):
        with roamlet.scope() as s:
            for name in range(first, senders, step):
                s.spawn(send, (name, random.Random(seed * 100 + name)))
            for number in range(first, 4, step):
                s.spawn(receive, (random.Random(seed * 1000 + number),))

    finished = []
    started = [threading.Thread(target=work, args=(number + 1, threads + 1)) for number in range(threads)]
    for thread in started:
        thread.start()
    work(0, threads + 1)
    for thread in started:
        thread.join()
    expected = [(name, number) for name in range(senders) for number in range(per_sender)]
    assert sorted(received) == sorted(sent) == expected
    assert still_clean(*channels[:4])
    assert [(channel.buffered, channel.balance) for channel in channels[4:]] == [(0, 0)] * 2
    assert [roamlet.select(channel, default="empty")[1] for channel in channels[4:]] == ["empty"] * 2
