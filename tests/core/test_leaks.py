"""Each scenario, run many times with the collector off, leaves no object, block of memory or reference behind."""

import contextvars
import gc
import os
import sys
import threading

import pytest

import roamlet
from roamlet import core
from tests.core._objects import Value
from tests.core._scripts import output_of

SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


@scenario
def start_and_finish():
    roamlet.tasklet(lambda *args, **kwargs: Value())(Value(), key=Value())
    roamlet.run()


@scenario
def selects():
    one, other = roamlet.channel(), roamlet.channel()
    for end in (lambda tasklet: one.send(Value()), lambda tasklet: other.receive(), roamlet.tasklet.kill):
        waiting = roamlet.tasklet(lambda: roamlet.select(one, (other, Value())))()
        roamlet.schedule()
        end(waiting)
        roamlet.run()
    roamlet.select(one, (other, Value()), default=Value())


@scenario
def messages():
    channel = roamlet.channel()
    roamlet.tasklet(lambda: [channel.receive() for _ in range(3)])()
    for _ in range(3):
        channel.send(Value())
    roamlet.run()


@scenario
def messages_the_other_way():
    channel = roamlet.channel()
    channel.preference = 1
    roamlet.tasklet(channel.send_sequence)([Value(), Value()])
    channel.receive()
    channel.receive()
    roamlet.run()


@scenario
def iteration_and_close():
    channel = roamlet.channel()
    roamlet.tasklet(lambda: list(channel))()
    roamlet.run()
    channel.send(Value())
    channel.close()
    roamlet.run()


@scenario
def killed_while_blocked():
    channel = roamlet.channel()
    tasklets = [
        roamlet.tasklet(channel.receive)(),
        roamlet.tasklet(roamlet.sleep)(60),
        roamlet.tasklet(core.Waiter().wait)(60),
    ]
    roamlet.schedule()
    for tasklet in tasklets:
        tasklet.kill()
    sender = roamlet.tasklet(channel.send)(Value())
    roamlet.schedule()
    sender.kill()


@scenario
def killed_before_it_ran():
    for pending in (False, True):
        tasklet = roamlet.tasklet(Value)(Value())
        tasklet.kill(pending=pending)
        roamlet.run()


@scenario
def last_reference():
    tasklet = roamlet.tasklet(roamlet.schedule_remove)()
    roamlet.run()
    del tasklet
    roamlet.tasklet(roamlet.schedule_remove, (Value(),), {"retval": Value()})


@scenario
def bound_again_and_unbound():
    tasklet = roamlet.tasklet(Value, (Value(),), {"a": Value()})
    tasklet.bind(Value, (Value(),), {"b": Value()})
    tasklet.bind(Value)
    tasklet.bind(None)


@scenario
def errors_in_main():
    def fails():
        raise ValueError(Value())

    roamlet.tasklet(fails)()
    try:
        roamlet.run()
    except ValueError:
        pass


@scenario
def errors_sent_and_thrown():
    channel = roamlet.channel()

    def receives():
        for _ in range(4):
            try:
                channel.receive()
            except ValueError:
                pass

    tasklet = roamlet.tasklet(receives)()
    roamlet.run()
    channel.send_exception(ValueError, Value())
    channel.send_throw(ValueError, Value(), None)
    tasklet.throw(ValueError, Value())
    tasklet.throw(ValueError(Value()), pending=True)
    roamlet.run()


