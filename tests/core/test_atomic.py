"""roamlet.atomic(): exclusion between threads and between tasklets, what a switch does to it, and locks built on it."""

import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator

import pytest

import roamlet
from tests.core._scripts import output_of
from tests.core._threads import in_thread


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads take turns as often as CPython can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


class Account:
    def __init__(self) -> None:
        self.balance = 0

    def add(self, amount: int) -> None:
        """Read, think, write: what another thread does meanwhile would be lost."""
        before = self.balance
        for _ in range(3):
            pass
        self.balance = before + amount


def in_threads(count, function, *args):
    """Run `function` in `count` threads at once; raise what one of them raised."""
    errors = []

    def target():
        try:
            function(*args)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=target) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors.pop()


def test_two_threads_of_fifty_tasklets_lose_nothing(hurried):
    account = Account()

    def add_often():
        for _ in range(100):
            with roamlet.atomic():
                account.add(1)
            roamlet.schedule()

    def work():
        for _ in range(50):
            roamlet.tasklet(add_often)()
        roamlet.run()

    in_threads(2, work)
    assert account.balance == 2 * 50 * 100


def test_threads_without_tasklets_exclude_each_other(hurried):
    account = Account()

    def work():
        for _ in range(5000):
            with roamlet.atomic():
                account.add(1)

    in_threads(3, work)
    assert account.balance == 15000


def test_it_is_one_object_and_takes_no_arguments():
    assert roamlet.atomic() is roamlet.atomic()
    for wrong in (
        lambda: roamlet.atomic(1),
        lambda: roamlet.atomic(timeout=1),
        lambda: roamlet.atomic.__new__(roamlet.atomic, 1),
    ):
        with pytest.raises(TypeError, match=r"atomic\(\) takes no arguments: with roamlet\.atomic\(\)"):
            wrong()


def test_leaving_more_often_than_entering_is_an_error():
    with pytest.raises(RuntimeError, match="this tasklet is not atomic"):
        roamlet.atomic().__exit__(None, None, None)
    with roamlet.atomic():
        pass
    with pytest.raises(RuntimeError, match="this tasklet is not atomic"):
        in_thread(roamlet.atomic().__exit__, None, None, None)


def test_it_nests_and_lets_errors_pass():
    me = roamlet.getcurrent()
    with roamlet.atomic():
        with roamlet.atomic():
            assert me.atomic
        assert me.atomic
        with pytest.raises(LookupError):
            with roamlet.atomic():
                raise LookupError
        assert me.atomic
    assert not me.atomic


def test_another_tasklet_is_not_atomic_while_one_waits_in_atomic_code():
    channel, log = roamlet.channel(), []

    def waits():
        with roamlet.atomic(), roamlet.atomic():
            log.append(("waits", roamlet.getcurrent().atomic))
            channel.receive()
            log.append(("has waited", roamlet.getcurrent().atomic))
        log.append(("left", roamlet.getcurrent().atomic))

    def enters():
        log.append(("other", roamlet.getcurrent().atomic))
        with roamlet.atomic():
            log.append(("other inside", roamlet.getcurrent().atomic))
            channel.send(None)
            log.append(("other again", roamlet.getcurrent().atomic))

    roamlet.tasklet(waits)()
    roamlet.tasklet(enters)()
    roamlet.run()
    assert log == [
        ("waits", True),
        ("other", False),
        ("other inside", True),
        ("has waited", True),
        ("left", False),
        ("other again", True),
    ]
    assert not roamlet.getcurrent().atomic


@pytest.mark.parametrize("block", [roamlet.schedule, lambda: roamlet.sleep(0), roamlet.schedule_remove])
def test_every_switch_gives_it_up_for_other_threads_and_takes_it_back(block):
    """The other thread can enter only while the tasklet is suspended, and the tasklet goes on only when it has left."""
    order = []
    entered, leave = threading.Event(), threading.Event()

    def other():
        with roamlet.atomic():
            order.append("thread in")
            entered.set()
            leave.wait()
            order.append("thread out")

    thread = threading.Thread(target=other)

    def lets_go():
        thread.start()
        assert entered.wait(10), "atomic was not given up by the suspended tasklet"
        tasklet.insert() if tasklet.paused else None
        threading.Timer(0.05, leave.set).start()

    def function():
        with roamlet.atomic():
            order.append("tasklet in")
            block()
            order.append("tasklet goes on")

    tasklet = roamlet.tasklet(function)()
    roamlet.tasklet(lets_go)()
    roamlet.run()
    thread.join()
    for left in threading.enumerate():
        if isinstance(left, threading.Timer):
            left.join()
    assert order == ["tasklet in", "thread in", "thread out", "tasklet goes on"]


