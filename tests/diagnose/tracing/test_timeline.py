"""From events to spans, flows, waits and holds."""

import itertools
import os
import re

import pytest

import roamlet
from roamlet.diagnose.tracing import Trace
from roamlet.diagnose.tracing.timeline import READY, RUNS, WAITS, holds, timeline, waits
from roamlet.sync import Lock


def traced(function, **settings):
    with Trace(**settings) as trace:
        function()
    (recording,) = trace.recordings
    return timeline(recording)


def track(line, name):
    (found,) = [each for each in line.tracks.values() if each.name.endswith(name)]
    return found


def ping_pong():
    there, back = roamlet.channel(), roamlet.channel()

    def ping():
        for n in range(3):
            there.send(n)
            back.receive()

    def pong():
        for _ in range(3):
            back.send(there.receive())

    roamlet.tasklet(ping)()
    roamlet.tasklet(pong)()
    roamlet.run()


def test_the_stretches_of_a_track_follow_each_other_without_gaps():
    line = traced(ping_pong)
    for name in ("ping", "pong"):
        stretches = track(line, name).stretches
        assert stretches[0].state == READY
        assert stretches[-1].state == RUNS
        for before, after in itertools.pairwise(stretches):
            assert before.end == after.begin
            assert before.state != after.state or before.state == READY
        assert {each.why for each in stretches if each.state == WAITS} <= {"receive", "send"}


def test_one_tasklet_of_a_thread_runs_at_a_time():
    line = traced(ping_pong)
    runs = sorted(
        (each.begin, each.end) for one in line.tracks.values() for each in one.stretches if each.state == RUNS
    )
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(runs))


def test_each_message_is_a_flow_inside_of_spans_of_both():
    line = traced(ping_pong)
    flows = [flow for flow in line.flows if flow.kind == "message"]
    assert len(flows) == line.messages == 6
    for flow in flows:
        assert any(each.begin <= flow.begin <= each.end for each in line.tracks[flow.source].stretches)
        assert any(each.begin <= flow.end <= each.end for each in line.tracks[flow.target].stretches)


def test_a_lock_is_a_flow_from_its_holder_to_the_next():
    lock = Lock()

    def holder():
        with lock:
            roamlet.schedule()

    def waiter():
        with lock:
            pass

    def program():
        roamlet.tasklet(holder)()
        roamlet.tasklet(waiter)()
        roamlet.run()

    line = traced(program)
    (flow,) = [flow for flow in line.flows if flow.kind == "wakes"]
    assert (flow.source, flow.target) == (track(line, "holder").number, track(line, "waiter").number)
    (wait,) = [wait for wait in waits(line.tracks.values()) if wait.why == "Lock"]
    assert (wait.times, wait.tasklets) == (1, 1)
    assert wait.place.line == waiter.__code__.co_firstlineno + 1
    assert wait.total == wait.longest > 0


def test_waits_of_many_tasklets_at_one_place_are_one_row():
    def sleeper():
        roamlet.sleep(0.001)

    def program():
        for _ in range(20):
            roamlet.tasklet(sleeper)()
        roamlet.run()

    (wait,) = [wait for wait in waits(traced(program).tracks.values()) if wait.why == "sleep"]
    assert (wait.times, wait.tasklets) == (20, 20)
    assert wait.longest >= 1_000_000
    assert wait.total >= 20 * 1_000_000


def test_descriptors_are_named_by_their_number():
    ours, theirs = os.pipe()

    def reader():
        roamlet.io.wait_readable(ours)

    def program():
        roamlet.tasklet(reader)()
        roamlet.schedule()
        os.write(theirs, b"x")
        roamlet.run()

    try:
        line = traced(program)
    finally:
        os.close(ours)
        os.close(theirs)
    (stretch,) = [each for each in track(line, "reader").stretches if each.state == WAITS]
    assert stretch.why == f"descriptor {ours}"


def slow_in_c():
    re.match(r"(a+)+$", "a" * 21 + "b")


def test_what_holds_the_thread_in_c_is_found_with_its_stack():
    def program():
        roamlet.tasklet(slow_in_c)()
        roamlet.tasklet(lambda: None)()
        roamlet.run()

    line = traced(program, hold=0.005)
    found = [hold for hold in holds(line, 5_000_000) if line.tracks[hold.tasklet].name == "slow_in_c"]
    (hold,) = found
    assert hold.end - hold.begin >= 5_000_000
    assert hold.delayed == 1
    functions = [place.name for place in hold.stacks[0][1]]
    assert functions[-2:] == ["slow_in_c", "match"] or "slow_in_c" in functions


def test_short_runs_hold_nothing():
    line = traced(ping_pong)
    mine = {track(line, "ping").number, track(line, "pong").number}
    assert not [hold for hold in holds(line, 10**9) if hold.tasklet in mine]


def test_a_trace_that_begins_and_ends_in_the_middle():
    channel = roamlet.channel()

    def receiver():
        for _ in channel:
            pass

    old = roamlet.tasklet(receiver)()
    roamlet.schedule()
    line = traced(lambda: channel.send(1))
    assert line.tracks[next(number for number, one in line.tracks.items() if one.name.endswith("receiver"))].stretches
    assert line.messages == 1
    old.kill()


def test_values_through_a_buffer_flow_from_their_senders_to_their_receivers():
    channel = roamlet.channel(2)
    channel.send("before")

    def sends(*values):
        for value in values:
            channel.send(value)

    def receives():
        for _ in range(5):
            channel.receive()

    def program():
        roamlet.tasklet(sends)(1, 2, 3)
        roamlet.schedule()
        roamlet.tasklet(lambda: channel.give_back("back"))()
        roamlet.tasklet(receives)()
        roamlet.run()

    line = traced(program)
    assert line.messages == 5
    names = [
        (line.tracks[flow.source].name, line.tracks[flow.target].name) for flow in line.flows if flow.kind == "message"
    ]
    assert [source.rpartition(".")[2] for source, _ in names] == [
        "<lambda>",
        "sends",
        "sends",
        "sends",
    ]  # not of "before"
    assert {target.rpartition(".")[2] for _, target in names} == {"receives"}
    assert all(flow.begin <= flow.end for flow in line.flows)


def test_a_full_ring_still_makes_a_timeline():
    line = traced(lambda: [ping_pong() for _ in range(20)], events=16)
    assert line.recording.dropped > 0
    assert line.recording.dropped_text().startswith("dropped, because the buffer was full: ")
    for one in line.tracks.values():
        for before, after in zip(one.stretches, one.stretches[1:], strict=False):
            assert before.end <= after.begin


@pytest.mark.parametrize("settings", [{"hold": 0}, {"hold": float("nan")}, {"events": 1}])
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ValueError, match="trace"):
        Trace(**settings)


def test_a_second_trace_is_refused_and_a_second_stop_does_nothing():
    with Trace() as trace:
        with pytest.raises(RuntimeError, match="already"):
            Trace().start()
        trace.stop()
    assert len(trace.recordings) == 1


def test_a_forked_child_has_no_trace():
    with Trace() as trace:
        child = os.fork()
        if child == 0:
            try:
                with Trace():
                    ping_pong()
                os._exit(7)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert trace.recordings
