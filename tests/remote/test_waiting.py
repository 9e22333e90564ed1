"""Waits for what weft's own threads bring: with no limit, or until a deadline, and never a deadlock."""

import time

import pytest

import weft
from weft import io
from weft.remote._waiting import EVER, limit, remaining
from weft.sync import Event, Lock


@pytest.mark.parametrize("wait", [lambda event: event.wait(EVER), lambda event: event.wait(limit(None))])
def test_a_wait_without_limit_for_a_thread_of_wefts_own_is_no_deadlock(wait):
    event, main = Event(), weft.getmain()

    def serve():
        while not main.blocked:
            time.sleep(0.001)
        event.set()

    thread = io.start_thread(serve, "sets an event")
    assert wait(event)
    thread.join()


def test_without_the_limit_it_would_be_one():
    held = Lock()
    held.acquire()
    with pytest.raises(weft.Deadlock):
        held.acquire()


def test_a_deadline_as_seconds_from_now():
    assert (remaining(None), limit(None)) == (None, EVER)
    past, future = time.monotonic() - 1, time.monotonic() + 100
    assert (remaining(past), limit(past)) == (0.0, 0.0)
    assert 0 < remaining(future) <= 100
    assert 0 < limit(future) <= 100
