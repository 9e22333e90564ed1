"""CancelScope: what is cancelled or too late raises in every blocking call inside, until that scope is left."""

import signal
import threading

import pytest

import roamlet
from roamlet import core
from roamlet.core import Cancelled, CancelScope
from tests.core._scripts import output_of


def waits(how):
    """The blocking calls of the core, by name."""
    channel = roamlet.channel()
    return {
        "receive": channel.receive,
        "send": lambda: channel.send(1),
        "sleep": lambda: roamlet.sleep(1000),
        "Waiter": core.Waiter().wait,
        "Waiter with a time-out": lambda: core.Waiter().wait(1000),
        "run": roamlet.run,
    }[how]


BLOCKING = ["receive", "send", "sleep", "Waiter", "Waiter with a time-out"]


def in_scope(scope, body, log):
    """A tasklet that runs `body` inside `scope` and notes what came of it."""

    def run():
        try:
            with scope:
                log.append(body())
            log.append("left")
        except BaseException as error:
            log.append(f"{type(error).__name__}: {error}")
            raise

    return roamlet.tasklet(run)()


@pytest.mark.parametrize("how", BLOCKING)
def test_a_waiting_tasklet_is_woken_by_cancel(how):
    scope, log = CancelScope(), []
    tasklet = in_scope(scope, waits(how), log)
    roamlet.schedule()
    assert tasklet.blocked
    scope.cancel()
    roamlet.schedule()
    assert (log, tasklet.alive, scope.cancelled, scope.expired) == (["left"], False, True, False)


@pytest.mark.parametrize("how", BLOCKING)
def test_a_waiting_tasklet_is_woken_when_its_time_is_over(how, clock):
    scope, log = CancelScope(5), []
    tasklet = in_scope(scope, waits(how), log)
    roamlet.sleep(4.9)
    assert tasklet.blocked
    roamlet.sleep(0.2)
    assert (log, tasklet.alive, scope.cancelled, scope.expired) == (["left"], False, False, True)


@pytest.mark.parametrize("how", [*BLOCKING, "run"])
def test_main_can_be_inside(how, clock):
    idler = roamlet.tasklet(roamlet.sleep)(10000)  # so that run() has something to wait for
    before = clock.now
    with CancelScope(5) as scope:
        waits(how)()
        pytest.fail("it did not raise")
    assert (clock.now - before, scope.expired) == (pytest.approx(5), True)
    idler.kill()


@pytest.mark.parametrize("how", BLOCKING)
def test_a_wait_that_a_limit_ends_is_no_deadlock(how, clock):
    with CancelScope(5) as scope:
        waits(how)()
    assert scope.expired
    with CancelScope(5) as outer, CancelScope(10):
        outer.deadline = clock.now + 100
        waits(how)()
    assert clock.now == pytest.approx(1015)


@pytest.mark.parametrize("how", ["receive", "send", "Waiter with a time-out"])
def test_run_waits_for_others_who_wait_in_a_scope_with_a_limit_and_not_for_itself(how, clock):
    log = []
    in_scope(CancelScope(5), waits(how), log)
    roamlet.run()
    assert (log, clock.now) == (["left"], pytest.approx(1005))
    with CancelScope(5) as scope:
        roamlet.run()
    assert (scope.expired, clock.now) == (False, pytest.approx(1005))


def test_once_its_limit_is_gone_a_wait_is_a_deadlock_again(clock):
    channel = roamlet.channel()
    for limited in (True, False):
        with CancelScope(5) as scope:
            roamlet.tasklet(channel.send)("taken")
            assert channel.receive() == "taken"
            if not limited:
                scope.deadline = None
                with pytest.raises(roamlet.Deadlock):
                    channel.receive()
    with pytest.raises(roamlet.Deadlock):
        channel.receive()


def test_every_blocking_call_raises_until_the_scope_is_left():
    scope, seen = CancelScope(), []

    def body():
        for how in BLOCKING:
            try:
                waits(how)()
            except Cancelled as error:
                seen.append((how, error.scope is scope))
        roamlet.sleep(0)

    log = []
    in_scope(scope, body, log)
    roamlet.schedule()
    scope.cancel()
    roamlet.run()
    assert seen == [(how, True) for how in BLOCKING]
    assert log == ["left"]


