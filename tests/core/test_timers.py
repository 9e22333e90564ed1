"""Sleeping and time-outs on a virtual clock; fairness of timers while tasklets run."""

import time

import pytest

import roamlet
from roamlet import core, sync
from roamlet.testing import VirtualClock


def sleeper(name, seconds, log, clock=None):
    roamlet.sleep(seconds)
    log.append((name, clock.now - 1000) if clock else name)


def test_sleepers_wake_by_their_time_and_equal_ones_in_the_order_of_their_start(clock):
    log = []
    for name, seconds in (("a", 3), ("b", 1), ("c", 2), ("d", 1), ("e", 3), ("f", 0)):
        roamlet.tasklet(sleeper)(name, seconds, log, clock)
    roamlet.run()
    assert log == [("f", 0), ("b", 1), ("d", 1), ("c", 2), ("a", 3), ("e", 3)]


def test_the_clock_is_advanced_only_when_nobody_can_run(clock):
    log = []

    def busy():
        for _ in range(50):
            log.append(clock.now)
            roamlet.schedule()

    roamlet.tasklet(roamlet.sleep)(5)
    roamlet.tasklet(busy)()
    roamlet.run()
    assert (set(log), clock.jumps) == ({1000.0}, [5.0])


def test_sleep_of_main_alone(clock):
    assert roamlet.sleep(2.5) is None
    assert clock.now == 1002.5


def test_sleep_zero_lets_the_others_run_once(clock):
    log = []
    roamlet.tasklet(log.append)("other")
    roamlet.sleep(0)
    assert log == ["other"]
    assert clock.now == 1000.0


def test_many_timers_fire_in_order(clock):
    log = []
    times = [(number * 7919) % 1000 / 10 for number in range(1000)]
    for seconds in times:
        roamlet.tasklet(sleeper)(seconds, seconds, log)
    roamlet.run()
    assert log == sorted(times)


def test_killed_sleepers_leave_the_heap_in_order(clock):
    log = []
    tasklets = {}
    for number in range(300):
        seconds = (number * 7919) % 300 + 1
        tasklets[seconds] = roamlet.tasklet(sleeper)(seconds, seconds, log)
    roamlet.schedule()
    for seconds, tasklet in tasklets.items():
        if seconds % 3 == 0:
            tasklet.kill()
    roamlet.run()
    assert log == [seconds for seconds in range(1, 301) if seconds % 3]


def test_a_thrown_error_ends_a_sleep_and_its_timer(clock):
    caught = []

    def function():
        try:
            roamlet.sleep(100)
        except LookupError:
            caught.append(clock.now)
        roamlet.sleep(1)
        caught.append(clock.now)

    tasklet = roamlet.tasklet(function)()
    roamlet.schedule()
    tasklet.throw(LookupError)
    roamlet.run()
    assert (caught, clock.jumps) == ([1000.0, 1001.0], [1.0])


def test_run_waits_for_sleepers_and_run_without_the_hub_does_not(clock):
    log = []
    roamlet.tasklet(sleeper)("slept", 1, log)
    roamlet.run(hub=False)
    assert (log, clock.jumps) == ([], [])
    roamlet.run()
    assert log == ["slept"]


def test_main_blocked_in_a_channel_is_woken_by_a_sleeper(clock):
    channel = roamlet.channel()

    def late():
        roamlet.sleep(10)
        channel.send("late")

    roamlet.tasklet(late)()
    assert channel.receive() == "late"
    roamlet.run()
    assert clock.now == 1010.0


def test_sleepers_that_sleep_again_interleave_by_time(clock):
    log = []

    def ticker(name, period):
        for _ in range(3):
            roamlet.sleep(period)
            log.append((name, clock.now - 1000))

    roamlet.tasklet(ticker)("a", 2)
    roamlet.tasklet(ticker)("b", 3)
    roamlet.run()
    # At 6 both are due; b's timer is the older one.
    assert log == [("a", 2), ("b", 3), ("a", 4), ("b", 6), ("a", 6), ("b", 9)]


@pytest.mark.parametrize("bad", ["1", None, [], 1j])
def test_sleep_refuses_what_is_no_number(bad):
    with pytest.raises(TypeError, match=r"sleep\(\) takes a number of seconds, not"):
        roamlet.sleep(bad)


