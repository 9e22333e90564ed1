"""The threads that contexts share: an error in one of their tasklets does not end them."""

import logging
import struct
from types import SimpleNamespace

import pytest

import roamlet
from roamlet import remote
from roamlet.remote.base.threads import TaskletThread
from roamlet.remote.channels.served import Channels
from roamlet.sync import Event
from roamlet.wire import channels as wire
from roamlet.wire import codec
from tests.remote.inside import link_of


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
    "job", [failing, exiting, lambda: roamlet.tasklet(failing)(), lambda: roamlet.getmain().throw(failing)]
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
    assert said == ["a background job of roamlet.remote failed; this is a mistake in roamlet"] * 2
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
