"""Tasklets that move on by themselves: what fails, which caller gets the error, and what is left."""

import json
import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import move_functions
import move_to_functions
import pytest

import roamlet
from roamlet import remote
from roamlet.remote.calls.engine import Calls
from roamlet.remote.calls.request import Request
from roamlet.remote.migration import handle, requests
from roamlet.snapshot.migration.arrivals import LARGEST
from tests.remote.fakes import script
from tests.remote.inside import calls_of
from tests.remote.replacing import replace_method
from tests.remote.test_move_to import BARE, error_of, joined, until
from tests.remote.test_start import RELAY
from tests.snapshot.conftest import KNOWN

pytestmark = pytest.mark.skipif(not KNOWN, reason="tasklets are saved on the backends that see their frames")


@pytest.fixture
def at_step(monkeypatch: pytest.MonkeyPatch) -> Callable[[remote.Context, str, Callable[[], object]], None]:
    """`at_step(context, "prepare", do)`: right before the context is sent that for a tasklet, once."""

    def at_step(context: remote.Context, step: str, do: Callable[[], object]) -> None:
        sent = calls_of(context).send

        def first(request: Request, deadline: float | None) -> Any:
            if request.text.endswith(f"migration.arrivals.{step}"):
                replace_method(monkeypatch, calls_of(context), "send", sent)
                do()
            return sent(request, deadline)

        replace_method(monkeypatch, calls_of(context), "send", first)

    return at_step


def stop(context: remote.Context) -> None:
    os.kill(context.facts.pid, signal.SIGSTOP)


def end(context: remote.Context) -> None:
    """Kill its process, and wait until that is known here."""
    os.kill(context.facts.pid, signal.SIGKILL)
    while not context.closed:
        threading.Event().wait(0.001)


# ---- what is refused before it leaves


@pytest.mark.parametrize("to_home", [True, False])
def test_what_cannot_travel_is_named_there_and_it_goes_on(a: remote.Context, b: remote.Context, to_home: bool) -> None:
    other = roamlet.home if to_home else b
    said, free = joined(move_to_functions.holds_a_lock, a, other)
    assert "the variable 'lock' of holds_a_lock" in said
    assert free
    said, balance = joined(move_to_functions.holds_a_channel_of_there, a, other)
    assert "the variable 'channel' of holds_a_channel_of_there" in said
    assert (
        "a channel that was made here, and channels do not move. Let those that are to go along be made at home" in said
    )
    assert balance == 0


def test_from_a_time_out_nothing_moves(a: remote.Context) -> None:
    for place, other in ((roamlet.home, a), (a, roamlet.home)):
        assert "it is inside a scope or a time-out" in joined(move_to_functions.goes_in_a_time_out, place, other)


def test_what_is_too_large_for_a_message_stays(a: remote.Context) -> None:
    said = joined(move_to_functions.holds_more, a, roamlet.home, LARGEST)
    assert f"and {LARGEST} can move on from a context" in said


def test_who_may_not_move_is_told(a: remote.Context, b: remote.Context) -> None:
    roamlet.move_to(roamlet.home)  # which is here
    with pytest.raises(TypeError, match=r"move_to\(\) takes a context, such as .*, or roamlet.home, not 3"):
        roamlet.move_to(3)
    with pytest.raises(
        roamlet.NotMoved, match=r"this is the main one of its thread: roamlet.spawn\(function\).join\(\)"
    ):
        roamlet.move_to(a)
    for function, args in ((move_to_functions.goes_home, ()), (move_to_functions.starts_one, (a,))):
        with pytest.raises(remote.RemoteError, match="a tasklet moves on from a context that it has moved to"):
            a.call(function) if not args else joined(function, *args)
    with pytest.raises(remote.RemoteError, match="the block of roamlet.at\\(\\) begins in the process that has opened"):
        joined(move_to_functions.visits, a, b)
    with pytest.raises(remote.RemoteError, match="nothing moves on out of it. Call move_to\\(\\) after the block"):
        joined(move_to_functions.leaves_a_block, a, b)
    with pytest.raises(
        remote.RemoteError,
        match=r"and only that can use it \(.call\). This code runs in another process already, so call the function itself",
    ):
        joined(move_to_functions.calls, a, b)


def test_a_context_without_tasklets_is_refused_wherever_one_comes_from(a: remote.Context) -> None:
    with remote.local(python=BARE, name="threads") as threads:
        a.allow_moves_to(threads)
        said, stays = joined(move_to_functions.tries, a, threads)
        assert (
            "cannot move to 'threads': calls run as threads there, not as tasklets. Open it with tasklets=True" in said
        )
        assert stays
        with pytest.raises(roamlet.NoCore, match="calls run as threads there"):
            joined(move_to_functions.tries, threads, a)


