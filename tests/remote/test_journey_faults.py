"""Tasklets that move on by themselves: what fails on the way, who is told, and what is left behind."""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import journeys
import pytest
import travelling

import weft
from tests.remote.test_journey import BARE, a, b, error_of, joined, until  # noqa: F401
from tests.snapshot.conftest import KNOWN
from weft import remote
from weft.remote import _journey, _sending, _travel
from weft.remote.context import Request

pytestmark = pytest.mark.skipif(not KNOWN, reason="tasklets are saved on the backends that see their frames")


@pytest.fixture
def at_step(monkeypatch: pytest.MonkeyPatch) -> Callable[[remote.Context, str, Callable[[], object]], None]:
    """`at_step(context, "prepare", do)`: right before the context is sent that for a tasklet, once."""

    def at_step(context: remote.Context, step: str, do: Callable[[], object]) -> None:
        sent = context._sent

        def first(request: Request, deadline: float | None) -> Any:
            if request.text.endswith(f"_guests.{step}"):
                monkeypatch.setattr(context, "_sent", sent)
                do()
            return sent(request, deadline)

        monkeypatch.setattr(context, "_sent", first)

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
def test_what_cannot_travel_is_named_there_and_it_goes_on(a: remote.Context, b: remote.Context, to_home: bool) -> None:  # noqa: F811
    other = weft.home if to_home else b
    said, free = joined(journeys.holds_a_lock, a, other)
    assert "the variable 'lock' of holds_a_lock" in said
    assert free
    said, balance = joined(journeys.holds_a_channel_of_there, a, other)
    assert "the variable 'channel' of holds_a_channel_of_there" in said
    assert (
        "a channel that was made here, and channels do not move. Let those that are to go along be made at home" in said
    )
    assert balance == 0


def test_who_may_not_move_is_told(a: remote.Context, b: remote.Context) -> None:  # noqa: F811
    weft.move_to(weft.home)  # which is here
    with pytest.raises(TypeError, match=r"move_to\(\) takes a context, such as .*, or weft.home, not 3"):
        weft.move_to(3)
    with pytest.raises(weft.NotMoved, match=r"this is the main one of its thread: weft.spawn\(function\).join\(\)"):
        weft.move_to(a)
    for function, args in ((journeys.goes_home, ()), (journeys.starts_one, (a,))):
        with pytest.raises(remote.RemoteError, match="a tasklet moves on from a context that it has moved to"):
            a.call(function) if not args else joined(function, *args)
    with pytest.raises(remote.RemoteError, match="the block of weft.at\\(\\) begins in the process that has opened"):
        joined(journeys.visits, a, b)
    with pytest.raises(remote.RemoteError, match="nothing moves on out of it. Let move_to\\(\\) stand behind it"):
        joined(journeys.leaves_a_block, a, b)
    with pytest.raises(
        remote.RemoteError, match=r"has stayed in the parent's process, which alone can use it \(.call\)"
    ):
        joined(journeys.calls, a, b)


def test_a_context_without_tasklets_is_refused_wherever_one_comes_from(a: remote.Context) -> None:  # noqa: F811
    with remote.local(python=BARE, name="threads") as threads:
        a.allow_moves_to(threads)
        said, stays = joined(journeys.tries, a, threads)
        assert "cannot move to 'threads': calls there are threads, and no tasklets. Open it with tasklets=True" in said
        assert stays
        with pytest.raises(weft.NoCore, match="calls there are threads"):
            joined(journeys.tries, threads, a)


def test_home_is_the_thread_that_it_has_left(a: remote.Context) -> None:  # noqa: F811
    calls: list[Any] = []

    def elsewhere() -> None:
        calls.append(a.move(weft.tasklet(journeys.tries)(a, weft.home)))

    channel: weft.channel[str] = weft.channel()
    a.allow_moves_to()
    waiting = a.move(weft.tasklet(travelling.begins)(channel))
    a.allow_moves_to(weft.home)
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
    a: remote.Context,  # noqa: F811
    b: remote.Context,  # noqa: F811
    at_step: Callable[..., None],
    step: str,
) -> None:
    at_step(b, step, lambda: end(a))
    call = a.move(weft.tasklet(journeys.tries)(a, b))
    assert call.join() == ("moved", False)


