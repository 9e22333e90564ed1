"""Restoring that is cut short, by a signal or by memory that is out: nothing stays, and no code of the tasklets runs."""

import collections
import functools
import gc
import signal
import sys
import weakref
from _thread import interrupt_main

import pytest

import roamlet
from roamlet import snapshot
from roamlet.snapshot import _native
from roamlet.snapshot.loading import load
from tests.snapshot._driving import end

ran = []


@pytest.fixture(autouse=True)
def nothing_ran():
    ran.clear()
    yield
    ran.clear()


def deep(ch, n):
    try:
        return deep(ch, n - 1) + 1 if n else ch.receive()
    finally:
        ran.append(n)


def keeps(ch, n, out):
    out.append(deep(ch, n))


def waits(ch):
    ch.receive()


def saved(n):
    """The bytes of (channel, out) with a tasklet n calls deep."""
    ch, out = roamlet.channel(), []
    tasklet = roamlet.tasklet(keeps)(ch, n, out)
    tasklet.run()
    data = snapshot.dumps((ch, out))
    end(tasklet)
    ran.clear()
    return data


class Watched(list):
    """Can be watched as it goes."""

    __hash__ = object.__hash__


class Tripwire:
    """Lets a signal come when the frames have been built, and before they are put in place: their records are dropped then."""

    def __init__(self):
        self.reference = None
        self.check = _native.check
        self.trips = collections.defaultdict(functools.partial(interrupt_main, signal.SIGINT))

    def __call__(self, functions, *rest):
        watched = Watched(functions)
        self.reference = weakref.ref(
            watched, self.trips.__getitem__
        )  # C code alone: it is not called in the middle of a bytecode
        hash(self.reference)
        return self.check(watched, *rest)


@pytest.mark.parametrize("depth", [0, 3, 700])  # the last one takes several chunks of the data stack
def test_a_signal_between_building_the_frames_and_putting_them_in_place_leaves_nothing(depth, monkeypatch):
    data = saved(depth)
    counts = sys.getrefcount(deep), sys.getrefcount(deep.__code__), sys.getrefcount(keeps)
    for _ in range(3):
        with monkeypatch.context() as patched:
            patched.setattr(_native, "check", Tripwire())
            with pytest.raises(KeyboardInterrupt):
                snapshot.loads(data)
        gc.collect()
        assert (sys.getrefcount(deep), sys.getrefcount(deep.__code__), sys.getrefcount(keeps)) == counts
    assert ran == []
    ch, out = snapshot.loads(data)
    ch.send(1)
    assert out == [depth + 1]


def test_when_one_cannot_be_built_the_others_end_without_their_finally_blocks(monkeypatch):
    channels = [roamlet.channel(), roamlet.channel()]
    tasklets = [roamlet.tasklet(keeps)(ch, depth, []) for ch, depth in zip(channels, (3, 600), strict=True)]
    roamlet.schedule()
    data = snapshot.dumps((tasklets, channels))
    for each in tasklets:
        end(each)
    ran.clear()
    limit, go = sys.getrecursionlimit(), load.Restoring.go

    def goes_with_a_lower_limit(self, places):
        assert [each.recursion_depth for each, _, _ in self.started] == [0, 0]
        sys.setrecursionlimit(400)
        go(self, places)

    monkeypatch.setattr(load.Restoring, "go", goes_with_a_lower_limit)
    try:
        with pytest.raises(RecursionError, match="too deep for the recursion limit, which was just lowered"):
            snapshot.loads(data)
    finally:
        sys.setrecursionlimit(limit)
    assert ran == []
    assert roamlet.getruncount() == 1
    gc.collect()


