"""The cyclic collector ends tasklets that nothing can wake, and leaves alone all that something can.

The greenlet backend does not see frames: what hangs from them stays alive there, and can be killed as ever.
"""

import contextlib
import contextvars
import gc
import threading
import weakref

import pytest

import roamlet
from roamlet import core
from tests.core._collecting import (
    GREENLET_SEES_SOME,
    SEES_FRAMES,
    collect_or_kill_and_run,
    ends_in,
    kill_all,
    noting,
    run,
    run_and_collect,
)
from tests.core._forms import Token
from tests.core._objects import Value, nothing, waits_with_finally
from tests.core._scripts import output_of

pytestmark = pytest.mark.usefixtures("cycles_of_local_classes_are_gone")

WAITS = {}


def wait(function):
    WAITS[function.__name__] = function
    return function


@wait
def receiving():
    roamlet.channel().receive()


@wait
def receiving_on_a_local():
    channel = roamlet.channel()
    channel.receive()


@wait
def sending():
    roamlet.channel().send(Value())


@wait
def sending_an_instance_of_a_subclass():
    Channel().send(Value())


@wait
def iterating():
    for _ in roamlet.channel():
        pass


@wait
def iterating_in_a_comprehension():
    return [(value,) for value in roamlet.channel()]


@wait
def waiting():
    core.Waiter().wait()


@wait
def waiting_with_arguments():
    waiter = core.Waiter()
    waiter.wait(None, daemon=True)


@wait
def pausing():
    me = roamlet.getcurrent()
    roamlet.schedule_remove()
    return me


@wait
def pausing_for_another():
    me = roamlet.getcurrent()
    roamlet.tasklet(nothing, ()).switch()
    return me


@wait
def deep_down():
    def down(depth, channel):
        return down(depth - 1, [channel]) if depth else channel.receive()

    channel = roamlet.channel()
    kept = [channel]

    def receive(depth):
        return channel.receive() if depth == 0 else receive(depth - 1)

    receive(20)
    return kept


@wait
def with_operands_below():
    channel = roamlet.channel()
    return [Token(1), [channel, (channel, {"key": Token(2), "other": channel.receive()})]]


@wait
def in_a_generator():
    def values(channel):
        while True:
            yield channel.receive()

    for _ in values(roamlet.channel()):
        pass


@wait
def in_a_delegating_generator():
    def values(channel):
        yield channel.receive()

    def outer(channel):
        yield from values(channel)

    for _ in outer(roamlet.channel()):
        pass


@wait
def beside_a_suspended_generator():
    def values(channel):
        yield channel
        yield channel

    channel = roamlet.channel()
    generator = values(channel)
    next(generator)
    channel.receive()


@wait
def in_a_coroutine():
    async def coroutine(channel):
        return channel.receive()

    coroutine(roamlet.channel()).send(None)


@wait
def in_an_except_block():
    channel = roamlet.channel()
    try:
        raise LookupError(channel)
    except LookupError:
        channel.receive()


@wait
def in_a_finally_block():
    channel = roamlet.channel()
    try:
        nothing()
    finally:
        channel.receive()


@wait
def in_a_closure():
    def function():
        return channel.receive()

    channel = roamlet.channel()
    return function()


@wait
def inside_with():
    channel = roamlet.channel()
    with contextlib.suppress(LookupError), contextlib.nullcontext(channel) as same:
        same.receive()


@wait
def under_context_run():
    channel = roamlet.channel()
    contextvars.copy_context().run(channel.send, 1)


@wait
def unbound_method():
    roamlet.channel.send(roamlet.channel(), Value())


class Channel(roamlet.channel):
    pass


class Tasklet(roamlet.tasklet):
    pass


@pytest.mark.parametrize("times", [1, 30])
@pytest.mark.parametrize("kind", [roamlet.tasklet, Tasklet])
@pytest.mark.parametrize("name", WAITS)
def test_a_tasklet_that_nothing_can_wake_is_ended(name, kind, times):
    log = []

    def tasklet():
        with noting(log):
            WAITS[name]()

    for _ in range(times):
        kind(tasklet)()
        run()
    gc.collect()
    ends_in(log)
    assert len(log) == 2 * times


def test_a_tasklet_without_frames_is_ended_on_every_backend():
    channel = roamlet.channel()
    ends = weakref.ref(roamlet.tasklet(channel.receive)())
    roamlet.run()
    del channel
    gc.collect()
    assert ends() is None
    assert core.started() == []


