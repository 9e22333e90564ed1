"""Event: waiting tasklets are woken by set(), whatever happens to the flag afterwards."""

import gc
import threading
import weakref
from unittest import mock

import pytest

import roamlet
from roamlet import sync
from roamlet.testing import run_until_blocked
from tests.sync._noting import noting


def test_all_who_wait_are_woken_and_later_ones_do_not_wait():
    event, log = sync.Event(), []
    for name in "abc":
        noting(log, name, event.wait)
    assert log == [] and not event.is_set()
    event.set()
    assert log == []
    run_until_blocked()
    assert log == [("a", True), ("b", True), ("c", True)]
    assert event.wait() and event.wait(0) and event.is_set()


def test_who_was_woken_goes_on_although_the_flag_was_taken_back():
    event, log = sync.Event(), []
    noting(log, "waits", event.wait)
    event.set()
    event.clear()
    run_until_blocked()
    assert log == [("waits", True)]
    assert event.wait(0) is False


def test_a_time_out_says_false(clock):
    event, log = sync.Event(), []
    noting(log, "late", lambda: event.wait(1))
    noting(log, "in time", lambda: event.wait(timeout=5))
    roamlet.sleep(2)
    event.set()
    roamlet.sleep(0)
    assert log == [("late", False), ("in time", True)]


@pytest.mark.parametrize("timeout", [0, 0.0, -1, -1e300])
def test_a_time_that_is_over_is_no_wait(timeout):
    event, log = sync.Event(), []
    roamlet.tasklet(log.append)("another one")
    assert event.wait(timeout) is False
    event.set()
    assert event.wait(timeout) is True
    assert log == []
    roamlet.run()


@pytest.mark.parametrize(("timeout", "error"), [(float("nan"), ValueError), (1e10, OverflowError), ("1", TypeError)])
def test_a_nonsense_time_out_is_refused(timeout, error):
    with pytest.raises(error, match=r"Event.wait\(\)"):
        sync.Event().wait(timeout)


def test_no_time_out_is_too_long_for_an_event_that_is_set():
    event = sync.Event()
    event.set()
    assert event.wait(float("inf")) is True
    with pytest.raises(TypeError):
        event.wait("1")


def test_a_killed_waiter_leaves_the_others():
    event, log = sync.Event(), []
    noting(log, "killed", event.wait).kill()
    noting(log, "waits", event.wait)
    event.set()
    run_until_blocked()
    assert log == [("killed", "TaskletExit"), ("waits", True)]


def test_an_event_is_set_from_another_thread():
    event, back = sync.Event(), sync.Event()
    thread = threading.Thread(target=lambda: (event.wait(), back.set()))
    thread.start()
    event.set()
    assert back.wait(10)
    thread.join()


def test_at_fork_reinit_leaves_flag_and_waiters():
    event, log = sync.Event(), []
    noting(log, "waits", event.wait)
    event._at_fork_reinit()
    event.set()
    event._at_fork_reinit()
    run_until_blocked()
    assert log == [("waits", True)] and event._flag


def test_the_object_is_as_threadings():
    class Derived(sync.Event):
        pass

    event = Derived()
    event.more = 1
    assert event.more == 1 and ": unset>" in repr(event)
    with pytest.warns(DeprecationWarning, match=r"isSet\(\) is deprecated, use is_set\(\) instead"):
        assert event.isSet() is False
    with pytest.raises(TypeError):
        sync.Event(1)
    event.itself = event
    alive = weakref.ref(event)
    del event
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (sync.Event, "wait"),
        (sync.Condition, "wait"),
        (sync.Semaphore, "acquire"),
        (sync.BoundedSemaphore, "release"),
        (sync.Queue, "get"),
        (sync.LifoQueue, "put"),
        (sync.PriorityQueue, "join"),
    ],
)
def test_a_mock_takes_the_place_of_a_method(kind, name):
    """As in the standard library, where these classes are written in Python."""
    original, made = vars(kind).get(name), kind()
    with mock.patch.object(kind, name, return_value="mocked") as mocked:
        assert getattr(made, name)() == "mocked"
    mocked.assert_called_once_with()
    assert vars(kind).get(name) is original
