"""Tasklets: binding, running, killing, what can be seen of their state. Order of execution is test_scheduler's matter."""

import sys
import threading
import weakref

import pytest

import roamlet
from roamlet import core
from tests.core._objects import Dropping, flags, nothing, waits_with_finally

# ---- states ----


def test_flags_over_the_life_of_a_tasklet():
    channel = roamlet.channel()
    seen = []

    def function():
        seen.append(flags(roamlet.getcurrent()))
        channel.receive()
        roamlet.schedule_remove()

    tasklet = roamlet.tasklet(function)
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
    roamlet.run()
    assert flags(tasklet) == set()


def test_flags_of_main_while_it_runs_and_while_it_waits_in_run():
    main = roamlet.getmain()
    seen = []
    assert flags(main) == {"alive", "scheduled", "is_main", "is_current"}
    roamlet.tasklet(lambda: seen.append(flags(main)))()
    roamlet.run()
    roamlet.tasklet(lambda: seen.append(flags(main)))()
    roamlet.schedule()
    assert seen == [{"alive", "paused", "is_main"}, {"alive", "scheduled", "is_main"}]


def test_the_neighbours_in_the_run_queue_form_a_ring():
    tasklets = [roamlet.tasklet(nothing)() for _ in range(3)]
    ring = [roamlet.getcurrent(), *tasklets]
    assert [tasklet.next for tasklet in ring] == [*ring[1:], ring[0]]
    assert [tasklet.prev for tasklet in ring] == [ring[-1], *ring[:-1]]
    tasklets[1].remove()
    assert (tasklets[1].next, tasklets[1].prev) == (None, None)
    assert tasklets[0].next is tasklets[2] and tasklets[2].prev is tasklets[0]
    tasklets[1].kill()
    roamlet.run()
    assert (ring[0].next, ring[0].prev) == (ring[0], ring[0])


def test_who_sleeps_or_waits_has_no_neighbours(clock):
    """A neighbour that it had in the run queue may be freed long before it wakes."""
    sleeping, waiting = roamlet.tasklet(roamlet.sleep)(1), roamlet.tasklet(core.Waiter().wait)(2)
    others = [roamlet.tasklet(nothing)() for _ in range(3)]
    roamlet.schedule()
    del others
    assert [(tasklet.next, tasklet.prev) for tasklet in (sleeping, waiting)] == [(None, None)] * 2
    for tasklet in (sleeping, waiting):
        tasklet.kill()


def test_thread_id_is_the_threads_and_minus_one_when_it_has_ended():
    made = []

    def thread():
        made.append(roamlet.tasklet(nothing)())
        made.append(made[0].thread_id == threading.get_ident())
        roamlet.run()

    runner = threading.Thread(target=thread)
    runner.start()
    runner.join()
    assert roamlet.getcurrent().thread_id == threading.get_ident()
    assert made[1] is True
    assert made[0].thread_id == -1


def test_repr_names_the_function_and_the_state():
    channel = roamlet.channel()
    tasklet = roamlet.tasklet(channel.receive)
    assert repr(tasklet).startswith("<roamlet.tasklet channel.receive, bound, at 0x")
    tasklet()
    assert ", scheduled," in repr(tasklet)
    roamlet.run()
    assert ", blocked in receive," in repr(tasklet)
    tasklet.kill()
    assert repr(tasklet).startswith("<roamlet.tasklet without function, dead,")
    assert repr(roamlet.getmain()).startswith("<roamlet.tasklet main, current,")


def test_repr_of_a_callable_without_a_name_is_its_own_repr():
    class Callable:
        def __call__(self):
            pass

        def __repr__(self):
            return "a callable thing"

    assert "<roamlet.tasklet a callable thing, bound," in repr(roamlet.tasklet(Callable()))


# ---- binding ----


@pytest.mark.parametrize(
    "start",
    [
        lambda function: roamlet.tasklet(function)(1, b=2),
        lambda function: roamlet.tasklet(function).setup(1, b=2),
        lambda function: roamlet.tasklet(function, (1,), {"b": 2}).insert(),
        lambda function: roamlet.tasklet(func=function, args=[1], kwargs={"b": 2}).insert(),
        lambda function: roamlet.tasklet().bind(function, (1,), {"b": 2}).insert(),
        lambda function: roamlet.tasklet().bind(function).bind(args=(1,), kwargs={"b": 2}).insert(),
        lambda function: roamlet.tasklet().bind(function).setup(1, b=2),
        lambda function: roamlet.tasklet(nothing).bind(function).setup(1, b=2),
    ],
)
def test_the_ways_to_bind_and_start(start):
    got = []
    tasklet = start(lambda *args, **kwargs: got.append((args, kwargs)))
    assert isinstance(tasklet, roamlet.tasklet)
    assert flags(tasklet) == {"alive", "scheduled"}
    roamlet.run()
    assert got == [((1,), {"b": 2})]


