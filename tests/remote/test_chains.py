"""Chains: calls that run in order on the target, without waiting here for each other's answers, and what the first error does."""

import sys
import threading

import pytest
import roamlet_chains_sent as sent
import roamlet_sent

import roamlet
from roamlet import io, remote
from roamlet.core.os_threads import allocate_lock, get_ident
from roamlet.io import _originals
from roamlet.sync._outcome import TaskletKilled
from roamlet.testing.links import holds
from tests.remote import interpreters
from tests.remote.inside import receives
from tests.remote.raising import raises


@pytest.fixture(scope="module", params=interpreters.found().values(), ids=interpreters.found())
def everywhere(request):
    with remote.local(request.param) as context:
        yield context


@pytest.fixture(scope="module")
def context():
    with remote.local() as context:
        yield context


@pytest.fixture
def gate(run_until):
    """A channel for a call that waits; it is closed at the end."""
    channel = roamlet.channel()
    yield channel
    channel.close()


@pytest.fixture
def run_until():
    def wait(condition):
        while not condition():
            roamlet.sleep(0.001)

    return wait


def test_calls_run_in_order_though_the_first_one_waits(everywhere, gate):
    with everywhere.chain() as chain:
        calls = [chain.spawn(sent.receive_and_note, (gate,))]
        calls += [chain.spawn(sent.note, (number,)) for number in range(1, 20)]  # sent, and none has been answered
        assert everywhere.call(sent.noted) == []
        assert not chain.broken
        gate.send(0)
        assert chain.call(sent.note, (20,)) == 20
        assert [call.join() for call in calls] == list(range(20))
    assert everywhere.call(sent.noted) == list(range(21))
    assert everywhere.call(sent.remembered) == (0, 0)


def test_a_reset_waits_for_what_a_thread_of_roamlets_sends(context):
    """Which is no deadlock, although no other thread of the program's is there."""
    chain, held = context.chain(), allocate_lock()

    def send():
        with chain._order:
            held.release()
            while sys._current_frames()[main].f_code is not type(chain).reset.__code__:
                _originals.sleep(0.001)

    main = get_ident()
    held.acquire()
    sender = io.start_thread(send, "roamlet-sends")
    held.acquire()
    chain.reset()
    sender.join()
    assert not chain.broken


def test_behind_an_error_nothing_runs_and_each_is_told_of_it(everywhere):
    with raises(ValueError, match="no good"), everywhere.chain() as chain:
        chain.spawn(sent.note, ("before",))
        chain.spawn(sent.fail, ("no good",))
        behind = chain.spawn(sent.note, ("behind",))
        with raises(
            remote.ChainBroken,
            match=r"roamlet_chains_sent.note was not run in 'local': roamlet_chains_sent.fail, before it in its chain, failed: "
            r"ValueError: no good\n    When that is dealt with, chain.reset\(\) begins anew",
        ) as caught:
            chain.call(sent.note, ("last",))
        assert caught.value.first == "roamlet_chains_sent.fail"
        assert (caught.value.context, caught.value.function) == ("local", "roamlet_chains_sent.note")
        assert type(caught.value.__cause__) is ValueError
        assert chain.broken
        chain.call(sent.note, ("refused here",))
    with raises(remote.ChainBroken):
        behind.join()
    assert everywhere.call(sent.noted) == ["before"]
    assert everywhere.call(sent.remembered) == (0, 0)


def test_the_error_that_leaves_a_block_is_the_first_one_and_no_other_hangs_on_it(context):
    with raises(ValueError, match="no good") as caught, context.chain() as chain:
        chain.spawn(sent.fail, ("no good",))
        chain.call(sent.note, (1,))
    assert caught.value.__context__ is None
    assert "remote traceback" in caught.value.__notes__[0].lower() or "Traceback" in caught.value.__notes__[0]
    with raises(ValueError, match="no good"), context.chain() as chain:
        chain.spawn(sent.fail, ("no good",))  # no call waits for its answer


def test_an_error_that_was_dealt_with_is_not_raised_again_and_reset_begins_anew(context):
    with context.chain() as chain:
        failed = chain.spawn(sent.fail, ("no good",))
        behind = chain.spawn(sent.note, ("behind",))
        with raises(ValueError):
            failed.join()
        chain.reset()
        assert not chain.broken
        assert chain.call(sent.note, ("anew",)) == "anew"
        with raises(remote.ChainBroken):
            behind.join()
    assert context.call(sent.noted) == ["anew"]
    assert context.call(sent.remembered) == (0, 0)


