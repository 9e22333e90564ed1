"""No path of an exception through contexts keeps it, here or on the target: what the frames had dies with its handling."""

import asyncio
import logging
import os
import sys
import threading

import pytest
import roamlet_dying
import roamlet_sent

import roamlet
from roamlet import core, remote
from roamlet.testing.links import holds
from tests.remote import interpreters
from tests.remote.raising import raises
from tests.witnesses import Witnesses

BARE = getattr(sys, "_base_executable", sys.executable)
TASKLETS = "tasklets"
PLACES = [name for name in interpreters.found() if name in ("2.7", "3.6", "3.13", "own")]


@pytest.fixture(scope="module", params=[*PLACES, TASKLETS])
def place(request):
    """A context in which nothing collects; one where calls run on threads, for each version, and one where they are tasklets."""
    if request.param == TASKLETS:
        if core.backend == "greenlet":
            pytest.skip("the core that travels is the one with the backend native, which is not built here")
        with remote.local(python=BARE, tasklets=True, output=lambda *_: None) as context:
            yield context
        return
    with remote.local(python=interpreters.found()[request.param], output=lambda *_: None) as context:
        yield context


@pytest.fixture
def watched(place, tmp_path):
    """The context of `place`, watched for witnesses: after the test none is alive on the target, and at least one was made."""
    place.call(roamlet_dying.begin, (str(tmp_path),))
    yield place
    (tmp_path / "question").touch()
    while not (tmp_path / "answer").exists():
        roamlet.sleep(0.001)
    made, _, alive = (tmp_path / "answer").read_text().partition(";")
    assert int(made)
    assert alive == ""


# ---- on the target ----


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (roamlet_dying.fail, ValueError),
        (roamlet_dying.fail_deeper, ValueError),
        (roamlet_dying.fail_with_own_error, remote.RemoteError),
        (roamlet_dying.fail_with_fields, remote.RemoteError),
        (roamlet_dying.exit_program, remote.FunctionExited),
        (roamlet_dying.interrupt, remote.RemoteError),
        (roamlet_dying.handle_and_fail, KeyError),
        (roamlet_dying.return_what_cannot_travel, remote.CannotTravel),
        (roamlet_dying.return_what_fails, remote.RemoteError),
        (roamlet_dying.import_what_fails, Exception),
        (roamlet_dying.import_what_is_nowhere, ImportError),
    ],
)
def test_nothing_of_a_call_that_failed_is_kept_on_the_target(watched, function, kind):
    for _ in range(3):
        with raises(kind):
            watched.call(function)


@pytest.mark.parametrize(
    "function",
    [
        roamlet_dying.handle,
        roamlet_dying.handle_and_log,
        roamlet_dying.handle_in_a_thread,
        roamlet_dying.import_in_a_try,
    ],
)
def test_nothing_of_a_call_that_handled_an_error_is_kept_on_the_target(watched, function):
    for _ in range(3):
        watched.call(function)


def test_nothing_is_kept_by_the_threads_that_rest_after_many_calls_at_once(watched):
    calls = [watched.spawn(roamlet_dying.fail_deeper) for _ in range(30)]
    for call in calls:
        with raises(ValueError):
            call.join()


def test_arguments_of_a_call_that_failed_die_on_the_target(watched):
    channel = roamlet.channel()
    with raises(ValueError):
        watched.call(roamlet_dying.take, ([channel], roamlet_dying.MARK), {"key": {"of": channel}})


def test_no_thread_that_rests_holds_the_message_of_its_last_call(watched):
    calls = [watched.spawn(roamlet_dying.fail, (roamlet_dying.MARK,)) for _ in range(10)]
    for call in calls:
        with raises(ValueError):
            call.join()


def test_a_generator_that_fails_or_is_left_dies_on_the_target(watched):
    with raises(ValueError):
        list(watched.iterate(roamlet_dying.values, (3,)))
    with watched.iterate(roamlet_dying.values, (10_000,)) as left:
        assert next(left) == 0


