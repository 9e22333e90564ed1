"""Waits inside atomic code: roamlet's own calls give it up, and for others there is a message that names the two threads."""

import signal
import sys
import threading
import warnings

import pytest

import roamlet
from roamlet import core
from roamlet.sync import Condition, Lock
from tests.core._scripts import output_of
from tests.core._threads import in_thread


class Held:
    """A thread that holds `lock`, and then has to be in atomic code for a moment before it lets go."""

    def __init__(self, lock):
        self.lock, self.holds, self.goes_on = lock, threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.hold)

    def hold(self):
        with self.lock:
            self.holds.set()
            self.goes_on.wait()
            with roamlet.atomic():
                pass

    def __enter__(self):
        self.thread.start()
        self.holds.wait()

    def __exit__(self, *exc):
        self.goes_on.set()
        self.thread.join()


def test_a_lock_of_roamlets_is_waited_for_outside_of_atomic_code():
    lock = Lock()
    held = Held(lock)
    with held, roamlet.atomic(), roamlet.atomic():
        held.goes_on.set()
        with lock:
            assert roamlet.getcurrent().atomic
    assert not roamlet.getcurrent().atomic


@pytest.mark.parametrize("take", [lambda condition: condition.acquire(), lambda condition: condition.__enter__()])
def test_a_condition_takes_a_lock_of_the_standard_librarys_outside_of_atomic_code(take):
    condition = Condition(threading.Lock())
    held = Held(condition)
    with held, roamlet.atomic():
        held.goes_on.set()
        take(condition)
        assert roamlet.getcurrent().atomic
        condition.release()


def test_a_condition_takes_such_a_lock_back_outside_of_atomic_code():
    condition, waits = Condition(threading.Lock()), threading.Event()

    def notifies():
        waits.wait()
        with condition:
            condition.notify()
            with roamlet.atomic():
                pass

    thread = threading.Thread(target=notifies)
    thread.start()
    with roamlet.atomic(), condition:
        waits.set()
        condition.wait()
        assert roamlet.getcurrent().atomic
    thread.join()


def test_a_signal_handler_in_atomic_code_waits_for_a_lock_outside_of_it():
    printed = output_of("""
        import signal, threading, roamlet
        from roamlet.sync import Lock
        lock, holds, interrupted, channel = Lock(), threading.Event(), threading.Event(), roamlet.channel()
        def holder():
            with lock:
                holds.set()
                interrupted.wait()
                with roamlet.atomic():
                    pass
            channel.send("woken")
        def handler(number, frame):
            with roamlet.atomic():
                interrupted.set()
                with lock:
                    print("handler has the lock")
        signal.signal(signal.SIGALRM, handler)
        thread = threading.Thread(target=holder)
        thread.start()
        holds.wait()
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        print(channel.receive())
        thread.join()
        """, timeout=30)  # fmt: skip
    assert printed.splitlines() == ["handler has the lock", "woken"]


def test_outside_atomic_lets_another_thread_in_and_comes_back_as_deep():
    me = roamlet.getcurrent()

    def other():
        with roamlet.atomic():
            return "has been in"

    with roamlet.atomic(), roamlet.atomic():
        assert core.outside_atomic(in_thread, (other,)) == "has been in"
        assert core.outside_atomic(lambda **words: (words, me.atomic), (), {"a": 1}) == ({"a": 1}, False)
        assert me.atomic
        with pytest.raises(LookupError):
            core.outside_atomic({}.__getitem__, ("missing",))
        assert me.atomic
    assert not me.atomic
    assert core.outside_atomic(int) == 0
    with pytest.raises(TypeError, match="kwargs is a dict or None"):
        core.outside_atomic(int, (), ["a"])


def test_an_exception_passes_the_wait_for_atomic_after_a_call_outside_of_it():
    go, before = threading.Event(), sys.getswitchinterval()
    inside = threading.Event()

    def other():
        with roamlet.atomic():
            inside.set()
            go.wait()

    def fails():
        thread.start()
        inside.wait()
        sys.setswitchinterval(100)  # the other thread goes on when this one waits for atomic
        go.set()
        raise LookupError("passed on")

    thread = threading.Thread(target=other)
    try:
        with roamlet.atomic():
            with pytest.raises(LookupError, match="passed on"):
                core.outside_atomic(fails)
            assert roamlet.getcurrent().atomic
    finally:
        sys.setswitchinterval(before)
        thread.join()


def test_after_a_call_outside_of_atomic_a_switch_gives_atomic_up_as_before():
    log = []

    def enters():
        with roamlet.atomic():
            log.append("in atomic code")

    with roamlet.atomic():
        core.outside_atomic(int)
        roamlet.tasklet(enters)()
        roamlet.schedule()
        assert log == ["in atomic code"]


def test_a_tasklet_that_switches_outside_atomic_comes_back_to_it():
    channel, log = roamlet.channel(), []

    def waits():
        with roamlet.atomic():
            log.append(core.outside_atomic(channel.receive))
            log.append(roamlet.getcurrent().atomic)

    roamlet.tasklet(waits)()
    roamlet.run()
    channel.send("value")
    roamlet.run()
    assert log == ["value", True]