@pytest.mark.parametrize("bad", [-1, -1e-9, float("nan"), float("-inf")])
def test_sleep_refuses_what_lies_before_now(bad):
    with pytest.raises(ValueError, match=r"sleep\(\) takes a number of seconds from 0 on, not"):
        roamlet.sleep(bad)


def test_sleep_without_end_can_be_ended_by_kill(clock):
    tasklets = [roamlet.tasklet(roamlet.sleep)(seconds) for seconds in (float("inf"), 1e300, 10**30)]
    roamlet.schedule()
    assert all(tasklet.blocked for tasklet in tasklets)
    for tasklet in tasklets:
        tasklet.kill()
    assert clock.jumps == []


def test_an_error_of_the_seconds_object_passes_through():
    class Seconds:
        def __float__(self):
            raise LookupError("no idea")

    with pytest.raises(LookupError, match="no idea"):
        roamlet.sleep(Seconds())


# ---- the real clock ----


def test_sleep_takes_at_least_its_time_and_not_much_more():
    start = time.monotonic()
    roamlet.sleep(0.05)
    passed = time.monotonic() - start
    assert 0.05 <= passed < 2


def test_a_loop_of_schedule_starves_no_timer():
    log = []
    roamlet.tasklet(sleeper)("woken", 0.02, log)
    start = time.monotonic()
    while not log and time.monotonic() - start < 10:
        roamlet.schedule()
    assert log == ["woken"]
    assert time.monotonic() - start < 5


def test_ping_pong_over_a_channel_starves_no_timer():
    channel, log = roamlet.channel(), []

    def pong():
        for _ in channel:
            pass

    tasklet = roamlet.tasklet(pong)()
    roamlet.tasklet(sleeper)("woken", 0.02, log)
    start = time.monotonic()
    while not log and time.monotonic() - start < 10:
        channel.send(None)
    assert log == ["woken"]
    tasklet.kill()


def test_tasklets_that_start_and_end_starve_no_timer():
    log = []
    roamlet.tasklet(sleeper)("woken", 0.02, log)
    start = time.monotonic()

    def endless():
        if not log and time.monotonic() - start < 10:
            roamlet.tasklet(endless)()

    roamlet.tasklet(endless)()
    roamlet.run()
    del endless
    assert log == ["woken"]


def working(clock, times, seconds):
    """A tasklet that lets the others run after each `seconds` of work."""
    for _ in range(times):
        clock.now += seconds
        roamlet.schedule()


def ticks(clock, times, seconds, late):
    for _ in range(times):
        due = clock.now + seconds
        roamlet.sleep(seconds)
        late.append(clock.now - due)


def test_a_timer_is_not_late_by_the_work_of_all_that_are_runnable(clock):
    """A round of them takes 50 ms. The look comes each millisecond, once their pace is known."""
    late = []
    roamlet.tasklet(ticks)(clock, 30, 0.002, late)
    for _ in range(100):
        roamlet.tasklet(working)(clock, 10, 0.0005)
    roamlet.run()
    assert max(late) < 0.010  # the first look is after 16 of them have begun
    assert sorted(late)[20] <= 0.0025


def test_tasklets_that_wait_as_they_begin_hold_up_no_timer(clock):
    """None of them comes back from its wait before all have begun."""
    late, lock = [], sync.Lock()

    def begins():
        clock.now += 0.0005
        with lock:
            pass

    lock.acquire()
    roamlet.tasklet(ticks)(clock, 1, 0.002, late)
    waiting = [roamlet.tasklet(begins)() for _ in range(100)]
    while not late:
        roamlet.schedule()
    lock.release()
    roamlet.run()
    assert late[0] < 0.010
    assert not any(tasklet.alive for tasklet in waiting)


def test_tasklets_that_begin_slowly_together_hold_up_a_timer_by_three_of_them(clock):
    """Fifty clients of a library that reads files for 150 ms each before it waits: what ran before told no pace, or a fast one."""
    late = []
    for _ in range(2):
        roamlet.tasklet(ticks)(clock, 20, 0.001, late)
        slow = [roamlet.tasklet(working)(clock, 1, 0.150) for _ in range(50)]
        roamlet.run()
        for _ in range(2000):
            roamlet.schedule()
        roamlet.sleep(0.001)
    assert not any(tasklet.alive for tasklet in slow)
    assert max(late) < 0.451


