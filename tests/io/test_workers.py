"""call_async: outcomes, abandoned jobs, how the pool grows and shrinks, and what may go wrong with threads and forks."""

import contextvars
import ctypes
import gc
import logging
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial

import pytest

import roamlet
from roamlet import io
from roamlet.io import workers
from roamlet.io._workers import pool as pool_module
from roamlet.io._workers.pool import pool
from roamlet.io._workers.serial import Serial
from tests.core._scripts import output_of
from tests.io._workers import Gate, all_rest, started, wait_until

pytestmark = pytest.mark.usefixtures("workers_at_first")


class Thing:
    """Something that a weak reference can point to."""


# ---- outcomes ----


@pytest.mark.parametrize("value", [None, 5, "text", StopIteration, ()])
def test_what_the_function_returns_is_returned(value):
    assert io.call_async(lambda: value) is value


def test_it_stands_at_the_top_level_too():
    assert roamlet.call_async is io.call_async


class Own(Exception):
    pass


@pytest.mark.parametrize(
    "kind", [ValueError, Own, SystemExit, KeyboardInterrupt, StopIteration, GeneratorExit, IndexError]
)
def test_what_the_function_raises_is_raised_and_the_worker_lives(kind):
    error = kind("from the job")

    def raises():
        raise error

    with pytest.raises(kind) as caught:
        io.call_async(raises)
    assert caught.value is error
    assert caught.value.__context__ is None
    assert [entry.name for entry in caught.traceback][1:] == ["call_async", "raises"]
    wait_until(all_rest)
    assert workers.status() == (1, 1, 0)
    error.__traceback__ = None  # it leads to this frame, as the next does
    del caught


def test_the_function_runs_in_another_thread_and_only_its_tasklet_waits():
    gate, seen = Gate(), []
    roamlet.tasklet(lambda: seen.append(io.call_async(gate)))()
    roamlet.tasklet(lambda: (seen.append("the other ran"), gate.open()))()
    roamlet.run()
    assert seen == ["the other ran", "through"]
    assert io.call_async(threading.get_ident) != threading.get_ident()


def test_the_function_sees_a_copy_of_the_callers_context():
    variable = contextvars.ContextVar("variable", default="nothing")
    token = variable.set("the caller's")

    def job():
        seen = variable.get()
        variable.set("the job's")
        return seen

    assert (io.call_async(job), variable.get()) == ("the caller's", "the caller's")
    variable.reset(token)


@pytest.mark.parametrize("bad", [None, 5, "f"])
def test_what_cannot_be_called_is_refused(bad):
    with pytest.raises(TypeError, match=r"takes a callable without arguments, not .*: wrap the call in a lambda"):
        io.call_async(bad)
    assert workers.status().threads == 0


def test_arguments_are_refused_with_the_way_to_give_them():
    message = r"without arguments, and none for <built-in .* print>: wrap the call in a lambda, call_async\(lambda: function\(arg"
    with pytest.raises(TypeError, match=message):
        io.call_async(print, 1)
    with pytest.raises(TypeError, match=message):
        io.call_async(print, end="")
    assert workers.status().threads == 0


def test_a_wait_that_is_not_allowed_makes_no_call():
    workers.configure(max_threads=1)
    gate, calls = Gate(), []
    first, other = started(partial(io.call_async, gate)), roamlet.tasklet(calls.append)("the other")
    gate.wait_for()
    roamlet.switch_trap(1)
    try:
        with pytest.raises(RuntimeError, match="switch_trap"):
            io.call_async(lambda: calls.append("made"))
    finally:
        roamlet.switch_trap(-1)
    assert workers.status() == (1, 0, 0)
    gate.open()
    roamlet.run()
    assert (calls, first.alive, other.alive) == (["the other"], False, False)


# ---- nothing is kept ----


def test_a_local_of_the_raising_frame_dies_with_the_handler():
    alive = []

    def raises():
        local = Thing()
        alive.append(weakref.ref(local))
        raise ValueError("from the job")

    try:
        io.call_async(raises)
    except ValueError:
        pass
    wait_until(all_rest)
    assert alive[0]() is None


