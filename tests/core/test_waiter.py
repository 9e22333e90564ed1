"""Waiter: one wait, settled once, from anywhere, before or after it began."""

import threading
import weakref

import pytest

import roamlet
from roamlet import core


def waiting(waiter, log, **options):
    """A tasklet that waits and notes what came of it."""

    def function():
        try:
            log.append(waiter.wait(**options))
        except BaseException as error:
            log.append(repr(error))
            raise

    tasklet = roamlet.tasklet(function)()
    roamlet.schedule()
    return tasklet


def test_wait_returns_what_succeed_gave():
    waiter, log = core.Waiter(), []
    waiting(waiter, log)
    assert waiter.done is False
    assert waiter.succeed("value") is True
    assert (waiter.done, log) == (True, [])
    roamlet.run()
    assert log == ["value"]


def test_settled_before_the_wait_began():
    waiter = core.Waiter()
    assert waiter.succeed(5) is True
    assert waiter.wait() == 5
    waiter = core.Waiter()
    assert waiter.fail(KeyError("early")) is True
    with pytest.raises(KeyError, match="early"):
        waiter.wait(0)


def test_succeed_without_a_value_gives_none():
    waiter = core.Waiter()
    waiter.succeed()
    assert waiter.wait() is None


def test_wait_raises_what_fail_gave():
    waiter, log = core.Waiter(), []
    waiting(waiter, log)
    assert waiter.fail(ValueError("failed")) is True
    with pytest.raises(ValueError, match="failed"):
        roamlet.run()
    assert log == ["ValueError('failed')"]


def test_only_the_first_settles():
    waiter = core.Waiter()
    assert [waiter.succeed(1), waiter.succeed(2), waiter.fail(ValueError())] == [True, False, False]
    assert waiter.wait() == 1
    assert waiter.succeed(3) is False


@pytest.mark.parametrize("first", ["settled", "waited", "waiting", "timed out"])
def test_a_second_wait_is_refused(first, clock):
    waiter, log, tasklet = core.Waiter(), [], None
    if first == "settled":
        waiter.succeed(1)
        waiter.wait()
    elif first == "waited":
        waiting(waiter, log)
        waiter.succeed(1)
        roamlet.run()
    elif first == "timed out":
        with pytest.raises(TimeoutError):
            waiter.wait(1)
    else:
        tasklet = waiting(waiter, log)
    with pytest.raises(RuntimeError, match="a Waiter serves one wait: make a new one"):
        waiter.wait()
    if tasklet is not None:
        tasklet.kill()


def test_waiters_wake_in_the_order_in_which_they_were_settled():
    log = []
    waiters = [core.Waiter() for _ in range(4)]
    for waiter in waiters:
        waiting(waiter, log)
    for index in (2, 0, 3, 1):
        waiters[index].succeed(index)
    roamlet.run()
    assert log == [2, 0, 3, 1]


def test_a_killed_wait_leaves_a_waiter_that_is_done_and_takes_nothing():
    waiter, log = core.Waiter(), []
    tasklet = waiting(waiter, log)
    tasklet.kill()
    assert log == ["TaskletExit()"]
    assert waiter.done is True
    assert [waiter.succeed(1), waiter.fail(ValueError())] == [False, False]


def test_a_tasklet_that_was_woken_can_be_killed_before_it_runs():
    waiter, log = core.Waiter(), []
    tasklet = waiting(waiter, log)
    assert waiter.succeed(1) is True
    tasklet.kill()
    assert log == ["TaskletExit()"]


def test_a_time_out_raises_and_the_waiter_is_done(clock):
    waiter, log = core.Waiter(), []
    waiting(waiter, log, timeout=2.5)
    with pytest.raises(TimeoutError, match=r"nothing happened within 2\.5 seconds"):
        roamlet.run()
    assert (waiter.done, waiter.succeed(1), clock.jumps) == (True, False, [2.5])


def test_a_wait_that_is_settled_in_time_leaves_no_timer(clock):
    waiter, log = core.Waiter(), []
    waiting(waiter, log, timeout=5)
    waiter.succeed("in time")
    roamlet.run()
    assert (log, clock.jumps) == (["in time"], [])
    roamlet.sleep(1)
    assert clock.jumps == [1.0]


@pytest.mark.parametrize("timeout", [0, 0.0, False])
def test_a_time_out_of_zero_gives_way_once(timeout, clock):
    log = []
    roamlet.tasklet(log.append)("another ran")
    with pytest.raises(TimeoutError):
        core.Waiter().wait(timeout)
    assert log == ["another ran"]


@pytest.mark.parametrize("bad", ["1", [], object(), 1j])
def test_a_time_out_that_is_no_number_is_refused(bad):
    waiter = core.Waiter()
    with pytest.raises(TypeError, match=r"wait\(timeout\) takes a number of seconds, not"):
        waiter.wait(bad)
    waiter.succeed(1)
    assert waiter.wait() == 1


@pytest.mark.parametrize("bad", [-1, -0.001, float("nan"), float("-inf")])
def test_a_time_out_below_zero_is_refused(bad):
    with pytest.raises(ValueError, match=r"wait\(timeout\) takes a number of seconds from 0 on"):
        core.Waiter().wait(bad)


def test_a_time_out_without_end_is_as_none():
    waiter, log = core.Waiter(), []
    waiting(waiter, log, timeout=float("inf"))
    waiting(second := core.Waiter(), log, timeout=1e300)
    waiter.succeed(1)
    second.succeed(2)
    roamlet.run()
    assert log == [1, 2]


