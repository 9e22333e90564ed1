"""Several threads that do everything to each other's tasklets at random: nothing crashes, hangs or is left behind."""

import ctypes
import random
import signal
import sys
import threading

import pytest

import roamlet
from roamlet import core
from tests.core._scripts import output_of
from tests.core._threads import in_thread

STORM = """
    import faulthandler, gc, random, sys, threading, roamlet
    from roamlet import core
    faulthandler.dump_traceback_later({limit}, exit=True)
    sys.setswitchinterval(1e-5)
    sys.unraisablehook = lambda _: None
    channels = [roamlet.channel(size) for size in (0, 0, 1, 3)]
    everybody, waiters, stop = [], [], threading.Event()

    class Storm(Exception):
        pass

    def nested(depth, function):
        return function() if depth == 0 else next(map(lambda _: nested(depth - 1, function), (1,)))

    def body(seed, steps):
        generator = random.Random(seed)
        for _ in range(steps):
            try:
                nested(generator.choice([0, 0, 0, 2, 9]), lambda: act(generator))
            except (RuntimeError, Storm, roamlet.ChannelClosed, TimeoutError, ValueError, IndexError):
                continue

    def act(generator):
        call, channel = generator.randrange(20), generator.choice(channels)
        if call < 3:
            channel.send(generator.random())
        elif call < 6:
            channel.receive()
        elif call == 6:
            next(channel, None)
        elif call == 7:
            roamlet.sleep(generator.random() / 1000)
        elif call == 8:
            waiters.append(core.Waiter())
            waiters[-1].wait(generator.random() / 100)
        elif call == 9:
            waiters.pop(generator.randrange(len(waiters))).succeed(1)
        elif call == 10:
            generator.choice(everybody).kill(pending=generator.random() < 0.5)
        elif call == 11:
            generator.choice(everybody).throw(Storm, pending=generator.random() < 0.5)
        elif call == 12:
            tasklet = generator.choice(everybody)
            frame, names = tasklet.frame, []
            while frame is not None:
                names.append(frame.f_code.co_name)
                frame = frame.f_back
            repr(tasklet), tasklet.next, tasklet.prev
        elif call == 13:
            generator.choice(everybody).run()
        elif call == 14:
            generator.choice(everybody).insert()
        elif call == 15:
            generator.choice(everybody).remove()
        elif call == 16 and not stop.is_set():
            everybody[generator.randrange(len(everybody))] = roamlet.tasklet(body)(generator.random(), 30)
        elif call == 17:
            generator.choice([channel.close, channel.open])()
        elif call == 18:
            channel.preference = generator.choice([-1, 0, 1])
            channel.schedule_all = generator.random() < 0.2
        else:
            roamlet.schedule()

    def thread(seed, rounds):
        generator = random.Random(seed)
        everybody.extend(roamlet.tasklet(body)(generator.random(), 100) for _ in range(10))
        for _ in range(rounds):
            try:
                act(generator)
                roamlet.sleep(0)
            except (RuntimeError, Storm, roamlet.ChannelClosed, TimeoutError, ValueError, IndexError):
                continue
            except roamlet.TaskletExit:
                continue

    def wave(seed):
        threads = [threading.Thread(target=thread, args=(seed * 10 + number, {rounds})) for number in range(3)]
        for one in threads:
            one.start()
        # Main keeps the others from waiting for ever, and ends what does.
        while any(one.is_alive() for one in threads):
            roamlet.sleep(0.002)
            for channel in channels:
                try:
                    channel.queue.kill(pending=True)
                except (AttributeError, RuntimeError, Storm):
                    continue
        everybody.clear()

    for seed in range({first}, {first} + {waves}):
        wave(seed)
    stop.set()
    core.end_thread()
    gc.collect()
    print(roamlet.getruncount(), len(core.started()), [channel.balance for channel in channels])
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_a_storm_of_threads(seed):
    printed = output_of(STORM.format(limit=50, rounds=100, first=seed * 1000, waves=5), env={"PYTHONMALLOC": "debug"})
    assert printed == "1 0 [0, 0, 0, 0]"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_a_longer_storm_of_threads(seed):
    script = STORM.format(limit=280, rounds=300, first=100_000 + seed * 1000, waves=30)
    assert output_of(script, timeout=300) == "1 0 [0, 0, 0, 0]"


# ---- main and its threads at unusual depths of the C stack ----


def nested(depth, function):
    return function() if depth == 0 else next(map(lambda _: nested(depth - 1, function), (1,)))


def test_main_switches_at_every_depth_while_tasklets_do_too():
    log = []

    def function(number):
        for depth in (0, 40, 3, 80, 0):
            nested(depth, roamlet.schedule)
        log.append(number)

    for number in range(20):
        roamlet.tasklet(function)(number)
    for depth in (0, 100, 1, 50, 0, 100, 0, 30, 100, 5, 0, 0):
        nested(depth, roamlet.schedule)
    roamlet.run()
    assert log == list(range(20))


@pytest.mark.parametrize("depth", [0, 1, 20, 150])
def test_a_scheduler_made_deep_in_a_thread_serves_when_the_thread_is_shallow_again(depth):
    def body():
        log = []

        def function(number):
            nested(number % 30, roamlet.schedule)
            log.append(number)

        def first_use():
            roamlet.tasklet(function)(0)
            roamlet.schedule()

        nested(depth, first_use)
        for number in range(1, 50):
            roamlet.tasklet(function)(number)
        for down in (0, 200, 10, 0):
            nested(down, roamlet.schedule)
        roamlet.run()
        return sorted(log)

    assert in_thread(body) == list(range(50))


def test_sorting_in_c_with_a_python_callback_that_switches():
    libc = ctypes.CDLL(None)
    compare_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    results = []

    def compare(left, right):
        roamlet.schedule()
        return left[0] - right[0]

    def function(seed):
        generator = random.Random(seed)
        values = [generator.randrange(1000) for _ in range(50)]
        array = (ctypes.c_int * 50)(*values)
        libc.qsort(array, 50, ctypes.sizeof(ctypes.c_int), compare_type(compare))
        results.append(list(array) == sorted(values))

    for seed in range(5):
        roamlet.tasklet(function)(seed)
    roamlet.run()
    assert results == [True] * 5


# ---- signal handlers while a tasklet runs ----


def test_a_signal_handler_that_interrupts_a_running_tasklet_may_switch():
    log = []

    def handler(*_):
        log.append("handler")
        roamlet.schedule()
        log.append("handler goes on")

    before = signal.signal(signal.SIGUSR1, handler)
    try:

        def function():
            signal.raise_signal(signal.SIGUSR1)
            log.append("interrupted")

        roamlet.tasklet(function)()
        roamlet.tasklet(log.append)("other")
        roamlet.run()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert log == ["handler", "other", "handler goes on", "interrupted"]


def test_a_signal_handler_may_kill_the_tasklet_that_it_interrupts():
    log = []
    before = signal.signal(signal.SIGUSR1, lambda *_: roamlet.getcurrent().kill())
    try:

        def function():
            try:
                signal.raise_signal(signal.SIGUSR1)
                log.append("never")
            finally:
                log.append("finally")

        roamlet.tasklet(function)()
        roamlet.run()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert log == ["finally"]


def test_settings_of_the_interpreter_are_as_before():
    assert sys.getswitchinterval() > 1e-4
    assert threading.active_count() >= 1
    assert core.started() == []
