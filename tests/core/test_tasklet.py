"""Tasklets: binding, running, killing, what can be seen of their state. Order of execution is test_scheduler's matter."""

import contextvars
import sys
import threading
import traceback
import weakref

import pytest

import weft
from tests.core._objects import Dropping
from weft import core


def flags(tasklet):
    names = ("alive", "scheduled", "blocked", "paused", "is_main", "is_current")
    return {name for name in names if getattr(tasklet, name)}


def nothing():
    pass


# ---- states ----


def test_flags_over_the_life_of_a_tasklet():
    channel = weft.channel()
    seen = []

    def function():
        seen.append(flags(weft.getcurrent()))
        channel.receive()
        weft.schedule_remove()

    tasklet = weft.tasklet(function)
    assert flags(tasklet) == set()
    tasklet()
    assert flags(tasklet) == {"alive", "scheduled"}
    tasklet.remove()
    assert flags(tasklet) == {"alive", "paused"}
    tasklet.run()
    assert seen == [{"alive", "scheduled", "is_current"}]
    assert flags(tasklet) == {"alive", "scheduled", "blocked"}
    channel.send(None)
    assert flags(tasklet) == {"alive", "paused"}
    tasklet.insert()
    assert flags(tasklet) == {"alive", "scheduled"}
    weft.run()
    assert flags(tasklet) == set()


def test_flags_of_main_while_it_runs_and_while_it_waits_in_run():
    main = weft.getmain()
    seen = []
    assert flags(main) == {"alive", "scheduled", "is_main", "is_current"}
    weft.tasklet(lambda: seen.append(flags(main)))()
    weft.run()
    weft.tasklet(lambda: seen.append(flags(main)))()
    weft.schedule()
    assert seen == [{"alive", "scheduled", "blocked", "is_main"}, {"alive", "scheduled", "is_main"}]


def test_the_neighbours_in_the_run_queue_form_a_ring():
    tasklets = [weft.tasklet(nothing)() for _ in range(3)]
    ring = [weft.getcurrent(), *tasklets]
    assert [tasklet.next for tasklet in ring] == [*ring[1:], ring[0]]
    assert [tasklet.prev for tasklet in ring] == [ring[-1], *ring[:-1]]
    tasklets[1].remove()
    assert (tasklets[1].next, tasklets[1].prev) == (None, None)
    assert tasklets[0].next is tasklets[2] and tasklets[2].prev is tasklets[0]
    tasklets[1].kill()
    weft.run()
    assert (ring[0].next, ring[0].prev) == (ring[0], ring[0])


def test_who_sleeps_or_waits_has_no_neighbours(clock):
    """A neighbour that it had in the run queue may be freed long before it wakes."""
    sleeping, waiting = weft.tasklet(weft.sleep)(1), weft.tasklet(core.Waiter().wait)(2)
    others = [weft.tasklet(nothing)() for _ in range(3)]
    weft.schedule()
    del others
    assert [(tasklet.next, tasklet.prev) for tasklet in (sleeping, waiting)] == [(None, None)] * 2
    for tasklet in (sleeping, waiting):
        tasklet.kill()


def test_thread_id_is_the_threads_and_minus_one_when_it_has_ended():
    made = []

    def thread():
        made.append(weft.tasklet(nothing)())
        made.append(made[0].thread_id == threading.get_ident())
        weft.run()

    runner = threading.Thread(target=thread)
    runner.start()
    runner.join()
    assert weft.getcurrent().thread_id == threading.get_ident()
    assert made[1] is True
    assert made[0].thread_id == -1


def test_repr_names_the_function_and_the_state():
    channel = weft.channel()
    tasklet = weft.tasklet(channel.receive)
    assert repr(tasklet).startswith("<weft.tasklet channel.receive, bound, at 0x")
    tasklet()
    assert ", scheduled," in repr(tasklet)
    weft.run()
    assert ", blocked in receive," in repr(tasklet)
    tasklet.kill()
    assert repr(tasklet).startswith("<weft.tasklet without function, dead,")
    assert repr(weft.getmain()).startswith("<weft.tasklet main, current,")


def test_repr_of_a_callable_without_a_name_is_its_own_repr():
    class Callable:
        def __call__(self):
            pass

        def __repr__(self):
            return "a callable thing"

    assert "<weft.tasklet a callable thing, bound," in repr(weft.tasklet(Callable()))