@pytest.mark.parametrize("ending", ["returns", "raises", "is abandoned"])
def test_a_resting_worker_holds_nothing_of_its_last_job(ending):
    variable = contextvars.ContextVar("variable")
    alive = []
    gate = Gate()
    workers.configure(on_abandoned=lambda *_: None)

    def one_job():
        argument, outcome, seen = Thing(), Thing(), Thing()
        alive[:] = map(weakref.ref, (argument, outcome, seen))
        variable.set(seen)

        def job(argument=argument):
            if ending == "is abandoned":
                gate()
            if ending == "raises":
                raise ValueError("from the job", outcome)
            return outcome

        try:
            io.call_async(job)
        except ValueError:
            pass

    if ending == "is abandoned":
        tasklet = started(partial(contextvars.Context().run, one_job))
        gate.wait_for()
        tasklet.kill()
        gate.open()
        del tasklet
    else:
        contextvars.Context().run(one_job)
    wait_until(lambda: all_rest() and workers.status().threads == 1)
    assert [thing() for thing in alive] == [None, None, None]


# ---- tasklets that wait, and that have stopped waiting ----


def test_run_waits_for_a_job_and_there_is_no_deadlock():
    gate, results = Gate(), []
    roamlet.tasklet(lambda: results.append(io.call_async(gate)))()
    opener = threading.Timer(0.01, gate.open)
    opener.start()
    roamlet.run()
    opener.join()
    assert results == ["through"]


def test_a_deadlock_is_seen_while_workers_rest():
    io.call_async(lambda: None)
    wait_until(all_rest)
    with pytest.raises(roamlet.Deadlock):
        roamlet.channel().receive()


def test_what_an_abandoned_job_may_still_do_is_no_deadlock():
    gate, channel = Gate(), roamlet.channel()
    tasklet = started(partial(io.call_async, lambda: channel.send(gate())))
    gate.wait_for()
    tasklet.kill()
    gate.open()
    assert channel.receive() == "through"


def test_what_a_job_may_do_that_nobody_waits_for_is_no_deadlock():
    """Not even before the thread that was woken for it runs."""
    calls, channel = Serial(), roamlet.channel()
    for number in range(100):
        calls.start(partial(channel.send, number))
        assert channel.receive() == number


def test_the_outcome_of_an_abandoned_job_goes_to_the_handler():
    heard = []
    workers.configure(on_abandoned=lambda *what: heard.append((*what, threading.current_thread().name)))
    gate, error = Gate(), ValueError("too late")

    def fails():
        gate()
        raise error

    tasklets = [started(partial(io.call_async, job)) for job in (gate, fails)]
    gate.wait_for(2)
    for tasklet in tasklets:
        tasklet.kill()
        assert not tasklet.alive
    assert heard == []
    gate.open()
    wait_until(all_rest)
    assert {what[:3] for what in heard} == {(gate, "through", None), (fails, None, error)}
    assert all("worker" in name for *_, name in heard)
    error.__traceback__ = None


def test_a_job_that_has_begun_when_its_caller_cannot_wait_is_abandoned_too(monkeypatch):
    heard = []
    workers.configure(on_abandoned=lambda function, result, error: heard.append(repr(error)))
    gate = Gate()

    def fails():
        gate()
        raise ValueError("nobody waits")

    submit = pool.submit

    def submit_and_let_it_begin(job):
        submit(job)
        gate.wait_for()
        roamlet.getcurrent().block_trap = True

    monkeypatch.setattr(pool, "submit", submit_and_let_it_begin)
    try:
        with pytest.raises(RuntimeError, match="block_trap"):
            io.call_async(fails)
    finally:
        roamlet.getcurrent().block_trap = False
    gate.open()
    wait_until(all_rest)
    assert heard == ["ValueError('nobody waits')"]


def test_without_a_handler_an_abandoned_failure_is_a_warning_in_the_log(caplog):
    caplog.set_level(logging.DEBUG, "roamlet.io.workers")
    gate = Gate()

    def fails():
        gate()
        raise ValueError("too late")

    tasklets = [started(partial(io.call_async, job)) for job in (gate, fails)]
    gate.wait_for(2)
    for tasklet in tasklets:
        tasklet.kill()
    gate.open()
    wait_until(all_rest)
    told = {record.levelname: record for record in caplog.records}
    assert set(told) == {"WARNING", "DEBUG"}
    assert "an abandoned job has failed: <function" in told["WARNING"].getMessage()
    assert str(told["WARNING"].exc_info[1]) == "too late"
    assert "an abandoned job has returned" in told["DEBUG"].getMessage()
    caplog.clear()
    del told


