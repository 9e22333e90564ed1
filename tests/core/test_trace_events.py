"""What the core records of tasklets: switches with their reasons, messages, wake-ups, births and ends, in a bounded ring."""

import gc
import os
import threading
import time

import pytest

import roamlet
from roamlet.core import _core
from roamlet.diagnose.tracing.recording import Kind, Left, from_core
from roamlet.sync import Lock

INTERNAL = os.path.dirname(roamlet.__file__) + os.sep


def recorded(function, events=4096):
    _core.trace_start(INTERNAL, events)
    try:
        function()
    finally:
        raw = _core.trace_stop()
    return from_core(raw, "test", os.getpid())


def of_kind(recording, kind):
    return [event for event in recording.events() if event.kind == kind]


def names(recording):
    """The name of each tasklet that has ended, by its number."""
    return {event.source: recording.places[event.place].name for event in of_kind(recording, Kind.ENDS)}


def reasons(recording, name):
    known = names(recording)
    return [Left(e.reason) for e in of_kind(recording, Kind.SWITCH) if known.get(e.source, "").endswith(name)]


def test_a_tasklet_leaves_for_each_reason():
    sent, received, lock = roamlet.channel(), roamlet.channel(), Lock()

    def worker():
        roamlet.schedule()
        received.receive()
        sent.send(1)
        roamlet.sleep(0)
        with lock:
            pass
        roamlet.schedule_remove()

    def program():
        with lock:
            other = roamlet.tasklet(worker)()
            roamlet.schedule()
            roamlet.schedule()
            received.send(0)
            roamlet.schedule()
            sent.receive()
            roamlet.sleep(0.002)
        while not other.paused:
            roamlet.schedule()
        other.insert()
        roamlet.run()

    left = reasons(recorded(program), "worker")
    assert left == [Left.YIELDED, Left.RECEIVE, Left.SEND, Left.SLEEP, Left.QUEUE, Left.PAUSED, Left.ENDED]


def test_a_wait_has_its_place_and_what_it_waits_for():
    lock, channel = Lock(), roamlet.channel()

    def waits_for_lock():
        with lock:
            pass

    def waits_for_channel():
        helper()

    def helper():
        channel.receive()

    def program():
        lock.acquire()
        roamlet.tasklet(waits_for_lock)()
        roamlet.tasklet(waits_for_channel)()
        roamlet.schedule()
        lock.release()
        channel.send(1)
        roamlet.run()

    recording = recorded(program)
    switches = of_kind(recording, Kind.SWITCH)
    (locked,) = [event for event in switches if event.reason == Left.QUEUE]
    assert recording.places[locked.type].name == "roamlet.sync.Lock"
    assert locked.object == id(lock)
    place = recording.places[locked.place]
    assert (place.name.rpartition(".")[2], place.file) == ("waits_for_lock", __file__)
    assert place.line == waits_for_lock.__code__.co_firstlineno + 1
    (receiving,) = [event for event in switches if event.reason == Left.RECEIVE]
    assert receiving.object == id(channel)
    assert recording.places[receiving.place].line == helper.__code__.co_firstlineno + 1
    assert recording.places[receiving.caller].line == waits_for_channel.__code__.co_firstlineno + 1


def test_messages_name_sender_receiver_and_channel():
    one, other = roamlet.channel(), roamlet.channel()

    def sender():
        one.send("first")
        other.send("second")

    def receiver():
        one.receive()
        roamlet.select(one, other)

    def program():
        roamlet.tasklet(sender)()
        roamlet.tasklet(receiver)()
        roamlet.run()

    recording = recorded(program)
    known = {number: name.rpartition(".")[2] for number, name in names(recording).items()}
    messages = of_kind(recording, Kind.MESSAGE)
    assert [(known[e.source], known[e.target], e.object) for e in messages] == [
        ("sender", "receiver", id(one)),
        ("sender", "receiver", id(other)),
    ]


def test_a_channel_callback_is_called_once_beside_a_trace():
    channel, calls = roamlet.channel(), []

    def program():
        roamlet.set_channel_callback(lambda *args: calls.append(args[2:]))
        try:
            roamlet.tasklet(channel.send)(1)
            assert channel.receive() == 1
        finally:
            roamlet.set_channel_callback(None)
        roamlet.tasklet(channel.send)(2)
        assert channel.receive() == 2
        roamlet.run()

    recording = recorded(program)
    assert calls == [(False, True), (True, False)]
    assert len(of_kind(recording, Kind.MESSAGE)) == 2


def test_a_timer_and_a_release_wake():
    lock = Lock()

    def sleeper():
        with lock:
            roamlet.sleep(0.001)

    def waiter():
        with lock:
            pass

    def program():
        roamlet.tasklet(sleeper)()
        roamlet.tasklet(waiter)()
        roamlet.run()

    recording = recorded(program)
    known = {number: name.rpartition(".")[2] for number, name in names(recording).items()}
    wakes = [
        (known.get(e.source, ""), known[e.target], e.reason)
        for e in of_kind(recording, Kind.WAKES)
        if e.target in known
    ]
    assert wakes == [("", "sleeper", 1), ("sleeper", "waiter", 0)]