def test_a_chain_without_a_block_is_waited_for_by_join_which_tells_the_error_once(context, gate):
    chain = context.chain()
    chain.join()
    chain.spawn(sent.receive_and_note, (gate,))
    with raises(TimeoutError, match="1 under way> has not ended within 0 seconds"):
        chain.join(0)
    chain.spawn(sent.fail, ("no good",))
    gate.send(1)
    with raises(ValueError):
        chain.join()
    chain.join()
    chain.reset()
    assert context.call(sent.noted) == [1]
    assert context.call(sent.remembered) == (0, 0)


def test_an_error_that_no_caller_was_told_is_logged_and_forgotten_on_the_target(context, caplog, run_until):
    chain = context.chain()
    chain.spawn(sent.fail, ("no good",))
    chain._wait_until_idle(None)
    del chain
    assert "roamlet_chains_sent.fail had failed, and no caller was told" in caplog.text
    run_until(lambda: context.call(sent.remembered) == (0, 0))


def test_a_result_that_cannot_travel_breaks_the_chain(context):
    with raises(remote.CannotTravel, match="give_generator ran in"), context.chain() as chain:
        chain.spawn(sent.give_generator)
        chain.spawn(sent.note, ("behind",))
    assert context.call(sent.noted) == []


def test_what_is_refused_here_was_never_sent_and_breaks_nothing(context):
    with context.chain() as chain:
        with raises(remote.CannotTravel, match=r"args\[0\]"):
            chain.spawn(sent.note, (object(),))
        with raises(TypeError, match="args must be a tuple or a list"):
            chain.call(sent.note, "text")
        with raises(ValueError, match="timeout must be a number of seconds, 0 or more"):
            chain.call(sent.note, (1,), timeout=-1)
        with raises(TypeError, match="timeout must be a number of seconds"):
            chain.call(sent.note, (1,), timeout="1")
        assert not chain.broken
        chain.spawn(sent.note, (1,))
    assert context.call(sent.noted) == [1]


def test_a_call_that_runs_out_of_its_time_breaks_the_chain_though_what_runs_goes_on(everywhere, gate):
    with (
        raises(remote.CallTimeout, match=r"note in 'local' did not answer within 0.05 seconds"),
        everywhere.chain() as chain,
    ):
        held = chain.spawn(sent.receive_and_note, (gate,))
        with raises(remote.CallTimeout):
            chain.call(sent.note, ("late",), timeout=0.05)  # waits for its turn
        with raises(remote.ChainBroken, match="did not answer within"):
            chain.spawn(sent.note, ("behind",))
        gate.send("held")
        assert held.join() == "held"
        chain.call(sent.note, ("behind",))
    assert everywhere.call(sent.noted) == ["held"]
    assert everywhere.call(sent.remembered) == (0, 0)


def test_killing_a_call_that_waits_for_its_turn_drops_it_and_those_behind_it(everywhere, gate):
    chain = everywhere.chain()
    first = chain.spawn(sent.receive_and_note, (gate,))
    second, third, fourth = (chain.spawn(sent.note, (number,)) for number in (2, 3, 4))
    third.kill()
    with raises(TaskletKilled, match=r"note in 'local' was killed"):
        third.join(20)
    with raises(remote.ChainBroken, match="was killed"):
        fourth.join(20)
    gate.send(1)
    assert (first.join(20), second.join(20)) == (1, 2)
    chain.reset()
    assert everywhere.call(sent.noted) == [1, 2]
    assert everywhere.call(sent.remembered) == (0, 0)


def test_killing_the_call_that_runs_breaks_the_chain(everywhere, gate, run_until):
    chain = everywhere.chain()
    running = chain.spawn(sent.hold_until_closed, (gate,))
    behind = chain.spawn(sent.note, ("behind",))
    run_until(lambda: receives(everywhere))
    running.kill()
    with raises(TaskletKilled):
        running.join(20)
    with raises(remote.ChainBroken):
        behind.join(20)
    chain.reset()
    assert everywhere.call(sent.noted) == ["begun", "ended"]


