"""run(): who may call it, what wakes it, runs inside runs, and what its arguments may be."""

import threading

import pytest

import roamlet
from roamlet import core
from tests.core._objects import nothing
from tests.core._threads import in_thread


def waits_with_finally(log):
    try:
        roamlet.schedule_remove()
    except roamlet.TaskletExit:
        log.append("TaskletExit")
        raise
    finally:
        log.append("finally")


@pytest.mark.parametrize(
    ("arguments", "keywords", "error", "message"),
    [
        ((-1,), {}, ValueError, "timeout=-1"),
        (("x",), {}, TypeError, "integer"),
        ((0, 0, 0, 0, 0, 0), {}, TypeError, "at most"),
        ((), {"unknown": 1}, TypeError, "unknown"),
        ((), {"slice": 0}, ValueError, "between 1e-06 and 3600, for instance 0.01"),
        ((), {"slice": -1.0}, ValueError, "slice=-1.0"),
        ((), {"slice": float("nan")}, ValueError, "slice=nan"),
        ((), {"slice": 1e9}, ValueError, "slice"),
        ((), {"slice": "fast"}, TypeError, "real number"),
        ((10,), {"slice": 0.1}, ValueError, "slice goes with neither"),
        ((), {"slice": 0.1, "soft": True}, ValueError, "slice goes with neither"),
    ],
)
def test_wrong_arguments_are_named(arguments, keywords, error, message):
    with pytest.raises(error, match=message):
        roamlet.run(*arguments, **keywords)
    assert roamlet.run() is None


def test_a_tasklet_may_call_run_and_is_woken_when_nothing_else_can_run():
    log = []

    def inner():
        roamlet.tasklet(log.append)("child")
        assert roamlet.run() is None
        log.append("inner done")

    roamlet.tasklet(inner)()
    roamlet.run()
    assert log == ["child", "inner done"]


def test_the_innermost_run_ends_first():
    log = []

    def inner(depth):
        if depth:
            roamlet.tasklet(inner)(depth - 1)
        roamlet.run()
        log.append(depth)

    roamlet.tasklet(inner)(3)
    roamlet.run()
    assert log == [0, 1, 2, 3]


def test_run_in_a_tasklet_waits_until_main_blocks():
    """As long as main is runnable, the run queue is not empty."""
    log = []

    def inner():
        roamlet.run()
        log.append("inner done")

    tasklet = roamlet.tasklet(inner)()
    for _ in range(5):
        roamlet.schedule()
    assert log == [] and tasklet.paused and not tasklet.blocked and not tasklet.scheduled
    roamlet.run()
    assert log == [], "main's run() is the innermost now"
    tasklet.run()
    assert log == ["inner done"]


def test_an_error_goes_to_the_innermost_run():
    log = []

    def bad():
        raise LookupError("not caught")

    def inner():
        roamlet.tasklet(bad)()
        try:
            roamlet.run()
        except LookupError as error:
            log.append(str(error))

    roamlet.tasklet(inner)()
    roamlet.run()
    assert log == ["not caught"]


def test_waking_main_in_run_ends_the_runs_inside_its_own():
    log = []

    def waker():
        roamlet.getmain().run()
        log.append("waker")

    def inner():
        roamlet.tasklet(waker)()
        roamlet.run()
        log.append("inner")

    roamlet.tasklet(inner)()
    roamlet.run()
    log.append("main")
    roamlet.run()
    assert log == ["main", "waker", "inner"]


def test_a_tasklet_killed_inside_run_leaves_the_stack_of_runs():
    log = []

    def inner():
        try:
            roamlet.run()
        finally:
            log.append("left")

    tasklet = roamlet.tasklet(inner)()
    roamlet.schedule()
    tasklet.kill()
    assert log == ["left"] and not tasklet.alive
    roamlet.tasklet(log.append)("afterwards")
    roamlet.run()
    assert log == ["left", "afterwards"]


def test_run_with_threadblock_waits_for_what_other_threads_do():
    channel, log = roamlet.channel(), []

    def receiver():
        log.append(channel.receive())

    roamlet.tasklet(receiver)()
    go = threading.Event()

    def other():
        go.wait()
        channel.send("from another thread")

    thread = threading.Thread(target=other)
    thread.start()
    roamlet.run()
    assert log == []
    go.set()
    roamlet.run(threadblock=True)
    thread.join()
    assert log == ["from another thread"]


def test_run_with_threadblock_returns_when_no_other_thread_lives():
    roamlet.tasklet(len)("")
    assert roamlet.run(threadblock=True) is None