def test_errors_that_meet_over_channels_die_on_the_target(watched):
    channel = roamlet.channel()
    call = watched.spawn(roamlet_dying.receive_an_error, (channel,))
    channel.send_exception(ValueError, "sent")
    assert call.join() == "the frame that received"
    call = watched.spawn(roamlet_dying.let_an_error_pass, (channel,))
    channel.send("a value")
    channel.send_exception(ValueError, "sent")
    with raises(ValueError):
        call.join()
    call = watched.spawn(roamlet_dying.receive_and_fail, (channel,))
    channel.send([channel])
    with raises(ValueError):
        call.join()
    call = watched.spawn(roamlet_dying.send_an_error, (channel,))
    with raises(ValueError):
        channel.receive()
    call.join()
    with raises(remote.RemoteError):
        watched.call(roamlet_dying.send_what_cannot_travel, (channel,))
    channel.close()
    with raises(remote.RemoteError):
        watched.call(roamlet_dying.send_to_a_closed_channel, (channel,))


def test_a_call_that_is_killed_dies_on_the_target(watched):
    channel = roamlet.channel()
    call = watched.spawn(roamlet_dying.wait, (channel,))
    channel.receive()
    call.kill()
    with raises(roamlet.TaskletKilled):
        call.join()


def test_a_chain_that_breaks_keeps_nothing_on_the_target(watched):
    with raises(ValueError), watched.chain() as chain:
        gate = roamlet.channel()
        chain.spawn(roamlet_dying.receive_and_fail, (gate,))
        behind = chain.spawn(roamlet_dying.fail, (gate,))
        gate.send("go on")
    with raises(remote.ChainBroken):
        behind.join()


def test_a_function_that_travels_by_value_dies_on_the_target(watched):
    witness = roamlet_dying.Witness

    def fails():
        local = witness("the frame that raised")
        raise ValueError(local.name)

    with raises(ValueError if watched.facts.python[:2] == sys.version_info[:2] else remote.CannotTravel):
        watched.call(fails)
    with raises(ValueError):
        watched.call(roamlet_dying.fail)


# ---- here ----

PATHS = {}


def path(function):
    PATHS[function.__name__] = function
    return function


@pytest.fixture(scope="module")
def context():
    with remote.local(python=sys.executable, output=lambda *_: None) as context:
        context.call(roamlet_dying.begin_without_asking)
        yield context


@path
def a_call(context, witnesses):
    def calls():
        local = witnesses("the frame that called")
        context.call(roamlet_dying.fail, (local.name,))

    witnesses.handles(calls)


@path
def a_call_whose_error_is_unknown_here(context, witnesses):
    witnesses.handles(lambda: context.call(roamlet_dying.fail_with_own_error), remote.RemoteError)


@path
def a_call_that_exits(context, witnesses):
    witnesses.handles(lambda: context.call(roamlet_dying.exit_program), remote.FunctionExited)


@path
def a_call_whose_result_cannot_travel(context, witnesses):
    witnesses.handles(lambda: context.call(roamlet_dying.return_what_cannot_travel), remote.CannotTravel)


@path
def a_call_whose_arguments_cannot_travel(context, witnesses):
    channel = roamlet.channel()

    def calls():
        local = witnesses("an argument that cannot travel")
        context.call(roamlet_sent.echo, ([channel, threading.Lock(), local],))

    witnesses.handles(calls, remote.CannotTravel)
    assert not holds(context).channels


@path
def a_call_of_what_is_not_there(context, witnesses):
    witnesses.handles(lambda: context.call(roamlet_dying.import_what_is_nowhere), ImportError)
    witnesses.handles(lambda: context.call(roamlet_sent.__dict__["Shelf"]().book, (1,)), TypeError)


@path
def a_call_with_wrong_arguments(context, witnesses):
    witnesses.handles(lambda: context.call(roamlet_sent.echo, 5), TypeError)
    witnesses.handles(lambda: context.call(roamlet_sent.echo, (), {1: witnesses("a value")}), TypeError)


@path
def a_call_of_a_function_by_value(context, witnesses):
    def calls():
        local = witnesses("the frame that made the function")
        name = local.name

        def fails():
            raise ValueError(name)

        context.call(fails)

    witnesses.handles(calls)


