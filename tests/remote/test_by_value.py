"""Functions that have no name on the target: lambdas, closures, methods of objects, partials, and objects that can be called."""

import functools
import math
import threading

import pytest
import roamlet_kinds

from roamlet import remote
from roamlet.wire import codec
from roamlet.wire.codec import CodecError
from roamlet.wire.values import values
from tests.remote import interpreters
from tests.remote.raising import raises

LOCK = threading.Lock()
FACTOR = 3


class Adder:
    def __init__(self, number):
        self.number = number

    def __call__(self, more):
        return self.number + more


@pytest.fixture(scope="module")
def own():
    with remote.local() as context:
        yield context


def factorial():
    def inner(number):
        return 1 if number < 2 else number * inner(number - 1)

    return inner


def counter():
    count = 0

    def step(by=1, *, twice=False):
        nonlocal count
        count += 2 * by if twice else by
        return count

    return step


def imports():
    def inner(value):
        import json

        return json.dumps(value)

    return inner


def pair():
    def even(number):
        return number == 0 or odd(number - 1)

    def odd(number):
        return number != 0 and even(number - 1)

    return even


@pytest.mark.parametrize(
    ("function", "args", "result"),
    [
        (lambda: FACTOR * 2, (), 6),
        (lambda value: math.floor(value), (2.5,), 2),
        (lambda thing: roamlet_kinds.echo(thing), (5,), 5),
        (lambda: [n * FACTOR for n in range(3)], (), [0, 3, 6]),
        (factorial(), (5,), 120),
        (pair(), (10,), True),
        (counter(), (4,), 4),
        (imports(), ([1],), "[1]"),
        (functools.partial(max, 5), (3,), 5),
        (functools.partial(counter(), twice=True), (2,), 4),
        (Adder(4), (5,), 9),
        (Adder(4).__call__, (5,), 9),
        (roamlet_kinds.Thing("n", 2).described, ("m",), "n: 2, 'm'"),
        (roamlet_kinds.Thing.twice, (4,), 8),
        (roamlet_kinds.apply, (lambda a, b=2: a + b, 1), 3),
        (roamlet_kinds.apply, (len, "abc"), 3),
        (roamlet_kinds.apply, (roamlet_kinds.Thing("n", 2).described, 1), "n: 2, 1"),
    ],
    ids=range(17),
)
def test_a_function_travels_as_a_value(own, function, args, result):
    assert own.call(function, args) == result


def test_a_function_keeps_no_state_here_nor_there(own):
    step = counter()
    assert [own.call(step), own.call(step), step()] == [1, 1, 1]


def test_two_functions_of_one_message_are_one_where_they_were_one(own):
    step = counter()
    assert own.call(lambda one, other: one is other, (step, step)) is True


def test_keywords_go_to_the_function_itself(own):
    assert own.call(lambda function, args: (function, args), (), {"function": 1, "args": 2}) == (1, 2)


def holding(lock):
    return lambda: lock


@pytest.mark.parametrize(
    ("function", "args", "path"),
    [
        (lambda: LOCK, (), "function.__globals__['LOCK']"),
        (lambda lock=LOCK: lock, (), "function.__defaults__[0]"),
        (holding(LOCK), (), "function.__closure__['lock']"),
        (functools.partial(max, LOCK), (), "function.args[0]"),
        (Adder(LOCK), (), "function.number"),
        (Adder(LOCK).__call__, (), "function.__self__.number"),
        (lambda: 1, (LOCK,), "args[0]"),
        (lambda: 1, ([{"k": holding([LOCK])}],), "args[0][0]['k'].__closure__['lock'][0]"),
    ],
    ids=range(8),
)
def test_what_it_holds_and_cannot_travel_is_named_by_its_path(own, function, args, path):
    before = own.stats
    with raises(remote.CannotTravel, match="_thread.lock") as caught:
        own.call(function, args)
    assert caught.value.path == path
    assert own.stats == before


def test_a_method_of_an_object_and_a_partial_travel_to_every_version():
    for path in interpreters.found().values():
        with remote.local(path) as context:
            assert context.call(roamlet_kinds.Thing("n", 2).described, (1,)) == "n: 2, 1"
            assert context.call(functools.partial(roamlet_kinds.apply, len), ([1],)) == 1


def test_code_never_comes_up(own):
    for function in (factorial, lambda: len, lambda: functools.partial(len, "a"), lambda: Adder(3).__call__):
        with raises(remote.CannotTravel, match="only data comes up|functools.partial"):
            own.call(function)


@pytest.mark.parametrize("tag", [b"j\0\0\0\0", b"J\0\0\0\0", b"m", b"p"])
def test_no_code_is_made_where_only_data_may_be(tag):
    from roamlet.wire.values import functions  # registers its tags, as on a target

    assert functions.apply(len, ("ab",)) == 2
    for decode in (values.loads, codec.loads):
        with pytest.raises(CodecError, match="garbled"):
            decode(b"Vl\0\0\0\0" + tag + codec.dumps((b"", b"", "m", "n")) + codec.dumps((None, None, {}, {})))