def test_a_handler_that_fails_takes_no_worker_with_it(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, traceback: told.append(repr(error)))
    workers.configure(on_abandoned=lambda *_: 1 / 0)
    gate = Gate()
    tasklet = started(partial(io.call_async, gate))
    gate.wait_for()
    tasklet.kill()
    gate.open()
    wait_until(all_rest)
    assert told == ["ZeroDivisionError('division by zero')"]
    assert workers.status().threads == 1


def test_a_call_that_has_not_begun_when_its_tasklet_is_killed_is_not_made():
    workers.configure(max_threads=1)
    gate, calls = Gate(), []
    first = started(partial(io.call_async, gate))
    gate.wait_for()
    second = started(partial(io.call_async, lambda: calls.append("second")))
    third = started(partial(io.call_async, lambda: calls.append("third")))
    assert workers.status() == (1, 0, 2)
    second.kill()
    assert workers.status() == (1, 0, 1)
    gate.open()
    roamlet.run()
    assert (calls, first.alive, third.alive) == (["third"], False, False)


# ---- the threads ----


def test_as_many_jobs_as_allowed_run_at_once_and_the_others_in_order():
    workers.configure(max_threads=3)
    gate, order = Gate(), []
    blocked = [started(partial(io.call_async, gate)) for _ in range(3)]
    gate.wait_for(3)
    waiting = [started(partial(io.call_async, partial(order.append, number))) for number in range(10)]
    assert workers.status() == (3, 0, 10)
    workers.configure(max_threads=4)  # the fourth does what the three cannot
    roamlet_waits_for(lambda: len(order) == 10)
    gate.open()
    roamlet.run()
    assert order == list(range(10))
    assert not any(tasklet.alive for tasklet in blocked + waiting)


def roamlet_waits_for(condition: Callable[[], bool]) -> None:
    while not condition():
        roamlet.sleep(0.001)


def test_short_jobs_share_few_threads():
    done = []
    for number in range(1000):
        roamlet.tasklet(io.call_async)(partial(done.append, number))
    roamlet.run()
    assert sorted(done) == list(range(1000))
    assert workers.status().threads < 64


def test_threads_that_rest_long_enough_end():
    workers.configure(idle_seconds=0)
    gate = Gate()
    for _ in range(5):
        roamlet.tasklet(io.call_async)(gate)
    opener = threading.Thread(target=lambda: (gate.wait_for(5), gate.open()))
    opener.start()
    roamlet.run()
    opener.join()
    wait_until(lambda: workers.status() == (0, 0, 0))
    assert io.call_async(lambda: "a new one") == "a new one"


def test_a_lower_limit_ends_threads_as_they_come_to_rest():
    gate = Gate()
    for _ in range(5):
        started(partial(io.call_async, gate))
    gate.wait_for(5)
    workers.configure(max_threads=2)
    gate.open()
    roamlet.run()
    wait_until(all_rest)
    assert workers.status() == (2, 2, 0)


def stack_of_this_thread() -> int:
    """In bytes, as pthreads knows it."""
    libc = ctypes.CDLL(None)
    libc.pthread_self.restype = ctypes.c_ulong
    attributes, size = ctypes.create_string_buffer(256), ctypes.c_size_t()
    assert libc.pthread_getattr_np(ctypes.c_ulong(libc.pthread_self()), attributes) == 0
    assert libc.pthread_attr_getstacksize(attributes, ctypes.byref(size)) == 0
    libc.pthread_attr_destroy(attributes)
    return size.value


