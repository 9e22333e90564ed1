"""No path of an exception through tasklets and channels keeps it: the locals of the frame that raised die with its handling."""

import threading
import traceback
import types

import pytest

import roamlet
from roamlet import core
from tests.witnesses import Witnesses

PATHS = {}


def path(function):
    PATHS[function.__name__] = function
    return function


@path
def uncaught_in_a_tasklet(witnesses):
    roamlet.tasklet(witnesses.fails)()
    witnesses.handles(roamlet.run)


@path
def uncaught_with_its_tasklet_kept(witnesses):
    kept = roamlet.tasklet(witnesses.fails)()
    witnesses.handles(roamlet.run)
    witnesses.judge()
    assert not kept.alive


@path
def uncaught_deep_below_tasklets(witnesses):
    def starts_another(depth):
        local = witnesses("a frame on the way")
        if depth == 0:
            witnesses.fails(local)
        roamlet.tasklet(starts_another)(depth - 1).run()

    roamlet.tasklet(starts_another)(3)
    witnesses.handles(roamlet.run)
    roamlet.run()
    del starts_another


@path
def taken_by_the_error_handler(witnesses):
    def handler(kind, error, trace):
        witnesses.seen.append(kind.__name__)

    roamlet.set_error_handler(handler)
    try:
        kept = roamlet.tasklet(witnesses.fails)()
        roamlet.run()
    finally:
        roamlet.set_error_handler(None)
    assert not kept.alive


@path
def raised_by_the_error_handler(witnesses):
    def handler(kind, error, trace):
        witnesses.fails(kind, error, trace)

    roamlet.set_error_handler(handler)
    try:
        roamlet.tasklet(witnesses.fails)()
        witnesses.handles(roamlet.run)
    finally:
        roamlet.set_error_handler(None)


@path
def sent_with_send_exception(witnesses):
    channel = roamlet.channel()
    roamlet.tasklet(witnesses.handles)(channel.receive)
    roamlet.run()
    channel.send_exception(ValueError, witnesses("an argument"))


@path
def sent_with_its_traceback(witnesses):
    channel = roamlet.channel()

    def passes_on():
        local = witnesses("the frame that passed it on")
        try:
            witnesses.fails(local)
        except ValueError as error:
            channel.send_throw(type(error), error, error.__traceback__)

    roamlet.tasklet(passes_on)()
    witnesses.handles(channel.receive)
    roamlet.run()


@path
def sent_to_nobody_before_its_sender_is_killed(witnesses):
    channel = roamlet.channel()

    def passes_on():
        try:
            witnesses.fails()
        except ValueError as error:
            channel.send_exception(error)

    sender = roamlet.tasklet(passes_on)()
    roamlet.run()
    assert channel.balance == 1
    sender.kill()


@path
def given_back_to_a_channel(witnesses):
    channel = roamlet.channel()

    def gives_back():
        try:
            witnesses.fails()
        except ValueError as error:
            channel.give_back(error, True)

    roamlet.tasklet(gives_back)()
    witnesses.handles(channel.receive)
    roamlet.run()


@path
def sent_to_a_select(witnesses):
    channel, other = roamlet.channel(), roamlet.channel()

    def passes_on():
        try:
            witnesses.fails()
        except ValueError as error:
            channel.send_exception(error)

    roamlet.tasklet(witnesses.handles)(lambda: roamlet.select(other, channel))
    roamlet.tasklet(passes_on)()
    roamlet.run()


@path
def iterating_a_channel(witnesses):
    channel = roamlet.channel()

    def passes_on():
        try:
            witnesses.fails()
        except ValueError as error:
            channel.send_throw(type(error), error, error.__traceback__)

    roamlet.tasklet(passes_on)()
    witnesses.handles(lambda: list(channel))
    roamlet.run()


@path
def thrown_into_a_tasklet(witnesses):
    waiting = roamlet.tasklet(witnesses.handles)(roamlet.channel().receive)
    roamlet.run()
    try:
        witnesses.fails()
    except ValueError as error:
        waiting.throw(type(error), error, error.__traceback__)
    witnesses.judge()
    assert not waiting.alive


