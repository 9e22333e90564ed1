"""Contexts in a trace: calls on one clock, the tasklets of targets, moves, and modules."""

import json
import time

import pytest

import roamlet
from roamlet import _observing as observing
from roamlet import remote
from roamlet.diagnose.tracing import Trace
from roamlet.diagnose.tracing.contexts import _Context
from roamlet.diagnose.tracing.timeline import arrivals, timeline
from tests.snapshot.conftest import KNOWN


def spans(trace, kind):
    return [span for span in trace.recordings[0].spans if span.kind == kind]


def works(seconds):
    time.sleep(seconds)
    return seconds


def sleeps():
    roamlet.sleep(0.005)


def fails():
    raise ValueError("no")


def test_a_call_is_a_span_with_its_time_on_the_target_inside():
    with Trace() as trace, remote.local(name="alpha") as alpha:
        assert alpha.call(works, (0.02,)) == 0.02
        assert alpha.spawn(works, (0.0,)).join() == 0.0
    first, second = spans(trace, "remote call")
    (inner, _) = spans(trace, "on the target")
    assert (first.context, first.name.rpartition(".")[2]) == ("alpha", "works")
    assert first.begin <= inner.begin
    assert inner.end <= first.end
    assert inner.end - inner.begin >= 20_000_000
    assert first.details["on the target (ms)"] >= 20
    assert first.details["target's clock ahead by (ms)"] == 0
    assert first.tasklet != 0
    assert second.begin >= first.begin
    assert observing.observer is None


FIRST = """\
    import os, sys
    from roamlet.diagnose import trace

    with trace():
        pass
    print([name for name in sys.modules if name.startswith(("roamlet.remote", "roamlet.wire"))])
    with trace() as second:
        from roamlet import remote

        with remote.local(name="alpha") as alpha:
            alpha.call(os.getpid)
    print([span.kind for span in second.recordings[0].spans])
    """


def test_a_program_without_contexts_loads_nothing_of_them_and_the_first_one_is_seen(program, python):
    done = python(program(FIRST))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "[]\n['remote call', 'on the target']\n"


def test_a_call_that_fails_has_its_times_too():
    with Trace() as trace, remote.local(name="alpha") as alpha, pytest.raises(ValueError, match="no"):
        alpha.call(fails)
    (call,) = spans(trace, "remote call")
    assert call.details["on the target (ms)"] >= 0


def test_a_context_that_is_open_before_and_after_the_trace():
    with remote.local(name="alpha") as alpha:
        alpha.call(works, (0,))
        for _ in range(2):
            with Trace() as trace:
                alpha.call(works, (0,))
            assert len(spans(trace, "on the target")) == 1
        assert alpha.call(works, (0,)) == 0


def test_modules_that_travel_are_named():
    with Trace() as trace, remote.local(name="alpha") as alpha:
        alpha.call(works, (0,))
    assert any(__name__ in span.name for span in spans(trace, "modules sent"))


def test_the_tasklets_of_a_context_are_tracks_on_the_same_clock():
    with Trace() as trace, remote.local(name="alpha", tasklets=True) as alpha:
        alpha.call(sleeps)
    own, there = trace.recordings
    assert (there.process, there.shift) == ("context alpha", 0)
    assert there.pid != own.pid
    line = timeline(there)
    (inner,) = spans(trace, "on the target")
    asleep = [
        each
        for track in line.tracks.values()
        for each in track.stretches
        if each.why == "sleep" and each.end > each.begin
    ]
    assert any(inner.begin <= each.begin <= each.end <= inner.end for each in asleep)


def travels(place):
    roamlet.move_to(place)
    roamlet.sleep(0.001)
    return 7


@pytest.mark.skipif(not KNOWN, reason="tasklets do not move on this version or backend")
def test_a_move_is_one_flow_between_the_tracks(tmp_path):
    with Trace() as trace, remote.local(name="alpha", tasklets=True) as alpha:
        assert roamlet.spawn(travels, (alpha,)).join() == 7
    lines = [timeline(recording) for recording in trace.recordings]
    ((span, line, track),) = arrivals(lines)
    assert line is lines[1]
    assert lines[0].tracks[span.tasklet].name == "travels"
    assert any(each.place is not None and each.place.name == "travels" for each in track.stretches)
    path = tmp_path / "trace.json"
    trace.save(path)
    events = [event for event in json.loads(path.read_text())["traceEvents"] if event["name"] == "move"]
    start, finish = sorted(events, key=lambda event: event["ph"], reverse=True)
    assert (start["ph"], finish["ph"]) == ("s", "f")
    assert start["id"] == finish["id"]
    assert start["pid"] != finish["pid"]
    trace.save(tmp_path / "trace.html")


def test_a_context_that_dies_leaves_the_rest_of_the_trace(caplog):
    with Trace() as trace:
        alpha = remote.local(name="alpha")
        alpha.call(works, (0,))
        alpha._calls.link.process.kill()
        with pytest.raises(remote.RemoteError):
            alpha.call(works, (0,))
        alpha.close()
    assert len(spans(trace, "remote call")) >= 1
    assert observing.observer is None


def test_the_clock_of_another_machine_is_found_between_sending_and_answer():
    class Link:
        is_near = False

    class Calls:
        name, link = "alpha", Link()

    context = _Context(Calls())
    ahead = 5_000_000_000
    context.bound(1_000 + ahead, 500, 1_600)
    context.bound(2_000 + ahead, 1_900, 9_000)
    assert abs(context.ahead - ahead) <= (1_600 - 900) // 2
