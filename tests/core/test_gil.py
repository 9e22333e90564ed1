"""A thread that wakes asks the holder of the GIL for it, and threads that compute keep their share."""

import os
import sys
import threading
from contextlib import contextmanager

import pytest

import roamlet
from roamlet import io, sync
from roamlet.core._core import gil_debt, gil_requests
from tests.core._scripts import output_of

US = 1000
MS = 1000 * US

known = pytest.mark.skipif(gil_requests() is None, reason="roamlet does not know this interpreter's GIL")


@contextmanager
def long_interval():
    """In it a thread that does not ask waits long for the GIL beside one that computes."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.3)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def computing():
    """A thread that computes until it is told to end: call it."""
    over = []

    def compute():
        while not over:
            pass

    thread = threading.Thread(target=compute)
    thread.start()
    yield over.append
    over.append(True)
    thread.join()


CHILD = """
    import sys, threading, roamlet
    from roamlet.core._core import gil_requests
    over = []
    def compute():
        while not over:
            pass
    thread = threading.Thread(target=compute)
    thread.start()
    for _ in range(20):
        roamlet.sleep(0.001)
    over.append(True)
    thread.join()
    print(gil_requests(), sys.getswitchinterval())
"""


def test_a_program_can_have_its_threads_wait_as_cpythons_do(monkeypatch):
    """So they do too where the GIL is not found."""
    monkeypatch.setenv("ROAMLET_GIL", "wait")
    assert output_of(CHILD).split() == ["None", "0.005"]


@known
def test_the_switch_interval_is_the_programs_afterwards():
    requests, interval = output_of(CHILD).split()
    assert int(requests) > 0 and interval == "0.005"


@known
def test_an_interval_that_a_thread_has_read_while_roamlets_was_in_place_is_the_programs_when_set_again():
    """Roamlet's is there for some microseconds, while a thread goes for the GIL."""
    before = sys.getswitchinterval()
    roamlet.sleep(0.001)
    sys.setswitchinterval(0.000499)
    roamlet.sleep(0.001)
    assert sys.getswitchinterval() == before
    sys.setswitchinterval(0.00025)
    roamlet.sleep(0.001)
    assert sys.getswitchinterval() == 0.00025
    sys.setswitchinterval(before)


def test_another_way_to_get_the_gil_is_refused(monkeypatch):
    monkeypatch.setenv("ROAMLET_GIL", "grab")
    printed = output_of("""
        try:
            import roamlet
        except ValueError as error:
            print(error)
    """)
    assert printed.startswith("ROAMLET_GIL='grab' names no way to get the GIL after a sleep: use ask or wait")


def test_the_gil_of_this_version_is_known():
    expected = sys.platform == "linux" and (3, 11) <= sys.version_info[:2] <= (3, 15)
    assert (gil_requests() is not None) == expected


def wait_until_asked(wait):
    """Once may not do: the thread that computes need not have the GIL at that moment."""
    before = gil_requests()
    for _ in range(200):
        wait()
        if gil_requests() != before:
            return


@known
def test_a_timer_that_comes_beside_a_computing_thread_asks_for_the_gil(computing):
    before = gil_requests()
    with long_interval():
        wait_until_asked(lambda: roamlet.sleep(0.001))
    assert gil_requests() > before


@known
def test_a_hub_that_wakes_beside_a_computing_thread_asks_for_the_gil(computing):
    ends = os.pipe()
    before = gil_requests()

    def wait():
        with pytest.raises(TimeoutError):
            io.wait_readable(ends[0], timeout=0.001)

    with long_interval():
        wait_until_asked(wait)
    assert gil_requests() > before
    for end in ends:
        os.close(end)


@known
def test_many_threads_that_wake_one_another_beside_a_computing_thread_all_get_on(computing):
    """A request that one of them uses up is made good by the others."""
    count, rounds = 8, 20
    done, last = sync.Semaphore(0), sync.Semaphore(0)
    turns = [sync.Semaphore(0) for _ in range(count)]

    def pass_on(place):
        for _ in range(rounds):
            turns[place].acquire()
            turns[(place + 1) % count].release()
        done.release()
        last.acquire()  # what a thread does at its end waits for locks of the standard library

    threads = [threading.Thread(target=pass_on, args=(place,)) for place in range(count)]
    for thread in threads:
        thread.start()
    with long_interval():
        for turn in turns[:3]:
            turn.release()
        for _ in threads:
            assert done.acquire(timeout=15)
    for _ in threads:
        last.release()
    for thread in threads:
        thread.join()


