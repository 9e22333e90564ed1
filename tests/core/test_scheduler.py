"""The run queue: the order in which tasklets run, what run() waits for, what happens to errors that are not caught."""

import sys

import pytest

import roamlet


def steps(name, log, count=3):
    for step in range(count):
        log.append(f"{name}{step}")
        roamlet.schedule()


def started(log, *names, **options):
    return [roamlet.tasklet(steps)(name, log, **options) for name in names]


# ---- schedule ----


def test_tasklets_run_round_robin_in_the_order_of_their_start():
    log = []
    started(log, "a", "b", "c")
    roamlet.run()
    assert log == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]


def test_main_takes_its_turn_in_the_queue():
    log = []
    started(log, "a", "b", count=2)
    for step in range(3):
        roamlet.schedule()
        log.append(f"main{step}")
    assert log == ["a0", "b0", "main0", "a1", "b1", "main1", "main2"]


def test_a_new_tasklet_goes_to_the_end_and_does_not_run_before_its_turn():
    log = []

    def creator():
        roamlet.tasklet(log.append)("created")
        log.append("creator")

    roamlet.tasklet(creator)()
    roamlet.tasklet(log.append)("second")
    roamlet.run()
    assert log == ["creator", "second", "created"]


def test_schedule_alone_returns_at_once():
    assert roamlet.schedule() is roamlet.getcurrent()
    assert roamlet.getruncount() == 1


def test_schedule_returns_its_argument_or_the_current_tasklet():
    got = []
    tasklet = roamlet.tasklet(
        lambda: got.extend([roamlet.schedule(), roamlet.schedule(5), roamlet.schedule(retval=None)])
    )()
    roamlet.run()
    assert got == [tasklet, 5, None]


@pytest.mark.parametrize("call", [roamlet.schedule, roamlet.schedule_remove])
def test_schedule_refuses_other_arguments(call):
    for arguments, keywords in (((1, 2), {}), ((), {"value": 1}), ((1,), {"retval": 1})):
        with pytest.raises(TypeError):
            call(*arguments, **keywords)


def test_schedule_remove_suspends_until_inserted_again():
    log = []

    def function():
        log.append(roamlet.schedule_remove("kept"))

    tasklet = roamlet.tasklet(function)()
    roamlet.run()
    assert (log, tasklet.paused, roamlet.getruncount()) == ([], True, 1)
    tasklet.insert()
    roamlet.run()
    assert log == ["kept"]


def test_main_removed_from_the_queue_comes_back_when_the_others_are_done():
    log = []
    started(log, "a", "b", count=2)
    assert roamlet.schedule_remove("back") == "back"
    assert log == ["a0", "b0", "a1", "b1"]


def test_main_removed_from_the_queue_can_be_inserted_by_a_tasklet():
    log, main = [], roamlet.getcurrent()

    def function():
        main.insert()
        log.append("inserted")
        roamlet.schedule()
        log.append("last")

    roamlet.tasklet(function)()
    roamlet.schedule_remove()
    log.append("main")
    roamlet.run()
    assert log == ["inserted", "main", "last"]


# ---- tasklet.run, switch, kill: who follows whom ----


def test_run_jumps_to_a_scheduled_tasklet_where_it_stands_in_the_queue():
    log = []
    _, second, _ = started(log, "a", "b", "c", count=1)
    second.run()
    log.append("main")
    assert log == ["b0", "c0", "main"]
    roamlet.run()
    assert log == ["b0", "c0", "main", "a0"]


def test_run_of_a_paused_tasklet_puts_it_before_the_caller():
    log = []
    started(log, "a", count=1)
    paused = roamlet.tasklet(steps, ("p", log, 1))
    paused.run()
    log.append("main")
    roamlet.run()
    assert log == ["p0", "main", "a0"]


def test_kill_of_a_blocked_tasklet_returns_to_the_killer_before_others_run():
    log, channel = [], roamlet.channel()

    def function():
        try:
            channel.receive()
        finally:
            log.append("finally")

    tasklet = roamlet.tasklet(function)()
    roamlet.run()
    started(log, "a", count=1)
    tasklet.kill()
    log.append("main")
    roamlet.run()
    assert log == ["finally", "main", "a0"]


def test_kill_of_a_scheduled_tasklet_jumps_to_its_place_as_in_stackless():
    log = []

    def function():
        try:
            roamlet.schedule()
        finally:
            log.append("finally")

    victim = roamlet.tasklet(function)()
    roamlet.schedule()
    started(log, "a", count=1)
    victim.kill()
    log.append("main")
    roamlet.run()
    assert log == ["finally", "a0", "main"]


def test_a_pending_kill_keeps_the_place_in_the_queue():
    log = []

    def function():
        try:
            roamlet.schedule()
        finally:
            log.append("finally")

    victim = roamlet.tasklet(function)()
    started(log, "a", count=2)
    roamlet.schedule()
    victim.kill(pending=True)
    log.append("main")
    roamlet.run()
    assert log == ["a0", "main", "finally", "a1"]