def test_timers_that_are_due_at_one_look_run_in_the_order_of_their_times(clock):
    log = []
    for name, seconds in (("c", 0.003), ("a", 0.001), ("b", 0.002)):
        roamlet.tasklet(sleeper)(name, seconds, log)
    roamlet.schedule()
    clock.now += 0.004
    for _ in range(600):
        roamlet.tasklet(log.append)("runnable")
    roamlet.run()
    woken = [log.index(name) for name in "abc"]
    assert woken == list(range(woken[0], woken[0] + 3))
    assert woken[0] < 100


def test_a_clock_that_stands_where_the_one_before_it_stood_ends_sleeps():
    """The last look at the timers was at the same time, on another clock."""
    for _ in range(2):
        with VirtualClock() as clock:
            log = []
            roamlet.tasklet(sleeper)("woken", 0.001, log)
            roamlet.schedule()
            clock.now += 0.004
            for _ in range(600):
                roamlet.tasklet(log.append)("runnable")
            roamlet.run()
        assert log.index("woken") < 100


@pytest.mark.parametrize("sleepers", [1, 2, 50])
def test_timers_that_come_faster_than_they_are_served_starve_nobody(clock, sleepers):
    """A tasklet whose timer has put it before others is every second one at most."""
    turns = []

    def overloaded():
        while True:
            roamlet.sleep(0.001)
            turns.append("timer")
            clock.now += 0.002

    hurried = [roamlet.tasklet(overloaded)() for _ in range(sleepers)]
    for _ in range(20):
        roamlet.schedule()
    turns.clear()
    others = [roamlet.tasklet(working)(clock, 200, 0.0001) for _ in range(10)]
    for _ in range(40_000):
        if not any(tasklet.alive for tasklet in others):
            break
        roamlet.schedule()
        turns.append("other")
    assert not any(tasklet.alive for tasklet in others)
    assert turns.count("timer") > sleepers
    for tasklet in hurried:
        tasklet.kill()
    del overloaded


# ---- the clock for tests ----


def taken_by_then(queue):
    """How many of 100 items this tasklet has taken when the next one runs."""
    for item in range(100):
        queue.put(item)
    left = []
    other = roamlet.tasklet(lambda: left.append(queue.qsize()))()
    while not left and not queue.empty():
        queue.get()
    other.kill()
    return 100 - left[0] if left else 100


def test_a_new_clock_knows_nothing_of_the_pace_of_the_one_before():
    """A tasklet lets others run after as many get() as took a while; what tests before did changes no order."""
    now = [1000.0]

    def slow():
        now[0] += 0.01
        return now[0]

    queue = sync.SimpleQueue()
    core.set_clock(slow, lambda _: None)
    try:
        for _ in range(2000):
            queue.put(1)
            queue.get()
        assert taken_by_then(queue) <= 2
        while not queue.empty():
            queue.get()
    finally:
        core.set_clock()
    assert taken_by_then(queue) == 100


@pytest.mark.parametrize("arguments", [(1, 2), (time.monotonic, 3), ("x", print)])
def test_set_clock_refuses_what_cannot_be_called(arguments):
    with pytest.raises(TypeError, match=r"set_clock\(\) takes two callables, now and advance, not"):
        core.set_clock(*arguments)


def test_set_clock_takes_both_or_neither():
    with pytest.raises(TypeError, match="takes now and advance, or neither"):
        core.set_clock(time.monotonic)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -5.0, 1e12])
def test_a_clock_that_tells_nonsense_is_reported_where_time_is_needed(value):
    core.set_clock(lambda: value, lambda _: None)
    try:
        with pytest.raises(ValueError, match=r"the clock given to set_clock\(\) returned"):
            roamlet.sleep(0)
    finally:
        core.set_clock()


def test_an_error_of_the_clock_reaches_the_caller_and_of_advance_main():
    def broken(*_):
        raise LookupError("broken clock")

    core.set_clock(broken, broken)
    try:
        with pytest.raises(LookupError, match="broken clock"):
            roamlet.sleep(0)
        core.set_clock(lambda: 5.0, broken)
        with pytest.raises(LookupError, match="broken clock"):
            roamlet.sleep(1)
    finally:
        core.set_clock()
    assert roamlet.getruncount() == 1
