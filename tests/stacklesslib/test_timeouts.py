"""Time-outs of stacklesslib, and tasklets that are cancelled."""

import pytest

import roamlet
from roamlet import stackless
from roamlet.stackless._path.stacklesslib import errors, util
from tests.stacklesslib.running import running


def test_a_time_out_ends_what_blocks_and_a_body_that_is_done_has_none():
    for delay in (None, -1, 5):
        with util.timeout(delay):
            roamlet.sleep(1)
    with pytest.raises(errors.TimeoutError, match=r"timed out after 0\.5s"), util.timeout(0.5):
        roamlet.sleep(1)
    assert util.timeout_call(lambda: "result", 1) == (True, "result")
    good, error = util.timeout_call(lambda: roamlet.sleep(2), 1)
    assert (good, type(error)) == (False, errors.TimeoutError)
    with pytest.raises(errors.TimeoutError):
        util.timeout_function(1)(roamlet.sleep)(2)


@pytest.mark.parametrize("given", [KeyError, KeyError("instance")])
def test_a_time_out_raises_what_it_was_given(given):
    with pytest.raises(KeyError) as caught, util.timeout(0.5, exc=given):
        roamlet.sleep(1)
    assert caught.value is given or given is KeyError
    del caught


def test_of_nested_time_outs_each_is_told_where_it_was_set():
    log = []

    def inner():
        with util.timeout(5):
            try:
                roamlet.sleep(10)
            except errors.TimeoutError:
                log.append("the inner one has not expired")

    with pytest.raises(errors.TimeoutError, match="after 1s"), util.timeout(1):
        inner()
    with util.timeout(5):
        with pytest.raises(errors.TimeoutError, match="after 1s"), util.timeout(1):
            roamlet.sleep(10)
        roamlet.sleep(1)
    assert log == []


def test_a_time_out_holds_in_finally_blocks_too():
    log = []

    def tidy_up_slowly():
        try:
            roamlet.sleep(10)
        finally:
            try:
                roamlet.sleep(0.1)
            except roamlet.TaskletExit:
                log.append("ended at once")

    with pytest.raises(errors.TimeoutError), util.timeout(1):
        tidy_up_slowly()
    assert log == ["ended at once"]


def test_time_outs_share_a_deadline(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(util, "time", lambda: now[0])
    limits = util.Timeouts(10)
    with limits.timeout():
        now[0] = 9
    assert limits.delay() == 1
    now[0] = 11
    with pytest.raises(errors.TimeoutError):
        limits.timeout()
    with util.Timeouts(None).timeout():
        assert util.Timeouts(-1).delay() is None


def test_what_is_cancelled_ends_with_the_arguments_of_the_cancel():
    handle, log = util.cancellable(), []

    def inside():
        try:
            with handle as same:
                log.append(same is handle)
                roamlet.sleep(10)
        except errors.CancelledError as error:
            log.append((error.args, handle.match(error), util.cancellable().match(error)))

    running(inside)
    assert not handle.cancelled()
    handle.cancel("why", 42)
    stackless.run()
    assert log == [True, (("why", 42), True, False)]
    assert handle.cancelled()


def test_who_cancels_itself_goes_no_further():
    handle, log = util.cancellable(), []
    with pytest.raises(errors.CancelledError), handle:
        log.append(handle.cancel())
    assert log == []
    unused = util.cancellable()
    unused.cancel()
    assert not unused.cancelled()
    with unused, pytest.raises(RuntimeError, match="in use already"):
        unused.__enter__()
