"""Lock and RLock: who gets them, in which order, and what becomes of those who do not."""

import copy
import gc
import pickle
import threading
import weakref

import pytest

import roamlet
from roamlet import core, sync
from roamlet.testing import run_until_blocked
from tests.core._threads import in_thread
from tests.sync._noting import holding, noting

LOCKS = [
    pytest.param(sync.Lock, id="Lock"),
    pytest.param(lambda: sync.Lock(fair=True), id="fair Lock"),
    pytest.param(sync.RLock, id="RLock"),
]


@pytest.fixture(params=LOCKS)
def lock(request):
    return request.param()


# ---- order ----


def test_who_waits_gets_the_lock_in_the_order_of_arrival(lock):
    log = []
    lock.acquire()
    for name in "abc":
        holding(log, name, lock)
    assert log == []
    lock.release()
    run_until_blocked()
    assert log == ["a", "b", "c"]
    assert not lock.locked()


def test_a_free_lock_is_taken_without_a_switch(lock):
    log = []
    roamlet.tasklet(log.append)("another one")
    with lock:
        assert lock.locked()
    assert lock.acquire(timeout=10)
    lock.release()
    assert log == []
    roamlet.run()


@pytest.mark.parametrize(("fair", "taken"), [(False, True), (True, False)])
def test_only_a_lock_that_is_not_fair_can_be_overtaken(fair, taken):
    lock, log = sync.Lock(fair=fair), []
    assert lock.fair is fair
    lock.acquire()
    holding(log, "waited", lock)
    lock.release()
    assert lock.acquire(blocking=False) is taken
    if taken:
        run_until_blocked()
        assert log == []
        lock.release()
    run_until_blocked()
    assert log == ["waited"]
    assert not lock.locked()


@pytest.mark.parametrize("kind", [sync.Lock, sync.RLock])
def test_who_was_overtaken_is_first_in_the_queue_again(kind):
    lock, log = kind(), []
    lock.acquire()
    for name in "abc":
        holding(log, name, lock)
    lock.release()
    lock.acquire()  # overtakes a, which finds that out when it runs
    run_until_blocked()
    assert log == []
    lock.release()
    run_until_blocked()
    assert log == ["a", "b", "c"]


def test_a_fair_lock_passes_in_turns_through_tasklets_that_take_it_at_once_again():
    lock, log = sync.Lock(fair=True), []

    def turns(name):
        for _ in range(3):
            with lock:
                log.append(name)
                roamlet.schedule()

    for name in "abc":
        roamlet.tasklet(turns)(name)
    roamlet.run()
    assert "".join(log) == "abcabcabc"


# ---- time-outs ----


def test_a_time_out_ends_the_wait_and_leaves_the_others(lock, clock):
    log = []
    lock.acquire()
    noting(log, "in time", lambda: lock.acquire(timeout=5))
    noting(log, "late", lambda: lock.acquire(timeout=1))
    roamlet.sleep(2)
    assert log == [("late", False)]
    lock.release()
    run_until_blocked()
    assert log == [("late", False), ("in time", True)]
    assert lock.locked()


def test_a_call_that_does_not_block_says_whether_it_was_taken(lock):
    assert lock.acquire(blocking=False) is True
    if isinstance(lock, sync.RLock):
        assert lock.acquire(False) is True
        lock.release()
    log = []
    for how in ({"blocking": False}, {"timeout": 0}):
        noting(log, str(how), lambda how=how: lock.acquire(**how))
    assert [taken for _, taken in log] == [False, False]
    lock.release()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"timeout": -2}, ValueError, r"timeout value must be a non-negative number, or -1 for no limit; it is -2"),
        ({"timeout": float("-inf")}, ValueError, "non-negative"),
        ({"timeout": float("nan")}, ValueError, "not NaN"),
        ({"timeout": float("inf")}, OverflowError, "timeout value is too large"),
        ({"timeout": sync.TIMEOUT_MAX + 1}, OverflowError, "292 years"),
        ({"timeout": 10**400}, OverflowError, "too large"),
        ({"timeout": None}, TypeError, "timeout is a number of seconds, not NoneType"),
        ({"timeout": "1"}, TypeError, "not str"),
        ({"blocking": False, "timeout": 1}, ValueError, "can't specify a timeout for a non-blocking call: leave out"),
        ({"blocking": False, "timeout": 0}, ValueError, "can't specify a timeout"),
        ({"unknown": 1}, TypeError, "unexpected keyword argument 'unknown'"),
    ],
)
def test_nonsense_is_refused_and_changes_nothing(lock, arguments, error, message):
    with pytest.raises(error, match=message):
        lock.acquire(**arguments)
    assert not lock.locked()


