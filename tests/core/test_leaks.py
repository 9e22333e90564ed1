"""Each scenario, run many times with the collector off, leaves no object, block of memory or reference behind."""

import contextvars
import gc
import os
import sys
import threading

import pytest

import weft
from tests.core._objects import Value
from weft import core

SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


@scenario
def start_and_finish():
    weft.tasklet(lambda *args, **kwargs: Value())(Value(), key=Value())
    weft.run()


@scenario
def selects():
    one, other = weft.channel(), weft.channel()
    for end in (lambda tasklet: one.send(Value()), lambda tasklet: other.receive(), weft.tasklet.kill):
        waiting = weft.tasklet(lambda: weft.select(one, (other, Value())))()
        weft.schedule()
        end(waiting)
        weft.run()
    weft.select(one, (other, Value()), default=Value())


@scenario
def messages():
    channel = weft.channel()
    weft.tasklet(lambda: [channel.receive() for _ in range(3)])()
    for _ in range(3):
        channel.send(Value())
    weft.run()


@scenario
def messages_the_other_way():
    channel = weft.channel()
    channel.preference = 1
    weft.tasklet(channel.send_sequence)([Value(), Value()])
    channel.receive()
    channel.receive()
    weft.run()


@scenario
def iteration_and_close():
    channel = weft.channel()
    weft.tasklet(lambda: list(channel))()
    weft.run()
    channel.send(Value())
    channel.close()
    weft.run()


@scenario
def killed_while_blocked():
    channel = weft.channel()
    tasklets = [weft.tasklet(channel.receive)(), weft.tasklet(weft.sleep)(60), weft.tasklet(core.Waiter().wait)(60)]
    weft.schedule()
    for tasklet in tasklets:
        tasklet.kill()
    sender = weft.tasklet(channel.send)(Value())
    weft.schedule()
    sender.kill()


@scenario
def killed_before_it_ran():
    for pending in (False, True):
        tasklet = weft.tasklet(Value)(Value())
        tasklet.kill(pending=pending)
        weft.run()


@scenario
def last_reference():
    tasklet = weft.tasklet(weft.schedule_remove)()
    weft.run()
    del tasklet
    weft.tasklet(weft.schedule_remove, (Value(),), {"retval": Value()})


@scenario
def bound_again_and_unbound():
    tasklet = weft.tasklet(Value, (Value(),), {"a": Value()})
    tasklet.bind(Value, (Value(),), {"b": Value()})
    tasklet.bind(Value)
    tasklet.bind(None)


@scenario
def errors_in_main():
    def fails():
        raise ValueError(Value())

    weft.tasklet(fails)()
    try:
        weft.run()
    except ValueError:
        pass


@scenario
def errors_sent_and_thrown():
    channel = weft.channel()

    def receives():
        for _ in range(4):
            try:
                channel.receive()
            except ValueError:
                pass

    tasklet = weft.tasklet(receives)()
    weft.run()
    channel.send_exception(ValueError, Value())
    channel.send_throw(ValueError, Value(), None)
    tasklet.throw(ValueError, Value())
    tasklet.throw(ValueError(Value()), pending=True)
    weft.run()


@scenario
def refused_calls():
    channel = weft.channel()
    for call in (
        lambda: channel.send_exception(5),
        lambda: weft.tasklet(5),
        lambda: weft.tasklet().setup(1),
        lambda: weft.tasklet(Value, 5),
        lambda: weft.sleep("x"),
        lambda: core.Waiter().fail(5),
        lambda: core.Waiter().wait(-1),
        lambda: weft.getcurrent().throw(5),
        lambda: weft.schedule(1, 2),
        lambda: setattr(channel, "preference", "7"),
        lambda: core.set_clock(1, 2),
    ):
        try:
            call()
        except (TypeError, ValueError, RuntimeError):
            continue
        raise AssertionError("not refused")


@scenario
def deadlock():
    try:
        weft.channel().receive()
    except weft.Deadlock:
        pass


@scenario
def waiters():
    def waits(waiter, timeout):
        try:
            waiter.wait(timeout)
        except (ValueError, TimeoutError):
            pass

    for settle in ("succeed", "fail", None):
        waiter = core.Waiter()
        weft.tasklet(waits)(waiter, 0.0 if settle is None else None)
        weft.schedule()
        if settle:
            getattr(waiter, settle)(ValueError(Value()))
        weft.run()


@scenario
def contexts():
    variable = contextvars.ContextVar("variable")

    def inside():
        variable.set(Value())
        weft.tasklet(lambda: variable.set(Value()))()
        weft.tasklet(lambda: contextvars.Context().run(weft.schedule))()
        weft.tasklet(Value)().kill()
        weft.run()

    contextvars.copy_context().run(inside)


