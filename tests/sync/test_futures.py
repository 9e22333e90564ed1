"""Futures for tasklets: what CPython's own tests of concurrent.futures do not ask (test_standard_futures.py runs those)."""

import concurrent.futures
import threading
import weakref

import pytest

import roamlet
from roamlet import core
from roamlet.sync import futures
from roamlet.sync.futures import Future, TaskletExecutor
from tests.core._threads import in_thread


class Odd(Exception):
    pass


def fails():
    raise Odd("failed")


def test_the_errors_and_constants_are_those_of_concurrent_futures():
    for name in ("CancelledError", "TimeoutError", "InvalidStateError", "BrokenExecutor", "Executor"):
        assert getattr(futures, name) is getattr(concurrent.futures, name)
    for name in ("FIRST_COMPLETED", "FIRST_EXCEPTION", "ALL_COMPLETED"):
        assert getattr(futures, name) == getattr(concurrent.futures, name)
    assert isinstance(Future(), concurrent.futures.Future)


def test_waiting_for_a_result_lets_others_run():
    future, log = Future(), []
    roamlet.tasklet(lambda: log.append(future.result()))()
    roamlet.schedule()
    log.append("another runs")
    future.set_result(5)
    roamlet.run()
    assert log == ["another runs", 5]


def test_a_result_that_is_set_in_another_thread():
    future = Future()
    thread = threading.Thread(target=lambda: future.set_result("across"))
    thread.start()
    assert future.result() == "across"
    thread.join()


def test_many_wait_in_several_threads():
    future = Future()
    threads = [threading.Thread(target=future.result) for _ in range(4)]
    for thread in threads:
        thread.start()
    got = []
    for _ in range(4):
        roamlet.tasklet(lambda: got.append(future.result()))()
    roamlet.schedule()
    future.set_result(1)
    roamlet.run()
    for thread in threads:
        thread.join()
    assert got == [1] * 4


def test_time_outs_name_the_future_and_the_limit(clock):
    future = Future()
    for ask in (future.result, future.exception):
        with pytest.raises(TimeoutError, match=r"<Future at 0x\w+ state=pending> has no result within 2\.5 seconds"):
            ask(2.5)
    assert clock.jumps == [2.5, 2.5]


def test_a_cancelled_one_says_so():
    future = Future()
    roamlet.tasklet(future.cancel)()
    with pytest.raises(concurrent.futures.CancelledError, match=r"state=cancelled> was cancelled: it has no result"):
        future.result()


def test_whoever_is_killed_while_waiting_leaves_no_trace():
    future = Future()
    waiting = roamlet.tasklet(future.result)()
    roamlet.schedule()
    waiting.kill()
    assert future._condition._waiters == []
    future.set_result(1)
    assert future.result() == 1


def test_two_who_ask_never_share_a_traceback_and_exception_is_the_object():
    future, errors = Future(), []
    error = Odd("once")
    future.set_exception(error)
    for _ in range(2):
        try:
            future.result()
        except Odd as caught:
            errors.append(caught)
    assert future.exception() is error
    assert error.__traceback__ is None
    assert len({id(each) for each in (error, *errors)}) == 3
    errors.clear()


def test_a_future_that_a_frame_of_its_error_refers_to_makes_no_cycle():
    gone = []

    def asks():
        future = Future()
        gone.append(weakref.ref(future))
        executor = TaskletExecutor()
        own = executor.submit(fails)
        gone.append(weakref.ref(own))
        future.set_exception(Odd())
        for each in (future, own):
            try:
                each.result()
            except Odd as error:
                gone.append(weakref.ref(error))
        del each

    asks()
    assert [ref() for ref in gone] == [None] * 4


def test_an_error_keeps_cause_context_and_the_place_where_it_was_raised():
    def raises():
        try:
            fails()
        except Odd as error:
            raise ValueError("because") from error

    with TaskletExecutor() as executor, pytest.raises(ValueError, match="because") as caught:
        executor.submit(raises).result()
    assert (type(caught.value.__cause__), caught.traceback[-1].name) == (Odd, "raises")
    del caught


