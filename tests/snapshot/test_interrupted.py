"""Interrupted before each of its instructions, and saved there: what the copy leaves is what the tasklet leaves."""

import contextlib
import gc

import pytest

import roamlet
from roamlet import snapshot
from tests.snapshot._driving import end

KEYWORDS = {"z": 1}


class Adder:
    def __init__(self, base=0, *, step=1):
        self.base, self.step = base, step

    def add(self, *values, times=1, **named):
        return (self.base + sum(values) + sum(named.values())) * times * self.step


class Noting:
    def __init__(self, out, swallows):
        self.out, self.swallows = out, swallows

    def __enter__(self):
        return self.out

    def __exit__(self, kind, error, traceback):
        self.out.append((repr(error), traceback is None))
        return self.swallows


def calls_with_keywords(out):
    adder = Adder(5, step=2)
    out.append(adder.add(1, 2, times=3) + adder.add(*[1], k=4, **KEYWORDS))
    out.append(Adder(base=1, step=3).add(adder.add(1, times=2), times=adder.add(k=1)))
    minus = lambda a, *, b: a - b  # noqa: E731
    out.append(minus(1, b=2))


def makes_closures(out):
    one, two = 1, 2

    def inner(a=one, *, b=two) -> int:
        nonlocal one
        one += 1
        return a + b + one + two

    out.append(inner() + inner(b=5) + min([1], key=None, default=(lambda c=3: c + two) and 1))
    out.append([x + y for x in range(2) for y in (one, two)])


def leaves_blocks_by_errors(out):
    with contextlib.suppress(KeyError), Noting(out, False), Noting(out, False):
        raise KeyError(1)
    with Noting(out, True):
        try:
            raise LookupError(2)
        finally:
            out.append("finally")
    try:
        try:
            raise ValueError(3)
        except ValueError as error:
            out.append(repr(error))
            raise
    except ValueError:
        out.append("again")


def handles_groups(out):
    try:
        try:
            raise ExceptionGroup("some", [ValueError(1), KeyError(2), OSError(3)])
        except* ValueError as errors:
            out.append(repr(errors))
        except* KeyError:
            raise LookupError(4) from None
    except ExceptionGroup as errors:
        out.append(repr(errors))


def builds_things(out):
    numbers = (x * 2 for x in (1, 2, 3))
    first, *rest = [next(numbers), *numbers]
    match rest:
        case [a, b] if a < b:
            out.append(f"{a!r:>4}-{b}")
    table = {"a": first, **KEYWORDS, "b": rest}
    table["a"] += 1
    while (first := first - 1) > -2:
        if first == 0:
            continue
        out.append((first, table))
    del table["a"]


def with_many_constants():
    """Whose keywords are named by an instruction that needs an EXTENDED_ARG, like the call."""
    numbers = ", ".join(f"{1000 + number}" for number in range(300))
    exec(
        f"def many_constants(out):\n    out.append(len([{numbers.replace(', ', ', *(), ')}]))\n"
        "    out.append(dict(first=out[0], second=2, third=3))",
        globals(),
    )
    return many_constants  # noqa: F821


FUNCTIONS = [
    *(
        calls_with_keywords,
        makes_closures,
        leaves_blocks_by_errors,
        handles_groups,
        builds_things,
        with_many_constants(),
    ),
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.filterwarnings("ignore::roamlet.snapshot.Copied")
def test_a_copy_goes_on_between_any_two_instructions(function):
    expected = []
    function(expected)
    assert expected
    out = []
    tasklet = roamlet.tasklet(function)(out)
    saved = 0
    while roamlet.run(1) is tasklet:
        copy, its_out = snapshot.loads(snapshot.dumps((tasklet, out)))
        copy.insert()
        roamlet.run()
        assert (its_out, copy.alive) == (expected, False), f"line {tasklet.frame.f_lineno} ({tasklet.frame.f_lasti})"
        saved += 1
        tasklet.insert()
    assert out == expected
    assert saved > 50
    gc.collect()  # a closure that is handed to itself, or errors with their tracebacks


def thrown_at(ch, out):
    try:
        try:
            raise ExceptionGroup("some", [KeyError(1)])
        except* KeyError:
            try:
                ch.receive()
            finally:
                ch.receive()
        out.append("went on")
    except (LookupError, BaseExceptionGroup) as error:  # a group of one, on 3.11.2
        out.append(repr(error))


class Thrown:
    """In place of the channel: what it gets is thrown at once."""

    def __init__(self, *errors):
        self.errors = list(errors)

    def receive(self):
        if self.errors:
            raise self.errors.pop()


def test_an_error_that_was_thrown_into_a_handler_of_groups_goes_on_from_there():
    expected = []
    thrown_at(Thrown(LookupError(2)), expected)
    ch, out = roamlet.channel(), []
    tasklet = roamlet.tasklet(thrown_at)(ch, out)
    roamlet.schedule()
    ch.send_exception(LookupError, 2)
    copy, its_channel, its_out = snapshot.loads(snapshot.dumps((tasklet, ch, out)))
    its_channel.send(None)
    assert (its_out, copy.alive) == (expected, False)
    end(tasklet)


def raises_twice(ch, out):
    try:
        raise ValueError(1)
    except ValueError as error:
        ch.receive()
        out.extend(error.__notes__)


def test_the_text_of_a_traceback_does_not_grow_however_often_it_is_saved():
    ch, out = roamlet.channel(), []
    tasklet = roamlet.tasklet(raises_twice)(ch, out)
    roamlet.schedule()
    things = tasklet, ch, out
    for _ in range(5):
        before = things[0]
        things = snapshot.loads(snapshot.dumps(things))
        end(before)
    copy, its_channel, its_out = things
    its_channel.send(None)
    assert not copy.alive
    assert len(its_out) == 1
    assert its_out[0].count("\n") == 2 + (its_out[0].count("^^^") > 0)
    assert "raise ValueError(1)" in its_out[0]
