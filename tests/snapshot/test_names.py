"""What modules hold is saved by name; values that can change are copied, with a warning; id()s and half graphs are refused."""

import argparse
import builtins
import copy
import io
import operator
import os
import pickle
import random
import sys
import types

import pytest

import roamlet
from roamlet import snapshot

SHOP = """
import functools
class Mark:
    def __init__(self, name):
        self.name = name

class Kind:
    NOTHING = object()
    START = Mark("start")
    latest = Mark("nothing yet")

    def remember(self, mark):
        type(self).latest = mark

MISSING = object()
SHIFT = Mark("shift")
WORDS = "no name, and no word"
PAIR = ("no", "default")
LATEST = Mark("nothing yet")
BY_METHOD, BY_STATIC, BY_GETTER, BY_SETTER, BY_NESTED, BY_WRAPPED, BY_CACHED = [Mark("nothing yet") for _ in range(7)]
SOLD = []
PRICES = {"tea": 2}

def remember(mark):
    global LATEST
    LATEST = mark

def remembers():
    def remember(mark):
        global BY_NESTED
        BY_NESTED = mark
    return remember

class Memory:
    def method(self, mark):
        global BY_METHOD
        BY_METHOD = mark

    @staticmethod
    def static(mark):
        global BY_STATIC
        BY_STATIC = mark

    @property
    def getter(self):
        global BY_GETTER
        BY_GETTER = None

    @getter.setter
    def getter(self, mark):
        global BY_SETTER
        BY_SETTER = mark

def logged(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper

@logged
def wrapped(mark):
    global BY_WRAPPED
    BY_WRAPPED = mark

@functools.cache
def cached(mark):
    global BY_CACHED
    BY_CACHED = mark
"""


@pytest.fixture
def shop():
    module = types.ModuleType("roamlet_shop")
    sys.modules["roamlet_shop"] = module
    exec(SHOP, module.__dict__)
    yield module
    del sys.modules["roamlet_shop"]


def held(ch, value):
    ch.receive()
    return value


def copy_of(value):
    """What a tasklet that holds the value in a variable holds once it has been restored."""
    ch = roamlet.channel()
    waiting = roamlet.spawn(held, (ch, value))
    roamlet.schedule()
    copied, copied_ch = snapshot.loads(snapshot.dumps((waiting, ch)))
    for each, channel in ((waiting, ch), (copied, copied_ch)):
        channel.send(None)
        result = each.join()
    return result


class Lazy:
    """As Django's settings before anybody has configured them."""

    @property
    def __class__(self):
        raise RuntimeError("not configured")


@pytest.mark.parametrize("name", ["MISSING", "Kind.NOTHING"])
def test_objects_of_modules_are_not_asked_for_their_class(shop, name):
    shop.settings = Lazy()
    value = shop
    for part in name.split("."):
        value = getattr(value, part)
    assert copy_of(value) is value


@pytest.mark.parametrize("name", ["MISSING", "SHIFT", "WORDS", "PAIR", "Kind.NOTHING", "Kind.START"])
def test_what_is_equal_to_itself_alone_is_the_modules_own_again(shop, name):
    value = shop
    for part in name.split("."):
        value = getattr(value, part)
    assert copy_of(value) is value


@pytest.mark.parametrize(
    "value",
    [random._inst, argparse.SUPPRESS, sys.path, os.environ, random.Random],
    ids=["object", "str", "list", "mapping", "class"],
)
def test_what_the_standard_library_holds_is_its_own_again(value):
    assert copy_of(value) is value
    assert copy_of({"in": [value]})["in"][0] is value


def test_a_bound_method_is_one_of_the_modules_object():
    assert copy_of(random.random).__self__ is random._inst


@pytest.mark.parametrize(
    "name",
    [
        "SOLD",
        "PRICES",
        "LATEST",
        "Kind.latest",
        "BY_METHOD",
        "BY_STATIC",
        "BY_GETTER",
        "BY_SETTER",
        "BY_NESTED",
        "BY_WRAPPED",
        "BY_CACHED",
    ],
)
def test_a_copy_of_what_a_module_holds_is_made_with_a_warning(shop, name):
    held = operator.attrgetter(name)(shop)
    with pytest.warns(snapshot.Copied, match=f"what the modules hold as roamlet_shop.{name}"):
        copied = copy_of(held)
    assert copied is not held


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        (builtins, "_", {"shown": "at the prompt"}),
        (sys, "last_value", LookupError("printed")),
        (sys, "last_exc", LookupError("printed")),
    ],
    ids=["_", "last_value", "last_exc"],
)
def test_what_the_prompt_has_shown_is_the_tasklets_own(monkeypatch, module, name, value):
    """The next line that is typed puts something else there."""
    ch = roamlet.channel()
    waiting = roamlet.spawn(held, (ch, value))
    roamlet.schedule()
    monkeypatch.setattr(module, name, value, raising=False)
    data = snapshot.dumps((waiting, ch))
    monkeypatch.setattr(module, name, type(value)())
    copied, copied_ch = snapshot.loads(data)
    for each, channel in ((waiting, ch), (copied, copied_ch)):
        channel.send(None)
        assert repr(each.join()) == repr(value)