# ---- wait and as_completed ----


def test_wait_leaves_no_trace_in_futures_however_it_ends(clock):
    pending, done = Future(), Future()
    done.set_result(1)
    assert futures.wait([pending, done], timeout=1) == ({done}, {pending})
    waiting = roamlet.tasklet(futures.wait)([pending])
    roamlet.schedule()
    waiting.kill()
    assert pending._waiters == []


def test_wait_refuses_what_is_no_future():
    spawned = roamlet.spawn(int)
    for wait in (futures.wait, lambda made: next(futures.as_completed(made))):
        with pytest.raises(
            TypeError, match=r"takes futures, which submit\(\) .* not <.*Spawned int.*wait\(\) of its own"
        ):
            wait([spawned])
    spawned.join()


def test_wait_takes_futures_of_both_kinds_and_none_at_all():
    ours, theirs = Future(), concurrent.futures.Future()
    thread = threading.Thread(target=lambda: (theirs.set_result(1), ours.set_result(2)))
    thread.start()
    assert futures.wait([ours, theirs]).done == {ours, theirs}
    thread.join()
    assert futures.wait([]) == (set(), set())
    assert list(futures.as_completed([])) == []


def test_the_standard_wait_takes_our_futures():
    future = Future()
    thread = threading.Thread(target=lambda: future.set_result(1))
    thread.start()
    assert concurrent.futures.wait([future]).done == {future}
    thread.join()


def test_wait_refuses_an_unknown_condition():
    with pytest.raises(ValueError, match="Invalid return condition: 'SOON'; use ALL_COMPLETED, FIRST_COMPLETED or"):
        futures.wait([Future()], return_when="SOON")


@pytest.mark.parametrize("when", [futures.FIRST_COMPLETED, futures.FIRST_EXCEPTION])
def test_wait_returns_at_once_when_there_is_enough_already(when):
    failed, pending = Future(), Future()
    failed.set_exception(Odd())
    assert futures.wait([failed, pending], return_when=when) == ({failed}, {pending})


def test_wait_for_the_first_error_passes_results_by():
    one, two, three = Future(), Future(), Future()
    one.set_result(1)
    log = []
    roamlet.tasklet(lambda: log.append(futures.wait([one, two, three], return_when=futures.FIRST_EXCEPTION)))()
    roamlet.schedule()
    assert log == []
    two.set_exception(Odd())
    roamlet.run()
    assert log == [({one, two}, {three})]


def test_as_completed_yields_in_the_order_of_completion():
    all_of_them = [Future() for _ in range(4)]
    got = []

    def collect():
        for future in futures.as_completed(all_of_them):
            got.append(future.result())

    roamlet.tasklet(collect)()
    roamlet.schedule()
    for index in (2, 0):
        all_of_them[index].set_result(index)
    roamlet.schedule()
    assert got == [2, 0]
    for index in (3, 1):
        all_of_them[index].set_result(index)
    roamlet.run()
    assert got == [2, 0, 3, 1]


def test_as_completed_that_is_given_up_leaves_no_trace():
    pending, done = Future(), Future()
    done.set_result(1)
    iterator = futures.as_completed([pending, done])
    assert next(iterator) is done
    iterator.close()
    assert (pending._waiters, done._waiters) == ([], [])


# ---- the executor ----


def test_calls_run_in_tasklets_of_the_thread_that_made_it():
    with TaskletExecutor() as executor:
        ident = in_thread(lambda: executor.submit(threading.get_ident))
        assert ident.result() == threading.get_ident()
        assert executor.submit(roamlet.getcurrent).result() is not roamlet.getcurrent()