def test_home_is_the_thread_that_it_has_left(a: remote.Context) -> None:
    calls: list[Any] = []

    def elsewhere() -> None:
        calls.append(a.move(roamlet.tasklet(move_to_functions.tries)(a, roamlet.home)))

    channel: roamlet.channel[str] = roamlet.channel()
    a.allow_moves_to()
    waiting = a.move(roamlet.tasklet(move_functions.begins)(channel))
    a.allow_moves_to(roamlet.home)
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    said, stays = calls[0].join()
    assert said == "the tasklet of tries cannot come home: the thread that it has left has ended"
    assert stays
    channel.send("value")
    assert waiting.join()[0] == "value"


# ---- links that break


@pytest.mark.parametrize("step", ["prepare", "commit"])
def test_where_the_place_that_it_leaves_dies_it_goes_on_in_the_next(
    mortals: tuple[remote.Context, remote.Context], at_step: Callable[..., None], step: str
) -> None:
    a, b = mortals
    at_step(b, step, lambda: end(a))
    call = a.move(roamlet.tasklet(move_to_functions.tries)(a, b))
    assert call.join() == ("moved", False)
    assert b.stats.round_trips == 0  # its modules went ahead of it


def test_a_place_that_dies_while_it_is_made_there_leaves_it_where_it_was(
    mortals: tuple[remote.Context, remote.Context], at_step: Callable[..., None]
) -> None:
    a, b = mortals
    at_step(b, "prepare", lambda: end(b))
    call = a.move(roamlet.tasklet(move_to_functions.tries)(a, b))
    said, stays = call.join()
    assert "'b' has died" in said or "'b' died" in said
    assert stays


def breaks_at_commit(context: remote.Context) -> pytest.MonkeyPatch:
    """The context gets the order to go on, and dies before it can say so."""
    patched = pytest.MonkeyPatch()
    commit = requests.commit

    def commits(place: Calls, number: int) -> Any:
        if place is not calls_of(context):
            return commit(place, number)
        stop(context)
        waiter = commit(place, number)
        os.kill(context.facts.pid, signal.SIGKILL)
        return waiter

    patched.setattr(requests, "commit", commits)
    return patched


def in_doubt(a: remote.Context, b: remote.Context, function: Any) -> tuple[Any, Any]:
    """A handle, and what its join() raises."""
    patched = breaks_at_commit(b)
    try:
        call = a.move(roamlet.tasklet(function)(a, b))
        return call, error_of(call.join)
    finally:
        patched.undo()


def test_a_link_that_breaks_behind_the_order_to_go_on_leaves_it_in_doubt(
    mortals: tuple[remote.Context, remote.Context],
) -> None:
    a, b = mortals
    call, error = in_doubt(a, b, move_to_functions.tries)
    assert isinstance(error, remote.MoveInDoubt)
    assert str(error).startswith(
        "the tasklet of tries was on its way from 'a' to 'b' when the link to that broke, and it is not known"
    )
    assert "It is suspended in 'a'. If it did not go on, error.take_back() lets it go on there" in str(error)
    assert a.call(move_to_functions.guests) == 1
    assert isinstance(error_of(call.join), remote.MoveInDoubt)
    error.take_back()
    said, stays = call.join()
    assert "it is not known whether it goes on there" in said
    assert stays
    with pytest.raises(RuntimeError, match="taken back already"):
        error.take_back()
    assert a.call(move_to_functions.guests) == 0


def test_who_is_in_doubt_can_be_killed(mortals: tuple[remote.Context, remote.Context]) -> None:
    a, b = mortals
    call, error = in_doubt(a, b, move_to_functions.ends)
    assert isinstance(error, remote.MoveInDoubt)
    call.kill()
    with pytest.raises(roamlet.TaskletKilled):
        call.join()
    assert a.call(move_to_functions.left) == [True]


def test_who_joins_a_spawned_tasklet_is_told_of_a_doubt_and_of_what_comes_of_it(
    mortals: tuple[remote.Context, remote.Context],
) -> None:
    """Here it has called move_to() itself, and can be told nothing."""
    a, _ = mortals

    patched = breaks_at_commit(a)
    trying = roamlet.spawn(move_to_functions.tries_at_first, (a,))
    error = error_of(trying.join)
    patched.undo()
    assert isinstance(error, remote.MoveInDoubt)
    assert error.tasklet is trying
    assert trying.blocked
    error.take_back()
    assert "it is not known whether it goes on there" in trying.join()


