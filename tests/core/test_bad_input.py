"""Every public callable with what it does not expect, in every state of a tasklet: an exception that says why, no crash.

SystemError, which CPython raises when C code breaks its rules, is never among the expected ones.
"""

import random
import re
import sys

import pytest

import roamlet
from roamlet import core
from tests.core._scripts import output_of

ODD_OBJECTS = [
    None, True, 0, -1, 10**30, 1.5, float("nan"), "text", b"bytes", (), (1, 2), [], {}, {"a": 1}, set(), object(),
    int, ValueError, ValueError("instance"), roamlet.TaskletExit, KeyError, len, print, sys, iter(()), range(3), type, ...,
]  # fmt: skip


class Awkward:
    """Whatever is asked of it fails."""

    def __getattr__(self, name):
        raise LookupError(f"asked for {name}")

    def __call__(self, *args, **kwargs):
        raise LookupError("called")

    def __iter__(self):
        raise LookupError("iterated")

    def __index__(self):
        raise LookupError("index")

    def __float__(self):
        raise LookupError("float")

    def __bool__(self):
        raise LookupError("bool")

    def __repr__(self):
        raise LookupError("repr")

    def __eq__(self, other):
        raise LookupError("eq")

    def __hash__(self):
        raise LookupError("hash")


STATES = ["unbound", "bound", "paused new", "scheduled new", "paused", "scheduled", "receiving", "sending", "asleep",
          "waiting", "dead", "current"]  # fmt: skip


def tasklet_in(state):
    """A tasklet in this state; what it needs to be ended stays with it."""
    channel = roamlet.channel()
    made = {
        "unbound": roamlet.tasklet,
        "bound": lambda: roamlet.tasklet(int),
        "paused new": lambda: roamlet.tasklet(int, ()),
        "scheduled new": lambda: roamlet.tasklet(int)(),
        "paused": lambda: roamlet.tasklet(roamlet.schedule_remove)(),
        "scheduled": lambda: roamlet.tasklet(roamlet.schedule)(),
        "receiving": lambda: roamlet.tasklet(channel.receive)(),
        "sending": lambda: roamlet.tasklet(channel.send)(1),
        "asleep": lambda: roamlet.tasklet(roamlet.sleep)(60),
        "waiting": lambda: roamlet.tasklet(core.Waiter().wait)(),
        "dead": lambda: roamlet.tasklet(int)(),
        "current": roamlet.getcurrent,
    }[state]()
    if state in ("paused", "scheduled", "receiving", "sending", "asleep", "waiting", "dead"):
        roamlet.schedule()
    return made


METHODS = [
    "__call__",
    "__init__",
    "bind",
    "setup",
    "insert",
    "remove",
    "run",
    "switch",
    "kill",
    "raise_exception",
    "throw",
]
READ_ONLY = ["frame", "alive", "blocked", "scheduled", "paused", "is_main", "is_current", "thread_id", "next", "prev"]
EXPECTED = (
    TypeError,
    ValueError,
    RuntimeError,
    LookupError,
    SystemExit,
    OverflowError,
    ArithmeticError,
    AttributeError,
)


def argument_lists(generator):
    yield ()
    for _ in range(14):
        chosen = [generator.choice([*ODD_OBJECTS, Awkward()]) for _ in range(generator.randint(1, 4))]
        # An instance that is raised again and again keeps the traceback of each time.
        yield tuple(ValueError("instance") if isinstance(thing, ValueError) else thing for thing in chosen)


