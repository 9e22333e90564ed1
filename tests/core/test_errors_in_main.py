"""Errors that a tasklet does not catch are raised in main, wherever it waits; the other tasklets go on."""

import sys
import time

import pytest

import roamlet
from roamlet import core
from tests.core._scripts import output_of, run_script


def fails(error=ValueError, text="not caught"):
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
        roamlet.run,
        roamlet.schedule,
        roamlet.schedule_remove,
        lambda: roamlet.channel().receive(),
        lambda: roamlet.channel().send(1),
        lambda: roamlet.sleep(60),
        lambda: core.Waiter().wait(),
        lambda: core.Waiter().wait(60),
    ],
)
def test_main_raises_the_error_in_whichever_call_it_waits(wait):
    roamlet.tasklet(fails)()
    with pytest.raises(ValueError, match="not caught"):
        wait()
    roamlet.run()
    assert roamlet.getruncount() == 1


@pytest.mark.parametrize("start", ["run", "switch"])
def test_main_raises_the_error_in_the_call_that_runs_the_tasklet(start):
    tasklet = roamlet.tasklet(fails, ())
    with pytest.raises(ValueError, match="not caught"):
        getattr(tasklet, start)()
    assert (tasklet.alive, roamlet.getruncount()) == (False, 1)


def test_the_error_reaches_main_at_once_and_the_others_keep_their_order():
    log = []
    roamlet.tasklet(log.append)("before")
    roamlet.tasklet(fails)()
    roamlet.tasklet(log.append)("behind")
    with pytest.raises(ValueError, match="not caught"):
        roamlet.run()
    assert log == ["before"]
    roamlet.run()
    assert log == ["before", "behind"]


def test_a_channel_that_main_waited_in_is_left_by_the_error():
    channel = roamlet.channel()
    roamlet.tasklet(fails)()
    with pytest.raises(ValueError, match="not caught"):
        channel.receive()
    assert (channel.balance, channel.queue) == (0, None)
    roamlet.tasklet(fails)()
    with pytest.raises(ValueError, match="not caught"):
        channel.send("never received")
    assert (channel.balance, channel.queue) == (0, None)


def test_run_can_be_called_again_after_each_error():
    for number in range(5):
        roamlet.tasklet(fails)(KeyError, number)
    caught = []
    for _ in range(5):
        try:
            roamlet.run()
        except KeyError as error:
            caught.append(error.args[0])
    roamlet.run()
    assert caught == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, BaseException, StopIteration])
def test_every_kind_of_exception_but_tasklet_exit_reaches_main(error):
    roamlet.tasklet(fails)(error, "any")
    with pytest.raises(error, match="any"):
        roamlet.run()


def test_an_error_thrown_into_a_tasklet_that_does_not_catch_it_comes_back():
    tasklet = roamlet.tasklet(roamlet.schedule_remove)()
    roamlet.run()
    with pytest.raises(LookupError, match="boomerang"):
        tasklet.throw(LookupError, "boomerang")
    assert not tasklet.alive


def test_an_error_in_finally_while_a_tasklet_is_killed_reaches_main():
    def function():
        try:
            roamlet.schedule_remove()
        finally:
            fails(RuntimeError, "in finally")

    tasklet = roamlet.tasklet(function)()
    roamlet.run()
    with pytest.raises(RuntimeError, match="in finally"):
        tasklet.kill()
    assert not tasklet.alive


def test_a_tasklet_that_kills_another_goes_on_when_that_one_fails():
    log = []

    def victim():
        try:
            roamlet.schedule_remove()
        finally:
            fails(RuntimeError, "in finally")

    def killer(tasklet):
        tasklet.kill()
        log.append("killer goes on")

    tasklet = roamlet.tasklet(victim)()
    roamlet.run()
    roamlet.tasklet(killer)(tasklet)
    with pytest.raises(RuntimeError, match="in finally"):
        roamlet.run()
    roamlet.run()
    assert log == ["killer goes on"]


def test_a_second_error_while_main_has_not_run_is_reported_and_not_lost(unraisable):
    main = roamlet.getmain()

    def function():
        main.throw(KeyError, "first", pending=True)
        fails(ValueError, "second")

    roamlet.tasklet(function)()
    with pytest.raises(KeyError, match="first"):
        roamlet.schedule()
    assert unraisable == ["ValueError('second')"]


def test_main_that_was_removed_with_an_error_under_way_still_gets_it(unraisable):
    main = roamlet.getmain()

    def function():
        main.throw(KeyError, "first", pending=True)
        main.remove()
        fails(ValueError, "second")

    roamlet.tasklet(function)()
    with pytest.raises(KeyError, match="first"):
        roamlet.schedule()
    roamlet.tasklet(int)()
    roamlet.run()
    assert (unraisable, roamlet.getruncount()) == (["ValueError('second')"], 1)


def test_an_error_that_comes_while_main_runs_code_of_a_value_that_is_dropped(unraisable):
    """A tasklet dies with an error while the value that main was to get is dropped by code that lets main run."""

    class Value:
        def __del__(self):
            roamlet.schedule()

    channel, main = roamlet.channel(), roamlet.getmain()

    def function():
        channel.preference = 1
        channel.send(Value())
        fails(ValueError, "after the value")

    roamlet.tasklet(function)()
    with pytest.raises(ValueError, match="after the value"):
        channel.receive()
    roamlet.run()
    assert main.is_current and roamlet.getruncount() == 1