# ---- binding ----


@pytest.mark.parametrize(
    "start",
    [
        lambda function: weft.tasklet(function)(1, b=2),
        lambda function: weft.tasklet(function).setup(1, b=2),
        lambda function: weft.tasklet(function, (1,), {"b": 2}).insert(),
        lambda function: weft.tasklet(func=function, args=[1], kwargs={"b": 2}).insert(),
        lambda function: weft.tasklet().bind(function, (1,), {"b": 2}).insert(),
        lambda function: weft.tasklet().bind(function).bind(args=(1,), kwargs={"b": 2}).insert(),
        lambda function: weft.tasklet().bind(function).setup(1, b=2),
        lambda function: weft.tasklet(nothing).bind(function).setup(1, b=2),
    ],
)
def test_the_ways_to_bind_and_start(start):
    got = []
    tasklet = start(lambda *args, **kwargs: got.append((args, kwargs)))
    assert isinstance(tasklet, weft.tasklet)
    assert flags(tasklet) == {"alive", "scheduled"}
    weft.run()
    assert got == [((1,), {"b": 2})]


def test_arguments_given_to_the_constructor_do_not_schedule():
    tasklet = weft.tasklet(nothing, ())
    assert flags(tasklet) == {"alive", "paused"}
    assert weft.getruncount() == 1
    tasklet.run()
    assert flags(tasklet) == set()


def test_keyword_arguments_alone_make_a_tasklet_alive():
    got = []
    tasklet = weft.tasklet(lambda **kwargs: got.append(kwargs), kwargs={"x": 1})
    assert tasklet.paused
    tasklet.run()
    assert got == [{"x": 1}]


def test_bind_without_arguments_unbinds_and_drops_what_was_bound():
    class Function:
        def __call__(self):
            pass

    function = Function()
    gone = weakref.ref(function)
    tasklet = weft.tasklet(function, ())
    del function
    assert tasklet.bind() is tasklet
    assert gone() is None
    assert flags(tasklet) == set()
    with pytest.raises(RuntimeError, match=r"was not bound to a function: tasklet\(function\)\(\*args\)"):
        tasklet()


def test_a_dead_tasklet_can_be_bound_and_run_again():
    got = []
    tasklet = weft.tasklet(got.append)(1)
    weft.run()
    tasklet.bind(got.append, (2,))
    tasklet.run()
    tasklet.bind(got.append)(3)
    weft.run()
    assert got == [1, 2, 3]


def test_binding_a_tasklet_that_is_under_way_is_refused_with_the_reason():
    channel = weft.channel()
    tasklet = weft.tasklet(channel.receive)()
    with pytest.raises(RuntimeError, match=r"tasklet is scheduled: kill\(\) or remove\(\) it"):
        tasklet.bind(nothing)
    with pytest.raises(RuntimeError, match="tasklet is alive"):
        tasklet.setup()
    with pytest.raises(RuntimeError, match="tasklet is alive"):
        tasklet()
    tasklet.run()
    with pytest.raises(RuntimeError, match=r"tasklet has C state on its stack.*kill\(\)"):
        tasklet.bind(nothing)
    tasklet.kill()
    with pytest.raises(RuntimeError, match=r"can't \(re\)bind the current tasklet"):
        weft.getcurrent().bind(nothing)


def test_a_paused_tasklet_that_has_not_run_can_be_bound_anew():
    got = []
    tasklet = weft.tasklet(got.append)(1)
    tasklet.remove()
    tasklet.bind(got.append, (2,))
    tasklet.run()
    assert got == [2]


@pytest.mark.parametrize("bad", [3, "f", (), object()])
def test_what_cannot_be_called_is_refused(bad):
    for make in (weft.tasklet, weft.tasklet().bind, lambda thing: weft.tasklet(thing, ())):
        with pytest.raises(TypeError, match="tasklet function must be a callable or None, not"):
            make(bad)


def test_bind_refuses_arguments_that_are_no_sequence_or_dict():
    tasklet = weft.tasklet(nothing)
    with pytest.raises(TypeError, match="kwargs is a dict or None"):
        tasklet.bind(nothing, (), [("x", 1)])
    with pytest.raises(TypeError, match="not iterable"):
        tasklet.bind(nothing, 5)
    with pytest.raises(TypeError):
        tasklet.bind(nothing, (), {}, 1)
    assert flags(tasklet) == set()