def test_the_longest_time_out_and_minus_one_are_no_nonsense(lock):
    for timeout in (-1, -1.0, sync.TIMEOUT_MAX, True, 0.5):
        assert lock.acquire(timeout=timeout)
        lock.release()


# ---- release ----


def test_releasing_what_is_not_held_says_how_that_comes():
    with pytest.raises(
        RuntimeError, match=r"release unlocked lock: no tasklet holds <unlocked roamlet\.sync\.Lock .* released twice"
    ):
        sync.Lock().release()
    with pytest.raises(
        RuntimeError, match=r"cannot release un-acquired lock: .* no tasklet holds .* one release\(\) too many"
    ):
        sync.RLock().release()


def test_an_rlock_belongs_to_a_tasklet_and_not_to_its_thread():
    lock, log = sync.RLock(), []
    lock.acquire()
    noting(log, "other", lambda: lock.acquire(blocking=False))
    noting(log, "owned", lock._is_owned)
    noting(log, "count", lock._recursion_count)

    def releases():
        with pytest.raises(RuntimeError, match="but another tasklet holds"):
            lock.release()

    noting(log, "release", releases)
    assert log == [("other", False), ("owned", False), ("count", 0), ("release", None)]
    assert lock._is_owned() and lock._recursion_count() == 1
    lock.release()


def test_a_lock_is_released_by_another_tasklet_and_by_another_thread():
    lock = sync.Lock()
    lock.acquire()
    roamlet.tasklet(lock.release)()
    assert lock.acquire(timeout=10)
    in_thread(lock.release)
    assert not lock.locked()


def test_an_rlock_is_free_after_as_many_releases():
    lock, log = sync.RLock(), []
    for _ in range(3):
        lock.acquire()
    holding(log, "other", lock)
    for _ in range(2):
        lock.release()
        run_until_blocked()
    assert log == []
    lock.release()
    run_until_blocked()
    assert log == ["other"]


def test_what_saves_and_restores_an_rlock_refuses_what_it_did_not_save():
    lock = sync.RLock()
    with lock, lock:
        saved = lock._release_save()
        assert not lock.locked()
        lock._acquire_restore(saved)
        assert lock._recursion_count() == 2
    with pytest.raises(RuntimeError, match=r"_release_save\(\), and no tasklet holds"):
        lock._release_save()
    with pytest.raises(ValueError, match="takes what _release_save"):
        lock._acquire_restore(0)
    with pytest.raises(TypeError):
        lock._acquire_restore("two")


# ---- kill ----


def test_a_wake_up_is_passed_on_when_its_waiter_is_killed(lock):
    log = []
    lock.acquire()
    first, _ = noting(log, "first", lock.acquire), noting(log, "second", lock.acquire)
    lock.release()  # wakes the first, which does not run yet
    first.kill(pending=True)
    run_until_blocked()
    assert log == [("first", "TaskletExit"), ("second", True)]
    assert lock.locked()


def test_a_killed_waiter_leaves_the_queue(lock):
    log = []
    lock.acquire()
    noting(log, "killed", lock.acquire).kill()
    lock.release()
    assert log == [("killed", "TaskletExit")] and not lock.locked()
    assert lock.acquire(blocking=False)


