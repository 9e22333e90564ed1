"""spawn: a tasklet whose result or error is had by join, from anywhere; an error without a join() is raised in main."""

import sys
import threading
import weakref

import pytest

import roamlet
from tests.core._scripts import run_script
from tests.core._threads import in_thread


def fail(error):
    try:
        raise error
    finally:
        del error  # the frame is in its traceback


class Unlike(Exception):
    """Cannot be made from its args."""

    def __init__(self, code, *, reason):
        super().__init__(f"{code}: {reason}")
        self.code = code


class Unrepeatable(Exception):
    """Cannot be copied at all."""

    def __new__(cls, *args, key=None):
        if key is None:
            raise TypeError("key is missing")
        return super().__new__(cls, *args)

    def __init__(self, key):
        super().__init__()

    def __reduce__(self):
        raise TypeError("not to be copied")


def test_join_returns_what_the_function_returned():
    spawned = roamlet.spawn(lambda: 42)
    assert (spawned.done, spawned.alive) == (False, True)
    assert spawned.join() == 42
    assert (spawned.done, spawned.alive, spawned.join(), spawned.result) == (True, False, 42, 42)


def test_arguments_are_given_apart():
    assert roamlet.spawn(divmod, (7, 2)).join() == (3, 1)
    assert roamlet.spawn(int, ["11"], {"base": 2}).join() == 3
    assert roamlet.spawn(dict, kwargs={"a": 1}).join() == {"a": 1}


def test_it_runs_when_its_turn_comes():
    order = []
    roamlet.tasklet(order.append)("first")
    roamlet.spawn(order.append, ("second",))
    roamlet.tasklet(order.append)("third")
    assert order == []
    roamlet.run()
    assert order == ["first", "second", "third"]


def test_it_is_a_tasklet_with_the_name_of_its_function():
    spawned = roamlet.spawn(fail, (ValueError(),))
    assert isinstance(spawned, roamlet.tasklet)
    assert "Spawned fail, scheduled" in repr(spawned)
    spawned.kill()


def test_join_raises_what_the_function_raised_and_its_traceback_begins_there():
    spawned = roamlet.spawn(fail, (KeyError("lost"),))
    with pytest.raises(KeyError, match="lost") as caught:
        spawned.join()
    names = [entry.name for entry in caught.traceback]
    del caught
    assert names[-1] == "fail"
    assert "__call__" not in names
    assert spawned.done


def test_result_waits_for_nothing():
    spawned = roamlet.spawn(lambda: 1)
    with pytest.raises(RuntimeError, match=r"has no result yet: join\(\) waits for it"):
        _ = spawned.result
    roamlet.run()
    assert spawned.result == 1


def test_several_join_and_each_gets_the_result():
    got = []
    spawned = roamlet.spawn(roamlet.sleep, (0,))
    for _ in range(3):
        roamlet.tasklet(lambda: got.append(spawned.join()))()
    roamlet.run()
    assert got == [None] * 3


@pytest.fixture
def errors():
    """A list for errors. A frame with one in a local variable is reached from its traceback: that would be a cycle."""
    kept = []
    yield kept
    kept.clear()


def join_error(spawned, errors):
    """Join it, and put the error that join raises into the list."""
    try:
        spawned.join()
    except BaseException as error:
        errors.append(error)


def test_several_who_join_never_share_a_traceback(errors):
    spawned = roamlet.spawn(fail, (OSError(2, "no such thing", "name"),))
    for _ in range(3):
        join_error(spawned, errors)
    assert len({id(error) for error in errors}) == 3
    assert [(type(error), error.args, error.errno) for error in errors] == [
        (FileNotFoundError, (2, "no such thing"), 2)
    ] * 3
    assert len({id(error.__traceback__) for error in errors}) == 3
    assert not hasattr(errors[0], "__notes__")
    assert errors[1].__notes__[0].startswith("It was raised for somebody else first, and comes from:\n  File ")
    assert errors[1].__notes__[0].endswith(", in fail")
    assert errors[2].__notes__ == errors[1].__notes__


def test_notes_and_fields_of_an_error_are_there_for_all(errors):
    spawned = roamlet.spawn(lambda: fail(Unlike(5, reason="odd")))
    join_error(spawned, errors)
    errors[0].add_note("of the first")
    join_error(spawned, errors)
    assert [(str(error), error.code) for error in errors] == [("5: odd", 5)] * 2
    assert [len(error.__notes__) for error in errors] == [1, 1]


def test_an_error_that_cannot_be_copied_is_named_to_those_who_come_later():
    spawned = roamlet.spawn(fail, (Unrepeatable(key=1),))
    with pytest.raises(Unrepeatable):
        spawned.join()
    with pytest.raises(RuntimeError, match=r"Unrepeatable\(\), of which there is no second one"):
        spawned.join()