@path
def a_call_that_takes_too_long(context, witnesses):
    witnesses.handles(lambda: context.call(roamlet_sent.never_return, timeout=0.01), remote.CallTimeout)


@path
def a_call_that_is_killed(context, witnesses):
    waiting = roamlet.tasklet(witnesses.handles)(lambda: context.call(roamlet_sent.never_return), roamlet.TaskletExit)
    roamlet.schedule()
    waiting.kill()
    witnesses.judge()
    assert not waiting.alive


@path
def an_error_thrown_into_a_call(context, witnesses):
    waiting = roamlet.tasklet(witnesses.handles)(lambda: context.call(roamlet_sent.never_return))
    roamlet.schedule()
    try:
        witnesses.fails()
    except ValueError as error:
        waiting.throw(error)
    witnesses.judge()
    assert not waiting.alive


@path
def a_spawned_call(context, witnesses):
    kept = context.spawn(roamlet_dying.fail)
    witnesses.handles(kept.join)
    witnesses.handles(kept.join)
    witnesses.handles(lambda: kept.result)
    witnesses.judge()
    assert kept.done


@path
def a_spawned_call_that_is_killed(context, witnesses):
    channel = roamlet.channel()
    kept = context.spawn(roamlet_dying.wait, (channel,))
    channel.receive()
    kept.kill()
    witnesses.handles(kept.join, roamlet.TaskletKilled)
    witnesses.judge()
    assert kept.done


@path
def a_spawned_call_that_takes_too_long(context, witnesses):
    kept = context.spawn(roamlet_sent.never_return)
    witnesses.handles(lambda: kept.join(0.0), TimeoutError)
    witnesses.judge()
    assert not kept.done


@path
def a_spawned_call_of_a_module_that_is_nowhere(context, witnesses):
    kept = context.spawn(roamlet_dying.import_what_is_nowhere)
    witnesses.handles(kept.join, ImportError)
    witnesses.judge()
    assert kept.done


@path
def a_stream_that_fails(context, witnesses):
    kept = context.iterate(roamlet_dying.values, (3,))
    witnesses.handles(lambda: list(kept))
    witnesses.judge()
    witnesses.handles(lambda: next(kept), StopIteration)


@path
def a_stream_whose_reader_fails(context, witnesses):
    def reads():
        with context.iterate(roamlet_dying.values, (5000,)) as stream:
            for value in stream:
                witnesses.fails(value)

    witnesses.handles(reads)


@path
def a_chain_that_breaks(context, witnesses):
    def calls():
        local = witnesses("the frame with the chain")
        with context.chain() as chain:
            chain.spawn(roamlet_dying.fail)
            chain.call(roamlet_dying.fail, (local.name,))

    witnesses.handles(calls)


@path
def a_chain_that_is_kept(context, witnesses):
    kept = context.chain()
    gate = roamlet.channel()
    calls = [kept.spawn(roamlet_dying.receive_and_fail, (gate,)), *(kept.spawn(roamlet_dying.fail) for _ in range(2))]
    gate.send("go on")
    witnesses.handles(kept.join)
    for call in calls[1:]:
        witnesses.handles(call.join, remote.ChainBroken)
    witnesses.handles(lambda: kept.call(roamlet_dying.fail), remote.ChainBroken)
    witnesses.judge()
    kept.reset()


@path
def a_call_in_a_chain_that_takes_too_long(context, witnesses):
    with remote.local() as own:
        chain = own.chain()
        witnesses.handles(lambda: chain.call(roamlet_sent.never_return, timeout=0.01), remote.CallTimeout)
        witnesses.judge()
        assert chain.broken


@path
def iterables_that_fail(context, witnesses):
    def items():
        yield 1
        witnesses.fails()

    witnesses.handles(lambda: list(remote.map(roamlet_sent.echo, items(), [context])))