@path
def thrown_into_a_tasklet_that_runs_later(witnesses):
    waiting = roamlet.tasklet(witnesses.handles)(roamlet.channel().receive)
    roamlet.run()
    try:
        witnesses.fails()
    except ValueError as error:
        waiting.throw(error, pending=True)
    roamlet.run()
    witnesses.judge()
    assert not waiting.alive


@path
def thrown_into_a_tasklet_that_is_killed_first(witnesses):
    waiting = roamlet.tasklet(roamlet.channel().receive)()
    roamlet.run()
    try:
        witnesses.fails()
    except ValueError as error:
        waiting.throw(error, pending=True)
    waiting.kill()
    roamlet.run()


@path
def thrown_into_a_tasklet_that_has_not_begun(witnesses):
    new = roamlet.tasklet(witnesses)("never made")

    def throws():
        try:
            witnesses.fails()
        except ValueError as error:
            new.throw(error)

    witnesses.handles(throws)
    roamlet.run()


@path
def thrown_into_a_dead_tasklet(witnesses):
    dead = roamlet.tasklet(roamlet.schedule)()
    roamlet.run()

    def throws():
        try:
            witnesses.fails()
        except ValueError as error:
            dead.throw(error)

    witnesses.handles(throws, RuntimeError)
    witnesses.judge()
    assert not dead.alive


@path
def raised_in_a_tasklet(witnesses):
    waiting = roamlet.tasklet(witnesses.handles)(roamlet.channel().receive)
    roamlet.run()
    waiting.raise_exception(ValueError, witnesses("an argument"))


@path
def raised_in_a_tasklet_that_lets_it_pass(witnesses):
    def passes():
        local = witnesses("the frame that let it pass")
        roamlet.channel().receive()
        del local

    waiting = roamlet.tasklet(passes)()
    roamlet.run()
    witnesses.handles(lambda: waiting.raise_exception(ValueError, witnesses("an argument")))
    witnesses.judge()
    assert not waiting.alive


@path
def killed(witnesses):
    waiting = roamlet.tasklet(witnesses.handles)(roamlet.channel().receive, roamlet.TaskletExit)
    roamlet.run()
    waiting.kill()
    witnesses.judge()
    assert not waiting.alive


@path
def killed_while_it_handles(witnesses):
    def handles():
        try:
            witnesses.fails()
        except ValueError:
            roamlet.channel().receive()

    waiting = roamlet.tasklet(handles)()
    roamlet.run()
    waiting.kill()
    witnesses.judge()
    assert not waiting.alive


@path
def killed_later_while_it_handles(witnesses):
    def handles():
        try:
            witnesses.fails()
        except ValueError:
            roamlet.channel().receive()

    waiting = roamlet.tasklet(handles)()
    roamlet.run()
    waiting.kill(pending=True)
    roamlet.run()
    witnesses.judge()
    assert not waiting.alive


@path
def killed_with_finally_blocks_that_fail(witnesses):
    def ends():
        try:
            roamlet.channel().receive()
        finally:
            witnesses.fails()

    waiting = roamlet.tasklet(ends)()
    roamlet.run()
    witnesses.handles(waiting.kill)


@path
def dropped_while_it_handles(witnesses):
    def handles():
        try:
            witnesses.fails()
        except ValueError:
            roamlet.schedule_remove()

    roamlet.tasklet(handles)()
    roamlet.run()


@path
def handled_between_switches(witnesses):
    """Each tasklet has its own exception being handled, and none is left in the thread's state."""

    def handles(number):
        local = witnesses("a frame that handles across switches")
        for _ in range(3):
            try:
                witnesses.fails(number, local)
            except ValueError:
                roamlet.schedule()
        roamlet.schedule()

    for number in range(3):
        roamlet.tasklet(handles)(number)
    roamlet.run()


@path
def handled_before_a_tasklet_blocks(witnesses):
    channel = roamlet.channel()

    def handles():
        witnesses.handles(witnesses.fails)
        channel.receive()

    waiting = roamlet.tasklet(handles)()
    roamlet.run()
    witnesses.judge()
    waiting.kill()


@path
def a_tasklet_that_begins_while_another_handles(witnesses):
    channel = roamlet.channel()
    started = []

    def starts():
        try:
            witnesses.fails()
        except ValueError:
            started.append(roamlet.tasklet(channel.receive)())
            started[0].run()

    starts()
    witnesses.judge()
    started[0].kill()


