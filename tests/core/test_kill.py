"""Killing tasklets and throwing errors into them: what is raised where, and what a dead or unborn one makes of it."""

import sys
import traceback

import pytest

import roamlet
from tests.core._objects import flags, nothing, waits_with_finally


@pytest.mark.parametrize(
    "block", [roamlet.schedule_remove, roamlet.schedule, roamlet.channel().receive, lambda: roamlet.sleep(9)]
)
def test_kill_raises_at_the_blocking_call_and_runs_finally_before_it_returns(block):
    log = []
    tasklet = roamlet.tasklet(waits_with_finally)(log, block)
    tasklet.run()
    assert tasklet.kill() is None
    assert log == ["TaskletExit", "finally"]
    assert flags(tasklet) == set()


def test_kill_of_a_tasklet_blocked_in_send_takes_it_out_of_the_channel():
    channel, log = roamlet.channel(), []
    tasklet = roamlet.tasklet(waits_with_finally)(log, lambda: channel.send(1))
    roamlet.run()
    tasklet.kill()
    assert (log, channel.balance, channel.queue) == (["TaskletExit", "finally"], 0, None)


def test_a_pending_kill_takes_effect_when_the_tasklet_runs_next():
    channel, log = roamlet.channel(), []
    tasklet = roamlet.tasklet(waits_with_finally)(log, channel.receive)
    roamlet.run()
    tasklet.kill(pending=True)
    assert (log, flags(tasklet), channel.balance) == ([], {"alive", "scheduled"}, 0)
    roamlet.run()
    assert log == ["TaskletExit", "finally"]


def test_kill_of_a_tasklet_that_never_ran_runs_nothing_of_it():
    log = []
    tasklet = roamlet.tasklet(log.append)("never")
    tasklet.kill()
    assert flags(tasklet) == set()
    pending = roamlet.tasklet(log.append)("never")
    pending.kill(pending=True)
    roamlet.run()
    assert (log, flags(pending)) == ([], set())


def test_kill_of_a_dead_tasklet_does_nothing():
    tasklet = roamlet.tasklet(nothing)()
    roamlet.run()
    for pending in (False, True):
        tasklet.kill(pending=pending)
    roamlet.tasklet().kill()
    roamlet.tasklet(nothing).kill()
    assert flags(tasklet) == set()


def test_kill_of_the_current_tasklet_raises_in_place():
    log = []

    def function():
        try:
            roamlet.getcurrent().kill()
        finally:
            log.append("finally")

    roamlet.tasklet(function)().run()
    assert log == ["finally"]
    with pytest.raises(roamlet.TaskletExit):
        roamlet.getcurrent().kill()


def test_a_tasklet_may_refuse_to_be_killed():
    log = []

    def function():
        try:
            roamlet.schedule_remove()
        except roamlet.TaskletExit:
            log.append("refused")
        roamlet.schedule_remove()
        log.append("ended")

    tasklet = roamlet.tasklet(function)()
    roamlet.run()
    tasklet.kill()
    assert (log, flags(tasklet)) == (["refused"], {"alive", "paused"})
    tasklet.run()
    assert log == ["refused", "ended"]


def test_tasklet_exit_ends_a_tasklet_silently_and_its_subclasses_too():
    class Quiet(roamlet.TaskletExit):
        pass

    def function(kind, *arguments):
        raise kind(*arguments)

    for kind, *arguments in ((roamlet.TaskletExit,), (roamlet.TaskletExit, "x"), (Quiet,)):
        roamlet.tasklet(function)(kind, *arguments)
    roamlet.run()
    assert issubclass(roamlet.TaskletExit, SystemExit)


def test_a_finally_block_may_block_while_its_tasklet_is_killed():
    channel, log = roamlet.channel(), []

    def function():
        try:
            roamlet.schedule_remove()
        finally:
            log.append(channel.receive())

    tasklet = roamlet.tasklet(function)()
    roamlet.run()
    tasklet.kill()
    assert flags(tasklet) == {"alive", "scheduled", "blocked"}
    channel.send("cleaned")
    assert (log, flags(tasklet)) == (["cleaned"], set())