@scenario
def refused_calls():
    channel = roamlet.channel()
    for call in (
        lambda: channel.send_exception(5),
        lambda: roamlet.tasklet(5),
        lambda: roamlet.tasklet().setup(1),
        lambda: roamlet.tasklet(Value, 5),
        lambda: roamlet.sleep("x"),
        lambda: core.Waiter().fail(5),
        lambda: core.Waiter().wait(-1),
        lambda: roamlet.getcurrent().throw(5),
        lambda: roamlet.schedule(1, 2),
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
        roamlet.channel().receive()
    except roamlet.Deadlock:
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
        roamlet.tasklet(waits)(waiter, 0.0 if settle is None else None)
        roamlet.schedule()
        if settle:
            getattr(waiter, settle)(ValueError(Value()))
        roamlet.run()


@scenario
def contexts():
    variable = contextvars.ContextVar("variable")

    def inside():
        variable.set(Value())
        roamlet.tasklet(lambda: variable.set(Value()))()
        roamlet.tasklet(lambda: contextvars.Context().run(roamlet.schedule))()
        roamlet.tasklet(Value)().kill()
        roamlet.run()

    contextvars.copy_context().run(inside)


@scenario
def frames():
    tasklet = roamlet.tasklet(lambda: next(map(lambda _: roamlet.schedule_remove(), (1,))))()
    roamlet.run()
    frame = tasklet.frame
    assert frame.f_back is not None
    del frame
    tasklet.kill()


@scenario
def deep_and_shallow():
    def nested(depth):
        return roamlet.schedule() if depth == 0 else next(map(nested, (depth - 1,)))

    for depth in (30, 0, 10):
        roamlet.tasklet(nested)(depth)
    roamlet.run()
    del nested


@scenario
def subclasses():
    tasklet = SubTasklet(roamlet.schedule_remove)()
    tasklet.attribute = Value()
    roamlet.run()
    channel = SubChannel()
    channel.attribute = Value()


class SubTasklet(roamlet.tasklet):
    pass


class SubChannel(roamlet.channel):
    pass


@scenario
def a_thread_that_ends_with_tasklets():
    channel = roamlet.channel()

    def other():
        for _ in range(3):
            roamlet.tasklet(channel.receive)()
        roamlet.tasklet(roamlet.sleep)(60)
        roamlet.tasklet(Value, (Value(),)).insert()
        roamlet.schedule()

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()


@scenario
def messages_between_threads():
    channel = roamlet.channel()
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
    roamlet.trim()
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
        channel = roamlet.channel()
        for number in range(count):
            roamlet.tasklet(nested)(number % 20, channel)
        roamlet.run()
        while channel.queue is not None:
            channel.queue.kill()
        roamlet.trim()

    for _ in range(3):
        round_of(5000)
    before = resident()
    for _ in range(3):
        round_of(5000)
    del nested
    assert resident() - before < 20_000_000


def test_reference_counts_of_what_is_used_all_the_time_stay():
    main, none, channel = roamlet.getmain(), None, roamlet.channel()
    things = [main, roamlet.TaskletExit, roamlet.tasklet, roamlet.channel, channel, core.Waiter]
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

    roamlet.set_schedule_callback(callback)
    try:
        before = sys.getrefcount(
            None
        )  # what CPython 3.11 leaves there when the exception was handled; immortal from 3.12 on
        for _ in range(1000):
            roamlet.tasklet(roamlet.schedule)()
            roamlet.run()
        assert sys.getrefcount(None) - before < 100
    finally:
        roamlet.set_schedule_callback(None)


# ---- strings that CPython's cache of attributes would keep ----

KEPT = """
import gc, sys, threading
{imports}
import roamlet
gc.disable()

def in_a_thread():
    thread = threading.Thread(target=roamlet.getcurrent)
    thread.start()
    thread.join()

def cancelled():
    with roamlet.core.CancelScope() as scope:
        scope.cancel()
        roamlet.sleep(1)

def waits():
    roamlet.schedule_remove()

def of_a_tasklet():
    tasklet = roamlet.tasklet(waits)()
    tasklet.run()
    tasklet.context_run(int)
    tasklet.frame
    tasklet.insert()
    roamlet.run()

def blocks():
    gc.collect()
    roamlet.trim()
    return sys.getallocatedblocks()

for _ in range(20):
    {does}()
before = blocks()
for _ in range(300):
    {does}()
print(blocks() - before)
"""


@pytest.mark.parametrize("does", ["in_a_thread", "cancelled", "of_a_tasklet"])
@pytest.mark.parametrize("imports", ["", "import greenlet"])
def test_names_of_attributes_are_asked_for_by_the_same_string(does, imports):
    """A new string for each is kept by CPython, hundreds of them, where other attributes could be."""
    if imports:
        pytest.importorskip("greenlet")
    kept = int(output_of(KEPT.format(does=does, imports=imports)))
    assert kept < 60
