"""stacklesslib.events and the main loop, which calls them."""

import threading

import pytest

import roamlet
from roamlet import stackless
from roamlet.stackless._path.stacklesslib import app, events, locks, main
from tests.stacklesslib.running import running


@pytest.fixture
def queue(monkeypatch):
    queue = events.EventQueue()
    queue.now = 0.0
    monkeypatch.setattr(queue, "time", lambda: queue.now)
    return queue


def test_events_are_called_in_the_order_of_their_times(queue):
    log = []
    queue.call_later(2, log.append, "later")
    queue.call_later(1, log.append, "soon")
    queue.call_at(1, log.append, "and then")
    queue.call_later_threadsafe(1, log.append, "from a thread")
    queue.call_soon(lambda: queue.call_soon(log.append, "next time"))
    assert queue.is_due
    assert (queue.pump(), log) == (1, [])
    queue.now = 1.0
    assert queue.pump() == 4
    assert log == ["next time", "soon", "and then", "from a thread"]
    assert (queue.due_delay(), len(queue)) == (1.0, 1)
    queue.reschedule(10)
    queue.now = 2.0
    assert (queue.pump(), queue.is_due) == (0, False)
    queue.now = 12.0
    assert queue.pump() == 1
    assert queue.due_delay() is None
    assert queue.is_due is False


def test_an_event_can_be_cancelled_until_it_is_called_and_repeats_until_then(queue):
    log = []
    handle = queue.call_repeatedly(1, log.append, "tick")
    late = queue.call_later(2, log.append, "once")
    for now in (1.0, 2.0):
        queue.now = now
        queue.pump()
    assert log == ["tick", "tick", "once"]
    assert (handle.cancel(), late.cancel(), handle.cancel()) == (True, False, True)
    queue.now = 9.0
    assert queue.pump() == 0


def test_an_error_of_an_event_is_printed_and_the_others_are_called(queue, capsys):
    log = []
    queue.call_soon(lambda: 1 / 0)
    queue.call_soon(log.append, "called")
    assert queue.pump() == 2
    assert log == ["called"]
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_without_tasklets_the_names_of_app_are_those_of_threads():
    app.install_vanilla()
    assert isinstance(app.Event(), threading.Event)
    assert type(app.RLock()) is type(threading.RLock())
    assert isinstance(app.Condition(), threading.Condition)
    with pytest.raises(NotImplementedError, match="install_stackless"):
        app.event_queue.call_later(1, print)
    app.install_stackless()
    assert isinstance(app.Event(), locks.Event)
    assert isinstance(app.Lock(), locks.Lock)
    assert isinstance(app.Semaphore(), locks.Semaphore)
    app.event_queue.call_later(0, print).cancel()
    assert len(app.event_queue) == 0


def test_the_main_loop_pumps_calls_events_and_runs_tasklets_until_it_is_stopped(monkeypatch, capsys):
    loop, log = main.MainLoop(), []
    loop.event_queue = events.EventQueue()
    loop.max_wait_time = 0.0

    def pump():
        log.append("pump")
        if len(log) > 3:
            loop.stop()

    def failing():
        raise LookupError("printed")

    loop.add_pump(pump)
    loop.add_pump(pump)
    loop.event_queue.call_soon(log.append, "event")
    roamlet.tasklet(log.append)("tasklet")
    roamlet.tasklet(failing)()
    loop.run()
    assert log[:4] == ["pump", "event", "tasklet", "pump"]
    assert "LookupError: printed" in capsys.readouterr().err
    loop.remove_pump(pump)
    loop.remove_pump(pump)
    assert loop.pumps == []


def test_the_wait_of_the_main_loop_lets_tasklets_run_and_ends_when_it_is_interrupted(capsys):
    loop, log = main.MainLoop(), []
    loop.event_queue = events.EventQueue()
    loop.max_wait_time = 3600

    def sleeper():
        app.sleep(1)
        log.append("slept")
        thread = threading.Thread(target=loop.interrupt_wait)
        thread.start()
        thread.join()
        raise LookupError("printed as well")

    running(sleeper)
    loop.wait()
    loop.interrupt_wait()
    loop.wait()
    assert log == ["slept"]
    assert "LookupError: printed as well" in capsys.readouterr().err
    roamlet.tasklet(log.append)("runnable")
    assert loop.get_wait_time(0) == 0
    stackless.run()
    assert loop.get_wait_time(0) == 3600