def test_a_tasklet_killed_in_atomic_code_leaves_it():
    def function():
        with roamlet.atomic():
            roamlet.schedule_remove()

    tasklet = roamlet.tasklet(function)()
    roamlet.schedule()
    tasklet.kill()
    assert not tasklet.atomic
    assert in_thread(enter_at_once)


def enter_at_once():
    with roamlet.atomic():
        return True


# ---- set_atomic ----


def test_set_atomic_returns_what_was_set_before():
    me = roamlet.getcurrent()
    assert me.set_atomic(True) is False
    assert me.atomic
    assert me.set_atomic(1) is True
    assert me.set_atomic(0) is True
    assert not me.atomic and me.set_atomic(False) is False


def test_set_atomic_and_levels_do_not_disturb_each_other():
    me = roamlet.getcurrent()
    with roamlet.atomic():
        before = me.set_atomic(True)
        me.set_atomic(before)
        assert me.atomic
    assert not me.atomic
    before = me.set_atomic(True)
    with roamlet.atomic():
        assert me.atomic
    assert me.atomic
    me.set_atomic(before)
    assert not me.atomic


def test_set_atomic_of_a_tasklet_that_has_not_started_holds_from_its_start():
    log = []

    def function():
        log.append(roamlet.getcurrent().atomic)
        roamlet.getcurrent().set_atomic(False)
        log.append(roamlet.getcurrent().atomic)

    tasklet = roamlet.tasklet(function)()
    tasklet.set_atomic(True)
    assert tasklet.atomic and not roamlet.getcurrent().atomic
    roamlet.run()
    assert log == [True, False]


def test_a_tasklet_that_ends_with_set_atomic_holds_nothing():
    roamlet.tasklet(lambda: roamlet.getcurrent().set_atomic(True))()
    roamlet.run()
    assert in_thread(enter_at_once)


def test_a_thread_that_ends_with_set_atomic_holds_nothing():
    in_thread(lambda: roamlet.getcurrent().set_atomic(True))
    assert in_thread(enter_at_once)


def test_set_atomic_of_a_tasklet_that_runs_in_another_thread_is_refused():
    with pytest.raises(RuntimeError, match="runs now, in another thread"):
        in_thread(roamlet.getcurrent().set_atomic, True)
    assert not roamlet.getcurrent().atomic


@pytest.mark.parametrize("wrong", [None, "yes", 1.0])
def test_set_atomic_takes_a_flag(wrong):
    with pytest.raises(TypeError, match="set_atomic needs exactly one bool or integer"):
        roamlet.getcurrent().set_atomic(wrong)


# ---- threads that end, processes that fork, waits that are long ----


def test_the_depth_of_a_thread_goes_to_its_main_tasklet():
    def function():
        with roamlet.atomic():
            inside = roamlet.getcurrent().atomic
        return inside, roamlet.getcurrent().atomic

    assert in_thread(function) == (True, False)


def test_a_thread_that_ended_inside_without_leaving_does_not_keep_it():
    in_thread(roamlet.atomic().__enter__)
    assert in_thread(enter_at_once)


def test_a_forked_child_does_not_wait_for_the_threads_of_its_parent():
    printed = output_of(
        """
        import os, threading, warnings, roamlet
        entered, leave = threading.Event(), threading.Event()
        def inside():
            with roamlet.atomic():
                entered.set()
                leave.wait()
        thread = threading.Thread(target=inside)
        thread.start()
        entered.wait()
        warnings.simplefilter("ignore")  # that a process with threads forks
        pid = os.fork()
        if pid == 0:
            with roamlet.atomic():
                print("the child is in", flush=True)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        leave.set()
        thread.join()
        with roamlet.atomic():
            print("the parent too")
        """
    )
    assert printed.splitlines() == ["the child is in", "the parent too"]


def test_a_signal_handler_that_makes_the_waiting_tasklet_atomic_ends_its_wait():
    entered, leave = threading.Event(), threading.Event()
    main = threading.get_ident()

    def inside():
        with roamlet.atomic():
            entered.set()
            while sys._current_frames()[main].f_code is not enters.__code__:
                pass
            signal.pthread_kill(main, signal.SIGUSR1)
            leave.wait()

    def handler(number, frame):
        leave.set()
        thread.join()
        roamlet.getcurrent().set_atomic(True)

    def enters():
        with roamlet.atomic():
            pass

    thread = threading.Thread(target=inside)
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        thread.start()
        entered.wait()
        enters()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert roamlet.getcurrent().atomic
    roamlet.getcurrent().set_atomic(False)
    assert in_thread(enter_at_once)