@path
def errors_that_wait_in_a_buffer(context, witnesses):
    buffer = roamlet.channel(3)

    def sends():
        try:
            witnesses.fails()
        except ValueError as error:
            buffer.send_exception(error)

    for receive in (buffer.receive, lambda: next(buffer), lambda: roamlet.select(buffer, roamlet.channel())):
        sends()
        witnesses.handles(receive)
        waiting = roamlet.tasklet(witnesses.handles)(receive)
        roamlet.schedule()
        sends()
        roamlet.run()
        witnesses.judge()
        assert not waiting.alive
    del sends


@path
def a_block_with_a_chain_that_fails_here(context, witnesses):
    def calls():
        with context.chain() as chain:
            chain.spawn(roamlet_sent.nothing)
            witnesses.fails(chain)

    witnesses.handles(calls)


async def handled_in_a_coroutine(calls, witnesses, kind):
    """What asyncio.run() raises, asyncio itself keeps in a cycle; so it is handled inside."""
    local = witnesses("the coroutine that handled it")
    try:
        await calls()
    except kind:
        witnesses.seen.append(local.name)


@path
def a_call_from_asyncio(context, witnesses):
    async def calls():
        local = witnesses("the coroutine's frame")
        await context.acall(roamlet_dying.fail, (local.name,))

    asyncio.run(handled_in_a_coroutine(calls, witnesses, ValueError))


@path
def a_call_from_asyncio_that_takes_too_long(context, witnesses):
    async def calls():
        local = witnesses("the coroutine's frame")
        await context.acall(roamlet_dying.wait, (roamlet.channel(),), timeout=0.01)
        del local

    asyncio.run(handled_in_a_coroutine(calls, witnesses, remote.CallTimeout))


@path
def gathered_results(context, witnesses):
    for result in remote.gather([context] * 3, roamlet_dying.fail):
        witnesses.handles(result.get)
    del result
    kept = list(remote.gather([context] * 2, roamlet_dying.fail))
    for result in kept:
        witnesses.handles(result.get)
    del result
    witnesses.judge()
    assert len(kept) == 2


@path
def what_is_mapped(context, witnesses):
    for result in remote.map(roamlet_dying.fail, [1, 2, 3], [context]):
        witnesses.handles(result.get)
    del result


@path
def contexts_that_cannot_be_opened(context, witnesses):
    witnesses.handles(lambda: remote.local(python="/no/such/python"), remote.ConnectError)
    witnesses.handles(lambda: remote.local(python="/bin/false"), remote.ConnectError)

    def opens():
        local = witnesses("the frame that opened")
        with remote.open_all([remote.local, lambda: remote.local(python="/no/such/python")]) as opened:
            assert len(opened.contexts) == 1, local

    witnesses.seen.append("opened")
    opens()


@path
def a_fork_that_cannot_be_made(context, witnesses):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("roamlet.remote.transports.fork_child._fork_here", lambda *_: OSError("no more processes"))
        witnesses.handles(lambda: remote.fork(beside_threads=True), OSError)


@path
def an_error_of_a_block_with_a_context(context, witnesses):
    def opens():
        with remote.local() as own:
            witnesses.fails(own)

    witnesses.handles(opens)


@path
def a_context_that_dies(context, witnesses):
    with remote.local(output=lambda *_: None) as own:
        calls = [own.spawn(roamlet_sent.never_return), own.spawn(roamlet_sent.never_return)]
        witnesses.handles(lambda: own.call(roamlet_sent.die_with, (3,)), remote.ContextDied)
        for call in calls:
            witnesses.handles(call.join, remote.ContextDied)
        witnesses.handles(lambda: own.call(roamlet_sent.nothing), remote.ContextDied)
        witnesses.judge()
    witnesses.handles(lambda: own.call(roamlet_sent.nothing), (remote.ContextDied, remote.ContextClosed))
    witnesses.judge()
    assert own.closed


@path
def a_context_that_is_closed_meanwhile(context, witnesses):
    with remote.local() as own:
        waiting = roamlet.tasklet(witnesses.handles)(lambda: own.call(roamlet_sent.never_return), remote.ContextClosed)
        roamlet.schedule()
    roamlet.run()
    witnesses.judge()
    assert not waiting.alive


