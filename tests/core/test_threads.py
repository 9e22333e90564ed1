"""Tasklets and threads: each thread has its own queue, channels join them, a thread's tasklets end with it."""

import ctypes
import gc
import os
import sys
import threading
import weakref

import pytest

import roamlet
from roamlet import core
from tests.core._scripts import output_of
from tests.core._threads import in_thread


@pytest.fixture
def often_switching():
    """Threads take turns as often as the interpreter allows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_each_thread_has_a_main_tasklet_and_a_queue_of_its_own():
    def other():
        main = roamlet.getmain()
        tasklet = roamlet.tasklet(int)()
        counted = roamlet.getruncount()
        roamlet.run()
        return main is roamlet.getcurrent(), main.thread_id, counted, tasklet.alive

    roamlet.tasklet(int)()
    is_current, thread_id, count, alive = in_thread(other)
    assert (is_current, count, alive) == (True, 2, False)
    assert thread_id != threading.get_ident()
    assert roamlet.getruncount() == 2
    roamlet.run()


def test_what_happens_when_partners_live_in_different_threads():
    """No switch happens: the one that waited becomes runnable in its own thread, whatever the preference."""
    channel, log, ready = roamlet.channel(), [], threading.Event()

    def other():
        def receiver():
            log.append(("received", channel.receive(), threading.get_ident() == ident))

        ident = threading.get_ident()
        roamlet.tasklet(receiver)()
        roamlet.schedule()
        ready.set()
        roamlet.sleep(0)
        while not log:
            roamlet.sleep(0.001)

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait()
    assert channel.queue.thread_id == thread.ident
    channel.send("value")
    thread.join()
    assert log == [("received", "value", True)]


@pytest.mark.parametrize("preference", [-1, 0, 1])
def test_values_pass_between_threads_in_order_and_none_is_lost(preference, often_switching):
    channel, count = roamlet.channel(), 5000
    channel.preference = preference
    received = []

    def consumer():
        received.extend(channel.receive() for _ in range(count))

    thread = threading.Thread(target=consumer)
    thread.start()
    for number in range(count):
        channel.send(number)
    thread.join()
    assert received == list(range(count))


def test_a_hundred_thousand_messages_between_tasklets_of_four_threads(often_switching):
    channel, received, each = roamlet.channel(), [], 25_000
    channel.preference = 0

    def produce(first):
        def producer(start):
            for number in range(start, start + each // 5):
                channel.send(number)

        for part in range(5):
            roamlet.tasklet(producer)(first + part * (each // 5))
        roamlet.run()
        while any(tasklet.alive for tasklet in core.started()):
            roamlet.sleep(0.001)

    def consume():
        mine = []

        def consumer():
            for number in channel:
                mine.append(number)

        for _ in range(5):
            roamlet.tasklet(consumer)()
        while core.started() or roamlet.getruncount() > 1:
            roamlet.sleep(0.001)
        received.append(mine)

    producers = [threading.Thread(target=produce, args=(index * each,)) for index in range(4)]
    consumers = [threading.Thread(target=consume) for _ in range(2)]
    for thread in producers + consumers:
        thread.start()
    for thread in producers:
        thread.join()
    while channel.balance > 0:
        roamlet.sleep(0.001)
    channel.close()
    for thread in consumers:
        thread.join()
    everything = sorted(number for mine in received for number in mine)
    assert everything == list(range(4 * each))


def test_iteration_ends_in_every_thread_when_the_channel_is_closed():
    channel, started = roamlet.channel(), threading.Barrier(4)

    def other():
        started.wait()
        return list(channel)

    results = []
    threads = [threading.Thread(target=lambda: results.append(other())) for _ in range(3)]
    for thread in threads:
        thread.start()
    started.wait()
    while channel.balance != -3:
        roamlet.sleep(0.001)
    channel.send_sequence("abc")
    while channel.balance != -3:
        roamlet.sleep(0.001)
    channel.close()
    for thread in threads:
        thread.join()
    assert sorted(value for result in results for value in result) == ["a", "b", "c"]


@pytest.mark.parametrize("how", ["insert", "run"])
def test_a_paused_tasklet_is_made_runnable_in_its_own_thread(how):
    made, log, ready = [], [], threading.Event()

    def other():
        made.append(roamlet.tasklet(lambda: log.append(threading.get_ident()), ()))
        ready.set()
        while not log:
            roamlet.sleep(0.001)

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait()
    getattr(made[0], how)()
    thread.join()
    assert log == [thread.ident]


def test_switch_to_another_threads_tasklet_is_refused():
    made, ready, end = [], threading.Event(), threading.Event()

    def other():
        made.append(roamlet.tasklet(int, ()))
        ready.set()
        end.wait()

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait()
    with pytest.raises(RuntimeError, match=r"can't switch to a different thread: insert\(\) makes"):
        made[0].switch()
    end.set()
    thread.join()


def test_kill_of_another_threads_tasklet_takes_effect_there():
    made, log, ready = [], [], threading.Event()

    def other():
        def victim():
            try:
                roamlet.channel().receive()
            except roamlet.TaskletExit:
                log.append(threading.get_ident())
                raise

        made.append(roamlet.tasklet(victim)())
        roamlet.schedule()
        ready.set()
        while made[0].alive:
            roamlet.sleep(0.001)

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait()
    made[0].kill()
    thread.join()
    assert log == [thread.ident]


@pytest.mark.parametrize("operation", ["receive", "send", "sleep", "wait", "schedule"])
def test_an_error_from_another_thread_hits_a_running_tasklet_where_it_would_switch_next(operation):
    """It once stayed in the tasklet while that waited, and whoever met it there took it for a value."""
    channel, log, ready, go = roamlet.channel(), [], threading.Event(), threading.Event()
    calls = {
        "receive": channel.receive,
        "send": lambda: channel.send("mine"),
        "sleep": lambda: roamlet.sleep(60),
        "wait": core.Waiter().wait,
        "schedule": roamlet.schedule,
    }
    made = []

    def body():
        ready.set()
        go.wait()
        try:
            calls[operation]()
        except LookupError as error:
            log.append(str(error))

    def other():
        made.append(roamlet.tasklet(body)())
        while made[0].alive:
            roamlet.sleep(0.001)

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait()
    made[0].throw(LookupError, "from outside")
    go.set()
    thread.join()
    assert (log, channel.balance) == (["from outside"], 0)


def test_an_error_can_be_thrown_into_the_main_tasklet_of_a_sleeping_thread():
    mains, caught, ready = [], [], threading.Event()

    def other():
        mains.append(roamlet.getmain())
        ready.set()
        try:
            roamlet.channel().receive()
        except LookupError as error:
            caught.append(str(error))

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait()
    while not mains[0].blocked:
        roamlet.sleep(0.001)
    mains[0].throw(LookupError, "wake up")
    thread.join()
    assert caught == ["wake up"]


def test_the_last_reference_to_a_suspended_tasklet_may_go_in_another_thread():
    made, log, ready = [], [], threading.Event()

    def other():
        def function():
            try:
                roamlet.schedule_remove()
            finally:
                log.append(threading.get_ident())

        made.append(roamlet.tasklet(function)())
        roamlet.schedule()
        ready.set()
        while not log:
            roamlet.sleep(0.001)

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait()
    made.clear()
    thread.join()
    assert log == [thread.ident]


def test_frames_of_another_threads_tasklets_can_be_read():
    made, ready, channel = [], threading.Event(), roamlet.channel()

    def waits_there():
        return channel.receive()

    def other():
        made.append(roamlet.tasklet(waits_there)())
        made.append(roamlet.getmain())
        roamlet.schedule()
        ready.set()
        while made[0].alive:
            roamlet.sleep(0.001)

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait()
    assert made[0].frame.f_code is waits_there.__code__
    assert made[1].frame is not None
    channel.send(None)
    thread.join()


# ---- the end of a thread ----


def test_tasklets_of_a_thread_that_ends_run_their_finally_blocks_the_oldest_first():
    log, made = [], []

    def other():
        channel = roamlet.channel()

        def function(name, block):
            try:
                block()
            finally:
                log.append((name, threading.get_ident()))

        blocks = [
            channel.receive,
            lambda: roamlet.sleep(60),
            core.Waiter().wait,
            roamlet.schedule_remove,
            roamlet.schedule,
        ]
        made.extend(roamlet.tasklet(function)(number, block) for number, block in enumerate(blocks))
        roamlet.schedule()
        made.append(roamlet.tasklet(log.append, ("never inserted",)))
        made.append(roamlet.tasklet(log.append)("not yet started"))
        return threading.get_ident()

    ident = in_thread(other)
    assert log == [(number, ident) for number in range(5)]
    made.remove(made[5])
    assert not any(tasklet.alive for tasklet in made)


def test_channels_outlive_the_threads_of_those_who_waited_in_them():
    channel = roamlet.channel()

    def other():
        for _ in range(10):
            roamlet.tasklet(channel.receive)()
        roamlet.run()
        assert channel.balance == -10

    in_thread(other)
    assert (channel.balance, channel.queue) == (0, None)
    roamlet.tasklet(channel.send)(1)
    assert channel.receive() == 1
    roamlet.run()


def test_many_threads_that_end_with_live_tasklets_leave_nothing():
    gone, ended = [], []

    class Value:
        pass

    def other():
        channel = roamlet.channel()

        def function(value):
            try:
                channel.receive()
            finally:
                ended.append(1)

        for _ in range(20):
            value = Value()
            gone.append(weakref.ref(value))
            roamlet.tasklet(function)(value)
        roamlet.run()

    for _ in range(20):
        in_thread(other)
    gc.collect()
    assert len(ended) == 400
    assert [ref() for ref in gone] == [None] * 400


def test_what_is_left_of_a_threads_tasklets_says_so():
    made = []

    def other():
        made.append(roamlet.tasklet(int, ()))
        made.append(roamlet.tasklet(roamlet.schedule_remove)())
        made.append(roamlet.getmain())
        roamlet.run()

    in_thread(other)
    for tasklet in made:
        assert tasklet.thread_id == -1
        assert repr(tasklet)
        tasklet.kill()
    assert not made[1].alive and not made[2].alive
    made[0].bind(int)
    for call in (made[0].insert, made[0].run, made[0], lambda: made[0].bind(int, ()), made[1].insert):
        with pytest.raises(RuntimeError):
            call()
    made[0].remove()
    made[0].bind_thread()
    assert made[0].setup().thread_id == threading.get_ident()
    roamlet.run()


def test_a_tasklet_is_not_alive_without_its_thread_and_again_in_another_one():
    ran = []
    made = in_thread(lambda: roamlet.tasklet(ran.append, ("here",)))
    assert not made.alive and not made.paused
    made.bind_thread()
    assert made.alive and made.paused
    made.run()
    assert ran == ["here"]


def test_run_lets_a_tasklet_of_another_thread_be_the_next_there():
    order, made, ready, go_on = [], roamlet.channel(), threading.Event(), threading.Event()

    def other():
        tasklets = [roamlet.tasklet(order.append, (name,)) for name in "abc"]
        made.send(tasklets)
        tasklets[0].insert()
        ready.set()
        go_on.wait()
        roamlet.run()

    thread = threading.Thread(target=other)
    thread.start()
    _, second, third = made.receive()
    ready.wait()
    second.insert()
    third.run()
    third.run()
    go_on.set()
    thread.join()
    assert order == ["c", "a", "b"]


def test_run_of_several_tasklets_of_a_thread_that_sleeps_lets_the_last_be_the_first():
    order, made, end = [], roamlet.channel(), roamlet.channel()

    def other():
        made.send([roamlet.tasklet(order.append, (name,)) for name in "abc"])
        end.receive()
        roamlet.run()

    thread = threading.Thread(target=other)
    thread.start()
    tasklets = made.receive()
    while end.balance == 0:
        roamlet.sleep(0.001)
    list(
        map(roamlet.tasklet.run, tasklets)
    )  # in C from the first to the last: the other thread, which wakes, gets no turn
    end.send(None)
    thread.join()
    assert order == ["c", "b", "a"]


@pytest.mark.leaves("references", reason="an abandoned tasklet keeps its frames")
def test_a_tasklet_that_refuses_to_end_does_not_hold_up_its_thread():
    log = []

    def other():
        def function():
            while True:
                try:
                    roamlet.schedule_remove()
                except roamlet.TaskletExit:
                    log.append("refused")

        kept.append(roamlet.tasklet(function)())
        roamlet.run()

    kept = []
    in_thread(other)
    assert log == ["refused"] * 10
    assert not kept[0].alive


def test_an_error_in_a_finally_block_at_the_end_of_a_thread_is_reported(monkeypatch):
    said = []
    monkeypatch.setattr(sys, "unraisablehook", lambda info: said.append(repr(info.exc_value)))

    def other():
        def function():
            try:
                roamlet.schedule_remove()
            finally:
                raise LookupError("at the end")

        kept.append(roamlet.tasklet(function)())
        roamlet.run()

    kept = []
    in_thread(other)
    assert said == ["LookupError('at the end')"]


def test_a_finally_block_that_blocks_at_the_end_of_a_thread_is_ended_too():
    log = []

    def other():
        channel = roamlet.channel()

        def function():
            try:
                roamlet.schedule_remove()
            finally:
                log.append("finally")
                channel.receive()
                log.append("never")

        kept.append(roamlet.tasklet(function)())
        roamlet.run()

    kept = []
    in_thread(other)
    assert log == ["finally"]
    assert not kept[0].alive


def test_threads_come_and_go_while_tasklets_of_another_run():
    def other():
        channel = roamlet.channel()
        tasklet = roamlet.tasklet(channel.receive)()
        roamlet.run()
        return tasklet

    left = []

    def starter():
        for _ in range(10):
            left.append(in_thread(other))
            roamlet.schedule()

    for _ in range(3):
        roamlet.tasklet(starter)()
    roamlet.run()
    assert len(left) == 30 and not any(tasklet.alive for tasklet in left)


def test_daemon_threads_with_tasklets_do_not_disturb_the_exit():
    for _ in range(3):
        printed = output_of("""
            import threading, roamlet
            ready = threading.Barrier(4)
            def other():
                channel = roamlet.channel()
                kept = [roamlet.tasklet(channel.receive)() for _ in range(20)]
                kept.append(roamlet.tasklet(roamlet.sleep)(99))
                roamlet.schedule()
                ready.wait()
                channel.receive()
            def busy():
                def loop():
                    while True:
                        roamlet.schedule()
                for _ in range(5):
                    roamlet.tasklet(loop)()
                roamlet.schedule()
                ready.wait()
                roamlet.run()
            for function in (other, other, busy):
                threading.Thread(target=function, daemon=True).start()
            ready.wait()
            print("main ends")
        """)
        assert printed == "main ends"


def test_tasklets_of_a_daemon_thread_are_not_run_again_when_the_program_ends():
    """Those of a thread that ends are: their finally blocks are executed in it."""
    printed = output_of("""
        import threading, roamlet
        ready, never = threading.Event(), threading.Event()
        def waits(name):
            try:
                roamlet.channel().receive()
            finally:
                print(f"finally of {name}", flush=True)
        def other(name, event):
            kept = roamlet.tasklet(waits)(name)
            roamlet.schedule()
            ready.set()
            event.wait()
        daemon = threading.Thread(target=other, args=("a daemon thread", never), daemon=True)
        daemon.start()
        ready.wait()
        joined = threading.Thread(target=other, args=("a thread", ready))
        joined.start()
        joined.join()
        print("main ends", flush=True)
    """)
    assert printed.splitlines() == ["finally of a thread", "main ends"]


# ---- small stacks ----


@pytest.mark.parametrize("kilobytes", [256, 512, 8192])
def test_recursion_to_its_limit_inside_tasklets_of_a_thread_with_a_small_stack(kilobytes):
    def other():
        reached = []

        def recurse(depth):
            try:
                return recurse(depth + 1)
            except RecursionError:
                return depth

        def function():
            roamlet.schedule()
            reached.append(recurse(0))
            roamlet.schedule()

        for _ in range(5):
            roamlet.tasklet(function)()
        roamlet.run()
        return reached

    reached = in_thread(other, stack_size=kilobytes * 1024)
    assert len(reached) == 5 and min(reached) > sys.getrecursionlimit() - 100


def test_open_descriptors_do_not_grow_with_threads():
    in_thread(roamlet.run)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        in_thread(lambda: roamlet.sleep(0))
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("number", [-2, 1 << 70])
def test_what_cannot_be_an_id_of_a_thread_is_refused_as_in_stackless(number):
    for call in (roamlet.tasklet(int).bind_thread, roamlet.get_thread_info):
        with pytest.raises(OverflowError, match=f"bad thread: {number} is no id of a thread"):
            call(number)


def test_minus_one_is_the_calling_thread():
    assert roamlet.get_thread_info(-1) == roamlet.get_thread_info()
    made = in_thread(lambda: roamlet.tasklet(int))
    made.bind_thread(-1)
    assert made.thread_id == threading.get_ident()


def test_a_destructor_that_runs_after_a_threads_tasklets_have_ended_gets_no_new_ones():
    said = []

    class Late:
        def __del__(self):
            for call in (roamlet.getmain, roamlet.getcurrent, lambda: roamlet.tasklet(int), roamlet.schedule):
                try:
                    said.append(call())
                except RuntimeError as error:
                    said.append(str(error))
            said.append(roamlet.channel().balance)

    def body():
        roamlet.getmain()
        of_thread = ctypes.pythonapi.PyThreadState_GetDict
        of_thread.restype = ctypes.py_object
        found = of_thread()
        ctypes.pythonapi.Py_IncRef(
            ctypes.py_object(found)
        )  # the reference that ctypes takes for its own is the thread's
        found["late"] = Late()  # goes after what the thread had first

    in_thread(body)
    assert said == ["this thread is ending, and its tasklets have ended: nothing can run in one any more"] * 4 + [0]


def test_a_main_tasklet_whose_thread_has_ended_begins_anew_in_another():
    """Nothing of its first life is gone on with, on whatever stack that was, nor looked at when it is gone."""
    printed = output_of(
        """
