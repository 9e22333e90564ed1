"""Tasklets and channels that refer to each other are saved together, each once."""

import gc
import itertools
import sys
import threading

import pytest

import roamlet
from roamlet import snapshot
from roamlet.sync import Event


def stage(source, target):
    for value in source:
        target.send(value + 1)


def knows_itself(ch, seen):
    me = roamlet.getcurrent()
    value = ch.receive()
    seen.append(value)
    seen.append(me)


def test_a_pipeline_goes_on_as_one():
    channels = [roamlet.channel() for _ in range(4)]
    stages = [roamlet.tasklet(stage)(*pair) for pair in itertools.pairwise(channels)]
    roamlet.schedule()
    copies, tasklets = snapshot.loads(snapshot.dumps((channels, stages)))
    copies[0].send(1)
    assert copies[-1].receive() == 4
    roamlet.run()
    assert [each.blocked for each in tasklets] == [True] * 3
    for each in [*stages, *tasklets]:
        each.kill()


def test_only_one_end_needs_to_be_named():
    first, last = roamlet.channel(), roamlet.channel()
    tasklet = roamlet.tasklet(stage)(first, last)
    roamlet.schedule()
    copy = snapshot.loads(snapshot.dumps(tasklet))
    source, target = copy.frame.f_locals["source"], copy.frame.f_locals["target"]
    source.send(1)
    assert target.receive() == 2
    roamlet.run()
    copy.kill()
    tasklet.kill()
    del source, target


def test_a_cycle_through_the_tasklet_itself_stays_one():
    ch, seen = roamlet.channel(), []
    tasklet = roamlet.tasklet(knows_itself)(ch, seen)
    roamlet.schedule()
    copy, its_channel, its_seen = snapshot.loads(snapshot.dumps((tasklet, ch, seen)))
    its_channel.send("value")
    assert its_seen == ["value", copy]
    assert seen == []
    tasklet.kill()
    seen.clear()
    its_seen.clear()


def test_a_long_row_of_tasklets_needs_no_deep_recursion():
    channels = [roamlet.channel() for _ in range(3000)]
    stages = [roamlet.tasklet(stage)(*pair) for pair in itertools.pairwise(channels)]
    roamlet.run()
    copy = snapshot.loads(snapshot.dumps(channels[0]))
    restored = []
    while copy.queue is not None:
        restored.append(copy.queue)
        copy = copy.queue.frame.f_locals["target"]
    assert len(restored) == len(stages)
    for each in [*stages, *restored]:
        each.kill()


def deep(ch, n):
    if n:
        return deep(ch, n - 1) + 1
    return ch.receive()


def keeps(ch, n, out):
    out.append(deep(ch, n))


def test_deep_tasklets_can_be_saved_and_too_deep_ones_name_the_limit():
    ch, out = roamlet.channel(), []
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(30_000)
    try:
        tasklet = roamlet.tasklet(keeps)(ch, 20_000, out)
        roamlet.schedule()
        data = snapshot.dumps((ch, out))
        tasklet.kill()
        sys.setrecursionlimit(limit)
        with pytest.raises(RecursionError, match=r"is 2000\d calls deep, more than the recursion limit allows"):
            snapshot.loads(data)
        sys.setrecursionlimit(30_000)
        ch, out = snapshot.loads(data)
        ch.send(1)
        assert out == [20_001]
    finally:
        sys.setrecursionlimit(limit)


def test_the_same_tasklet_can_be_saved_often_and_each_copy_is_its_own():
    ch, out = roamlet.channel(), []
    tasklet = roamlet.tasklet(keeps)(ch, 3, out)
    roamlet.schedule()
    data = snapshot.dumps((ch, out))
    for value in range(5):
        its_channel, its_out = snapshot.loads(data)
        its_channel.send(value)
        assert its_out == [value + 3]
    assert snapshot.dumps((ch, out)) == data
    tasklet.kill()


def test_it_is_restored_in_the_thread_that_loads_it():
    ch, out = roamlet.channel(), []
    tasklet = roamlet.tasklet(keeps)(ch, 3, out)
    roamlet.schedule()
    data = snapshot.dumps((ch, out))
    tasklet.kill()
    seen = []

    def elsewhere():
        its_channel, its_out = snapshot.loads(data)
        its_channel.send(1)
        seen.extend(its_out)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [4]


def test_one_of_another_thread_can_be_saved_while_it_waits():
    ch, done, ready, out = roamlet.channel(), Event(), Event(), []

    def elsewhere():
        tasklet = roamlet.tasklet(keeps)(ch, 3, out)
        roamlet.schedule()
        ready.set()
        done.wait()
        tasklet.kill()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    ready.wait()
    its_channel, its_out = snapshot.loads(snapshot.dumps((ch, out)))
    its_channel.send(1)
    assert its_out == [4]
    done.set()
    thread.join()


def test_one_that_another_thread_runs_at_this_moment_is_refused():
    running, done, found = threading.Event(), threading.Event(), []

    def runs():
        found.append(roamlet.getcurrent())
        running.set()
        done.wait()

    def elsewhere():
        roamlet.tasklet(runs)()
        roamlet.run()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    running.wait()
    try:
        with pytest.raises(snapshot.CannotSave, match="it is running. Another tasklet must save it"):
            snapshot.dumps(found[0])
    finally:
        done.set()
        thread.join()
    found.clear()


def test_nothing_is_restored_where_nothing_may_be_switched():
    ch, out = roamlet.channel(), []
    tasklet = roamlet.tasklet(keeps)(ch, 3, out)
    roamlet.schedule()
    data = snapshot.dumps((ch, out))
    roamlet.switch_trap(1)
    try:
        with pytest.raises(RuntimeError, match="switch_trap"):
            snapshot.loads(data)
    finally:
        roamlet.switch_trap(-1)
    tasklet.kill()
    gc.collect()
    assert out == []