def test_joins_that_wait_when_it_fails_get_an_error_each(errors):
    gate = roamlet.channel()
    spawned = roamlet.spawn(lambda: fail(ValueError(gate.receive())))
    for _ in range(3):
        roamlet.tasklet(join_error)(spawned, errors)
    roamlet.schedule()
    gate.send("late")
    roamlet.run()
    assert [str(error) for error in errors] == ["late"] * 3
    assert len({id(error) for error in errors}) == 3


def test_a_time_out_leaves_it_running(clock):
    spawned = roamlet.spawn(roamlet.sleep, (10,))
    with pytest.raises(TimeoutError, match=r"Spawned sleep, asleep, at 0x\w+> has not ended within 2\.5 seconds"):
        spawned.join(2.5)
    assert spawned.join(100) is None
    assert clock.jumps == [2.5, 7.5]


def test_wait_leaves_the_error_to_join(clock):
    spawned = roamlet.spawn(roamlet.sleep, (10,))
    assert spawned.wait(2.5) is False
    assert spawned.wait() is True
    assert clock.jumps == [2.5, 7.5]
    failed = roamlet.spawn(int, ("x",))
    assert failed.wait() and failed.wait(0)
    with pytest.raises(ValueError, match="invalid literal"):
        failed.join()
    dropped = roamlet.spawn(int, ("x",))
    assert dropped.wait()
    del dropped
    with pytest.raises(ValueError, match="invalid literal"):
        roamlet.run()


def test_wait_says_nothing_about_a_kill():
    spawned = roamlet.spawn(roamlet.channel().receive)
    roamlet.schedule()
    spawned.kill()
    assert spawned.wait(1)


def test_it_cannot_wait_for_itself():
    with pytest.raises(RuntimeError, match="cannot wait for its own end"):
        roamlet.spawn(lambda: roamlet.getcurrent().wait()).join()


def test_it_cannot_join_itself():
    def function():
        return roamlet.getcurrent().join()

    with pytest.raises(RuntimeError, match="cannot join itself: it would wait for its own end"):
        roamlet.spawn(function).join()


@pytest.mark.parametrize("began", [False, True])
def test_join_of_a_killed_one_says_so(began):
    spawned = roamlet.spawn(roamlet.channel().receive)
    if began:
        roamlet.schedule()
    spawned.kill()
    how = "killed before it had a result" if began else "ended before it began"
    with pytest.raises(roamlet.TaskletKilled, match=f"receive was {how}"):
        spawned.join()
    assert spawned.done


def test_one_that_waits_to_join_learns_of_a_kill(errors):
    spawned = roamlet.spawn(roamlet.channel().receive)
    roamlet.tasklet(join_error)(spawned, errors)
    roamlet.schedule()
    spawned.kill()
    roamlet.run()
    assert [type(error) for error in errors] == [roamlet.TaskletKilled]


def test_whoever_is_killed_while_joining_leaves_it_alone():
    gate = roamlet.channel()
    spawned = roamlet.spawn(gate.receive)
    joiner = roamlet.tasklet(spawned.join)()
    roamlet.schedule()
    joiner.kill()
    gate.send("value")
    assert spawned.join() == "value"


def test_an_error_that_nobody_asks_for_is_raised_in_main():
    roamlet.spawn(fail, (ValueError("unasked"),))
    with pytest.raises(ValueError, match="unasked") as caught:
        roamlet.run()
    assert caught.traceback[-1].name == "fail"
    del caught


def test_an_error_is_raised_in_main_when_the_tasklet_is_dropped_unjoined():
    spawned = roamlet.spawn(fail, (ValueError("unasked"),))
    roamlet.run()
    assert spawned.done
    del spawned
    with pytest.raises(ValueError, match="unasked"):
        roamlet.run()


def test_an_error_that_was_joined_is_not_raised_again():
    spawned = roamlet.spawn(fail, (ValueError("asked"),))
    with pytest.raises(ValueError, match="asked"):
        spawned.join()
    del spawned
    roamlet.run()


def test_a_kill_that_nobody_joins_is_no_error():
    roamlet.spawn(roamlet.channel().receive).kill()
    spawned = roamlet.spawn(roamlet.channel().receive)
    roamlet.schedule()
    spawned.kill()
    ended = not spawned.alive
    del spawned
    roamlet.run()  # raises nothing
    assert ended


