"""roamlet.generator among tasklets: the callers that wait for it, in which context and thread it runs, the watchdog."""

import contextlib
import contextvars
import threading

import pytest

import roamlet
from roamlet import yield_
from tests._generators import Error, deeper, echo, numbers
from tests.core._scripts import output_of
from tests.core._threads import in_thread


def test_a_blocked_function_blocks_only_who_asked():
    channel, log = roamlet.channel(), []

    @roamlet.generator
    def received():
        while True:
            yield_(channel.receive())

    def reader():
        for value in received():
            log.append(value)
            if value == "end":
                break

    roamlet.tasklet(reader)()
    roamlet.schedule()
    for value in (1, 2, "end"):
        log.append("main")
        channel.send(value)
    roamlet.run()
    assert [entry for entry in log if entry != "main"] == [1, 2, "end"]
    assert log[:2] == ["main", "main"]  # the caller of a function that has blocked goes to the end of the queue


def test_other_tasklets_run_when_the_function_lets_them():
    log = []

    @roamlet.generator
    def polite():
        for number in range(3):
            roamlet.schedule()
            yield_(number)

    roamlet.tasklet(lambda: [(log.append(letter), roamlet.schedule()) for letter in "abc"])()
    for number in polite():
        log.append(number)
    roamlet.run()
    assert [entry for entry in log if isinstance(entry, int)] == [0, 1, 2]
    assert log.index("a") < log.index(0)
    assert roamlet.getruncount() == 1


def test_several_tasklets_take_turns_at_one():
    made, log = numbers(6), []

    def taking(name):
        for _ in range(3):
            log.append((name, next(made)))
            roamlet.schedule()

    for name in "ab":
        roamlet.tasklet(taking)(name)
    roamlet.run()
    assert log == [("a", 0), ("b", 1), ("a", 2), ("b", 3), ("a", 4), ("b", 5)]
    made.close()


def test_one_tasklet_cannot_ask_while_another_waits():
    channel, errors = roamlet.channel(), []

    @roamlet.generator
    def received():
        yield_(channel.receive())

    made, got = received(), []
    roamlet.tasklet(lambda: got.append(next(made)))()
    roamlet.schedule()
    with pytest.raises(ValueError, match="generator already executing"):
        next(made)
    channel.send("value")
    roamlet.run()
    assert (got, errors) == (["value"], [])
    made.close()


def test_who_is_killed_while_it_waits_ends_the_function_as_if_that_ran_in_it():
    channel, log = roamlet.channel(), []

    @roamlet.generator
    def blocked():
        try:
            channel.receive()
        except roamlet.TaskletExit:
            log.append("function")
            raise

    def asks():
        try:
            next(made)
        except roamlet.TaskletExit:
            log.append("asking")
            raise

    made = blocked()
    asking = roamlet.tasklet(asks)()
    roamlet.schedule()
    asking.kill()
    roamlet.run()
    assert log == ["function", "asking"]
    assert not asking.alive and channel.balance == 0
    assert list(made) == []


def test_a_function_may_survive_what_is_raised_in_who_waits():
    channel = roamlet.channel()

    @roamlet.generator
    def blocked():
        try:
            channel.receive()
        except LookupError as error:
            yield_(str(error))

    made, got = blocked(), []
    asking = roamlet.tasklet(lambda: got.append(next(made)))()
    roamlet.schedule()
    asking.throw(LookupError, "thrown")
    roamlet.run()
    assert got == ["thrown"]
    made.close()


def test_a_deadlock_is_raised_in_the_function():
    """In a process of its own: here other threads may live, which might wake it."""
    printed = output_of(
        """
        import roamlet

        @roamlet.generator
        def blocked():
            try:
                roamlet.channel().receive()
            except roamlet.Deadlock:
                print("in the function")
                raise

        try:
            next(blocked())
        except roamlet.Deadlock:
            print("in main")
        """
    )
    assert printed.splitlines() == ["in the function", "in main"]


def test_who_refuses_again_and_again_is_left_to_itself():
    channel, log = roamlet.channel(), []

    @roamlet.generator
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

    asking = roamlet.tasklet(asks)()
    roamlet.schedule()
    for _ in range(11):
        if asking.alive:
            asking.throw(LookupError)
            roamlet.run()
    assert log[-1] == "gave up" and not asking.alive
    with pytest.raises(ValueError, match="already executing"):
        next(made)
    channel.send(None)
    assert list(made) == []


def test_a_request_that_is_refused_leaves_it_as_it_was():
    made = numbers(3)
    for expected in (0, 1):
        roamlet.switch_trap(1)
        try:
            with pytest.raises(RuntimeError):
                next(made)
        finally:
            roamlet.switch_trap(-1)
        assert next(made) == expected
    made.close()


def test_a_killed_body_ends_the_generator():
    bodies = []

    @roamlet.generator
    def kept():
        bodies.append(roamlet.getcurrent())
        yield_(1)

    made = kept()
    next(made)
    bodies.pop().kill()
    assert list(made) == []


def test_it_runs_in_a_copy_of_the_context_of_the_first_request():
    variable = contextvars.ContextVar("variable", default="default")

    @roamlet.generator
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
    made, done = numbers(4), roamlet.channel()
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
    log, done = [], roamlet.channel()

    @roamlet.generator
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
    roamlet.run()
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
                roamlet.schedule()

    def owns(count, results):
        results.extend(numbers(count))
        with contextlib.suppress(Error):
            list(failing())

    @roamlet.generator
    def failing():
        deeper(1, 1)
        results_of_failing.append("fails")
        raise Error

    own, results_of_failing = [[], []], []
    for results in own:
        roamlet.tasklet(owns)(10, results)
        roamlet.tasklet(shares)()
    while roamlet.getruncount() > 1:
        interrupted = roamlet.run(budget, ignore_nesting=True)
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
        roamlet.generator(function)
