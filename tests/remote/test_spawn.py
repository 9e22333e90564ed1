"""Calls that do not block: handles, streams, asyncio, and calls from threads."""

import asyncio
import logging
import threading
import types

import pytest
import roamlet_channels_sent as sent
import roamlet_sent

import roamlet
from roamlet import remote
from roamlet.remote.channels.streams import StreamChannel
from roamlet.remote.values import answers
from roamlet.sync._outcome import TaskletKilled
from tests.remote import interpreters
from tests.remote.inside import link_of, receives
from tests.remote.raising import raises

OLDEST = next(iter(interpreters.found().values()))


@pytest.fixture
def context():
    with remote.local() as context:
        yield context


@pytest.fixture(scope="module", params=[None, OLDEST], ids=["own", "oldest"])
def everywhere(request):
    with remote.local(request.param) as context:
        yield context


def test_a_spawned_call_is_joined_by_any_number(everywhere):
    call = everywhere.spawn(roamlet_sent.add, (1, 2))
    assert call.join(20) == 3 == call.join() == call.result
    assert call.done
    assert call.name == "roamlet_sent.add"
    assert everywhere.spawn(roamlet_sent.add, (1,), {"b": 5}, name="five").name == "five"


def test_a_spawned_call_raises_for_each_tasklet_that_joins(everywhere):
    call = everywhere.spawn(roamlet_sent.raise_value_error)
    for _ in range(2):
        with raises(ValueError, match="not good"):
            call.join()


def test_a_call_that_is_killed_twice_is_told_once(everywhere):
    channel, told = roamlet.channel(), roamlet.channel()
    call = everywhere.spawn(sent.end_in_two_steps, (channel, told))
    while not receives(everywhere):
        roamlet.sleep(0.001)
    call.kill()
    assert told.receive() == "one"
    call.kill()
    roamlet.spawn(lambda: (call._ended.wait(20), told.close()))  # or no tasklet would send any more
    assert list(told) == ["two"]
    with raises(TaskletKilled):
        call.join(20)


MANY = 300_000  # rows of 5 bytes and more: enough for decoding to look at the time


def test_decoding_counts_against_the_time_of_join_and_can_be_done_again(context):
    call = context.spawn(roamlet_sent.rows, (MANY,))
    call.join()
    with pytest.raises(
        TimeoutError, match=r"has ended, but its result was not decoded within 1e-09 seconds; join\(\) again"
    ):
        call.join(1e-9)
    assert call.join(0) == call.result == roamlet_sent.rows(MANY)


def test_decoding_counts_against_the_time_of_a_call(context, monkeypatch):
    monkeypatch.setattr(answers, "time", types.SimpleNamespace(monotonic=lambda: float("inf")))
    late = rf"^roamlet_sent.rows in '{context.name}' answered with \d+ bytes, which were not decoded within 60 seconds"
    with raises(remote.CallTimeout, match=late):
        context.call(roamlet_sent.rows, (MANY,), timeout=60)
    with context.chain() as chain, raises(remote.CallTimeout, match=late):
        chain.call(roamlet_sent.rows, (MANY,), timeout=60)
    with raises(remote.CallTimeout, match=late):
        asyncio.run(context.acall(roamlet_sent.rows, (MANY,), timeout=60))
    assert context.call(roamlet_sent.add, (1, 2)) == 3


def test_a_result_of_too_many_pieces_is_refused_and_nothing_else_is_harmed(context):
    with raises(remote.CannotTravel, match="too large for one message|more than 4194304 pieces"):
        context.call(roamlet_sent.empty_values, (4_200_000,))
    assert context.call(roamlet_sent.add, (1, 2)) == 3


def test_a_call_that_runs_is_not_done(everywhere):
    started, told = roamlet.channel(), roamlet.channel()
    call = everywhere.spawn(sent.wait_until_killed, (started, told))
    while not receives(everywhere):
        roamlet.sleep(0.001)
    with raises(TimeoutError, match="has not ended within 0 seconds"):
        call.join(0)
    with raises(RuntimeError, match="has no result yet"):
        _ = call.result
    call.kill()
    assert told.receive() == "killed"  # its last words are let through
    with raises(TaskletKilled, match="was killed"):
        call.join(20)


def test_a_killed_call_that_computes_ends_where_it_asks(everywhere):
    started = roamlet.channel()
    call = everywhere.spawn(sent.compute_until_killed, (started,))
    assert started.receive() == everywhere.facts.pid
    call.kill()
    with raises(TaskletKilled, match=r"compute_until_killed in .* was killed"):
        call.join(20)
    assert everywhere.call(roamlet_sent.add, (1, 1)) == 2


def test_a_call_that_was_killed_while_it_sends_has_not_sent(everywhere):
    channel = roamlet.channel()
    call = everywhere.spawn(sent.send_all, (channel, [1]))
    while not link_of(everywhere).channels._requests:
        roamlet.sleep(0.001)
    call.kill()
    with raises(TaskletKilled):
        call.join(20)
    assert roamlet.select(channel, default="nothing")[1] == "nothing"


def test_what_cannot_travel_is_refused_by_spawn_itself(context):
    with raises(remote.CannotTravel, match=r"args\[0\]"):
        context.spawn(roamlet_sent.echo, (object(),))


def test_arguments_are_those_of_the_moment(context):
    values = [1]
    call = context.spawn(roamlet_sent.echo, (values,))
    values.append(2)
    assert call.join() == [1]


