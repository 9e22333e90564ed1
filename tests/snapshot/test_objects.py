"""Objects whose classes have code of their own for attributes and items, locks, matches; what a method is in the middle of."""

import re
import sys
import threading
import types
from collections import OrderedDict
from dataclasses import dataclass

import pytest

import roamlet
from roamlet import snapshot
from roamlet.snapshot import _native
from tests.snapshot.conftest import KNOWN

pytestmark = pytest.mark.skipif(not KNOWN, reason="tasklets are saved on the backends that see their frames")


def again(value):
    return snapshot.loads(snapshot.dumps(value))


class Asks:
    """Asks its attributes for what it does not have, as proxies do."""

    def __init__(self):
        self.inner = {"x": 1}

    def __getattr__(self, name):
        return self.inner[name]


class Stands:
    """Stands for another object, which it makes when it is needed, and whose class it says it has."""

    def __init__(self, make):
        object.__setattr__(self, "make", make)

    def __getattribute__(self, name):
        return getattr(object.__getattribute__(self, "make")(), name)


def made():
    return re.compile("made")


class Leaves:
    """Leaves out of its state what it makes when it begins, and does not make it again."""

    def __init__(self):
        self.kept, self.left, self.lock = 1, {"a": 2}, threading.Lock()

    def __getstate__(self):
        return {**self.__dict__, "left": None, "lock": None}


class HasAll:
    def __init__(self):
        self.inner = 1

    def __getattr__(self, name):
        return None


@dataclass(frozen=True)
class Frozen:
    __slots__ = ("one", "other")
    one: int
    other: object


class Strict:
    def __init__(self):
        self.__dict__["inner"] = 1

    def __setattr__(self, name, value):
        raise AttributeError(name)


class Watched(dict):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def __setitem__(self, name, value):
        self.calls.append(name)
        super().__setitem__(name, value)


class WatchedList(list):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def append(self, value):
        self.calls.append(value)
        super().append(value)

    def extend(self, values):
        for value in values:
            self.append(value)


class Token(tuple):
    __slots__ = ()

    def __new__(cls, kind, value):
        return super().__new__(cls, (kind, value))


def test_an_object_that_hands_on_what_it_does_not_have():
    made = again(Asks())
    assert made.inner == {"x": 1}
    with pytest.raises(KeyError):
        made.missing
    assert again(HasAll()).inner == 1


def test_an_object_that_stands_for_another_one():
    stands = Stands(made)
    assert type(again(stands)) is Stands
    assert again(stands).pattern == "made"


def test_what_a_state_leaves_out_goes_on_with_the_tasklet():
    leaves = Leaves()
    with leaves.lock:
        made = again(leaves)
    assert (made.kept, made.left, made.lock) == (1, {"a": 2}, None)


def test_attributes_that_the_class_does_not_let_anyone_set():
    shared = []
    made, others = again((Frozen(1, shared), shared))
    assert (made.one, again(Strict()).inner) == (1, 1)
    assert made.other is others


def test_items_are_put_back_without_asking_the_class():
    watched, items = Watched([]), WatchedList([])
    watched["a"] = 1
    items.append(2)
    copied, copied_items = again((watched, items))
    assert (dict(copied), copied.calls, type(copied)) == ({"a": 1}, ["a"], Watched)
    assert (list(copied_items), copied_items.calls, type(copied_items)) == ([2], [2], WatchedList)


def test_a_tuple_whose_class_wants_its_parts():
    made = again(Token("word", 3))
    assert type(made) is Token
    assert made == ("word", 3)


def test_a_graph_that_leads_back_to_an_object_put_back_by_its_attributes():
    asks = Asks()
    asks.me = asks
    made = again(asks)
    assert made.me is made


# ---- matches and locks


@pytest.mark.parametrize(
    "found",
    [
        re.search(r"(?P<word>o\w)", "two one"),
        re.compile(r"\w").match("abc", 1),
        re.compile(r"(a|ab)(c|bcd)?").fullmatch("abcd"),
        list(re.finditer(r"(\d)(x)?", "a1b2xc3"))[1],
        re.match(rb"(?<=)b*", b"bb"),
    ],
)
def test_a_match_is_found_again(found):
    made = again(found)
    assert (made.regs, made.re, made.string, made.pos, made.endpos) == (
        found.regs, found.re, found.string, found.pos, found.endpos,
    )  # fmt: skip
    assert (made.groupdict(), made.lastindex) == (found.groupdict(), found.lastindex)


def test_a_match_in_bytes_that_may_change_is_refused():
    with pytest.raises(snapshot.CannotSave, match="a match in a bytearray, which may have changed since"):
        snapshot.dumps(re.search(rb"a", bytearray(b"a")))


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_a_lock_that_is_free_is_a_value(make):
    lock = make()
    one, other = again([lock, lock])
    assert one is other
    with one:
        pass
    with lock, pytest.raises(snapshot.CannotSave, match="it is held, and its holder is not saved"):
        snapshot.dumps(lock)


def test_what_is_there_for_other_threads_is_refused():
    for each in (threading.Condition(), threading.Event(), threading.Semaphore()):
        with pytest.raises(snapshot.CannotSave, match="it is for other threads, which are not saved"):
            snapshot.dumps(each)


