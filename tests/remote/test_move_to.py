"""Tasklets that move on by themselves: from a context to another one, and home, as far as the user has allowed it."""

import os
import sys
from collections.abc import Callable
from typing import Any

import move_to_functions
import pytest

import roamlet
from roamlet import remote
from roamlet.snapshot import CannotSave
from roamlet.snapshot.image import format
from tests.programs import printed
from tests.snapshot.conftest import KNOWN

pytestmark = pytest.mark.skipif(not KNOWN, reason="tasklets are saved on the backends that see their frames")

BARE = getattr(sys, "_base_executable", sys.executable)


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        roamlet.schedule()


def joined(function: Callable[..., Any], *args: Any) -> Any:
    return roamlet.spawn(function, args).join()


def error_of(function: Callable[..., Any], *args: Any) -> Any:
    """What it raises, without the frames that its traceback would keep."""
    try:
        function(*args)
    except Exception as error:
        return error.with_traceback(None)
    raise AssertionError("nothing was raised")


# ---- going


def test_it_goes_from_context_to_context_and_home_with_its_channels(a: remote.Context, b: remote.Context) -> None:
    with remote.local(python=BARE, tasklets=True, name="behind", via=a) as behind:
        b.allow_moves_to(behind)
        behind.allow_moves_to(roamlet.home, a)
        numbers: roamlet.channel[int] = roamlet.channel()
        visited: roamlet.channel[Any] = roamlet.channel(3)
        places = [a, b, behind, roamlet.home, roamlet.home, behind, a, a, roamlet.home]
        pids = {a: a.facts.pid, b: b.facts.pid, behind: behind.facts.pid, roamlet.home: os.getpid()}
        going = roamlet.spawn(move_to_functions.goes, (places, numbers, visited))
        total = 0
        for number, place in enumerate(places, 1):
            numbers.send(number)
            total += number
            assert visited.receive() == (pids[place], total)
        result = going.join()
        assert result == (45, places)
        assert move_to_functions.left() == [True]
        for context in (a, b, behind):
            until(lambda context=context: context.call(move_to_functions.guests) == 0)
            assert context.call(move_to_functions.left) == []


def test_it_goes_round_and_round_and_is_heard_at_each_stop(a: remote.Context, b: remote.Context) -> None:
    b.allow_moves_to(a, roamlet.home)
    numbers: roamlet.channel[int] = roamlet.channel()
    visited: roamlet.channel[Any] = roamlet.channel()
    going = roamlet.spawn(move_to_functions.hops, ([a, b, roamlet.home], 60, numbers, visited))
    total = 0
    for hop in range(60):
        numbers.send(hop)
        total += hop
        assert visited.receive() == (hop, total)
    assert going.join() == total


def test_what_was_sent_ahead_of_a_loop_is_neither_lost_nor_taken_twice(a: remote.Context, b: remote.Context) -> None:
    b.allow_moves_to(roamlet.home)
    numbers: roamlet.channel[int] = roamlet.channel()
    looping = roamlet.spawn(move_to_functions.loops, ([a, b, roamlet.home, a], numbers))
    senders = [roamlet.spawn(numbers.send, (number,)) for number in range(14)]
    taken = looping.join()
    here, pids = os.getpid(), (a.facts.pid, b.facts.pid)
    assert [number for number, _ in taken] == list(range(12))
    assert [pid for _, pid in taken] == [here] * 3 + [pids[0]] * 3 + [pids[1]] * 3 + [here] * 3
    assert [numbers.receive(), numbers.receive()] == [12, 13]
    for sender in senders:
        sender.join()


def test_a_loop_that_began_in_a_context_goes_on_elsewhere(a: remote.Context) -> None:
    numbers: roamlet.channel[int] = roamlet.channel()
    looping = roamlet.spawn(move_to_functions.loops_there, (a, roamlet.home, numbers))
    for number in range(15):
        numbers.send(number)
    numbers.close()
    taken = looping.join()
    assert [number for number, _ in taken] == list(range(15))
    assert [pid for _, pid in taken] == [a.facts.pid] * 5 + [os.getpid()] * 5 + [a.facts.pid] * 5