def test_a_call_whose_context_dies_raises_that_and_says_so_in_the_log_when_no_caller_asks(caplog):
    with remote.local() as context:
        channel = roamlet.channel()
        calls = [context.spawn(sent.receive, (channel,)) for _ in range(2)]
        context.close()
        with raises(remote.ContextClosed):
            calls[0].join()
        assert not caplog.records
        while not calls[1].done:
            roamlet.sleep(0.001)
        with caplog.at_level(logging.WARNING):
            calls.pop()
    assert [
        "has failed, and no caller has asked for its result" in record.getMessage() for record in caplog.records
    ] == [True]


def test_wait_returns_whether_a_call_has_ended_and_leaves_its_error_to_join(context):
    released = context.spawn(roamlet_sent.wait_for_release)
    assert released.wait(0.01) is False
    failed = context.spawn(int, ("x",))
    assert failed.wait(30) is True
    with raises(ValueError, match="invalid literal"):
        failed.join()
    context.call(roamlet_sent.release)
    assert released.wait()
    released.join()


def test_a_stream_that_is_left_when_its_context_has_closed_logs_nothing(caplog):
    with remote.local() as context:
        streams = [context.iterate(sent.count_slowly, (0.01,)) for _ in range(2)]
        assert [next(stream) for stream in streams] == [0, 0]
    streams[0].close()
    streams.clear()
    assert not caplog.records


def test_the_values_of_a_generator_come_as_they_are_made(everywhere):
    assert list(everywhere.iterate(sent.count, (0, 3000))) == list(range(3000))
    assert list(everywhere.iterate(sent.count, (0,), {"stop": 0})) == []


def test_the_error_of_a_generator_comes_behind_its_values(everywhere):
    stream = everywhere.iterate(sent.count_and_fail, (3,))
    assert [next(stream) for _ in range(3)] == [0, 1, 2]
    with raises(KeyError, match="enough"):
        next(stream)
    assert list(stream) == []


def test_a_stream_that_is_left_ends_its_generator(everywhere):
    closed = roamlet.channel(1)
    for number in everywhere.iterate(sent.count_for_ever, (closed,)):
        if number == 5000:
            break
    del number
    assert closed.receive() == "generator closed"


def test_the_end_of_a_stream_does_not_interrupt_how_its_generator_ends(everywhere, monkeypatch):
    """It is killed before its channel is closed: later it would be raised in the generator's `finally` blocks."""
    order = []
    for owner, name in ((remote.RemoteCall, "kill"), (StreamChannel, "close")):
        before = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda self, name=name, before=before: (order.append((self, name)), before(self))
        )
    closed = roamlet.channel(1)
    stream = everywhere.iterate(sent.count_and_end_late, (closed,))
    own = stream._call, stream._channel  # streams of other tests may end meanwhile
    with stream:
        for number in stream:
            if number == 5000:
                break
    assert closed.receive() == "generator closed"
    assert [name for owner, name in order if owner in own][:2] == ["kill", "close"]


def test_a_generator_does_not_run_far_ahead_of_a_slow_consumer(everywhere):
    """Of 100 MB, 8 are under way or wait here at most, and some are being made and taken."""
    with everywhere.iterate(sent.blocks, (100, 1 << 20)) as stream:
        assert len(next(stream)) == 1 << 20
        ahead, unchanged = 0, 0
        while ahead < 8 or unchanged < 100:  # round trips in which it might have gone on
            now = everywhere.call(sent.taken, (1,))
            ahead, unchanged = now, unchanged + 1 if now == ahead else 0
        assert ahead <= 10
        assert sum(1 for _ in stream) == 99


def test_asyncio_goes_on_while_calls_run(everywhere):
    async def main():
        results = await asyncio.gather(*[everywhere.acall(roamlet_sent.add, (n, 1)) for n in range(20)])
        assert results == list(range(1, 21))
        with pytest.raises(ValueError, match="not good"):
            await everywhere.acall(roamlet_sent.raise_value_error)
        with pytest.raises(remote.CallTimeout, match="did not answer within 0.05 seconds"):
            await everywhere.acall(sent.receive, (roamlet.channel(),), timeout=0.05)

    asyncio.run(main())


def test_a_cancelled_task_of_asyncio_kills_its_call(context):
    started, told = roamlet.channel(), roamlet.channel(1)

    async def main():
        task = asyncio.ensure_future(context.acall(sent.wait_until_killed, (started, told)))
        while not receives(context):
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert told.receive() == "killed"


def test_event_loops_of_several_threads_call_at_once(context):
    results = []

    def run(number):
        results.append(asyncio.run(context.acall(roamlet_sent.add, (number, 1))))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [1, 2, 3, 4]


def test_fifty_threads_call_at_once(context):
    results, begin = [], threading.Barrier(50)

    def run(number):
        begin.wait()
        results.extend(context.call(roamlet_sent.add, (number, n)) for n in range(5))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted(number + n for number in range(50) for n in range(5))


def test_what_is_begun_in_a_closed_context_says_so():
    with remote.local() as context:
        pass
    call = context.spawn(roamlet_sent.add, (1, 2))
    assert call.done
    with raises(remote.ContextClosed, match="roamlet_sent.add was not sent: 'local' is closed") as caught:
        call.join()
    assert caught.value.sent is False
    with raises(remote.ContextClosed):
        context.iterate(sent.count, (0, 5))
    with raises(remote.ContextClosed):
        asyncio.run(context.acall(roamlet_sent.add, (1, 2)))
