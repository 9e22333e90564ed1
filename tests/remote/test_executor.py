"""roamlet.executor: the contract of concurrent.futures, in contexts of this machine and over ssh."""

import asyncio
import concurrent.futures
import gc
import math
import operator
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from fractions import Fraction

import pytest
import roamlet_executor_sent as sent

import roamlet
from roamlet import remote
from roamlet.executor import BrokenExecutor, Executor


@pytest.fixture
def executor():
    with Executor(["local", "local"], each=2) as made:
        yield made


def test_calls_run_in_the_contexts_and_give_what_they_return_or_raise(executor):
    pids = {executor.submit(os.getpid).result() for _ in range(8)}
    assert os.getpid() not in pids
    assert executor.submit(pow, 2, 10).result() == 1024
    assert executor.submit(int, "ff", base=16).result() == 255
    failed = executor.submit(math.sqrt, -1)
    error = failed.exception()
    assert isinstance(error, ValueError) and "math.sqrt" in error.__notes__[0]
    with pytest.raises(ValueError, match="math domain error"):
        failed.result()


def test_each_context_has_so_many_calls_at_a_time():
    with Executor(["local", "local"], each=3) as executor:
        most = max(executor.map(sent.most_at_once, [0.05] * 24))
    assert most == 3


def test_map_keeps_the_order_whatever_the_chunks(executor):
    expected = [x**y for x, y in zip(range(20), range(5, 25), strict=True)]
    for options in ({}, {"chunksize": 7}, {"buffersize": 3}, {"chunksize": 4, "buffersize": 6}, {"timeout": 20}):
        assert list(executor.map(pow, range(20), range(5, 25), **options)) == expected
    assert list(executor.map(pow, range(3), range(9))) == [1, 1, 4]
    assert list(executor.map(pow)) == []


def test_map_with_a_buffer_takes_items_as_results_are_asked_for(executor):
    taken = []

    def items():
        for each in range(10):
            taken.append(each)
            yield each

    results = executor.map(operator.neg, items(), buffersize=2)
    assert taken == [0, 1]
    assert next(results) == 0
    assert taken == [0, 1, 2]
    results.close()
    assert taken == [0, 1, 2]


def test_an_error_in_map_is_raised_in_its_place_and_cancels_the_rest():
    with Executor(["local"]) as executor:
        results = executor.map(sent.fails_at_two, range(100))
        assert [next(results), next(results)] == [0, 1]
        with pytest.raises(ZeroDivisionError):
            next(results)
        assert executor.submit(sent.calls).result() < 50


def test_map_has_a_time_limit(executor):
    results = executor.map(time.sleep, [0, 5], timeout=0.3)
    assert next(results) is None
    with pytest.raises(TimeoutError):
        next(results)


def test_what_waits_can_be_cancelled_and_what_runs_cannot():
    with Executor(["local"]) as executor:
        running = executor.submit(time.sleep, 0.3)
        waiting = executor.submit(os.getpid)
        assert running.running() and not running.cancel()
        assert waiting.cancel() and waiting.cancelled()
        with pytest.raises(concurrent.futures.CancelledError):
            waiting.result()
        assert executor.submit(os.getpid).result()


def test_shutdown_lets_run_what_was_submitted_or_cancels_it():
    executor = Executor(["local"])
    contexts = executor.contexts
    futures = [executor.submit(pow, 2, n) for n in range(10)]
    executor.shutdown()
    assert [future.result() for future in futures] == [2**n for n in range(10)]
    assert all(context.closed for context in contexts)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(os.getpid)
    executor.shutdown()

    executor = Executor(["local"])
    running, *waiting = [executor.submit(time.sleep, 0.2) for _ in range(5)]
    executor.shutdown(cancel_futures=True)
    assert running.result() is None and all(future.cancelled() for future in waiting)


def test_shutdown_without_waiting_closes_the_contexts_when_all_is_done():
    executor = Executor(["local"])
    (context,) = executor.contexts
    future = executor.submit(sent.after, 0.2, "done")
    executor.shutdown(wait=False)
    assert future.result() == "done"
    ends(lambda: context.closed)


