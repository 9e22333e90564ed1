"""Errors that a tasklet does not catch are raised in main, wherever it waits; the other tasklets go on."""

import sys
import time

import pytest

import weft
from tests.core._scripts import output_of, run_script
from weft import core


def fails(error=ValueError, text="nobody caught it"):
    raise error(text)


@pytest.fixture
def unraisable(monkeypatch):
    """The errors that went to sys.unraisablehook, as text."""
    said = []
    monkeypatch.setattr(sys, "unraisablehook", lambda info: said.append(repr(info.exc_value)))
    return said


@pytest.mark.parametrize(
    "wait",
    [
        weft.run,
        weft.schedule,
        weft.schedule_remove,
        lambda: weft.channel().receive(),
        lambda: weft.channel().send(1),
        lambda: weft.sleep(60),
        lambda: core.Waiter().wait(),
        lambda: core.Waiter().wait(60),
    ],
)
def test_main_raises_the_error_in_whichever_call_it_waits(wait):
    weft.tasklet(fails)()
    with pytest.raises(ValueError, match="nobody caught it"):
        wait()
    weft.run()
    assert weft.getruncount() == 1


@pytest.mark.parametrize("start", ["run", "switch"])
def test_main_raises_the_error_in_the_call_that_runs_the_tasklet(start):
    tasklet = weft.tasklet(fails, ())
    with pytest.raises(ValueError, match="nobody caught it"):
        getattr(tasklet, start)()
    assert (tasklet.alive, weft.getruncount()) == (False, 1)


def test_the_error_reaches_main_at_once_and_the_others_keep_their_order():
    log = []
    weft.tasklet(log.append)("before")
    weft.tasklet(fails)()
    weft.tasklet(log.append)("behind")
    with pytest.raises(ValueError, match="nobody"):
        weft.run()
    assert log == ["before"]
    weft.run()
    assert log == ["before", "behind"]


def test_a_channel_that_main_waited_in_is_left_by_the_error():
    channel = weft.channel()
    weft.tasklet(fails)()
    with pytest.raises(ValueError, match="nobody"):
        channel.receive()
    assert (channel.balance, channel.queue) == (0, None)
    weft.tasklet(fails)()
    with pytest.raises(ValueError, match="nobody"):
        channel.send("never received")
    assert (channel.balance, channel.queue) == (0, None)


def test_run_can_be_called_again_after_each_error():
    for number in range(5):
        weft.tasklet(fails)(KeyError, number)
    caught = []
    for _ in range(5):
        try:
            weft.run()
        except KeyError as error:
            caught.append(error.args[0])
    weft.run()
    assert caught == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, BaseException, StopIteration])
def test_every_kind_of_exception_but_tasklet_exit_reaches_main(error):
    weft.tasklet(fails)(error, "any")
    with pytest.raises(error, match="any"):
        weft.run()


def test_an_error_thrown_into_a_tasklet_that_does_not_catch_it_comes_back():
    tasklet = weft.tasklet(weft.schedule_remove)()
    weft.run()
    with pytest.raises(LookupError, match="boomerang"):
        tasklet.throw(LookupError, "boomerang")
    assert not tasklet.alive


def test_an_error_in_finally_while_a_tasklet_is_killed_reaches_main():
    def function():
        try:
            weft.schedule_remove()
        finally:
            fails(RuntimeError, "in finally")

    tasklet = weft.tasklet(function)()
    weft.run()
    with pytest.raises(RuntimeError, match="in finally"):
        tasklet.kill()
    assert not tasklet.alive


def test_a_tasklet_that_kills_another_goes_on_when_that_one_fails():
    log = []

    def victim():
        try:
            weft.schedule_remove()
        finally:
            fails(RuntimeError, "in finally")

    def killer(tasklet):
        tasklet.kill()
        log.append("killer goes on")

    tasklet = weft.tasklet(victim)()
    weft.run()
    weft.tasklet(killer)(tasklet)
    with pytest.raises(RuntimeError, match="in finally"):
        weft.run()
    weft.run()
    assert log == ["killer goes on"]


def test_a_second_error_while_main_has_not_run_is_reported_and_not_lost(unraisable):
    main = weft.getmain()

    def function():
        main.throw(KeyError, "first", pending=True)
        fails(ValueError, "second")

    weft.tasklet(function)()
    with pytest.raises(KeyError, match="first"):
        weft.schedule()
    assert unraisable == ["ValueError('second')"]


def test_main_that_was_removed_with_an_error_under_way_still_gets_it(unraisable):
    main = weft.getmain()

    def function():
        main.throw(KeyError, "first", pending=True)
        main.remove()
        fails(ValueError, "second")

    weft.tasklet(function)()
    with pytest.raises(KeyError, match="first"):
        weft.schedule()
    weft.tasklet(int)()
    weft.run()
    assert (unraisable, weft.getruncount()) == (["ValueError('second')"], 1)


def test_an_error_that_comes_while_main_runs_code_of_a_value_that_is_dropped(unraisable):
    """A tasklet dies with an error while the value that main was to get is dropped by code that lets main run."""

    class Value:
        def __del__(self):
            weft.schedule()

    channel, main = weft.channel(), weft.getmain()

    def function():
        channel.preference = 1
        channel.send(Value())
        fails(ValueError, "after the value")

    weft.tasklet(function)()
    with pytest.raises(ValueError, match="after the value"):
        channel.receive()
    weft.run()
    assert main.is_current and weft.getruncount() == 1