@path
def deadlock(witnesses):
    witnesses.handles(roamlet.channel().receive, roamlet.Deadlock)
    witnesses.seen.append("raised")


@path
def deadlock_with_others_that_wait(witnesses):
    channel = roamlet.channel()
    waiting = roamlet.tasklet(witnesses.handles)(channel.receive, roamlet.TaskletExit)
    roamlet.run()
    witnesses.handles(roamlet.channel().receive, roamlet.Deadlock)
    waiting.kill()


@path
def a_waiter_that_fails(witnesses):
    waiter = core.Waiter()
    roamlet.tasklet(witnesses.handles)(waiter.wait)
    roamlet.schedule()
    try:
        witnesses.fails()
    except ValueError as error:
        waiter.fail(error)
    roamlet.run()
    witnesses.judge()
    assert waiter.done


@path
def a_waiter_that_has_failed_before_the_wait(witnesses):
    waiter = core.Waiter()
    try:
        witnesses.fails()
    except ValueError as error:
        waiter.fail(error)
    witnesses.handles(waiter.wait)
    witnesses.judge()
    assert waiter.done


@path
def a_waiter_whose_tasklet_is_killed_after_it_failed(witnesses):
    waiter = core.Waiter()
    waiting = roamlet.tasklet(waiter.wait)()
    roamlet.schedule()
    try:
        witnesses.fails()
    except ValueError as error:
        waiter.fail(error)
    waiting.kill()
    witnesses.judge()
    assert waiter.done


@path
def a_waiter_that_nobody_waits_for(witnesses):
    waiter = core.Waiter()
    try:
        witnesses.fails()
    except ValueError as error:
        waiter.fail(error)
    del waiter


@path
def a_waiter_whose_time_runs_out(witnesses):
    witnesses.handles(lambda: core.Waiter().wait(0.0), TimeoutError)


@path
def callbacks_that_raise(witnesses):
    def callback(*_):
        roamlet.set_schedule_callback(None)
        witnesses.fails()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.unraisablehook", lambda said: witnesses.seen.append(type(said.exc_value).__name__))
        roamlet.tasklet(roamlet.schedule)()
        roamlet.set_schedule_callback(callback)
        roamlet.run()


@path
def closed_channels(witnesses):
    channel = roamlet.channel()
    channel.close()
    witnesses.handles(channel.receive, roamlet.ChannelClosed)
    witnesses.handles(lambda: channel.send(witnesses("what was sent")), roamlet.ChannelClosed)


@path
def a_scope_that_is_cancelled(witnesses):
    scope = core.CancelScope()

    def waits():
        with scope:
            roamlet.channel().receive()

    def cancelled():
        with core.CancelScope():
            local = witnesses("a frame in the scope")
            waits()
            del local

    roamlet.tasklet(cancelled)()
    roamlet.schedule()
    witnesses.seen.append("cancelled")
    scope.cancel()
    roamlet.run()


@path
def a_watchdog(witnesses):
    def loops():
        local = witnesses("the frame that was interrupted")
        while local:
            pass

    interrupted = roamlet.tasklet(loops)
    interrupted()
    assert roamlet.run(10_000) is interrupted
    witnesses.seen.append("interrupted")
    interrupted.kill()


@path
def another_thread(witnesses):
    def serves():
        roamlet.tasklet(witnesses.fails)()
        witnesses.handles(roamlet.run)
        witnesses.handles(roamlet.channel().receive, roamlet.TaskletExit)

    def ends():
        roamlet.tasklet(serves)()
        roamlet.run()

    thread = threading.Thread(target=ends)
    thread.start()
    thread.join()


@path
def sent_to_another_thread(witnesses):
    channel = roamlet.channel()
    thread = threading.Thread(target=witnesses.handles, args=(channel.receive,))
    thread.start()
    try:
        witnesses.fails()
    except ValueError as error:
        channel.send_exception(error)
    thread.join()