def test_a_place_that_dies_while_it_is_made_there_leaves_it_where_it_was(
    a: remote.Context,  # noqa: F811
    b: remote.Context,  # noqa: F811
    at_step: Callable[..., None],
) -> None:
    at_step(b, "prepare", lambda: end(b))
    call = a.move(weft.tasklet(journeys.tries)(a, b))
    said, stays = call.join()
    assert "'b' has died" in said or "'b' died" in said
    assert stays


def breaks_at_commit(module: Any, context: remote.Context) -> pytest.MonkeyPatch:
    """The context gets the order to go on, and dies before it can say so."""
    patched = pytest.MonkeyPatch()

    def commits(place: remote.Context, number: int) -> Any:
        if place is not context:
            return _sending.commit(place, number)
        stop(context)
        waiter = _sending.commit(place, number)
        os.kill(context.facts.pid, signal.SIGKILL)
        return waiter

    patched.setattr(module, "commit", commits)
    return patched


def in_doubt(a: remote.Context, b: remote.Context, function: Any) -> tuple[Any, Any]:  # noqa: F811
    """A handle, and what its join() raises."""
    patched = breaks_at_commit(_journey, b)
    try:
        call = a.move(weft.tasklet(function)(a, b))
        return call, error_of(call.join)
    finally:
        patched.undo()


def test_a_link_that_breaks_behind_the_order_to_go_on_leaves_it_in_doubt(a: remote.Context, b: remote.Context) -> None:  # noqa: F811
    call, error = in_doubt(a, b, journeys.tries)
    assert isinstance(error, remote.MoveInDoubt)
    assert str(error).startswith(
        "the tasklet of tries was on its way from 'a' to 'b' when the link to that broke; nobody knows"
    )
    assert "It is suspended in 'a'. If it did not go on, error.take_back() lets it go on there" in str(error)
    assert a.call(journeys.guests) == 1
    assert isinstance(error_of(call.join), remote.MoveInDoubt)
    error.take_back()
    said, stays = call.join()
    assert "nobody knows whether it goes on there" in said
    assert stays
    with pytest.raises(RuntimeError, match="taken back already"):
        error.take_back()
    assert a.call(journeys.guests) == 0


def test_who_is_in_doubt_can_be_killed(a: remote.Context, b: remote.Context) -> None:  # noqa: F811
    call, error = in_doubt(a, b, journeys.ends)
    assert isinstance(error, remote.MoveInDoubt)
    call.kill()
    with pytest.raises(weft.TaskletKilled):
        call.join()
    assert a.call(journeys.left) == [True]


def test_who_joins_a_spawned_tasklet_is_told_of_a_doubt_and_of_what_comes_of_it(
    a: remote.Context,  # noqa: F811
) -> None:
    """Here it has called move_to() itself, and can be told nothing."""

    patched = breaks_at_commit(_travel, a)
    trying = weft.spawn(journeys.tries_at_first, (a,))
    error = error_of(trying.join)
    patched.undo()
    assert isinstance(error, remote.MoveInDoubt)
    assert error.tasklet is trying
    assert trying.blocked
    error.take_back()
    assert "nobody knows whether it goes on over there" in trying.join()


def test_a_context_that_dies_with_it_is_an_error_of_its_handle(a: remote.Context, b: remote.Context) -> None:  # noqa: F811
    call = a.move(weft.tasklet(journeys.ends)(a, b))
    until(lambda: "in 'b', running" in repr(call))
    end(b)
    with pytest.raises(remote.ContextDied, match="'b' died while it ran the tasklet of"):
        call.join()
    assert a.call(journeys.left) == []


# ---- killed


