"""What a collection calls must not switch its own tasklet away; nothing else is refused because a collection is under way."""

import gc
import threading

import pytest

import roamlet
from roamlet import core
from tests.core._scripts import output_of
from tests.core._threads import in_thread

REFUSED = "this call would switch tasklets inside a collection"


class Dying:
    """Garbage at once; calls a function when it is collected."""

    def __init__(self, function):
        self.function, self.me = function, self

    def __del__(self):
        self.function()


def in_a_tasklet(function, *args):
    """Run `function` in a tasklet until nothing is runnable; return what it returned."""
    results = []
    roamlet.tasklet(lambda: results.append(function(*args)))()
    roamlet.run()
    return results[0]


def tries_to_wait(log, channel):
    """Wait on the channel; note what came of it."""
    try:
        log.append(channel.receive())
    except RuntimeError as error:
        log.append(str(error).partition(" (")[0])


class Collecting:
    """A thread that is inside a collection until `leave` is set; `thread` has ended after the block."""

    def __enter__(self):
        self.leave, inside = threading.Event(), threading.Event()

        def waits():
            inside.set()
            self.leave.wait()

        def collects():
            Dying(waits)
            gc.collect()

        self.thread = threading.Thread(target=collects)
        self.thread.start()
        inside.wait()
        return self

    def __exit__(self, *exc):
        self.leave.set()
        self.thread.join()


@pytest.mark.parametrize("other", ["threading.Thread(target=stop.wait).start()", "roamlet.call_async(int)"])
def test_a_collection_with_finalizers_that_switch_goes_well_beside_another_thread(other):
    """They are not switched; before, another tasklet's frees went into a list of the collector that had been moved away."""
    printed = output_of(f"""
        import gc, threading, roamlet
        stop, taken, going = threading.Event(), [], True
        {other}
        class Dying:
            def __init__(self):
                self.me = self
            def __del__(self):
                roamlet.schedule()
                taken.append(self)
        def frees():
            while going:
                while taken:
                    dying = taken.pop(0)  # held: CPython 3.13 reads freed memory where clear() frees what has the dict
                    dying.__dict__.clear()
                roamlet.schedule()
        def collects():
            global going
            for _ in range(100):
                for _ in range(6):
                    Dying()
                gc.collect()
                roamlet.schedule()
            going = False
        for function in (collects, frees, frees):
            roamlet.tasklet(function)()
        roamlet.run()
        stop.set()
        print("done")
    """)
    assert printed == "done"


def test_beside_another_thread_too_the_collecting_tasklet_must_not_wait():
    log, channel, stop = [], roamlet.channel(), threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()

    def collects():
        Dying(lambda: tries_to_wait(log, channel))
        gc.collect()

    in_a_tasklet(collects)
    stop.set()
    thread.join()
    assert log == [REFUSED]


def test_another_tasklet_may_wait_while_main_is_inside_a_collection():
    """Main's stack stays where it is, so main may switch inside its collection; the others are not inside it."""
    log, channel, waits = [], roamlet.channel(), roamlet.channel()

    def other():
        tries_to_wait(log, channel)
        log.append("goes on")
        waits.send(None)

    roamlet.tasklet(other)()
    Dying(lambda: (roamlet.schedule(), channel.send("value"), waits.receive()))
    gc.collect()
    roamlet.run()
    assert log == ["value", "goes on"]


def test_a_tasklet_may_wait_while_another_thread_is_inside_a_collection():
    log, channel = [], roamlet.channel()
    with Collecting():
        roamlet.tasklet(tries_to_wait)(log, channel)
        roamlet.schedule()
        assert channel.balance == -1
        channel.send("value")
        roamlet.run()
    assert log == ["value"]


def test_a_tasklet_that_loses_its_last_reference_while_another_thread_collects_ends_at_once():
    log = []

    def waits():
        try:
            roamlet.schedule_remove()
        finally:
            log.append("ended")

    with Collecting():
        tasklet = roamlet.tasklet(waits)()
        roamlet.schedule()
        del tasklet
        assert log == ["ended"]


