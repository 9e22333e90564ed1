"""roamlet.responsive: the switch interval is short while a hub competes with a thread that computes, and only then."""

import os
import sys
import threading
import time

import pytest

import roamlet
from roamlet import io
from tests.core._scripts import output_of

USUAL = 0.005
SHORT = 0.0005


@pytest.fixture(autouse=True)
def usual_interval():
    before = sys.getswitchinterval()
    sys.setswitchinterval(USUAL)
    yield
    assert sys.getswitchinterval() == pytest.approx(USUAL)
    sys.setswitchinterval(before)


@pytest.fixture
def computing():
    """A thread that computes until it is told to end: call it."""
    over = threading.Event()

    def compute():
        while not over.is_set():
            sum(range(100))

    thread = threading.Thread(target=compute)
    thread.start()

    def end():
        over.set()
        thread.join()

    yield end
    end()


def sleep_until(condition):
    """Sleep in short turns, each of which ends in a hub that wants the GIL back; fail when it does not become true."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        roamlet.sleep(0.001)


def is_short():
    return sys.getswitchinterval() == pytest.approx(SHORT, rel=0.02)


def is_usual():
    return sys.getswitchinterval() == pytest.approx(USUAL)


def test_it_is_short_while_another_thread_computes_and_goes_back_when_that_ends(computing):
    with roamlet.responsive():
        assert is_usual()
        sleep_until(is_short)
        computing()
        sleep_until(is_usual)
    assert is_usual()


def test_it_goes_back_when_the_block_is_left_however_it_is_left(computing):
    def block():
        with roamlet.responsive():
            sleep_until(is_short)
            raise KeyError

    with pytest.raises(KeyError):
        block()
    assert is_usual()


def test_it_goes_back_when_nothing_comes_in(computing, pipe):
    """The hub looks after it before it sleeps on, although somebody computes."""
    with roamlet.responsive():
        sleep_until(is_short)
        seen = []

        def write_when_it_is_usual():
            deadline = time.monotonic() + 20
            while not is_usual() and time.monotonic() < deadline:
                time.sleep(0.001)
            seen.append(sys.getswitchinterval())
            os.write(pipe[1], b"x")

        thread = threading.Thread(target=write_when_it_is_usual)
        thread.start()
        assert io.read(pipe[0], 1) == b"x"
        thread.join()
        assert seen == [pytest.approx(USUAL)]


def test_nothing_changes_without_it(computing):
    for _ in range(20):
        roamlet.sleep(0.001)
        assert is_usual()


def test_an_interval_that_somebody_sets_meanwhile_stays(computing):
    with roamlet.responsive():
        sleep_until(is_short)
        sys.setswitchinterval(0.002)
    assert sys.getswitchinterval() == pytest.approx(0.002)
    sys.setswitchinterval(USUAL)


def test_an_interval_that_is_shorter_stays(computing):
    sys.setswitchinterval(0.0001)
    with roamlet.responsive():
        for _ in range(20):
            roamlet.sleep(0.001)
            assert sys.getswitchinterval() == pytest.approx(0.0001)
    sys.setswitchinterval(USUAL)


def test_blocks_nest_and_the_last_one_gives_it_back(computing):
    with roamlet.responsive() as nothing:
        with roamlet.responsive():
            sleep_until(is_short)
        sleep_until(is_short)
    assert (nothing, is_usual()) == (None, True)


def test_several_threads_want_it_at_once(computing):
    seen, barrier = [], threading.Barrier(3)

    def other():
        with roamlet.responsive():
            with pytest.raises(TimeoutError):
                io.wait_readable(quiet, timeout=0)
            sleep_until(is_short)
            barrier.wait()
        seen.append(True)

    quiet, end = os.pipe()
    threads = [threading.Thread(target=other) for _ in range(2)]
    for thread in threads:
        thread.start()
    with roamlet.responsive():
        barrier.wait()
        for thread in threads:
            thread.join()
        sleep_until(is_short)
    assert seen == [True, True]
    os.close(quiet)
    os.close(end)


def test_it_can_be_switched_on_and_off(computing):
    roamlet.responsive(True)
    roamlet.responsive(True)
    sleep_until(is_short)
    roamlet.responsive(False)
    assert is_usual()
    roamlet.responsive(False)
    for _ in range(5):
        roamlet.sleep(0.001)
        assert is_usual()


def test_a_thread_that_ends_leaves_nothing_behind(computing, pipe):
    def other():
        with pytest.raises(TimeoutError):
            io.wait_readable(pipe[0], timeout=0)
        sleep_until(is_short)

    roamlet.responsive(True)
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert is_usual()
    roamlet.responsive(False)


def test_a_forked_child_starts_with_the_usual_interval():
    printed = output_of("""
        import os, sys, threading, time, roamlet, warnings
        from roamlet import io
        warnings.simplefilter("ignore")
        def compute():
            while True:
                sum(range(100))
        threading.Thread(target=compute, daemon=True).start()
        read_end, write_end = os.pipe()
        try:
            io.wait_readable(read_end, timeout=0)
        except TimeoutError:
            pass
        with roamlet.responsive():
            while sys.getswitchinterval() > 0.001:
                roamlet.sleep(0.001)
            pid = os.fork()
            if pid == 0:
                print(round(sys.getswitchinterval(), 4), flush=True)
                os._exit(0)
            print(io.wait_process(pid))
    """)
    assert printed.split() == ["0.005", "0"]


@pytest.mark.parametrize("bad", [1, 0, "on", 0.0005])
def test_what_is_neither_on_nor_off_is_refused(bad):
    with pytest.raises(TypeError, match="responsive\\(\\) takes True or False, or nothing for a with block, not"):
        roamlet.responsive(bad)