def test_contexts_are_closed_although_a_caller_of_shutdown_is_killed():
    executor = Executor(["local"])
    (context,) = executor.contexts
    future = executor.submit(sent.after, 0.2, "done")
    waiting = roamlet.tasklet(executor.shutdown)()
    roamlet.schedule()
    ends(future.done)  # without a switch: it is woken, and has not closed anything
    waiting.kill()
    ends(lambda: context.closed)


def test_an_executor_that_nobody_holds_ends_when_its_calls_have():
    executor = Executor(["local"])
    (context,) = executor.contexts
    future = executor.submit(sent.after, 0.1, "done")
    gone = weakref.ref(executor)
    del executor
    assert gone() is None
    assert future.result() == "done"
    ends(lambda: context.closed)


def test_contexts_of_others_stay_open():
    with remote.local() as context:
        with Executor([context], each=2) as executor:
            assert executor.submit(os.getpid).result() == context.facts.pid
        assert context.call(os.getpid) == context.facts.pid
        with Executor([context, "local", lambda: remote.local(name="third")]) as executor:
            assert [each.name for each in executor.contexts] == ["local", "local", "third"]
        assert not context.closed


def test_the_initializer_runs_once_in_each_context_before_any_call():
    with Executor(["local", "local"], each=2, initializer=sent.begin, initargs=("ready",)) as executor:
        assert set(executor.map(sent.begun, range(8))) == {("ready", 1)}


def test_an_initializer_that_fails_breaks_the_executor(caplog):
    executor = Executor(["local"], initializer=math.sqrt, initargs=(-1,))
    error = executor.submit(os.getpid).exception()
    assert isinstance(error, BrokenExecutor)
    assert "initializer failed in 'local'" in str(error) and "math domain error" in str(error)
    with pytest.raises(BrokenExecutor, match="initializer failed"):
        executor.submit(os.getpid)
    executor.shutdown()
    assert "the initializer failed" in caplog.text


def test_a_context_that_dies_breaks_its_calls_and_the_others_go_on():
    with Executor(["local", "local"]) as executor:
        dying = executor.submit(sent.die, 0.2)
        others = [executor.submit(pow, 2, n) for n in range(20)]
        error = dying.exception()
        assert isinstance(error, BrokenExecutor) and "'local' ended while it ran the call" in str(error)
        assert isinstance(error.__cause__, remote.ContextDied)
        with pytest.raises(BrokenExecutor):
            dying.result()
        assert [other.result() for other in others] == [2**n for n in range(20)]
        assert len(executor.contexts) == 1


def test_when_the_last_context_dies_all_that_waits_is_broken():
    with Executor(["local"]) as executor:
        futures = [executor.submit(sent.die, 0.1), *(executor.submit(os.getpid) for _ in range(3))]
        for future in futures:
            with pytest.raises(BrokenExecutor):
                future.result()
        with pytest.raises(BrokenExecutor, match="no context is left"):
            executor.submit(os.getpid)


def test_an_idempotent_call_is_made_again_elsewhere(tmp_path):
    marker = tmp_path / "was here"
    with Executor(["local", "local"], idempotent=True) as executor:
        assert executor.submit(sent.die_once, str(marker)).result() == "second"
        assert len(executor.contexts) == 1


def test_many_kills_lose_no_result():
    with Executor(["local"] * 4, idempotent=True) as executor:
        futures = [executor.submit(sent.after, 0.005, n) for n in range(200)]
        for context in executor.contexts[:3]:
            os.kill(context.facts.pid, signal.SIGKILL)
            time.sleep(0.05)
        assert [future.result() for future in futures] == list(range(200))


def test_results_are_data_and_pickles_are_a_grant():
    with Executor(["local"]) as executor, pytest.raises(remote.CannotTravel, match="Thing"):
        executor.submit(sent.Thing, 5).result()
    with Executor(["local"], pickle=True) as executor:
        thing = executor.submit(sent.Thing, 5).result()
        assert (type(thing), thing.number) == (sent.Thing, 5)
        assert list(executor.map(Fraction, range(5), chunksize=2)) == [Fraction(n) for n in range(5)]
        error = executor.submit(sent.raises_its_own).exception()
        assert type(error) is sent.Own and error.args == ("own", 5)
        assert "raises_its_own" in error.__notes__[0]