def end(tasklet):
    """Whatever state it is in, end it; errors under way come to main and are expected here."""
    for _ in range(20):
        if not tasklet.alive or tasklet.is_main:
            break
        try:
            tasklet.kill()
        except EXPECTED:
            continue
    while roamlet.getruncount() > 1:
        try:
            roamlet.schedule()
        except EXPECTED:
            continue


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("state", STATES)
def test_odd_arguments_to_a_method_in_a_state(state, method, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    generator = random.Random(f"{state} {method}")
    for arguments in argument_lists(generator):
        tasklet = tasklet_in(state)
        try:
            getattr(tasklet, method)(*arguments)
        except EXPECTED:
            pass
        for keyword in ("pending", "nonsense", "func"):
            try:
                getattr(tasklet, method)(**{keyword: generator.choice(ODD_OBJECTS)})
            except EXPECTED:
                continue
        end(tasklet)
    assert roamlet.getruncount() == 1
    assert core.started() == []


@pytest.mark.parametrize("state", STATES)
def test_every_attribute_can_be_read_and_none_written(state):
    tasklet = tasklet_in(state)
    for name in READ_ONLY:
        getattr(tasklet, name)
        with pytest.raises(AttributeError):
            setattr(tasklet, name, None)
        with pytest.raises(AttributeError):
            delattr(tasklet, name)
    assert isinstance(tasklet, roamlet.tasklet)
    assert re.fullmatch(r"<roamlet\.tasklet .*, .*, at 0x[0-9a-f]+>", repr(tasklet))
    with pytest.raises(AttributeError):
        tasklet.something_new = 1
    end(tasklet)


FUNCTIONS = {
    "schedule": roamlet.schedule,
    "schedule_remove": roamlet.schedule_remove,
    "run": roamlet.run,
    "getcurrent": roamlet.getcurrent,
    "getmain": roamlet.getmain,
    "getruncount": roamlet.getruncount,
    "sleep": roamlet.sleep,
    "trim": roamlet.trim,
    "started": core.started,
    "set_clock": core.set_clock,
    "install_hub": lambda *args: core.install_hub(*args[:1]),
    "Waiter": core.Waiter,
    "Waiter.wait": lambda *args: core.Waiter().wait(0, *args),
    "Waiter.wait timeout": lambda *args: core.Waiter().wait(*args[:1]) if args and args[0] is not None else None,
    "Waiter.succeed": lambda *args: core.Waiter().succeed(*args),
    "Waiter.fail": lambda *args: core.Waiter().fail(*args),
    "tasklet": roamlet.tasklet,
    "channel": roamlet.channel,
    "channel.send_exception": lambda *args: roamlet.channel().send_exception(*args),
    "channel.send_throw": lambda *args: roamlet.channel().send_throw(*args),
    "channel.send_sequence": lambda *args: roamlet.channel().send_sequence(*args),
    "channel.send": lambda *args: roamlet.channel().send(*args),
    "channel.receive": lambda *args: roamlet.channel().receive(*args),
    "channel.close": lambda *args: roamlet.channel().close(*args),
    "preference": lambda *args: setattr(roamlet.channel(), "preference", args[0]) if args else None,
    "schedule_all": lambda *args: setattr(roamlet.channel(), "schedule_all", args[0]) if args else None,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_odd_arguments_to_a_function(name, clock):
    def advance(seconds):
        clock.now += seconds

    generator = random.Random(name)
    for arguments in argument_lists(generator):
        try:
            FUNCTIONS[name](*arguments)
        except (*EXPECTED, TimeoutError, roamlet.Deadlock):
            pass
        core.set_clock(lambda: clock.now, advance)  # `set_clock` is one of the functions
    assert roamlet.getruncount() == 1


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: roamlet.channel().send(), "exactly one argument"),
        (lambda: roamlet.channel().send(1, 2), "exactly one argument"),
        (lambda: roamlet.channel().receive(1), "takes no arguments"),
        (lambda: roamlet.channel().send_sequence(5), "not iterable"),
        (
            lambda: roamlet.getcurrent().raise_exception(),
            "takes at least 1 argument: an exception class and its arguments",
        ),
        (lambda: roamlet.getcurrent().kill(nonsense=1), "nonsense"),
        (lambda: roamlet.tasklet(int, nonsense=1), "nonsense"),
        (lambda: roamlet.getruncount(1), "takes no arguments"),
        (lambda: roamlet.sleep(), "exactly one argument"),
        (lambda: core.install_hub(5, -1), "poll is a callable that takes a time-out, or None, not 5"),
        (lambda: core.install_hub(None, "x"), "str"),
        (lambda: roamlet.Deadlock + 1, "unsupported operand"),
    ],
)
def test_type_errors_say_what_is_wrong(call, text):
    with pytest.raises(TypeError, match=text):
        call()


def test_uninitialised_objects_are_harmless():
    bare = roamlet.tasklet.__new__(roamlet.tasklet)
    assert not bare.alive and "without function" in repr(bare)
    for call in (bare.run, bare.insert, bare.switch, bare.setup, bare):
        with pytest.raises(RuntimeError):
            call()
    bare.kill()
    channel = roamlet.channel.__new__(roamlet.channel)
    roamlet.tasklet(channel.send)(1)
    assert channel.receive() == 1
    roamlet.run()


def test_main_survives_what_tasklets_do_to_it():
    main, log = roamlet.getmain(), []

    def function():
        for name in ("remove", "bind", "setup", "insert", "insert", "remove", "run"):
            try:
                getattr(main, name)()
                log.append(name)
            except RuntimeError:
                log.append("refused")

    roamlet.tasklet(function)()
    roamlet.run()
    log.append("main runs")
    roamlet.schedule()
    assert log == ["remove", "refused", "refused", "insert", "insert", "remove", "main runs", "run"]
    assert roamlet.getcurrent() is main and roamlet.getruncount() == 1


def test_a_hub_whose_poll_misbehaves_raises_in_main():
    printed = output_of("""
        import os, roamlet
        from roamlet import core
        calls = []
        def poll(timeout):
            calls.append(timeout)
            if len(calls) == 1:
                raise LookupError("broken poll")
            if len(calls) == 2:
                roamlet.schedule()
            if len(calls) == 3:
                core.install_hub(None, -1)
            if len(calls) == 4:
                waiter.succeed("woken by poll")
        waiter = core.Waiter()
        core.install_hub(poll, os.eventfd(0))
        for _ in range(3):
            try:
                core.Waiter().wait()
            except (LookupError, RuntimeError) as error:
                print(type(error).__name__, str(error)[:45])
        print(waiter.wait())
        core.install_hub(None, -1)
    """)
    assert printed.splitlines() == [
        "LookupError broken poll",
        "RuntimeError this call would block, and it was made where ",
        "RuntimeError install_hub() was called while the hub polls",
        "woken by poll",
    ]