@path
def thrown_into_a_tasklet_of_another_thread(witnesses):
    blocks, stop = roamlet.channel(), roamlet.channel()
    waiting = roamlet.tasklet(witnesses.handles)

    def serves():
        waiting.bind_thread()
        waiting(blocks.receive)
        stop.receive()
        stop.receive()

    thread = threading.Thread(target=serves)
    thread.start()
    stop.send(None)
    try:
        witnesses.fails()
    except ValueError as error:
        waiting.throw(error, pending=True)
    stop.send(None)
    thread.join()


@pytest.mark.parametrize("name", PATHS)
def test_a_local_of_the_frame_that_raised_dies_when_the_exception_was_handled(name):
    witnesses = Witnesses()
    PATHS[name](witnesses)
    witnesses.judge()


# ---- traceback.clear_frames ----


def traceback_through(tasklet):
    """A traceback that begins at the frames of a suspended tasklet: what an error that was thrown into it and kept would have."""
    frame, found = tasklet.frame, None
    while frame is not None:
        found = types.TracebackType(found, frame, frame.f_lasti, frame.f_lineno)
        frame = frame.f_back
    return found


def test_clear_frames_leaves_a_suspended_tasklet_unharmed():
    witnesses, log = Witnesses(), []
    channel = roamlet.channel()

    def waits():
        local = witnesses("the suspended frame")
        try:
            log.append(nested(channel.receive))
        finally:
            log.append(local.name)

    def nested(block):
        local = witnesses("a frame below")
        value = block()
        log.append(local.name)
        return value

    waiting = roamlet.tasklet(waits)()
    roamlet.run()
    traceback.clear_frames(traceback_through(waiting))
    assert len(witnesses.alive()) == 2
    assert waiting.blocked
    channel.send("value")
    roamlet.run()
    assert log == ["a frame below", "value", "the suspended frame"]
    del waits
    witnesses.seen.append("cleared")
    witnesses.judge()


@pytest.mark.parametrize("end", ["kill", "last reference", "throw"])
def test_a_tasklet_whose_frames_were_cleared_while_it_was_suspended_runs_its_finally_blocks(end):
    log = []

    def waits():
        local = "a local"
        try:
            roamlet.schedule_remove()
        except LookupError:
            log.append("thrown")
        finally:
            log.append(local)

    waiting = roamlet.tasklet(waits)()
    roamlet.run()
    traceback.clear_frames(traceback_through(waiting))
    if end == "kill":
        waiting.kill()
    elif end == "throw":
        waiting.throw(LookupError)
    else:
        del waiting
    roamlet.run()
    assert log == (["thrown"] if end == "throw" else []) + ["a local"]


def test_clear_frames_leaves_the_tasklet_that_calls_it_unharmed():
    log = []

    def clears():
        local = "a local"
        try:
            raise ValueError
        except ValueError as error:
            traceback.clear_frames(error.__traceback__)
        roamlet.schedule()
        traceback.clear_frames(traceback_through(roamlet.getcurrent()))
        log.append(local)

    roamlet.tasklet(clears)()
    roamlet.run()
    assert log == ["a local"]


def test_clear_frames_of_an_error_that_passed_through_a_dead_tasklet_frees_its_locals_and_those_of_no_other():
    witnesses, log = Witnesses(), []
    channel = roamlet.channel()

    def handles():
        """Stays in its except clause, while the error is kept outside."""
        local = witnesses("the frame that handles")
        try:
            witnesses.fails()
        except ValueError as error:
            kept.append(error)
            channel.receive()
        log.append(local.name)

    kept = []
    handling = roamlet.tasklet(handles)()
    roamlet.run()
    traceback.clear_frames(kept[0].__traceback__)
    assert [line.partition(":")[0] for line in witnesses.alive()] == ["the frame that handles"]
    channel.send(None)
    roamlet.run()
    assert log == ["the frame that handles"]
    assert not handling.alive
    traceback.clear_frames(kept.pop().__traceback__)
    del handles
    witnesses.judge()


def test_clear_frames_frees_what_a_dead_tasklet_had():
    witnesses, kept = Witnesses(), []
    roamlet.tasklet(witnesses.fails)(witnesses("an argument"))
    try:
        roamlet.run()
    except ValueError as error:
        kept.append(error)
    assert len(witnesses.alive()) == 2
    traceback.clear_frames(kept[0].__traceback__)
    witnesses.judge()
    kept.clear()  # the traceback still has this frame
