"""The cyclic collector is shown nothing more often than it is owned: each way to be suspended, and random programs."""

import collections
import contextvars
import functools
import gc
import random
import sys
import types
import weakref
from collections.abc import Iterable

import pytest

import roamlet
from roamlet import core
from tests.core._collecting import (
    SEES_FRAMES,
    STORES_OPERANDS,
    kill_all,
    run,
)
from tests.core._forms import FORMS, SWALLOWING, Token, nested, random_names
from tests.core._objects import Value

pytestmark = pytest.mark.usefixtures("cycles_of_local_classes_are_gone")


def _references_of_a_check() -> int:
    held = [Value()]
    for thing in held:
        return sys.getrefcount(thing)
    raise AssertionError


OWN_REFERENCES = _references_of_a_check()


def _shown(holder: object) -> Iterable[int]:
    """What `holder` shows the collector, by identity."""
    shown = [id(thing) for thing in gc.get_referents(holder)]
    # From 3.14 on, operands may be borrowed from locals. A generator shows them to everybody but the collector's count.
    if STORES_OPERANDS and isinstance(holder, types.GeneratorType | types.CoroutineType | types.AsyncGeneratorType):
        return set(shown)
    return shown


def visited_too_often(tasklets: list[roamlet.tasklet]) -> list[str]:
    """What the collector would be shown more often than it is owned, of all that these tasklets show it."""
    objects = gc.get_objects()
    visited = collections.Counter(identity for holder in objects for identity in _shown(holder))
    tracked = {id(thing) for thing in objects}
    seen = list({id(thing): thing for tasklet in tasklets for thing in gc.get_referents(tasklet)}.values())
    found = []
    for thing in seen:
        owned = sys.getrefcount(thing) - OWN_REFERENCES - (id(thing) in tracked)
        if visited[id(thing)] > owned:
            found.append(f"{thing!r:.100} has {owned} references and is visited {visited[id(thing)]} times")
    del objects, seen
    return found


CALLS = {
    "method": lambda channel, value: channel.send(value),
    "unbound": lambda channel, value: roamlet.channel.send(channel, value),
    "bound to a name": lambda channel, value: call(channel.send, value),
    "star": lambda channel, value: channel.send(*[value]),
    "partial with the channel": lambda channel, value: functools.partial(roamlet.channel.send, channel)(value),
    "partial with the value": lambda channel, value: functools.partial(channel.send, value)(),
    "partial of Context.run": lambda channel, value: functools.partial(contextvars.Context().run, channel.send)(value),
    "Context.run": lambda channel, value: contextvars.Context().run(channel.send, value),
    "method object": lambda channel, value: types.MethodType(roamlet.channel.send, channel)(value),
    "partial of a method object": lambda channel, value: functools.partial(
        types.MethodType(roamlet.channel.send, channel), value
    )(),
    "map": lambda channel, value: list(map(channel.send, [value])),
    "weak reference": lambda channel, value: dies(channel.send),
}


def call(function, value):
    return function(value)


def dies(callback):
    """Drop something whose weak reference calls `callback` with no Python frame in between."""
    value = Value()
    reference = weakref.ref(value, callback)
    del value
    return reference


@pytest.mark.parametrize("before", [0, 60])
@pytest.mark.parametrize("name", CALLS)
def test_no_way_to_call_shows_more_than_is_owned(name, before):
    channel, value = roamlet.channel(), Token(1)

    def tasklet():
        for _ in range(before + 1):
            CALLS[name](channel, value)

    tasklet = roamlet.tasklet(tasklet)()
    roamlet.run()
    for _ in range(before):
        channel.receive()
    roamlet.run()
    assert tasklet.blocked
    assert visited_too_often([tasklet]) == []
    gc.collect()
    channel.receive()
    roamlet.run()
    assert not tasklet.alive and value.check() == 1


LEAVES = {
    "receive": (lambda channel: channel.receive()),
    "next": (lambda channel: next(channel)),
    "for": (lambda channel: next(value for value, _ in zip(channel, (1,), strict=False))),
    "wait": (lambda channel: Handover(channel).wait()),
}


