"""What the cyclic collector leaves alone: tasklets that something can wake, or that C code holds."""

import gc
import sys
import threading
import weakref

import pytest

import roamlet
from roamlet import core
from tests.core._collecting import (
    SEES_FRAMES,
    STORES_OPERANDS,
    kill_all,
    noting,
    run,
    run_and_collect,
)
from tests.core._forms import Token
from tests.core._objects import Value, waits_with_finally

pytestmark = pytest.mark.usefixtures("cycles_of_local_classes_are_gone")

# What C code between two frames holds is not seen: these tasklets stay. Kept as they are until they are killed.
HELD_BY_C = {}

# These are found where the operands of any call are seen.
HELD_BY_OPERANDS = {}


def held_by_c(function):
    HELD_BY_C[function.__name__] = function
    return function


def held_by_operands(function):
    HELD_BY_OPERANDS[function.__name__] = function
    return function


@held_by_c
def in_a_class_body():
    class Body:
        channel = roamlet.channel()
        value = channel.receive()

    return Body


@held_by_c
def under_a_call_from_c():
    channel = roamlet.channel()
    return list(map(lambda _: channel.receive(), (1,)))


@held_by_operands
def called_with_an_unpacked_tuple():
    roamlet.channel().send(*(Value(),))


@held_by_operands
def called_by_next():
    next(roamlet.channel())


@held_by_operands
def in_a_sequence_sent():
    roamlet.channel().send_sequence([Value()])


@pytest.mark.parametrize("way", [*HELD_BY_C.values(), *HELD_BY_OPERANDS.values()])
def test_a_tasklet_that_c_code_holds_stays_and_can_be_killed(way):
    log = []

    def tasklet():
        with noting(log):
            way()

    roamlet.tasklet(tasklet)()
    run()
    for _ in range(3):
        gc.collect()
    if way.__name__ in HELD_BY_C or not (SEES_FRAMES and STORES_OPERANDS):
        assert log == [] and len(core.started()) == 1
        kill_all()
    assert log == ["TaskletExit", "finally"] and core.started() == []
    gc.collect()


def stays(tasklet, log=()):
    """Collect, and check that the tasklet has not noticed."""
    roamlet.run()
    condition = repr(tasklet)
    for _ in range(2):
        gc.collect()
    assert tasklet.alive and repr(tasklet) == condition and log in ([], ())


def test_a_tasklet_whose_channel_is_known_goes_on():
    log, channel = [], roamlet.channel()
    token = roamlet.tasklet(lambda: log.append((Token(1), channel.receive())[0].check()))()
    stays(token, log)
    channel.send(None)
    assert log == [1]


def test_a_tasklet_that_is_known_goes_on_to_wait():
    log = []
    tasklet = roamlet.tasklet(waits_with_finally)(log, lambda: roamlet.channel().receive())
    stays(tasklet, log)
    tasklet.kill()
    assert log == ["TaskletExit", "finally"]


def test_a_tasklet_with_a_timer_is_woken_by_time(clock):
    log = []

    def sleeps():
        roamlet.sleep(10)
        log.append("slept")

    def times_out():
        try:
            core.Waiter().wait(20)
        except TimeoutError:
            log.append("timed out")

    for function in (sleeps, times_out):
        roamlet.tasklet(function)()
    roamlet.tasklet(roamlet.sleep)(5)
    roamlet.run(hub=False)
    for _ in range(2):
        gc.collect()
    assert log == [] and len(core.started()) == 3
    roamlet.run()
    assert log == ["slept", "timed out"]


def test_a_tasklet_in_the_run_queue_runs():
    log = []

    def runs():
        roamlet.schedule()
        log.append("ran")

    roamlet.tasklet(runs)()
    roamlet.schedule()
    for _ in range(2):
        gc.collect()
    roamlet.run()
    assert log == ["ran"]


def test_the_current_tasklet_and_those_inside_run_go_on():
    log = []

    def runs():
        roamlet.tasklet(collects)()
        roamlet.run()
        log.append("returned")

    def collects():
        local = Token(3)
        for _ in range(2):
            gc.collect()
        log.append(local.check())

    roamlet.tasklet(runs)()
    roamlet.run()
    assert log == [3, "returned"]


def test_a_tasklet_whose_waiter_somebody_will_settle_goes_on():
    log, promised = [], []

    def waits():
        waiter = core.Waiter()
        promised.append(waiter)
        log.append(waiter.wait())

    roamlet.tasklet(waits)()
    roamlet.schedule()
    for _ in range(2):
        gc.collect()
    promised.pop().succeed(4)
    roamlet.run()
    assert log == [4]