def test_switch_replaces_the_caller_by_the_target():
    log, main = [], roamlet.getcurrent()
    started(log, "a", count=1)

    def target():
        log.append("target")
        main.insert()

    roamlet.tasklet(target, ()).switch()
    log.append("main")
    roamlet.run()
    # The target was put at the end of the queue and ran at once; main came back after the others.
    assert log == ["target", "a0", "main"]


def test_a_generator_like_chain_of_switches_returns_through_the_queue():
    log = []

    def ping(other):
        log.append("ping")
        other[0].run()
        log.append("ping again")

    def pong():
        log.append("pong")

    second = roamlet.tasklet(pong, ())
    roamlet.tasklet(ping)([second])
    roamlet.run()
    assert log == ["ping", "pong", "ping again"]


# ---- counts ----


def test_getruncount_counts_the_runnable_tasklets_and_the_current_one():
    channel, seen = roamlet.channel(), []
    assert roamlet.getruncount() == 1
    blocked = roamlet.tasklet(channel.receive)()
    roamlet.run()
    for count in range(3):
        roamlet.tasklet(lambda: seen.append(roamlet.getruncount()))()
        assert roamlet.getruncount() == count + 2
    roamlet.run()
    # In run() main is not in the queue.
    assert seen == [3, 2, 1]
    blocked.kill()


def test_getcurrent_and_getmain():
    seen = []
    tasklet = roamlet.tasklet(lambda: seen.extend([roamlet.getcurrent(), roamlet.getmain()]))()
    roamlet.run()
    assert seen == [tasklet, roamlet.getmain()]
    assert roamlet.getcurrent() is roamlet.getmain()


# ---- run ----


def test_run_returns_when_the_queue_is_empty_whoever_is_blocked():
    channel = roamlet.channel()
    tasklet = roamlet.tasklet(channel.receive)()
    assert roamlet.run() is None
    assert tasklet.blocked
    channel.send(None)


def test_run_alone_returns_at_once():
    assert roamlet.run() is None
    assert roamlet.run(hub=False) is None


def test_a_tasklet_may_go_on_for_ever_while_main_waits_for_something_else():
    channel, count = roamlet.channel(), [0]

    def forever():
        while True:
            count[0] += 1
            if count[0] == 1000:
                channel.send("enough")
            roamlet.schedule()

    tasklet = roamlet.tasklet(forever)()
    assert channel.receive() == "enough"
    tasklet.kill()


# ---- errors that a tasklet does not catch: see also test_errors_in_main ----


def test_twenty_thousand_tasklets_started_in_a_chain():
    count = [0]

    def link(left):
        count[0] += 1
        if left:
            roamlet.tasklet(link)(left - 1).run()

    roamlet.tasklet(link)(20_000)
    roamlet.run()
    del link
    assert count == [20_001]


def test_each_link_of_a_chain_may_still_recurse_deeply():
    depths = []

    def recurse(depth):
        return depth if depth == 500 else recurse(depth + 1)

    def link(left):
        depths.append(recurse(0))
        if left:
            roamlet.tasklet(link)(left - 1).run()

    roamlet.tasklet(link)(1000)
    roamlet.run()
    del link, recurse
    assert depths == [500] * 1001


def test_a_hundred_thousand_blocked_tasklets_are_made_and_ended():
    channel, total = roamlet.channel(), [0]

    def function():
        value = channel.receive()
        total[0] += value

    for _ in range(100_000):
        roamlet.tasklet(function)()
    roamlet.run()
    assert channel.balance == -100_000
    channel.preference = 0
    for _ in range(100_000):
        channel.send(1)
    roamlet.run()
    assert (total, channel.balance, roamlet.getruncount()) == ([100_000], 0, 1)
    roamlet.trim()


def test_twenty_thousand_blocked_tasklets_are_killed_through_their_queue():
    channel, ended = roamlet.channel(), [0]

    def function():
        try:
            channel.receive()
        finally:
            ended[0] += 1

    for _ in range(20_000):
        roamlet.tasklet(function)()
    roamlet.run()
    while channel.queue is not None:
        channel.queue.kill()
    assert (ended, channel.balance) == ([20_000], 0)
    roamlet.trim()


def test_deep_recursion_in_one_tasklet_leaves_the_depth_of_the_others():
    reached = []

    def recurse(depth):
        try:
            roamlet.schedule()
            return recurse(depth + 1)
        except RecursionError:
            return depth

    def function():
        reached.append(recurse(0))

    for _ in range(3):
        roamlet.tasklet(function)()
    roamlet.run()
    del recurse
    limit = sys.getrecursionlimit()
    assert len(reached) == 3 and all(limit - 60 < depth <= limit for depth in reached)