def test_the_arguments_that_were_given_are_what_the_tasklet_gets():
    arguments, got = [1, 2], []
    tasklet = weft.tasklet(lambda *args: got.append(args), arguments)
    arguments.append(3)
    tasklet.run()
    assert got == [(1, 2)]


# ---- binding while what is dropped runs code (each of these crashed once) ----


def test_dropping_the_old_function_may_start_the_tasklet():
    got, tasklet = [], weft.tasklet()

    def again():
        tasklet.bind(got.append)
        tasklet.setup("inner")

    tasklet.bind(Dropping(again))
    tasklet.bind(got.append)
    assert tasklet.scheduled
    weft.run()
    assert got == ["inner"]


def test_dropping_the_old_arguments_may_run_the_tasklet():
    got = []
    tasklet = weft.tasklet(lambda *args: got.append(len(args)))
    tasklet.bind(None, (Dropping(lambda: tasklet.run()), 1))
    tasklet.bind(None, (1,))
    assert got == [1]
    assert not tasklet.alive


def test_iterating_the_new_arguments_may_start_the_tasklet_and_bind_is_refused():
    tasklet = weft.tasklet(weft.schedule_remove)

    def arguments():
        tasklet()
        tasklet.run()
        yield 1

    with pytest.raises(RuntimeError, match="C state on its stack"):
        tasklet.bind(None, arguments())
    assert tasklet.paused
    tasklet.kill()


# ---- run, insert, remove, switch ----


def test_insert_and_remove_return_the_tasklet_and_may_be_repeated():
    tasklet = weft.tasklet(nothing)()
    assert tasklet.insert() is tasklet
    assert weft.getruncount() == 2
    assert tasklet.remove() is tasklet
    assert tasklet.remove() is tasklet
    assert weft.getruncount() == 1
    tasklet.insert()
    weft.run()


def test_what_is_blocked_or_dead_cannot_be_run_inserted_or_removed():
    channel = weft.channel()
    tasklet = weft.tasklet(channel.receive)()
    weft.run()
    for call in (tasklet.run, tasklet.insert, tasklet.switch):
        with pytest.raises(RuntimeError, match="You cannot run a blocked tasklet"):
            call()
    with pytest.raises(RuntimeError, match="You cannot remove a blocked tasklet"):
        tasklet.remove()
    channel.send(None)
    for call in (tasklet.run, tasklet.insert, tasklet.switch):
        with pytest.raises(RuntimeError, match=r"You cannot run an unbound\(dead\) tasklet"):
            call()
    assert tasklet.remove() is tasklet


def test_the_current_tasklet_cannot_be_removed():
    with pytest.raises(RuntimeError, match=r"The current tasklet cannot be removed: schedule_remove\(\) suspends it"):
        weft.getcurrent().remove()


def test_running_or_switching_to_the_current_tasklet_does_nothing():
    assert weft.getcurrent().run() is None
    assert weft.getcurrent().switch() is None
    assert weft.getruncount() == 1


def test_switch_pauses_the_caller_and_keeps_it_out_of_the_queue():
    main, log = weft.getcurrent(), []

    def target():
        log.append((main.paused, weft.getruncount()))
        main.insert()

    weft.tasklet(target)().switch()
    weft.tasklet(target, ()).switch()
    assert log == [(True, 1), (True, 1)]


def test_main_paused_by_switch_goes_on_when_nobody_else_can_run():
    log = []
    weft.tasklet(log.append)("ran").switch()
    assert log == ["ran"]


# ---- kill and throw ----


def waits_with_finally(log, block=weft.schedule_remove):
    try:
        block()
        log.append("went on")
    except weft.TaskletExit:
        log.append("TaskletExit")
        raise
    finally:
        log.append("finally")


@pytest.mark.parametrize("block", [weft.schedule_remove, weft.schedule, weft.channel().receive, lambda: weft.sleep(9)])
def test_kill_raises_at_the_blocking_call_and_runs_finally_before_it_returns(block):
    log = []
    tasklet = weft.tasklet(waits_with_finally)(log, block)
    tasklet.run()
    assert tasklet.kill() is None
    assert log == ["TaskletExit", "finally"]
    assert flags(tasklet) == set()