def test_calls_that_need_not_wait_go_on():
    channel, log = roamlet.channel(), []
    sender = roamlet.tasklet(channel.send)(7)
    roamlet.schedule()

    with CancelScope() as scope:
        scope.cancel()
        log.append(channel.receive())
        roamlet.schedule()
        log.append("still inside")
    assert (log, sender.alive) == ([7, "still inside"], False)


@pytest.mark.parametrize("how", [{"timeout": 1000}, {"slice": 0.01}])
def test_a_run_that_may_not_begin_interrupts_nobody(how):
    def long():
        for _ in range(200_000):
            pass
        ended.append(True)

    ended = []
    with CancelScope() as scope:
        scope.cancel()
        roamlet.tasklet(long)()
        roamlet.run(**how)
        pytest.fail("it did not raise")
    roamlet.schedule()
    assert ended == [True]  # at once: its instructions are not counted
    roamlet.tasklet(long)()
    interrupted = roamlet.run(1000)
    assert (interrupted is not None, ended) == (True, [True])
    interrupted.kill()


def test_after_it_was_left_all_is_as_before(clock):
    with CancelScope() as scope:
        scope.cancel()
        roamlet.sleep(1)
    roamlet.sleep(1)
    assert clock.now == 1001


def test_an_error_of_the_body_passes():
    def body():
        with CancelScope() as scope:
            scope.cancel()
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        body()


def test_a_cancelled_of_another_scope_passes():
    outer, inner = CancelScope(), CancelScope()
    with outer:
        outer.cancel()
        with inner:
            roamlet.sleep(1)
        pytest.fail("the inner scope swallowed what was the outer one's")
    assert not inner.cancelled


def test_the_outermost_that_is_over_counts(clock):
    with CancelScope(3) as outer, CancelScope(3):
        roamlet.sleep(10)
    assert (outer.expired, clock.now) == (True, 1003)

    reached = []
    with CancelScope(10) as outer:
        with CancelScope(3) as inner:
            roamlet.sleep(5)
        reached.append(clock.now)
    assert (reached, inner.expired, outer.expired) == ([1006], True, False)


def test_the_earlier_of_two_limits_ends_a_wait(clock):
    with CancelScope(5):
        with pytest.raises(TimeoutError):
            core.Waiter().wait(2)
        assert clock.now == 1002
        with CancelScope(1):
            core.Waiter().wait(2)
        assert clock.now == 1003


def test_behind_a_shield_the_scopes_around_are_not_heard(clock):
    done = []
    with CancelScope(1):
        try:
            roamlet.sleep(5)
        finally:
            with CancelScope(shield=True):
                roamlet.sleep(5)
                done.append(clock.now)
            with CancelScope(2, shield=True) as shielded:
                roamlet.sleep(5)
            done.append((clock.now, shielded.expired))
    assert done == [1006, (1008, True)]


def test_cancel_does_not_reach_behind_a_shield():
    outer, log, channel = CancelScope(), [], roamlet.channel()

    def body():
        with CancelScope(shield=True):
            log.append(channel.receive())
        channel.receive()

    in_scope(outer, body, log)
    roamlet.schedule()
    outer.cancel()
    roamlet.schedule()
    assert (log, channel.balance) == ([], -1)
    channel.send("the value")
    roamlet.schedule()
    assert log == ["the value", "left"]


def test_adopted_tasklets_belong_to_the_scope_and_those_around(clock):
    log = []

    def child(name, seconds):
        try:
            roamlet.sleep(seconds)
            log.append(f"{name} slept")
        except Cancelled as error:
            log.append((name, error.scope is outer))
            raise

    with CancelScope(2) as outer:
        with CancelScope() as inner:
            for name, seconds in ("short", 1), ("long", 100):
                inner.adopt(roamlet.tasklet(child)(name, seconds))
            roamlet.sleep(50)
    assert clock.now == 1002
    roamlet.run()
    assert log == ["short slept", ("long", True)]


def test_a_child_that_has_not_run_is_cancelled_in_its_first_wait():
    log = []
    with CancelScope() as scope:
        child = roamlet.tasklet(lambda: (log.append("begun"), roamlet.sleep(1), log.append("slept")))()
        scope.adopt(child)
        scope.cancel()
    roamlet.run()
    assert (log, child.alive) == (["begun"], False)


