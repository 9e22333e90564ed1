"""Calls in other tasklets and on other threads, with stacklesslib.util and stacklesslib.threadpool."""

import threading

import pytest

import roamlet
from roamlet.stackless._path.stacklesslib import errors, threadpool, util
from tests.stacklesslib.running import running


@pytest.mark.parametrize(
    "dispatcher", [util.tasklet_new, util.tasklet_run, util.tasklet_dispatcher, threadpool.DummyThreadPool().submit]
)
def test_a_call_elsewhere_gives_its_result_or_its_error(dispatcher):
    assert util.tasklet_call(divmod, (7, 2), dispatcher=dispatcher) == (3, 1)
    assert util.tasklet_call(dict, kwargs={"a": 1}, dispatcher=dispatcher) == {"a": 1}
    with pytest.raises(ZeroDivisionError):
        util.tasklet_call(divmod, (7, 0), dispatcher=dispatcher)
    assert util.call_async(lambda: "result", dispatcher) == "result"


def test_a_call_in_a_tasklet_that_is_killed_is_cancelled():
    with pytest.raises(errors.CancelledError):
        util.tasklet_call(lambda: roamlet.getcurrent().kill())


def test_a_call_that_takes_too_long_is_abandoned():
    log = []
    with pytest.raises(errors.TimeoutError):
        util.tasklet_call(roamlet.sleep, (2,), timeout=1, on_abandoned=lambda: log.append("abandoned"))
    with pytest.raises(errors.TimeoutError):
        util.call_async(lambda: roamlet.sleep(2), timeout=1, onOrphaned=lambda: log.append("orphaned"))
    util.tasklet_call(roamlet.sleep, (0,), on_abandoned=lambda: log.append("never"))
    roamlet.run()
    assert log == ["abandoned", "orphaned"]


@pytest.mark.parametrize("arguments", [{}, {"stack_size": 256 * 1024}, {"pool": threadpool.DummyThreadPool()}])
def test_a_call_on_a_thread_runs_on_another_thread_and_blocks_its_tasklet_only(arguments):
    go, log = threading.Event(), []

    def work():
        assert go.wait(30)
        return threading.get_ident()

    caller = running(lambda: log.append(threadpool.call_on_thread(work, **arguments)))
    assert caller.blocked
    go.set()
    roamlet.run()
    while caller.alive:  # a plain thread keeps nobody's run() going
        roamlet.schedule()
    assert log != [threading.get_ident()]
    with pytest.raises(ZeroDivisionError):
        threadpool.call_on_thread(divmod, (1, 0), **arguments)


def test_a_call_on_a_thread_that_nobody_waits_for_any_more_is_abandoned():
    go, begun, log = threading.Event(), threading.Semaphore(0), []

    def work():
        begun.release()
        assert go.wait(30)
        log.append("went on")

    caller = running(lambda: threadpool.call_on_thread(work, on_abandoned=lambda: log.append("abandoned")))
    assert begun.acquire(timeout=30)
    caller.kill()
    with pytest.raises(errors.TimeoutError):
        threadpool.call_on_thread(lambda: go.wait(30), timeout=0.01, on_abandoned=lambda: log.append("too late"))
    assert log == ["abandoned", "too late"]
    go.set()
    threadpool.call_on_thread(len, ("",), on_abandoned=lambda: log.append("never"))
    while "went on" not in log:
        roamlet.schedule()
    assert log == ["abandoned", "too late", "went on"]


@pytest.mark.parametrize("arguments", [{}, {"pool": threadpool.DummyThreadPool()}])
def test_a_call_on_a_thread_that_ends_itself_is_cancelled(arguments):
    def work():
        raise roamlet.TaskletExit("why")

    with pytest.raises(errors.CancelledError, match="why"):
        threadpool.call_on_thread(work, **arguments)


def test_a_pool_of_threads_runs_no_more_jobs_at_once_than_it_has_threads():
    pool = threadpool.SimpleThreadPool(2)
    entered, leave = threading.Semaphore(0), threading.Semaphore(0)
    log = []

    def job(number):
        entered.release()
        assert leave.acquire(timeout=30)
        log.append(number)

    for number in range(4):
        pool.submit(lambda number=number: job(number))
    for _ in range(2):
        assert entered.acquire(timeout=30)
    assert not entered.acquire(blocking=False)
    assert pool.threads_n == 2
    leave.release(4)
    for _ in range(2):
        assert entered.acquire(timeout=30)
    pool.shutdown()
    assert sorted(log) == [0, 1, 2, 3]
    assert pool.threads_n == 0
