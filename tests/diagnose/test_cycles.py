"""Cycles of waiting are found among tasklets that go on, named in words, and not claimed where something may still wake them."""

import pytest

import roamlet
from roamlet import diagnose, sync
from roamlet.diagnose import render

pytestmark = pytest.mark.backends("native", reason="greenlet shows no references of suspended frames")


def started(function, *args):
    tasklet = roamlet.tasklet(function)(*args)
    tasklet.run()
    return tasklet


def take_both(first, second):
    with first:
        roamlet.schedule()
        with second:
            pass


def acquire_both(first, second):
    first.acquire()
    roamlet.schedule()
    try:
        second.acquire()
    finally:
        first.release()


def ended(*tasklets):
    for tasklet in tasklets:
        tasklet.kill()
    roamlet.run()


@pytest.mark.parametrize("make", [sync.Lock, sync.RLock])
def test_a_deadlock_among_three_tasklets_while_others_go_on(make):
    locks = [make() for _ in range(3)]
    stop = []

    def goes_on():
        while not stop:
            roamlet.schedule()

    going = started(goes_on)
    three = [roamlet.tasklet(take_both)(locks[n], locks[(n + 1) % 3]) for n in range(3)]
    for _ in range(5):
        roamlet.schedule()
    process = diagnose.tree()
    assert len(process.cycles) == 1
    cycle = process.cycles[0]
    assert cycle.sure
    assert {step.tasklet for step in cycle.steps} == set(map(id, three))
    # Each waits for the holder of its second lock, in order.
    for step in cycle.steps:
        number = next(n for n, tasklet in enumerate(three) if id(tasklet) == step.tasklet)
        assert step.next == id(three[(number + 1) % 3])
        assert f"{id(locks[(number + 1) % 3]):#x}, which take_both holds" in step.waits
        assert step.where == f"take_both() at {__file__}:{take_both.__code__.co_firstlineno + 3}"
    assert render.stacks(process).splitlines()[1] == "DEADLOCK: 3 tasklets wait for each other and never go on:"
    stop.append(True)
    ended(*three)
    assert not going.alive


def test_locks_that_were_taken_without_with_are_found_through_what_refers_to_them():
    def make():
        one, two = sync.Lock(), sync.Lock()
        return roamlet.tasklet(acquire_both)(one, two), roamlet.tasklet(acquire_both)(two, one)

    both = make()
    for _ in range(4):
        roamlet.schedule()
    cycle = diagnose.tree().cycles[0]
    assert {step.tasklet for step in cycle.steps} == set(map(id, both))
    assert cycle.sure
    ended(*both)


def receives_then_sends(source, target):
    source.receive()
    target.send(1)


def test_tasklets_whose_channels_only_they_refer_to():
    def make():
        one, two = roamlet.channel(), roamlet.channel()
        return started(receives_then_sends, one, two), started(receives_then_sends, two, one)

    both = make()
    cycle = diagnose.tree().cycles[0]
    assert cycle.sure and {step.tasklet for step in cycle.steps} == set(map(id, both))
    ended(*both)


def test_a_channel_that_other_code_has_is_no_deadlock():
    one, two = roamlet.channel(), roamlet.channel()
    both = started(receives_then_sends, one, two), started(receives_then_sends, two, one)
    assert diagnose.tree().cycles == []
    ended(*both)


def test_channels_that_a_global_name_has_may_be_used_by_other_code():
    global _one, _two
    _one, _two = roamlet.channel(), roamlet.channel()
    both = started(receives_then_sends, _one, _two), started(receives_then_sends, _two, _one)
    process = diagnose.tree()
    assert [cycle.sure for cycle in process.cycles] == [False]
    assert "go on only if other code wakes one of them" in process.cycles[0].text
    ended(*both)
    del _one, _two


def test_a_running_tasklet_that_refers_to_a_channel_breaks_the_cycle():
    def make():
        one, two, go = roamlet.channel(), roamlet.channel(), roamlet.channel()

        def helper(target):
            while True:
                roamlet.schedule()
                if go.balance > 0:
                    target.send(1)
                    return

        first, second = started(receives_then_sends, one, two), started(receives_then_sends, two, one)
        return first, second, started(helper, one)

    three = make()
    assert diagnose.tree().cycles == []
    ended(*three)


def test_a_time_limit_is_no_deadlock():
    locks = sync.RLock(), sync.RLock()

    def limited(first, second):
        with roamlet.timeout(60):
            take_both(first, second)

    one, two = roamlet.tasklet(limited)(*locks), roamlet.tasklet(take_both)(locks[1], locks[0])
    for _ in range(4):
        roamlet.schedule()
    assert diagnose.tree().cycles == []
    ended(one, two)


def test_tasklets_that_join_each_other():
    box = []

    def joins(number):
        roamlet.schedule()
        box[number].join()

    box += [roamlet.spawn(joins, (1,)), roamlet.spawn(joins, (0,))]
    for _ in range(4):
        roamlet.schedule()
    cycle = diagnose.tree().cycles[0]
    assert cycle.sure and {step.tasklet for step in cycle.steps} == set(map(id, box))
    assert "join of test_tasklets_that_join_each_other.<locals>.joins" in cycle.steps[0].waits
    ended(*box)
    box.clear()


def test_a_tasklet_that_waits_for_a_channel_of_its_own_alone():
    def alone():
        roamlet.channel().receive()

    tasklet = started(alone)
    wait = diagnose.tree().find(id(tasklet)).wait
    assert [waker.text for waker in wait.wakers] == ["no other tasklet refers to what it waits for"]
    ended(tasklet)


def test_a_chain_that_ends_at_a_sleeper_is_no_cycle():
    lock = sync.RLock()

    def sleeps():
        with lock:
            roamlet.sleep(60)

    sleeping = started(sleeps)
    waiting = [started(take_both, lock, sync.RLock()) for _ in range(3)]
    assert diagnose.tree().cycles == []
    ended(*waiting, sleeping)


def test_too_many_objects_leave_the_question_open(monkeypatch):
    monkeypatch.setattr("roamlet.diagnose.cycles.MOST_NODES", 1)

    def make():
        one, two = roamlet.channel(), roamlet.channel()
        return started(receives_then_sends, one, two), started(receives_then_sends, two, one)

    locks = sync.RLock(), sync.RLock()
    both = (*make(), roamlet.tasklet(take_both)(*locks), roamlet.tasklet(take_both)(*locks[::-1]))
    for _ in range(4):
        roamlet.schedule()
    process = diagnose.tree()
    assert "which waits never end" in process.problems[0]
    assert [cycle.sure for cycle in process.cycles] == [True, False]  # the locks' owners are known without
    ended(*both)