def test_one_that_fails_is_marked():
    def program():
        roamlet.tasklet(lambda: 1 // 0)()
        with pytest.raises(ZeroDivisionError):
            roamlet.run()

    (end,) = of_kind(recorded(program), Kind.ENDS)
    assert end.reason == 1


def test_the_ring_keeps_the_newest_events_and_counts_the_others():
    def loop():
        for _ in range(100):
            roamlet.schedule()

    def program():
        roamlet.tasklet(loop)()
        roamlet.tasklet(loop)()
        roamlet.run()

    recording = recorded(program, events=16)
    (thread,) = recording.threads
    assert recording.count == 16
    # 2 births, 1 into run(), 200 switches, 2 ends and 2 last switches, and main's going on
    assert thread.lost + 16 == recording.dropped + 16 == 2 + 1 + 200 + 2 + 2 + 1
    events = list(recording.events())
    assert [event.at for event in events] == sorted(event.at for event in events)
    assert thread.first == events[0].at > recording.started
    assert len(of_kind(recording, Kind.ENDS)) == 2


def test_room_is_rounded_up_to_a_power_of_two():
    def program():
        for _ in range(40):
            roamlet.tasklet(lambda: None)()
        roamlet.run()

    assert recorded(program, events=17).count == 32


def test_threads_have_rings_of_their_own():
    def in_thread():
        roamlet.tasklet(roamlet.sleep)(0.001)
        roamlet.run()

    def program():
        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()

    recording = recorded(program)
    assert len(recording.threads) == 2
    busy = {event.thread for event in of_kind(recording, Kind.SWITCH)}
    assert len(busy) == 1
    assert threading.get_ident() not in busy


def test_more_threads_than_rings_cost_the_oldest_events():
    def program():
        for _ in range(70):
            thread = threading.Thread(target=lambda: (roamlet.tasklet(lambda: None)(), roamlet.run()))
            thread.start()
            thread.join()

    recording = recorded(program, events=16)
    assert len(recording.threads) == 64
    assert recording.lost > 0


def test_times_are_on_the_monotonic_clock():
    before = time.monotonic_ns()
    recording = recorded(roamlet.schedule)
    assert before <= recording.started <= recording.stopped <= time.monotonic_ns()


def test_nothing_is_recorded_after_the_end_and_a_new_trace_begins_with_new_numbers():
    def program():
        roamlet.tasklet(lambda: None)()
        roamlet.run()

    first = {event.source for event in recorded(program).events()}
    program()
    second = {event.source for event in recorded(program).events()}
    assert min(second - {0}) > max(first)
    assert _core.trace_current() == 0


def test_a_trace_keeps_code_alive_and_lets_it_go():
    namespace = {"roamlet": roamlet}
    exec("def waits():\n    roamlet.schedule()\n", namespace)
    function = namespace.pop("waits")

    def program():
        nonlocal function
        roamlet.tasklet(function)()
        function = None
        roamlet.run()

    recording = recorded(program)
    assert "waits" in {place.name for place in recording.places.values()}
    gc.collect()
    assert not [each for each in gc.get_objects() if getattr(each, "__qualname__", "") == "waits"]


def test_two_at_once_and_none_are_refused():
    with pytest.raises(RuntimeError, match="no trace is being taken"):
        _core.trace_stop()
    _core.trace_start(INTERNAL, 16)
    try:
        with pytest.raises(RuntimeError, match="a trace is being taken already"):
            _core.trace_start(INTERNAL, 16)
    finally:
        _core.trace_stop()


@pytest.mark.parametrize("events", [0, 15, (1 << 24) + 1])
def test_room_out_of_range_is_refused(events):
    with pytest.raises(ValueError, match="16 to 16777216"):
        _core.trace_start(INTERNAL, events)


def test_who_holds_the_thread():
    def program():
        assert [(ident, tasklet) for ident, tasklet, _ in _core.trace_held(0)] == [
            (threading.get_ident(), _core.trace_current())
        ]
        assert _core.trace_held(10**12) == []

    recorded(program)
    assert _core.trace_held(0) == []


def test_switching_inside_a_trace_works_under_a_watchdog():
    def spin(count):
        for _ in range(count):
            pass

    def program():
        roamlet.tasklet(spin)(3_000_000)
        roamlet.tasklet(spin)(3_000_000)
        roamlet.run(slice=0.001)

    recording = recorded(program)
    assert Left.PREEMPTED in reasons(recording, "spin")


@pytest.mark.parametrize("raw", [(), (1, 2, 3, 4, 5, 6, 7), (0, 0, 0, 0, [(1, False, 16, 1, b"x")], [], [])])
def test_what_is_no_recording_is_refused(raw):
    with pytest.raises(ValueError, match=r"no recording|cut off"):
        from_core(raw, "context", 1)


@pytest.mark.pythons((3, 11), (3, 11), reason="the collector runs between instructions")
def test_no_finalizer_can_end_a_trace_while_its_rings_are_gone_through():
    inside, collected = False, []
    _core.trace_start(INTERNAL, 16)
    free = (
        [(n, n, n) for n in range(5000)],
        [[] for _ in range(500)],
    )  # what is made from now on is asked of the collector
    before = gc.get_threshold()
    gc.callbacks.append(lambda phase, info: collected.append(inside))
    gc.enable()
    try:
        for more in range(8):
            gc.set_threshold(gc.get_count()[0] + more)
            inside = True
            held = _core.trace_held(-1)
            inside = False
            assert len(held) == 1
            gc.set_threshold(*before)
    finally:
        gc.disable()
        gc.set_threshold(*before)
        gc.callbacks.pop()
        _core.trace_stop()
        del free
    assert collected
    assert not any(collected)
