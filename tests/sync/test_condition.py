"""Condition: notifications reach those who waited, the lock is held whatever is raised, and any lock will do."""

import gc
import sys
import threading
import time
import types
import weakref

import pytest

import roamlet
from roamlet import core, sync
from roamlet.testing import run_until_blocked
from tests.sync._noting import noted_when_collected, noting


class OwnLock:
    """Somebody else's lock, in Python, with the least that a Condition asks for; it switches in the worst moments."""

    def __init__(self):
        self.lock = sync.Lock()

    def acquire(self, *args):
        roamlet.schedule()
        return self.lock.acquire(*args)

    def release(self):
        self.lock.release()
        roamlet.schedule()

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_):
        self.release()


LOCKS = {
    "RLock": sync.RLock,
    "Lock": sync.Lock,
    "fair Lock": lambda: sync.Lock(fair=True),
    "own lock": OwnLock,
    "Condition": sync.Condition,
}


@pytest.fixture(params=LOCKS)
def condition(request):
    return sync.Condition(LOCKS[request.param]())


def waits(condition, timeout=None):
    with condition:
        return condition.wait(timeout)


def waiting(log, name, condition, timeout=None):
    return noting(log, name, lambda: waits(condition, timeout))


def settled():
    for _ in range(5):  # OwnLock gives way again and again
        run_until_blocked()


def test_notify_wakes_those_who_have_waited_longest(condition):
    log = []
    for name in "abcd":
        waiting(log, name, condition)
    settled()
    with condition:
        condition.notify()
    settled()
    assert log == [("a", True)]
    with condition:
        condition.notify(2)
    settled()
    assert log == [("a", True), ("b", True), ("c", True)]
    with condition:
        condition.notify_all()
        condition.notify_all()
    settled()
    assert log[-1] == ("d", True)


def test_nobody_goes_on_before_the_lock_is_given_back(condition):
    log = []
    for name in "ab":
        waiting(log, name, condition)
    settled()
    with condition:
        condition.notify_all()
        settled()
        assert log == []
    settled()
    assert log == [("a", True), ("b", True)]


def test_a_notification_without_anybody_who_waits_is_gone(condition, clock):
    with condition:
        condition.notify()
        condition.notify_all()
        assert condition.wait(1) is False


def test_a_time_out_says_false_and_holds_the_lock_again(condition, clock):
    log = []
    waiting(log, "late", condition, 2)
    waiting(log, "in time", condition, 5)
    roamlet.sleep(3)
    assert log == [("late", False)]
    with condition:
        condition.notify()
    roamlet.sleep(0.1)
    assert log == [("late", False), ("in time", True)]


@pytest.mark.parametrize("timeout", [0, -1, -1e9])
def test_a_time_that_is_over_is_no_wait(condition, timeout, clock):
    with condition:
        assert condition.wait(timeout) is False
        assert condition._is_owned()


@pytest.mark.parametrize(
    ("timeout", "error"),
    [(float("nan"), ValueError), (float("inf"), OverflowError), ("1", TypeError), (1e300, OverflowError)],
)
def test_a_nonsense_time_out_is_refused_with_the_lock_held(condition, timeout, error):
    with condition:
        with pytest.raises(error):
            condition.wait(timeout)
        with pytest.raises(error):
            condition.wait_for(bool, timeout)
        assert condition._is_owned()


@pytest.mark.parametrize("call", ["wait", "notify", "notify_all"])
def test_without_the_lock_it_is_refused(condition, call):
    with pytest.raises(
        RuntimeError, match=rf"cannot {call} on un-acquired lock: take the condition first, as in `with"
    ):
        getattr(condition, call)()


def test_wait_for_waits_until_the_predicate_is_true_and_returns_what_it_said(condition):
    log, state = [], []

    def waits_for():
        with condition:
            return condition.wait_for(lambda: state and state[-1])

    noting(log, "done", waits_for)
    for value in (0, "", "enough"):
        settled()
        assert log == []
        with condition:
            state.append(value)
            condition.notify_all()
    settled()
    assert log == [("done", "enough")]


def test_wait_for_gives_up_when_its_time_is_over_in_all(condition, clock):
    log = []

    def waits_for():
        with condition:
            began = clock.now
            return condition.wait_for(lambda: 0, 3), clock.now - began

    noting(log, "late", waits_for)
    for _ in range(4):
        roamlet.sleep(1)
        with condition:
            condition.notify_all()
    roamlet.sleep(1)
    [(_, (found, took))] = log
    assert found == 0
    assert took == pytest.approx(3, abs=0.01)