def test_it_is_killed_wherever_it_is(a: remote.Context, b: remote.Context) -> None:  # noqa: F811
    call = a.move(weft.tasklet(journeys.ends)(a, b))
    until(lambda: "in 'b', running" in repr(call))
    call.kill()
    with pytest.raises(weft.TaskletKilled):
        call.join()
    assert (a.call(journeys.left), b.call(journeys.left)) == ([], [True])
    channel: weft.channel[str] = weft.channel()
    moving = weft.tasklet(journeys.waits_at_home)(a, channel)
    call = a.move(moving)
    until(lambda: moving.blocked)
    call.kill()
    with pytest.raises(weft.TaskletKilled, match="the tasklet of waits_at_home was killed before it had a result"):
        call.join()
    assert journeys.left() == [True]


@pytest.mark.parametrize("to_home", [True, False])
@pytest.mark.parametrize("when", ["before", "after"])
def test_it_is_killed_while_it_is_on_its_way(
    a: remote.Context,  # noqa: F811
    b: remote.Context,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    to_home: bool,
    when: str,
) -> None:
    """`before` what would let it go on is done, it ends where it was; `after` that, where it has come to."""
    name = "_comes_home" if to_home else "_relayed"
    goes = getattr(_journey.Journey, name)

    def kills(self: _journey.Journey, *args: Any) -> None:
        if when == "before":
            self.kill()
        goes(self, *args)
        if when == "after":
            self.kill()

    monkeypatch.setattr(_journey.Journey, name, kills)
    call = a.move(weft.tasklet(journeys.ends)(a, weft.home if to_home else b))
    with pytest.raises(weft.TaskletKilled):
        call.join()
    left = [a.call(journeys.left), b.call(journeys.left), journeys.left()]
    assert left == ([[True], [], []] if when == "before" else [[], [], [True]] if to_home else [[], [True], []])
    assert (a.call(journeys.guests), b.call(journeys.can_guests)) == (0, 0)


def test_who_is_killed_here_while_it_leaves_ends_when_it_is_decided_where_it_is(
    a: remote.Context,  # noqa: F811
    at_step: Callable[..., None],
) -> None:
    trying = weft.spawn(journeys.ends, (a, weft.home))
    at_step(a, "prepare", lambda: (trying.kill(), trying.kill()))
    with pytest.raises(weft.TaskletKilled):
        trying.join()
    until(lambda: a.call(journeys.guests) == 0)
    assert a.call(journeys.left) == []
    trying = weft.spawn(journeys.ends, (a, weft.home))
    at_step(a, "commit", trying.kill)  # too late: it lives there
    a.allow_moves_to()
    with pytest.raises(remote.RemoteError, match="may not move"):
        trying.join()
    assert (a.call(journeys.left), journeys.left()) == ([True], [])


# ---- what is left behind


def test_hundreds_of_journeys_leave_nothing(a: remote.Context) -> None:  # noqa: F811
    def journey(count: int) -> int:
        for _ in range(count):
            assert joined(journeys.holds_much, a, weft.home)[0] == 111
            joined(journeys.holds_a_lock, a, weft.home)
        return a.call(travelling.objects)

    journey(10)
    assert a.call(journeys.guests) == 0
    first = journey(5)
    assert journey(30) - first < 30


def test_a_move_on_takes_one_round_trip_to_prepare_and_one_to_commit(a: remote.Context, b: remote.Context) -> None:  # noqa: F811
    """On the wire: how often somebody here waits for an answer, one after the other, and who is asked what."""
    joined(journeys.tries, a, b)  # which brings modules
    asked: list[tuple[str, str]] = []
    sent = remote.Context._sent

    def notes(self: remote.Context, request: Request, deadline: float | None) -> Any:
        asked.append((self.name, request.text.rpartition(".")[2]))
        return sent(self, request, deadline)

    before = [context.stats.round_trips for context in (a, b)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(remote.Context, "_sent", notes)
        assert joined(journeys.tries, a, b) == ("moved", False)
    assert [one for one in asked if one[1] != "drop"] == [
        ("a", "prepare"),
        ("a", "commit"),
        ("a", "the tasklet of tries"),
        ("b", "prepare"),
        ("b", "commit"),
        ("b", "the tasklet of tries"),
    ]
    assert [context.stats.round_trips for context in (a, b)] == before