def test_a_loop_goes_on_where_it_is_when_it_may_not_move(a: remote.Context) -> None:
    a.allow_moves_to()
    numbers: roamlet.channel[int] = roamlet.channel()

    looping = roamlet.spawn(move_to_functions.loops_there, (a, roamlet.home, numbers))
    senders = [roamlet.spawn(numbers.send, (number,)) for number in range(8)]
    with pytest.raises(remote.RemoteError, match="may not move from 'a' to roamlet.home"):
        looping.join()
    assert [numbers.receive() for _ in range(3)] == [5, 6, 7]
    for sender in senders:
        sender.join()


@pytest.mark.parametrize("to", ["b", "home"])
def test_what_it_holds_goes_along(a: remote.Context, b: remote.Context, to: str) -> None:
    place, pid = (b, b.facts.pid) if to == "b" else (roamlet.home, os.getpid())
    result = joined(move_to_functions.holds_much, a, place)
    assert result == (111, 111, 3_000_000, "LookupError('handled')", pid)
    assert [*move_to_functions.left(), *b.call(move_to_functions.left)] == [True]
    assert a.call(move_to_functions.left) == []


def test_it_goes_on_in_the_middle_of_a_generator(a: remote.Context) -> None:
    places = [a, roamlet.home, a, roamlet.home]
    if sys.version_info < (3, 12):
        with pytest.raises(CannotSave, match="before CPython 3.12, running a generator"):
            joined(move_to_functions.generates, places)
    else:
        assert joined(move_to_functions.generates, places) == [a.facts.pid, os.getpid()] * 2


def test_at_home_it_is_the_same_tasklet_and_its_contexts_are_usable(a: remote.Context) -> None:
    coming = roamlet.spawn(move_to_functions.comes_and_visits, (a,))
    assert coming.join() == (True, os.getpid())


def test_the_handle_of_the_first_move_stays_valid(a: remote.Context) -> None:
    channel: roamlet.channel[str] = roamlet.channel()
    moving = roamlet.tasklet(move_to_functions.waits_at_home)(a, channel)
    call = a.move(moving)
    assert not moving.alive
    until(lambda: moving.blocked)
    assert not call.done
    with pytest.raises(TimeoutError, match="has not ended within 0 seconds"):
        call.join(0)
    with pytest.raises(TimeoutError), roamlet.timeout(0):
        call.join()
    assert a.move(moving) is call
    channel.send("value")
    assert call.join() == call.result == ("value", a.facts.pid)
    assert call.done


def test_errors_come_to_who_joins_wherever_they_are_raised(a: remote.Context, b: remote.Context) -> None:
    for place in (roamlet.home, b):
        failing = roamlet.spawn(move_to_functions.fails, (a, place))
        with pytest.raises(LookupError, match="no such thing"):
            failing.join()
        call = a.move(roamlet.tasklet(move_to_functions.fails)(a, place))
        with pytest.raises(LookupError, match="no such thing"):
            call.join()


@pytest.mark.parametrize("to", ["b", "home"])
def test_an_error_of_a_plain_tasklet_is_raised_in_main(a: remote.Context, b: remote.Context, to: str) -> None:
    roamlet.tasklet(move_to_functions.fails)(a, b if to == "b" else roamlet.home)
    with pytest.raises(LookupError, match="no such thing"):
        until(lambda: False)


def test_the_functions_of_a_script_go_on_and_home(program: Callable[..., str], python: Callable[..., Any]) -> None:
    script = program(
        f"""
        import os, roamlet
        from roamlet import remote

        FACTOR = 10

        class Number:
            def __init__(self, value):
                self.value = value

        def work(a, b):
            number = Number(1)
            roamlet.move_to(a)
            other = Number(2)
            add = lambda more: (number.value + other.value + more) * FACTOR
            roamlet.move_to(b)
            there = os.getpid() != {os.getpid()} and type(other) is Number
            roamlet.move_to(roamlet.home)
            return add(3), type(number) is type(other) is Number, there, os.getpid()

        if __name__ == "__main__":
            with remote.local(python={BARE!r}, tasklets=True) as a, remote.local(python={BARE!r}, tasklets=True) as b:
                a.allow_moves_to(b)
                b.allow_moves_to(roamlet.home)
                *results, pid = roamlet.spawn(work, (a, b)).join()
                print(results, pid == os.getpid())
        """
    )
    assert printed(python(script)) == "[60, True, True] True\n"


# ---- without a grant


