"""The cyclic collector ends tasklets that nothing can wake, and leaves alone all that something can.

The greenlet backend does not see frames: what hangs from them stays alive there, and can be killed as ever.
"""

import collections
import contextlib
import contextvars
import functools
import gc
import random
import sys
import threading
import types
import weakref
from collections.abc import Iterable, Iterator

import pytest

import weft
from tests.core._forms import FORMS, SWALLOWING, Token, nested, random_names
from tests.core._objects import Value, nothing, waits_with_finally
from tests.core._scripts import output_of
from tests.core._threads import in_thread
from weft import core

SEES_FRAMES = core.backend != "greenlet"
# Whether greenlet shows frames by itself: some of what hangs from them is found then, and what is not can be killed.
GREENLET_SEES_SOME = not SEES_FRAMES and sys.version_info >= (3, 15)
STORES_OPERANDS = sys.version_info >= (3, 14)  # before every call, so that all of them are seen


@pytest.fixture(autouse=True)
def cycles_of_local_classes_are_gone() -> Iterator[None]:
    yield
    gc.collect()


def run() -> None:
    """Run until nobody is runnable, whoever waits."""
    weft.run(hub=False)


def run_and_collect() -> None:
    run()
    gc.collect()


def kill_all() -> None:
    for tasklet in core.started():
        tasklet.kill()


def ends_in(log: list[str]) -> None:
    """Check that a collection has ended the tasklets that write to `log`; on greenlet, that it has not and kill does."""
    if not SEES_FRAMES:
        assert GREENLET_SEES_SOME or (log == [] and len(core.started()) > 0)
        kill_all()
    assert set(log) == {"TaskletExit", "finally"}
    assert core.started() == []


@contextlib.contextmanager
def noting(log):
    try:
        yield
        log.append("went on")
    except weft.TaskletExit:
        log.append("TaskletExit")
        raise
    finally:
        log.append("finally")


def collect_or_kill_and_run() -> None:
    gc.collect()
    if not SEES_FRAMES:
        kill_all()
    weft.run()


# ---- what is collected ----

WAITS = {}


def wait(function):
    WAITS[function.__name__] = function
    return function


@wait
def receiving():
    weft.channel().receive()


@wait
def receiving_on_a_local():
    channel = weft.channel()
    channel.receive()


@wait
def sending():
    weft.channel().send(Value())


@wait
def sending_an_instance_of_a_subclass():
    Channel().send(Value())


@wait
def iterating():
    for _ in weft.channel():
        pass


@wait
def iterating_in_a_comprehension():
    return [(value,) for value in weft.channel()]


@wait
def waiting():
    core.Waiter().wait()


@wait
def waiting_with_arguments():
    waiter = core.Waiter()
    waiter.wait(None, daemon=True)


@wait
def pausing():
    me = weft.getcurrent()
    weft.schedule_remove()
    return me


@wait
def pausing_for_another():
    me = weft.getcurrent()
    weft.tasklet(nothing, ()).switch()
    return me


@wait
def deep_down():
    def down(depth, channel):
        return down(depth - 1, [channel]) if depth else channel.receive()

    channel = weft.channel()
    kept = [channel]

    def receive(depth):
        return channel.receive() if depth == 0 else receive(depth - 1)

    receive(20)
    return kept


@wait
def with_operands_below():
    channel = weft.channel()
    return [Token(1), [channel, (channel, {"key": Token(2), "other": channel.receive()})]]


@wait
def in_a_generator():
    def values(channel):
        while True:
            yield channel.receive()

    for _ in values(weft.channel()):
        pass


@wait
def in_a_delegating_generator():
    def values(channel):
        yield channel.receive()

    def outer(channel):
        yield from values(channel)

    for _ in outer(weft.channel()):
        pass


@wait
def beside_a_suspended_generator():
    def values(channel):
        yield channel
        yield channel

    channel = weft.channel()
    generator = values(channel)
    next(generator)
    channel.receive()