def test_a_tasklet_that_is_killed_in_a_chain_takes_what_is_behind_it_along(context, gate, run_until):
    chain = context.chain()
    held = chain.spawn(sent.receive_and_note, (gate,))
    waiting = roamlet.spawn(chain.call, (sent.note, ("killed",)))
    run_until(lambda: len(chain._under_way) == 2)
    waiting.kill()
    assert chain.broken
    gate.send("held")
    assert held.join(20) == "held"
    chain.reset()
    assert context.call(sent.noted) == ["held"]


def test_a_block_that_is_left_by_an_error_drops_what_has_not_begun(everywhere, gate, run_until):
    with raises(KeyError), everywhere.chain() as chain:
        held = chain.spawn(sent.receive_and_note, (gate,))
        behind = chain.spawn(sent.note, ("behind",))
        run_until(lambda: receives(everywhere))
        raise KeyError
    with raises(TaskletKilled):
        behind.join(20)
    with raises(TaskletKilled):
        held.join(20)
    with raises(remote.ChainBroken, match="the block of the chain was left by KeyError"):
        chain.call(sent.note, ("later",))
    gate.send("held")  # a thread on the target cannot be stopped
    run_until(lambda: everywhere.call(sent.remembered) == (0, 0))
    assert everywhere.call(sent.noted) == ["held"]
    chain.reset()
    assert chain.call(sent.note, (1,)) == 1
    assert everywhere.call(sent.noted) == [1]


def test_channels_of_calls_that_were_not_run_are_let_go(everywhere, run_until):
    channel = roamlet.channel()
    with raises(ValueError), everywhere.chain() as chain:
        chain.spawn(sent.fail, ("no good",))
        chain.spawn(sent.note, (1, channel))
    run_until(lambda: everywhere.call(roamlet_sent.nothing) is None and not holds(everywhere).channels)
    with raises(remote.ChainBroken):
        chain.spawn(sent.note, (1, channel))
    assert not holds(everywhere).channels


def test_large_arguments_keep_their_place(everywhere):
    with everywhere.chain() as chain:
        chain.spawn(sent.note, ("first",))
        chain.spawn(sent.note_size, (bytearray(40 << 20),))
        chain.spawn(sent.note, ("last",))
    assert everywhere.call(sent.noted) == ["first", 40 << 20, "last"]


def test_a_large_call_that_could_not_be_sent_in_time_breaks_the_chain(run_until):
    with remote.local() as context, context.chain() as chain:
        pid = context.facts.pid
        assert chain.call(sent.note, (1,)) == 1
        context.call(roamlet_sent.nothing)
        stopped = roamlet.sync.Event()

        def go_on():
            stopped.wait()
            import os
            import signal

            os.kill(pid, signal.SIGCONT)

        import os
        import signal

        os.kill(pid, signal.SIGSTOP)
        roamlet.spawn(go_on)
        with raises(remote.CallTimeout, match="was not sent within 0.1 seconds|did not answer within"):
            chain.call(sent.note_size, (bytearray(40 << 20),), timeout=0.1)
        stopped.set()
        assert context.call(sent.noted) == [1]
        chain.reset()
        assert chain.call(sent.note, (2,)) == 2
        assert context.call(sent.remembered) == (0, 0)


def test_a_context_that_dies_is_what_every_call_is_told():
    with remote.local() as context:
        chain = context.chain()
        chain.spawn(roamlet_sent.wait_for_release)  # until the others are sent
        dying = chain.spawn(roamlet_sent.die_with, (3,))
        behind = chain.spawn(sent.note, (1,))
        context.spawn(roamlet_sent.release)
        for call in (dying, behind):
            with raises(remote.ContextDied, match="died while it ran"):
                call.join(20)
        with raises(remote.ContextDied, match="was not sent"):
            chain.call(sent.note, (2,))
    with raises(remote.ContextDied):
        context.chain().spawn(sent.note, (3,))


def test_a_context_that_is_closed_meanwhile(gate):
    with remote.local() as context:
        chain = context.chain()
        call = chain.spawn(sent.receive_and_note, (gate,))
        context.close()
        with raises(remote.ContextClosed):
            call.join(20)
        chain.join()


