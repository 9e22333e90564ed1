"""Inline reading: after a row of quick calls the caller reads its answer, and leaves everything else to the reader."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import roamlet_sent

import roamlet
from roamlet import remote
from roamlet.remote.link import inline
from roamlet.testing.links import holds
from tests.remote.fakes import hostile
from tests.remote.inside import link_of
from tests.remote.replacing import replace_method
from tests.remote.stopping import gone
from tests.remote.test_hostile import BAD_FRAMES

# Answers calls until one of add() comes.
ANSWERING = """
hello()
while True:
    number, kind, body = receive()
    if kind == protocol.CALL and b"add" in body:
        break
    if kind == protocol.CALL:
        send(protocol.RESULT, b"N", number)
"""


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reader pauses as soon as it may, and for as long as it is not needed, however slow the machine is."""
    for name in ("QUICK", "PAUSE", "LONGEST_WAIT"):
        monkeypatch.setattr(inline, name, 600.0)


@pytest.fixture
def context(patient: None) -> Iterator[remote.Context]:
    with remote.local(python=sys.executable) as context:
        yield context


def paused(context: Any) -> Any:
    """Let the reader pause, and return the InlineReader."""
    reader = link_of(context)._inline
    while not reader.paused:
        context.call(roamlet_sent.nothing)
        roamlet.schedule()
    return reader


def uses(context: Any, reader: Any) -> Callable[[], int]:
    """How often callers have read their answers since."""
    before = reader._used
    return lambda: reader._used - before