@wait
def in_a_coroutine():
    async def coroutine(channel):
        return channel.receive()

    coroutine(weft.channel()).send(None)


@wait
def in_an_except_block():
    channel = weft.channel()
    try:
        raise LookupError(channel)
    except LookupError:
        channel.receive()


@wait
def in_a_finally_block():
    channel = weft.channel()
    try:
        nothing()
    finally:
        channel.receive()


@wait
def in_a_closure():
    def function():
        return channel.receive()

    channel = weft.channel()
    return function()


@wait
def inside_with():
    channel = weft.channel()
    with contextlib.suppress(LookupError), contextlib.nullcontext(channel) as same:
        same.receive()


@wait
def under_context_run():
    channel = weft.channel()
    contextvars.copy_context().run(channel.send, 1)


@wait
def unbound_method():
    weft.channel.send(weft.channel(), Value())


class Channel(weft.channel):
    pass


class Tasklet(weft.tasklet):
    pass


@pytest.mark.parametrize("times", [1, 30])
@pytest.mark.parametrize("kind", [weft.tasklet, Tasklet])
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
    channel = weft.channel()
    ends = weakref.ref(weft.tasklet(channel.receive)())
    weft.run()
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

    channels = [weft.channel() for _ in range(count)]
    for own, following in zip(channels, channels[1:] + channels[:1], strict=True):
        weft.tasklet(member)(own, following)
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

    channels = [weft.channel() for _ in range(5)]
    for own, following in zip(channels, channels[1:] + channels[:1], strict=True):
        weft.tasklet(member)(own, following)
    one = channels[2]
    del channels, own, following
    run_and_collect()
    assert log == [] and len(core.started()) == 5
    one.send(None)
    weft.run()
    assert log == ["went on", "finally"] * 4
    kill_all()


def test_values_in_transit_and_locals_are_freed_and_weak_references_told():
    told = []

    def sender(value):
        local = Value()
        for thing in (value, local):
            references.append(weakref.ref(thing, lambda _: told.append("gone")))
        weft.channel().send(value)

    references = []
    tasklet = weft.tasklet(sender)(Value())
    references.append(weakref.ref(tasklet, lambda _: told.append("tasklet gone")))
    del tasklet
    run_and_collect()
    if not SEES_FRAMES:
        assert told == []
        kill_all()
    assert sorted(told) == ["gone", "gone", "tasklet gone"]
    assert [reference() for reference in references] == [None] * 3


def test_finally_blocks_may_use_channels_and_start_tasklets():
    results, log = weft.channel(), []

    def tasklet():
        try:
            weft.channel().receive()
        finally:
            weft.tasklet(log.append)("started")
            results.send("sent")
            log.append("finally")

    weft.tasklet(tasklet)()
    run_and_collect()
    if not SEES_FRAMES:
        core.started()[0].kill()
    assert log == []
    assert results.receive() == "sent"
    weft.run()
    assert sorted(log) == ["finally", "started"]


def test_an_error_in_a_finally_block_reaches_main():
    def tasklet():
        try:
            weft.channel().receive()
        finally:
            raise LookupError("from the finally block")

    weft.tasklet(tasklet)()
    weft.run()
    with pytest.raises(LookupError, match="from the finally block"):
        collect_or_kill_and_run()


def test_garbage_that_refers_to_an_ended_tasklet_is_freed():
    class Holder:
        pass

    def tasklet(holder):
        weft.channel().receive()

    holder = Holder()
    holder.self = holder
    holder.tasklet = weft.tasklet(tasklet)(holder)
    gone = weakref.ref(holder)
    weft.run()
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
            weft.channel().receive()
        finally:
            log.append(threading.get_ident())

    def thread():
        weft.tasklet(tasklet)()
        weft.schedule()
        ready.set()
        go_on.wait()
        weft.schedule()
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
    log, home, ready = [], weft.channel(), threading.Event()

    def tasklet():
        with noting(log):
            weft.channel().receive()
        home.send("never")

    def thread():
        weft.tasklet(tasklet)()
        weft.schedule()
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
    log = []
    weft.tasklet(lambda: waits_with_finally(log, lambda: weft.channel().receive()))()
    weft.run()
    in_thread(gc.collect)
    weft.run()
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
        weft.tasklet(lambda: waits_with_finally([], lambda: weft.channel().receive()))()
    weft.tasklet(collects)()
    weft.run()
    assert log == ["collected"]
    assert (core.started() == []) == SEES_FRAMES
    kill_all()


