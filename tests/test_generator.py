"""weft.generator: Python's generator protocol, for functions whose nested calls yield."""

import collections.abc
import contextlib
import contextvars
import gc
import sys
import threading
import traceback
import weakref

import pytest

import weft
from tests.core._scripts import output_of
from tests.core._threads import in_thread
from weft import yield_


@weft.generator
def numbers(count):
    """Count."""
    for number in range(count):
        deeper(number, 3)
    return "returned"


def deeper(number, depth):
    if depth:
        deeper(number, depth - 1)
    else:
        yield_(number)


@weft.generator
def echo(log):
    """Yield what is sent or thrown in; note how it ends."""
    got = "first"
    try:
        while True:
            try:
                got = yield_(got)
            except ValueError as error:
                got = str(error)
    finally:
        log.append("finally")


class Value:
    """Something that weak references can follow."""


class Error(Exception):
    """An error that weak references can follow."""


# ---- the protocol ----


def test_nested_calls_yield():
    assert list(numbers(4)) == [0, 1, 2, 3]


def test_nothing_runs_before_the_first_request_nor_between_two():
    log = []

    @weft.generator
    def noting():
        log.append("begun")
        yield_()
        log.append("on")
        yield_()

    made = noting()
    assert log == []
    next(made)
    weft.schedule()
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
    @weft.generator
    def returns():
        try:
            yield_()
        except GeneratorExit:
            return "value"

    made = returns()
    next(made)
    assert made.close() == "value"


def test_close_raises_what_the_function_raises_instead():
    @weft.generator
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
    @weft.generator
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
    @weft.generator
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

    @weft.generator
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
        RuntimeError, match="outside of a generator: call it from a function decorated with @weft.generator"
    ):
        yield_(1)
    errors = []

    def inside():
        try:
            yield_(1)
        except RuntimeError as error:
            errors.append(str(error))

    @weft.generator
    def starts():
        weft.tasklet(inside)()
        weft.schedule()

    assert list(starts()) == []
    assert len(errors) == 1


def test_methods_can_be_generators():
    class Tree:
        def __init__(self, *values):
            self.values = values

        @weft.generator
        def walk(self, factor=1):
            for value in self.values:
                yield_(factor * value)

    assert list(Tree(1, 2).walk(factor=3)) == [3, 6]


def test_generators_nest():
    @weft.generator
    def outer():
        for number in numbers(3):
            for _ in numbers(number):
                deeper(number, 1)

    assert list(outer()) == [1, 2, 2]
    assert [pair for pair in zip(numbers(2), numbers(3), strict=False)] == [(0, 0), (1, 1)]  # noqa: C416


def test_a_generator_can_feed_itself_recursively():
    @weft.generator
    def countdown(number):
        yield_(number)
        if number:
            for value in countdown(number - 1):
                yield_(value)

    assert list(countdown(50)) == list(range(50, -1, -1))


def test_repr_says_what_it_does():
    made = numbers(1)
    assert repr(made).startswith("<weft.generator numbers, not started, at 0x")
    next(made)
    assert repr(made).startswith("<weft.generator numbers, suspended, at 0x")
    list(made)
    assert repr(made).startswith("<weft.generator numbers, ended, at 0x")
    unused = numbers(1)
    unused.close()
    assert repr(unused).startswith("<weft.generator numbers, ended, at 0x")


# ---- errors and what is left ----


def test_a_traceback_leads_from_the_caller_to_the_nested_call():
    def fails():
        raise LookupError("deep")

    @weft.generator
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
    @weft.generator
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

    @weft.generator
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
    @weft.generator
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
    assert weft.core.started() == []


def test_one_that_is_dropped_with_its_loop_runs_its_finally_blocks():
    log = []
    for value in echo(log):
        assert value == "first"
        break
    assert log == ["finally"]


def test_a_dropped_one_may_block_in_its_finally_block():
    log, channel = [], weft.channel()

    @weft.generator
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

    @weft.generator
    def fails():
        try:
            yield_()
        finally:
            raise LookupError("in finally")

    @weft.generator
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
    assert weft.core.started() == []


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

    @weft.generator
    def takes(value):
        yield_()

    made = takes(value)
    del value
    assert list(made) == [None]
    assert gone() is None


