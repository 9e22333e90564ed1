"""stacklesslib for old programs: its modules do what programs expect of them, on weft's own locks, time-outs and workers."""

import subprocess
import sys
import textwrap
import threading

import pytest

import weft
from weft import stackless
from weft.stackless._path.stacklesslib import app, base, errors, events, futures, locks, main, threadpool, util, wait


@pytest.fixture(autouse=True)
def clock():
    """Timers follow a clock that jumps to the next one instead of waiting: no test waits for the time of day."""
    now = [1000.0]
    weft.core.set_clock(lambda: now[0], lambda seconds: now.__setitem__(0, now[0] + seconds))
    yield now
    weft.core.set_clock()


@pytest.fixture(autouse=True)
def the_mode_of_tasklets():
    yield
    app.install_stackless()
    stackless.run()  # who was left when a test had what it wanted


def running(function, *args):
    """A tasklet that has run up to where it blocks."""
    made = weft.tasklet(function)(*args)
    stackless.run()
    return made


# -- as old programs have it


def test_an_old_program_runs_with_its_main_loop_locks_and_threads(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import stackless
            import stacklesslib.app, stacklesslib.events, stacklesslib.main, stacklesslib.wait
            from stacklesslib.app import sleep
            from stacklesslib.futures import tasklet_executor
            from stacklesslib.locks import Condition, Event, Lock
            from stacklesslib.main import mainloop
            from stacklesslib.threadpool import call_on_thread
            from stacklesslib.util import atomic, call_async, tasklet_call, timeout

            lock, ready = Lock(), Event()

            def first():
                with lock:
                    sleep(0.01)
                    print("first", call_on_thread(lambda: 6 * 7))
                ready.set()

            def second():
                with lock:
                    print("second", call_async(lambda: "asynchronous"))
                ready.wait()
                try:
                    with timeout(0.001):
                        stackless.channel().receive()
                except stacklesslib.errors.TimeoutError as error:
                    print(error)
                print(tasklet_executor.submit(max, 1, 2).result())
                mainloop.stop()

            def failing():
                raise ZeroDivisionError("told, and the others go on")

            stacklesslib.app.install_stackless()
            for function in first, second, failing:
                stackless.tasklet(function)()
            mainloop.run()
            """
        )
    )
    command = [sys.executable, "-W", "error", "-m", "weft.stackless", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == ["first 42", "second asynchronous", "timed out after 0.001s", "2"]
    assert done.returncode == 0
    assert done.stderr.splitlines()[-1] == "ZeroDivisionError: told, and the others go on"


@pytest.mark.parametrize("module", [app, base, errors, events, futures, locks, main, threadpool, util, wait])
def test_every_name_that_a_module_lists_is_there(module):
    names = getattr(module, "__all__", [])
    assert [name for name in names if not hasattr(module, name)] == []


@pytest.mark.parametrize("name", ["ValueEvent", "call_on_thread", "released"])
def test_names_are_still_where_older_versions_had_them(name):
    assert getattr(util, name) in (locks.ValueEvent, threadpool.call_on_thread, locks.released)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = util.nonsense


# -- locks


@pytest.mark.parametrize("kind", [locks.Lock, locks.RLock, locks.Semaphore, locks.BoundedSemaphore, locks.Condition])
def test_a_lock_excludes_other_tasklets_and_lets_them_in_again(kind):
    lock, log = kind(), []

    def other():
        with lock:
            log.append("other")

    with lock:
        waiting = running(other)
        assert waiting.blocked
        log.append("we")
    stackless.run()
    assert log == ["we", "other"]


@pytest.mark.parametrize("kind", [locks.Lock, locks.RLock, locks.Semaphore, locks.BoundedSemaphore])
@pytest.mark.parametrize(
    ("arguments", "acquired"),
    [((False,), False), ((False, None), False), ((True, 0), False), ((True, 0.5), False), ((False, 5), False)],
)
def test_a_lock_is_not_taken_twice_however_one_asks(kind, arguments, acquired):
    lock = kind()
    assert lock.acquire()
    answers = []
    running(lambda: answers.append(lock.acquire(*arguments)))
    weft.run()
    assert answers == [acquired]
    lock.release()
    assert lock.acquire(True, None) is True
    lock.release()


@pytest.mark.parametrize("forever", [None, -1, -0.5])
def test_none_and_negative_time_outs_are_no_limit(forever):
    lock, answers = locks.Lock(), []
    lock.acquire()
    event, condition = locks.Event(), locks.Condition(locks.Lock())

    def wait_for_condition():
        with condition:
            answers.append(("condition", condition.wait(forever)))

    running(lambda: answers.append(("lock", lock.acquire(True, forever))))
    running(lambda: answers.append(("event", event.wait(forever))))
    running(wait_for_condition)
    weft.sleep(3600)
    assert answers == []
    lock.release()
    event.set()
    with condition:
        condition.notify_all()
    stackless.run()
    assert sorted(answers) == [("condition", True), ("event", True), ("lock", True)]


def test_the_wake_up_of_a_killed_waiter_is_passed_on():
    lock, log = locks.Lock(), []
    lock.acquire()
    first = running(lambda: lock.acquire() and log.append("first"))
    running(lambda: lock.acquire() and log.append("second"))
    lock.release()
    first.kill()
    stackless.run()
    assert log == ["second"]


def test_a_semaphore_gives_back_many_and_a_bounded_one_not_too_many():
    semaphore, log = locks.Semaphore(0), []
    for name in "abc":
        running(lambda name=name: semaphore.acquire() and log.append(name))
    semaphore.release(count=2)
    stackless.run()
    assert log == ["a", "b"]
    semaphore.release()
    stackless.run()
    with pytest.raises(ValueError, match="too many"):
        locks.BoundedSemaphore(1).release(1)
    with pytest.raises(ValueError, match=">= 0"):
        locks.Semaphore(-1)


def test_released_gives_the_lock_back_meanwhile_whatever_happens():
    lock = locks.Lock()
    lock.acquire()
    with locks.released(lock):
        assert not lock.locked()
    assert lock.locked()
    with pytest.raises(ZeroDivisionError), locks.released(lock):
        _ = 1 // (1 if lock.locked() else 0)
    assert lock.locked()


@pytest.mark.parametrize("condition", [lambda: locks.Condition(locks.Lock()), locks.Condition, locks.NLCondition])
def test_a_condition_wakes_as_many_as_it_is_told(condition):
    condition, log = condition(), []

    def waiting(name):
        with condition:
            condition.wait()
            log.append(name)

    for name in "abc":
        running(waiting, name)
    with condition:
        condition.notify()
    stackless.run()
    assert log == ["a"]
    with condition:
        condition.notifyAll()
    stackless.run()
    assert log == ["a", "b", "c"]
    with condition:
        assert condition.wait(0.01) is False
        assert condition.wait_for(lambda: len(log), 0.01) == 3
        assert condition.wait_for(list, 0) == []


def test_an_event_can_be_waited_for_as_a_lock_and_as_a_waitable():
    event, log = locks.Event(), []
    running(lambda: log.append(event.wait()))
    running(lambda: log.append(wait.swait(event) is event))
    assert event.wait(0.01) is False
    event.set()
    stackless.run()
    assert log == [True, True]
    assert event.is_set()
    assert event.wait(0)
    assert wait.wait([event]) == [event]
    event.clear()
    assert not event.isSet()


def test_a_value_event_gives_its_value_to_all_who_wait_and_is_set_once():
    event, log = locks.ValueEvent(), []
    for _ in range(2):
        running(lambda: log.append(event.wait()))
    event.set("value")
    stackless.run()
    assert log == ["value", "value"]
    with pytest.raises(RuntimeError, match="already signaled"):
        event.set("again")
    with pytest.raises(RuntimeError, match="already signaled"):
        event.abort()
    with pytest.raises(RuntimeError, match="Already resumed"):
        event.wait()


def test_a_value_event_that_is_aborted_raises_that_now_and_later():
    event, log = locks.ValueEvent(), []

    def waiting():
        try:
            event.wait()
        except LookupError as error:
            log.append(error.args)

    running(waiting)
    event.abort(LookupError, "one", "two")
    running(waiting)
    assert log == [("one", "two")] * 2


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [((0.01,), errors.TimeoutError, "Event timed out"), ((0.01, KeyError, "late"), KeyError, "late")],
)
def test_a_value_event_aborts_itself_when_its_time_is_over(arguments, error, message):
    event, log = locks.ValueEvent(*arguments), []

    def waiting():
        try:
            event.wait()
        except error as caught:
            log.append(caught.args)

    running(waiting)
    with pytest.raises(error, match=message):
        event.wait()
    stackless.run()
    assert log == [(message,)]
    with pytest.raises(RuntimeError, match="already signaled"):
        event.set()


# -- time-outs and cancelling


def test_a_time_out_ends_what_blocks_and_a_body_that_is_done_has_none():
    for delay in (None, -1, 5):
        with util.timeout(delay):
            weft.sleep(1)
    with pytest.raises(errors.TimeoutError, match=r"timed out after 0\.5s"), util.timeout(0.5):
        weft.sleep(1)
    assert util.timeout_call(lambda: "result", 1) == (True, "result")
    good, error = util.timeout_call(lambda: weft.sleep(2), 1)
    assert (good, type(error)) == (False, errors.TimeoutError)
    with pytest.raises(errors.TimeoutError):
        util.timeout_function(1)(weft.sleep)(2)


@pytest.mark.parametrize("given", [KeyError, KeyError("instance")])
def test_a_time_out_raises_what_it_was_given(given):
    with pytest.raises(KeyError) as caught, util.timeout(0.5, exc=given):
        weft.sleep(1)
    assert caught.value is given or given is KeyError
    del caught


def test_of_nested_time_outs_each_is_told_where_it_was_set():
    log = []

    def inner():
        with util.timeout(5):
            try:
                weft.sleep(10)
            except errors.TimeoutError:
                log.append("the inner one has not expired")

    with pytest.raises(errors.TimeoutError, match="after 1s"), util.timeout(1):
        inner()
    with util.timeout(5):
        with pytest.raises(errors.TimeoutError, match="after 1s"), util.timeout(1):
            weft.sleep(10)
        weft.sleep(1)
    assert log == []


def test_a_time_out_holds_in_finally_blocks_too():
    log = []

    def tidy_up_slowly():
        try:
            weft.sleep(10)
        finally:
            try:
                weft.sleep(0.1)
            except weft.TaskletExit:
                log.append("ended at once")

    with pytest.raises(errors.TimeoutError), util.timeout(1):
        tidy_up_slowly()
    assert log == ["ended at once"]


def test_time_outs_share_a_deadline(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(util, "time", lambda: now[0])
    limits = util.Timeouts(10)
    with limits.timeout():
        now[0] = 9
    assert limits.delay() == 1
    now[0] = 11
    with pytest.raises(errors.TimeoutError):
        limits.timeout()
    with util.Timeouts(None).timeout():
        assert util.Timeouts(-1).delay() is None


def test_what_is_cancelled_ends_with_the_arguments_of_the_cancel():
    handle, log = util.cancellable(), []

    def inside():
        try:
            with handle as same:
                log.append(same is handle)
                weft.sleep(10)
        except errors.CancelledError as error:
            log.append((error.args, handle.match(error), util.cancellable().match(error)))

    running(inside)
    assert not handle.cancelled()
    handle.cancel("why", 42)
    stackless.run()
    assert log == [True, (("why", 42), True, False)]
    assert handle.cancelled()
    handle.exception = None  # it keeps its traceback, and with that this test's frames


def test_who_cancels_itself_goes_no_further():
    handle, log = util.cancellable(), []
    with pytest.raises(errors.CancelledError), handle:
        log.append(handle.cancel())
    assert log == []
    handle.exception = None
    unused = util.cancellable()
    unused.cancel()
    assert not unused.cancelled()
    with unused, pytest.raises(RuntimeError, match="in use already"):
        unused.__enter__()


# -- calls elsewhere


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
        util.tasklet_call(lambda: weft.getcurrent().kill())


def test_a_call_that_takes_too_long_is_abandoned():
    log = []
    with pytest.raises(errors.TimeoutError):
        util.tasklet_call(weft.sleep, (2,), timeout=1, on_abandoned=lambda: log.append("abandoned"))
    with pytest.raises(errors.TimeoutError):
        util.call_async(lambda: weft.sleep(2), timeout=1, onOrphaned=lambda: log.append("orphaned"))
    util.tasklet_call(weft.sleep, (0,), on_abandoned=lambda: log.append("never"))
    weft.run()
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
    weft.run()
    while caller.alive:  # a plain thread keeps nobody's run() going
        weft.schedule()
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
        weft.schedule()
    assert log == ["abandoned", "too late", "went on"]


@pytest.mark.parametrize("arguments", [{}, {"pool": threadpool.DummyThreadPool()}])
def test_a_call_on_a_thread_that_ends_itself_is_cancelled(arguments):
    def work():
        raise weft.TaskletExit("why")

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


# -- channels, locals, traps


def test_a_queue_channel_blocks_senders_only_when_it_is_full():
    full, log = util.QueueChannel(2), []
    full.send(1)
    full.send_exception(LookupError, "sent")
    assert full.balance == 2
    sender = running(lambda: full.send(3))
    assert sender.blocked
    assert full.balance == 3
    assert full.receive() == 1
    with pytest.raises(LookupError, match="sent"):
        full.receive()
    assert full.receive() == 3
    running(lambda: log.append(full.receive()))
    assert full.balance == -1
    full.send("at once")
    stackless.run()
    assert log == ["at once"]
    sender.run() if sender.alive else None
    full.close()
    assert list(full) == []


def test_iterating_a_queue_channel_empties_it_and_ends_where_it_is_closed():
    channel = util.qchannel()
    for number in range(3):
        channel.send(number)
    taken = [next(channel) for _ in range(3)]
    channel.close()
    assert (taken, list(channel)) == ([0, 1, 2], [])


def test_a_signal_channel_wakes_who_waits_and_never_blocks():
    channel, log = base.SignalChannel(), []
    channel.signal("nobody")
    for name in "abc":
        running(lambda name=name: log.append((name, channel.receive())))
    channel.signal("one")
    channel.signal_all("rest")
    stackless.run()
    assert log == [("a", "one"), ("b", "rest"), ("c", "rest")]


def test_local_values_are_the_tasklets_own_and_go_with_it():
    values, log = util.local(), []
    values.name = "main"

    def other():
        log.append(hasattr(values, "name"))
        values.name = "other"
        log.append((values.name, values.__dict__))
        del values.name
        with pytest.raises(AttributeError, match="name"):
            del values.name

    running(other)
    assert log == [False, ("other", {})]
    assert values.name == "main"


def test_traps_hold_as_long_as_the_with_does():
    with base.block_trap(), pytest.raises(RuntimeError, match="block"):
        weft.channel().receive()
    weft.tasklet(len)("another one")
    with base.switch_trap(), pytest.raises(RuntimeError, match="trap"):
        weft.schedule()
    with base.ignore_nesting(), base.atomic():
        weft.schedule()
    assert not weft.getcurrent().block_trap
    assert weft.switch_trap(0) == 0


# -- events and the main loop


@pytest.fixture
def queue(monkeypatch):
    queue = events.EventQueue()
    queue.now = 0.0
    monkeypatch.setattr(queue, "time", lambda: queue.now)
    return queue


def test_events_are_called_in_the_order_of_their_times(queue):
    log = []
    queue.call_later(2, log.append, "later")
    queue.call_later(1, log.append, "soon")
    queue.call_at(1, log.append, "and then")
    queue.call_later_threadsafe(1, log.append, "from a thread")
    queue.call_soon(lambda: queue.call_soon(log.append, "next time"))
    assert queue.is_due
    assert (queue.pump(), log) == (1, [])
    queue.now = 1.0
    assert queue.pump() == 4
    assert log == ["next time", "soon", "and then", "from a thread"]
    assert (queue.due_delay(), len(queue)) == (1.0, 1)
    queue.reschedule(10)
    queue.now = 2.0
    assert (queue.pump(), queue.is_due) == (0, False)
    queue.now = 12.0
    assert queue.pump() == 1
    assert queue.due_delay() is None
    assert queue.is_due is False


def test_an_event_can_be_cancelled_until_it_is_called_and_repeats_until_then(queue):
    log = []
    handle = queue.call_repeatedly(1, log.append, "tick")
    late = queue.call_later(2, log.append, "once")
    for now in (1.0, 2.0):
        queue.now = now
        queue.pump()
    assert log == ["tick", "tick", "once"]
    assert (handle.cancel(), late.cancel(), handle.cancel()) == (True, False, True)
    queue.now = 9.0
    assert queue.pump() == 0


def test_an_error_of_an_event_is_printed_and_the_others_are_called(queue, capsys):
    log = []
    queue.call_soon(lambda: 1 / 0)
    queue.call_soon(log.append, "called")
    assert queue.pump() == 2
    assert log == ["called"]
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_without_tasklets_the_names_of_app_are_those_of_threads():
    app.install_vanilla()
    assert isinstance(app.Event(), threading.Event)
    assert type(app.RLock()) is type(threading.RLock())
    assert isinstance(app.Condition(), threading.Condition)
    with pytest.raises(NotImplementedError, match="install_stackless"):
        app.event_queue.call_later(1, print)
    app.install_stackless()
    assert isinstance(app.Event(), locks.Event)
    assert isinstance(app.Lock(), locks.Lock)
    assert isinstance(app.Semaphore(), locks.Semaphore)
    app.event_queue.call_later(0, print).cancel()
    assert len(app.event_queue) == 0


def test_the_main_loop_pumps_calls_events_and_runs_tasklets_until_it_is_stopped(monkeypatch, capsys):
    loop, log = main.MainLoop(), []
    loop.event_queue = events.EventQueue()
    loop.max_wait_time = 0.0

    def pump():
        log.append("pump")
        if len(log) > 3:
            loop.stop()

    def failing():
        raise LookupError("printed")

    loop.add_pump(pump)
    loop.add_pump(pump)
    loop.event_queue.call_soon(log.append, "event")
    weft.tasklet(log.append)("tasklet")
    weft.tasklet(failing)()
    loop.run()
    assert log[:4] == ["pump", "event", "tasklet", "pump"]
    assert "LookupError: printed" in capsys.readouterr().err
    loop.remove_pump(pump)
    loop.remove_pump(pump)
    assert loop.pumps == []


def test_the_wait_of_the_main_loop_lets_tasklets_run_and_ends_when_it_is_interrupted(capsys):
    loop, log = main.MainLoop(), []
    loop.event_queue = events.EventQueue()
    loop.max_wait_time = 3600

    def sleeper():
        app.sleep(1)
        log.append("slept")
        thread = threading.Thread(target=loop.interrupt_wait)
        thread.start()
        thread.join()
        raise LookupError("printed as well")

    running(sleeper)
    loop.wait()
    loop.interrupt_wait()
    loop.wait()
    assert log == ["slept"]
    assert "LookupError: printed as well" in capsys.readouterr().err
    weft.tasklet(log.append)("runnable")
    assert loop.get_wait_time(0) == 0
    stackless.run()
    assert loop.get_wait_time(0) == 3600


# -- waiting


def delayed(seconds):
    """A waitable that is ready in so many seconds."""
    return wait.ValueTasklet(weft.sleep)(seconds)


def test_things_are_given_in_the_order_in_which_they_are_ready():
    slow, fast, ready = delayed(3), delayed(1), locks.Event()
    ready.set()
    assert wait.wait([slow, fast, ready]) == [ready, fast, slow]
    assert wait.wait([]) == []


def test_waiting_ends_with_the_time_or_the_count_and_forgets_its_callbacks(monkeypatch):
    never, soon = locks.Event(), delayed(1)
    assert wait.wait([never, soon], count=1) == [soon]
    assert wait.wait([never, soon], timeout=0.001) == [soon]
    assert list(wait.iwait_no_raise([never], 0)) == []
    with pytest.raises(errors.TimeoutError):
        list(wait.iwait([never], 0.001))
    with pytest.raises(errors.TimeoutError):
        wait.swait(never, 0.001)
    assert never._callbacks == []


def test_what_the_caller_does_between_two_things_is_not_limited():
    first, second = locks.Event(), locks.Event()
    first.set()
    second.set()
    seen = []
    for event in wait.iwait([first, second], timeout=0.001):
        seen.append(event)
        weft.sleep(3600)
    assert len(seen) == 2


def test_any_is_the_first_and_all_are_all():
    slow, fast = delayed(2), delayed(1)
    assert wait.any([slow, fast]).result() is fast
    assert wait.all([slow, fast]).result() == [fast, slow]
    assert wait.any([]).result() is None
    assert wait.swait(wait.all([])).get() == []


def test_a_waitable_tasklet_can_be_joined_and_keeps_what_came_of_it():
    slow = wait.WaitableTasklet(weft.sleep, (2,))
    stackless.run()
    assert slow.join(0.001) is False
    slow.insert()
    assert slow.join() is True
    failed = wait.ValueTasklet(divmod)(1, 0)
    with pytest.raises(ZeroDivisionError):
        failed.get()
    with pytest.raises(errors.TimeoutError):
        wait.ValueTasklet(divmod).get(block=False)
    killed = delayed(2)
    stackless.run()
    killed.kill()
    with pytest.raises(errors.CancelledError):
        killed.result()
    failed._error = killed._error = None  # they keep tracebacks, and with them this test's frames


def test_an_observer_passes_on_what_its_filter_lets_through_and_is_not_kept():
    channel = wait.WaitChannel()
    receivable, sendable = wait.Receivable(channel), wait.Sendable(channel)
    assert not receivable.waitsite_signalled()
    running(lambda: channel.send("value"))
    assert wait.wait([receivable, sendable], timeout=0) == [receivable]
    assert channel.receive() == "value"
    running(lambda: channel.receive())
    assert wait.wait([receivable, sendable], timeout=0) == [sendable]
    channel.send("the last")
    stackless.run()
    assert len(channel._callbacks) <= 2
    receivable.close()
    del receivable, sendable
    assert channel._callbacks == []


def test_an_error_of_a_callback_is_printed_and_the_others_are_called(capsys):
    site, log = wait.WaitSite(), []
    site.add_done_callback(lambda _: 1 / 0)
    site.add_done_callback(log.append)
    site.remove_done_callback(print)
    site.waitsite_signal()
    assert log == [site]
    assert "ZeroDivisionError" in capsys.readouterr().err


# -- futures

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
    bad._result = None  # it keeps its traceback, and with that this test's frames


def test_a_bounded_executor_runs_so_many_at_once_and_refuses_jobs_after_its_end():
    executor, log = futures.TaskletExecutor(2), []

    def job(name):
        log.append(name)
        weft.sleep(1)

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
        executor.submit(function, n) for function, n in ((weft.sleep, 3), (weft.sleep, 1), (ord, "ab"))
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
            weft.sleep(10)
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