def test_a_paused_tasklet_is_woken():
    scope, log = CancelScope(), []
    tasklet = in_scope(scope, lambda: roamlet.schedule_remove(), log)
    roamlet.schedule()
    assert tasklet.paused
    scope.cancel()
    roamlet.schedule()
    assert log == ["left"]


def test_a_deadline_can_be_moved(clock):
    scope, log = CancelScope(5), []
    in_scope(scope, lambda: roamlet.sleep(100), log)
    roamlet.schedule()
    assert scope.deadline == 1005
    scope.deadline = 1020
    roamlet.sleep(10)
    assert log == []
    scope.deadline = 1011
    roamlet.sleep(2)
    assert (log, clock.now) == (["left"], 1012)


def test_a_deadline_moved_away_or_into_the_past(clock):
    log = []
    first, second = CancelScope(5), CancelScope(5)
    in_scope(first, lambda: roamlet.sleep(100), log)
    in_scope(second, lambda: roamlet.sleep(100), log)
    roamlet.schedule()
    first.deadline, second.deadline = None, 1.0
    roamlet.schedule()
    assert (log, second.expired) == (["left"], True)
    roamlet.sleep(101)
    assert log == ["left", None, "left"]


def test_from_another_thread():
    scope, log, waiting = CancelScope(), [], threading.Event()

    def other():
        with scope:
            waiting.set()
            roamlet.channel().receive()
        log.append("left")

    thread = threading.Thread(target=other)
    thread.start()
    waiting.wait()
    scope.cancel()
    thread.join()
    assert log == ["left"]


def test_a_value_on_its_way_is_not_lost():
    channel, scope, log = roamlet.channel(), CancelScope(), []
    channel.preference = 1
    in_scope(scope, channel.receive, log)
    roamlet.schedule()
    channel.send("taken")
    scope.cancel()
    roamlet.schedule()
    assert log == ["taken", "left"]


def test_kill_inside_ends_the_tasklet_for_good():
    scope, log = CancelScope(), []
    tasklet = in_scope(scope, waits("receive"), log)
    roamlet.schedule()
    tasklet.kill()
    assert (log, tasklet.alive) == (["TaskletExit: "], False)
    scope.cancel()


def test_a_cancelled_that_leaves_the_tasklet_is_no_error():
    with CancelScope() as scope:
        scope.adopt(roamlet.tasklet(roamlet.sleep)(1))
        scope.cancel()
    roamlet.run()
    assert roamlet.getruncount() == 1


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda scope: scope.__enter__(), RuntimeError, "a CancelScope is entered once: make a new one"),
        (lambda scope: scope.adopt(5), TypeError, "adopt.. takes a tasklet, not 5"),
        (lambda scope: scope.adopt(roamlet.getcurrent()), RuntimeError, "has started already"),
        (lambda scope: CancelScope().adopt(roamlet.tasklet()), RuntimeError, "no tasklet is in this CancelScope"),
        (lambda scope: setattr(CancelScope(), "deadline", 1), RuntimeError, "while somebody is in the CancelScope"),
        (lambda scope: setattr(scope, "deadline", -1), ValueError, "from 0 on, not -1"),
        (lambda scope: setattr(scope, "deadline", "x"), TypeError, "takes a number of seconds, not str"),
        (lambda scope: delattr(scope, "deadline"), TypeError, "cannot be deleted"),
        (lambda scope: CancelScope(-1), ValueError, "from 0 on, not -1"),
        (lambda scope: CancelScope(float("nan")), ValueError, "from 0 on, not nan"),
        (lambda scope: CancelScope("x"), TypeError, "takes a number of seconds, not str"),
        (lambda scope: scope.reschedule(-1), ValueError, "reschedule.. takes a number of seconds from 0 on, not -1"),
        (lambda scope: CancelScope(1).reschedule(2), RuntimeError, r"CancelScope\(1\) is not entered yet"),
        (lambda scope: CancelScope(-1, name="x.y"), ValueError, "^x.y takes a number of seconds"),
        (lambda scope: CancelScope(name=5), TypeError, "must be str, not int"),
        (lambda scope: CancelScope(name="\ud800"), UnicodeEncodeError, "surrogates"),
        (lambda scope: CancelScope().__exit__(None, None, None), RuntimeError, "leave scopes in the reverse order"),
    ],
)
def test_wrong_uses_are_refused(wrong, error, message):
    with CancelScope() as scope:
        with pytest.raises(error, match=message):
            wrong(scope)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: CancelScope(), "CancelScope()"),
        (lambda: CancelScope(None), "CancelScope(None)"),
        (lambda: CancelScope(1.50, name="limit"), "limit(1.5)"),
    ],
)
def test_repr_says_how_it_was_made(made, text):
    assert repr(made()) == text


