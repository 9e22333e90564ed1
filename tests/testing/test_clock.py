"""roamlet.testing.VirtualClock: time passes only while no tasklet can run."""

import time

import pytest

import roamlet
from roamlet import sync, testing


def test_an_hour_takes_no_time():
    begun = time.monotonic()
    with testing.VirtualClock() as clock:
        roamlet.sleep(3600)
    assert (clock.elapsed, clock.jumps) == (3600, [3600])
    assert time.monotonic() - begun < 60


def test_time_stands_still_while_a_tasklet_can_run():
    with testing.VirtualClock(start=5) as clock:
        waiting = roamlet.spawn(roamlet.sleep, (10,))
        for _ in range(1000):
            roamlet.schedule()
        assert clock.now == 5
        waiting.join()
        assert clock.now == 15


def test_timers_end_in_the_order_of_their_times():
    ended = []

    def sleeps(seconds):
        roamlet.sleep(seconds)
        ended.append((seconds, clock.elapsed))

    with testing.VirtualClock() as clock:
        for task in [roamlet.spawn(sleeps, (seconds,)) for seconds in (3, 1, 2)]:
            task.join()
    assert ended == [(1, 1), (2, 2), (3, 3)]


def test_time_limits_follow_it():
    lock = sync.Lock()
    lock.acquire()
    with testing.VirtualClock() as clock:
        assert lock.acquire(timeout=60) is False
        with pytest.raises(TimeoutError), roamlet.timeout(30):
            roamlet.channel().receive()
    assert clock.jumps == [60, 30]


def test_a_test_can_set_it():
    with testing.VirtualClock() as clock:
        waiting = roamlet.spawn(roamlet.sleep, (10,))
        testing.run_until_blocked()
        clock.now += 10
        waiting.join()
        assert clock.jumps in ([], [0.0])


def test_the_clock_of_the_machine_is_back_after_the_block():
    with testing.VirtualClock():
        pass
    begun = time.monotonic()
    roamlet.sleep(0.01)
    assert time.monotonic() - begun >= 0.009


def test_a_second_clock_is_refused_and_the_first_goes_on():
    with testing.VirtualClock() as clock:
        with pytest.raises(RuntimeError, match="a VirtualClock is in use already"), testing.VirtualClock():
            pass
        roamlet.sleep(3600)
    assert clock.jumps == [3600]
    with testing.VirtualClock():
        roamlet.sleep(60)


@pytest.mark.parametrize("start", [-1, float("-inf")])
def test_a_time_before_zero_is_refused(start):
    with pytest.raises(ValueError, match="a clock starts at 0 seconds or later, not at -"):
        testing.VirtualClock(start)
