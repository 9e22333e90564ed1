"""roamlet.testing.run_until_blocked and wait_until: how far tasklets run, and in which order."""

import threading

import pytest

import roamlet
from roamlet import testing


def order_with(seed):
    ran = []

    def work(name):
        for _ in range(2):
            ran.append(name)
            roamlet.schedule()

    for name in "abcde":
        roamlet.tasklet(work)(name)
    testing.run_until_blocked(seed=seed)
    return "".join(ran)


def test_each_runs_until_it_is_blocked_or_has_ended():
    channel, seen = roamlet.channel(), []

    def receives():
        seen.append("asks")
        seen.append(channel.receive())

    waiting = roamlet.spawn(receives)
    testing.run_until_blocked()
    assert seen == ["asks"]
    assert waiting.blocked
    channel.send("value")
    testing.run_until_blocked()
    assert seen == ["asks", "value"]


def test_without_a_seed_the_order_is_the_scheduler_s():
    assert order_with(None) == "abcdeabcde"


def test_a_seed_gives_one_order_and_seeds_give_many():
    orders = {order_with(seed) for seed in range(40)}
    assert len(orders) > 30
    assert all(sorted(order) == sorted("abcdeabcde") for order in orders)
    assert order_with(7) == order_with(7)


def test_a_seed_finds_an_update_that_is_lost():
    def lost(seed):
        total = 0

        def add():
            nonlocal total
            before = total
            roamlet.schedule()
            total = before + 1

        def add_at_once():
            nonlocal total
            total += 1

        roamlet.tasklet(add)()
        roamlet.tasklet(add_at_once)()
        testing.run_until_blocked(seed=seed)
        return total != 2

    assert {lost(seed) for seed in range(20)} == {True, False}


def test_tasklets_that_never_block_are_an_error():
    def runs():
        while True:
            roamlet.schedule()

    endless = roamlet.tasklet(runs)()
    for seed in (None, 1):
        with pytest.raises(
            RuntimeError, match=r"after 50 turns there are tasklets that run: \[<roamlet.tasklet .*runs, scheduled"
        ):
            testing.run_until_blocked(seed=seed, switches=50)
    endless.kill()


def test_a_condition_that_another_thread_makes_true():
    event = threading.Event()
    thread = threading.Timer(0.05, event.set)
    thread.start()
    testing.wait_until(event.is_set)
    thread.join()


def test_a_condition_that_other_tasklets_make_true():
    seen = []
    roamlet.tasklet(seen.append)("value")
    testing.wait_until(lambda: seen)


def test_a_condition_that_stays_false_is_an_error():
    with pytest.raises(TimeoutError, match="has not become true within 0.05 seconds"):
        testing.wait_until(lambda: False, 0.05)