def test_arguments_given_to_the_constructor_do_not_schedule():
    tasklet = roamlet.tasklet(nothing, ())
    assert flags(tasklet) == {"alive", "paused"}
    assert roamlet.getruncount() == 1
    tasklet.run()
    assert flags(tasklet) == set()


def test_keyword_arguments_alone_make_a_tasklet_alive():
    got = []
    tasklet = roamlet.tasklet(lambda **kwargs: got.append(kwargs), kwargs={"x": 1})
    assert tasklet.paused
    tasklet.run()
    assert got == [{"x": 1}]


def test_bind_without_arguments_unbinds_and_drops_what_was_bound():
    class Function:
        def __call__(self):
            pass

    function = Function()
    gone = weakref.ref(function)
    tasklet = roamlet.tasklet(function, ())
    del function
    assert tasklet.bind() is tasklet
    assert gone() is None
    assert flags(tasklet) == set()
    with pytest.raises(RuntimeError, match=r"was not bound to a function: tasklet\(function\)\(\*args\)"):
        tasklet()


def test_a_dead_tasklet_can_be_bound_and_run_again():
    got = []
    tasklet = roamlet.tasklet(got.append)(1)
    roamlet.run()
    tasklet.bind(got.append, (2,))
    tasklet.run()
    tasklet.bind(got.append)(3)
    roamlet.run()
    assert got == [1, 2, 3]


def test_binding_a_tasklet_that_is_under_way_is_refused_with_the_reason():
    channel = roamlet.channel()
    tasklet = roamlet.tasklet(channel.receive)()
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
        roamlet.getcurrent().bind(nothing)


def test_a_paused_tasklet_that_has_not_run_can_be_bound_anew():
    got = []
    tasklet = roamlet.tasklet(got.append)(1)
    tasklet.remove()
    tasklet.bind(got.append, (2,))
    tasklet.run()
    assert got == [2]


@pytest.mark.parametrize("bad", [3, "f", (), object()])
def test_what_cannot_be_called_is_refused(bad):
    for make in (roamlet.tasklet, roamlet.tasklet().bind, lambda thing: roamlet.tasklet(thing, ())):
        with pytest.raises(TypeError, match="tasklet function must be a callable or None, not"):
            make(bad)


class Fails:
    def __iter__(self):
        raise LookupError


@pytest.mark.parametrize("error", [ValueError, ValueError("x")])
def test_kill_takes_no_error(error):
    tasklet = roamlet.tasklet(nothing)()
    with pytest.raises(TypeError, match=r"kill\(\) raises TaskletExit.*throw\(.*ValueError.*\) raises another error"):
        tasklet.kill(error)
    assert tasklet.alive
    tasklet.kill(pending=1)
    roamlet.run()
    assert not tasklet.alive


def test_bind_refuses_arguments_that_are_no_sequence_or_dict():
    tasklet = roamlet.tasklet(nothing)
    with pytest.raises(TypeError, match="kwargs is a dict or None"):
        tasklet.bind(nothing, (), [("x", 1)])
    with pytest.raises(
        TypeError, match=r"arguments are given in a call of their own.*tasklet\(function\)\(5\).*not 5$"
    ):
        tasklet.bind(nothing, 5)
    with pytest.raises(TypeError, match=r"tasklet\(function\)\(5\), or bind\(function, \(5,\)\), not 5$"):
        roamlet.tasklet(nothing, 5)
    with pytest.raises(LookupError):
        tasklet.bind(nothing, Fails())
    with pytest.raises(TypeError):
        tasklet.bind(nothing, (), {}, 1)
    assert flags(tasklet) == set()


def test_the_arguments_that_were_given_are_what_the_tasklet_gets():
    arguments, got = [1, 2], []
    tasklet = roamlet.tasklet(lambda *args: got.append(args), arguments)
    arguments.append(3)
    tasklet.run()
    assert got == [(1, 2)]


# ---- binding while what is dropped runs code (each of these crashed once) ----


def test_dropping_the_old_function_may_start_the_tasklet():
    got, tasklet = [], roamlet.tasklet()

    def again():
        tasklet.bind(got.append)
        tasklet.setup("inner")

    tasklet.bind(Dropping(again))
    tasklet.bind(got.append)
    assert tasklet.scheduled
    roamlet.run()
    assert got == ["inner"]


def test_dropping_the_old_arguments_may_run_the_tasklet():
    got = []
    tasklet = roamlet.tasklet(lambda *args: got.append(len(args)))
    tasklet.bind(None, (Dropping(lambda: tasklet.run()), 1))
    tasklet.bind(None, (1,))
    assert got == [1]
    assert not tasklet.alive