@path
def output_that_is_not_taken(context, witnesses):
    def output(*_):
        witnesses.fails()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging.getLogger("roamlet.remote"), "disabled", True)
        patch.setattr(sys, "excepthook", lambda *_: None)
        patch.setattr(threading, "excepthook", lambda *_: None)
        with remote.local(output=output) as own:
            own.call(roamlet_sent.print_lines, (["a line"], []))
        witnesses.judge()
        assert own.closed


@path
def records_of_errors_over_there(context, witnesses):
    seen = []

    class Handler(logging.Handler):
        def emit(self, record):
            seen.append(self.format(record))

    handler, logger = Handler(), logging.getLogger("dying")
    logger.addHandler(handler)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logger, "propagate", False)
        with remote.local() as own:
            own.call(roamlet_dying.handle_and_log)
    logger.removeHandler(handler)
    assert "below the frame that raised" in seen[0]
    witnesses.handles(witnesses.fails)


@path
def errors_sent_from_over_there(context, witnesses):
    channel = roamlet.channel()
    call = context.spawn(roamlet_dying.send_an_error, (channel,))
    witnesses.handles(channel.receive)
    call.join()


@path
def errors_sent_to_a_call(context, witnesses):
    channel = roamlet.channel()
    call = context.spawn(roamlet_dying.let_an_error_pass, (channel,))

    def sends():
        try:
            witnesses.fails(channel)
        except ValueError as error:
            channel.send_exception(error)

    sends()
    witnesses.handles(call.join)
    del sends


@path
def values_that_cannot_travel_to_a_call(context, witnesses):
    channel = roamlet.channel()
    call = context.spawn(roamlet_sent.receive_error, (channel,))
    channel.send([threading.Lock(), witnesses("a value")])
    channel.close()
    witnesses.seen.append(call.join())


@path
def windows_that_are_closed(context, witnesses):
    window = roamlet.channel(3)
    call = context.spawn(roamlet_dying.send_an_error, (window,))
    witnesses.handles(window.receive)
    call.join()
    window.close()
    witnesses.handles(lambda: window.send(witnesses("a value")), roamlet.ChannelClosed)
    witnesses.judge()
    assert window.closed


@path
def files_that_cannot_be_copied(context, witnesses):
    def progress(_):
        witnesses.fails()

    witnesses.handles(lambda: context.put("/no/such/file", "/tmp/x"), FileNotFoundError)
    witnesses.handles(lambda: context.put(__file__, "/no/such/folder/x"), OSError)
    witnesses.handles(lambda: context.get("/no/such/file", "/tmp/x"), FileNotFoundError)
    witnesses.handles(lambda: context.get(os.path.dirname(os.__file__), "/proc/no/such", progress=progress), OSError)


@path
def detached_calls_that_cannot_begin(context, witnesses):
    witnesses.handles(lambda: context.detach(roamlet_sent.nothing, output="/no/such/folder/x"), OSError)
    witnesses.handles(lambda: context.detach(roamlet_sent.echo, (roamlet.channel(),)), remote.CannotTravel)


@path
def moves_that_are_refused(context, witnesses):
    def waits():
        local = witnesses("the frame of the tasklet")
        roamlet.channel().receive()
        return local

    moving = roamlet.tasklet(waits)()
    roamlet.schedule()
    witnesses.handles(lambda: context.move(moving), Exception)
    witnesses.handles(lambda: context.move(roamlet.getcurrent()), Exception)
    moving.kill()


@path
def contexts_behind_a_context(context, witnesses):
    with remote.local(via=context) as behind:
        witnesses.handles(lambda: behind.call(roamlet_dying.fail))
        witnesses.handles(lambda: behind.call(roamlet_sent.die_with, (3,)), remote.ContextDied)
        witnesses.judge()
    witnesses.handles(lambda: remote.local(via=context, python="/no/such/python"), remote.ConnectError)


@pytest.mark.parametrize("name", PATHS)
def test_a_local_of_the_frame_that_raised_dies_when_the_exception_was_handled(name, context):
    witnesses = Witnesses()
    PATHS[name](context, witnesses)
    witnesses.judge()
