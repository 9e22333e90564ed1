"""Threads of roamlet's own: known to deadlock detection, and errors in them are theirs."""

import threading

import pytest

import roamlet
from roamlet import io


def test_a_service_thread_runs_its_function_and_hides_no_deadlock():
    end, ran = threading.Event(), []

    def serve():
        ran.append(threading.current_thread().name)
        end.wait()

    thread = io.start_thread(serve, "a test's service")
    with pytest.raises(roamlet.Deadlock):
        roamlet.channel().receive()
    end.set()
    thread.join()
    assert (ran, thread.daemon) == (["a test's service"], True)


def test_a_service_thread_may_wake_tasklets_that_wait_for_it():
    from roamlet import core

    waiter = core.Waiter()
    thread = io.start_thread(lambda: waiter.succeed("served"), "a test's service")
    assert waiter.wait(30) == "served"
    thread.join()


@pytest.mark.parametrize("bad", [None, 5, "f"])
def test_what_cannot_be_called_is_refused_in_the_caller(bad):
    with pytest.raises(TypeError, match=r"start_thread\(\) takes a callable without arguments"):
        io.start_thread(bad, "never started")
    assert not any(thread.name == "never started" for thread in threading.enumerate())
