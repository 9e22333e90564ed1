"""The Python frames of suspended tasklets, as others see them: tasklet.frame, f_back, tracebacks, generators."""

import gc
import sys
import traceback
import weakref
from collections.abc import Callable
from types import FrameType

import pytest

import roamlet
from roamlet import core


def names(frame: FrameType | None) -> list[str]:
    found = []
    while frame is not None:
        found.append(frame.f_code.co_name)
        frame = frame.f_back
    return found


def nested(depth: int, function: Callable[[], object]) -> object:
    """Call `function` under `depth` nested C calls, each with Python frames of its own."""
    if depth == 0:
        return function()
    return next(map(lambda _: nested(depth - 1, function), (1,)))


def inner(channel):
    return channel.receive()


def under_map(channel):
    return list(map(lambda _: inner(channel), (1,)))


def directly(channel):
    return channel.receive()


def receive_deep(channel, depth, chain):
    if depth:
        return receive_deep(channel, depth - 1, [chain])
    try:
        raise ValueError
    except ValueError:
        return channel.receive()


UNDER_MAP = ["inner", "<lambda>", "under_map"]


@pytest.fixture
def waiting():
    """Two blocked tasklets: one under a call from C, one that has a single frame."""
    channel = roamlet.channel()
    tasklets = [roamlet.tasklet(under_map)(channel), roamlet.tasklet(directly)(channel)]
    roamlet.run()
    yield tasklets
    for tasklet in tasklets:
        tasklet.kill()


def test_frame_of_a_suspended_tasklet_leads_to_its_first_function(waiting):
    assert [names(tasklet.frame) for tasklet in waiting] == [UNDER_MAP, ["directly"]]


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 5, 8, 13, 25])
def test_frames_of_suspended_tasklets_are_right_from_a_tasklet_that_uses_the_same_stack(waiting, depth):
    seen = []
    roamlet.tasklet(nested)(depth, lambda: seen.append([names(tasklet.frame) for tasklet in waiting]))
    roamlet.run()
    assert seen == [[UNDER_MAP, ["directly"]]]


@pytest.mark.parametrize("depth", [0, 1, 3, 8, 25])
def test_a_saved_frame_object_can_be_walked_from_main_and_from_other_tasklets(depth):
    saved, channel, seen = [], roamlet.channel(), []

    def keeper():
        saved.append(sys._getframe())
        channel.receive()

    tasklet = roamlet.tasklet(nested)(4, keeper)
    roamlet.run()
    expected = ["keeper", *["nested", "<lambda>"] * 4, "nested"]
    assert names(saved[0]) == expected
    roamlet.tasklet(nested)(depth, lambda: seen.append(names(saved[0])))
    roamlet.run()
    assert seen == [expected]
    assert names(saved[0]) == expected
    tasklet.kill()
    assert saved[0].f_back is None or names(saved[0])[0] == "keeper"
    saved.clear()


def test_frames_stay_right_over_many_suspensions():
    tasklets, seen = [], []

    def walker():
        for _ in range(30):
            seen.append([names(tasklet.frame) for tasklet in tasklets])
            roamlet.schedule()

    def worker(depth):
        def loop():
            for _ in range(30):
                roamlet.schedule()

        nested(depth, loop)

    tasklets += [roamlet.tasklet(worker)(depth) for depth in (0, 3, 7)]
    roamlet.tasklet(walker)()
    roamlet.run()
    expected = [["loop", *["nested", "<lambda>"] * depth, "nested", "worker"] for depth in (0, 3, 7)]
    assert seen == [expected] * 30


def test_frame_of_the_current_tasklet_is_the_callers():
    assert roamlet.getcurrent().frame is sys._getframe()


def test_frame_is_none_before_the_start_and_after_the_end():
    tasklet = roamlet.tasklet(lambda: None)()
    assert tasklet.frame is None
    roamlet.run()
    assert tasklet.frame is None


def test_frame_of_main_seen_from_a_tasklet_leads_through_the_test():
    seen = []
    roamlet.tasklet(lambda: seen.append(names(roamlet.getmain().frame)))()
    roamlet.run()
    assert seen[0][0] == "test_frame_of_main_seen_from_a_tasklet_leads_through_the_test"
    assert seen[0][-1] == names(sys._getframe())[-1]


def test_the_first_frame_of_a_tasklet_has_no_caller():
    seen = []

    def first():
        roamlet.schedule()
        seen.append(sys._getframe().f_back)
        seen.append(len(traceback.extract_stack()))

    roamlet.tasklet(first)()
    roamlet.run()
    assert seen == [None, 1]


