"""context.keep(): values that stay on a target, and the handles on them."""

import copy
import gc
import os
import pickle
import random
import signal

import pytest
import roamlet_kept_sent as sent
import roamlet_sent

import roamlet
from roamlet import remote
from roamlet.remote.calls.keeping import MODULE
from roamlet.wire.values import large_messages
from tests.remote.inside import calls_of, link_of
from tests.remote.raising import raises
from tests.remote.stopping import stop
from tests.wire.interpreters import found


@pytest.fixture
def context():
    with remote.local() as opened:
        yield opened


def until(wanted, context):
    """What the target keeps, once that is `wanted`, or after a while."""
    for _ in range(200):
        if context.call(sent.count) == wanted:
            break
        roamlet.sleep(0.01)
    return context.call(sent.count)


def soon(condition):
    """Whether it is true, or becomes so within ten seconds."""
    for _ in range(1000):
        if condition():
            break
        roamlet.sleep(0.01)
    return condition()


def test_a_call_gets_the_value_itself_and_not_a_copy(context):
    with_handle = context.keep({"bread": 3, "more": [1, 2]})
    assert context.call(sent.look_up, (with_handle, "bread")) == 3
    context.call(sent.change, (with_handle, "bread", 4))
    assert context.call(sent.look_up, (with_handle, "bread")) == 4
    one, other = context.call(sent.ids, ([with_handle, {"inside": with_handle}],))
    assert one == other


def test_the_value_crosses_the_link_once(context):
    data = bytes(500_000)
    before = context.stats.bytes_down
    handle = context.keep(data)
    kept = context.stats.bytes_down
    assert kept - before > len(data)
    assert [context.call(roamlet_sent.size_of, (handle,)) for _ in range(20)] == [len(data)] * 20
    assert context.stats.bytes_down - kept < len(data) // 20  # the module of the function among it


def test_values_of_every_size_and_kind_are_kept(context):
    for value in (None, 7, "text", [1.5] * 2000, bytearray(70_000), bytes(3_000_000), os.path.join, {"a": {1, 2}}):
        handle = context.keep(value)
        assert context.call(sent.kind_of, (handle,)) == type(value).__name__
        assert repr(handle).startswith("<roamlet.remote.Kept number ")


def test_a_handle_travels_inside_of_functions_and_in_spawned_calls_chains_and_iterations(context):
    handle = context.keep(list(range(5)))
    assert context.call(lambda: sum(handle)) == 10
    assert context.spawn(sum, (handle,)).join() == 10
    assert list(context.iterate(sent.each, (handle,))) == [0, 1, 2, 3, 4]
    with context.chain() as chain:
        assert chain.call(sum, (handle,)) == 10


def test_the_target_lets_go_when_the_handle_goes(context):
    assert until(0, context) == 0
    first, second = context.keep("a"), context.keep("b")
    assert until(2, context) == 2
    del first
    assert until(1, context) == 1
    second.release()
    second.release()
    assert second.released
    assert until(0, context) == 0


def test_a_thousand_handles_leave_nothing(context):
    for _ in range(1000):
        context.keep("short")
    gc.collect()
    assert until(0, context) == 0


def test_a_call_has_the_value_though_its_handle_goes_before_it_begins(context):
    """It waits for its turn in a chain, which the release does not."""
    gate = roamlet.channel()
    with context.chain() as chain:
        chain.spawn(sent.receive, (gate,))
        waiting = chain.spawn(sum, (context.keep([1, 2]),))
        context.call(sent.count)
        gate.send("go")
        assert waiting.join() == 3
    del waiting, chain
    assert until(0, context) == 0