def test_a_tasklet_whose_last_reference_goes_in_a_collection_inside_a_tasklet_ends_after_it():
    log = []

    def tasklet():
        try:
            weft.schedule_remove()
        finally:
            log.append(
                gc.collect(0)
            )  # not inside the collection: that would do nothing and could not be seen from here
            log.extend([Token(n) for n in range(100)])

    def collects():
        for _ in range(50):
            holder = Value()
            holder.self, holder.tasklet = holder, weft.tasklet(tasklet)()
            weft.schedule()
            gc.collect(2)  # the tasklet is old now, what refers to it is not
            other = Value()
            other.self, other.tasklet = other, holder.tasklet
            del holder.tasklet, holder, other
            gc.collect(0)
            weft.schedule()

    weft.tasklet(collects)()
    weft.run()
    assert len(log) == 50 * 101
    assert all(token.whole for token in log if isinstance(token, Token))


def test_what_is_thrown_into_the_collecting_tasklet_meanwhile_is_raised_when_it_switches():
    log = []

    def tasklet(victim):
        try:
            weft.channel().receive()
        finally:
            victim.kill(pending=True)

    def collects():
        weft.tasklet(tasklet)(weft.getcurrent())
        weft.schedule()
        gc.collect()
        if not SEES_FRAMES:
            core.started()[-1].kill()
        log.append("went on")
        weft.schedule()
        log.append("not reached")

    weft.tasklet(collects)()
    weft.run()
    assert log == (["went on"] if SEES_FRAMES else [])  # kill() itself switches
    kill_all()


def test_the_callback_of_the_collector_is_there_for_the_collection_only():
    seen = []

    def callback(phase, info):
        seen.append((phase, len(gc.callbacks)))

    gc.callbacks.append(callback)
    try:
        weft.tasklet(lambda: waits_with_finally([], lambda: weft.channel().receive()))()
        run_and_collect()
        assert seen == [("start", 1), ("stop", 2 if SEES_FRAMES else 1)]
        assert gc.callbacks == [callback]
    finally:
        gc.callbacks.remove(callback)
    kill_all()


def test_while_atomic_nobody_else_runs_in_a_collection():
    log = []
    weft.tasklet(lambda: waits_with_finally(log, lambda: weft.channel().receive()))()
    weft.run()
    with weft.atomic():
        gc.collect()
        assert log == []
    weft.run()
    ends_in(log)