def test_locals_and_line_of_a_suspended_frame_can_be_read(waiting):
    frame = waiting[1].frame
    assert isinstance(frame.f_locals["channel"], roamlet.channel)
    assert frame.f_lineno == directly.__code__.co_firstlineno + 1


def test_a_traceback_names_each_function_of_the_tasklet_and_no_other():
    caught = []

    def failing():
        roamlet.schedule()
        raise LookupError("deep down")

    def tasklet():
        try:
            nested(3, failing)
        except LookupError as error:
            caught.append([entry.name for entry in traceback.extract_tb(error.__traceback__)])

    for _ in range(3):
        roamlet.tasklet(tasklet)()
    roamlet.run()
    assert caught == [["tasklet", *["nested", "<lambda>"] * 3, "nested", "failing"]] * 3


def test_traceback_of_an_error_in_main_names_the_tasklets_function():
    def failing():
        raise LookupError("in a tasklet")

    roamlet.tasklet(failing)()
    with pytest.raises(LookupError, match="in a tasklet") as caught:
        roamlet.run()
    assert [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)][-1] == "failing"


def test_a_frame_object_outlives_its_tasklet():
    saved = []

    def function(value):
        saved.append(sys._getframe())
        roamlet.schedule()

    roamlet.tasklet(function)(42)
    roamlet.run()
    assert saved[0].f_locals["value"] == 42
    assert saved[0].f_back is None


def test_holding_the_frame_of_a_suspended_tasklet_does_not_keep_the_tasklet():
    def function():
        roamlet.schedule_remove()

    tasklet = roamlet.tasklet(function)()
    roamlet.run()
    frame, dead = tasklet.frame, weakref.ref(tasklet)
    del tasklet
    assert dead() is None
    assert frame.f_code is function.__code__


def test_a_frame_is_cleared_when_its_tasklet_ends():
    class Value:
        pass

    def function(value):
        roamlet.schedule_remove()

    value = Value()
    gone = weakref.ref(value)
    tasklet = roamlet.tasklet(function)(value)
    del value
    roamlet.run()
    assert gone() is not None
    tasklet.run()
    assert gone() is None


def test_a_collection_walks_two_thousand_suspended_tasklets():
    channel = roamlet.channel()

    for _ in range(2000):
        roamlet.tasklet(receive_deep)(channel, 10, {})
    roamlet.run()
    for _ in range(2):
        gc.collect()
    assert sum(isinstance(thing, roamlet.tasklet) for thing in gc.get_objects()) >= 2000
    while channel.balance:
        channel.send(None)
    assert len(core.started()) == 0


def test_generators_are_resumed_across_switches():
    channel, received = roamlet.channel(), []

    def values():
        for _ in range(5):
            yield channel.receive()

    def consumer():
        received.extend(values())

    roamlet.tasklet(consumer)()
    roamlet.tasklet(channel.send_sequence)(range(5))
    roamlet.run()
    assert received == [0, 1, 2, 3, 4]


def test_a_generator_begun_in_one_tasklet_goes_on_in_another():
    def numbers():
        for number in range(6):
            roamlet.schedule()
            yield number

    generator, received = numbers(), []

    def take(count):
        for _ in range(count):
            received.append((count, next(generator)))

    first = roamlet.tasklet(take)(2)
    while first.alive:
        roamlet.schedule()
    roamlet.tasklet(take)(4)
    roamlet.run()
    assert received == [(2, 0), (2, 1), (4, 2), (4, 3), (4, 4), (4, 5)]


def test_a_generator_that_a_suspended_tasklet_executes_cannot_be_entered_by_another():
    def numbers():
        roamlet.schedule()
        yield 1

    generator, refused = numbers(), []

    def second():
        with pytest.raises(ValueError, match="generator already executing"):
            next(generator)
        refused.append(True)

    roamlet.tasklet(next)(generator)
    roamlet.tasklet(second)()
    roamlet.run()
    assert refused == [True]


def test_coroutines_can_be_driven_in_tasklets():
    async def inner_coroutine(value):
        roamlet.schedule()
        return value * 2

    async def outer_coroutine():
        return [await inner_coroutine(value) for value in range(3)]

    results = []

    def drive():
        try:
            outer_coroutine().send(None)
        except StopIteration as stop:
            results.append(stop.value)

    for _ in range(3):
        roamlet.tasklet(drive)()
    roamlet.run()
    assert results == [[0, 2, 4]] * 3