def test_kill_of_a_tasklet_blocked_in_send_takes_it_out_of_the_channel():
    channel, log = weft.channel(), []
    tasklet = weft.tasklet(waits_with_finally)(log, lambda: channel.send(1))
    weft.run()
    tasklet.kill()
    assert (log, channel.balance, channel.queue) == (["TaskletExit", "finally"], 0, None)


def test_a_pending_kill_takes_effect_when_the_tasklet_runs_next():
    channel, log = weft.channel(), []
    tasklet = weft.tasklet(waits_with_finally)(log, channel.receive)
    weft.run()
    tasklet.kill(pending=True)
    assert (log, flags(tasklet), channel.balance) == ([], {"alive", "scheduled"}, 0)
    weft.run()
    assert log == ["TaskletExit", "finally"]


def test_kill_of_a_tasklet_that_never_ran_runs_nothing_of_it():
    log = []
    tasklet = weft.tasklet(log.append)("never")
    tasklet.kill()
    assert flags(tasklet) == set()
    pending = weft.tasklet(log.append)("never")
    pending.kill(pending=True)
    weft.run()
    assert (log, flags(pending)) == ([], set())


def test_kill_of_a_dead_tasklet_does_nothing():
    tasklet = weft.tasklet(nothing)()
    weft.run()
    for pending in (False, True):
        tasklet.kill(pending=pending)
    weft.tasklet().kill()
    weft.tasklet(nothing).kill()
    assert flags(tasklet) == set()


def test_kill_of_the_current_tasklet_raises_in_place():
    log = []

    def function():
        try:
            weft.getcurrent().kill()
        finally:
            log.append("finally")

    weft.tasklet(function)().run()
    assert log == ["finally"]
    with pytest.raises(weft.TaskletExit):
        weft.getcurrent().kill()


def test_a_tasklet_may_refuse_to_be_killed():
    log = []

    def function():
        try:
            weft.schedule_remove()
        except weft.TaskletExit:
            log.append("refused")
        weft.schedule_remove()
        log.append("ended")

    tasklet = weft.tasklet(function)()
    weft.run()
    tasklet.kill()
    assert (log, flags(tasklet)) == (["refused"], {"alive", "paused"})
    tasklet.run()
    assert log == ["refused", "ended"]


def test_tasklet_exit_ends_a_tasklet_silently_and_its_subclasses_too():
    class Quiet(weft.TaskletExit):
        pass

    def function(kind, *arguments):
        raise kind(*arguments)

    for kind, *arguments in ((weft.TaskletExit,), (weft.TaskletExit, "x"), (Quiet,)):
        weft.tasklet(function)(kind, *arguments)
    weft.run()
    assert issubclass(weft.TaskletExit, SystemExit)


def test_a_finally_block_may_block_while_its_tasklet_is_killed():
    channel, log = weft.channel(), []

    def function():
        try:
            weft.schedule_remove()
        finally:
            log.append(channel.receive())

    tasklet = weft.tasklet(function)()
    weft.run()
    tasklet.kill()
    assert flags(tasklet) == {"alive", "scheduled", "blocked"}
    channel.send("cleaned")
    assert (log, flags(tasklet)) == (["cleaned"], set())


def test_two_pending_errors_leave_the_last():
    caught = []

    def function():
        try:
            weft.schedule_remove()
        except Exception as error:
            caught.append(repr(error))

    tasklet = weft.tasklet(function)()
    weft.run()
    tasklet.throw(KeyError, 1, pending=True)
    tasklet.throw(ValueError, 2, pending=True)
    weft.run()
    assert caught == ["ValueError(2)"]


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((IndexError,), ()),
        ((IndexError, "one"), ("one",)),
        ((IndexError, (1, 2, 3)), (1, 2, 3)),
        ((IndexError, IndexError(4)), (4,)),
        ((IndexError(5),), (5,)),
    ],
)
def test_throw_takes_the_forms_of_a_raise_with_three_arguments(arguments, expected, pending):
    channel, caught = weft.channel(), []

    def function():
        try:
            channel.receive()
        except IndexError as error:
            caught.append(error.args)

    tasklet = weft.tasklet(function)()
    weft.run()
    assert tasklet.throw(*arguments, pending=pending) is None
    assert tasklet.alive is pending
    weft.run()
    assert (caught, tasklet.alive) == ([expected], False)