def test_what_a_collection_in_another_thread_calls_may_wait_in_the_main_tasklet_of_that_thread():
    channel, log = roamlet.channel(), []

    def collects():
        Dying(lambda: tries_to_wait(log, channel))
        gc.collect()

    thread = threading.Thread(target=collects)
    roamlet.tasklet(thread.start)()
    roamlet.tasklet(channel.send)("value")
    roamlet.run(threadblock=True)
    thread.join()
    assert log == ["value"]


@pytest.mark.parametrize("budget", [{"timeout": 97, "ignore_nesting": True}, {"slice": 0.001}])
def test_no_interrupt_inside_a_collection(budget):
    """Not after 97 opcodes, nor when the slice is over, whatever the backend and wherever C code lies in between."""
    log, going = [], [True]

    def counts():
        log.append("begins")
        for _ in range(20_000):
            pass
        log.append("ends")

    def collects():
        roamlet.getcurrent().set_ignore_nesting(True)
        Dying(counts)
        gc.collect()
        going.clear()

    def other():
        while going:
            log.append("other")
            roamlet.schedule()

    roamlet.tasklet(collects)()
    roamlet.tasklet(other)()
    while going:
        interrupted = roamlet.run(**budget)
        if interrupted is not None:
            interrupted.insert()
    roamlet.run()
    begins = log.index("begins")
    assert log[begins + 1] == "ends"


def test_an_interrupt_after_the_collection_is_taken_and_refuses_nobody():
    log, channel, done = [], roamlet.channel(), []

    def collects():
        Dying(lambda: [None for _ in range(1000)])
        gc.collect()
        done.append(True)

    roamlet.tasklet(collects)()
    roamlet.tasklet(tries_to_wait)(log, channel)
    while not done:
        interrupted = roamlet.run(97, ignore_nesting=True)
        if interrupted is not None:
            interrupted.insert()
    channel.send("value")
    roamlet.run()
    assert log == ["value"]


def test_a_program_that_empties_the_list_of_callbacks_is_refused_once():
    log, callbacks = [], list(gc.callbacks)

    def collects():
        Dying(lambda: tries_to_wait(log, roamlet.channel()))
        gc.collect()

    gc.callbacks.clear()
    try:
        in_a_tasklet(collects)
        in_a_tasklet(collects)
        assert log == [REFUSED, REFUSED]
        assert gc.callbacks == callbacks
    finally:
        gc.callbacks[:] = callbacks
    channel = roamlet.channel()
    with Collecting():
        roamlet.tasklet(tries_to_wait)(log, channel)
        roamlet.schedule()
        channel.send("value")
        roamlet.run()
    assert log[-1] == "value"


def test_an_exception_on_its_way_passes_the_callback_that_is_put_back():
    """A tasklet loses its last reference inside a collection, and the list has been emptied."""
    log, callbacks = [], list(gc.callbacks)

    def suspended():
        tasklet = roamlet.tasklet(roamlet.schedule_remove)()
        roamlet.schedule()
        return tasklet

    def fails():
        gc.callbacks.clear()
        raise KeyError

    def dies():
        with pytest.raises(KeyError):
            [suspended(), fails()]  # the tasklet goes while the exception is on its way
        log.append("passed")

    try:
        Dying(dies)
        gc.collect()
        assert gc.callbacks == callbacks
    finally:
        gc.callbacks[:] = callbacks
    roamlet.run()
    assert log == ["passed"]


