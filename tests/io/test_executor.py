"""WorkerExecutor: concurrent.futures over the worker threads, for tasklets and for threads."""

import concurrent.futures as standard
import contextvars
import threading
import weakref

import pytest

import roamlet
from roamlet.io import workers
from roamlet.io.executor import WorkerExecutor
from roamlet.sync import futures
from tests.core._scripts import output_of
from tests.io._workers import Gate, all_rest, started, wait_until

pytestmark = pytest.mark.usefixtures("workers_at_first")


def test_calls_run_on_workers_and_their_futures_are_concurrent_futures():
    with WorkerExecutor() as executor:
        future = executor.submit(divmod, 7, 2)
        assert isinstance(future, standard.Future)
        assert isinstance(executor, standard.Executor)
        assert future.result(30) == (3, 1)
        assert "roamlet-service-worker" in executor.submit(threading.current_thread).result().name
        assert executor.submit(int, "ff", base=16).result() == 255
        assert list(executor.map(pow, [2, 3], [3, 2])) == [8, 9]
        assert standard.wait([executor.submit(int)], timeout=30).not_done == set()
        assert {
            each.result() for each in futures.as_completed([executor.submit(abs, -1), executor.submit(abs, 2)])
        } == {1, 2}


def test_an_error_is_the_futures_and_leaves_no_cycle():
    alive = []

    def fails() -> None:
        local = threading.Event()
        alive.append(weakref.ref(local))
        raise ValueError("from the call")

    with WorkerExecutor() as executor:
        future = executor.submit(fails)
        with pytest.raises(ValueError, match="from the call"):
            future.result()
        del future
        wait_until(all_rest)
    assert alive[0]() is None


@pytest.mark.parametrize("kind", [SystemExit, roamlet.TaskletExit, KeyboardInterrupt])
def test_whatever_a_call_raises_the_others_go_on(kind):
    def raises() -> None:
        raise kind

    with WorkerExecutor(max_workers=1) as executor:
        first, second = executor.submit(raises), executor.submit(lambda: "done")
        assert second.result() == "done"
        assert first.exception() is not None


def test_waiting_lets_other_tasklets_run():
    gate, order = Gate(), []
    with WorkerExecutor() as executor:
        future = executor.submit(gate)
        roamlet.tasklet(lambda: (order.append("another tasklet"), gate.open()))()
        order.append(future.result())
    assert order == ["another tasklet", "through"]


def test_waiting_for_several_is_no_deadlock_even_before_a_worker_runs():
    with WorkerExecutor() as executor:
        for _ in range(2000):
            done, not_done = futures.wait([executor.submit(int) for _ in range(3)])
            assert (len(done), not_done) == (3, set())


def test_no_more_than_max_workers_run_at_once_and_calls_begin_in_order():
    gate, order = Gate(), []
    with WorkerExecutor(max_workers=2) as executor:
        blocked = [executor.submit(gate) for _ in range(2)]
        gate.wait_for(2)
        rest = [executor.submit(order.append, number) for number in range(5)]
        assert workers.status().queued == 0
        assert order == []
        gate.open()
    assert sorted(order) == list(range(5))
    assert all(future.done() for future in blocked + rest)


def test_the_callers_context_is_seen():
    variable = contextvars.ContextVar("variable")
    token = variable.set("the caller's")
    with WorkerExecutor() as executor:
        assert executor.submit(variable.get).result() == "the caller's"
    variable.reset(token)


def test_what_has_not_begun_can_be_cancelled():
    gate, calls = Gate(), []
    with WorkerExecutor(max_workers=1) as executor:
        running, waiting = executor.submit(gate), executor.submit(calls.append, "made")
        gate.wait_for()
        assert (running.cancel(), waiting.cancel(), waiting.cancelled()) == (False, True, True)
        gate.open()
    assert (running.result(), calls) == ("through", [])
    with pytest.raises(standard.CancelledError):
        waiting.result()


def test_shutdown_takes_no_more_and_cancels_if_asked():
    gate = Gate()
    executor = WorkerExecutor(max_workers=1)
    running, waiting = executor.submit(gate), executor.submit(int)
    gate.wait_for()
    executor.shutdown(wait=False, cancel_futures=True)
    assert waiting.cancelled()
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        executor.submit(int)
    leaving = started(executor.shutdown)
    assert leaving.alive
    gate.open()
    roamlet.run()
    assert (leaving.alive, running.result()) == (False, "through")
    WorkerExecutor().shutdown()


@pytest.mark.parametrize(("bad", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), ("2", TypeError)])
def test_a_number_of_workers_that_makes_no_sense_is_refused(bad, error):
    with pytest.raises(error):
        WorkerExecutor(max_workers=bad)


def test_threads_without_tasklets_use_it_too():
    results = []

    def thread(base: int) -> None:
        with WorkerExecutor(max_workers=3) as executor:
            results.extend(executor.map(lambda number: base + number, range(50)))

    threads = [threading.Thread(target=thread, args=(100 * number,)) for number in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(results) == [base + number for base in (0, 100, 200) for number in range(50)]


def test_when_no_thread_can_be_started_the_futures_say_so(monkeypatch):
    def no_thread(self):
        raise RuntimeError("can't start new thread")

    executor = WorkerExecutor(max_workers=1)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        future = executor.submit(int)
        with pytest.raises(RuntimeError, match="no worker thread can be started"):
            future.result()
    assert executor.submit(int).result() == 0
    executor.shutdown()


def test_a_fork_loses_the_calls_in_the_child_and_says_so():
    printed = output_of("""
        import os, threading, warnings, roamlet, roamlet.io as io
        from roamlet.io.executor import WorkerExecutor
        warnings.simplefilter("ignore")
        opened = threading.Event()
        executor = WorkerExecutor(max_workers=1)
        futures = [executor.submit(opened.wait), executor.submit(lambda: "parent's")]
        pid = os.fork()
        if pid == 0:
            for future in futures:
                print(str(future.exception(30))[:43], flush=True)
            print(executor.submit(lambda: "child's own").result(30), flush=True)
            os._exit(0)
        io.wait_process(pid)
        opened.set()
        print([future.result(30) for future in futures])
    """)
    lost = "the job of a worker thread was lost in a fo"
    assert printed.splitlines() == [lost, lost, "child's own", """[True, "parent's"]"""]


def test_calls_that_block_get_a_thread_each():
    barrier = threading.Barrier(20)
    with WorkerExecutor() as executor:
        assert sorted(executor.map(lambda _: barrier.wait(30), range(20))) == list(range(20))