def test_nothing_is_allowed_at_first(b: remote.Context) -> None:
    with remote.local(python=BARE, tasklets=True, name="new") as new:
        for place, shown, named in ((roamlet.home, "roamlet.home", "roamlet.home"), (b, "'b'", "the context 'b'")):
            said, stays = joined(move_to_functions.tries, new, place)
            assert said.startswith(
                f"the tasklet of tries may not move from 'new' to {shown}: that would let 'new' run code there"
            )
            assert f"If you trust 'new', call allow_moves_to() of its context at home before, with {named} and" in said
            assert stays


def test_a_grant_is_for_the_places_that_it_names_and_can_be_taken_back(a: remote.Context, b: remote.Context) -> None:
    a.allow_moves_to(b)
    assert joined(move_to_functions.tries, a, roamlet.home)[1]
    assert joined(move_to_functions.tries, a, b) == ("moved", False)
    a.allow_moves_to()
    assert joined(move_to_functions.tries, a, b)[1]
    with pytest.raises(
        TypeError, match=r"allow_moves_to\(\) takes contexts, and roamlet.home, as arguments of their own, not 'b'"
    ):
        a.allow_moves_to("b")  # type: ignore[arg-type]


def forged(**parts: Any) -> tuple[Any, ...]:
    return tuple({"place": None, "data": bomb(), "channels": (), "modules": (), **parts}.values())


def bomb() -> bytes:
    """A tasklet's bytes that run code when they are read: what an attacker on the host would send."""
    import pickle

    return format.write([], pickle.dumps(move_to_functions.Bomb()))


def test_without_a_grant_nothing_of_what_comes_up_is_read(a: remote.Context, b: remote.Context) -> None:
    a.allow_moves_to(b)
    with pytest.raises(remote.RemoteError, match="may not move from 'a' to roamlet.home"):
        joined(move_to_functions.sends_what_it_is_told, a, roamlet.home, forged())
    assert move_to_functions.executed == []
    a.allow_moves_to(roamlet.home)
    with pytest.raises(remote.RemoteError, match="the tasklet cannot be read here"):  # this is what the grant is about
        joined(move_to_functions.sends_what_it_is_told, a, roamlet.home, forged())
    assert move_to_functions.executed == [os.getpid()]


def test_what_is_relayed_is_not_read_here(a: remote.Context, b: remote.Context) -> None:
    a.allow_moves_to(b)
    with pytest.raises(
        remote.RemoteError, match="(?s)not moved to 'b': BadSnapshot there: .*the tasklet cannot be read here"
    ):
        joined(move_to_functions.sends_what_it_is_told, a, b, forged(place=1))
    assert move_to_functions.executed == []
    assert b.call(move_to_functions.has_executed) == [b.facts.pid]  # whose grant it was


@pytest.mark.parametrize(
    ("parts", "match"),
    [
        ({"place": 2}, "the context 2 was not given to it"),
        ({"place": -1}, "the context -1 was not given to it"),
        ({"place": True}, "the context True was not given to it"),
        ({"place": "b"}, "the context 'b' was not given to it"),
        ({"data": "text"}, "'text' is not what belongs there"),
        ({"channels": None}, "None is not what belongs there"),
        ({"channels": (1000,)}, "it names channel 1000, which it was not given"),
        ({"channels": ("1",)}, "something else where the numbers of channels"),
        ({"modules": ("os", 1)}, "something else where the numbers of channels, or the names of modules"),
        ({"more": 1}, "too many values to unpack"),
    ],
)
def test_a_context_that_talks_nonsense_is_closed(
    mortals: tuple[remote.Context, remote.Context], parts: dict[str, Any], match: str
) -> None:
    a, _ = mortals
    error = error_of(joined, move_to_functions.sends_what_it_is_told, a, a, forged(**parts))
    assert isinstance(error, remote.ProtocolError)
    assert str(error).startswith("'a' said where the tasklet of sends_what_it_is_told goes on, and it makes no sense")
    assert match in str(error)
    until(lambda: a.closed)


def test_a_damaged_parcel_stays_where_it_is(a: remote.Context) -> None:
    data = bytearray(bomb())
    data[-1] ^= 1
    for wrong, match in ((bytes(data), "the snapshot is damaged"), (b"", "these bytes are no snapshot of roamlet's")):
        with pytest.raises(remote.RemoteError, match=match):
            joined(move_to_functions.sends_what_it_is_told, a, roamlet.home, forged(data=wrong))
    assert move_to_functions.executed == []