# ---- tasklets, contexts and threads ----


def test_a_blocked_function_blocks_only_who_asked():
    channel, log = weft.channel(), []

    @weft.generator
    def received():
        while True:
            yield_(channel.receive())

    def reader():
        for value in received():
            log.append(value)
            if value == "end":
                break

    weft.tasklet(reader)()
    weft.schedule()
    for value in (1, 2, "end"):
        log.append("main")
        channel.send(value)
    weft.run()
    assert [entry for entry in log if entry != "main"] == [1, 2, "end"]
    assert log[:2] == ["main", "main"]  # who waits for a function that has blocked goes to the end of the queue


def test_other_tasklets_run_when_the_function_lets_them():
    log = []

    @weft.generator
    def polite():
        for number in range(3):
            weft.schedule()
            yield_(number)

    weft.tasklet(lambda: [(log.append(letter), weft.schedule()) for letter in "abc"])()
    for number in polite():
        log.append(number)
    weft.run()
    assert [entry for entry in log if isinstance(entry, int)] == [0, 1, 2]
    assert log.index("a") < log.index(0)
    assert weft.getruncount() == 1


def test_several_tasklets_take_turns_at_one():
    made, log = numbers(6), []

    def taking(name):
        for _ in range(3):
            log.append((name, next(made)))
            weft.schedule()

    for name in "ab":
        weft.tasklet(taking)(name)
    weft.run()
    assert log == [("a", 0), ("b", 1), ("a", 2), ("b", 3), ("a", 4), ("b", 5)]
    made.close()


def test_one_tasklet_cannot_ask_while_another_waits():
    channel, errors = weft.channel(), []

    @weft.generator
    def received():
        yield_(channel.receive())

    made, got = received(), []
    weft.tasklet(lambda: got.append(next(made)))()
    weft.schedule()
    with pytest.raises(ValueError, match="generator already executing"):
        next(made)
    channel.send("value")
    weft.run()
    assert (got, errors) == (["value"], [])
    made.close()


def test_who_is_killed_while_it_waits_ends_the_function_as_if_that_ran_in_it():
    channel, log = weft.channel(), []

    @weft.generator
    def blocked():
        try:
            channel.receive()
        except weft.TaskletExit:
            log.append("function")
            raise

    def asks():
        try:
            next(made)
        except weft.TaskletExit:
            log.append("asking")
            raise

    made = blocked()
    asking = weft.tasklet(asks)()
    weft.schedule()
    asking.kill()
    weft.run()
    assert log == ["function", "asking"]
    assert not asking.alive and channel.balance == 0
    assert list(made) == []


def test_a_function_may_survive_what_is_raised_in_who_waits():
    channel = weft.channel()

    @weft.generator
    def blocked():
        try:
            channel.receive()
        except LookupError as error:
            yield_(str(error))

    made, got = blocked(), []
    asking = weft.tasklet(lambda: got.append(next(made)))()
    weft.schedule()
    asking.throw(LookupError, "thrown")
    weft.run()
    assert got == ["thrown"]
    made.close()


def test_a_deadlock_is_raised_in_the_function():
    """In a process of its own: here other threads may live, which might wake it."""
    printed = output_of(
        """
        import weft

        @weft.generator
        def blocked():
            try:
                weft.channel().receive()
            except weft.Deadlock:
                print("in the function")
                raise

        try:
            next(blocked())
        except weft.Deadlock:
            print("in main")
        """
    )
    assert printed.splitlines() == ["in the function", "in main"]


def test_who_refuses_again_and_again_is_left_to_itself():
    channel, log = weft.channel(), []

    @weft.generator
    def stubborn():
        while True:
            try:
                channel.receive()
                return
            except LookupError:
                log.append("refused")

    made = stubborn()

    def asks():
        try:
            next(made)
        except LookupError:
            log.append("gave up")

    asking = weft.tasklet(asks)()
    weft.schedule()
    for _ in range(11):
        if asking.alive:
            asking.throw(LookupError)
            weft.run()
    assert log[-1] == "gave up" and not asking.alive
    with pytest.raises(ValueError, match="already executing"):
        next(made)
    channel.send(None)
    assert list(made) == []