def test_what_the_predicate_raises_is_raised_with_the_lock_held(condition):
    with condition:
        with pytest.raises(ZeroDivisionError):
            condition.wait_for(lambda: 1 / 0)
        assert condition._is_owned()
    with pytest.raises(TypeError, match="missing 1 required argument: 'predicate'"):
        condition.wait_for()


# ---- kill ----


def killed_in(condition, log):
    """Wait, and on the way out of the wait say whether the lock is held."""

    def body():
        with condition:
            try:
                condition.wait()
            finally:
                log.append(("held", condition._is_owned()))

    tasklet = noting(log, "killed", body)
    settled()
    return tasklet


def test_a_killed_waiter_takes_the_lock_back_first(condition):
    log = []
    tasklet = killed_in(condition, log)
    with condition:
        tasklet.kill(pending=True)
        settled()
        assert log == []
    settled()
    assert log == [("held", True), ("killed", "TaskletExit")]
    assert not condition._is_owned()


def test_a_waiter_that_is_killed_again_and_again_takes_the_lock_back_first(condition):
    log = []
    tasklet = killed_in(condition, log)
    with condition:
        for _ in range(3):
            tasklet.kill(pending=True)
            settled()
        assert log == []
    settled()
    assert log == [("held", True), ("killed", "TaskletExit")]


@pytest.mark.parametrize(
    "kind", [sync.Lock, sync.RLock, lambda: sync.Lock(fair=True)], ids=["Lock", "RLock", "fair Lock"]
)
def test_at_the_end_of_a_thread_a_waiter_takes_the_lock_back_from_another_thread_first(kind):
    condition, waiting, log = sync.Condition(kind()), threading.Event(), []

    def other():
        def waiter():
            with condition:
                waiting.set()
                try:
                    condition.wait()
                finally:
                    log.append("finally")

        roamlet.tasklet(waiter)()
        roamlet.run()
        given_up.wait()  # the thread ends while the lock is held elsewhere

    given_up = threading.Event()
    thread = threading.Thread(target=other)
    thread.start()
    waiting.wait()
    with condition:
        given_up.set()
        while thread.ident in sys._current_frames():  # until it runs no Python any more, and waits in C for the lock
            time.sleep(0)
        log.append("released")
    thread.join()
    assert log == ["released", "finally"]
    assert condition.acquire(blocking=False)
    condition.release()


def test_a_cancelled_waiter_takes_the_lock_back_first_although_every_wait_in_its_scope_raises(condition):
    log, scope = [], core.CancelScope()

    def body():
        with scope, condition:
            try:
                condition.wait()
            except core.Cancelled:
                log.append(("held", condition._is_owned()))
                raise
        return "left"

    noting(log, "scope", body)
    settled()
    with condition:
        scope.cancel()
        settled()
        assert log == []
    settled()
    assert log == [("held", True), ("scope", "left")]


def test_in_a_scope_that_is_over_the_wait_raises_with_the_lock_held(condition):
    with core.CancelScope() as scope:
        with condition:
            scope.cancel()
            try:
                condition.wait()
            finally:
                held = condition._is_owned()
    assert held


def test_a_notification_of_one_that_is_killed_passes_to_the_next(condition):
    log = []
    first = waiting(log, "first", condition)
    waiting(log, "second", condition)
    settled()
    with condition:
        condition.notify()
        first.kill(pending=True)
    settled()
    assert sorted(log) == [("first", "TaskletExit"), ("second", True)]


def test_a_notification_never_reaches_one_that_came_later_not_even_passed_on():
    condition, log = sync.Condition(sync.Lock()), []
    first = waiting(log, "first", condition)
    with condition:
        condition.notify()
        first.kill(pending=True)
        # The lock is held: whoever comes now waits for it first, and for a notification later than this one.
        waiting(log, "later", condition)
    run_until_blocked()
    assert log == [("first", "TaskletExit")]
    with condition:
        condition.notify()
    run_until_blocked()
    assert log == [("first", "TaskletExit"), ("later", True)]


def test_each_notification_is_passed_on_among_its_own():
    condition, log = sync.Condition(sync.Lock()), []
    first = waiting(log, "a", condition)
    with condition:
        condition.notify()
        first.kill(pending=True)
    # The notification is on its way to a; b and c come before a runs, and the next one is theirs.
    waiting(log, "b", condition)
    last = waiting(log, "c", condition)
    with condition:
        condition.notify()
    run_until_blocked()
    assert sorted(log) == [("a", "TaskletExit"), ("b", True)]
    last.kill()