def test_workers_have_the_stack_that_was_asked_for_and_others_their_own():
    before = threading.stack_size()
    workers.configure(stack_size=1 << 20)
    assert (io.call_async(stack_of_this_thread), threading.stack_size()) == (1 << 20, before)
    sizes = []
    other = threading.Thread(target=lambda: sizes.append(stack_of_this_thread()))
    other.start()
    other.join()
    assert sizes[0] > 1 << 20


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"max_threads": 0}, ValueError, "max_threads must be from 1 to 10,000, not 0"),
        ({"max_threads": 2.5}, TypeError, "max_threads must be a number .int., not 2.5"),
        ({"max_threads": True}, TypeError, "max_threads must be a number .int., not True"),
        ({"max_threads": None}, TypeError, "max_threads must be a number"),
        ({"idle_seconds": -1}, ValueError, "idle_seconds must be from 0 to 86,400, not -1"),
        ({"idle_seconds": float("nan")}, ValueError, "idle_seconds must be from 0"),
        ({"idle_seconds": "1"}, TypeError, "idle_seconds must be a number .int or float., not '1'"),
        ({"stack_size": 1000}, ValueError, "stack_size must be from 262,144"),
        ({"on_abandoned": "print"}, TypeError, "on_abandoned must be a callable or None, not 'print'"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_and_nothing_is_set(settings, error, message):
    before = (pool.max_threads, pool.idle_seconds, pool.stack_size, pool.on_abandoned)
    with pytest.raises(error, match=message):
        workers.configure(**{"max_threads": 7, **settings})
    assert (pool.max_threads, pool.idle_seconds, pool.stack_size, pool.on_abandoned) == before


# ---- faults ----


def no_thread(self):
    raise RuntimeError("can't start new thread")


def test_when_not_one_thread_can_be_started_the_caller_is_told(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(
            RuntimeError, match=r"no worker thread can be started \(can't start new thread\).*ulimit -u"
        ):
            io.call_async(lambda: None)
        assert workers.status() == (0, 0, 0)
    assert io.call_async(lambda: "later") == "later"


def test_when_no_further_thread_can_be_started_the_others_do_the_job(monkeypatch):
    gate = Gate()
    blocked = started(partial(io.call_async, gate))
    gate.wait_for()
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    waiting = started(partial(io.call_async, lambda: "done"))
    assert workers.status() == (1, 0, 1)
    gate.open()
    roamlet.run()
    assert not blocked.alive
    assert not waiting.alive


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_that_dies_on_its_way_to_a_job_loses_none():
    io.call_async(lambda: None)
    wait_until(all_rest)
    (worker,) = pool.workers
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker.ident), ctypes.py_object(SystemExit)) == 1
    assert io.call_async(threading.current_thread) is not worker
    worker.join()
    assert worker not in pool.workers


def test_a_worker_that_is_hit_in_a_job_hands_that_on_like_any_error():
    gate, idents = Gate(), []

    def job():
        idents.append(threading.get_ident())
        return gate()

    def hit():
        gate.wait_for()
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(idents[0]), ctypes.py_object(SystemExit))
        gate.open()

    hitting = threading.Thread(target=hit)
    hitting.start()
    with pytest.raises(SystemExit):
        io.call_async(job)
    hitting.join()


def test_a_fork_loses_the_jobs_in_the_child_and_says_so():
    printed = output_of("""
        import os, threading, warnings, roamlet, roamlet.io as io
        from functools import partial
        warnings.simplefilter("ignore")  # of the fork of a process with threads
        io.workers.configure(max_threads=1)
        opened = threading.Event()
        def waits(name, function):
            try:
                print(name, io.call_async(function), flush=True)
            except RuntimeError as error:
                print(name, error, flush=True)
        roamlet.tasklet(waits)("running:", opened.wait)
        roamlet.tasklet(waits)("queued:", lambda: "parent's")
        roamlet.schedule()
        pid = os.fork()
        if pid == 0:
            roamlet.run()
            print("child", io.call_async(lambda: "has workers of its own"), flush=True)
            os._exit(0)
        io.wait_process(pid)
        opened.set()
        roamlet.run()
    """)
    lost = "the job of a worker thread was lost in a fork: it goes on in the parent process only."
    advice = "Call os.fork() while no tasklet waits for call_async()"
    assert printed.splitlines() == [
        f"running: {lost} {advice}",
        f"queued: {lost} {advice}",
        "child has workers of its own",
        "running: True",
        "queued: parent's",
    ]