def test_errors_of_del_and_weakref_callbacks_in_tasklets_are_unraisable_as_elsewhere(unraisable):
    class Value:
        def __del__(self):
            fails(ValueError, "in __del__")

    def function():
        Value()

    weft.tasklet(function)()
    weft.run()
    assert unraisable == ["ValueError('in __del__')"]


# ---- signals and the end of the process ----


def test_keyboard_interrupt_reaches_main_while_all_tasklets_wait():
    printed = output_of("""
        import os, signal, threading, weft
        channel, log = weft.channel(), []
        def function():
            try:
                channel.receive()
            except BaseException as error:
                log.append(repr(error))
                raise
        tasklet = weft.tasklet(function)()
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            channel.receive()
        except KeyboardInterrupt:
            print("main interrupted", log, tasklet.blocked)
        timer.join()
        tasklet.kill()
        print(log)
    """)
    assert printed.splitlines() == ["main interrupted [] True", "['TaskletExit()']"]


def test_keyboard_interrupt_reaches_main_while_the_hub_sleeps_in_run():
    printed = output_of("""
        import os, signal, threading, weft, weft.io
        read, write = os.pipe()
        waiting = [weft.tasklet(weft.io.wait_readable)(read), weft.tasklet(weft.sleep)(60)]
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            weft.run()
        except KeyboardInterrupt:
            print("main interrupted", [tasklet.blocked for tasklet in waiting])
        timer.join()
        for tasklet in waiting:
            tasklet.kill()
    """)
    assert printed == "main interrupted [True, True]"


def test_keyboard_interrupt_during_sleep_of_main_alone():
    printed = output_of("""
        import os, signal, threading, weft
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            weft.sleep(60)
        except KeyboardInterrupt:
            print("interrupted")
        weft.sleep(0)
    """)
    assert printed == "interrupted"


def test_a_signal_handler_that_blocks_while_all_tasklets_wait_is_refused_and_may_wake_one():
    printed = output_of("""
        import os, signal, threading, weft
        from weft import core
        waiter, log = core.Waiter(), []
        def handler(*_):
            for call in (weft.schedule, lambda: weft.sleep(1), lambda: weft.channel().receive(), weft.run):
                try:
                    call()
                except RuntimeError as error:
                    log.append(str(error))
            weft.tasklet(log.append)("made by the handler")
            waiter.succeed("woken")
        signal.signal(signal.SIGUSR1, handler)
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        print(waiter.wait(30))
        timer.join()
        weft.run()
        print(len(log), log[-1])
        print(set(log[:-1]))
    """)
    lines = printed.splitlines()
    assert lines[:2] == ["woken", "5 made by the handler"]
    assert "this call would block, and it was made where no tasklet runs" in lines[2]
    assert lines[2].count("in a signal handler while all tasklets wait") == 1


def test_the_error_of_a_signal_handler_reaches_main_while_all_tasklets_wait():
    printed = output_of("""
        import os, signal, threading, weft
        def handler(*_):
            raise LookupError("from the handler")
        signal.signal(signal.SIGUSR1, handler)
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        sleeping = weft.tasklet(weft.sleep)(60)
        try:
            weft.run()
        except LookupError as error:
            print(error, sleeping.blocked)
        sleeping.kill()
    """)
    assert printed == "from the handler True"


def test_blocked_tasklets_run_their_finally_blocks_when_the_process_exits():
    done = run_script("""
        import sys, weft
        def function(name, block):
            try:
                block()
            finally:
                print(name, "finally", flush=True)
        channel = weft.channel()
        for name, block in (("receive", channel.receive), ("sleep", lambda: weft.sleep(99)),
                            ("pause", weft.schedule_remove), ("runnable", weft.schedule)):
            keep = [weft.tasklet(function)(name, block)]
            globals()[name] = keep
            weft.schedule()
        sys.exit(3)
    """)
    assert (done.returncode, done.stderr) == (3, "")
    assert sorted(done.stdout.splitlines()) == [f"{name} finally" for name in ("pause", "receive", "runnable", "sleep")]


def test_the_exit_status_is_that_of_an_error_in_a_tasklet():
    done = run_script("""
        import weft
        def function():
            raise ValueError("ends the process")
        weft.tasklet(function)()
        weft.tasklet(weft.schedule_remove)()
        weft.run()
    """)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == "ValueError: ends the process"


def test_sys_exit_in_a_tasklet_ends_the_process_with_its_status():
    done = run_script("""
        import sys, weft
        weft.tasklet(sys.exit)(5)
        weft.channel().receive()
    """)
    assert (done.returncode, done.stderr) == (5, "")


def test_a_finally_block_that_blocks_at_exit_delays_nothing():
    started = time.monotonic()
    done = run_script("""
        import weft
        def function():
            try:
                weft.sleep(99)
            finally:
                print("finally", flush=True)
                weft.sleep(99)
                print("never", flush=True)
        weft.tasklet(function)()
        weft.schedule()
    """)
    assert (done.returncode, done.stdout) == (0, "finally\n")
    assert time.monotonic() - started < 30


def test_an_error_in_a_finally_block_at_exit_is_reported():
    done = run_script("""
        import weft
        def function():
            try:
                weft.schedule_remove()
            finally:
                raise LookupError("at exit")
        kept = weft.tasklet(function)()
        weft.schedule()
    """)
    assert done.returncode == 0
    assert "LookupError: at exit" in done.stderr