def test_all_are_put_in_their_places_or_none(monkeypatch):
    """The last one cannot be: it is in the run queue already."""
    ch, other = roamlet.channel(), roamlet.channel()
    tasklets = [roamlet.tasklet(waits)(each) for each in (ch, other)]
    new = roamlet.tasklet(runs_new)()
    roamlet.schedule()
    assert ran == ["new"]
    ran.clear()
    new.bind(runs_new, ()).insert()
    data = snapshot.dumps((new, ch, other))
    new.remove()
    for each in tasklets:
        end(each)
    settle_all = _native.settle_all

    def refuses(places):
        assert [len(each) for each in places] == [6, 6, 1]
        places[-1][0].insert()
        try:
            settle_all(places)
        finally:
            places[-1][0].remove()

    monkeypatch.setattr(_native, "settle_all", refuses)
    with pytest.raises(ValueError, match=r"<roamlet\.tasklet .*> cannot be put into this state"):
        snapshot.loads(data)
    monkeypatch.setattr(_native, "settle_all", lambda places: interrupted(settle_all, places))
    with pytest.raises(KeyboardInterrupt):
        snapshot.loads(data)
    assert roamlet.getruncount() == 1
    monkeypatch.undo()
    _, ch, other = snapshot.loads(data)
    assert (ch.balance, other.balance, roamlet.getruncount()) == (-1, -1, 2)
    roamlet.run()
    assert ran == ["new"]
    for each in (ch, other):
        each.send(None)
    gc.collect()


OUT_OF_MEMORY = """
    import gc
    import _testcapi
    import roamlet
    from roamlet import snapshot

    ran = []

    def deep(ch, n):
        try:
            return deep(ch, n - 1) + 1 if n else ch.receive()
        finally:
            ran.append(n)

    def keeps(ch, n, out):
        out.append(deep(ch, n))

    for depth, step in ((3, 1), (150, 3)):
        ch, out = roamlet.channel(), []
        roamlet.tasklet(keeps)(ch, depth, out).run()
        data = snapshot.dumps((ch, out))
        ch.queue.kill()
        ran.clear()
        failed = 0
        for start in range(0, 500, step):
            restored = None
            try:
                _testcapi.set_nomemory(start, start + 1)
                restored = snapshot.loads(data)
            except (MemoryError, snapshot.BadSnapshot):  # where the depth of an operand stack could not be told
                failed += 1
            finally:
                _testcapi.remove_mem_hooks()
            assert ran == [], start
            if restored is not None:
                restored[0].queue.kill()
                ran.clear()
        gc.collect()
        assert roamlet.getruncount() == 1
        ch, out = snapshot.loads(data)
        ch.send(1)
        print(failed > 20, out == [depth + 1])
"""


@pytest.mark.pythons((3, 11), (3, 14), reason="list.append() gives up a reference too many on 3.15 when memory is out")
@pytest.mark.skipif(hasattr(sys, "gettotalrefcount"), reason="a debug build's own asserts do not bear it")
def test_memory_that_is_out_at_any_moment_lets_nothing_run(program, python):
    """In a process of its own: CPython itself loses lists then."""
    pytest.importorskip("_testcapi", reason="this Python was built without its tests")
    assert python(program(OUT_OF_MEMORY, "out_of_memory.py")).stdout.split() == ["True"] * 4


def runs_new():
    ran.append("new")


def interrupted(settle_all, places):
    settle_all(places)
    raise KeyboardInterrupt


def test_helpers_are_called_with_what_belongs_there_alone():
    with pytest.raises(TypeError, match=r"build\(\) takes a new ticket, not 5"):
        _native.build(5)
    with pytest.raises(TypeError, match="expected a list of tuples, not 5"):
        _native.settle_all(5)
    with pytest.raises(TypeError, match="expected a tuple, not 5"):
        _native.settle_all([5])
    with pytest.raises(TypeError, match=r"go_on\(\) takes a built ticket, not 5"):
        _native.go_on(5)
    ticket = _native.check([], [], None, -1, -1, None, None)
    with pytest.raises(TypeError, match=r"go_on\(\) takes a built ticket"):
        _native.go_on(ticket)
    _native.build(ticket)
    with pytest.raises(TypeError, match=r"build\(\) takes a new ticket"):
        _native.build(ticket)


def test_a_frame_evaluator_is_refused():
    testing = pytest.importorskip("_testinternalcapi", reason="this Python was built without its tests")
    data = saved(3)
    seen = []
    testing.set_eval_frame_record(seen)
    try:
        with pytest.raises(
            RuntimeError, match=r"while a frame evaluator \(PEP 523: a debugger, a compiler\) is installed"
        ):
            snapshot.loads(data)
    finally:
        testing.set_eval_frame_default()
    ch, out = snapshot.loads(data)
    ch.send(1)
    assert out == [4]
