"""The watch for tasklets that keep their thread, and the counters."""

import logging
import time

import pytest

import roamlet
from roamlet import core, diagnose, remote


def compute(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_a_tasklet_that_keeps_its_thread_is_logged_with_its_stack(caplog):
    caplog.set_level(logging.WARNING, "roamlet.diagnose")

    def hogs():
        while not caplog.records:
            compute(0.01)

    with diagnose.watch(0.02) as watch:
        tasklet = roamlet.tasklet(hogs)()
        roamlet.run()
        while len(caplog.records) < 2:
            roamlet.sleep(0.005)
    assert watch.seen == 1
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith(
        f"test_a_tasklet_that_keeps_its_thread_is_logged_with_its_stack.<locals>.hogs ({id(tasklet):#x}) has kept thread"
    )
    assert "the limit is 0.02 s" in first and ", in compute\n" in first and ", in hogs\n" in first
    assert "has let go of thread" in second


def test_tasklets_that_give_way_are_not_logged(caplog):
    caplog.set_level(logging.WARNING, "roamlet.diagnose")

    def polite(stop):
        while time.monotonic() < stop:
            roamlet.schedule()

    with diagnose.watch(0.25) as watch:
        for _ in range(3):
            roamlet.tasklet(polite)(time.monotonic() + 0.6)
        roamlet.run()
        roamlet.sleep(0.3)
    assert (watch.seen, caplog.records) == (0, [])


def test_a_thread_without_other_tasklets_is_not_watched(caplog):
    with diagnose.watch(0.02) as watch:
        time.sleep(0.15)
    assert watch.seen == 0
    watch.stop()


@pytest.mark.parametrize("limit", [0, 0.001, -1, float("nan"), float("inf"), True, None, "0.1", 4000])
def test_limits_that_make_no_sense_are_refused(limit):
    with pytest.raises(ValueError, match=r"watch\(\) takes a number of seconds from 0\.002 to 3600"):
        diagnose.watch(limit)


def test_counters_of_tasklets():
    channel = roamlet.channel()
    before = diagnose.metrics()
    tasklets = [roamlet.tasklet(channel.receive)() for _ in range(5)]
    tasklets.append(roamlet.tasklet(roamlet.sleep)(60))
    roamlet.schedule()
    roamlet.tasklet(roamlet.schedule)()
    after = diagnose.metrics()
    assert after["blocked"]["receive"] - before["blocked"]["receive"] == 5
    assert after["blocked"]["wait"] - before["blocked"]["wait"] == 1
    assert after["timers"] - before["timers"] == 1
    assert after["runnable"] - before["runnable"] == 1
    assert after["tasklets"] - before["tasklets"] == 6
    for _ in range(1000):
        roamlet.schedule()
    assert 1000 <= diagnose.metrics()["switches"] - after["switches"] <= 1100
    tasklets[-1].kill()
    for _ in range(5):
        channel.send(None)


def test_each_message_is_counted_once():
    channel, other = roamlet.channel(), roamlet.channel()

    def sends(count):
        for number in range(count):
            channel.send(number)

    before = diagnose.metrics()["messages"]
    tasklet = roamlet.tasklet(sends)(3)
    assert [channel.receive() for _ in range(3)] == [0, 1, 2]  # the receiver waits, then the sender
    roamlet.run()
    assert not tasklet.alive
    selecting = roamlet.tasklet(roamlet.select)(channel, other)
    roamlet.run()
    channel.send(3)  # to a select that waits
    selecting = roamlet.tasklet(roamlet.select)((channel, 4), other)
    roamlet.run()
    assert channel.receive() == 4  # from one
    roamlet.run()
    assert not selecting.alive
    assert diagnose.metrics()["messages"] - before == 5


def test_counters_of_contexts():
    with remote.local(name="counted") as context:
        before = diagnose.metrics()["contexts"]["counted"]
        context.call(time.monotonic)
        after = diagnose.metrics()["contexts"]["counted"]
        process = diagnose.tree()
        made = next(each for each in process.contexts if each.name == "counted")
        assert (made.state, made.process) == ("open", context.facts.pid)
    assert after["calls"] == before["calls"] + 1
    assert after["bytes_down"] > before["bytes_down"] and after["bytes_up"] > before["bytes_up"]
    assert after["calls_in_flight"] == 0
    assert "counted" not in diagnose.metrics()["contexts"]


def calls(context):
    context.call(time.sleep, (1,))


def joins(context):
    context.spawn(time.sleep, (1,)).join()


@pytest.mark.parametrize("start", [calls, joins])
def test_a_remote_call_is_seen_with_its_host_and_function(start):
    with remote.local(name="far") as context:
        tasklet = roamlet.tasklet(start)(context)
        deadline = time.monotonic() + 30
        process = diagnose.tree()
        while not any(each.calls for each in process.contexts) and time.monotonic() < deadline:
            roamlet.sleep(0.01)
            process = diagnose.tree()
        assert [call.function for each in process.contexts for call in each.calls] == ["time.sleep"]
        wait = process.find(id(tasklet)).wait
        if start is calls and core.backend != "greenlet":
            assert (wait.kind, wait.host, wait.text) == ("call", "far", "call of time.sleep on far")
            assert [(waker.kind, waker.text) for waker in wait.wakers] == [("host", "the answer of far")]
        while tasklet.alive:
            roamlet.sleep(0.01)