def test_a_limit_is_rescheduled_from_now_on(clock):
    with CancelScope(1) as scope:
        roamlet.sleep(0.5)
        scope.reschedule(3)
        assert (scope.deadline, repr(scope)) == (clock.now + 3, "CancelScope(3)")
        scope.reschedule(None)
        assert scope.deadline is None


def test_a_limit_whose_repr_fails_still_ends_what_blocks():
    class Odd(float):
        def __repr__(self):
            raise KeyError

    with pytest.raises(KeyError), CancelScope(Odd(0)):
        roamlet.sleep(0)


def test_scopes_are_left_in_the_reverse_order():
    outer, inner = CancelScope(), CancelScope()
    outer.__enter__()
    inner.__enter__()
    with pytest.raises(RuntimeError, match="leave scopes in the reverse order"):
        outer.__exit__(None, None, None)
    inner.__exit__(None, None, None)
    outer.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match="leave scopes in the reverse order"):
        outer.__exit__(None, None, None)


def test_another_tasklet_cannot_leave_it():
    scope, seen = CancelScope(), []

    def other():
        with pytest.raises(RuntimeError, match="in its own tasklet"):
            scope.__exit__(None, None, None)
        seen.append(True)

    with scope:
        roamlet.tasklet(other)()
        roamlet.run()
    assert seen == [True]


def test_a_subclass_in_a_cycle_with_its_tasklets_is_collected():
    class Mine(CancelScope):
        pass

    def cycle():
        scope = Mine()
        scope.itself = scope
        with scope:
            scope.child = roamlet.tasklet()
            scope.child.bind(lambda: None, ())
            scope.adopt(scope.child)
        return len(core.threads())

    import gc  # the collector is what is tried here

    cycle()
    gc.collect()
    assert [thing for thing in gc.get_objects() if type(thing).__name__ == "Mine"] == []


HANDLER_WAKES = """
import os, signal, threading
import roamlet
from roamlet import core

waiter = core.Waiter()
signal.signal(signal.SIGUSR1, lambda *args: waiter.succeed("woken by the handler"))
signal.setitimer(signal.ITIMER_REAL, 0.05)
signal.signal(signal.SIGALRM, lambda *args: os.kill(os.getpid(), signal.SIGUSR1))
channel = roamlet.channel()
roamlet.tasklet(lambda: channel.send(waiter.wait(daemon=True)))()
print(channel.receive())
signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
try:
    channel.receive()
except roamlet.Deadlock as error:
    print(str(error).split(":")[0])
"""


def test_while_a_signal_handler_may_wake_somebody_there_is_no_deadlock():
    assert output_of(HANDLER_WAKES) == "woken by the handler\nDeadlock"


@pytest.mark.parametrize("number", [0, 65, -1])
def test_what_is_no_signal_is_refused(number):
    with pytest.raises(ValueError, match=f"{number} is no number of a signal"):
        core.mark_service_signal(number)


def test_marking_is_for_numbers():
    with pytest.raises(TypeError):
        core.mark_service_signal(str(signal.SIGALRM))


NESTED = """
import threading
from roamlet.core import CancelScope

def nests():
    outermost = CancelScope()
    outermost.__enter__()
    for _ in range(50_000):
        CancelScope().__enter__()
    outermost.cancel()

threading.stack_size(256 * 1024)
thread = threading.Thread(target=nests)
thread.start()
thread.join()
print("cancelled and freed")
"""


def test_scopes_may_be_nested_deeper_than_the_c_stack_bears():
    assert output_of(NESTED) == "cancelled and freed"