@scenario
def frames():
    tasklet = weft.tasklet(lambda: next(map(lambda _: weft.schedule_remove(), (1,))))()
    weft.run()
    frame = tasklet.frame
    assert frame.f_back is not None
    del frame
    tasklet.kill()


@scenario
def deep_and_shallow():
    def nested(depth):
        return weft.schedule() if depth == 0 else next(map(nested, (depth - 1,)))

    for depth in (30, 0, 10):
        weft.tasklet(nested)(depth)
    weft.run()
    del nested


@scenario
def subclasses():
    tasklet = SubTasklet(weft.schedule_remove)()
    tasklet.attribute = Value()
    weft.run()
    channel = SubChannel()
    channel.attribute = Value()


class SubTasklet(weft.tasklet):
    pass


class SubChannel(weft.channel):
    pass


@scenario
def a_thread_that_ends_with_tasklets():
    channel = weft.channel()

    def other():
        for _ in range(3):
            weft.tasklet(channel.receive)()
        weft.tasklet(weft.sleep)(60)
        weft.tasklet(Value, (Value(),)).insert()
        weft.schedule()

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()


@scenario
def messages_between_threads():
    channel = weft.channel()
    thread = threading.Thread(target=lambda: [channel.receive() for _ in range(5)])
    thread.start()
    for _ in range(5):
        channel.send(Value())
    thread.join()


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_leaves_nothing_behind(name):
    function = SCENARIOS[name]
    rounds = 120 if "thread" in name else 200
    growth = [grown_by(function, rounds) for _ in range(4)]
    # A leak of one object a round shows as `rounds` in every window; caches of the interpreter and of greenlet grow once.
    assert min(objects for objects, _ in growth) < rounds / 10
    assert min(blocks for _, blocks in growth) < rounds / 2


def grown_by(function, rounds):
    """How many collected objects and how many blocks of memory there are more after so many rounds."""
    gc.collect()
    for _ in range(2):
        function()  # the collection emptied the interpreter's free lists: they are filled again before anything is counted
    objects, blocks = len(gc.get_objects()), sys.getallocatedblocks()
    for _ in range(rounds):
        function()
    weft.trim()
    return len(gc.get_objects()) - objects, sys.getallocatedblocks() - blocks


@pytest.mark.parametrize(
    "name", ["start_and_finish", "killed_while_blocked", "deep_and_shallow", "contexts", "waiters"]
)
def test_resident_memory_does_not_grow(name):
    function = SCENARIOS[name]
    for _ in range(1000):
        function()
    before = resident()
    for _ in range(3000):
        function()
    assert resident() - before < 3_000_000


def test_stacks_and_chunks_of_many_tasklets_are_given_back():
    def nested(depth, channel):
        return channel.receive() if depth == 0 else next(map(lambda _: nested(depth - 1, channel), (1,)))

    def round_of(count):
        channel = weft.channel()
        for number in range(count):
            weft.tasklet(nested)(number % 20, channel)
        weft.run()
        while channel.queue is not None:
            channel.queue.kill()
        weft.trim()

    for _ in range(3):
        round_of(5000)
    before = resident()
    for _ in range(3):
        round_of(5000)
    del nested
    assert resident() - before < 20_000_000


def test_reference_counts_of_what_is_used_all_the_time_stay():
    main, none, channel = weft.getmain(), None, weft.channel()
    things = [main, weft.TaskletExit, weft.tasklet, weft.channel, channel, core.Waiter]
    for function in SCENARIOS.values():
        function()
    before = [sys.getrefcount(thing) for thing in things]
    for name, function in SCENARIOS.items():
        for _ in range(20 if "thread" not in name else 2):
            function()
    after = [sys.getrefcount(thing) for thing in things]
    assert none is None
    assert [new - old for old, new in zip(before, after, strict=True)] == [0] * len(things)


def test_an_exception_that_the_schedule_callback_handles_at_the_end_of_a_tasklet_leaves_no_reference_behind():
    def callback(previous, following):
        try:
            raise LookupError
        except LookupError:
            pass

    weft.set_schedule_callback(callback)
    try:
        before = sys.getrefcount(
            None
        )  # what CPython 3.11 leaves there when the exception was handled; immortal from 3.12 on
        for _ in range(1000):
            weft.tasklet(weft.schedule)()
            weft.run()
        assert sys.getrefcount(None) - before < 100
    finally:
        weft.set_schedule_callback(None)
