"""Barrier: all go on together, or none does."""

import pytest

import roamlet
from roamlet import sync
from roamlet.testing import run_until_blocked
from tests.sync._noting import noting


def test_all_go_on_when_the_last_has_come_again_and_again():
    barrier, log = sync.Barrier(3), []
    for turn in range(3):
        for name in "ab":
            noting(log, name, barrier.wait)
        assert (log, barrier.n_waiting) == ([], 2)
        assert barrier.wait() == 2
        run_until_blocked()
        assert log == [("a", 0), ("b", 1)]
        log.clear()
        assert (barrier.n_waiting, barrier.parties, barrier.broken) == (0, 3, False), turn


def test_the_action_is_called_once_before_anybody_goes_on():
    log = []
    barrier = sync.Barrier(2, lambda: log.append("action"))
    noting(log, "first", barrier.wait)
    barrier.wait()
    run_until_blocked()
    assert log == ["action", ("first", 0)]


def test_an_action_that_raises_breaks_the_barrier():
    log = []
    barrier = sync.Barrier(2, lambda: 1 / 0)
    noting(log, "first", barrier.wait)
    with pytest.raises(ZeroDivisionError):
        barrier.wait()
    run_until_blocked()
    assert log == [("first", "BrokenBarrierError")] and barrier.broken


def test_one_that_is_killed_breaks_the_barrier_for_all():
    barrier, log = sync.Barrier(3), []
    killed = noting(log, "killed", barrier.wait)
    noting(log, "waits", barrier.wait)
    killed.kill()
    run_until_blocked()
    assert log == [("killed", "TaskletExit"), ("waits", "BrokenBarrierError")]
    with pytest.raises(sync.BrokenBarrierError):
        barrier.wait()


def test_one_that_is_killed_when_all_have_come_breaks_nothing():
    barrier, log = sync.Barrier(2), []
    killed = noting(log, "killed", barrier.wait)
    barrier.wait()
    killed.kill(pending=True)
    run_until_blocked()
    assert log == [("killed", "TaskletExit")] and not barrier.broken


@pytest.mark.parametrize(("own", "given"), [(None, 1), (1, None), (100, 1)])
def test_one_whose_time_is_over_breaks_the_barrier_for_all(own, given, clock):
    barrier, log = sync.Barrier(3, timeout=own), []
    noting(log, "waits", lambda: barrier.wait(1000))
    with pytest.raises(sync.BrokenBarrierError):
        barrier.wait(given)
    run_until_blocked()
    assert log == [("waits", "BrokenBarrierError")]


def test_reset_sends_those_away_who_wait_and_abort_all_until_then():
    barrier, log = sync.Barrier(2), []
    noting(log, "waits", barrier.wait)
    barrier.reset()
    assert not barrier.broken
    run_until_blocked()
    noting(log, "again", barrier.wait)
    barrier.abort()
    run_until_blocked()
    assert log == [("waits", "BrokenBarrierError"), ("again", "BrokenBarrierError")]
    assert (barrier.broken, barrier.n_waiting) == (True, 0)
    with pytest.raises(sync.BrokenBarrierError):
        barrier.wait()
    barrier.reset()
    noting(log, "after", barrier.wait)
    assert barrier.wait() == 1
    run_until_blocked()
    assert log[2:] == [("after", 0)]


def test_a_barrier_for_nobody_is_refused():
    for parties in (0, -1):
        with pytest.raises(
            ValueError, match=f"parties must be > 0: it says how many wait for one another, not {parties}"
        ):
            sync.Barrier(parties)


def test_its_repr_says_who_waits():
    barrier = sync.Barrier(2)
    assert repr(barrier).startswith("<sync.Barrier at 0x") and repr(barrier).endswith(": waiters=0/2>")
    barrier.abort()
    assert repr(barrier).endswith(": broken>")
    roamlet.schedule()