def test_a_thread_whose_current_tasklet_sleeps_for_all_goes_on():
    log, home, ready = [], roamlet.channel(), threading.Event()

    def thread():
        roamlet.tasklet(ready.set)()
        log.append((Token(1), home.receive())[1])

    other = threading.Thread(target=thread)
    other.start()
    ready.wait()
    for _ in range(20):
        gc.collect()
    home.send("woken")
    other.join()
    assert log == ["woken"]


def test_main_that_waits_for_a_tasklet_goes_on():
    channel = roamlet.channel()

    def answers():
        for _ in range(2):
            gc.collect()
        channel.send(Token(6))

    roamlet.tasklet(answers)()
    assert channel.receive().check() == 6
    roamlet.run()


class TaskletWithDel(roamlet.tasklet):
    def __del__(self):
        self.log.append("__del__")


def test_a_subclass_with_a_finalizer_of_its_own_is_left_alone():
    log = []

    def waits():
        local = [Token(3)]
        local.append(local)
        try:
            roamlet.channel().receive()
        finally:
            log.append(local[0].check())

    tasklet = TaskletWithDel(waits)
    tasklet.log = []
    tasklet()
    roamlet.run()
    del tasklet
    for _ in range(2):
        gc.collect()
    assert log == []
    kill_all()
    assert log == [3]


def test_one_that_refuses_to_end_keeps_all_it_has():
    log, things = [], []

    def refuses():
        local = [Token(1)]
        local.append(local)
        channel = roamlet.channel()
        try:
            channel.receive()
        except roamlet.TaskletExit:
            log.append("refused")
        things.append(weakref.ref(local[0]))
        try:
            channel.receive()
        finally:
            log.append(local[0].check())
            assert local[1] is local

    roamlet.tasklet(refuses)()
    run_and_collect()
    if not SEES_FRAMES:
        core.started()[0].kill()
    assert log == ["refused"]
    for _ in range(3):
        gc.collect()
    assert log == ["refused"] and things[0]().whole
    kill_all()
    assert log == ["refused", 1]
    gc.collect()


def test_a_frame_that_is_held_keeps_its_locals_but_not_its_tasklet():
    def tasklet():
        local = [Token(2)]
        local.append(local)
        roamlet.channel().receive()

    roamlet.tasklet(tasklet)()
    roamlet.run()
    frame = core.started()[0].frame
    run_and_collect()
    assert (core.started() == []) == SEES_FRAMES
    gc.collect()
    assert frame.f_locals["local"][0].check() == 2
    kill_all()
    del frame
    gc.collect()


def test_an_executing_generator_is_finalized_as_ever_when_its_tasklet_has_gone_on():
    log = []

    def values(channel):
        try:
            yield channel.receive()
            log.append("not reached")
        finally:
            log.append("closed")

    def tasklet(channel):
        generator = values(channel)
        log.append(next(generator))
        del generator
        log.append("dropped")

    channel = roamlet.channel()
    roamlet.tasklet(tasklet)(channel)
    run_and_collect()
    channel.send("value")
    roamlet.run()
    assert log == ["value", "closed", "dropped"]


def test_a_generator_that_is_older_than_the_tasklet_that_executes_it_makes_no_complaint(monkeypatch):
    log, complaints = [], []

    def values():
        try:
            yield roamlet.channel().receive()
        finally:
            log.append("closed")

    monkeypatch.setattr(sys, "unraisablehook", lambda problem: complaints.append(repr(problem)))
    roamlet.tasklet(list)(values())
    run_and_collect()
    kill_all()
    assert log == ["closed"] and complaints == []


class Dying:
    """Garbage at once; calls a function when it is collected."""

    def __init__(self, function):
        self.function, self.me = function, self

    def __del__(self):
        self.function(self)


def test_what_a_collection_calls_may_send_from_a_tasklet_and_not_block_there():
    channel, received, refused = roamlet.channel(), [], []

    def receives():
        for thing in channel:
            vars(thing).clear()
            received.append("one")

    def blocks(thing):
        try:
            roamlet.channel().receive()
        except RuntimeError as error:
            refused.append(str(error))

    def collects():
        for _ in range(50):
            for _ in range(20):
                Dying(lambda thing: channel.send(thing) if channel.balance < 0 else None)
            gc.collect()
            roamlet.schedule()
        Dying(blocks)
        gc.collect()

    roamlet.tasklet(receives)()
    roamlet.tasklet(collects)()
    roamlet.run()
    assert len(received) >= 50
    assert all("inside a collection" in text for text in refused) and len(refused) == 1
    channel.close()
    roamlet.run()