def test_a_cancelled_scope_ends_the_wait_but_does_not_forbid_a_free_lock(lock):
    log, scope = [], core.CancelScope()

    def body():
        with scope:
            lock.acquire()
        return "left"

    lock.acquire()
    noting(log, "scope", body)
    scope.cancel()
    run_until_blocked()
    assert log == [("scope", "left")]
    lock.release()
    with core.CancelScope() as over:
        over.cancel()
        with lock:
            log.append("taken")
    assert log[-1] == "taken" and not lock.locked()


def test_a_deadlock_says_who_waits_for_what(lock):
    def holds():
        with lock:
            roamlet.channel().receive()

    tasklet = roamlet.tasklet(holds)()
    tasklet.run()
    with pytest.raises(
        roamlet.Deadlock, match=r"(?s)Nothing can wake any of these .*in test_a_deadlock.* in holds at "
    ):
        lock.acquire()
    tasklet.kill()
    assert not lock.locked()


# ---- threads ----


def test_threads_and_tasklets_exclude_each_other_on_one_lock(lock):
    inside, total = [], []

    def enters(times):
        for _ in range(times):
            with lock:
                inside.append(1)
                assert len(inside) == 1
                roamlet.schedule()
                assert len(inside) == 1
                inside.pop()
                total.append(1)
            roamlet.schedule()

    def thread():
        others = [roamlet.spawn(lambda: enters(50)) for _ in range(3)]
        enters(50)
        for each in others:
            each.join()  # run() would not wait for one that waits for another thread's

    threads = [threading.Thread(target=thread) for _ in range(3)]
    for each in threads:
        each.start()
    thread()
    for each in threads:
        each.join()
    assert len(total) == 4 * 4 * 50 and not lock.locked()


def test_an_rlock_that_a_thread_left_behind_stays_locked_and_keeps_nothing_of_it_but_its_main_tasklet():
    lock = sync.RLock()
    in_thread(lock.acquire)
    assert not lock.acquire(blocking=False)
    assert "locked" in repr(lock)
    lock._at_fork_reinit()
    assert lock.acquire(blocking=False)


# ---- the object ----


def test_at_fork_reinit_frees_the_lock_and_lets_waiting_tasklets_of_this_thread_go_on(lock):
    log = []
    lock.acquire()
    holding(log, "a", lock)
    holding(log, "b", lock)
    lock._at_fork_reinit()
    run_until_blocked()
    assert log == ["a", "b"] and not lock.locked()


def test_a_lock_that_only_its_waiters_know_goes_with_them():
    log = []

    def waits():
        lock = sync.Lock()
        lock.acquire()
        try:
            lock.acquire()
        finally:
            log.append("ended")

    roamlet.tasklet(waits)().run()
    gc.collect()
    if core.backend == "greenlet":  # which does not show the collector any frames
        assert log == []
        core.started()[0].kill()
    assert log == ["ended"] and core.started() == []


class Tasklet(roamlet.tasklet):
    pass


def test_a_cycle_through_an_rlocks_owner_is_collected():
    owner = Tasklet(lambda: owner.lock.acquire())
    owner.lock = sync.RLock()
    alive = weakref.ref(owner.lock)
    owner()
    roamlet.run()
    assert not owner.alive and owner.lock.locked()
    del owner
    assert alive() is not None
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    "kind", [sync.Lock, sync.RLock, sync.Condition, sync.Semaphore, sync.Event, sync.Queue, sync.SimpleQueue]
)
def test_nothing_of_it_can_be_copied_or_pickled(kind):
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot pickle"):
            way(kind())


def test_what_can_be_derived_from_is_what_the_standard_library_lets_be():
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Derived", (sync.Lock,), {})

    class Derived(sync.RLock):
        def __init__(self, name, *, more):
            self.name = name

    lock = Derived("named", more=1)
    with lock:
        assert lock._is_owned() and lock.name == "named"
    with pytest.raises(TypeError, match="takes no arguments"):
        sync.RLock(1)
    with pytest.raises(TypeError):
        sync.Lock(True)
