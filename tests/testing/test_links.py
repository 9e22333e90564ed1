"""roamlet.testing: links that are cut or stall, and what contexts cost and hold."""

import os
import sys
import time

import pytest

import roamlet
from roamlet import remote
from roamlet.testing import links, run_until_blocked, wait_until

BARE = getattr(sys, "_base_executable", sys.executable)


@pytest.fixture
def context():
    with remote.local(python=BARE, output=lambda context, stream, line: printed.append(line)) as context:
        yield context


printed = []


def test_a_cut_link_is_an_error_for_the_call_in_flight(context):
    call = context.spawn(time.sleep, (60,))
    run_until_blocked()
    links.cut(context)
    with pytest.raises(remote.ContextDied):
        call.join()
    assert context.closed


def test_behind_another_context_the_last_link_is_cut_and_the_first_stays(context):
    with remote.local(via=context, python=BARE) as behind:
        links.cut(behind)
        with pytest.raises(remote.ContextDied):
            behind.call(os.getpid)
    assert context.call(os.getpid) == context.facts.pid


def test_nothing_passes_a_stalled_link(context):
    with links.stalled(context):
        call = context.spawn(os.getpid)
        with pytest.raises(TimeoutError), roamlet.timeout(0.2):
            call.join()
        again = context.spawn(os.getpid)
        wait_until(lambda: links.holds(context).calls == 2)
    assert again.join() == context.facts.pid


def test_a_thread_that_ends_while_its_process_stops_is_no_error(context, monkeypatch):
    listed = links.Path.iterdir
    monkeypatch.setattr(links.Path, "iterdir", lambda folder: [*listed(folder), folder / "0"])
    with links.stalled(context):
        pass
    assert context.call(os.getpid) == context.facts.pid


def test_a_link_that_is_cut_while_it_stalls(context):
    with links.stalled(context):
        links.cut(context)
    assert context.closed


def test_a_context_behind_another_cannot_be_stalled(context):
    with remote.local(via=context, python=BARE) as behind:
        with pytest.raises(ValueError, match="is behind another context and has no process of its own here"):
            with links.stalled(behind):
                pass
        assert behind.call(len, ("abc",)) == 3


def test_what_a_block_costs_is_counted(context):
    context.call(len, ("",))
    with links.counted(context) as cost:
        context.call(len, ("x" * 1000,))
        context.call(len, ("x" * 1000,))
    assert (cost.calls, cost.modules, cost.round_trips) == (2, 0, 0)
    assert 2000 < cost.bytes_down < 3000
    assert 0 < cost.bytes_up < 500


def test_a_channel_is_held_until_its_call_has_ended(context):
    channel = roamlet.channel()
    call = context.spawn(receives, (channel,))
    wait_until(lambda: links.holds(context) == (1, 1))
    channel.send("value")
    assert call.join() == "value"
    wait_until(lambda: context.call(len, ("",)) == 0 and links.holds(context) == (0, 0))


def receives(channel):
    return channel.receive()


def test_output_is_flushed(context):
    del printed[:]
    context.call(print, ("printed",))
    links.flush_output(context)
    assert printed == ["printed"]
    del printed[:]
