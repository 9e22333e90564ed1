"""roamlet.generator: Python's generator protocol, for functions whose nested calls yield."""

import collections.abc
import gc
import sys
import traceback
import weakref

import pytest

import roamlet
from roamlet import yield_
from tests._generators import Error, Value, deeper, echo, numbers

# ---- the protocol ----


def test_nested_calls_yield():
    assert list(numbers(4)) == [0, 1, 2, 3]


def test_nothing_runs_before_the_first_request_nor_between_two():
    log = []

    @roamlet.generator
    def noting():
        log.append("begun")
        yield_()
        log.append("on")
        yield_()

    made = noting()
    assert log == []
    next(made)
    roamlet.schedule()
    assert log == ["begun"]
    next(made)
    assert log == ["begun", "on"]
    made.close()


def test_it_is_an_iterator_a_generator_and_keeps_the_functions_name():
    made = numbers(1)
    assert iter(made) is made
    assert isinstance(made, collections.abc.Generator)
    assert (numbers.__name__, numbers.__doc__, numbers.__wrapped__.__name__) == ("numbers", "Count.", "numbers")


def test_the_return_value_is_the_stop_iterations():
    made = numbers(0)
    with pytest.raises(StopIteration) as caught:
        next(made)
    assert caught.value.value == "returned"
    del caught
    for _ in range(2):
        with pytest.raises(StopIteration) as caught:
            made.send(5)
        assert caught.value.value is None
        del caught


def test_yield_from_delegates_to_it():
    log = []

    def outer():
        log.append((yield from numbers(2)))
        yield from echo(log)

    made = outer()
    assert [next(made), next(made), next(made)] == [0, 1, "first"]
    assert (made.send("sent"), made.throw(ValueError("thrown"))) == ("sent", "thrown")
    made.close()
    assert log == ["returned", "finally"]


def test_send_and_throw_reach_the_innermost_call():
    log = []
    made = echo(log)
    with pytest.raises(TypeError, match="can't send non-None value to a just-started generator"):
        made.send(1)
    assert made.send(None) == "first"
    assert made.send("sent") == "sent"
    assert next(made) is None
    assert made.throw(ValueError("an instance")) == "an instance"
    assert made.throw(ValueError, "a class") == "a class"
    assert made.throw(ValueError, ValueError("both")) == "both"
    assert made.throw(ValueError, ("a", "tuple"), None) == "('a', 'tuple')"
    assert made.throw(ValueError) == ""
    with pytest.raises(KeyError):
        made.throw(KeyError)
    assert log == ["finally"]
    with pytest.raises(KeyError):
        made.throw(KeyError)
    with pytest.raises(StopIteration):
        next(made)


@pytest.mark.parametrize("arguments", [(5,), (int,), (ValueError("a"), "b"), ("text", None, None)])
def test_throw_takes_exceptions_only(arguments):
    made = numbers(1)
    with pytest.raises(TypeError, match="throw\\(\\) takes an exception"):
        made.throw(*arguments)
    assert next(made) == 0
    made.close()


def test_throw_before_the_start_ends_it_without_running_it():
    made = numbers(1)
    with pytest.raises(ValueError, match="early"):
        made.throw(ValueError("early"))
    assert list(made) == []


def test_close_runs_the_finally_blocks_at_once():
    log = []
    made = echo(log)
    next(made)
    assert made.close() is None
    assert log == ["finally"]
    assert made.close() is None
    assert list(made) == []


def test_close_before_the_start_runs_nothing():
    log = []
    made = echo(log)
    made.close()
    assert log == [] and list(made) == []


def test_close_returns_what_the_function_returns():
    @roamlet.generator
    def returns():
        try:
            yield_()
        except GeneratorExit:
            return "value"

    made = returns()
    next(made)
    assert made.close() == "value"


def test_close_raises_what_the_function_raises_instead():
    @roamlet.generator
    def fails():
        try:
            yield_()
        finally:
            raise LookupError("in finally")

    made = fails()
    next(made)
    with pytest.raises(LookupError, match="in finally") as caught:
        made.close()
    assert isinstance(caught.value.__context__, GeneratorExit)
    del caught


def test_a_yield_in_answer_to_close_is_an_error_of_close():
    @roamlet.generator
    def stubborn():
        try:
            yield_(1)
        except GeneratorExit:
            yield_(2)

    made = stubborn()
    next(made)
    with pytest.raises(RuntimeError, match="generator ignored GeneratorExit"):
        made.close()
    assert list(made) == []


def test_stop_iteration_out_of_the_function_is_an_error():
    @roamlet.generator
    def wrong():
        deeper(1, 0)
        next(iter(()))

    made = wrong()
    next(made)
    with pytest.raises(RuntimeError, match="generator raised StopIteration") as caught:
        next(made)
    assert type(caught.value.__cause__) is StopIteration
    del caught


def test_it_cannot_be_entered_twice():
    errors, itself = [], []

    @roamlet.generator
    def enters():
        made = itself.pop()
        for call in (made.__next__, made.close, lambda: made.throw(KeyError), lambda: made.send(1)):
            try:
                call()
            except ValueError as error:
                errors.append(str(error))
        yield_("yielded")

    made = enters()
    itself.append(made)
    assert next(made) == "yielded"
    assert errors == ["generator already executing"] * 4
    made.close()


def test_yield_outside_of_a_generator_is_refused():
    with pytest.raises(
        RuntimeError, match="outside of a generator: call it from a function decorated with @roamlet.generator"
    ):
        yield_(1)
    errors = []

    def inside():
        try:
            yield_(1)
        except RuntimeError as error:
            errors.append(str(error))

    @roamlet.generator
    def starts():
        roamlet.tasklet(inside)()
        roamlet.schedule()

    assert list(starts()) == []
    assert len(errors) == 1