def test_throw_keeps_the_traceback_that_it_is_given():
    channel, names = weft.channel(), []

    def function():
        try:
            channel.receive()
        except ZeroDivisionError as error:
            names.extend(entry.name for entry in traceback.extract_tb(error.__traceback__))

    def origin():
        return 1 / 0

    tasklet = weft.tasklet(function)()
    weft.run()
    try:
        origin()
    except ZeroDivisionError:
        tasklet.throw(*sys.exc_info())
    assert (names[0], names[-1]) == ("function", "origin")


def test_raise_exception_builds_and_raises_at_once():
    channel, caught = weft.channel(), []

    def function():
        try:
            channel.receive()
        except IndexError as error:
            caught.append(error.args)

    tasklet = weft.tasklet(function)()
    weft.run()
    tasklet.raise_exception(IndexError, 1, 2)
    assert caught == [(1, 2)]


def test_throwing_into_a_tasklet_that_never_ran_raises_in_main():
    tasklet = weft.tasklet(nothing)()
    with pytest.raises(IndexError, match="early"):
        tasklet.throw(IndexError, "early")
    pending = weft.tasklet(nothing)()
    pending.throw(IndexError, "later", pending=True)
    with pytest.raises(IndexError, match="later"):
        weft.run()
    assert flags(tasklet) == flags(pending) == set()


def test_throwing_into_a_dead_tasklet_is_refused_and_tasklet_exit_is_harmless():
    tasklet = weft.tasklet(nothing)()
    weft.run()
    for pending in (False, True):
        with pytest.raises(RuntimeError, match="You cannot throw to a dead tasklet"):
            tasklet.throw(IndexError, pending=pending)
        tasklet.throw(weft.TaskletExit, pending=pending)
    with pytest.raises(RuntimeError, match="dead tasklet"):
        tasklet.raise_exception(IndexError)


@pytest.mark.parametrize("arguments", [(), (3,), (int,), (IndexError(1), (1, 2)), (IndexError, None, 5)])
def test_throw_refuses_what_is_no_exception_and_changes_nothing(arguments):
    tasklet = weft.tasklet(weft.schedule_remove)()
    weft.run()
    with pytest.raises(TypeError):
        tasklet.throw(*arguments)
    with pytest.raises(TypeError):
        weft.getcurrent().throw(*arguments)
    assert flags(tasklet) == {"alive", "paused"}
    tasklet.kill()


def test_throwing_into_the_current_tasklet_raises_in_place():
    with pytest.raises(LookupError, match="here"):
        weft.getcurrent().throw(LookupError, "here")
    with pytest.raises(LookupError, match="here too"):
        weft.getcurrent().raise_exception(LookupError, "here too")


# ---- life and death ----


def test_a_suspended_tasklet_ends_with_its_last_reference():
    log = []
    tasklet = weft.tasklet(waits_with_finally)(log)
    weft.run()
    gone = weakref.ref(tasklet)
    del tasklet
    assert log == ["TaskletExit", "finally"]
    assert gone() is None
    assert core.started() == []


def test_a_tasklet_whose_finally_keeps_it_lives_on():
    kept = []

    def function():
        try:
            weft.schedule_remove()
        except weft.TaskletExit:
            kept.append(weft.getcurrent())
            weft.schedule_remove()
            kept.append("went on")

    tasklet = weft.tasklet(function)()
    weft.run()
    del tasklet
    assert flags(kept[0]) == {"alive", "paused"}
    kept[0].run()
    assert kept[1:] == ["went on"]


def test_a_tasklet_that_goes_on_after_tasklet_exit_without_references_is_abandoned_and_said_so(monkeypatch):
    said = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: said.append(str(unraisable.exc_value)))
    attempts = []

    def function():
        while True:
            try:
                weft.schedule_remove()
            except weft.TaskletExit:
                attempts.append(1)

    tasklet = weft.tasklet(function)()
    weft.run()
    del tasklet
    assert len(attempts) == 10
    assert len(said) == 1 and "goes on after TaskletExit although nobody refers to it" in said[0]
    assert core.started() == []
    for _ in range(300):
        weft.tasklet(weft.schedule)()
    weft.run()


def test_a_subclass_with_a_finalizer_of_its_own_still_ends_its_function():
    log = []

    class Watched(weft.tasklet):
        def __del__(self):
            log.append("__del__")

    tasklet = Watched(waits_with_finally)(log)
    weft.run()
    del tasklet
    assert log == ["__del__", "TaskletExit", "finally"]
    assert core.started() == []