import gc, threading, roamlet
got = []
def under_c(depth, function):
    return next(map(lambda _: under_c(depth - 1, function), (1,))) if depth else function()
def work(depth):
    got.append(roamlet.getmain())
    roamlet.tasklet(roamlet.schedule)()
    under_c(depth, roamlet.schedule)
for depth in (0, 3, 20):
    thread = threading.Thread(target=work, args=(depth,))
    thread.start()
    thread.join()
log = []
for number, tasklet in enumerate(got):
    tasklet.bind_thread()
    if number:
        tasklet.bind(lambda: (roamlet.schedule(), log.append("ran")))
        tasklet.setup()
roamlet.run()
del tasklet
got.clear()
gc.collect()
print(log)
"""
    )
    assert printed == "['ran', 'ran']"


def test_tasklets_that_refused_to_end_with_their_thread_begin_anew_in_another():
    printed = output_of(
        """
import gc, sys, threading, roamlet
sys.unraisablehook = lambda report: None
got = []
def refuses(depth):
    if depth:
        return next(map(lambda _: refuses(depth - 1), (1,)))
    while True:
        try:
            roamlet.schedule_remove()
        except roamlet.TaskletExit:
            pass
def work(count):
    got.extend(roamlet.tasklet(refuses)(number % 3) for number in range(count))
    roamlet.schedule()
for count in (1, 400):
    thread = threading.Thread(target=work, args=(count,))
    thread.start()
    thread.join()
log = []
for _ in range(2):
    for tasklet in got:
        tasklet.bind_thread()
        tasklet.bind(log.append)
        tasklet.setup(1)
    roamlet.run()
del tasklet
got.clear()
gc.collect()
print(len(log))
"""
    )
    assert printed == "802"