def test_methods_can_be_generators():
    class Tree:
        def __init__(self, *values):
            self.values = values

        @roamlet.generator
        def walk(self, factor=1):
            for value in self.values:
                yield_(factor * value)

    assert list(Tree(1, 2).walk(factor=3)) == [3, 6]


def test_generators_nest():
    @roamlet.generator
    def outer():
        for number in numbers(3):
            for _ in numbers(number):
                deeper(number, 1)

    assert list(outer()) == [1, 2, 2]
    assert [pair for pair in zip(numbers(2), numbers(3), strict=False)] == [(0, 0), (1, 1)]  # noqa: C416


def test_a_generator_can_feed_itself_recursively():
    @roamlet.generator
    def countdown(number):
        yield_(number)
        if number:
            for value in countdown(number - 1):
                yield_(value)

    assert list(countdown(50)) == list(range(50, -1, -1))


def test_repr_says_what_it_does():
    made = numbers(1)
    assert repr(made).startswith("<roamlet.generator numbers, not started, at 0x")
    next(made)
    assert repr(made).startswith("<roamlet.generator numbers, suspended, at 0x")
    list(made)
    assert repr(made).startswith("<roamlet.generator numbers, ended, at 0x")
    unused = numbers(1)
    unused.close()
    assert repr(unused).startswith("<roamlet.generator numbers, ended, at 0x")


# ---- errors and what is left ----


def test_a_traceback_leads_from_the_caller_to_the_nested_call():
    def fails():
        raise LookupError("deep")

    @roamlet.generator
    def failing():
        yield_(1)
        fails()

    made = failing()
    next(made)
    try:
        next(made)
    except LookupError as error:
        names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert names[0] == "test_a_traceback_leads_from_the_caller_to_the_nested_call"
    assert names[-2:] == ["failing", "fails"]
    assert "_run" not in names


def test_an_error_raised_while_another_is_handled_has_it_as_its_context():
    @roamlet.generator
    def failing():
        assert sys.exception() is None
        yield_(1)
        raise LookupError

    made = failing()
    try:
        raise KeyError("outer")
    except KeyError:
        next(made)
        with pytest.raises(LookupError) as caught:
            next(made)
    assert type(caught.value.__context__) is KeyError
    del caught


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("how", ["next", "throw", "close"])
def test_an_error_leaves_no_cycle(how, started):
    gone = []

    @roamlet.generator
    def failing():
        try:
            yield_(1)
        finally:
            raise Error("own")

    made = failing()
    if started:
        next(made)
    calls = {"next": lambda: next(made), "throw": lambda: made.throw(Error("thrown")), "close": made.close}
    for call in (calls[how], made.close):
        try:
            call()
        except Error as raised:
            gone.append(weakref.ref(raised))
    assert len(gone) == (how != "close" or started)
    assert [ref() for ref in gone] == [None] * len(gone)


def test_a_yielded_value_is_not_kept():
    @roamlet.generator
    def values():
        yield_(Value())
        yield_(Value())

    made = values()
    gone = weakref.ref(next(made))
    assert gone() is None
    made.close()


def test_a_value_that_was_sent_is_not_kept():
    made = echo([])
    next(made)
    value = Value()
    gone = weakref.ref(value)
    assert made.send(value) is value
    del value
    assert next(made) is None
    assert gone() is None
    made.close()


def test_one_that_is_dropped_runs_its_finally_blocks_then_and_there():
    log = []
    made = echo(log)
    next(made)
    gone = weakref.ref(made)
    del made
    assert log == ["finally"] and gone() is None
    assert roamlet.core.started() == []


def test_one_that_is_dropped_with_its_loop_runs_its_finally_blocks():
    log = []
    for value in echo(log):
        assert value == "first"
        break
    assert log == ["finally"]


def test_a_dropped_one_may_block_in_its_finally_block():
    log, channel = [], roamlet.channel()

    @roamlet.generator
    def blocks():
        try:
            yield_()
        finally:
            log.append(channel.receive())

    made = blocks()
    next(made)
    del made
    assert log == []
    channel.send("received")
    assert log == ["received"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_a_dropped_one_raises_is_reported(monkeypatch):
    reports = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: reports.append((args.exc_type, str(args.exc_value))))

    @roamlet.generator
    def fails():
        try:
            yield_()
        finally:
            raise LookupError("in finally")

    @roamlet.generator
    def yields():
        try:
            yield_()
        finally:
            yield_()

    for function in (fails, yields):
        made = function()
        next(made)
        del made
    assert reports == [(LookupError, "in finally"), (RuntimeError, "generator ignored GeneratorExit")]
    assert roamlet.core.started() == []


def test_the_collector_finds_one_in_a_cycle():
    log = []
    made = echo(log)
    next(made)
    holder = [made]
    holder.append(holder)
    del made, holder
    assert log == []
    gc.collect()
    assert log == ["finally"]


def test_one_that_was_not_started_leaves_nothing():
    value = Value()
    gone = weakref.ref(value)
    made = numbers(value)
    del value
    assert gone() is not None
    del made
    assert gone() is None


def test_arguments_go_with_the_end():
    value = Value()
    gone = weakref.ref(value)

    @roamlet.generator
    def takes(value):
        yield_()

    made = takes(value)
    del value
    assert list(made) == [None]
    assert gone() is None