def test_who_came_home_and_is_in_doubt_again_can_be_taken_back(mortals: tuple[remote.Context, remote.Context]) -> None:
    a, b = mortals
    patched = breaks_at_commit(b)
    trying = roamlet.spawn(move_to_functions.comes_home_and_tries, (a, b))
    error = error_of(trying.join)
    patched.undo()
    assert isinstance(error, remote.MoveInDoubt)
    error.take_back()
    said, pid = trying.join()
    assert "it is not known whether it goes on there" in said
    assert pid == a.facts.pid


def test_a_link_that_ends_before_anything_is_sent_is_the_error(
    mortals: tuple[remote.Context, remote.Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _ = mortals
    channel: roamlet.channel[str] = roamlet.channel()
    moving = roamlet.tasklet(move_functions.begins)(channel)
    send_modules = requests.send_modules

    def ends_it(*args: Any) -> None:
        send_modules(*args)
        end(a)

    monkeypatch.setattr(requests, "send_modules", ends_it)
    with pytest.raises(remote.ContextDied, match="move.* was not sent: 'a' has died before"):
        a.move(moving)
    channel.send("value")


def test_a_context_that_dies_with_it_is_an_error_of_its_handle(mortals: tuple[remote.Context, remote.Context]) -> None:
    a, b = mortals
    call = a.move(roamlet.tasklet(move_to_functions.ends)(a, b))
    until(lambda: "in 'b', running" in repr(call))
    end(b)
    with pytest.raises(remote.ContextDied, match="'b' died while it ran the tasklet of"):
        call.join()
    assert a.call(move_to_functions.left) == []


# ---- killed


def test_it_is_killed_wherever_it_is(a: remote.Context, b: remote.Context) -> None:
    call = a.move(roamlet.tasklet(move_to_functions.ends)(a, b))
    until(lambda: "in 'b', running" in repr(call))
    call.kill()
    with pytest.raises(roamlet.TaskletKilled):
        call.join()
    assert (a.call(move_to_functions.left), b.call(move_to_functions.left)) == ([], [True])
    channel: roamlet.channel[str] = roamlet.channel()
    moving = roamlet.tasklet(move_to_functions.waits_at_home)(a, channel)
    call = a.move(moving)
    until(lambda: moving.blocked)
    call.kill()
    with pytest.raises(roamlet.TaskletKilled, match="the tasklet of waits_at_home was killed before it had a result"):
        call.join()
    assert move_to_functions.left() == [True]


def test_kill_of_a_spawned_tasklet_reaches_it_wherever_it_is(a: remote.Context, b: remote.Context) -> None:
    numbers: roamlet.channel[int] = roamlet.channel()
    visited: roamlet.channel[Any] = roamlet.channel()
    for places, left in (([a], [[True], [], []]), ([a, b], [[], [True], []]), ([a, roamlet.home], [[], [], [True]])):
        for context in (a, b):
            context.call(move_to_functions.forget)
        move_to_functions.forget()
        going = roamlet.spawn(move_to_functions.goes, ([*places, places[-1]], numbers, visited))
        for number, _ in enumerate(places):
            numbers.send(number)
            visited.receive()
        going.kill()  # it waits for the next number
        with pytest.raises(roamlet.TaskletKilled):
            going.join()
        assert [a.call(move_to_functions.left), b.call(move_to_functions.left), move_to_functions.left()] == left
        going.kill()  # it has ended: nothing happens


@pytest.mark.parametrize("to_home", [True, False])
@pytest.mark.parametrize("when", ["before", "after"])
def test_it_is_killed_while_it_is_on_its_way(
    a: remote.Context,
    b: remote.Context,
    monkeypatch: pytest.MonkeyPatch,
    to_home: bool,
    when: str,
) -> None:
    """`before` what would let it go on is done, it ends where it was; `after` that, where it has come to."""
    name = "_migrate_home" if to_home else "_migrate_to_context"
    goes = getattr(handle.MigrationHandle, name)

    def kills(self: handle.MigrationHandle, *args: Any) -> None:
        if when == "before":
            self.kill()
        goes(self, *args)
        if when == "after":
            self.kill()

    monkeypatch.setattr(handle.MigrationHandle, name, kills)
    call = a.move(roamlet.tasklet(move_to_functions.ends)(a, roamlet.home if to_home else b))
    with pytest.raises(roamlet.TaskletKilled):
        call.join()
    left = [a.call(move_to_functions.left), b.call(move_to_functions.left), move_to_functions.left()]
    assert left == ([[True], [], []] if when == "before" else [[], [], [True]] if to_home else [[], [True], []])
    assert (a.call(move_to_functions.guests), b.call(move_to_functions.can_guests)) == (0, 0)


def test_who_is_killed_here_while_it_leaves_ends_when_it_is_decided_where_it_is(
    a: remote.Context,
    at_step: Callable[..., None],
) -> None:
    trying = roamlet.spawn(move_to_functions.ends, (a, roamlet.home))
    at_step(a, "prepare", lambda: (trying.kill(), trying.kill()))
    with pytest.raises(roamlet.TaskletKilled):
        trying.join()
    until(lambda: a.call(move_to_functions.guests) == 0)
    assert a.call(move_to_functions.left) == []
    trying = roamlet.spawn(move_to_functions.ends, (a, a))
    at_step(a, "commit", trying.kill)  # too late to stay
    with pytest.raises(roamlet.TaskletKilled):
        trying.join()
    assert move_to_functions.left() == []


def test_who_is_killed_there_before_it_has_left_ends_there(a: remote.Context) -> None:
    error = error_of(joined, move_to_functions.is_killed_there, a, roamlet.home)
    assert (type(error), error.type_name) == (remote.RemoteError, "roamlet.TaskletExit")
    assert (a.call(move_to_functions.left), move_to_functions.left()) == ([True], [])


@pytest.mark.parametrize("seed", [1, 2])
def test_many_that_wander_and_are_killed_end_once_each(a: remote.Context, b: remote.Context, seed: int) -> None:
    count, chance = 20, random.Random(seed)
    a.allow_moves_to(a, b, roamlet.home)
    b.allow_moves_to(a, b, roamlet.home)
    said: roamlet.channel[Any] = roamlet.channel(1 << 16)
    wandering: list[Any] = []
    for number in range(count):
        args = ([a, b, roamlet.home], number, said)
        spawned = chance.random() < 0.5
        wandering.append(
            roamlet.spawn(move_to_functions.wanders, args)
            if spawned
            else a.move(roamlet.tasklet(move_to_functions.wanders)(*args))
        )
    for one in chance.sample(wandering, count):
        for _ in range(chance.randrange(200)):
            roamlet.schedule()
        one.kill()
    for one in wandering:
        with pytest.raises(roamlet.TaskletKilled):
            one.join()
    said.close()
    steps: dict[int, list[int]] = {}
    for number, step in said:
        steps.setdefault(number, []).append(step)
    assert all(taken == [*range(1, len(taken)), -1] for taken in steps.values())
    assert [context.call(move_to_functions.can_guests) for context in (a, b)] == [0, 0]


# ---- what is left behind


def test_hundreds_of_moves_leave_nothing(a: remote.Context) -> None:
    def moves(count: int) -> int:
        for _ in range(count):
            assert joined(move_to_functions.holds_much, a, roamlet.home)[0] == 111
            joined(move_to_functions.holds_a_lock, a, roamlet.home)
        return a.call(move_functions.objects)

    moves(10)
    assert a.call(move_to_functions.guests) == 0
    first = moves(5)
    assert moves(30) - first < 30


def test_a_move_on_takes_one_round_trip_to_prepare_and_one_to_commit(a: remote.Context, b: remote.Context) -> None:
    """The calls of a move: how many answers are waited for, one after the other, and what each context is asked."""
    joined(move_to_functions.tries, a, b)  # which brings modules
    asked: list[tuple[str, str]] = []
    sent = Calls.send

    def notes(self: Calls, request: Request, deadline: float | None) -> Any:
        asked.append((self.name, request.text.rpartition(".")[2]))
        return sent(self, request, deadline)

    before = [context.stats.round_trips for context in (a, b)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Calls, "send", notes)
        assert joined(move_to_functions.tries, a, b) == ("moved", False)
    assert [one for one in asked if one[1] != "drop"] == [
        ("a", "prepare"),
        ("a", "commit"),
        ("a", "the tasklet of tries"),
        ("b", "prepare"),
        ("b", "commit"),
        ("b", "the tasklet of tries"),
    ]
    assert [context.stats.round_trips for context in (a, b)] == before


def test_a_move_costs_no_more_turns_on_the_wire_than_it_needs(tmp_path: Path) -> None:
    """There and home again: prepare, commit, the question what comes of it, and that it has gone; each with its answer."""

    def turns(moves_made: int) -> int:
        log = tmp_path / f"turns{moves_made}"
        relay = script(tmp_path, RELAY.format(python=BARE, log=str(log)), f"relay{moves_made}")
        with remote.local(relay, tasklets=True, name="a") as a:
            a.allow_moves_to(roamlet.home)
            joined(move_to_functions.tries, a, roamlet.home)  # which brings modules
            for _ in range(moves_made):
                assert joined(move_to_functions.tries, a, roamlet.home) == ("moved", False)
        return len(json.loads(log.read_text()))

    # The relay sees a turn as several where one side is slow to write: the fewest of some attempts are those that are needed.
    assert any(turns(12) - turns(2) <= 8 * 10 for _ in range(4))
