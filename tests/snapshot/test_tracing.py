"""Trace functions, profilers and sys.monitoring while tasklets are saved, restored and ended: they see its own frames alone."""

import contextlib
import gc
import sys

import pytest

import roamlet
from roamlet import snapshot
from roamlet.snapshot.migration.source import discard
from tests.snapshot import async_programs, programs
from tests.snapshot._driving import end, saved_at_each_step, wrong_from

OURS = {"leaf", "outer", "guarded"}
HELPERS = {"base", "bridge", "initialised"}


def leaf(ch):
    return ch.receive()


def outer(ch, out):
    out.append(leaf(ch))
    out.append(leaf(ch))


def guarded(ch, out):
    try:
        out.append(sorted([1], key=lambda _: leaf(ch)))
    finally:
        out.append("finally")


class Thing:
    def __init__(self, ch):
        self.value = ch.receive()


def makes(ch, out):
    out.append(Thing(ch).value)


class Trace:
    def __init__(self, events):
        self.events = events

    def __call__(self, frame, event, arg):
        self.events.append((event, frame.f_code.co_name))
        return self


@contextlib.contextmanager
def traced():
    """Its events: (event, name of the function)."""
    events = []
    before = sys.gettrace()
    sys.settrace(Trace(events))
    try:
        yield events
    finally:
        sys.settrace(before)


@contextlib.contextmanager
def profiled():
    events = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, arg: events.append((event, frame.f_code.co_name)))
    try:
        yield events
    finally:
        sys.setprofile(before)


@contextlib.contextmanager
def monitored():
    """All events there are."""
    events = []
    monitoring = sys.monitoring
    tool = monitoring.PROFILER_ID
    monitoring.use_tool_id(tool, "tests of snapshots")
    kinds = [name for name in vars(monitoring.events) if name.isupper() and name != "NO_EVENTS"]
    try:
        every = 0
        for name in kinds:
            number = getattr(monitoring.events, name)
            every |= number
            monitoring.register_callback(
                tool, number, lambda code, *rest, name=name: events.append((name, code.co_name)) and None
            )
        monitoring.set_events(tool, every)
        yield events
    finally:
        monitoring.set_events(tool, 0)
        for name in kinds:
            monitoring.register_callback(tool, getattr(monitoring.events, name), None)
        monitoring.free_tool_id(tool)


WATCHES = [traced, profiled, *([monitored] if sys.version_info >= (3, 12) else [])]
watches = pytest.mark.parametrize("watch", WATCHES, ids=lambda watch: watch.__name__)
# 3.11 cannot be kept from telling a profiler that frames return.
SEEN = HELPERS if sys.version_info >= (3, 12) else set()


def saved(function, *args):
    """The bytes of (tasklet, channel, out), once it waits."""
    ch, out = roamlet.channel(), []
    tasklet = roamlet.tasklet(function)(*args, ch, out)
    tasklet.run()
    data = snapshot.dumps((tasklet, ch, out))
    end(tasklet)
    return data


@watches
def test_what_was_saved_without_a_watch_is_killed_raises_and_goes_on_under_one(watch):
    data = saved(outer)
    with watch() as events:
        killed, _, _ = snapshot.loads(data)
        killed.kill()
        _, ch, _ = snapshot.loads(data)
        with pytest.raises(TypeError, match="'Wrong' is raised"):
            ch.send_exception(TypeError, "'Wrong' is raised")
        _, ch, out = snapshot.loads(data)
        ch.send(1)
        ch.send(2)
    assert out == [1, 2]
    assert not killed.alive
    assert not [each for each in events if each[1] in SEEN and each[0] not in ("call", "line")]
    assert ("call", "leaf") in events or ("PY_START", "leaf") in events  # the second call, which began under it


@watches
def test_what_was_saved_under_a_watch_goes_on_without_one_and_is_saved_again(watch):
    with watch():
        data = saved(outer)
    tasklet, ch, out = snapshot.loads(data)
    ch.send(1)
    with watch():
        again, its_channel, its_out = snapshot.loads(snapshot.dumps((tasklet, ch, out)))
        its_channel.send(2)
    ch.send(3)
    assert (out, its_out) == ([1, 3], [1, 2])
    assert not again.alive


@watches
def test_all_constructs_are_saved_and_restored_under_a_watch_too(watch):
    for program in (*programs.PROGRAMS, *async_programs.PROGRAMS):
        if program is programs.recursion_of_500:
            continue
        with watch():
            snapshots, out = saved_at_each_step(program)
            assert wrong_from(snapshots[:1], repr(out)) == [], program  # and again from there at each later step
        assert repr(out) == repr(saved_at_each_step(program)[1]), program
    gc.collect()  # some programs are cycles


@watches
def test_one_that_was_saved_inside_a_class_being_called(watch):
    data = saved(makes)
    with watch():
        killed, _, _ = snapshot.loads(data)
        killed.kill()
        _, ch, out = snapshot.loads(data)
        ch.send(5)
    assert out == [5]


@watches
@pytest.mark.parametrize("when", ["before it ran", "after it blocked"])
def test_one_whose_copy_has_moved_ends_in_silence(watch, when):
    ch, out = roamlet.channel(), []
    with contextlib.ExitStack() as watching:
        if when == "before it ran":
            events = watching.enter_context(watch())
        tasklet = roamlet.tasklet(guarded)(ch, out)
        tasklet.run()
        if when != "before it ran":
            events = watching.enter_context(watch())
        del events[:]
        discard(tasklet, [])
        seen = events[:]
        leaf(iter_of(7))
        assert ("call", "leaf") in events or ("PY_START", "leaf") in events  # the thread is watched on
    assert out == []
    assert not tasklet.alive and ch.balance == 0
    assert not OURS & {name for _, name in seen}
    gc.collect()


class iter_of:
    """Receives without a channel."""

    def __init__(self, value):
        self.value = value

    def receive(self):
        return self.value