def test_a_release_does_not_overtake_a_call_that_is_sent_in_pieces(context, monkeypatch):
    handle, calls = context.keep([1, 2]), calls_of(context)
    frames = large_messages.LargeMessage.frames

    def released_meanwhile(message, *where):
        for frame in frames(message, *where):
            yield frame
            if not handle.released:
                handle.release()
                for _ in range(3):  # what the release sends, in the same way, comes before these
                    calls.run(calls.prepare_own(MODULE, "drop", (0,)), None, None)

    monkeypatch.setattr(large_messages.LargeMessage, "frames", released_meanwhile)
    call = context.spawn(roamlet_sent.echo, ([handle, bytes(2_000_000)],))
    assert call.join()[0] == [1, 2]
    assert until(0, context) == 0  # though the call itself is not gone


def test_a_large_value_is_not_sent_to_its_end_for_a_tasklet_that_was_killed(context):
    context.keep("so that the part is there")
    link, before = link_of(context), context.stats.bytes_down
    stop(context.facts.pid)
    try:
        killed = roamlet.spawn(lambda: context.keep(bytes(30_000_000)))
        assert soon(lambda: link.is_full)
        killed.kill()
        with raises(roamlet.TaskletKilled):
            killed.join()
    finally:
        os.kill(context.facts.pid, signal.SIGCONT)
    assert soon(lambda: not link.in_flight.calls)  # nothing waits for an answer
    assert context.stats.bytes_down - before < 10_000_000
    assert until(0, context) == 0


def test_what_is_withdrawn_after_its_last_piece_is_answered(context, monkeypatch):
    """A value that has arrived must be let go of, so its number is waited for."""
    frames = large_messages.LargeMessage.frames

    def withdrawn_too_late(message, *where):
        *pieces, last = frames(message, *where)
        yield from pieces
        message.withdrawn = True
        yield last

    monkeypatch.setattr(large_messages.LargeMessage, "frames", withdrawn_too_late)
    assert context.call(roamlet_sent.size_of, (context.keep(bytes(3_000_000)),)) == 3_000_000
    assert until(0, context) == 0


def test_a_tasklet_that_is_killed_while_it_keeps_leaves_nothing(context):
    context.keep("so that the part is there")
    context.call(sent.hold_puts)
    keeping = roamlet.spawn(lambda: context.keep("no caller gets this"))
    assert context.call(sent.wait_for_put)
    keeping.kill()
    with raises(roamlet.TaskletKilled):
        keeping.join()
    context.call(sent.let_puts_go)
    assert context.call(sent.wait_for_number)
    assert until(0, context) == 0


# ---- bad use


def test_a_handle_is_good_in_its_own_context_alone(context):
    handle = context.keep("here")
    with remote.local(name="other") as other:
        with raises(
            remote.CannotTravel, match="it is kept in 'local', and this call goes elsewhere: call keep"
        ) as caught:
            other.call(roamlet_sent.echo, ([handle],))
        assert caught.value.path == "args[0][0]"
        with raises(remote.CannotTravel, match="goes elsewhere"):
            other.keep({"x": handle})
    with raises(remote.CannotTravel, match="goes elsewhere|another"):
        context.detach(roamlet_sent.echo, (handle,))


def test_a_handle_goes_through_no_channel(context):
    channel = roamlet.channel(buffer=1)
    channel.send(context.keep("here"))
    with raises(TypeError, match="it goes through no channel|cannot travel"):
        context.call(sent.receive, (channel,))


def test_a_released_handle_and_one_of_a_closed_context_say_so(context):
    handle = context.keep("here")
    handle.release()
    with raises(
        remote.CannotTravel, match=r"it was kept in 'local', and release\(\) was called: keep\(\) the value again"
    ):
        context.call(roamlet_sent.echo, (handle,))
    assert repr(handle).endswith(", released>")
    closed = remote.local()
    handle = closed.keep("gone")
    closed.close()
    with raises(remote.ContextClosed):
        closed.call(roamlet_sent.echo, (handle,))
    with raises(remote.ContextClosed, match="keep"):
        closed.keep("more")
    handle.release()


def test_a_handle_cannot_be_pickled_or_copied(context):
    handle = context.keep("here")
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with raises(TypeError, match="cannot be pickled: it names a value for calls in the context that keeps it"):
            attempt(handle)