def test_iterating_the_new_arguments_may_start_the_tasklet_and_bind_is_refused():
    tasklet = roamlet.tasklet(roamlet.schedule_remove)

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
    tasklet = roamlet.tasklet(nothing)()
    assert tasklet.insert() is tasklet
    assert roamlet.getruncount() == 2
    assert tasklet.remove() is tasklet
    assert tasklet.remove() is tasklet
    assert roamlet.getruncount() == 1
    tasklet.insert()
    roamlet.run()


def test_what_is_blocked_or_dead_cannot_be_run_inserted_or_removed():
    channel = roamlet.channel()
    tasklet = roamlet.tasklet(channel.receive)()
    roamlet.run()
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
        roamlet.getcurrent().remove()


def test_running_or_switching_to_the_current_tasklet_does_nothing():
    assert roamlet.getcurrent().run() is None
    assert roamlet.getcurrent().switch() is None
    assert roamlet.getruncount() == 1


def test_switch_pauses_the_caller_and_keeps_it_out_of_the_queue():
    main, log = roamlet.getcurrent(), []

    def target():
        log.append((main.paused, roamlet.getruncount()))
        main.insert()

    roamlet.tasklet(target)().switch()
    roamlet.tasklet(target, ()).switch()
    assert log == [(True, 1), (True, 1)]


def test_main_paused_by_switch_goes_on_when_nobody_else_can_run():
    log = []
    roamlet.tasklet(log.append)("ran").switch()
    assert log == ["ran"]


# ---- life and death ----


def test_a_suspended_tasklet_ends_with_its_last_reference():
    log = []
    tasklet = roamlet.tasklet(waits_with_finally)(log)
    roamlet.run()
    gone = weakref.ref(tasklet)
    del tasklet
    assert log == ["TaskletExit", "finally"]
    assert gone() is None
    assert core.started() == []


def test_a_tasklet_whose_finally_keeps_it_lives_on():
    kept = []

    def function():
        try:
            roamlet.schedule_remove()
        except roamlet.TaskletExit:
            kept.append(roamlet.getcurrent())
            roamlet.schedule_remove()
            kept.append("went on")

    tasklet = roamlet.tasklet(function)()
    roamlet.run()
    del tasklet
    assert flags(kept[0]) == {"alive", "paused"}
    kept[0].run()
    assert kept[1:] == ["went on"]


@pytest.mark.leaves("references", reason="an abandoned tasklet keeps its frames")
def test_a_tasklet_that_goes_on_after_tasklet_exit_without_references_is_abandoned_and_said_so(monkeypatch):
    said = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: said.append(str(unraisable.exc_value)))
    attempts = []

    def function():
        while True:
            try:
                roamlet.schedule_remove()
            except roamlet.TaskletExit:
                attempts.append(1)

    tasklet = roamlet.tasklet(function)()
    roamlet.run()
    del tasklet
    assert len(attempts) == 10
    assert len(said) == 1 and "goes on after TaskletExit although nothing refers to it" in said[0]
    assert core.started() == []
    for _ in range(300):
        roamlet.tasklet(roamlet.schedule)()
    roamlet.run()


def test_a_subclass_with_a_finalizer_of_its_own_still_ends_its_function():
    log = []

    class Watched(roamlet.tasklet):
        def __del__(self):
            log.append("__del__")

    tasklet = Watched(waits_with_finally)(log)
    roamlet.run()
    del tasklet
    assert log == ["__del__", "TaskletExit", "finally"]
    assert core.started() == []


def test_tasklets_can_be_subclassed():
    class Named(roamlet.tasklet):
        def __init__(self, function, name):
            super().__init__(function)
            self.name = name

    got = []
    tasklet = Named(lambda: got.append(roamlet.getcurrent().name), "worker")()
    roamlet.run()
    assert got == ["worker"]
    assert "Named" in repr(tasklet)


def test_function_and_arguments_are_dropped_at_the_end():
    class Value:
        pass

    value = Value()
    gone = weakref.ref(value)
    tasklet = roamlet.tasklet(Dropping(value.__hash__))(value, value)
    del value
    roamlet.run()
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

    roamlet.tasklet(function)()
    roamlet.run()
    assert made[0]() is None


def test_a_weak_reference_is_dead_when_the_tasklet_is():
    called = []
    tasklet = roamlet.tasklet(nothing)()
    gone = weakref.ref(tasklet, lambda _: called.append(True))
    roamlet.run()
    assert gone() is tasklet
    del tasklet
    assert (gone(), called) == (None, [True])


def test_the_type_can_be_named_with_the_arguments_of_its_function():
    assert roamlet.tasklet[int, str].__args__ == (int, str)