def test_a_notification_is_not_given_to_one_whose_time_was_over(clock):
    condition, log = sync.Condition(sync.Lock()), []
    waiting(log, "late", condition, 1)
    waiting(log, "next", condition)
    with condition:
        clock.now += 2
        roamlet.sleep(0)  # the timer fires; the late tasklet wants the lock back, which is held
        condition.notify()
    run_until_blocked()
    assert sorted(log) == [("late", False), ("next", True)]


# ---- somebody else's locks ----


@pytest.mark.parametrize("kind", [threading.Lock, threading.RLock])
def test_a_lock_of_threading_serves_threads(kind):
    condition, log = sync.Condition(kind()), []

    def thread():
        with condition:
            log.append("waits")
            condition.wait_for(lambda: "go" in log)
            log.append("went on")

    each = threading.Thread(target=thread)
    each.start()
    while not log:
        roamlet.sleep(0.001)
    with condition:
        log.append("go")
        condition.notify()
    each.join()
    assert log == ["waits", "go", "went on"]


def test_what_is_no_lock_is_refused():
    with pytest.raises(TypeError, match=r"stands on a lock, something with acquire\(\) and release\(\), not on 3"):
        sync.Condition(3)


def test_a_condition_that_somebody_waits_for_keeps_its_lock():
    condition, log = sync.Condition(), []
    waiting(log, "waits", condition)
    with pytest.raises(RuntimeError, match="cannot be given another lock while somebody waits"):
        condition.__init__(sync.Lock())
    with condition:
        condition.notify()
    run_until_blocked()


@pytest.mark.parametrize("kind", [sync.Lock, sync.RLock])
@pytest.mark.parametrize("way", ["acquire", "__enter__", "wait", "_acquire_restore"])
def test_a_lock_that_somebody_waits_for_lives_on_when_its_condition_gets_another(kind, way):
    condition = sync.Condition(kind())

    def waits():
        if way == "wait":
            condition.acquire()
        getattr(condition, way)(*([1] if way == "_acquire_restore" else []))

    waiter = roamlet.spawn(waits)
    if way == "wait":
        run_until_blocked()
    condition.acquire()
    condition.notify()
    run_until_blocked()
    assert waiter.blocked
    first = weakref.ref(condition._lock)
    condition.__init__(kind())
    assert first() is not None
    first().release()
    waiter.join()
    assert first() is None


def test_errors_of_a_lock_are_raised_and_leave_nobody_behind():
    class Broken:
        fails = ""

        def acquire(self, *args):
            if self.fails == "acquire" and not args:
                raise LookupError("of acquire")
            return not args  # held, for who only tries

        def release(self):
            if self.fails == "release":
                raise LookupError("of release")

    lock = Broken()
    condition = sync.Condition(lock)
    for lock.fails in ("release", "acquire"):
        with pytest.raises(LookupError, match=f"of {lock.fails}"):
            condition.wait(0)
        assert repr(condition).endswith(", 0)>")


# ---- the object ----


def test_its_repr_has_the_lock_and_how_many_wait():
    condition, log = sync.Condition(sync.Lock()), []
    assert repr(condition).startswith("<Condition(<unlocked roamlet.sync.Lock object at 0x")
    assert repr(condition).endswith(", 0)>")
    waiting(log, "waits", condition)
    assert repr(condition).endswith(", 1)>")
    with condition:
        condition.notify()
    run_until_blocked()


def test_attributes_and_subclasses_are_as_threadings():
    class Derived(sync.Condition):
        def __init__(self, name):
            super().__init__(sync.Lock())
            self.name = name

    condition = Derived("named")
    condition.other = 1
    assert (condition.name, condition.other, type(condition._lock)) == ("named", 1, sync.Lock)


def test_a_deprecated_name_warns():
    condition = sync.Condition()
    with condition, pytest.warns(DeprecationWarning, match=r"notifyAll\(\) is deprecated, use notify_all\(\) instead"):
        condition.notifyAll()


def test_a_cycle_through_a_condition_is_collected():
    condition = sync.Condition()
    condition.itself = condition
    alive = weakref.ref(condition)
    del condition
    assert alive() is not None
    gc.collect()
    assert alive() is None


def test_who_waits_for_a_condition_that_nobody_else_knows_is_collected():
    assert noted_when_collected(lambda: waits(sync.Condition())) == ["ended"]


def test_at_fork_reinit_frees_its_lock():
    condition = sync.Condition()
    condition.acquire()
    condition._at_fork_reinit()
    assert not condition._is_owned()


def test_it_is_locked_while_its_lock_is():
    condition = sync.Condition()
    assert not condition.locked()
    with condition:
        assert condition.locked() and condition._lock.locked()
    with pytest.raises(AttributeError, match="locked"):
        sync.Condition(types.SimpleNamespace(acquire=len, release=len)).locked()