def test_tasklets_and_threads_share_a_chain(context):
    done = []

    def work(first):
        for number in range(first, first + 20):
            done.append(chain.call(sent.note, (number,)) == number)

    with context.chain() as chain:
        threads = [threading.Thread(target=work, args=(100 * number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        tasklets = [roamlet.spawn(work, (1000 * number,)) for number in range(1, 4)]
        for tasklet in tasklets:
            tasklet.join()
        for thread in threads:
            thread.join()
    assert len(done) == 120
    assert all(done)
    found = context.call(sent.noted)
    assert sorted(found) == sorted(first + n for first in (0, 100, 200, 1000, 2000, 3000) for n in range(20))
    assert [n for n in found if n < 100] == list(range(20))


def test_a_sender_of_more_than_may_wait_waits_for_room(context, gate, run_until, monkeypatch):
    monkeypatch.setattr("roamlet.remote.calls.chains.MOST_CALLS", 8)
    sent_so_far = []

    def send():
        for number in range(20):
            chain.spawn(sent.note, (number,))
            sent_so_far.append(number)

    with context.chain() as chain:
        chain.spawn(sent.receive_and_note, (gate,))
        sender = roamlet.spawn(send)
        run_until(lambda: chain._room is not None)
        assert len(sent_so_far) == 7
        gate.send("first")
        sender.join()
    assert context.call(sent.noted) == ["first", *range(20)]


def test_bytes_of_arguments_are_bounded_and_one_call_may_be_larger(context, gate, run_until, monkeypatch):
    monkeypatch.setattr("roamlet.remote.calls.chains.MOST_BYTES", 1000)
    with context.chain() as chain:
        chain.spawn(sent.note, ("x" * 2000,))
        chain.spawn(sent.receive_and_note, (gate,))
        sender = roamlet.spawn(chain.spawn, (sent.note_size, ("y" * 990,)))
        run_until(lambda: chain._room is not None)
        chain_call = roamlet.spawn(lambda: chain.call(sent.note, ("behind",), timeout=30))
        gate.send(1)
        sender.join()
        assert chain_call.join() == "behind"
    assert context.call(sent.noted) == ["x" * 2000, 1, 990, "behind"]


def test_a_tasklet_that_waits_for_room_is_told_when_the_chain_breaks(context, gate, run_until, monkeypatch):
    monkeypatch.setattr("roamlet.remote.calls.chains.MOST_CALLS", 2)
    chain = context.chain()
    chain.spawn(sent.receive_and_note, (gate,))
    behind = chain.spawn(sent.note, (1,))
    sender = roamlet.spawn(chain.spawn, (sent.note, (2,)))
    run_until(lambda: chain._room is not None)
    behind.kill()
    with raises(remote.ChainBroken, match="was killed"):
        sender.join()
    gate.send(0)
    chain.reset()
    assert context.call(sent.noted) == [0]


def test_chains_of_one_context_do_not_wait_for_each_other(context, gate):
    with context.chain() as held, context.chain() as free:
        held.spawn(sent.receive_and_note, (gate,))
        assert free.call(sent.note, ("free",)) == "free"
        gate.send("held")
    assert context.call(sent.noted) == ["free", "held"]


def test_behind_a_context_and_where_calls_are_tasklets(gate, run_until):
    with remote.local() as hop, remote.local(via=hop, tasklets=True) as context:
        with context.chain() as chain:
            chain.spawn(sent.receive_and_note, (gate,))
            chain.spawn(sent.note, (1,))
            gate.send(0)
            assert chain.call(sent.noted) == [0, 1]
        with raises(ValueError), context.chain() as chain:
            chain.spawn(sent.fail, ("no good",))
            chain.spawn(sent.note, ("behind", gate))
        with raises(KeyError), context.chain() as chain:  # here, what runs is killed
            chain.spawn(sent.hold_until_closed, (gate,))
            chain.spawn(sent.note, ("behind",))
            run_until(lambda: receives(context))
            raise KeyError
        run_until(lambda: context.call(sent.remembered) == (0, 0))
        assert context.call(sent.noted) == ["begun", "ended"]
        run_until(lambda: context.call(roamlet_sent.nothing) is None and not holds(context).channels)


def test_a_context_that_speaks_of_an_error_where_none_was_is_told_apart():
    with remote.local() as context:
        context.chain().call(sent.noted)
        context.call(sent.lie)
        with raises(
            remote.ChainBroken, match="noted was not run in 'local' .*a call before it in its chain failed"
        ) as caught:
            context.chain().call(sent.noted)
        assert caught.value.__cause__ is None