def test_a_destructor_that_runs_while_run_returns_may_call_run():
    """The tasklet that ended last is dropped by whoever runs next: here by the one whose run() returns."""
    log = []

    class Last(roamlet.tasklet):
        def __del__(self):
            roamlet.tasklet(log.append)("inner")
            roamlet.run()
            log.append("freed")

    def outer():
        Last(nothing)()
        roamlet.run()
        log.append("outer")

    roamlet.tasklet(outer)()
    roamlet.run()
    assert log == ["inner", "freed", "outer"]
    roamlet.tasklet([].pop)()
    with pytest.raises(IndexError):  # in main: no other tasklet is inside run() any more
        roamlet.run()


# ---- switch traps ----


def test_a_switch_trap_refuses_every_switch_and_changes_nothing():
    channel, log = roamlet.channel(), []
    tasklet = roamlet.tasklet(lambda: log.append(channel.receive()))()
    roamlet.run()
    paused = roamlet.tasklet(log.append)("ran")
    assert roamlet.switch_trap(1) == 0
    try:
        for call in (
            roamlet.schedule,
            roamlet.schedule_remove,
            roamlet.run,
            channel.receive,
            paused.run,
            paused.switch,
            paused.kill,
            tasklet.kill,
        ):
            with pytest.raises(RuntimeError, match="^switch_trap"):
                call()
        with pytest.raises(RuntimeError, match="^switch_trap"):
            channel.send(1)
        assert roamlet.switch_trap() == 1
    finally:
        assert roamlet.switch_trap(-1) == 1
    assert roamlet.switch_trap(0) == 0
    assert channel.balance == -1 and log == []
    channel.send("value")
    roamlet.run()
    assert log == ["value", "ran"]


def test_a_switch_trap_forbids_nothing_where_nobody_would_be_switched_to():
    channel = roamlet.channel()
    channel.preference = 1
    roamlet.tasklet(channel.receive)()
    roamlet.run()
    roamlet.switch_trap(1)
    try:
        assert roamlet.schedule("alone") == "alone"
        channel.send("without a switch")
    finally:
        roamlet.switch_trap(-1)
    roamlet.run()


def test_what_is_dropped_under_a_switch_trap_ends_when_it_may():
    log = []
    tasklet = roamlet.tasklet(waits_with_finally)(log)
    roamlet.run()
    roamlet.switch_trap(1)
    try:
        del tasklet
        assert log == []
    finally:
        roamlet.switch_trap(-1)
    roamlet.run()
    assert log == ["TaskletExit", "finally"]


def test_a_switch_trap_does_not_outlive_its_thread():
    log = []

    def work():
        tasklet = roamlet.tasklet(waits_with_finally)(log)
        roamlet.run()
        roamlet.switch_trap(1)
        return tasklet

    tasklet = in_thread(work)
    assert log == ["TaskletExit", "finally"] and not tasklet.alive


def test_end_thread_ends_tasklets_under_a_switch_trap_and_leaves_it():
    log = []
    tasklet = roamlet.tasklet(waits_with_finally)(log)
    roamlet.run()
    roamlet.switch_trap(2)
    try:
        core.end_thread()
        assert log == ["TaskletExit", "finally"] and not tasklet.alive
        roamlet.tasklet(nothing)()
        with pytest.raises(RuntimeError, match="^switch_trap"):
            roamlet.schedule()
    finally:
        roamlet.switch_trap(-2)
    roamlet.run()


def test_switch_traps_are_a_thread_s_own():
    roamlet.switch_trap(1)
    try:
        seen = []
        thread = threading.Thread(target=lambda: seen.append((roamlet.switch_trap(), roamlet.schedule(1))))
        thread.start()
        thread.join()
    finally:
        roamlet.switch_trap(-1)
    assert seen == [(0, 1)]


@pytest.mark.parametrize("change", ["x", 1.5, None, 2**40])
def test_switch_trap_takes_small_integers(change):
    with pytest.raises((TypeError, OverflowError)):
        roamlet.switch_trap(change)
    assert roamlet.switch_trap(2**31 - 1) == 0
    try:
        with pytest.raises(OverflowError, match="switch_trap"):
            roamlet.switch_trap(1)
    finally:
        roamlet.switch_trap(-(2**31 - 1))
    assert roamlet.switch_trap() == 0


@pytest.mark.parametrize("call", ["run", "switch"])
def test_what_cannot_run_is_told_so_before_a_switch_trap(call):
    channel = roamlet.channel()
    blocked = roamlet.tasklet(channel.receive)()
    roamlet.run()
    roamlet.switch_trap(1)
    try:
        with pytest.raises(RuntimeError, match="^You cannot run a blocked tasklet"):
            getattr(blocked, call)()
        with pytest.raises(RuntimeError, match="^You cannot run an unbound"):
            getattr(roamlet.tasklet(int), call)()
    finally:
        roamlet.switch_trap(-1)
    channel.send(None)
