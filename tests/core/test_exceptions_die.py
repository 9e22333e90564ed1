"""No path of an exception through tasklets and channels keeps it: the locals of the frame that raised die with its handling."""

import threading
import traceback
import types

import pytest

import weft
from tests.witnesses import Witnesses
from weft import core

PATHS = {}


def path(function):
    PATHS[function.__name__] = function
    return function


@path
def uncaught_in_a_tasklet(witnesses):
    weft.tasklet(witnesses.fails)()
    witnesses.handles(weft.run)


@path
def uncaught_with_its_tasklet_kept(witnesses):
    kept = weft.tasklet(witnesses.fails)()
    witnesses.handles(weft.run)
    witnesses.judge()
    assert not kept.alive


@path
def uncaught_deep_below_tasklets(witnesses):
    def starts_another(depth):
        local = witnesses("a frame on the way")
        if depth == 0:
            witnesses.fails(local)
        weft.tasklet(starts_another)(depth - 1).run()

    weft.tasklet(starts_another)(3)
    witnesses.handles(weft.run)
    weft.run()
    del starts_another


@path
def taken_by_the_error_handler(witnesses):
    def handler(kind, error, trace):
        witnesses.seen.append(kind.__name__)

    weft.set_error_handler(handler)
    try:
        kept = weft.tasklet(witnesses.fails)()
        weft.run()
    finally:
        weft.set_error_handler(None)
    assert not kept.alive


@path
def raised_by_the_error_handler(witnesses):
    def handler(kind, error, trace):
        witnesses.fails(kind, error, trace)

    weft.set_error_handler(handler)
    try:
        weft.tasklet(witnesses.fails)()
        witnesses.handles(weft.run)
    finally:
        weft.set_error_handler(None)


@path
def sent_with_send_exception(witnesses):
    channel = weft.channel()
    weft.tasklet(witnesses.handles)(channel.receive)
    weft.run()
    channel.send_exception(ValueError, witnesses("an argument"))


@path
def sent_with_its_traceback(witnesses):
    channel = weft.channel()

    def passes_on():
        local = witnesses("the frame that passed it on")
        try:
            witnesses.fails(local)
        except ValueError as error:
            channel.send_throw(type(error), error, error.__traceback__)

    weft.tasklet(passes_on)()
    witnesses.handles(channel.receive)
    weft.run()


@path
def sent_to_nobody_before_its_sender_is_killed(witnesses):
    channel = weft.channel()

    def passes_on():
        try:
            witnesses.fails()
        except ValueError as error:
            channel.send_exception(error)

    sender = weft.tasklet(passes_on)()
    weft.run()
    assert channel.balance == 1
    sender.kill()


@path
def given_back_to_a_channel(witnesses):
    channel = weft.channel()

    def gives_back():
        try:
            witnesses.fails()
        except ValueError as error:
            channel.give_back(error, True)

    weft.tasklet(gives_back)()
    witnesses.handles(channel.receive)
    weft.run()


@path
def sent_to_a_select(witnesses):
    channel, other = weft.channel(), weft.channel()

    def passes_on():
        try:
            witnesses.fails()
        except ValueError as error:
            channel.send_exception(error)

    weft.tasklet(witnesses.handles)(lambda: weft.select(other, channel))
    weft.tasklet(passes_on)()
    weft.run()


@path
def iterating_a_channel(witnesses):
    channel = weft.channel()

    def passes_on():
        try:
            witnesses.fails()
        except ValueError as error:
            channel.send_throw(type(error), error, error.__traceback__)

    weft.tasklet(passes_on)()
    witnesses.handles(lambda: list(channel))
    weft.run()


@path
def thrown_into_a_tasklet(witnesses):
    waiting = weft.tasklet(witnesses.handles)(weft.channel().receive)
    weft.run()
    try:
        witnesses.fails()
    except ValueError as error:
        waiting.throw(type(error), error, error.__traceback__)
    witnesses.judge()
    assert not waiting.alive


@path
def thrown_into_a_tasklet_that_runs_later(witnesses):
    waiting = weft.tasklet(witnesses.handles)(weft.channel().receive)
    weft.run()
    try:
        witnesses.fails()
    except ValueError as error:
        waiting.throw(error, pending=True)
    weft.run()
    witnesses.judge()
    assert not waiting.alive