def test_tasklets_can_be_subclassed():
    class Named(weft.tasklet):
        def __init__(self, function, name):
            super().__init__(function)
            self.name = name

    got = []
    tasklet = Named(lambda: got.append(weft.getcurrent().name), "worker")()
    weft.run()
    assert got == ["worker"]
    assert "Named" in repr(tasklet)


def test_function_and_arguments_are_dropped_at_the_end():
    class Value:
        pass

    value = Value()
    gone = weakref.ref(value)
    tasklet = weft.tasklet(Dropping(value.__hash__))(value, value)
    del value
    weft.run()
    assert gone() is None
    assert not tasklet.alive


def test_the_result_of_the_function_is_dropped():
    class Value:
        pass

    made = []

    def function():
        value = Value()
        made.append(weakref.ref(value))
        return value

    weft.tasklet(function)()
    weft.run()
    assert made[0]() is None


def test_a_weak_reference_is_dead_when_the_tasklet_is():
    called = []
    tasklet = weft.tasklet(nothing)()
    gone = weakref.ref(tasklet, lambda _: called.append(True))
    weft.run()
    assert gone() is tasklet
    del tasklet
    assert (gone(), called) == (None, [True])


# ---- contexts and exceptions in flight ----


def test_each_tasklet_runs_in_a_copy_of_its_creators_context():
    variable = contextvars.ContextVar("variable", default="none")
    log = []

    def function(name):
        log.append((name, variable.get()))
        variable.set(name)
        for _ in range(3):
            weft.schedule()
            log.append((name, variable.get()))

    def in_context():
        variable.set("creator's")
        for name in "ab":
            weft.tasklet(function)(name)
        variable.set("changed after")
        weft.run()
        log.append(("main", variable.get()))

    contextvars.Context().run(in_context)
    assert log[:2] == [("a", "creator's"), ("b", "creator's")]
    assert log[2:-1] == [("a", "a"), ("b", "b")] * 3
    assert log[-1] == ("main", "changed after")
    assert variable.get() == "none"


def test_a_context_entered_by_a_tasklet_stays_with_it():
    variable = contextvars.ContextVar("variable", default=0)
    log = []

    def inner(value):
        variable.set(value)
        for _ in range(3):
            weft.schedule()
            log.append(variable.get() == value)

    def function(value):
        contextvars.Context().run(inner, value)
        log.append(variable.get() == 0)

    for value in (1, 2, 3):
        weft.tasklet(function)(value)
    weft.run()
    assert len(log) == 12 and all(log)


def test_the_context_of_a_tasklet_is_freed_with_it_however_it_ends():
    class Value:
        pass

    variable = contextvars.ContextVar("variable")
    gone = []

    def make():
        value = Value()
        gone.append(weakref.ref(value))
        variable.set(value)
        del value
        ran = weft.tasklet(nothing)()
        never = weft.tasklet(nothing)()
        unbound = weft.tasklet(nothing, ())
        never.kill()
        del unbound
        weft.run()
        return ran

    contextvars.Context().run(make)
    assert gone[0]() is None


def test_the_exception_being_handled_belongs_to_each_tasklet():
    log = []

    def function(name):
        try:
            raise ValueError(name)
        except ValueError as error:
            for _ in range(3):
                weft.schedule()
                log.append(sys.exception() is error)
            try:
                raise KeyError(name)
            except KeyError as second:
                weft.schedule()
                log.append(second.__context__ is error and sys.exception() is second)
            weft.schedule()
            log.append(sys.exception() is error)
        weft.schedule()
        log.append(sys.exception() is None)

    for name in range(5):
        weft.tasklet(function)(name)
    try:
        raise RuntimeError("main's")
    except RuntimeError as error:
        weft.run()
        log.append(sys.exception() is error)
    assert len(log) == 5 * 6 + 1 and all(log)


def test_an_error_thrown_into_a_tasklet_does_not_drag_along_what_the_thrower_handles():
    caught = []

    def function():
        try:
            try:
                raise ValueError("handled")
            except ValueError:
                weft.schedule_remove()
        except KeyError as error:
            caught.append((error.__context__, type(sys.exception())))

    tasklet = weft.tasklet(function)()
    weft.run()
    try:
        raise RuntimeError("main's own")
    except RuntimeError:
        tasklet.throw(KeyError)
    assert caught == [(None, KeyError)]