def test_the_error_handler_gets_an_error_that_nobody_asks_for():
    seen = []
    roamlet.set_error_handler(lambda kind, value, traceback: seen.append(value))
    try:
        roamlet.spawn(fail, (ValueError("unasked"),))
        roamlet.run()
    finally:
        roamlet.set_error_handler(None)
    assert [str(error) for error in seen] == ["unasked"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_what_ends_programs_is_raised_in_main_at_once(stop):
    spawned = roamlet.spawn(fail, (stop("now"),))
    with pytest.raises(stop, match="now"):
        roamlet.run()
    with pytest.raises(roamlet.TaskletKilled, match=rf"fail had no result: it raised {stop.__name__}\('now'\)"):
        spawned.join()


def test_join_from_another_thread():
    spawned = roamlet.spawn(lambda: "across")
    got = []
    thread = threading.Thread(target=lambda: got.append(spawned.join()))
    thread.start()
    roamlet.run()
    thread.join()
    assert got == ["across"]


def test_join_of_one_in_another_thread_that_raises():
    made, go_on, over = threading.Event(), roamlet.channel(), roamlet.channel()
    spawned = []

    def other():
        spawned.append(roamlet.spawn(lambda: fail(ValueError(go_on.receive()))))
        made.set()
        over.receive()

    thread = threading.Thread(target=other)
    thread.start()
    made.wait()
    go_on.send("over there")
    with pytest.raises(ValueError, match="over there"):
        spawned[0].join()
    over.send(None)
    thread.join()


@pytest.mark.parametrize("begins", [False, True])
def test_join_of_one_whose_thread_has_ended(begins):
    def other():
        spawned = roamlet.spawn(roamlet.channel().receive)
        if begins:
            roamlet.schedule()
        return spawned

    spawned = in_thread(other)
    how = "killed before it had a result" if begins else "ended before it began"
    with pytest.raises(roamlet.TaskletKilled, match=f"{how}: its thread has ended$"):
        spawned.join()


def test_an_error_of_a_thread_that_has_ended_is_printed_when_nobody_asks(monkeypatch):
    def other():
        spawned = roamlet.spawn(fail, (ValueError("too late"),))
        roamlet.run()
        return spawned

    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: seen.append(str(unraisable.exc_value)))
    spawned = in_thread(other)
    del spawned
    assert seen == ["too late"]


def test_an_error_that_nobody_has_asked_for_when_the_program_ends_is_printed():
    done = run_script("""
        import roamlet

        def fail():
            raise ValueError("nobody asked")

        kept = roamlet.spawn(fail)
        roamlet.schedule()
        print("the end")
    """)
    assert (done.returncode, done.stdout) == (0, "the end\n")
    assert done.stderr.count("ValueError: nobody asked") == 1


@pytest.mark.parametrize("bad", [None, 3, "text"])
def test_what_cannot_be_called_is_refused(bad):
    with pytest.raises(
        TypeError, match=r"spawn\(\) takes a callable, and its arguments apart: spawn\(function, \(1, 2\)\)"
    ):
        roamlet.spawn(bad)


@pytest.mark.parametrize("bad", [5, None, "text", b"bytes"])
def test_an_argument_in_place_of_arguments_is_refused(bad):
    message = (
        rf"^spawn\(\) takes the function's arguments apart, as a tuple: spawn\(function, \({bad!r},\)\), not {bad!r}$"
    )
    with pytest.raises(TypeError, match=message):
        roamlet.spawn(print, bad)


def test_an_error_of_what_gives_the_arguments_comes_through():
    with pytest.raises(TypeError, match="unsupported operand"):
        roamlet.spawn(print, (1 + number for number in [None]))


def test_what_has_every_attribute_is_called_like_anything_else():
    class Proxy:
        def __getattr__(self, name):
            return name

        def __call__(self):
            return 5

    assert roamlet.spawn(Proxy()).join() == 5


class Asynchronous:
    async def method(self):
        pass

    async def generator(self):
        yield


@pytest.mark.parametrize("name", ["method", "generator"])
def test_an_async_function_is_refused(name):
    with pytest.raises(TypeError, match=rf"plain function.*{name}.* is async: .*roamlet\.aio\.await_\(function\(\)\)"):
        roamlet.spawn(getattr(Asynchronous(), name))


def test_nothing_of_a_call_is_kept_but_its_result():
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    spawned = roamlet.spawn(id, (thing,))
    del thing
    spawned.join()
    assert gone() is None


def test_an_error_whose_frames_refer_to_its_tasklet_makes_no_cycle():
    held = []

    class Mark(Exception):
        pass

    def function():
        me = roamlet.getcurrent()
        assert me is not None
        raise Mark

    def joins():
        spawned = roamlet.spawn(function)
        held.append(weakref.ref(spawned))
        try:
            spawned.join()
        except Mark as error:
            held.append(weakref.ref(error))

    joins()
    assert [ref() for ref in held] == [None, None]


def test_a_tasklet_that_is_dropped_while_it_is_suspended_ends():
    log = []

    def function():
        try:
            roamlet.schedule_remove()
        finally:
            log.append("ended")

    spawned = roamlet.spawn(function)
    roamlet.schedule()
    del spawned
    assert log == ["ended"]
