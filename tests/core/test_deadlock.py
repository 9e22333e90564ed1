"""Deadlock: raised in main when it waits and nothing can ever wake it, with a list of what each tasklet waits for."""

import threading

import pytest

import roamlet
from roamlet import core
from roamlet.sync import Event, Semaphore, SimpleQueue
from tests.core._scripts import output_of


def deadlock(call):
    """The lines of the Deadlock that `call` raises. Keeps no cycle."""
    try:
        call()
    except roamlet.Deadlock as error:
        return str(error).splitlines()
    return []


WORDING = "Deadlock: the last runnable tasklet cannot be blocked"


@pytest.mark.parametrize(
    "wait", [lambda: roamlet.channel().receive(), lambda: roamlet.channel().send(1), lambda: next(roamlet.channel())]
)
def test_main_alone_cannot_wait_on_a_channel(wait):
    with pytest.raises(roamlet.Deadlock, match=WORDING):
        wait()
    assert roamlet.getruncount() == 1


@pytest.mark.parametrize(
    ("wait", "text"),
    [
        (lambda: roamlet.channel().receive(), "The main tasklet is receiving without a sender available"),
        (lambda: roamlet.channel().send(1), "The main tasklet is sending without a receiver available"),
    ],
)
def test_stacklesss_words_for_what_main_does_follow(wait, text):
    roamlet.tasklet(int)()
    assert text in deadlock(wait)[0]


def test_it_is_a_runtime_error_as_in_stackless():
    with pytest.raises(RuntimeError, match=WORDING):
        roamlet.channel().receive()
    assert issubclass(roamlet.Deadlock, roamlet.RoamletError)


def test_the_message_says_who_waits_for_what_in_which_function_and_line():
    channel = roamlet.channel()

    def worker():
        return channel.receive()

    tasklet = roamlet.tasklet(worker)()
    lines = deadlock(channel.receive)
    assert lines[0].endswith("(no timer, descriptor, child process, job or other thread):")
    assert lines[1].startswith("  <roamlet.tasklet main, blocked in receive, at 0x")
    assert " in deadlock at " in lines[1]
    assert f"worker, blocked in receive, at 0x{id(tasklet):x}" in lines[2]
    assert lines[2].endswith(f" in worker at {__file__}:{worker.__code__.co_firstlineno + 1}")
    assert len(lines) == 3
    tasklet.kill()


def test_the_list_is_cut_after_twenty():
    channel = roamlet.channel()
    tasklets = [roamlet.tasklet(channel.receive)() for _ in range(50)]
    lines = deadlock(channel.receive)
    assert (len(lines), lines[-1]) == (22, "  and 31 more")
    for tasklet in tasklets:
        tasklet.kill()


def test_main_is_taken_off_its_channel_and_the_others_stay():
    channel, other = roamlet.channel(), roamlet.channel()
    tasklet = roamlet.tasklet(other.receive)()
    with pytest.raises(roamlet.Deadlock):
        channel.receive()
    assert (channel.balance, channel.queue, other.balance) == (0, None, -1)
    other.send(None)
    assert not tasklet.alive


def test_it_can_be_caught_and_everything_goes_on():
    channel, log = roamlet.channel(), []
    for _ in range(3):
        try:
            channel.receive()
        except roamlet.Deadlock:
            log.append("caught")
    roamlet.tasklet(channel.send)("value")
    log.append(channel.receive())
    roamlet.run()
    assert log == ["caught"] * 3 + ["value"]


def test_a_waiter_that_nobody_settles_is_no_deadlock_but_a_wait(clock):
    with pytest.raises(TimeoutError):
        core.Waiter().wait(5)
    assert clock.jumps == [5.0]


def test_a_daemon_wait_of_main_itself_is_a_deadlock():
    with pytest.raises(roamlet.Deadlock, match="main, blocked in wait"):
        core.Waiter().wait(daemon=True)


@pytest.mark.parametrize(
    ("wait", "name"),
    [
        (lambda: Semaphore(0).acquire(), "<sync.Semaphore at 0x"),
        (lambda: SimpleQueue().get(), "<roamlet.sync.SimpleQueue object"),
        (lambda: Event().wait(), "<sync.Event at 0x"),
    ],
)
def test_what_a_tasklet_waits_for_is_named(wait, name):
    with pytest.raises(roamlet.Deadlock, match=rf"main, blocked in wait, at 0x\w+> in <lambda> .*:\d+, for {name}"):
        wait()


def test_what_cannot_be_named_is_left_out():
    class Odd(Event):
        def __repr__(self):
            raise KeyError

    with pytest.raises(roamlet.Deadlock, match=r"in test_what_cannot_be_named_is_left_out at [^,]*:\d+$"):
        Odd().wait()


