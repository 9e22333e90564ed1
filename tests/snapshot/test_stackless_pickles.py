"""What Stackless's own tests ask of pickled tasklets, written anew.

A tasklet is pickled where schedule() has suspended it, and the copy comes to the same end as the tasklet itself.
"""

import gc
import io
import pickle
import sys
import types

import pytest

from roamlet import snapshot, stackless
from tests.snapshot._driving import end

PICKLES = {
    **{f"C{protocol}": (pickle.dumps, pickle.loads, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)},
    **{
        f"Python{protocol}": (pickle._dumps, pickle._loads, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    },
}
each_pickle = pytest.mark.parametrize("how", PICKLES)
ends = []


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    ends.clear()
    gc.collect()  # functions that refer to themselves


def pickled(thing, how):
    dumps, loads, protocol = PICKLES[how]
    return loads(dumps(thing, protocol))


def noting(function, *args):
    result = function(*args)  # not inside the call: `ends` would be an operand, and copied
    ends.append(result)


def paused_in(function, *args):
    tasklet = stackless.tasklet(noting)(function, *args)
    tasklet.run()
    assert tasklet.alive and not ends
    return tasklet


def both_ends(how, function, *args):
    """What the copy comes to, and the tasklet after it."""
    tasklet = paused_in(function, *args)
    copy = pickled(tasklet, how)
    copy.run()
    tasklet.run()
    assert not copy.alive and not tasklet.alive
    of_the_copy, of_the_tasklet = ends
    ends.clear()
    return of_the_copy, of_the_tasklet


ITERABLES = {
    "list": lambda n: [None] * n,
    "range": range,
    "keys": lambda n: dict.fromkeys(range(n)).keys(),
    "values": lambda n: dict.fromkeys(range(n), 7).values(),
    "items": lambda n: dict.fromkeys(range(n)).items(),
    "set": lambda n: set(range(n)),
    "enumerate": lambda n: enumerate([None] * n),
    "tuple": lambda n: tuple(range(n)),
    "generator": lambda n: (x for x in range(n)),
}


def loops(kind, n, when):
    seen = []
    for number, each in enumerate(ITERABLES[kind](n)):
        if number == when:
            stackless.schedule()
        seen.append(each)
    return seen


def loops_alone(iterable, when):
    """Without another iterator around it."""
    count = last = 0
    for each in iterable:
        if count == when:
            stackless.schedule()
        count, last = count + 1, each
    return count, last


@each_pickle
@pytest.mark.parametrize("kind", ITERABLES)
def test_loops_go_on_from_their_middle_and_their_last_round(kind, how):
    for when in (13, 19):
        copy, original = both_ends(how, loops, kind, 20, when)
        assert copy == original == list(ITERABLES[kind](20))
        if kind != "generator":  # which is no argument that could be saved twice
            copy, original = both_ends(how, loops_alone, ITERABLES[kind](20), when)
            assert copy == original
            assert copy[0] == 20


def suspends_itself(n, when):
    for number in range(n):
        if number == when:
            stackless.schedule()
        yield number


@each_pickle
def test_a_generator_that_schedules_goes_on(how):
    if sys.version_info >= (3, 12):
        assert both_ends(how, sum_of, 20, 13) == (190, 190)
        return
    tasklet = paused_in(sum_of, 20, 13)
    with pytest.raises(snapshot.CannotSave, match="before CPython 3.12, running a generator"):
        pickled(tasklet, how)
    tasklet.run()
    assert ends == [190]


def sum_of(n, when):
    total = 0
    for each in suspends_itself(n, when):
        total += each
    return total


def levels(deepest, level=0, seen=None):
    seen = [] if seen is None else seen
    seen.append(level)
    if level < deepest:
        levels(deepest, level + 1, seen)
    else:
        stackless.schedule()
    return seen


@each_pickle
def test_recursion_by_name_by_argument_and_of_a_nested_function(how):
    assert both_ends(how, levels, 13) == (list(range(14)),) * 2

    def nested(more):
        if more:
            return nested(more - 1) + 1
        stackless.schedule()
        return 0

    assert both_ends(how, nested, 13) == (13, 13)
    handed = lambda itself, more: (more and itself(itself, more - 1)) or (stackless.schedule(), 42)[1]  # noqa: E731
    assert both_ends(how, handed, handed, 13) == (42, 42)


def closes_over_itself():
    def inner():
        kept = itself
        return kept is itself

    itself = inner
    del inner
    stackless.schedule()
    return itself()


@each_pickle
def test_a_cell_that_leads_back_to_its_function(how):
    assert both_ends(how, closes_over_itself) == (True, True)


class Manager:
    def __init__(self, deepest, where, swallows):
        self.deepest, self.where, self.swallows = deepest, where, swallows
        self.log = []

    def __enter__(self):
        self.log.append("enter")
        if self.where == "enter":
            levels(self.deepest)
        return self

    def __exit__(self, kind, error, traceback):
        self.log.append((kind, str(error)))
        if self.where == "exit":
            levels(self.deepest)
        return self.swallows


def managed(deepest, where, error, swallows):
    manager = Manager(deepest, where, swallows)
    try:
        with manager as entered:
            if where == "body":
                levels(deepest)
            manager.log.append(entered is manager)
            if error is not None:
                raise error("raised in the body")
    except RuntimeError as caught:
        manager.log.append(repr(caught))
    return manager.log


@each_pickle
@pytest.mark.parametrize("where", ["enter", "body", "exit"])
@pytest.mark.parametrize(("error", "swallows"), [(None, False), (RuntimeError, False), (RuntimeError, True)])
def test_with_blocks_suspended_in_their_three_places(where, error, swallows, how):
    for deepest in (0, 1, 2):
        copy, original = both_ends(how, managed, deepest, where, error, swallows)
        assert copy == original
        assert copy[:2] == ["enter", True]
        assert ("RuntimeError" in copy[-1]) is (error is not None and not swallows)


class Begun:
    def __init__(self, value):
        self.value = value
        stackless.schedule()


def value_of_a_new_one(value):
    return Begun(value).value


@each_pickle
def test_inside_init(how):
    assert both_ends(how, value_of_a_new_one, "given") == ("given", "given")


def raises_and_waits():
    try:
        1 / 0
    except ZeroDivisionError:
        stackless.schedule()
        return repr(sys.exc_info()[1])


@each_pickle
def test_the_exception_that_is_handled(how):
    assert both_ends(how, raises_and_waits) == ("ZeroDivisionError('division by zero')",) * 2
    assert sys.exc_info() == (None, None, None)


class Slotted(stackless.tasklet):
    __slots__ = ("name",)


def nothing():
    pass


@each_pickle
def test_a_subclass_is_kept(how):
    tasklet = Slotted(nothing)()
    assert type(pickled(tasklet, how)) is Slotted
    tasklet.remove()


class Waiting:
    def __init__(self):
        self.channel = stackless.channel()

    def wait(self):
        self.channel.receive()


@each_pickle
def test_a_copy_that_waits_and_that_nobody_keeps_is_collected(how):
    tasklet = stackless.tasklet(Waiting().wait)()
    tasklet.run()
    pickled(tasklet, how)
    gc.collect()
    assert tasklet.blocked
    end(tasklet)


def counts():
    number = 0
    while number < 1000:
        number += 1
    ends.append(number)


@each_pickle
@pytest.mark.parametrize("begun", [False, True], ids=["new", "interrupted"])
def test_alive_paused_scheduled_and_deep_are_what_they_were(begun, how):
    tasklet = stackless.tasklet(counts)()
    if begun:
        assert stackless.run(100, ignore_nesting=True) is tasklet
    copy = pickled(tasklet, how)
    assert (copy.alive, copy.paused, copy.scheduled, copy.recursion_depth) == (True, True, False, int(begun))
    tasklet.remove()
    copy.insert()
    assert (copy.paused, copy.scheduled) == (False, True)
    assert stackless.run(10, ignore_nesting=True) is copy
    assert (copy.alive, copy.paused, copy.scheduled, copy.recursion_depth) == (True, True, False, 1)
    copy.insert()
    stackless.run()
    assert (copy.alive, copy.scheduled, copy.recursion_depth) == (False, False, 0)
    assert ends == [1000]
    end(tasklet)


@each_pickle
def test_one_that_was_interrupted_is_run_by_all_three_kinds_of_run(how):
    tasklet = stackless.tasklet(counts)()
    assert stackless.run(100, ignore_nesting=True) is tasklet
    for run in (stackless.run, None, lambda: stackless.run(100, ignore_nesting=True)):
        copy = pickled(tasklet, how)
        copy.insert()
        while copy.alive:
            interrupted = copy.run() if run is None else run()
            if interrupted is not None:
                interrupted.insert()
    assert ends == [1000] * 3
    end(tasklet)


def test_what_the_pickler_around_it_calls_persistent_is_not_asked_about_inside_a_tasklet():
    """In Stackless it is: see divergence.md."""
    asked = []

    class Asking(pickle.Pickler):
        def persistent_id(self, item):
            asked.append(item)

    tasklet, marker = paused_in(levels, 2), ("marker",)
    Asking(io.BytesIO()).dump([tasklet, marker])
    assert marker in asked
    assert not [each for each in asked if each is levels]
    end(tasklet)


def test_send_sequence_in_its_middle_is_refused():
    channel = stackless.channel()
    tasklet = stackless.tasklet(channel.send_sequence)([1, 2])
    tasklet.run()
    with pytest.raises(TypeError, match="it runs <built-in method send_sequence of .*, which is no Python function"):
        pickle.dumps(tasklet)
    end(tasklet)


def squares():
    yield 1
    yield 4


@types.coroutine
def handing(value):
    yield value


async def asking():
    await handing(1)


VIEWS = [dict.keys, dict.values, dict.items]


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.__name__)
def test_values_that_stackless_taught_pickle_are_in_snapshots_alone(view):
    given = view({1: 2})
    copy = snapshot.loads(snapshot.dumps(given))
    assert (type(copy), list(copy)) == (type(given), list(given))
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(given)


def test_generators_coroutines_lambdas_and_modules_in_snapshots():
    generator = squares()
    assert next(generator) == 1
    copy = snapshot.loads(snapshot.dumps(generator))
    assert (list(copy), copy.__name__, copy.__qualname__) == ([4], "squares", "squares")
    ended = snapshot.loads(snapshot.dumps(copy))
    assert list(ended) == []
    for steps in (0, 1):
        coroutine = asking()
        for _ in range(steps):
            coroutine.send(None)
        other = snapshot.loads(snapshot.dumps(coroutine))
        for each in (coroutine, other):
            for _ in range(1 - steps):
                assert each.send(None) == 1
            with pytest.raises(StopIteration):
                each.send(None)
        over = snapshot.loads(snapshot.dumps(other))
        with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
            over.send(None)
    function = lambda: None  # noqa: E731
    assert snapshot.loads(snapshot.dumps(function)).__module__ == __name__
    import xml.sax

    assert snapshot.loads(snapshot.dumps(xml.sax)) is xml.sax