def test_a_fork_does_not_warn_of_workers_that_rest():
    printed = output_of("""
        import os, warnings, roamlet.io as io
        warnings.simplefilter("error")
        io.call_async(lambda: None)
        pid = os.fork()
        if pid == 0:
            print(io.call_async(lambda: "child"), flush=True)
            os._exit(0)
        print(io.wait_process(pid), io.call_async(lambda: "parent"))
    """)
    assert printed.splitlines() == ["child", "0 parent"]


def test_a_worker_that_was_sent_for_is_not_rung_again_as_it_is_dismissed():
    """Its lock may have been handed over to it, and be released by others no more: debug builds of CPython check that."""

    class Resting:
        dismissed = False

        def __init__(self):
            self.bell = Bell()

        def join(self, seconds):
            assert self.dismissed

    class Bell:
        rings = 0

        def locked(self):
            return True

        def release(self):
            self.rings += 1

    own = pool_module.Pool()
    sent_for, resting = Resting(), Resting()
    own.idle.extend([sent_for, resting])
    own.searcher = sent_for
    own.dismiss_idle()
    assert (sent_for.bell.rings, resting.bell.rings) == (0, 1)
    assert sent_for.dismissed and resting.dismissed


def test_a_job_may_fork_and_its_child_may_use_roamlet():
    printed = output_of("""
        import os, warnings, roamlet.io as io
        warnings.simplefilter("ignore")
        def job():
            pid = os.fork()
            if pid == 0:
                print("child", io.call_async(lambda: "works"), flush=True)
                os._exit(7)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print("parent", io.call_async(job))
    """)
    assert printed.splitlines() == ["child works", "parent 7"]


def test_a_child_that_returns_from_the_job_ends():
    printed = output_of("""
        import os, warnings, roamlet.io as io
        warnings.simplefilter("ignore")
        pid = io.call_async(os.fork)
        if pid:
            print(io.wait_process(pid))
    """)
    assert printed == "0"


def test_the_interpreter_exits_while_jobs_run():
    printed = output_of("""
        import threading, roamlet, roamlet.io as io
        never = threading.Event()
        for _ in range(3):
            roamlet.tasklet(io.call_async)(never.wait)
        io.call_async(lambda: None)
        print("main ends")
    """)
    assert printed == "main ends"