def test_no_more_than_max_workers_run_at_once():
    running, most = [], []

    def call(number):
        running.append(number)
        most.append(len(running))
        roamlet.sleep(0)
        running.remove(number)
        return number

    with TaskletExecutor(max_workers=3) as executor:
        assert list(executor.map(call, range(20))) == list(range(20))
    assert max(most) == 3
    most.clear()
    with TaskletExecutor() as executor:
        assert list(executor.map(call, range(20))) == list(range(20))
    assert max(most) == 20


def test_map_gives_up_at_its_time_out_and_cancels_what_has_not_begun(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    gate, begun = roamlet.channel(), []

    def call(number):
        begun.append(number)
        gate.receive()

    with TaskletExecutor(max_workers=1) as executor:
        results = executor.map(call, range(3), timeout=5)
        roamlet.schedule()
        now[0] += 10
        with pytest.raises(TimeoutError):
            next(results)
        gate.send(None)
    assert begun == [0]


def test_leaving_it_waits_for_all_calls():
    log = []
    with TaskletExecutor(max_workers=2) as executor:
        for number in range(5):
            executor.submit(lambda number=number: (roamlet.sleep(0), log.append(number)))
    assert sorted(log) == [0, 1, 2, 3, 4]


def test_shutdown_cancels_what_has_not_begun_and_tells_who_waits():
    gate = roamlet.channel()
    executor = TaskletExecutor(max_workers=1)
    first, second = executor.submit(gate.receive), executor.submit(gate.receive)
    roamlet.schedule()
    log = []
    roamlet.tasklet(lambda: log.append(futures.wait([second]).done))()
    roamlet.schedule()
    executor.shutdown(wait=False, cancel_futures=True)
    roamlet.schedule()
    assert (log, second.cancelled(), first.running()) == ([{second}], True, True)
    gate.send("result")
    executor.shutdown()
    assert first.result() == "result"


def test_after_shutdown_it_takes_no_more_calls():
    executor = TaskletExecutor()
    executor.shutdown()
    executor.shutdown()
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        executor.submit(print)


@pytest.mark.parametrize("bad", [0, -1])
def test_a_number_of_workers_below_one_is_refused(bad):
    with pytest.raises(ValueError, match="max_workers must be greater than 0, or None for any number, not"):
        TaskletExecutor(bad)
    with pytest.raises(TypeError):
        TaskletExecutor("many")


def test_a_call_that_is_killed_has_a_cancelled_error_and_the_others_go_on():
    executor = TaskletExecutor(max_workers=1)
    gate = roamlet.channel()
    first, second = executor.submit(gate.receive), executor.submit(lambda: "second")
    roamlet.schedule()
    gate.queue.kill()
    assert second.result() == "second"
    with pytest.raises(concurrent.futures.CancelledError, match="the tasklet that ran .*receive.* was killed"):
        first.result()
    executor.shutdown()


def test_calls_of_a_thread_that_ends_are_cancelled():
    def other():
        executor = TaskletExecutor(max_workers=1)
        found = [executor.submit(roamlet.channel().receive) for _ in range(3)]
        roamlet.schedule()
        return executor, found

    executor, found = in_thread(other)
    assert [future.done() for future in found] == [True] * 3
    with pytest.raises(concurrent.futures.CancelledError):
        found[0].result()
    assert [future.cancelled() for future in found] == [False, True, True]
    with pytest.raises(RuntimeError, match="the thread that made this executor has ended"):
        executor.submit(print)
    executor.shutdown()


def test_an_executor_that_is_dropped_does_its_work_first():
    future = TaskletExecutor().submit(lambda: "done")
    assert future.result() == "done"


def test_a_work_item_runs_where_its_executor_wants():
    future = Future()
    item = futures.WorkItem(future, divmod, (7, 2), {})
    thread = threading.Thread(target=item.run)
    thread.start()
    assert future.result() == (3, 1)
    thread.join()
    cancelled = Future()
    cancelled.cancel()
    futures.WorkItem(cancelled, fails, (), {}).run()
    with pytest.raises(concurrent.futures.CancelledError):
        cancelled.result()
    assert core.getcurrent() is roamlet.getmain()