def test_a_modules_lock_is_the_modules_own():
    module = types.ModuleType("roamlet_locks")
    module.LOCK = threading.Lock()
    sys.modules["roamlet_locks"] = module
    try:
        assert again([module.LOCK])[0] is module.LOCK
        with module.LOCK, pytest.raises(snapshot.CannotSave, match="it is held"):
            snapshot.dumps([module.LOCK])
    finally:
        del sys.modules["roamlet_locks"]


def test_modules_that_no_import_would_find_are_refused():
    with pytest.raises(snapshot.CannotSave, match="is no module that could be imported"):
        snapshot.dumps(types.ModuleType("roamlet_made"))


class Deprecating(types.ModuleType):
    pass


def test_a_module_of_a_class_of_its_own():
    module = sys.modules["roamlet_deprecating"] = Deprecating("roamlet_deprecating")
    try:
        assert again([module])[0] is module
    finally:
        del sys.modules["roamlet_deprecating"]


def test_a_mapping_proxy():
    shared = {"a": 1}
    made, same = again((types.MappingProxyType(shared), shared))
    same["b"] = 2
    assert made == {"a": 1, "b": 2}
    with pytest.raises(snapshot.CannotSave, match="the attributes of a class"):
        snapshot.dumps(vars(Asks))


# ---- in the middle of a method


class Counted:
    """Says in its __reduce__ what it has between two methods."""

    __hash__ = None

    def __new__(cls, items):
        return super().__new__(cls)

    def __init__(self, items=()):
        self.items = list(items)
        self.count = len(self.items)

    def __eq__(self, other):
        return self.items == other.items

    def __reduce__(self):
        return Counted, (list(self.items),)

    def add(self, item, ch):
        self.items.append(item)
        ch.receive()
        self.count += 1


class CountedInOrder(OrderedDict):
    __hash__ = None

    def __reduce__(self):
        return CountedInOrder, ()

    def add(self, ch):
        ch.receive()


def adds(ch, counted, out):
    counted.add("x", ch)
    out.append(counted.count)


def test_what_a_method_is_about_to_change_is_as_it_is():
    ch, counted, out = roamlet.channel(), Counted(()), []
    tasklet = roamlet.tasklet(adds)(ch, counted, out)
    roamlet.run()
    copied, copied_out = snapshot.loads(snapshot.dumps((ch, out)))
    for each in (ch, copied):
        each.send(None)
    assert (out, copied_out, tasklet.alive) == ([1], [1], False)


def test_what_was_written_before_its_method_was_met_is_refused():
    ch, counted, out = roamlet.channel(), Counted(()), []
    tasklet = roamlet.tasklet(adds)(ch, counted, out)
    roamlet.run()
    with pytest.raises(snapshot.CannotSave, match=r"(?s)in the middle of Counted\.add.*Counted\.__reduce__ already"):
        snapshot.dumps((counted, ch))
    tasklet.kill()


def test_what_has_more_than_attributes_is_refused_in_the_middle_of_a_method():
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(CountedInOrder().add)(ch)
    roamlet.run()
    with pytest.raises(snapshot.CannotSave, match=r"(?s)a CountedInOrder is in the middle of a method of its own"):
        snapshot.dumps(tasklet)
    tasklet.kill()


# ---- what stays in modules

SEEN: "set[int]" = set()
LOCAL = threading.local()


def remembers_by_id(ch, thing):
    SEEN.add(id(thing))
    try:
        ch.receive()
    finally:
        SEEN.remove(id(thing))


def pushes(ch, thing):
    LOCAL.stack = [thing]
    ch.receive()
    LOCAL.stack.pop()


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (remembers_by_id, r"test_objects\.SEEN, which remembers_by_id is about to use, has the id\(\) of a Asks"),
        (pushes, r"test_objects\.LOCAL\.stack, which belongs to the thread, has a Asks that is saved"),
    ],
)
def test_what_tasklets_have_put_into_modules_is_seen(function, match):
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(function)(ch, Asks())
    roamlet.run()
    with pytest.raises(snapshot.CannotSave, match=match):
        snapshot.dumps(tasklet)
    ch.send(None)
    assert not tasklet.alive
    snapshot.dumps(roamlet.channel())


def annotated(ch, out):
    def inner(a: int, b: "str" = "b") -> float:
        return 1.0

    ch.receive()
    out.append(inner.__annotations__)


def test_annotations_of_functions_by_value():
    ch, out = roamlet.channel(), []
    roamlet.tasklet(annotated)(ch, out)
    roamlet.run()
    copied, copied_out = snapshot.loads(snapshot.dumps((ch, out)))
    for each in (ch, copied):
        each.send(None)
    assert copied_out == out == [{"a": int, "b": "str", "return": float}]


def plain(ch, out):
    def inner(a):
        return a

    ch.receive()
    out.append(inner)


def test_a_function_without_annotations_gets_none_when_it_is_saved():
    ch, out = roamlet.channel(), []
    tasklet = roamlet.tasklet(plain)(ch, out)
    roamlet.run()
    inner = tasklet.frame.f_locals["inner"]
    snapshot.dumps((ch, out))
    assert _native.annotations_of(inner) is None
    assert inner.__annotations__ == {}  # which gives it one
    assert _native.annotations_of(inner) == {}
    ch.send(None)