def test_errors_of_del_and_weakref_callbacks_in_tasklets_are_unraisable_as_elsewhere(unraisable):
    class Value:
        def __del__(self):
            fails(ValueError, "in __del__")

    def function():
        Value()

    roamlet.tasklet(function)()
    roamlet.run()
    assert unraisable == ["ValueError('in __del__')"]


# ---- signals and the end of the process ----


def test_keyboard_interrupt_reaches_main_while_all_tasklets_wait():
    printed = output_of("""
        import os, signal, threading, roamlet
        channel, log = roamlet.channel(), []
        def function():
            try:
                channel.receive()
            except BaseException as error:
                log.append(repr(error))
                raise
        tasklet = roamlet.tasklet(function)()
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
        import os, signal, threading, roamlet, roamlet.io
        read, write = os.pipe()
        waiting = [roamlet.tasklet(roamlet.io.wait_readable)(read), roamlet.tasklet(roamlet.sleep)(60)]
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            roamlet.run()
        except KeyboardInterrupt:
            print("main interrupted", [tasklet.blocked for tasklet in waiting])
        timer.join()
        for tasklet in waiting:
            tasklet.kill()
    """)
    assert printed == "main interrupted [True, True]"


def test_keyboard_interrupt_during_sleep_of_main_alone():
    printed = output_of("""
        import os, signal, threading, roamlet
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            roamlet.sleep(60)
        except KeyboardInterrupt:
            print("interrupted")
        roamlet.sleep(0)
    """)
    assert printed == "interrupted"


def test_a_signal_handler_that_blocks_while_all_tasklets_wait_is_refused_and_may_wake_one():
    printed = output_of("""
        import os, signal, threading, roamlet
        from roamlet import core
        waiter, log = core.Waiter(), []
        def handler(*_):
            for call in (roamlet.schedule, lambda: roamlet.sleep(1), lambda: roamlet.channel().receive(), roamlet.run):
                try:
                    call()
                except RuntimeError as error:
                    log.append(str(error))
            roamlet.tasklet(log.append)("made by the handler")
            waiter.succeed("woken")
        signal.signal(signal.SIGUSR1, handler)
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        print(waiter.wait(30))
        timer.join()
        roamlet.run()
        print(len(log), log[-1])
        print(set(log[:-1]))
    """)
    lines = printed.splitlines()
    assert lines[:2] == ["woken", "5 made by the handler"]
    assert "this call would block, and it was made where no tasklet runs" in lines[2]
    assert lines[2].count("in a signal handler while all tasklets wait") == 1


def test_the_error_of_a_signal_handler_reaches_main_while_all_tasklets_wait():
    printed = output_of("""
        import os, signal, threading, roamlet
        def handler(*_):
            raise LookupError("from the handler")
        signal.signal(signal.SIGUSR1, handler)
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        sleeping = roamlet.tasklet(roamlet.sleep)(60)
        try:
            roamlet.run()
        except LookupError as error:
            print(error, sleeping.blocked)
        sleeping.kill()
    """)
    assert printed == "from the handler True"


def test_blocked_tasklets_run_their_finally_blocks_when_the_process_exits():
    done = run_script("""
        import sys, roamlet
        def function(name, block):
            try:
                block()
            finally:
                print(name, "finally", flush=True)
        channel = roamlet.channel()
        for name, block in (("receive", channel.receive), ("sleep", lambda: roamlet.sleep(99)),
                            ("pause", roamlet.schedule_remove), ("runnable", roamlet.schedule)):
            keep = [roamlet.tasklet(function)(name, block)]
            globals()[name] = keep
            roamlet.schedule()
        sys.exit(3)
    """)
    assert (done.returncode, done.stderr) == (3, "")
    assert sorted(done.stdout.splitlines()) == [f"{name} finally" for name in ("pause", "receive", "runnable", "sleep")]


def test_the_exit_status_is_that_of_an_error_in_a_tasklet():
    done = run_script("""
        import roamlet
        def function():
            raise ValueError("ends the process")
        roamlet.tasklet(function)()
        roamlet.tasklet(roamlet.schedule_remove)()
        roamlet.run()
    """)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == "ValueError: ends the process"


def test_sys_exit_in_a_tasklet_ends_the_process_with_its_status():
    done = run_script("""
        import sys, roamlet
        roamlet.tasklet(sys.exit)(5)
        roamlet.channel().receive()
    """)
    assert (done.returncode, done.stderr) == (5, "")


def test_a_finally_block_that_blocks_at_exit_delays_nothing():
    started = time.monotonic()
    done = run_script("""
        import roamlet
        def function():
            try:
                roamlet.sleep(99)
            finally:
                print("finally", flush=True)
                roamlet.sleep(99)
                print("never", flush=True)
        roamlet.tasklet(function)()
        roamlet.schedule()
    """)
    assert (done.returncode, done.stdout) == (0, "finally\n")
    assert time.monotonic() - started < 30


def test_an_error_in_a_finally_block_at_exit_is_reported():
    done = run_script("""
        import roamlet
        def function():
            try:
                roamlet.schedule_remove()
            finally:
                raise LookupError("at exit")
        kept = roamlet.tasklet(function)()
        roamlet.schedule()
    """)
    assert done.returncode == 0
    assert "LookupError: at exit" in done.stderr
