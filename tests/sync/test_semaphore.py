"""Semaphore and BoundedSemaphore: how many pass, which are woken, what is refused."""

import gc
import sys
import threading
import weakref

import pytest

import roamlet
from roamlet import sync
from roamlet.testing import run_until_blocked
from tests.sync._noting import noted_when_collected, noting

KINDS = [sync.Semaphore, sync.BoundedSemaphore]


@pytest.mark.parametrize("kind", KINDS)
def test_so_many_pass_and_the_others_follow_in_order(kind):
    semaphore, log = kind(2), []
    for name in "abcd":
        noting(log, name, semaphore.acquire)
    assert log == [("a", True), ("b", True)]
    semaphore.release()
    run_until_blocked()
    assert log[2:] == [("c", True)]
    semaphore.release(1)
    run_until_blocked()
    assert log[3:] == [("d", True)]
    assert semaphore._value == 0


def test_release_of_several_wakes_as_many():
    semaphore, log = sync.Semaphore(0), []
    for name in "abcd":
        noting(log, name, semaphore.acquire)
    semaphore.release(3)
    run_until_blocked()
    assert log == [("a", True), ("b", True), ("c", True)]
    semaphore.release(n=2)
    run_until_blocked()
    assert (len(log), semaphore._value) == (4, 1)


def test_who_was_overtaken_is_first_in_the_queue_again():
    semaphore, log = sync.Semaphore(0), []
    for name in "abc":
        noting(log, name, semaphore.acquire)
    semaphore.release()
    assert semaphore.acquire()
    run_until_blocked()
    assert log == []
    semaphore.release(3)
    run_until_blocked()
    assert [name for name, _ in log] == ["a", "b", "c"]


def test_a_wake_up_is_passed_on_when_its_waiter_is_killed():
    semaphore, log = sync.Semaphore(0), []
    first, _ = noting(log, "first", semaphore.acquire), noting(log, "second", semaphore.acquire)
    semaphore.release()
    first.kill(pending=True)
    run_until_blocked()
    assert log == [("first", "TaskletExit"), ("second", True)]
    assert semaphore._value == 0


def test_a_time_out_takes_nothing(clock):
    semaphore, log = sync.Semaphore(0), []
    noting(log, "late", lambda: semaphore.acquire(timeout=1))
    noting(log, "in time", lambda: semaphore.acquire(True, 5))
    roamlet.sleep(2)
    semaphore.release()
    run_until_blocked()
    assert log == [("late", False), ("in time", True)]


@pytest.mark.parametrize("timeout", [0, -1, -0.5])
def test_a_time_that_is_over_is_no_wait(timeout):
    semaphore = sync.Semaphore(0)
    assert semaphore.acquire(timeout=timeout) is False
    assert semaphore.acquire(blocking=False) is False
    semaphore.release()
    assert semaphore.acquire(timeout=timeout) is True


@pytest.mark.parametrize("kind", KINDS)
def test_nonsense_is_refused(kind):
    for value in (-1, -sys.maxsize):
        with pytest.raises(ValueError, match=rf"semaphore initial value must be >= 0, not {value}: it says how many"):
            kind(value)
    semaphore = kind(0)
    for n in (0, -1):
        with pytest.raises(ValueError, match=f"n must be one or more, not {n}"):
            semaphore.release(n)
    with pytest.raises(ValueError, match="can't specify a timeout for a non-blocking call"):
        semaphore.acquire(False, 1)
    with pytest.raises(ValueError, match="NaN"):
        semaphore.acquire(timeout=float("nan"))
    with pytest.raises(OverflowError, match="too large"):
        semaphore.acquire(timeout=sync.TIMEOUT_MAX * 2)
    with pytest.raises(TypeError):
        kind("1")
    assert semaphore._value == 0


def test_too_many_releases_are_refused_and_change_nothing():
    semaphore = sync.BoundedSemaphore(2)
    semaphore.acquire()
    with pytest.raises(
        ValueError, match=r"released too many times: <sync\.BoundedSemaphore at .*: value=1/2> would have 3"
    ):
        semaphore.release(2)
    semaphore.release()
    with pytest.raises(ValueError, match=r"There was a release\(\) without an acquire\(\)"):
        semaphore.release()
    assert (semaphore._value, semaphore._initial_value) == (2, 2)


def test_a_count_that_does_not_fit_is_refused():
    semaphore = sync.Semaphore(sys.maxsize)
    with pytest.raises(OverflowError, match="no number that a semaphore can have"):
        semaphore.release()
    with pytest.raises(OverflowError):
        semaphore.release(10**30)
    assert semaphore._value == sys.maxsize


def test_a_block_gives_back_what_it_took_whatever_is_raised():
    semaphore = sync.BoundedSemaphore(1)

    def raises():
        with semaphore:
            assert semaphore._value == 0
            raise LookupError

    with pytest.raises(LookupError):
        raises()
    assert semaphore._value == 1


def test_a_block_waits():
    semaphore, log = sync.Semaphore(0), []

    def body():
        with semaphore:
            return semaphore._value

    noting(log, "inside", body)
    assert log == []
    semaphore.release()
    run_until_blocked()
    assert log == [("inside", 0)] and semaphore._value == 1


def test_threads_and_tasklets_pass_one_at_a_time_through_one_semaphore():
    semaphore, inside, most = sync.Semaphore(2), [], []

    def passes():
        for _ in range(100):
            with semaphore:
                inside.append(1)
                most.append(len(inside))
                roamlet.schedule()
                inside.pop()

    def thread():
        other = roamlet.spawn(passes)
        passes()
        other.join()  # run() would not wait for one that waits for another thread's

    threads = [threading.Thread(target=thread) for _ in range(3)]
    for each in threads:
        each.start()
    thread()
    for each in threads:
        each.join()
    assert len(most) == 800 and max(most) == 2 and semaphore._value == 2


def test_subclasses_and_attributes_are_as_threadings():
    class Derived(sync.Semaphore):
        def __init__(self, name):
            super().__init__(3)
            self.name = name

    semaphore = Derived("named")
    semaphore.more = 1
    assert (semaphore._value, semaphore.name, semaphore.more) == (3, "named", 1)
    assert repr(semaphore).startswith(f"<{__name__}.test_subclasses")


def test_a_cycle_through_a_semaphore_is_collected():
    semaphore = sync.Semaphore()
    semaphore.itself = semaphore
    alive = weakref.ref(semaphore)
    del semaphore
    gc.collect()
    assert alive() is None


def test_who_waits_for_a_semaphore_that_nobody_else_knows_is_collected():
    assert noted_when_collected(lambda: sync.Semaphore(0).acquire()) == ["ended"]