@pytest.mark.parametrize("count", [2, 3, 50])
def test_a_ring_of_tasklets_and_channels_is_ended(count):
    log = []

    def member(own, following):
        with noting(log):
            own.receive()
            following.send(None)

    channels = [roamlet.channel() for _ in range(count)]
    for own, following in zip(channels, channels[1:] + channels[:1], strict=True):
        roamlet.tasklet(member)(own, following)
    del channels, own, following
    run_and_collect()
    ends_in(log)
    assert len(log) == 2 * count


def test_one_that_is_reachable_keeps_the_whole_ring():
    log = []

    def member(own, following):
        with noting(log):
            own.receive()
            following.send(None)

    channels = [roamlet.channel() for _ in range(5)]
    for own, following in zip(channels, channels[1:] + channels[:1], strict=True):
        roamlet.tasklet(member)(own, following)
    one = channels[2]
    del channels, own, following
    run_and_collect()
    assert log == [] and len(core.started()) == 5
    one.send(None)
    roamlet.run()
    assert log == ["went on", "finally"] * 4
    kill_all()


def test_values_in_transit_and_locals_are_freed_and_weak_references_told():
    told = []

    def sender(value):
        local = Value()
        for thing in (value, local):
            references.append(weakref.ref(thing, lambda _: told.append("gone")))
        roamlet.channel().send(value)

    references = []
    tasklet = roamlet.tasklet(sender)(Value())
    references.append(weakref.ref(tasklet, lambda _: told.append("tasklet gone")))
    del tasklet
    run_and_collect()
    if not SEES_FRAMES:
        assert told == []
        kill_all()
    assert sorted(told) == ["gone", "gone", "tasklet gone"]
    assert [reference() for reference in references] == [None] * 3


def test_finally_blocks_may_use_channels_and_start_tasklets():
    results, log = roamlet.channel(), []

    def tasklet():
        try:
            roamlet.channel().receive()
        finally:
            roamlet.tasklet(log.append)("started")
            results.send("sent")
            log.append("finally")

    roamlet.tasklet(tasklet)()
    run_and_collect()
    if not SEES_FRAMES:
        core.started()[0].kill()
    assert log == []
    assert results.receive() == "sent"
    roamlet.run()
    assert sorted(log) == ["finally", "started"]


def test_an_error_in_a_finally_block_reaches_main():
    def tasklet():
        try:
            roamlet.channel().receive()
        finally:
            raise LookupError("from the finally block")

    roamlet.tasklet(tasklet)()
    roamlet.run()
    with pytest.raises(LookupError, match="from the finally block"):
        collect_or_kill_and_run()


def test_garbage_that_refers_to_an_ended_tasklet_is_freed():
    class Holder:
        pass

    def tasklet(holder):
        roamlet.channel().receive()

    holder = Holder()
    holder.self = holder
    holder.tasklet = roamlet.tasklet(tasklet)(holder)
    gone = weakref.ref(holder)
    roamlet.run()
    del holder
    for _ in range(2):
        gc.collect()
    assert (gone() is None) == SEES_FRAMES
    kill_all()
    gc.collect()
    assert gone() is None


def test_a_tasklet_of_another_thread_is_ended_there():
    log, ready, go_on = [], threading.Event(), threading.Event()

    def tasklet():
        try:
            roamlet.channel().receive()
        finally:
            log.append(threading.get_ident())

    def thread():
        roamlet.tasklet(tasklet)()
        roamlet.schedule()
        ready.set()
        go_on.wait()
        roamlet.schedule()
        log.append("still there" if core.started() else "ended")
        kill_all()

    other = threading.Thread(target=thread)
    other.start()
    ready.wait()
    gc.collect()
    assert log == []
    go_on.set()
    other.join()
    found, left = [other.ident, "ended"], ["still there", other.ident]
    assert log == (found if SEES_FRAMES else left) or (GREENLET_SEES_SOME and log == found)


def test_a_thread_that_sleeps_is_woken_to_end_its_tasklet():
    log, home, ready = [], roamlet.channel(), threading.Event()

    def tasklet():
        with noting(log):
            roamlet.channel().receive()
        home.send("never")

    def thread():
        roamlet.tasklet(tasklet)()
        roamlet.schedule()
        ready.set()
        home.receive()
        kill_all()

    other = threading.Thread(target=thread)
    other.start()
    ready.wait()
    gc.collect()
    home.send("go home")
    other.join()
    assert log == ["TaskletExit", "finally"]


def test_a_thread_without_a_scheduler_gets_none_by_collecting():
    log, collected, end = [], threading.Event(), threading.Event()

    def collects():
        gc.collect()
        collected.set()
        end.wait()

    roamlet.tasklet(lambda: waits_with_finally(log, lambda: roamlet.channel().receive()))()
    roamlet.run()
    other = threading.Thread(target=collects)
    other.start()
    collected.wait()
    try:
        with pytest.raises(ValueError, match="has not used roamlet yet"):
            roamlet.tasklet(nothing).bind_thread(other.ident)
    finally:
        end.set()
        other.join()
    roamlet.run()
    ends_in(log)