def interruption(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What raises once, as the handler of a signal may do anywhere."""

    def interrupted(*_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    return interrupted


def test_after_a_row_of_quick_calls_the_caller_reads_its_answers(context):
    reader = paused(context)
    used = uses(context, reader)
    assert [context.call(roamlet_sent.add, (n, 1)) for n in range(50)] == list(range(1, 51))
    assert used() == 50
    assert reader.paused


def test_an_error_and_bytes_are_counted_as_the_reader_would(context):
    with pytest.raises(ValueError, match="not good"):  # the first one may ask for a module
        context.call(roamlet_sent.raise_value_error)
    reader = paused(context)
    used = uses(context, reader)
    before = context.stats.bytes_up
    with pytest.raises(ValueError, match="not good"):
        context.call(roamlet_sent.raise_value_error)
    assert used() == 1
    assert context.stats.bytes_up > before + 100


def test_what_is_printed_before_an_answer_is_left_to_the_reader(monkeypatch):
    monkeypatch.setattr(inline, "QUICK", 600.0)
    monkeypatch.setattr(inline, "PAUSE", 600.0)
    said: list[str] = []
    with remote.local(python=sys.executable, output=lambda context, stream, line: said.append(line)) as context:
        reader = paused(context)
        assert context.call(roamlet_sent.print_lines, (["out"], [])) is None
        assert not reader.paused
        assert context.call(roamlet_sent.add, (1, 2)) == 3
    assert said == ["out"]


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_nothing_malformed_is_taken_for_the_answer(patient, tmp_path, name):
    send, says = BAD_FRAMES[name]
    with remote.local(hostile(tmp_path, ANSWERING + send), name="hostile", timeout=20) as context:
        paused(context)
        with pytest.raises(remote.ProtocolError, match=says):
            context.call(roamlet_sent.add, (1, 2), timeout=20)


def test_a_result_of_many_reads_comes_whole(context):
    paused(context)
    assert context.call(roamlet_sent.zeros, (3_000_000,)) == bytes(3_000_000)
    paused(context)
    assert context.call(roamlet_sent.zeros, (100_000,)) == bytes(100_000)


def test_a_result_that_is_too_large_is_refused_as_ever(context):
    paused(context)
    context.largest_result = 1000
    with pytest.raises(remote.CannotTravel, match="1000 may come up"):
        context.call(roamlet_sent.zeros, (5000,))
    assert context.call(roamlet_sent.add, (1, 2)) == 3


def test_a_call_of_another_thread_gets_its_answer_while_a_caller_waits(context):
    reader = paused(context)
    call = threading.Thread(target=context.call, args=(roamlet_sent.wait_for_release,))
    call.start()
    while reader.caller is None and call.is_alive():
        roamlet.sleep(0.001)
    assert context.call(roamlet_sent.add, (1, 2)) == 3
    context.call(roamlet_sent.release)
    call.join()
    assert context.call(roamlet_sent.add, (1, 3)) == 4


def test_a_spawned_call_wakes_the_reader(context):
    reader = paused(context)
    assert context.spawn(roamlet_sent.add, (1, 2)).join() == 3
    paused(context)
    assert reader.paused


def test_a_caller_beside_other_tasklets_does_not_keep_the_thread(context):
    reader = paused(context)
    used = uses(context, reader)
    roamlet.tasklet(roamlet.schedule)()
    assert context.call(roamlet_sent.add, (1, 2)) == 3
    assert used() == 0
    roamlet.run()


def test_a_row_of_calls_keeps_the_thread_from_nothing_that_waits_in_it(context, monkeypatch):
    monkeypatch.setattr(inline, "CPUS", 2)
    monkeypatch.setattr(inline, "SPIN", 600.0)  # each finds its answer without going to sleep
    reader = paused(context)
    used = uses(context, reader)

    def call_on_and_on() -> None:
        with roamlet.timeout(0.01):
            for _ in range(5000):
                context.call(roamlet_sent.nothing)

    with pytest.raises(TimeoutError, match="not done"):
        call_on_and_on()
    woken: list[None] = []
    other = roamlet.spawn(lambda: woken.append(roamlet.sleep(0.001)))
    for _ in range(5000):
        if not woken:
            context.call(roamlet_sent.nothing)
    assert woken
    assert used()
    other.join()


def test_a_clock_that_a_test_of_the_user_stops_has_no_effect(context, monkeypatch):
    monkeypatch.setattr(inline, "LONGEST_WAIT", 0.5)
    reader = paused(context)
    call = roamlet.spawn(context.call, (roamlet_sent.wait_for_release,))
    while reader.caller is None:  # a caller reads if no other tasklet, this one included, is runnable when it has asked
        roamlet.sleep(0.1)
    with monkeypatch.context() as stopped:
        stopped.setattr(time, "monotonic", lambda: 0.0)
        while reader.caller is not None:
            roamlet.sleep(0.001)
    context.call(roamlet_sent.release)
    call.join()


def test_a_call_that_takes_too_long_raises_although_its_caller_reads(context, monkeypatch):
    monkeypatch.setattr(inline, "LONGEST_WAIT", 0.01)
    paused(context)
    with pytest.raises(remote.CallTimeout, match="did not answer within 0.05 seconds"):
        context.call(roamlet_sent.wait_for_release, timeout=0.05)
    context.call(roamlet_sent.release)
    assert context.call(roamlet_sent.add, (1, 2)) == 3


def test_a_caller_that_is_killed_while_it_reads_lets_the_reader_go_on(context):
    reader = paused(context)
    calls = roamlet.spawn(lambda: [context.call(roamlet_sent.nothing), context.call(roamlet_sent.wait_for_release)])
    while reader.caller is None:  # a caller reads if no other tasklet, this one included, is runnable when it has asked
        roamlet.sleep(0.1)
    calls.kill()
    assert reader.caller is None
    with pytest.raises(roamlet.TaskletKilled):
        calls.join()
    context.call(roamlet_sent.release)
    assert context.call(roamlet_sent.add, (1, 2)) == 3


@pytest.mark.parametrize("error", [TimeoutError, ConnectionResetError])
def test_what_is_thrown_into_a_caller_that_reads_is_raised_there(context, error):
    reader = paused(context)
    raised: list[str] = []

    def call() -> None:
        try:
            context.call(roamlet_sent.wait_for_release)
        except error as thrown:
            raised.append(str(thrown))

    caller = roamlet.tasklet(call)()
    while reader.caller is None:  # a caller reads if no other tasklet, this one included, is runnable when it has asked
        roamlet.sleep(0.1)
    caller.throw(error, "of somebody else")
    assert raised == ["of somebody else"]
    context.call(roamlet_sent.release)
    assert context.call(roamlet_sent.add, (1, 2)) == 3


def test_a_signal_right_after_a_read_loses_nothing_of_what_was_read(monkeypatch):
    monkeypatch.setattr(inline, "QUICK", 600.0)
    monkeypatch.setattr(inline, "PAUSE", 600.0)
    said: list[str] = []

    interrupted = interruption(monkeypatch)
    with remote.local(python=sys.executable, output=lambda context, stream, line: said.append(line)) as context:
        reader = paused(context)
        replace_method(monkeypatch, reader, "_answer_in", interrupted)
        with pytest.raises(KeyboardInterrupt):
            context.call(roamlet_sent.print_lines, (["out"], []))
        assert reader.caller is None
        assert not holds(context).calls
        assert context.call(roamlet_sent.add, (1, 2)) == 3
    assert said == ["out"]


@pytest.mark.parametrize("place", ["sender.put", "read_answer"])
def test_a_signal_while_a_call_is_sent_leaves_neither_a_number_nor_a_caller_that_reads(context, monkeypatch, place):
    reader = paused(context)
    owner, name = (link_of(context).sender, "put") if place == "sender.put" else (link_of(context), place)
    replace_method(monkeypatch, owner, name, interruption(monkeypatch))
    with pytest.raises(KeyboardInterrupt):
        context.call(roamlet_sent.add, (1, 2))
    assert reader.caller is None
    assert not holds(context).calls
    assert context.call(roamlet_sent.add, (1, 3)) == 4


def test_the_death_of_the_context_is_told_to_the_caller_that_reads(context):
    paused(context)
    with pytest.raises(remote.ContextDied, match=r"died while it ran roamlet_sent\.kill_self"):
        context.call(roamlet_sent.kill_self, (signal.SIGKILL,))


def test_the_death_of_the_context_between_calls_is_found_by_the_next(context):
    paused(context)
    os.kill(context.facts.pid, signal.SIGKILL)
    assert gone(context.facts.pid)
    with pytest.raises(remote.ContextDied, match="died"):
        context.call(roamlet_sent.nothing)


def test_closing_ends_the_pause(context):
    reader = paused(context)
    context.close()
    assert not reader.paused


def test_the_reader_goes_on_when_a_caller_that_may_read_never_does(monkeypatch):
    """An interrupt may strike a caller after any step."""
    monkeypatch.setattr(inline, "QUICK", 600.0)
    with remote.local(python=sys.executable) as context:
        reader = paused(context)
        with link_of(context).sender.lock:
            assert reader.paused
            assert reader.grant(12345)
        while reader.paused:
            roamlet.sleep(0.001)
        assert reader.caller is None
        assert context.call(roamlet_sent.add, (1, 2)) == 3


def test_what_comes_unasked_is_handed_on_although_the_reader_paused(monkeypatch):
    monkeypatch.setattr(inline, "QUICK", 600.0)
    said: list[str] = []
    with remote.local(python=sys.executable, output=lambda context, stream, line: said.append(line)) as context:
        context.call(roamlet_sent.print_when_released, ("late",))
        paused(context)
        context.call(roamlet_sent.release)
        while not said:
            roamlet.sleep(0.001)
    assert said == ["late"]


def test_after_some_vain_polls_callers_stop_polling_and_try_again_later(monkeypatch):
    monkeypatch.setattr(inline, "CPUS", 2)
    monkeypatch.setattr(inline, "SPIN", -1.0)
    reader = inline.InlineReader(None, None, 1)
    looks: list[int] = []

    def looked() -> bool:
        before = len(looks)
        assert reader._spin(lambda: looks.append(1)) is None
        return len(looks) > before

    assert [looked() for _ in range(inline.FAILED_SPINS)] == [True] * inline.FAILED_SPINS
    for _ in range(2):
        assert [looked() for _ in range(inline.SKIPPED_SPINS + 1)] == [False] * (inline.SKIPPED_SPINS + 1)
        assert looked()
    assert not looked()


def test_after_a_poll_that_found_something_callers_go_on_polling(monkeypatch):
    monkeypatch.setattr(inline, "CPUS", 2)
    monkeypatch.setattr(inline, "SPIN", -1.0)
    reader = inline.InlineReader(None, None, 1)
    for _ in range(inline.FAILED_SPINS - 1):
        assert reader._spin(lambda: None) is None
    assert reader._spin(lambda: "found") == "found"
    looks: list[int] = []
    for _ in range(inline.FAILED_SPINS):
        reader._spin(lambda: looks.append(1))
    assert len(looks) == inline.FAILED_SPINS


def test_with_one_processor_no_caller_polls(monkeypatch):
    monkeypatch.setattr(inline, "CPUS", 1)
    assert inline.InlineReader(None, None, 1)._spin(lambda: pytest.fail("it looked")) is None