def test_calls_from_many_threads_and_tasklets_all_come_back():
    results: list[int] = []

    def thread(base: int) -> None:
        def tasklet(base: int) -> None:
            results.extend(io.call_async(lambda number=number: base + number) for number in range(20))

        for number in range(20):
            roamlet.tasklet(tasklet)(base + 20 * number)
        roamlet.run()
        results.append(io.call_async(lambda: -1))

    threads = [threading.Thread(target=thread, args=(400 * number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(results) == [-1] * 4 + list(range(1600))


def test_tasklets_that_are_interrupted_by_slices_all_get_their_results():
    results: list[int] = []

    def tasklet(number: int) -> None:
        for _ in range(20):
            results.append(io.call_async(lambda: number))
            sum(range(500))

    for number in range(20):
        roamlet.tasklet(tasklet)(number)
    roamlet.run(slice=0.0001)
    assert sorted(results) == sorted(list(range(20)) * 20)


def test_kills_at_any_moment_lose_no_other_job():
    workers.configure(max_threads=4, on_abandoned=lambda *_: None)
    done: list[int] = []
    for turn in range(200):
        tasklets = [
            roamlet.tasklet(lambda number=number: done.append(io.call_async(lambda: number)))() for number in range(5)
        ]
        roamlet.schedule()
        for tasklet in tasklets[turn % 5 :: 2]:
            tasklet.kill()
        del tasklet, tasklets
        roamlet.run()
    killed_each_turn = [len(range(turn % 5, 5, 2)) for turn in range(200)]
    assert len(done) >= 1000 - sum(killed_each_turn)
    gc.collect()


@pytest.mark.skipif(
    sys.version_info[:2] == (3, 14),
    reason="on CPython 3.14 a handler that raises leaves `with` without its __exit__: threading's own locks stay locked",
)
def test_a_signal_handler_that_raises_at_any_moment_leaves_a_pool_that_works():
    """A worker that was chosen and not woken would rest for a day."""
    workers.configure(idle_seconds=86400, max_threads=2, on_abandoned=lambda *_: None)

    def handler(*_: object) -> None:
        raise Interrupted

    interrupted = 0
    before = signal.signal(signal.SIGALRM, handler)
    try:
        for number in range(1500):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + number % 80))
                for _ in range(50):
                    io.call_async(int)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 100
    assert [io.call_async(int) for _ in range(10)] == [0] * 10


class Interrupted(BaseException):
    pass


# ---- iterate_async ----


def test_iterating_hands_on_every_item_as_it_is():
    marker = object()
    items = [None, False, 0, StopIteration, marker, Ellipsis]
    assert list(io.iterate_async(iter(items))) == items
    assert list(io.iterate_async([])) == []


def test_iterating_runs_the_source_on_workers_one_item_at_a_time():
    names = []

    def source():
        for number in range(3):
            names.append(threading.current_thread().name)
            yield number

    for number in io.iterate_async(source()):
        assert len(names) == number + 1
    assert all("worker" in name for name in names)


def test_an_error_of_the_source_comes_after_what_it_yielded():
    def source():
        yield 1
        raise StopIteration("of somebody else")

    got = []
    with pytest.raises(RuntimeError, match="generator raised StopIteration"):
        got.extend(io.iterate_async(source()))
    with pytest.raises(TypeError, match="not iterable"):
        got.extend(io.iterate_async(5))
    for item in io.iterate_async(source()):
        got.append(item)
        break
    assert got == [1, 1]


# ---- threads that start while others are atomic, or too late ----


def test_a_thread_that_starts_may_be_atomic_before_it_has_started():
    """As when a collection in it calls a finalizer; the tasklet that waited for the thread was atomic, for ever."""
    printed = output_of("""
        import roamlet
        from roamlet.io._workers import pool as _workers
        class Finalizing(_workers.Worker):
            def _bootstrap_inner(self):
                with roamlet.atomic():
                    pass
                super()._bootstrap_inner()
        _workers.Worker = Finalizing
        print(roamlet.call_async(lambda: "ran"))
    """)
    assert printed == "ran"


@pytest.mark.backends("native", reason="greenlet refuses every call while the interpreter ends")
def test_a_finalizer_that_runs_while_the_interpreter_is_taken_down_is_refused():
    """CPython 3.11 starts a thread that never runs, and waits for it."""
    printed = output_of("""
        import roamlet
        class Dying:
            def __init__(self):
                self.me = self
            def __del__(self, call_async=roamlet.call_async, print=print):
                try:
                    call_async(int)
                except RuntimeError as error:
                    print(error)
        kept = Dying()
    """)
    assert printed == "no worker thread can be started any more: the interpreter is being taken down"


def test_a_worker_that_a_job_relies_on_is_at_no_moment_said_to_rest(monkeypatch):
    """The job comes when the worker has found none and is still the searcher: who has brought it sends for no other one."""
    own = pool_module.Pool()
    worker = pool_module.Worker(own, "not started")
    own.workers.add(worker)
    own.searcher = worker
    said: list[tuple[bool, bool]] = []
    monkeypatch.setattr(
        pool_module, "mark_service_thread", lambda rests=True, *_: said.append((rests, own.searcher is worker))
    )
    own.jobs.append([roamlet.core.Waiter(), int, contextvars.copy_context()])
    assert worker._rest()
    assert said == [(False, True)]
    assert (own.idle, own.searcher) == ([], worker)
    own.workers.clear()  # it refers to the pool
    own.searcher = None


def test_a_worker_that_no_job_relies_on_is_said_to_rest(monkeypatch):
    own = pool_module.Pool()
    own.idle_seconds = 0.01
    worker = pool_module.Worker(own, "not started")
    own.workers.add(worker)
    said: list[bool] = []
    monkeypatch.setattr(pool_module, "mark_service_thread", lambda rests=True, *_: said.append(rests))
    assert not worker._rest()
    assert said == [True, False]
    own.workers.clear()