# ---- inside collections ----


def test_a_collection_inside_a_tasklet_ends_others():
    log = []

    def collects():
        local = Token(1)
        gc.collect()
        log.append("collected")
        assert local.check() == 1

    for _ in range(20):
        roamlet.tasklet(lambda: waits_with_finally([], lambda: roamlet.channel().receive()))()
    roamlet.tasklet(collects)()
    roamlet.run()
    assert log == ["collected"]
    assert (core.started() == []) == SEES_FRAMES
    kill_all()


def test_a_tasklet_whose_last_reference_goes_in_a_collection_inside_a_tasklet_ends_after_it():
    log = []

    def tasklet():
        try:
            roamlet.schedule_remove()
        finally:
            log.append(
                gc.collect(0)
            )  # not inside the collection: that would do nothing and could not be seen from here
            log.extend([Token(n) for n in range(100)])

    def collects():
        for _ in range(50):
            holder = Value()
            holder.self, holder.tasklet = holder, roamlet.tasklet(tasklet)()
            roamlet.schedule()
            gc.collect(2)  # the tasklet is old now, what refers to it is not
            other = Value()
            other.self, other.tasklet = other, holder.tasklet
            del holder.tasklet, holder, other
            gc.collect(0)
            roamlet.schedule()

    roamlet.tasklet(collects)()
    roamlet.run()
    assert len(log) == 50 * 101
    assert all(token.whole for token in log if isinstance(token, Token))


def test_what_is_thrown_into_the_collecting_tasklet_meanwhile_is_raised_when_it_switches():
    log = []

    def tasklet(victim):
        try:
            roamlet.channel().receive()
        finally:
            victim.kill(pending=True)

    def collects():
        roamlet.tasklet(tasklet)(roamlet.getcurrent())
        roamlet.schedule()
        gc.collect()
        if not SEES_FRAMES:
            core.started()[-1].kill()
        log.append("went on")
        roamlet.schedule()
        log.append("not reached")

    roamlet.tasklet(collects)()
    roamlet.run()
    assert log == (["went on"] if SEES_FRAMES else [])  # kill() itself switches
    kill_all()


def test_while_atomic_nobody_else_runs_in_a_collection():
    log = []
    roamlet.tasklet(lambda: waits_with_finally(log, lambda: roamlet.channel().receive()))()
    roamlet.run()
    with roamlet.atomic():
        gc.collect()
        assert log == []
    roamlet.run()
    ends_in(log)


def test_a_storm_with_the_collector_at_its_busiest():
    before = gc.get_threshold()
    gc.set_threshold(5, 2, 2)
    gc.enable()
    ended, received = [], []
    try:
        for number in range(2000):
            channel = roamlet.channel()

            def tasklet(number=number, channel=channel):
                token = Token(number)
                try:
                    channel.receive()
                    received.append(token.check())
                finally:
                    ended.append(token.check())

            roamlet.tasklet(tasklet)()
            roamlet.schedule()
            if number % 3 == 0:
                channel.send(None)
        del channel, tasklet
    finally:
        gc.disable()
        gc.set_threshold(*before)
    run_and_collect()
    if not SEES_FRAMES:
        kill_all()
    assert received == list(range(0, 2000, 3))
    assert sorted(ended) == list(range(2000))


def test_debug_flags_and_freezing():
    log = []
    roamlet.tasklet(lambda: waits_with_finally(log, lambda: roamlet.channel().receive()))()
    roamlet.run()
    gc.freeze()
    gc.collect()
    assert log == []  # what is frozen is never collected
    gc.unfreeze()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    gc.freeze()
    ends_in(log)


def test_shutdown_with_tasklets_that_nothing_can_wake():
    printed = output_of(
        """
        import gc, sys, roamlet
        def tasklet(number):
            try:
                roamlet.channel().receive()
            finally:
                print(number)
        for number in range(3):
            roamlet.tasklet(tasklet)(number)
        roamlet.run()
        """
    )
    assert printed.split() == ["0", "1", "2"]


def test_shutdown_while_tasklets_refuse_to_end():
    printed = output_of(
        """
        import gc, roamlet
        def tasklet():
            while True:
                try:
                    roamlet.channel().receive()
                except roamlet.TaskletExit:
                    pass
        for number in range(3):
            roamlet.tasklet(tasklet)()
        roamlet.run()
        for _ in range(3):
            gc.collect()
        print("end")
        """
    )
    assert printed == "end"