def test_a_sleeping_tasklet_prevents_it_until_it_ends(clock):
    tasklet = roamlet.tasklet(roamlet.sleep)(5)
    with pytest.raises(roamlet.Deadlock):
        roamlet.channel().receive()
    assert (clock.now, tasklet.alive) == (1005.0, False)


def test_no_deadlock_in_run_or_schedule_remove():
    channel = roamlet.channel()
    tasklet = roamlet.tasklet(channel.receive)()
    roamlet.run()
    roamlet.schedule_remove()
    assert tasklet.blocked
    tasklet.kill()


def test_another_live_thread_may_wake_anybody():
    channel, go = roamlet.channel(), threading.Event()

    def other():
        go.wait()
        channel.send("from the other thread")

    thread = threading.Thread(target=other)
    thread.start()
    roamlet.tasklet(go.set)()
    assert channel.receive() == "from the other thread"
    thread.join()


def test_it_is_raised_soon_after_the_last_other_thread_ends():
    channel, go = roamlet.channel(), threading.Event()
    thread = threading.Thread(target=go.wait)
    thread.start()
    roamlet.tasklet(go.set)()
    with pytest.raises(roamlet.Deadlock):
        channel.receive()
    thread.join()


def test_two_threads_that_wait_for_each_other_are_not_told_apart_from_work():
    """Each may be woken by the other as far as one of them can know; a kill from outside ends it."""
    printed = output_of("""
        import threading, roamlet
        channel, started, tasklets = roamlet.channel(), threading.Event(), []
        def other():
            tasklets.append(roamlet.getcurrent())
            started.set()
            try:
                channel.receive()
            except roamlet.Deadlock as error:
                print(type(error).__name__)
            except roamlet.TaskletExit:
                print("killed")
        thread = threading.Thread(target=other)
        thread.start()
        started.wait()
        roamlet.sleep(0.4)
        print(channel.balance)
        tasklets[0].kill()
        thread.join()
    """)
    assert printed.splitlines() == ["-1", "killed"]


def test_threads_of_roamlets_own_hide_no_deadlock():
    ready, end = threading.Event(), threading.Event()

    def service():
        core.mark_service_thread()
        core.mark_service_thread()
        ready.set()
        end.wait()

    thread = threading.Thread(target=service)
    thread.start()
    ready.wait()
    with pytest.raises(roamlet.Deadlock):
        roamlet.channel().receive()
    end.set()
    thread.join()
    # The count of such threads went down again: a thread of the user's hides it now.
    go, channel = threading.Event(), roamlet.channel()
    thread = threading.Thread(target=lambda: (go.wait(), channel.send(1)))
    thread.start()
    roamlet.tasklet(go.set)()
    assert channel.receive() == 1
    thread.join()


def test_a_representation_that_fails_takes_the_deadlocks_place():
    class Awkward(roamlet.tasklet):
        def __repr__(self):
            raise LookupError("no name")

    tasklet = Awkward(roamlet.channel().receive)()
    with pytest.raises(LookupError, match="no name"):
        roamlet.channel().receive()
    roamlet.run()
    tasklet.kill()


def test_a_thread_without_tasklets_gets_it_too():
    printed = output_of("""
        import threading, roamlet
        results = []
        def other():
            try:
                roamlet.channel().receive()
            except roamlet.Deadlock:
                results.append("Deadlock")
        thread = threading.Thread(target=other, daemon=True)
        thread.start()
        roamlet.sleep(0.1)
        # Main lives and might wake it.
        print(results, thread.is_alive())
    """)
    assert printed == "[] True"


def test_a_thread_that_is_no_service_thread_any_more_may_wake_somebody():
    channel, ready, end = roamlet.channel(), threading.Event(), threading.Event()

    def works():
        core.mark_service_thread()
        core.mark_service_thread(False)
        ready.set()
        end.wait()
        channel.send("woken")

    thread = threading.Thread(target=works)
    thread.start()
    ready.wait()
    roamlet.tasklet(end.set)()
    assert channel.receive() == "woken"
    thread.join()


def test_another_thread_may_say_that_a_thread_is_a_service_thread_no_more():
    channel, ready, end = roamlet.channel(), threading.Event(), threading.Event()

    def works():
        core.mark_service_thread()
        ready.set()
        end.wait()
        channel.send("woken")

    thread = threading.Thread(target=works)
    thread.start()
    ready.wait()
    with pytest.raises(roamlet.Deadlock):
        channel.receive()
    core.mark_service_thread(False, thread.ident)
    roamlet.tasklet(end.set)()
    assert channel.receive() == "woken"
    thread.join()
    core.mark_service_thread(False, thread.ident)  # nothing when it has ended
    with pytest.raises(TypeError, match="a thread id is an int"):
        core.mark_service_thread(False, "main")
    with pytest.raises(roamlet.Deadlock):
        channel.receive()
