"""Cycles through tracebacks: each situation is reported at its line with its code, and the mended ones are not."""

import ast
import gc
import inspect
import re
import threading
from pathlib import Path

import pytest

from apps.leaks.tests import situations
from roamlet_leaks import running as leaks
from roamlet_leaks.running import cycles
from roamlet_leaks.running.frames import local_values

SOURCE = Path(situations.__file__).read_text()
LINES = SOURCE.splitlines()


def expected(line):
    """What the comment of a line says: (code, name)."""
    return tuple(re.search(r"# leak: (\w+) (.*)", LINES[line - 1]).groups())


def found_by(function):
    with leaks.watch() as seen:
        function()
    return seen.findings


BAD = [
    ("into_a_local", 1),
    ("into_a_local_of_the_caller", 1),
    ("into_a_cell", 1),
    ("second_of_two_handlers", 1),
    ("with_a_context", 1),
    ("with_exc_info", 1),
    ("with_exc_info_in_one", 1),
    ("with_the_traceback_alone", 1),
    ("translating_what_exc_info_says", 1),
    ("raised_again", 1),
    ("raised_again_from_a_tuple", 1),
    ("on_an_object", 1),
    ("on_an_object_by_a_method", 1),
    ("in_a_slot", 1),
    ("gathered", 3),
    ("into_a_future", 1),
]
GOOD = [
    "into_a_local_mended",
    "only_returned",
    "only_printed",
    "without_its_traceback",
    "with_cleared_frames",
    "with_exc_info_mended",
    "without_the_traceback",
    "translating",
    "translating_what_exc_info_says_mended",
    "raised_again_mended",
    "raised_again_from_a_tuple_mended",
    "on_an_object_mended",
    "gathered_as_text",
    "into_a_future_mended",
]


@pytest.mark.parametrize(("name", "times"), BAD)
def test_a_cycle_is_reported_at_the_line_that_stored_the_exception(name, times):
    (finding,) = found_by(getattr(situations, name))
    assert (finding.kind, finding.times, finding.path) == ("cycle", times, situations.__file__)
    assert (finding.code, finding.name) == expected(finding.line)


@pytest.mark.parametrize("name", GOOD)
def test_what_is_mended_is_not_reported(name):
    assert found_by(getattr(situations, name)) == []


@pytest.mark.parametrize("name", [name for name, _ in BAD])
def test_the_cycle_is_freed_and_the_finder_leaves_none_itself(name):
    found_by(getattr(situations, name))
    assert [thing for thing in gc.get_objects() if type(thing) is situations.Payload] == []
    assert gc.collect() == 0
    assert gc.garbage == []


def test_it_tells_what_is_kept_and_the_frame_that_lived_longest_first():
    (finding,) = found_by(situations.into_a_local)
    outer, inner = finding.keeps.frames
    assert outer.endswith(" in into_a_local") and inner.endswith(" in raiser")
    assert finding.keeps.objects >= 7  # the exception, its arguments, two tracebacks, two frames, the payload
    assert finding.keeps.bytes > 500


def test_what_is_kept_grows_with_the_locals_of_the_frames():
    def raiser():
        data = bytearray(1_000_000)
        raise ValueError(len(data))

    def catcher():
        try:
            raiser()
        except ValueError as error:
            kept = error
        return kept

    (finding,) = found_by(catcher)
    assert 1_000_000 < finding.keeps.bytes < 1_100_000


def test_what_others_hold_too_is_not_counted():
    data = bytearray(1_000_000)

    def raiser():
        own = data
        raise ValueError(len(own))

    def catcher():
        try:
            raiser()
        except ValueError as error:
            kept = error
        return kept

    (finding,) = found_by(catcher)
    assert finding.keeps.bytes < 100_000


def test_garbage_without_exceptions_is_no_finding():
    def other_garbage():
        loop = []
        loop.append(loop)

    assert found_by(other_garbage) == []


def test_an_exception_that_other_garbage_holds_is_no_cycle_through_its_traceback():
    def other_garbage():
        loop = [situations.only_returned()]
        loop.append(loop)
        del loop

    assert found_by(other_garbage) == []


def test_the_collector_is_off_inside_and_as_before_behind():
    gc.enable()
    try:
        with leaks.watch():
            assert not gc.isenabled()
        assert gc.isenabled()
    finally:
        gc.disable()
    with leaks.watch():
        pass
    assert not gc.isenabled()


def test_what_somebody_has_in_gc_garbage_stays_there():
    mine = object()
    gc.garbage.append(mine)
    try:
        assert len(found_by(situations.into_a_local)) == 1
        assert gc.garbage == [mine]
    finally:
        gc.garbage.clear()


def test_an_exception_that_leaves_the_block_is_no_finding_and_goes_on():
    seen = None
    with pytest.raises(ValueError, match="<"):
        with leaks.watch() as seen:
            situations.raiser()
    assert seen.findings == []


def test_looking_at_a_running_frame_leaves_nothing_in_it():
    def running():
        thing = situations.Payload()
        assert local_values(inspect.currentframe())["thing"] is thing
        count = len(gc.get_referrers(thing))
        del thing
        return count, [each for each in gc.get_objects() if type(each) is situations.Payload]

    assert running() == (0, [])


def test_locals_that_somebody_asked_for_stay_as_they_are():
    def running():
        one = 1
        mine = locals()
        local_values(inspect.currentframe())
        return one, mine.get("one")

    assert running() == (1, 1)


def test_each_situation_is_tried():
    names = {node.name for node in ast.parse(SOURCE).body if isinstance(node, ast.FunctionDef)}
    assert {name for name, _ in BAD} | set(GOOD) <= names


class Node:
    pass


def test_what_many_hold_and_leads_nowhere_is_walked_once(monkeypatch):
    def many():
        held = [Node() for _ in range(500)]
        errors = Node()
        errors.itself, errors.all = errors, []
        for _ in range(50):
            try:
                fail_with(held)
            except ValueError as error:
                errors.all.append(error)
        del errors

    def fail_with(held):
        raise ValueError(len(held))

    asked = []
    referents = gc.get_referents
    monkeypatch.setattr(cycles.gc, "get_referents", lambda thing: asked.append(type(thing)) or referents(thing))
    assert found_by(many) == []
    assert 500 <= asked.count(Node) < 1000


def test_the_steps_from_object_to_object_have_an_end(monkeypatch):
    def many():
        for _ in range(50):
            situations.into_a_local()

    monkeypatch.setattr(cycles, "MOST_STEPS", 20)
    (finding,) = found_by(many)
    assert 1 <= finding.times < 20


class Asked:
    """Replaces a lock, and tells when a thread asks for it that has to wait."""

    def __init__(self, lock, waits):
        self.lock = lock
        self.waits = waits

    def __enter__(self):
        if not self.lock.acquire(blocking=False):
            self.waits.set()
            self.lock.acquire()

    def __exit__(self, *error):
        self.lock.release()


def test_two_threads_at_once_leave_the_collector_as_it_was(monkeypatch):
    waits = threading.Event()
    monkeypatch.setattr(cycles, "ONE_AT_A_TIME", Asked(cycles.ONE_AT_A_TIME, waits))
    other = threading.Thread(target=leaks.find)
    collect = gc.collect

    def collecting():
        if other.ident is None:  # the first
            other.start()
            assert waits.wait(60)
        return collect()

    monkeypatch.setattr(cycles.gc, "collect", collecting)
    leaks.find()
    other.join()
    assert gc.get_debug() == 0 and gc.garbage == []