@path
def thrown_into_a_tasklet_that_is_killed_first(witnesses):
    waiting = weft.tasklet(weft.channel().receive)()
    weft.run()
    try:
        witnesses.fails()
    except ValueError as error:
        waiting.throw(error, pending=True)
    waiting.kill()
    weft.run()


@path
def thrown_into_a_tasklet_that_has_not_begun(witnesses):
    new = weft.tasklet(witnesses)("never made")

    def throws():
        try:
            witnesses.fails()
        except ValueError as error:
            new.throw(error)

    witnesses.handles(throws)
    weft.run()


@path
def thrown_into_a_dead_tasklet(witnesses):
    dead = weft.tasklet(weft.schedule)()
    weft.run()

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
    waiting = weft.tasklet(witnesses.handles)(weft.channel().receive)
    weft.run()
    waiting.raise_exception(ValueError, witnesses("an argument"))


@path
def raised_in_a_tasklet_that_lets_it_pass(witnesses):
    def passes():
        local = witnesses("the frame that let it pass")
        weft.channel().receive()
        del local

    waiting = weft.tasklet(passes)()
    weft.run()
    witnesses.handles(lambda: waiting.raise_exception(ValueError, witnesses("an argument")))
    witnesses.judge()
    assert not waiting.alive


@path
def killed(witnesses):
    waiting = weft.tasklet(witnesses.handles)(weft.channel().receive, weft.TaskletExit)
    weft.run()
    waiting.kill()
    witnesses.judge()
    assert not waiting.alive


@path
def killed_while_it_handles(witnesses):
    def handles():
        try:
            witnesses.fails()
        except ValueError:
            weft.channel().receive()

    waiting = weft.tasklet(handles)()
    weft.run()
    waiting.kill()
    witnesses.judge()
    assert not waiting.alive


@path
def killed_later_while_it_handles(witnesses):
    def handles():
        try:
            witnesses.fails()
        except ValueError:
            weft.channel().receive()

    waiting = weft.tasklet(handles)()
    weft.run()
    waiting.kill(pending=True)
    weft.run()
    witnesses.judge()
    assert not waiting.alive


@path
def killed_with_finally_blocks_that_fail(witnesses):
    def ends():
        try:
            weft.channel().receive()
        finally:
            witnesses.fails()

    waiting = weft.tasklet(ends)()
    weft.run()
    witnesses.handles(waiting.kill)


@path
def dropped_while_it_handles(witnesses):
    def handles():
        try:
            witnesses.fails()
        except ValueError:
            weft.schedule_remove()

    weft.tasklet(handles)()
    weft.run()


@path
def handled_between_switches(witnesses):
    """Each tasklet has its own exception being handled, and none is left in the thread's state."""

    def handles(number):
        local = witnesses("a frame that handles across switches")
        for _ in range(3):
            try:
                witnesses.fails(number, local)
            except ValueError:
                weft.schedule()
        weft.schedule()

    for number in range(3):
        weft.tasklet(handles)(number)
    weft.run()


@path
def handled_before_a_tasklet_blocks(witnesses):
    channel = weft.channel()

    def handles():
        witnesses.handles(witnesses.fails)
        channel.receive()

    waiting = weft.tasklet(handles)()
    weft.run()
    witnesses.judge()
    waiting.kill()


@path
def a_tasklet_that_begins_while_another_handles(witnesses):
    channel = weft.channel()
    started = []

    def starts():
        try:
            witnesses.fails()
        except ValueError:
            started.append(weft.tasklet(channel.receive)())
            started[0].run()

    starts()
    witnesses.judge()
    started[0].kill()


@path
def deadlock(witnesses):
    witnesses.handles(weft.channel().receive, weft.Deadlock)
    witnesses.seen.append("raised")


@path
def deadlock_with_others_that_wait(witnesses):
    channel = weft.channel()
    waiting = weft.tasklet(witnesses.handles)(channel.receive, weft.TaskletExit)
    weft.run()
    witnesses.handles(weft.channel().receive, weft.Deadlock)
    waiting.kill()


@path
def a_waiter_that_fails(witnesses):
    waiter = core.Waiter()
    weft.tasklet(witnesses.handles)(waiter.wait)
    weft.schedule()
    try:
        witnesses.fails()
    except ValueError as error:
        waiter.fail(error)
    weft.run()
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
    waiting = weft.tasklet(waiter.wait)()
    weft.schedule()
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
        weft.set_schedule_callback(None)
        witnesses.fails()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.unraisablehook", lambda said: witnesses.seen.append(type(said.exc_value).__name__))
        weft.tasklet(weft.schedule)()
        weft.set_schedule_callback(callback)
        weft.run()