def test_the_warning_of_a_tasklet_that_takes_it_back_cannot_switch(monkeypatch):
    """It would give up what another thread has."""
    entered, leave = threading.Event(), threading.Event()
    log = []

    def inside():
        with roamlet.atomic():
            entered.set()
            leave.wait()
            log.append("thread leaves")

    def show(*args, **kwargs):
        with pytest.raises(RuntimeError, match="code that runs in the middle of a switch"):
            roamlet.schedule()
        log.append("refused")
        leave.set()

    def function():
        with roamlet.atomic():
            roamlet.schedule_remove()
            log.append("tasklet goes on")

    tasklet = roamlet.tasklet(function)()
    roamlet.run()
    thread = threading.Thread(target=inside)
    thread.start()
    entered.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", show)
        tasklet.run()
    thread.join()
    assert log == ["refused", "thread leaves", "tasklet goes on"]


def test_a_long_wait_names_the_owner_and_its_line():
    entered, leave = threading.Event(), threading.Event()

    def sits_in_a_call_that_roamlet_does_not_know():
        with roamlet.atomic():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=sits_in_a_call_that_roamlet_does_not_know)
    thread.start()
    entered.wait()
    try:
        with pytest.raises(
            RuntimeWarning, match=rf"more than a second: thread {thread.ident} is in it, in wait at .*:\d+"
        ):
            with roamlet.atomic():
                pytest.fail("it was entered while another thread is inside")
    finally:
        leave.set()
        thread.join()
    assert not roamlet.getcurrent().atomic
    assert enter_at_once()


def test_a_signal_ends_the_wait():
    printed = output_of(
        """
        import os, signal, threading, roamlet
        entered, leave = threading.Event(), threading.Event()
        def inside():
            with roamlet.atomic():
                entered.set()
                os.kill(os.getpid(), signal.SIGINT)
                leave.wait()
        thread = threading.Thread(target=inside)
        try:
            thread.start()
            with roamlet.atomic():
                print("inside too early")
        except KeyboardInterrupt:
            print("interrupted")
        leave.set()
        thread.join()
        with roamlet.atomic():
            print("inside")
        """
    )
    assert printed.splitlines()[-2:] == ["interrupted", "inside"]


# ---- what people build on it ----


class SimpleLock:
    """A lock of a flag and a channel, which atomic makes safe for tasklets of several threads."""

    def __init__(self) -> None:
        self.channel: roamlet.channel[None] = roamlet.channel()
        self.channel.preference = 0
        self.taken = False

    def acquire(self) -> None:
        with roamlet.atomic():
            if self.taken:
                self.channel.receive()  # the flag stays set: the lock is handed over
            self.taken = True

    def release(self) -> None:
        with roamlet.atomic():
            if self.channel.balance < 0:
                self.channel.send(None)
            else:
                self.taken = False


class LowContentionSemaphore:
    """A semaphore whose waiters barge: the count is given back before a waiter is woken, and looked at again after."""

    def __init__(self, value: int) -> None:
        self.value = value
        self.channel: roamlet.channel[None] = roamlet.channel()
        self.channel.preference = 0

    def acquire(self) -> None:
        with roamlet.atomic():
            while self.value == 0:
                self.channel.receive()
            self.value -= 1

    def release(self) -> None:
        with roamlet.atomic():
            self.value += 1
            if self.channel.balance < 0:
                self.channel.send(None)


@pytest.mark.parametrize(("make", "limit"), [(SimpleLock, 1), (lambda: LowContentionSemaphore(3), 3)])
def test_locks_of_a_channel_and_atomic_keep_their_promise_across_threads(hurried, make, limit):
    lock, inside, most, done = make(), [0], [0], [0]

    def use():
        for _ in range(20):
            lock.acquire()
            with roamlet.atomic():
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            roamlet.schedule()
            with roamlet.atomic():
                inside[0] -= 1
                done[0] += 1
            lock.release()

    def work():
        tasklets = [roamlet.tasklet(use)() for _ in range(20)]
        while any(tasklet.alive for tasklet in tasklets):
            roamlet.run()
            time.sleep(0)

    in_threads(2, work)
    assert done[0] == 2 * 20 * 20 and inside[0] == 0
    assert 1 <= most[0] <= limit
    assert lock.channel.balance == 0


def test_the_process_has_one_atomic_whatever_thread_imported_roamlet():
    assert in_thread(roamlet.atomic) is roamlet.atomic()