def test_what_cannot_travel_is_an_error_of_its_future(executor):
    error = executor.submit(len, threading.Lock()).exception()
    assert isinstance(error, remote.CannotTravel)
    assert executor.submit(len, "abc").result() == 3


def test_tasklets_wait_for_results_without_their_thread(executor):
    order = []

    def asks(seconds):
        executor.submit(time.sleep, seconds).result()
        order.append(seconds)

    for seconds in (0.3, 0.1):
        roamlet.tasklet(asks)(seconds)
    roamlet.run()
    assert order == [0.1, 0.3]


def test_threads_and_coroutines_submit_too(executor):
    async def main():
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(executor, pow, 2, n) for n in range(20)))

    assert asyncio.run(main()) == [2**n for n in range(20)]
    found = []
    threads = [threading.Thread(target=lambda n=n: found.append(executor.submit(pow, 3, n).result())) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [3**n for n in range(8)]


def test_the_functions_of_the_standard_library_take_its_futures(executor):
    futures = [executor.submit(sent.after, 0.02 * n, n) for n in (3, 1, 2)]
    done, rest = concurrent.futures.wait(futures, timeout=20)
    assert (len(done), rest) == (3, set())
    failed = [executor.submit(math.sqrt, -1), executor.submit(time.sleep, 0.5)]
    done, rest = concurrent.futures.wait(failed, return_when=concurrent.futures.FIRST_EXCEPTION)
    assert done == {failed[0]}
    assert sorted(each.result() for each in concurrent.futures.as_completed(futures)) == [1, 2, 3]


def test_callbacks_may_block_and_submit(executor):
    asked = roamlet.sync.Queue()

    def then(future):
        asked.put(executor.submit(operator.neg, future.result()).result())

    executor.submit(pow, 2, 3).add_done_callback(then)
    assert asked.get(timeout=20) == -8


def test_shutdown_waits_for_callbacks(executor):
    called = []

    def slow(future):
        roamlet.sleep(0.02)
        called.append(future.result())

    with Executor(["local"]) as other:
        for n in range(10):
            other.submit(abs, -n).add_done_callback(slow)
    assert sorted(called) == list(range(10))


def test_a_callback_may_shut_the_executor_down():
    for function, argument in ((abs, -5), (math.sqrt, -1), (len, threading.Lock())):
        executor = Executor(["local"])
        names = roamlet.sync.Queue()

        def then(future, executor=executor, names=names):
            executor.shutdown()
            names.put(roamlet.core.os_threads.current_thread().name)

        busy = executor.submit(time.sleep, 0.2)
        executor.submit(function, argument).add_done_callback(then)
        assert names.get(timeout=20) == "roamlet-executor-callbacks"
        executor.shutdown()
        assert busy.done()


def test_a_callback_that_exits_ends_nothing_else(caplog):
    with Executor(["local"]) as executor:
        asked = roamlet.sync.Queue()
        executor.submit(abs, -1).add_done_callback(lambda future: sys.exit("no more"))
        executor.submit(abs, -2).add_done_callback(lambda future: asked.put(future.result()))
        assert asked.get(timeout=20) == 2
    assert "no more" in caplog.text


def test_shutdown_cancels_what_is_to_be_made_again():
    executor = Executor(["local", "local"], idempotent=True)
    futures = [executor.submit(time.sleep, 0.5), executor.submit(time.sleep, 0.5)]
    executor.submit(time.sleep, 0)
    os.kill(executor.contexts[0].facts.pid, signal.SIGKILL)
    ends(lambda: len(executor.contexts) == 1)
    executor.shutdown(cancel_futures=True)
    assert all(future.done() for future in futures)
    errors = [future.exception() for future in futures if not future.cancelled()]
    assert sum(error is None for error in errors) == 1
    assert all(isinstance(error, BrokenExecutor | None) for error in errors)


def test_an_error_that_pickle_cannot_make_again_comes_as_any_other():
    with Executor(["local"], pickle=True) as executor:
        error = executor.submit(sent.raises_odd).exception()
        assert isinstance(error, remote.RemoteError) and "code 3 at here" in str(error)


def test_wait_sees_the_error_in_a_pickle():
    with Executor(["local"], each=2, pickle=True) as executor:
        futures = [executor.submit(sent.raises_its_own), executor.submit(sent.after, 0.3, 1)]
        done, rest = concurrent.futures.wait(futures, return_when=concurrent.futures.FIRST_EXCEPTION)
        assert (done, rest) == ({futures[0]}, {futures[1]})


def test_classes_of_the_main_script_come_back(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from roamlet.executor import Executor\n\n\n"
        "class Point:\n    def __init__(self, x):\n        self.x = x\n\n\n"
        "def point():\n    return Point(5)\n\n\n"
        "if __name__ == '__main__':\n"
        "    with Executor(['local'], pickle=True) as executor:\n"
        "        made = executor.submit(point).result()\n"
        "        print(type(made) is Point, made.x)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("True 5\n", "")


def test_a_deadlock_is_seen_beside_an_executor_with_nothing_to_do(executor):
    executor.submit(os.getpid).result()
    with pytest.raises(roamlet.Deadlock):
        roamlet.channel().receive()


def test_one_context_that_is_given_twice_is_initialized_once():
    with (
        remote.local() as context,
        Executor([context, context], initializer=sent.begin, initargs=("ready",)) as executor,
    ):
        assert set(executor.map(sent.begun, range(8))) == {("ready", 1)}


def test_a_forked_child_is_told(executor):
    executor.submit(os.getpid).result()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            executor.submit(os.getpid)
        except remote.ForkedContext as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as said:
        assert "belongs to the process that this one was forked from" in said.read()


def test_what_was_submitted_runs_although_the_program_ends():
    program = (
        "import time\n"
        "from roamlet.executor import Executor\n"
        "executor = Executor(['local'])\n"
        "executor.submit(time.sleep, 0.3)\n"  # from 3.12 on no thread can be started by the time it has ended
        "future = executor.submit(int.__add__, 2, 3)\n"
        "future.add_done_callback(lambda done: print('done', done.result(), flush=True))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done 5\n", "")


@pytest.mark.parametrize(
    ("arguments", "options", "error", "match"),
    [
        (("alpha",), {}, TypeError, r"list of targets, even for a single one: \['alpha'\]"),
        (([],), {}, ValueError, "needs a target"),
        ((["local"],), {"each": 0}, ValueError, "each must be a number of calls, 1 or more, not 0"),
        ((["local"],), {"each": True}, ValueError, "each must be"),
        ((["local"],), {"initializer": 5}, TypeError, "initializer must be a function"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_opened(arguments, options, error, match):
    with pytest.raises(error, match=match):
        Executor(*arguments, **options)


def test_a_host_that_cannot_be_opened_closes_the_others():
    opened = []

    def local():
        opened.append(remote.local())
        return opened[-1]

    def broken():
        raise remote.ConnectError("no way there")

    with pytest.raises(remote.ConnectError, match="no way there"):
        Executor([local, broken])
    assert all(context.closed for context in opened)
    with remote.local() as closed:
        pass
    with pytest.raises(remote.ContextClosed, match="runs no calls for an executor"):
        Executor([closed])


def test_bad_calls_are_refused(executor):
    with pytest.raises(TypeError, match="cannot be called"):
        executor.submit(5)
    with pytest.raises(ValueError, match="chunksize must be 1 or more, not 0"):
        executor.map(pow, [1], chunksize=0)
    with pytest.raises(TypeError, match="buffersize must be a number of items"):
        executor.map(pow, [1], buffersize="2")


def test_results_are_not_kept(executor):
    future = executor.submit(sent.after, 0, "text")
    gone = weakref.ref(future)
    assert future.result() == "text"
    del future
    assert not gc.isenabled()
    ends(lambda: gone() is None)


def test_calls_go_to_any_target(target):
    with Executor([target.open()], each=2) as executor:
        assert list(executor.map(pow, range(6), [2] * 6, chunksize=2)) == [0, 1, 4, 9, 16, 25]
        assert executor.submit(os.getpid).result() > 0
    with Executor([target.open()], pickle=True) as executor:
        assert executor.submit(Fraction, 1, 2).result() == Fraction(1, 2)


def ends(condition):
    """Wait until it holds."""
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_map_keeps_no_result_that_it_has_given():
    with Executor(["local"], pickle=True) as executor:
        for made in executor.map(sent.Kept, range(3)):
            gone = weakref.ref(made)
            del made
            assert gone() is None