def test_with_roamlet_threads_the_standard_librarys_locks_and_joins_give_it_up():
    """Thread A holds a lock and wants to be atomic; B is atomic, wants the lock, and joins A."""
    printed = output_of("""
        import threading
        import roamlet, roamlet.threads
        roamlet.threads.install()
        for lock in (threading.Lock(), threading.RLock(), threading.Condition(), threading.Semaphore()):
            holds, goes_on = threading.Event(), threading.Event()
            def a():
                with lock:
                    holds.set()
                    goes_on.wait()
                    with roamlet.atomic():
                        pass
            thread = threading.Thread(target=a)
            thread.start()
            holds.wait()
            with roamlet.atomic():
                goes_on.set()
                with lock:
                    pass
                thread.join()
                assert roamlet.getcurrent().atomic
            begun = threading.Event()
            thread = threading.Thread(target=lambda: (begun.wait(), roamlet.atomic().__enter__(), roamlet.atomic().__exit__()))
            thread.start()
            with roamlet.atomic():
                begun.set()
                thread.join()
        roamlet.threads.uninstall()
        print(threading.Thread.join.__module__, threading.Thread.join.__code__.co_filename == threading.__file__)
        """, timeout=30)  # fmt: skip
    assert printed == "threading True"


def test_a_cycle_of_which_both_waits_are_seen_is_raised_with_both_places():
    """B is atomic and joins A, by a join that gives nothing up; A wants to be atomic."""
    errors, begun = [], threading.Event()

    def wants_atomic():
        begun.wait()
        try:
            with roamlet.atomic():
                errors.append("got it")
        except roamlet.Deadlock as error:
            errors.append(str(error))

    thread = threading.Thread(target=wants_atomic)
    thread.start()
    with roamlet.atomic():
        begun.set()
        thread.join()
    assert len(errors) == 1
    assert f"this thread waits for roamlet.atomic(), in wants_atomic at {__file__}:" in errors[0]
    assert "waits for this thread to end, in " in errors[0]
    assert "threading.py:" in errors[0]


def test_an_owner_that_joins_a_third_thread_is_no_cycle():
    """B is atomic and joins C; A wants to be atomic, and is only told so."""
    told, ends = threading.Event(), threading.Event()

    def wants_atomic():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(RuntimeWarning, match="for more than a second"):
                roamlet.atomic().__enter__()
        told.set()
        ends.set()

    third, thread = threading.Thread(target=ends.wait), threading.Thread(target=wants_atomic)
    third.start()
    with roamlet.atomic():
        thread.start()
        third.join(20)
        ends.set()
    thread.join()
    third.join()
    assert told.is_set()


def test_a_lock_that_roamlet_does_not_see_is_reported_with_the_owners_line():
    lock, holds, warned = threading.Lock(), threading.Event(), []

    def holder():
        with lock:
            holds.set()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                begun.wait()
                with roamlet.atomic():
                    pass
            warned.extend(str(one.message) for one in caught)

    begun = threading.Event()
    thread = threading.Thread(target=holder)
    thread.start()
    holds.wait()
    with roamlet.atomic():
        begun.set()
        assert not lock.acquire(timeout=1.5)
    thread.join()
    assert len(warned) == 1
    assert "is in it, in test_a_lock_that_roamlet_does_not_see_is_reported_with_the_owners_line at " in warned[0]
    assert "roamlet.core.outside_atomic()" in warned[0]


def test_inside_atomic_calls_and_leaves_again_whatever_the_function_does():
    me = roamlet.getcurrent()
    assert core.inside_atomic(lambda *args: (args, me.atomic), 1, 2) == ((1, 2), True)
    with pytest.raises(KeyError, match="missing"):
        core.inside_atomic({}.__getitem__, "missing")
    assert not me.atomic
    assert core.inside_atomic(core.inside_atomic, lambda: me.atomic) is True
    with roamlet.atomic():
        assert core.inside_atomic(int) == 0
        assert me.atomic
    with pytest.raises(RuntimeError, match="is not atomic"):
        core.inside_atomic(roamlet.atomic().__exit__)
    assert not me.atomic
    with pytest.raises(TypeError, match="takes a function"):
        core.inside_atomic()
    with pytest.raises(TypeError, match="not callable"):
        core.inside_atomic(1)


class Interrupted(BaseException):
    pass


def test_a_signal_handler_that_raises_at_any_moment_leaves_nothing_atomic_after_inside_atomic():
    """In `with` it can on CPython 3.14: between __enter__ and the body no exception leads to __exit__."""

    def handler(*_):
        raise Interrupted

    me = roamlet.getcurrent()
    interrupted = 0
    before = signal.signal(signal.SIGALRM, handler)
    try:
        for number in range(2000):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + number % 60))
                for _ in range(300):
                    core.inside_atomic(int)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                interrupted += 1
            assert not me.atomic
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 100
