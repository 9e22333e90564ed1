"""stacklesslib.futures: executors and the futures that they give."""

import pytest

import roamlet
from roamlet import stackless
from roamlet.stackless._path.stacklesslib import errors, futures

EXECUTORS = {
    "tasklets": lambda: futures.TaskletExecutor(2),
    "threads": lambda: futures.ThreadPoolExecutor(2),
    "simple": lambda: futures.tasklet_executor,
    "immediate": lambda: futures.immediate_tasklet_executor,
    "direct": lambda: futures.direct_executor,
    "a thread each": lambda: futures.thread_executor,
}


@pytest.mark.parametrize("name", EXECUTORS)
def test_an_executor_gives_results_and_errors(name):
    executor = EXECUTORS[name]()
    with executor:
        good, bad = executor.submit(divmod, 7, 2), executor.submit_args(divmod, (7, 0))
        assert (good.result(), good.exception(), good.done()) == ((3, 1), None, True)
        with pytest.raises(ZeroDivisionError):
            bad.result()
        assert bad.exception()[0] is ZeroDivisionError
        assert list(executor.map(divmod, (7, 9), (2, 2))) == [(3, 1), (4, 1)]
        done, rest = futures.wait([good, bad])
        assert (done, rest) == ({good, bad}, set())
    bad._result = None  # what "direct" runs it runs in this very frame, which its traceback leads to


def test_a_bounded_executor_runs_so_many_at_once_and_refuses_jobs_after_its_end():
    executor, log = futures.TaskletExecutor(2), []

    def job(name):
        log.append(name)
        roamlet.sleep(1)

    made = [executor.submit(job, name) for name in "abc"]
    stackless.run()
    assert log == ["a", "b"]
    assert [future.running() for future in made] == [True, True, False]
    executor.shutdown()
    assert log == ["a", "b", "c"]
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(job, "d")


def test_wait_returns_when_it_was_told_to():
    executor = futures.tasklet_executor
    slow, fast, failing = (
        executor.submit(function, n) for function, n in ((roamlet.sleep, 3), (roamlet.sleep, 1), (ord, "ab"))
    )
    done, rest = futures.wait([slow, fast, failing], return_when=futures.FIRST_EXCEPTION)
    assert (done, rest) == ({failing}, {slow, fast})
    done, rest = futures.wait([slow, fast], return_when=futures.FIRST_COMPLETED)
    assert (done, rest) == ({fast}, {slow})
    done, rest = futures.wait([slow, fast], timeout=0.001)
    assert (done, rest) == ({fast}, {slow})
    assert futures.any_result([slow, fast]) is None
    assert futures.all_results([slow, fast]) == [None, None]
    assert list(futures.as_completed([slow])) == [slow]
    assert futures.any_result([]) is None
    failing._result = None


def test_a_future_that_is_cancelled_ends_the_tasklet_that_works_on_it():
    log = []

    def working():
        try:
            roamlet.sleep(10)
        finally:
            log.append("ended")

    future = futures.tasklet_executor.submit(working)
    with pytest.raises(errors.TimeoutError):
        future.result(0.5)
    assert future.cancel(("why",)) is True
    stackless.run()
    assert log == ["ended"]
    assert future.cancelled()
    with pytest.raises(errors.CancelledError, match="why"):
        future.result()
    with pytest.raises(errors.CancelledError, match="why"):
        future.exception()


def test_a_future_that_is_cancelled_before_it_begins_does_not():
    log = []
    future = futures.tasklet_executor.submit(log.append, "begun")
    future.cancel()
    stackless.run()
    assert (log, future.done(), future.running()) == ([], True, False)
    assert futures.null_executor.submit(log.append, "forgotten").done() is False
    future.set_result("too late")
    assert future.cancelled()