@pytest.mark.parametrize("bad", [ValueError, None, "x", 3])
def test_fail_takes_exception_instances_only(bad):
    waiter = core.Waiter()
    with pytest.raises(TypeError, match=r"fail\(\) takes an exception instance"):
        waiter.fail(bad)
    assert waiter.done is False


def test_the_same_exception_can_fail_several_waiters():
    error, log = KeyError("shared"), []
    for _ in range(3):
        waiter = core.Waiter()
        waiter.fail(error)
        try:
            waiter.wait()
        except KeyError as caught:
            log.append(caught is error)
    error.__traceback__ = None
    assert log == [True] * 3


def test_a_daemon_wait_does_not_keep_run_going():
    waiter, log = core.Waiter(), []
    tasklet = waiting(waiter, log, daemon=True)
    roamlet.run()
    assert tasklet.blocked
    waiter.succeed("later")
    roamlet.run()
    assert log == ["later"]


def test_a_daemon_wait_with_a_time_out_does_not_keep_run_going(clock):
    tasklet = waiting(core.Waiter(), [], daemon=True, timeout=10)
    roamlet.run()
    assert (clock.jumps, tasklet.blocked) == ([], True)
    with pytest.raises(TimeoutError):
        roamlet.sleep(20)
    assert clock.jumps == [10.0]


def test_a_daemon_wait_does_not_hide_a_deadlock():
    tasklet = waiting(core.Waiter(), [], daemon=True)
    with pytest.raises(roamlet.Deadlock, match="blocked in wait"):
        roamlet.channel().receive()
    tasklet.kill()


def test_waits_of_many_tasklets_are_settled_from_another_thread():
    waiters, log = [core.Waiter() for _ in range(100)], []
    for waiter in waiters:
        waiting(waiter, log)

    def settle():
        for number, waiter in enumerate(waiters):
            waiter.succeed(number)

    thread = threading.Thread(target=settle)
    thread.start()
    roamlet.run()
    thread.join()
    assert log == list(range(100))


def test_wait_in_a_thread_that_has_no_tasklets():
    waiter, log = core.Waiter(), []
    thread = threading.Thread(target=lambda: log.append(waiter.wait()))
    thread.start()
    assert waiter.succeed("across") is True
    thread.join()
    assert log == ["across"]


def test_ping_pong_of_waiters_between_threads_loses_no_wake_up():
    rounds = 2000
    there = [core.Waiter() for _ in range(rounds)]
    back = [core.Waiter() for _ in range(rounds)]

    def other():
        for number in range(rounds):
            back[number].succeed(there[number].wait(30) + 1)

    thread = threading.Thread(target=other)
    thread.start()
    total = 0
    for number in range(rounds):
        there[number].succeed(number)
        total += back[number].wait(30)
    thread.join()
    assert total == sum(range(1, rounds + 1))


def test_value_and_waiter_are_freed_after_the_wait():
    class Value:
        pass

    value, waiter, log = Value(), core.Waiter(), []
    gone = [weakref.ref(value), weakref.ref(waiter)]
    waiting(waiter, log)
    waiter.succeed(value)
    del value, waiter
    roamlet.run()
    assert [ref() is not None for ref in gone] == [True, False]
    log.clear()
    assert gone[0]() is None


def test_a_value_that_nobody_took_is_freed_with_its_waiter():
    class Value:
        pass

    value, waiter = Value(), core.Waiter()
    gone = weakref.ref(value)
    waiter.succeed(value)
    del value
    assert gone() is not None
    del waiter
    assert gone() is None


def test_the_value_of_a_waiter_that_refers_to_it_can_be_collected():
    import gc

    waiter = core.Waiter()
    gone = weakref.ref(waiter)
    waiter.succeed([waiter])
    del waiter
    gc.collect()
    assert gone() is None


def test_wait_refuses_unknown_arguments():
    for arguments, keywords in (((1, False, 2), {}), ((), {"deamon": True})):
        with pytest.raises(TypeError):
            core.Waiter().wait(*arguments, **keywords)
    with pytest.raises(TypeError):
        core.Waiter().succeed(1, 2)
    with pytest.raises(TypeError):
        core.Waiter().fail()


def test_waiter_cannot_be_subclassed_and_takes_type_arguments():
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Mine", (core.Waiter,), {})
    assert isinstance(core.Waiter[int](), core.Waiter)


@pytest.mark.parametrize("settle", ["succeed", "fail"])
def test_who_is_killed_after_it_was_settled_leaves_nothing_in_it(settle):
    class Answer(Exception):
        pass

    waiter, log, answer = core.Waiter(), [], Answer()
    tasklet = waiting(waiter, log)
    assert getattr(waiter, settle)(answer) is True
    gone = weakref.ref(answer)
    del answer
    tasklet.kill()
    assert log == ["TaskletExit()"]
    assert gone() is None  # though the waiter is still there
    assert waiter.done


def test_an_error_that_nobody_takes_any_more_is_no_reference_cycle_with_who_settled_it():
    waiter, log = core.Waiter(), []
    tasklet = waiting(waiter, log)

    def settle(waiter):
        try:
            raise LookupError("not heard")
        except LookupError as error:
            log.append(waiter.fail(error))

    settle(waiter)
    tasklet.kill()
    assert log == [True, "TaskletExit()"]