def test_what_a_program_has_put_into_builtins_is_copied_with_a_warning(monkeypatch):
    monkeypatch.setattr(builtins, "roamlet_rates", {"tea": 2}, raising=False)
    with pytest.warns(snapshot.Copied, match=r"what the modules hold as builtins\.roamlet_rates"):
        copied = copy_of(builtins.roamlet_rates)
    assert copied == {"tea": 2} and copied is not builtins.roamlet_rates
    assert copy_of([Ellipsis, NotImplemented]) == [Ellipsis, NotImplemented]


def test_a_stream_that_a_program_has_put_in_the_place_of_stdout_is_copied_with_a_warning(shop, monkeypatch):
    stream = shop.Mark("stream")
    monkeypatch.setattr(sys, "stdout", stream)
    with pytest.warns(snapshot.Copied, match=r"what the modules hold as sys\.stdout"):
        copied = copy_of(stream)
    assert copied is not stream and copied.name == "stream"


def test_what_the_main_module_holds_is_copied_without_a_word(shop, monkeypatch):
    mark = shop.Mark("of main")
    monkeypatch.setattr(sys.modules["__main__"], "roamlet_mark", mark, raising=False)
    copied = copy_of(mark)
    assert copied is not mark and copied.name == "of main"


def test_what_a_module_has_let_go_of_is_copied_without_a_word(shop):
    value = shop.SHIFT
    assert copy_of(value) is value
    shop.SHIFT = None
    copied = copy_of(value)
    assert copied is not value and copied.name == "shift"


def test_a_module_in_the_place_of_another_is_looked_at_again(shop):
    assert copy_of(shop.SHIFT) is shop.SHIFT
    sys.modules["roamlet_shop"] = other = types.ModuleType("roamlet_shop")
    exec(SHOP, other.__dict__)
    assert copy_of(other.SHIFT) is other.SHIFT


def test_modules_that_come_and_go_do_not_hide_what_a_later_one_holds(shop, monkeypatch):
    monkeypatch.setitem(sys.modules, "roamlet_before", types.ModuleType("roamlet_before"))
    sys.modules["roamlet_shop"] = sys.modules.pop("roamlet_shop")  # after the other
    assert copy_of(shop.SHIFT) is shop.SHIFT
    del sys.modules["roamlet_before"]
    for name in ("roamlet_before", "roamlet_shop"):
        shop.MISSING = object()
        assert copy_of(shop.MISSING) is shop.MISSING
        sys.modules[name] = sys.modules.pop(name, types.ModuleType(name))
    shop.MISSING = object()
    assert copy_of(shop.MISSING) is shop.MISSING


def test_what_is_not_there_where_it_is_restored_is_named(shop):
    data = snapshot.dumps([shop.SHIFT])
    del shop.SHIFT
    with pytest.raises(
        snapshot.BadSnapshot, match=r"refers to roamlet_shop.SHIFT, a roamlet_shop.Mark that the module holds"
    ):
        snapshot.loads(data)
    shop.SHIFT = "something else"
    with pytest.raises(
        snapshot.BadSnapshot, match=r"roamlet_shop.SHIFT is a builtins.str here, and was a roamlet_shop.Mark"
    ):
        snapshot.loads(data)


def test_a_constant_that_is_another_one_now_is_what_it_was(shop):
    data = snapshot.dumps([shop.WORDS])
    shop.WORDS = "other words"
    assert snapshot.loads(data) == ["no name, and no word"]


def test_interned_strings_are_interned_again():
    word = sys.intern("roamlet_test_of_interned_words")
    sys.modules["roamlet_words"] = module = types.ModuleType("roamlet_words")
    module.WORD = word
    try:
        data = snapshot.dumps([word])
    finally:
        del sys.modules["roamlet_words"]
    assert snapshot.loads(data)[0] is word


# ---- id()s