def test_a_tasklet_that_a_collection_ends_may_wait_though_it_empties_the_list_of_callbacks():
    log, channel, callbacks = [], roamlet.channel(), list(gc.callbacks)

    def waits(own):
        try:
            own.receive()
        finally:
            gc.callbacks.clear()
            tries_to_wait(log, channel)

    def collects():
        roamlet.tasklet(waits)(roamlet.channel())
        roamlet.schedule()
        gc.collect()
        for tasklet in core.started():  # on greenlet it is not found
            if tasklet is not roamlet.getcurrent() and channel.balance == 0:
                tasklet.kill()

    try:
        in_a_tasklet(collects)
    finally:
        gc.callbacks[:] = callbacks
    channel.send("value")
    roamlet.run()
    assert log == ["value"]


def test_callbacks_of_the_programs_own_may_wait_before_and_after_the_collection_and_not_inside():
    """Those before ours in the list are called before it has begun, those after ours when it is over."""
    log, channel = [], roamlet.channel()

    def callback(where):
        return lambda phase, info: tries_to_wait(log, channel) if going else None

    callbacks, going = list(gc.callbacks), [True]
    gc.callbacks.insert(0, callback("first"))
    gc.callbacks.append(callback("last"))
    try:
        roamlet.tasklet(gc.collect)()
        roamlet.run(hub=False)
        for _ in range(4):
            if channel.balance:
                channel.send("value")
                roamlet.run(hub=False)
    finally:
        going.clear()
        gc.callbacks[:] = callbacks
    assert log == ["value", REFUSED, REFUSED, "value"]


def test_a_thread_that_never_used_roamlet_may_use_it_first_inside_a_collection():
    def collects():
        log = []
        Dying(lambda: (roamlet.tasklet(log.append)("ran"), roamlet.schedule()))
        gc.collect()
        roamlet.run()
        return log

    assert in_thread(collects) == ["ran"]


@pytest.mark.backends("native", reason="greenlet refuses every call while the interpreter ends")
def test_a_program_ends_with_blocked_tasklets_and_cycles_whose_finalizers_switch():
    printed = output_of("""
        import gc, sys, threading, roamlet
        roamlet.call_async(int)
        class Dying:
            def __init__(self):
                self.me, self.frame = self, sys._getframe(1)
            def __del__(self):
                roamlet.schedule()
        def waits(depth):
            dying = Dying()
            if depth:
                waits(depth - 1)
            roamlet.channel().receive()
        for _ in range(20):
            roamlet.tasklet(waits)(4)
        roamlet.schedule()
        kept = [Dying() for _ in range(50)]
        print("ends")
    """)
    assert printed == "ends"


def test_a_collection_that_was_due_when_another_begins_does_not_end_it():
    """CPython 3.12 ran it inside the other one, in the first finalizer, and then took none for under way."""
    printed = output_of("""
        import gc, roamlet
        class Dying:
            def __init__(self):
                self.me = self
            def __del__(self):
                try:
                    print(channel.receive())
                except RuntimeError as error:
                    print(str(error).partition(" (")[0])
        channel = roamlet.channel()
        def collects(collect=gc.collect):
            Dying()
            gc.set_threshold(1000)
            return [*zip(range(20_000))], collect()  # no instruction between the two lets a due collection run
        roamlet.tasklet(collects)()
        roamlet.schedule()
        if channel.balance < 0:
            channel.send("value")
    """)
    assert printed == REFUSED


def test_a_program_ends_with_finalizers_that_are_due_to_collect():
    """On CPython 3.12 it did not end: a collection inside one of the process's last ones damaged that one's lists."""
    printed = output_of("""
        import gc, roamlet
        gc.set_threshold(50, 5, 5)
        class Due:
            def __del__(self, count=500):
                [*zip(range(count))]
        class Dying:
            def __init__(self, before):
                self.me, self.before = self, before
            def __del__(self):
                self.others = [[self.before] for _ in (None,) * 100]
                for _ in self.others:
                    pass
        def kept():
            pass
        last = None
        for _ in range(200):
            last = Dying(last)
        kept.last, kept.me = last, kept
        due = Due()
        print("ends")
    """)
    assert printed == "ends"