@known
def test_nothing_is_asked_for_where_no_other_thread_runs():
    before = gil_requests()
    for _ in range(10):
        roamlet.sleep(0.0001)
    assert gil_requests() == before


HAND_OVER = """
    import sys, threading
    from roamlet import sync
    from roamlet.core._core import gil_requests, gil_short_waits
    sys.setswitchinterval(INTERVAL)
    count, there, back = 2000, sync.Semaphore(0), sync.Semaphore(0)
    def answer():
        for _ in range(count):
            there.acquire()
            back.release()
    thread = threading.Thread(target=answer)
    thread.start()
    before = gil_short_waits() + gil_requests()
    for _ in range(count):
        there.release()
        back.acquire()
    print(gil_short_waits() + gil_requests() - before)
    thread.join()
"""


def few_are_hasty(interval):
    """Whether few of 4000 waits are short, or ask for the GIL, in one of several attempts: a holder that the machine lets wait
    seems to compute.
    """
    return any(int(output_of(HAND_OVER.replace("INTERVAL", interval))) < 400 for _ in range(6))


@known
def test_threads_that_hand_over_to_each_other_set_no_near_timers():
    """The woken thread finds the GIL held by the one that woke it, which is about to sleep. On one core it finds it free."""
    assert few_are_hasty("0.005")


@known
def test_a_switch_interval_of_centuries_is_not_over_at_once():
    assert few_are_hasty("1e10")


def test_a_hold_is_owed():
    assert gil_debt(((0, 400 * US),), 400 * US) == 400 * US


def test_holds_add_up_and_the_time_between_them_pays_back():
    holds = ((0, 400 * US), (500 * US, 900 * US))
    assert gil_debt(holds, 900 * US) == (400 - 100 + 400) * US
    assert gil_debt(holds, 1000 * US) == 600 * US
    assert gil_debt(holds, 10 * MS) == 0


def test_nothing_is_paid_back_while_such_a_thread_has_the_gil():
    assert gil_debt(((0, 400 * US), (500 * US, -1)), 9 * MS) == 300 * US


def test_one_hold_counts_for_five_milliseconds_at_most():
    assert gil_debt(((0, 80 * MS),), 80 * MS) == 5 * MS


def test_the_debt_has_a_bound():
    """So that a thread that begins to compute after hours of others' work does not hold them up."""
    holds = tuple((n * 5 * MS, (n + 1) * 5 * MS) for n in range(100))
    assert gil_debt(holds, 500 * MS) == 5 * MS


def test_a_hold_whose_end_was_not_seen_ends_with_the_next():
    assert gil_debt(((0, -1), (400 * US, 800 * US)), 800 * US) == 800 * US


def test_a_clock_that_goes_back_owes_nothing_new():
    assert gil_debt(((5 * MS, 4 * MS),), 3 * MS) == 0


@pytest.mark.parametrize("wait", ["roamlet.sleep(0.0005)", "lock.acquire(timeout=0.0005)"])
def test_the_interpreter_ends_while_daemon_threads_ask_for_the_gil(wait):
    """A holder that was asked waits for another thread to take the GIL: one that ends instead must not leave it waiting."""
    for _ in range(5):
        printed = output_of(f"""
            import sys, threading, roamlet
            from roamlet import sync
            lock = sync.Lock()
            lock.acquire()
            def wait():
                while True:
                    {wait}
            for _ in range(8):
                threading.Thread(target=wait, daemon=True).start()
            for _ in range(300_000):
                pass
            class Late:
                def __del__(self):
                    for _ in range(100_000):
                        pass
            sys.late = Late()
            print("done")
        """)
        assert printed.strip() == "done"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_that_is_forked_while_threads_ask_for_the_gil_goes_on():
    printed = output_of("""
        import os, threading, warnings, roamlet
        warnings.simplefilter("ignore")
        over = []
        def wait():
            while not over:
                roamlet.sleep(0.0001)
        def compute():
            while not over:
                pass
        threads = [threading.Thread(target=wait) for _ in range(4)] + [threading.Thread(target=compute)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            child = os.fork()
            if child == 0:
                over.append(True)
                other = threading.Thread(target=lambda: [roamlet.sleep(0.0001) for _ in range(5)])
                other.start()
                roamlet.sleep(0.001)
                other.join()
                os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        over.append(True)
        for thread in threads:
            thread.join()
        print("done")
    """)
    assert printed.strip() == "done"