def test_two_pending_errors_leave_the_last():
    caught = []

    def function():
        try:
            roamlet.schedule_remove()
        except Exception as error:
            caught.append(repr(error))

    tasklet = roamlet.tasklet(function)()
    roamlet.run()
    tasklet.throw(KeyError, 1, pending=True)
    tasklet.throw(ValueError, 2, pending=True)
    roamlet.run()
    assert caught == ["ValueError(2)"]


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (lambda: (IndexError,), ()),
        (lambda: (IndexError, "one"), ("one",)),
        (lambda: (IndexError, (1, 2, 3)), (1, 2, 3)),
        (lambda: (IndexError, IndexError(4)), (4,)),
        (lambda: (IndexError(5),), (5,)),
    ],
)
def test_throw_takes_the_forms_of_a_raise_with_three_arguments(arguments, expected, pending):
    channel, caught = roamlet.channel(), []

    def function():
        try:
            channel.receive()
        except IndexError as error:
            caught.append(error.args)

    tasklet = roamlet.tasklet(function)()
    roamlet.run()
    assert tasklet.throw(*arguments(), pending=pending) is None
    assert tasklet.alive is pending
    roamlet.run()
    assert (caught, tasklet.alive) == ([expected], False)


def test_throw_keeps_the_traceback_that_it_is_given():
    channel, names = roamlet.channel(), []

    def function():
        try:
            channel.receive()
        except ZeroDivisionError as error:
            names.extend(entry.name for entry in traceback.extract_tb(error.__traceback__))

    def origin():
        return 1 / 0

    tasklet = roamlet.tasklet(function)()
    roamlet.run()
    try:
        origin()
    except ZeroDivisionError:
        tasklet.throw(*sys.exc_info())
    assert (names[0], names[-1]) == ("function", "origin")


def test_raise_exception_builds_and_raises_at_once():
    channel, caught = roamlet.channel(), []

    def function():
        try:
            channel.receive()
        except IndexError as error:
            caught.append(error.args)

    tasklet = roamlet.tasklet(function)()
    roamlet.run()
    tasklet.raise_exception(IndexError, 1, 2)
    assert caught == [(1, 2)]


def test_throwing_into_a_tasklet_that_never_ran_raises_in_main():
    tasklet = roamlet.tasklet(nothing)()
    with pytest.raises(IndexError, match="early"):
        tasklet.throw(IndexError, "early")
    pending = roamlet.tasklet(nothing)()
    pending.throw(IndexError, "later", pending=True)
    with pytest.raises(IndexError, match="later"):
        roamlet.run()
    assert flags(tasklet) == flags(pending) == set()


def test_throwing_into_a_dead_tasklet_is_refused_and_tasklet_exit_is_harmless():
    tasklet = roamlet.tasklet(nothing)()
    roamlet.run()
    for pending in (False, True):
        with pytest.raises(RuntimeError, match="You cannot throw to a dead tasklet"):
            tasklet.throw(IndexError, pending=pending)
        tasklet.throw(roamlet.TaskletExit, pending=pending)
    with pytest.raises(RuntimeError, match="dead tasklet"):
        tasklet.raise_exception(IndexError)


@pytest.mark.parametrize("arguments", [(), (3,), (int,), (IndexError(1), (1, 2)), (IndexError, None, 5)])
def test_throw_refuses_what_is_no_exception_and_changes_nothing(arguments):
    tasklet = roamlet.tasklet(roamlet.schedule_remove)()
    roamlet.run()
    with pytest.raises(TypeError):
        tasklet.throw(*arguments)
    with pytest.raises(TypeError):
        roamlet.getcurrent().throw(*arguments)
    assert flags(tasklet) == {"alive", "paused"}
    tasklet.kill()


def test_throwing_into_the_current_tasklet_raises_in_place():
    with pytest.raises(LookupError, match="here"):
        roamlet.getcurrent().throw(LookupError, "here")
    with pytest.raises(LookupError, match="here too"):
        roamlet.getcurrent().raise_exception(LookupError, "here too")