def test_a_request_that_is_refused_leaves_it_as_it_was():
    made = numbers(3)
    for expected in (0, 1):
        weft.switch_trap(1)
        try:
            with pytest.raises(RuntimeError):
                next(made)
        finally:
            weft.switch_trap(-1)
        assert next(made) == expected
    made.close()


def test_a_killed_body_ends_the_generator():
    bodies = []

    @weft.generator
    def kept():
        bodies.append(weft.getcurrent())
        yield_(1)

    made = kept()
    next(made)
    bodies.pop().kill()
    assert list(made) == []


def test_it_runs_in_a_copy_of_the_context_of_the_first_request():
    variable = contextvars.ContextVar("variable", default="default")

    @weft.generator
    def reads():
        while True:
            yield_(variable.get())
            variable.set("own")

    def use():
        made = reads()
        variable.set("first")
        assert next(made) == "first"
        variable.set("second")
        assert next(made) == "own"
        assert variable.get() == "second"
        made.close()

    contextvars.Context().run(use)


def test_each_thread_has_its_own():
    assert in_thread(lambda: list(numbers(3))) == [0, 1, 2]


def test_one_made_here_can_run_there():
    made = numbers(3)
    assert in_thread(lambda: list(made)) == [0, 1, 2]


def test_one_started_in_another_thread_answers_from_there():
    made, done = numbers(4), weft.channel()
    assert next(made) == 0
    got = []

    def other():
        got.extend(made)
        done.send(threading.get_ident())

    thread = threading.Thread(target=other)
    thread.start()
    assert done.receive() == thread.ident
    thread.join()
    assert got == [1, 2, 3]


def test_one_dropped_in_another_thread_ends_in_its_own():
    log, done = [], weft.channel()

    @weft.generator
    def notes():
        try:
            yield_()
        finally:
            log.append(threading.get_ident())

    holder = [notes()]
    next(holder[0])

    def other():
        holder.clear()
        done.send(None)

    thread = threading.Thread(target=other)
    thread.start()
    done.receive()
    thread.join()
    weft.run()
    assert log == [threading.get_ident()]


def test_one_whose_thread_has_ended_has_ended():
    log = []

    def start():
        made = echo(log)
        next(made)
        return made

    made = in_thread(start)
    assert log == ["finally"]
    assert list(made) == []


@pytest.mark.parametrize("budget", [1, 2, 3, 5, 7, 11, 17, 50, 113])
def test_a_watchdog_may_interrupt_at_any_opcode(budget):
    made, taken = numbers(30), []

    def shares():
        while True:
            try:
                taken.append(next(made))
            except StopIteration:
                return
            except ValueError:  # the other one asks just now
                weft.schedule()

    def owns(count, results):
        results.extend(numbers(count))
        with contextlib.suppress(Error):
            list(failing())

    @weft.generator
    def failing():
        deeper(1, 1)
        results_of_failing.append("fails")
        raise Error

    own, results_of_failing = [[], []], []
    for results in own:
        weft.tasklet(owns)(10, results)
        weft.tasklet(shares)()
    while weft.getruncount() > 1:
        interrupted = weft.run(budget, ignore_nesting=True)
        if interrupted is not None:
            interrupted.insert()
    assert (own, results_of_failing) == ([list(range(10))] * 2, ["fails"] * 2)
    assert sorted(taken) == list(range(30))


def with_yield():
    yield 1


async def with_async():
    pass


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (1, "makes a generator of a function, not of 1"),
        (with_yield, r"with_yield\(\) has `yield` or `async` in itself"),
        (with_async, r"with_async\(\) has `yield` or `async` in itself"),
    ],
)
def test_what_would_lose_its_values_is_refused(function, message):
    with pytest.raises(TypeError, match=message):
        weft.generator(function)
