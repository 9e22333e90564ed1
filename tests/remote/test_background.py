"""The threads that contexts share: an error in one of their tasklets does not end them."""

import asyncio
import logging
import struct
import threading
from types import SimpleNamespace

import pytest

import roamlet
from roamlet import remote
from roamlet.remote.base import threads
from roamlet.remote.base.threads import TaskletThread
from roamlet.remote.channels.served import Channels
from roamlet.sync import Event
from roamlet.wire import channels as wire
from roamlet.wire import codec
from tests.remote.inside import link_of
from tests.remote.raising import raises


@pytest.fixture
def thread():
    thread = TaskletThread("under-test")
    yield thread
    thread.stop()
    thread.join()
    assert not thread.thread.is_alive()


def failing():
    raise ReferenceError("weakly-referenced object no longer exists")


def exiting():
    raise SystemExit(3)


@pytest.mark.parametrize(
    "job", [failing, exiting, lambda: roamlet.tasklet(failing)(), lambda: roamlet.getmain().throw(KeyError("thrown"))]
)
def test_a_tasklet_that_fails_is_logged_and_ends_no_thread(thread, caplog, job):
    first, second = Event(), Event()
    with caplog.at_level(logging.ERROR):
        for event in (first, second):
            thread.post(job)
            thread.post(event.set)
            assert event.wait(30)
        thread.stop()
        thread.join()
    said = [record.getMessage() for record in caplog.records]
    own = "a background job of roamlet.remote failed; this is a mistake in roamlet"
    other = "a tasklet failed that was started in the thread 'under-test', which serves contexts"
    assert said == [own if job is failing else other] * 2
    assert all(record.exc_info for record in caplog.records)
    caplog.clear()


def test_a_job_that_waits_goes_on_when_another_one_has_failed(thread, caplog):
    waits, done = Event(), Event()

    def job():
        waits.wait()
        done.set()

    thread.post(job)
    thread.post(failing)
    thread.post(waits.set)
    assert done.wait(30)
    caplog.clear()


def test_each_job_that_was_posted_before_the_end_begins_and_is_told_of_it():
    """Without that, what waits for the job waits for ever: a call that is spawned while its context is closed."""
    for _ in range(20):
        thread = TaskletThread("under-test")
        told = []

        def job(told=told):
            try:
                roamlet.channel().receive()
            finally:
                told.append(roamlet.core.thread_ends())

        for _ in range(3):
            thread.post(job)
        thread.stop()
        thread.join()
        assert told == [True] * 3


def test_jobs_that_fail_at_the_end_keep_no_other_one_from_beginning(caplog):
    thread = TaskletThread("under-test")
    began = []
    for job in (failing, lambda: began.append(1), exiting, lambda: began.append(2)):
        thread.post(job)
    thread.stop()
    thread.join()
    assert began == [1, 2]
    assert not thread.thread.is_alive()
    caplog.clear()


def test_a_call_of_asyncio_is_answered_when_its_context_closes_before_it_is_sent(monkeypatch):
    monkeypatch.setattr(threads, "_threads", None)  # this context is the last one of its threads, whatever else is open
    context = remote.local()
    modules = link_of(context)._threads.modules
    busy, go_on = threading.Event(), threading.Event()

    def keep_the_thread():
        busy.set()
        go_on.wait(30)

    modules.post(keep_the_thread)
    busy.wait(30)
    closing = threading.Thread(target=context.close)

    async def call():
        called = asyncio.create_task(context.acall(pow, (2, 5)))
        await asyncio.sleep(0)  # it is posted
        closing.start()
        while not modules._ending:
            await asyncio.sleep(0.001)
        go_on.set()
        async with asyncio.timeout(30):
            await called

    with raises(remote.ContextClosed, match="was not called|is closed|was closed"):
        asyncio.run(call())
    closing.join()


def test_contexts_open_after_a_background_job_has_failed(caplog):
    with remote.local() as first:
        first.call(int)
        link_of(first)._threads.links.post(failing)
        with remote.local() as second:
            assert second.call(pow, (2, 5)) == 32
        assert first.call(pow, (2, 6)) == 64
    caplog.clear()


@pytest.fixture
def served():
    """The channels of a link that ends and is gone at once: a channel, its number, and a function that ends it."""

    class Gone:
        """A link, as far as it is used before its end."""

        is_full = False
        identifier = 1
        name = "gone"

    link = [Gone()]
    channels = Channels(link[0], SimpleNamespace(links=SimpleNamespace(may_wake=lambda change: None)))
    channel = roamlet.channel()
    number = channels.number_of(channel)

    def end():
        channels.end()
        link.clear()

    return channels, channel, number, end


def test_tasklets_of_a_link_that_is_gone_before_they_run_touch_it_no_more(served):
    channels, channel, number, end = served
    channels.take(number, wire.VERB.pack(b"S", 1) + codec.dumps("a value"))  # a sender that waits
    channels.take(number, wire.VERB.pack(b"X", 2) + codec.dumps(("builtins", "ValueError", (), "")))
    channels.take(number, wire.VERB.pack(b"Q", 3))  # a question that is answered later
    assert len(channels._requests) == 3
    end()
    roamlet.run()
    assert channel.balance == 0
    assert not channels._requests and not channels._bytes


def test_a_tasklet_that_would_receive_for_a_link_that_is_gone_receives_nothing(served):
    channels, channel, number, end = served
    channels.take(number, wire.ASK.pack(b"A", 1, 5, 0))
    end()
    roamlet.run()
    assert channel.balance == 0
    assert channels._pumps == 0
    with pytest.raises(ValueError, match="not given"):
        channels.take(number + 1, struct.pack(">cI", b"R", 1))
