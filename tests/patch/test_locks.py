"""The area `locks`: what one tasklet waits for, another one of the same thread brings about."""

import _thread
import queue
import sys
import threading

import pytest

import roamlet
from roamlet import io, sync
from roamlet.io import _originals
from roamlet.patch.areas import locks
from roamlet.remote.base.threads import TaskletThread
from roamlet.threads._install import NAMES
from tests.programs import printed


@pytest.fixture(autouse=True)
def locks_in_place(in_place):
    in_place(locks)


def held_thread():
    """A thread that ends when the lock, one of C's, is released."""
    lock = _thread.allocate_lock()
    lock.acquire()
    thread = threading.Thread(target=lock.acquire)
    thread.start()
    return thread, lock


def test_classes_and_methods_are_put_back_by_identity(in_place):
    held = [(owner, dict(vars(owner))) for owner in (threading, queue, threading.Thread)]
    changes = in_place()
    originals = {(each.owner, each.name): each.original for each in changes.replacements}
    assert {(module, name) for module, names in NAMES.items() for name in names} < set(originals)
    changes.undo()
    for (owner, name), original in originals.items():
        assert vars(owner)[name] is original
    locks.apply(changes)
    assert [set(vars(owner)) for owner, _ in held] == [set(names) for _, names in held]


def test_a_tasklet_ends_the_thread_that_main_joins():
    thread, lock = held_thread()
    roamlet.tasklet(lock.release)()
    thread.join()
    assert not thread.is_alive()


def test_many_tasklets_join_one_thread():
    thread, lock = held_thread()
    joined = []
    for number in range(20):
        roamlet.tasklet(lambda number=number: (thread.join(), joined.append(number)))()
    roamlet.tasklet(lock.release)()
    roamlet.run()
    assert sorted(joined) == list(range(20))


@pytest.mark.parametrize("timeout", [0, -1, 0.001])
def test_a_join_with_a_time_out_returns(timeout):
    thread, lock = held_thread()
    assert thread.join(timeout) is None
    assert thread.is_alive()
    lock.release()
    thread.join(100)
    assert not thread.is_alive()
    thread.join(timeout)


def test_a_tasklet_that_joins_is_killed_and_timed_out():
    thread, lock = held_thread()
    joining = roamlet.tasklet(thread.join)()
    roamlet.schedule()
    joining.kill()
    assert not joining.alive
    with pytest.raises(TimeoutError), roamlet.timeout(0):
        thread.join()
    lock.release()
    thread.join()


def test_errors_of_join_are_the_standard_librarys():
    with pytest.raises(RuntimeError, match="cannot join thread before it is started"):
        threading.Thread().join()
    with pytest.raises(RuntimeError, match="cannot join current thread"):
        threading.current_thread().join()
    thread, lock = held_thread()
    with pytest.raises(TypeError):
        thread.join("soon")
    lock.release()
    thread.join()


def test_a_thread_that_ends_with_an_error_in_run_is_joined(monkeypatch):
    reported = []
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append(args.exc_type))
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    assert reported == [ZeroDivisionError]


def test_a_thread_whose_end_needs_a_tasklet_of_ours_is_joined():
    """When a thread's Python code is over its tasklets are ended, and what they do then may wait for us."""
    lock, began, kept = _thread.allocate_lock(), sync.Event(), []
    lock.acquire()

    def waits():
        try:
            roamlet.schedule_remove()
        finally:
            lock.acquire()

    def thread_main():
        kept.append(roamlet.tasklet(waits)())
        roamlet.schedule()
        began.set()

    thread = threading.Thread(target=thread_main)
    thread.start()
    began.wait()
    releasing = roamlet.tasklet(lambda: (roamlet.sleep(0.01), lock.release()))()
    thread.join()
    assert not releasing.alive and not kept.pop().alive


def test_queues_conditions_and_timers_pass_between_tasklets_of_one_thread():
    through, events = queue.Queue(1), []
    condition = threading.Condition()

    def other():
        events.append(through.get())
        with condition:
            condition.notify()

    roamlet.tasklet(other)()
    with condition:
        through.put("an item")
        condition.wait()
    assert events == ["an item"]
    timer = threading.Timer(0, events.append, ["timer"])
    timer.start()
    timer.join()
    assert events[-1] == "timer"


def test_executors_that_were_imported_before_start_threads_from_many_tasklets(python, program):
    program("""\
        import concurrent.futures.thread, threading
        import roamlet
        from roamlet.patch.areas import locks
        from roamlet.patch.changes import Changes
        changes = Changes()
        raw = concurrent.futures.thread._global_shutdown_lock
        locks.apply(changes)
        results = []
        def work(number):
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                results.extend(pool.map(lambda value: value * number, range(5)))
        for number in range(10):
            roamlet.tasklet(work)(number)
        roamlet.run()
        print(sum(results) == sum(a * b for a in range(10) for b in range(5)))
        changes.undo()
        print(concurrent.futures.thread._global_shutdown_lock is raw)
        """)
    assert printed(python("program.py")) == "True\nTrue\n"


def test_a_thread_waits_for_the_main_thread(python, program):
    program("""\
        import threading
        from roamlet.patch.areas import locks
        from roamlet.patch.changes import Changes
        locks.apply(Changes())
        def last():
            threading.main_thread().join()
            print("after main")
        threading.Thread(target=last).start()
        print("end of main")
        """)
    assert printed(python("program.py")) == "end of main\nafter main\n"


def test_a_forked_child_joins_threads_that_it_does_not_have(python, program):
    program("""\
        import os, threading, warnings
        warnings.simplefilter("ignore")
        from roamlet.patch.areas import locks
        from roamlet.patch.changes import Changes
        locks.apply(Changes())
        end = threading.Event()
        thread = threading.Thread(target=end.wait)
        thread.start()
        pid = os.fork()
        if pid == 0:
            thread.join()
            print("joined", flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
        end.set()
        thread.join()
        """)
    assert printed(python("program.py")) == "joined\n"


@pytest.mark.parametrize("undone", [False, True])
def test_locks_inside_roamlet_remote_are_of_the_system(in_place, undone):
    """One that a thread of roamlet's holds for a moment does not switch what never blocks, and is not taken for a deadlock."""
    worker, held, ran = TaskletThread("roamlet-test"), _thread.allocate_lock(), []
    held.acquire()

    def hold():
        with worker._lock:
            held.release()
            while sys._current_frames()[main].f_code is not TaskletThread.post.__code__:
                _originals.sleep(0.001)

    if undone:
        in_place().undo()
    main = _thread.get_ident()
    holder = io.start_thread(hold, "roamlet-holder")
    held.acquire()
    roamlet.tasklet(ran.append)("another tasklet")
    assert worker.post(int)
    assert not ran
    holder.join()
    worker.stop()
    worker.join()
    roamlet.run()
    assert ran == ["another tasklet"]