class Handover:
    """Wait for a Waiter that a tasklet settles with what it receives."""

    def __init__(self, channel):
        self.waiter = core.Waiter()
        roamlet.tasklet(lambda: self.waiter.succeed(channel.receive()))()

    def wait(self):
        return self.waiter.wait(None, daemon=True)


def trace(frame, event, argument):
    return trace


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("name", FORMS)
def test_each_form_shows_no_more_than_it_owns_and_goes_on(name, traced):
    channel, results, tracer = roamlet.channel(), [], sys.gettrace()

    def tasklet(leaf):
        results.append(FORMS[name](lambda: leaf(channel)))

    if traced:
        sys.settrace(trace)
    try:
        for leaf in LEAVES.values():
            roamlet.tasklet(tasklet)(leaf)
            run()
            assert visited_too_often(core.started()) == []
            for _ in range(2):
                gc.collect()
            while channel.balance < 0:
                channel.send(7)
                run()
            assert results == [7] and core.started() == []
            results.clear()
    finally:
        sys.settrace(tracer)


def seeds(count):
    return [pytest.param(seed, marks=[pytest.mark.soak] if seed >= 30 else []) for seed in range(count)]


@pytest.mark.parametrize("seed", seeds(1000))
def test_random_programs_go_on_after_collections(seed):
    rng = random.Random(seed)
    channels, results, expected = [], [], []

    def tasklet(number, names, leaf, channel):
        results.append((number, nested(names, lambda: leaf(channel))()))

    for number in range(20):
        channels.append(roamlet.channel())
        roamlet.tasklet(tasklet)(number, random_names(rng, 5), rng.choice(list(LEAVES.values())), channels[-1])
        expected.append((number, number + 1))
    while core.started() or roamlet.getruncount() > 1:
        roamlet.run()
        assert visited_too_often(core.started()) == []
        gc.collect(rng.randrange(3))
        waiting = [number for number, channel in enumerate(channels) if channel.balance < 0]
        for number in rng.sample(waiting, len(waiting) // 2 + 1) if waiting else ():
            channels[number].send(number + 1)
    assert sorted(results) == expected


@pytest.mark.parametrize("seed", seeds(1000))
def test_random_programs_that_nothing_can_wake_never_harm_others(seed):
    rng = random.Random(seed)
    kept, channels, ended, results = [], [], [], []

    def tasklet(number, names, channel, others):
        token = Token(number)
        try:
            results.append(nested(names, channel.receive)())
        finally:
            assert all(isinstance(other, roamlet.channel) for other in others)
            ended.append(token.check())

    for number in range(40):
        channel = roamlet.channel()
        others = rng.sample(channels, min(len(channels), rng.randrange(3)))
        channels.append(channel)
        if rng.random() < 0.3:
            kept.append((number, channel, others))
        roamlet.tasklet(tasklet)(number, random_names(rng, 4, SWALLOWING), channel, others)
    del channel, others, channels
    roamlet.run()
    for _ in range(3):
        gc.collect()
    assert not set(ended) & {number for number, _, _ in kept}
    woken = len(ended)
    for number, channel, _ in kept:
        while channel.balance < 0:  # a form may call more than once
            channel.send(number)
            roamlet.run()
        gc.collect()
    assert sorted(results) == [number for number, _, _ in kept]
    assert len(ended) >= woken + len(kept)
    del channel
    kept.clear()
    gc.collect()
    kill_all()
    assert sorted(ended) == list(range(40))


def test_the_locals_of_suspended_frames_are_found_as_referents():
    first, second = Value(), Value()
    channel = roamlet.channel()

    def inner(kept):
        channel.receive()

    def outer(kept):
        inner(second)

    tasklet = roamlet.tasklet(outer)(first)
    roamlet.run()
    found = gc.get_referents(tasklet)
    assert (first in found, second in found, tasklet in gc.get_referrers(second)) == (SEES_FRAMES,) * 3
    channel.send(None)
    assert second not in gc.get_referents(tasklet)
