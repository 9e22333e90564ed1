"""What belongs to each tasklet alone: its contextvars context and the exception that it handles."""

import contextvars
import sys
import weakref

import roamlet
from tests.core._objects import nothing


def test_each_tasklet_runs_in_a_copy_of_its_creators_context():
    variable = contextvars.ContextVar("variable", default="none")
    log = []

    def function(name):
        log.append((name, variable.get()))
        variable.set(name)
        for _ in range(3):
            roamlet.schedule()
            log.append((name, variable.get()))

    def in_context():
        variable.set("creator's")
        for name in "ab":
            roamlet.tasklet(function)(name)
        variable.set("changed after")
        roamlet.run()
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
            roamlet.schedule()
            log.append(variable.get() == value)

    def function(value):
        contextvars.Context().run(inner, value)
        log.append(variable.get() == 0)

    for value in (1, 2, 3):
        roamlet.tasklet(function)(value)
    roamlet.run()
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
        ran = roamlet.tasklet(nothing)()
        never = roamlet.tasklet(nothing)()
        unbound = roamlet.tasklet(nothing, ())
        never.kill()
        del unbound
        roamlet.run()
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
                roamlet.schedule()
                log.append(sys.exception() is error)
            try:
                raise KeyError(name)
            except KeyError as second:
                roamlet.schedule()
                log.append(second.__context__ is error and sys.exception() is second)
            roamlet.schedule()
            log.append(sys.exception() is error)
        roamlet.schedule()
        log.append(sys.exception() is None)

    for name in range(5):
        roamlet.tasklet(function)(name)
    try:
        raise RuntimeError("main's")
    except RuntimeError as error:
        roamlet.run()
        log.append(sys.exception() is error)
    assert len(log) == 5 * 6 + 1 and all(log)


def test_an_error_thrown_into_a_tasklet_does_not_drag_along_what_the_thrower_handles():
    caught = []

    def function():
        try:
            try:
                raise ValueError("handled")
            except ValueError:
                roamlet.schedule_remove()
        except KeyError as error:
            caught.append((error.__context__, type(sys.exception())))

    tasklet = roamlet.tasklet(function)()
    roamlet.run()
    try:
        raise RuntimeError("main's own")
    except RuntimeError:
        tasklet.throw(KeyError)
    assert caught == [(None, KeyError)]