def test_in_a_fork_the_handle_says_so_and_does_not_let_go(context):
    handle = context.keep("here")
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            with remote.local() as own:
                own.call(roamlet_sent.echo, (handle,))
        except remote.CannotTravel as error:
            os.write(writer, str(error).encode())
        finally:
            handle.release()
            del handle
            os._exit(0)
    os.waitpid(pid, 0)
    said = os.read(reader, 1 << 16).decode()
    os.close(reader)
    os.close(writer)
    assert "it is kept in 'local' for the process that this one was forked from" in said
    assert context.call(roamlet_sent.echo, (handle,)) == "here"


def test_a_fork_sends_no_order_to_drop():
    dropped = []
    handle = remote.Kept(None, "here", 7, dropped.append)
    pid = os.fork()
    if not pid:
        handle.release()
        os._exit(len(dropped))
    assert os.waitpid(pid, 0)[1] == 0
    handle.release()
    handle.release()
    assert dropped == [7]


def test_what_cannot_travel_cannot_be_kept(context):
    with raises(
        remote.CannotTravel, match=r"keep\(\) was not called in 'local': value\[1\] cannot travel: it is a "
    ) as caught:
        context.keep([1, iter([])])
    assert caught.value.path == "value[1]"


def test_a_result_is_data_and_names_nothing_that_is_kept(context):
    handle = context.keep([1, 2])
    answer = context.call(roamlet_sent.echo, (handle,))
    assert answer == [1, 2] and type(answer) is list


# ---- through intermediaries


@pytest.mark.parametrize("hops", [1, 2])
def test_each_intermediary_passes_a_value_on_that_crosses_its_link_once(hops):
    data = random.Random(7).randbytes(3_000_000)
    with remote.local(name="hub") as hub:
        via = hub
        for number in range(hops - 1):
            via = remote.local(via=via, name=f"hop{number}")
        leaves = [remote.local(via=via, name=f"leaf{number}") for number in range(3)]
        handles, sent_down = [], []
        for leaf in leaves:
            before = hub.stats.bytes_down
            handles.append(leaf.keep(data))
            sent_down.append(hub.stats.bytes_down - before)
        assert sent_down[0] > len(data)
        assert all(sent < len(data) // 20 for sent in sent_down[1:])
        assert [leaf.call(sent.checksum, (handle,)) for leaf, handle in zip(leaves, handles, strict=True)] == [
            sent.checksum(data)
        ] * 3


def test_calls_go_on_beside_a_value_that_is_on_its_way_through_an_intermediary():
    with remote.local(name="hub") as hub, remote.local(via=hub) as leaf:
        keeping = roamlet.spawn(lambda: leaf.keep(bytes(30_000_000)))
        assert [leaf.call(roamlet_sent.add, (n, 1)) for n in range(50)] == list(range(1, 51))
        assert leaf.call(roamlet_sent.size_of, (keeping.join(),)) == 30_000_000


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.13"])
def test_other_pythons_keep_values_too(version):
    if version not in found():
        pytest.skip(f"there is no Python {version}")
    with remote.local(found()[version]) as old:
        handle = old.keep({"bread": [1, 2, 3]})
        assert old.call(sent.look_up, (handle, "bread")) == [1, 2, 3]
        handle.release()
        assert until(0, old) == 0


def test_tasklets_of_a_context_use_what_it_keeps():
    with remote.local(tasklets=True) as context:
        handle = context.keep([1, 2, 3])
        assert context.call(sum, (handle,)) == 6


def test_a_number_that_is_none_ends_the_context():
    with remote.local() as context:
        context.keep("in order")
        context.call(sent.lie_about_numbers)
        with raises(remote.ProtocolError, match=r"answered keep\(\) with 'seven'"):
            context.keep("x")
        assert link_of(context).ended.wait(10)
        assert context.closed