def test_a_storm_with_the_collector_at_its_busiest():
    before = gc.get_threshold()
    gc.set_threshold(5, 2, 2)
    gc.enable()
    ended, received = [], []
    try:
        for number in range(2000):
            channel = weft.channel()

            def tasklet(number=number, channel=channel):
                token = Token(number)
                try:
                    channel.receive()
                    received.append(token.check())
                finally:
                    ended.append(token.check())

            weft.tasklet(tasklet)()
            weft.schedule()
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
    weft.tasklet(lambda: waits_with_finally(log, lambda: weft.channel().receive()))()
    weft.run()
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
        import gc, sys, weft
        def tasklet(number):
            try:
                weft.channel().receive()
            finally:
                print(number)
        for number in range(3):
            weft.tasklet(tasklet)(number)
        weft.run()
        """
    )
    assert printed.split() == ["0", "1", "2"]


def test_shutdown_while_tasklets_refuse_to_end():
    printed = output_of(
        """
        import gc, weft
        def tasklet():
            while True:
                try:
                    weft.channel().receive()
                except weft.TaskletExit:
                    pass
        for number in range(3):
            weft.tasklet(tasklet)()
        weft.run()
        for _ in range(3):
            gc.collect()
        print("end")
        """
    )
    assert printed == "end"


# ---- what is not collected ----


# What C code between two frames holds is not seen: these tasklets stay. Kept as they are until they are killed.
HELD_BY_C = {}

# These are found where the operands of any call are seen.
HELD_BY_OPERANDS = {}


def held_by_c(function):
    HELD_BY_C[function.__name__] = function
    return function


def held_by_operands(function):
    HELD_BY_OPERANDS[function.__name__] = function
    return function


@held_by_c
def in_a_class_body():
    class Body:
        channel = weft.channel()
        value = channel.receive()

    return Body


@held_by_c
def under_a_call_from_c():
    channel = weft.channel()
    return list(map(lambda _: channel.receive(), (1,)))


@held_by_operands
def called_with_an_unpacked_tuple():
    weft.channel().send(*(Value(),))


@held_by_operands
def called_by_next():
    next(weft.channel())


@held_by_operands
def in_a_sequence_sent():
    weft.channel().send_sequence([Value()])


@pytest.mark.parametrize("way", [*HELD_BY_C.values(), *HELD_BY_OPERANDS.values()])
def test_a_tasklet_that_c_code_holds_stays_and_can_be_killed(way):
    log = []

    def tasklet():
        with noting(log):
            way()

    weft.tasklet(tasklet)()
    run()
    for _ in range(3):
        gc.collect()
    if way.__name__ in HELD_BY_C or not (SEES_FRAMES and STORES_OPERANDS):
        assert log == [] and len(core.started()) == 1
        kill_all()
    assert log == ["TaskletExit", "finally"] and core.started() == []
    gc.collect()


def stays(tasklet, log=()):
    """Collect, and check that the tasklet has not noticed."""
    weft.run()
    condition = repr(tasklet)
    for _ in range(2):
        gc.collect()
    assert tasklet.alive and repr(tasklet) == condition and log in ([], ())


def test_a_tasklet_whose_channel_is_known_goes_on():
    log, channel = [], weft.channel()
    token = weft.tasklet(lambda: log.append((Token(1), channel.receive())[0].check()))()
    stays(token, log)
    channel.send(None)
    assert log == [1]


def test_a_tasklet_that_is_known_goes_on_to_wait():
    log = []
    tasklet = weft.tasklet(waits_with_finally)(log, lambda: weft.channel().receive())
    stays(tasklet, log)
    tasklet.kill()
    assert log == ["TaskletExit", "finally"]


def test_a_tasklet_with_a_timer_is_woken_by_time(clock):
    log = []

    def sleeps():
        weft.sleep(10)
        log.append("slept")

    def times_out():
        try:
            core.Waiter().wait(20)
        except TimeoutError:
            log.append("timed out")

    for function in (sleeps, times_out):
        weft.tasklet(function)()
    weft.tasklet(weft.sleep)(5)
    weft.run(hub=False)
    for _ in range(2):
        gc.collect()
    assert log == [] and len(core.started()) == 3
    weft.run()
    assert log == ["slept", "timed out"]


def test_a_tasklet_in_the_run_queue_runs():
    log = []

    def runs():
        weft.schedule()
        log.append("ran")

    weft.tasklet(runs)()
    weft.schedule()
    for _ in range(2):
        gc.collect()
    weft.run()
    assert log == ["ran"]


def test_the_current_tasklet_and_those_inside_run_go_on():
    log = []

    def runs():
        weft.tasklet(collects)()
        weft.run()
        log.append("returned")

    def collects():
        local = Token(3)
        for _ in range(2):
            gc.collect()
        log.append(local.check())

    weft.tasklet(runs)()
    weft.run()
    assert log == [3, "returned"]


def test_a_tasklet_whose_waiter_somebody_will_settle_goes_on():
    log, promised = [], []

    def waits():
        waiter = core.Waiter()
        promised.append(waiter)
        log.append(waiter.wait())

    weft.tasklet(waits)()
    weft.schedule()
    for _ in range(2):
        gc.collect()
    promised.pop().succeed(4)
    weft.run()
    assert log == [4]


def test_a_thread_whose_current_tasklet_sleeps_for_all_goes_on():
    log, home, ready = [], weft.channel(), threading.Event()

    def thread():
        weft.tasklet(ready.set)()
        log.append((Token(1), home.receive())[1])

    other = threading.Thread(target=thread)
    other.start()
    ready.wait()
    for _ in range(20):
        gc.collect()
    home.send("woken")
    other.join()
    assert log == ["woken"]


def test_main_that_waits_for_a_tasklet_goes_on():
    channel = weft.channel()

    def answers():
        for _ in range(2):
            gc.collect()
        channel.send(Token(6))

    weft.tasklet(answers)()
    assert channel.receive().check() == 6
    weft.run()


class TaskletWithDel(weft.tasklet):
    def __del__(self):
        self.log.append("__del__")


def test_a_subclass_with_a_finalizer_of_its_own_is_left_alone():
    log = []

    def waits():
        local = [Token(3)]
        local.append(local)
        try:
            weft.channel().receive()
        finally:
            log.append(local[0].check())

    tasklet = TaskletWithDel(waits)
    tasklet.log = []
    tasklet()
    weft.run()
    del tasklet
    for _ in range(2):
        gc.collect()
    assert log == []
    kill_all()
    assert log == [3]


def test_one_that_refuses_to_end_keeps_all_it_has():
    log, things = [], []

    def refuses():
        local = [Token(1)]
        local.append(local)
        channel = weft.channel()
        try:
            channel.receive()
        except weft.TaskletExit:
            log.append("refused")
        things.append(weakref.ref(local[0]))
        try:
            channel.receive()
        finally:
            log.append(local[0].check())
            assert local[1] is local

    weft.tasklet(refuses)()
    run_and_collect()
    if not SEES_FRAMES:
        core.started()[0].kill()
    assert log == ["refused"]
    for _ in range(3):
        gc.collect()
    assert log == ["refused"] and things[0]().whole
    kill_all()
    assert log == ["refused", 1]
    gc.collect()


def test_a_frame_that_is_held_keeps_its_locals_but_not_its_tasklet():
    def tasklet():
        local = [Token(2)]
        local.append(local)
        weft.channel().receive()

    weft.tasklet(tasklet)()
    weft.run()
    frame = core.started()[0].frame
    run_and_collect()
    assert (core.started() == []) == SEES_FRAMES
    gc.collect()
    assert frame.f_locals["local"][0].check() == 2
    kill_all()
    del frame
    gc.collect()


def test_an_executing_generator_is_finalized_as_ever_when_its_tasklet_has_gone_on():
    log = []

    def values(channel):
        try:
            yield channel.receive()
            log.append("not reached")
        finally:
            log.append("closed")

    def tasklet(channel):
        generator = values(channel)
        log.append(next(generator))
        del generator
        log.append("dropped")

    channel = weft.channel()
    weft.tasklet(tasklet)(channel)
    run_and_collect()
    channel.send("value")
    weft.run()
    assert log == ["value", "closed", "dropped"]


def test_a_generator_that_is_older_than_the_tasklet_that_executes_it_makes_no_complaint(monkeypatch):
    log, complaints = [], []

    def values():
        try:
            yield weft.channel().receive()
        finally:
            log.append("closed")

    monkeypatch.setattr(sys, "unraisablehook", lambda problem: complaints.append(repr(problem)))
    weft.tasklet(list)(values())
    run_and_collect()
    kill_all()
    assert log == ["closed"] and complaints == []


class Dying:
    """Garbage at once; calls a function when it is collected."""

    def __init__(self, function):
        self.function, self.me = function, self

    def __del__(self):
        self.function(self)


def test_what_a_collection_calls_may_send_from_a_tasklet_and_not_block_there():
    channel, received, refused = weft.channel(), [], []

    def receives():
        for thing in channel:
            vars(thing).clear()
            received.append("one")

    def blocks(thing):
        try:
            weft.channel().receive()
        except RuntimeError as error:
            refused.append(str(error))

    def collects():
        for _ in range(50):
            for _ in range(20):
                Dying(lambda thing: channel.send(thing) if channel.balance < 0 else None)
            gc.collect()
            weft.schedule()
        if core.backend != "stacks":
            Dying(blocks)
            gc.collect()

    weft.tasklet(receives)()
    weft.tasklet(collects)()
    weft.run()
    assert len(received) >= 50
    assert all("inside a collection" in text for text in refused) and (core.backend == "stacks" or len(refused) == 1)
    channel.close()
    weft.run()


# ---- exactness ----


def _references_of_a_check() -> int:
    held = [Value()]
    for thing in held:
        return sys.getrefcount(thing)
    raise AssertionError


OWN_REFERENCES = _references_of_a_check()


def _shown(holder: object) -> Iterable[int]:
    """What `holder` shows the collector, by identity."""
    shown = [id(thing) for thing in gc.get_referents(holder)]
    # From 3.14 on, operands may be borrowed from locals. A generator shows them to everybody but the collector's count.
    if STORES_OPERANDS and isinstance(holder, types.GeneratorType | types.CoroutineType | types.AsyncGeneratorType):
        return set(shown)
    return shown


def visited_too_often(tasklets: list[weft.tasklet]) -> list[str]:
    """What the collector would be shown more often than it is owned, of all that these tasklets show it."""
    objects = gc.get_objects()
    visited = collections.Counter(identity for holder in objects for identity in _shown(holder))
    tracked = {id(thing) for thing in objects}
    seen = list({id(thing): thing for tasklet in tasklets for thing in gc.get_referents(tasklet)}.values())
    found = []
    for thing in seen:
        owned = sys.getrefcount(thing) - OWN_REFERENCES - (id(thing) in tracked)
        if visited[id(thing)] > owned:
            found.append(f"{thing!r:.100} has {owned} references and is visited {visited[id(thing)]} times")
    del objects, seen
    return found


CALLS = {
    "method": lambda channel, value: channel.send(value),
    "unbound": lambda channel, value: weft.channel.send(channel, value),
    "bound to a name": lambda channel, value: call(channel.send, value),
    "star": lambda channel, value: channel.send(*[value]),
    "partial with the channel": lambda channel, value: functools.partial(weft.channel.send, channel)(value),
    "partial with the value": lambda channel, value: functools.partial(channel.send, value)(),
    "partial of Context.run": lambda channel, value: functools.partial(contextvars.Context().run, channel.send)(value),
    "Context.run": lambda channel, value: contextvars.Context().run(channel.send, value),
    "method object": lambda channel, value: types.MethodType(weft.channel.send, channel)(value),
    "partial of a method object": lambda channel, value: functools.partial(
        types.MethodType(weft.channel.send, channel), value
    )(),
    "map": lambda channel, value: list(map(channel.send, [value])),
    "weak reference": lambda channel, value: dies(channel.send),
}


def call(function, value):
    return function(value)


def dies(callback):
    """Drop something whose weak reference calls `callback` with no Python frame in between."""
    value = Value()
    reference = weakref.ref(value, callback)
    del value
    return reference


@pytest.mark.parametrize("before", [0, 60])
@pytest.mark.parametrize("name", CALLS)
def test_no_way_to_call_shows_more_than_is_owned(name, before):
    channel, value = weft.channel(), Token(1)

    def tasklet():
        for _ in range(before + 1):
            CALLS[name](channel, value)

    tasklet = weft.tasklet(tasklet)()
    weft.run()
    for _ in range(before):
        channel.receive()
    weft.run()
    assert tasklet.blocked
    assert visited_too_often([tasklet]) == []
    gc.collect()
    channel.receive()
    weft.run()
    assert not tasklet.alive and value.check() == 1


LEAVES = {
    "receive": (lambda channel: channel.receive()),
    "next": (lambda channel: next(channel)),
    "for": (lambda channel: next(value for value, _ in zip(channel, (1,), strict=False))),
    "wait": (lambda channel: Handover(channel).wait()),
}


class Handover:
    """Wait for a Waiter that a tasklet settles with what it receives."""

    def __init__(self, channel):
        self.waiter = core.Waiter()
        weft.tasklet(lambda: self.waiter.succeed(channel.receive()))()

    def wait(self):
        return self.waiter.wait(None, daemon=True)


def trace(frame, event, argument):
    return trace


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("name", FORMS)
def test_each_form_shows_no_more_than_it_owns_and_goes_on(name, traced):
    channel, results, tracer = weft.channel(), [], sys.gettrace()

    def tasklet(leaf):
        results.append(FORMS[name](lambda: leaf(channel)))

    if traced:
        sys.settrace(trace)
    try:
        for leaf in LEAVES.values():
            weft.tasklet(tasklet)(leaf)
            run()
            assert visited_too_often(core.started()) == []
            for _ in range(2):
                gc.collect()
            while channel.balance < 0:
                channel.send(7)
                run()
            assert results == [7] and core.started() == []
            results.clear()
    finally:
        sys.settrace(tracer)


def seeds(count):
    return [pytest.param(seed, marks=[pytest.mark.soak] if seed >= 30 else []) for seed in range(count)]


@pytest.mark.parametrize("seed", seeds(1000))
def test_random_programs_go_on_after_collections(seed):
    rng = random.Random(seed)
    channels, results, expected = [], [], []

    def tasklet(number, names, leaf, channel):
        results.append((number, nested(names, lambda: leaf(channel))()))

    for number in range(20):
        channels.append(weft.channel())
        weft.tasklet(tasklet)(number, random_names(rng, 5), rng.choice(list(LEAVES.values())), channels[-1])
        expected.append((number, number + 1))
    while core.started() or weft.getruncount() > 1:
        weft.run()
        assert visited_too_often(core.started()) == []
        gc.collect(rng.randrange(3))
        waiting = [number for number, channel in enumerate(channels) if channel.balance < 0]
        for number in rng.sample(waiting, len(waiting) // 2 + 1) if waiting else ():
            channels[number].send(number + 1)
    assert sorted(results) == expected


@pytest.mark.parametrize("seed", seeds(1000))
def test_random_programs_that_nothing_can_wake_never_harm_others(seed):
    rng = random.Random(seed)
    kept, channels, ended, results = [], [], [], []

    def tasklet(number, names, channel, others):
        token = Token(number)
        try:
            results.append(nested(names, channel.receive)())
        finally:
            assert all(isinstance(other, weft.channel) for other in others)
            ended.append(token.check())

    for number in range(40):
        channel = weft.channel()
        others = rng.sample(channels, min(len(channels), rng.randrange(3)))
        channels.append(channel)
        if rng.random() < 0.3:
            kept.append((number, channel, others))
        weft.tasklet(tasklet)(number, random_names(rng, 4, SWALLOWING), channel, others)
    del channel, others, channels
    weft.run()
    for _ in range(3):
        gc.collect()
    assert not set(ended) & {number for number, _, _ in kept}
    woken = len(ended)
    for number, channel, _ in kept:
        while channel.balance < 0:  # a form may call more than once
            channel.send(number)
            weft.run()
        gc.collect()
    assert sorted(results) == [number for number, _, _ in kept]
    assert len(ended) >= woken + len(kept)
    del channel
    kept.clear()
    gc.collect()
    kill_all()
    assert sorted(ended) == list(range(40))


def test_the_locals_of_suspended_frames_are_found_as_referents():
    first, second = Value(), Value()
    channel = weft.channel()

    def inner(kept):
        channel.receive()

    def outer(kept):
        inner(second)

    tasklet = weft.tasklet(outer)(first)
    weft.run()
    found = gc.get_referents(tasklet)
    assert (first in found, second in found, tasklet in gc.get_referrers(second)) == (SEES_FRAMES,) * 3
    channel.send(None)
    assert second not in gc.get_referents(tasklet)