@path
def closed_channels(witnesses):
    channel = weft.channel()
    channel.close()
    witnesses.handles(channel.receive, weft.ChannelClosed)
    witnesses.handles(lambda: channel.send(witnesses("what was sent")), weft.ChannelClosed)


@path
def a_scope_that_is_cancelled(witnesses):
    scope = core.CancelScope()

    def waits():
        with scope:
            weft.channel().receive()

    def cancelled():
        with core.CancelScope():
            local = witnesses("a frame in the scope")
            waits()
            del local

    weft.tasklet(cancelled)()
    weft.schedule()
    witnesses.seen.append("cancelled")
    scope.cancel()
    weft.run()


@path
def a_watchdog(witnesses):
    def loops():
        local = witnesses("the frame that was interrupted")
        while local:
            pass

    interrupted = weft.tasklet(loops)
    interrupted()
    assert weft.run(10_000) is interrupted
    witnesses.seen.append("interrupted")
    interrupted.kill()


@path
def another_thread(witnesses):
    def serves():
        weft.tasklet(witnesses.fails)()
        witnesses.handles(weft.run)
        witnesses.handles(weft.channel().receive, weft.TaskletExit)

    def ends():
        weft.tasklet(serves)()
        weft.run()

    thread = threading.Thread(target=ends)
    thread.start()
    thread.join()


@path
def sent_to_another_thread(witnesses):
    channel = weft.channel()
    thread = threading.Thread(target=witnesses.handles, args=(channel.receive,))
    thread.start()
    try:
        witnesses.fails()
    except ValueError as error:
        channel.send_exception(error)
    thread.join()


@path
def thrown_into_a_tasklet_of_another_thread(witnesses):
    blocks, stop = weft.channel(), weft.channel()
    waiting = weft.tasklet(witnesses.handles)

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
    channel = weft.channel()

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

    waiting = weft.tasklet(waits)()
    weft.run()
    traceback.clear_frames(traceback_through(waiting))
    assert len(witnesses.alive()) == 2
    assert waiting.blocked
    channel.send("value")
    weft.run()
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
            weft.schedule_remove()
        except LookupError:
            log.append("thrown")
        finally:
            log.append(local)

    waiting = weft.tasklet(waits)()
    weft.run()
    traceback.clear_frames(traceback_through(waiting))
    if end == "kill":
        waiting.kill()
    elif end == "throw":
        waiting.throw(LookupError)
    else:
        del waiting
    weft.run()
    assert log == (["thrown"] if end == "throw" else []) + ["a local"]


def test_clear_frames_leaves_the_tasklet_that_calls_it_unharmed():
    log = []

    def clears():
        local = "a local"
        try:
            raise ValueError
        except ValueError as error:
            traceback.clear_frames(error.__traceback__)
        weft.schedule()
        traceback.clear_frames(traceback_through(weft.getcurrent()))
        log.append(local)

    weft.tasklet(clears)()
    weft.run()
    assert log == ["a local"]


def test_clear_frames_of_an_error_that_passed_through_a_dead_tasklet_frees_its_locals_and_those_of_no_other():
    witnesses, log = Witnesses(), []
    channel = weft.channel()

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
    handling = weft.tasklet(handles)()
    weft.run()
    traceback.clear_frames(kept[0].__traceback__)
    assert [line.partition(":")[0] for line in witnesses.alive()] == ["the frame that handles"]
    channel.send(None)
    weft.run()
    assert log == ["the frame that handles"]
    assert not handling.alive
    traceback.clear_frames(kept.pop().__traceback__)
    del handles
    witnesses.judge()


def test_clear_frames_frees_what_a_dead_tasklet_had():
    witnesses, kept = Witnesses(), []
    weft.tasklet(witnesses.fails)(witnesses("an argument"))
    try:
        weft.run()
    except ValueError as error:
        kept.append(error)
    assert len(witnesses.alive()) == 2
    traceback.clear_frames(kept[0].__traceback__)
    witnesses.judge()
    kept.clear()  # the traceback still has this frame