class Waits:
    """Blocks in the middle of being copied, or pickled in Python; once."""

    def __init__(self, ch):
        self.ch = ch

    def __deepcopy__(self, memo):
        self.ch.receive()
        return self


class WaitsToBePickled(Waits):
    def __reduce_ex__(self, protocol):
        ch, self.ch = self.ch, None
        if ch is not None:
            ch.receive()
        return WaitsToBePickled, (None,)


def copies(ch):
    shared = ["shared"]
    return copy.deepcopy([shared, Waits(ch), shared])


def pickles(ch):
    pickle._Pickler(io.BytesIO()).dump([["shared"], WaitsToBePickled(ch)])


def remembers(ch):
    shared = ["shared"]
    seen = {id(shared)}
    ch.receive()
    return id(shared) in seen


def remembers_one(ch):
    shared = ["shared"]
    number = id(shared)
    ch.receive()
    return id(shared) == number


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (copies, r"(?s)the variable '\w+' of .*id\(\)"),
        (pickles, r"(?s)the variable '\w+' of .*id\(\)"),
        (remembers, r"the variable 'seen' of remembers .*a set has id\(\)s of objects as keys, such as that of list"),
        (remembers_one, r"the variable 'number' of remembers_one .* holds the id\(\) of a list that is saved"),
    ],
)
def test_what_knows_objects_by_their_ids_is_refused(function, match):
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(function)(ch)
    tasklet.run()
    with pytest.raises(snapshot.CannotSave, match=match):
        snapshot.dumps(tasklet)
    tasklet.kill()


def test_ids_are_seen_where_a_module_had_another_object(shop):
    keys = [object(), []]
    shop.REGISTRY = {id(each): each for each in keys}
    with pytest.raises(snapshot.CannotSave, match=r"a dict has id\(\)s of objects as keys"):
        snapshot.dumps([shop.REGISTRY])


def test_large_numbers_are_no_ids():
    numbers = {1 << 40: "one", 12345678901: "two"}
    assert copy_of(numbers) == numbers
    assert copy_of(set(numbers)) == set(numbers)


# ---- half graphs


class Node:
    """Writes the tree below it as plain data, as parsers' trees do."""

    def __init__(self, name, *below):
        self.name, self.below, self.parent = name, list(below), None
        for each in below:
            each.parent = self

    def __reduce__(self):
        return type(self), (self.name, *[copy.copy(each) for each in self.below])

    def __copy__(self):
        return type(self)(self.name, *[copy.copy(each) for each in self.below])


def test_references_that_were_one_and_are_two_are_refused():
    leaf = Node("leaf")
    root = Node("root", leaf)
    with pytest.raises(snapshot.BadSnapshot, match=r"two references disagree: Node\.\w+.* were one Node where"):
        snapshot.loads(snapshot.dumps([root, leaf]))
    assert snapshot.loads(snapshot.dumps([root, root]))[0].below[0].name == "leaf"


class Tupled(Node):
    """Holds what is below it in a tuple."""

    def __init__(self, name, *below):
        super().__init__(name)
        self.below = below


class Slotted:
    """Has no __dict__."""

    __slots__ = ("below", "name")

    def __init__(self, name, below=None):
        self.name, self.below = name, below

    def __reduce__(self):
        return Slotted, (self.name, copy.copy(self.below))


@pytest.mark.parametrize(("kind", "way"), [(Tupled, r"Tupled\.below\[0\]"), (Slotted, r"Slotted\.below")])
def test_references_through_tuples_and_slots_are_compared_too(kind, way):
    leaf = kind("leaf")
    root = kind("root", leaf)
    with pytest.raises(snapshot.BadSnapshot, match=rf"two references disagree: {way} and another reference"):
        snapshot.loads(snapshot.dumps([root, leaf]))


class Pair:
    def __init__(self, one, other):
        self.one, self.other = one, other

    def __reduce__(self):
        return Pair, (self.one, self.other)


def test_a_reduce_that_hands_its_references_to_pickle_is_right():
    shared = ["shared"]
    one, other = snapshot.loads(snapshot.dumps([Pair(shared, 1), Pair(2, shared)]))
    assert one.one is other.other


def test_a_class_without_a_module_is_no_place_of_anything(monkeypatch):
    odd = types.ModuleType("odd")
    odd.Bare = eval("type('Bare', (), {})", {"__builtins__": {}, "type": type})
    assert not hasattr(odd.Bare, "__module__")
    monkeypatch.setitem(sys.modules, "odd", odd)
    assert type(snapshot.loads(snapshot.dumps(object()))) is object
