"""A tasklet that moves runs in one process and ends in one, whatever kills it or lets it go on, and whatever is answered."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import move_to_functions
import pytest

import roamlet
from roamlet import remote
from roamlet.remote.calls.request import Request
from roamlet.remote.migration import handle as handles
from tests.remote.inside import calls_of
from tests.remote.replacing import replace_method
from tests.remote.test_move_to import error_of, forged, until
from tests.remote.test_move_to_faults import breaks_at_commit
from tests.snapshot.conftest import KNOWN

pytestmark = pytest.mark.skipif(not KNOWN, reason="tasklets are saved on the backends that see their frames")


@pytest.fixture
def behind_the_order(monkeypatch: pytest.MonkeyPatch) -> Callable[[remote.Context, Callable[[], object]], None]:
    """Do it when the order to go on there has been sent, and its answer has not come."""

    def behind_the_order(context: remote.Context, do: Callable[[], object]) -> None:
        sent = calls_of(context).send

        def orders(request: Request, deadline: float | None) -> Any:
            asked = sent(request, deadline)
            if request.text.endswith("migration.arrivals.commit"):
                replace_method(monkeypatch, calls_of(context), "send", sent)
                do()
            return asked

        replace_method(monkeypatch, calls_of(context), "send", orders)

    return behind_the_order


def waiting(channel: "roamlet.channel[Any]", spawned: bool) -> Any:
    """A tasklet that waits in this channel."""
    made = (
        roamlet.spawn(move_to_functions.waits, (channel,))
        if spawned
        else roamlet.tasklet(move_to_functions.waits)(channel)
    )
    until(lambda: channel.balance < 0)
    return made


@pytest.fixture(autouse=True)
def nobody_has_ended(a: remote.Context) -> None:
    move_to_functions.forget()
    a.call(move_to_functions.forget)


@pytest.mark.parametrize("pending", [True, False])
@pytest.mark.parametrize("spawned", [True, False])
def test_who_is_killed_behind_the_order_to_go_on_ends_there_alone(
    a: remote.Context, behind_the_order: Callable[..., None], spawned: bool, pending: bool
) -> None:
    channel: roamlet.channel[Any] = roamlet.channel()
    moving = waiting(channel, spawned)
    behind_the_order(a, lambda: roamlet.tasklet.kill(moving, pending))
    call = a.move(moving)
    assert move_to_functions.left() == []
    for handle in (call, moving) if spawned else (call,):
        with pytest.raises(roamlet.TaskletKilled):
            handle.join()
    assert (a.call(move_to_functions.left), move_to_functions.left()) == ([True], [])
    assert (a.call(move_to_functions.guests), channel.balance) == (0, 0)


def test_behind_that_order_nothing_else_can_be_done_with_it(
    a: remote.Context, behind_the_order: Callable[..., None]
) -> None:
    channels: list[roamlet.channel[Any]] = [roamlet.channel(), roamlet.channel()]
    new = roamlet.tasklet(move_to_functions.waits)(channels[0])
    new.remove()
    begun = waiting(channels[1], False)
    refused: list[Any] = []

    def tries_all(moving: Any) -> None:
        for function, *args in (("insert",), ("run",), ("throw", ValueError("no")), ("raise_exception", KeyError)):
            refused.append(error_of(getattr(moving, function), *args))

    for moving, channel in zip((new, begun), channels, strict=True):
        behind_the_order(a, partial(tries_all, moving))
        call = a.move(moving)
        channel.send("value")
        assert call.join() == ("value", a.facts.pid)
    assert [type(error) for error in refused] == [RuntimeError] * 8
    said = "is on its way to another process: it can be killed, and nothing else"
    assert all(said in str(error) for error in refused)


def test_a_new_one_that_is_killed_behind_the_order_ends_there(
    a: remote.Context, behind_the_order: Callable[..., None]
) -> None:
    channel: roamlet.channel[Any] = roamlet.channel()
    new = roamlet.spawn(move_to_functions.waits, (channel,))
    behind_the_order(a, new.kill)
    a.move(new)
    with pytest.raises(roamlet.TaskletKilled):
        new.join()
    assert (a.call(move_to_functions.guests), channel.balance) == (0, 0)
    assert move_to_functions.left() == []


@pytest.mark.parametrize("when", ["before", "behind"])
def test_a_kill_in_doubt_ends_what_is_suspended_here(
    mortals: tuple[remote.Context, remote.Context], when: str, behind_the_order: Callable[..., None]
) -> None:
    a, _ = mortals
    channel: roamlet.channel[Any] = roamlet.channel()
    moving = waiting(channel, False)
    if when == "before":
        behind_the_order(a, moving.kill)
    patched = breaks_at_commit(a)
    error = error_of(a.move, moving)
    patched.undo()
    assert isinstance(error, remote.MoveInDoubt)
    if when == "behind":
        moving.kill()
    until(lambda: not moving.alive)
    assert move_to_functions.left() == [True]
    error.take_back()  # too late: nothing happens
    assert channel.balance == 0
    assert move_to_functions.left() == [True]


@pytest.mark.parametrize("to_home", [True, False])
def test_a_second_kill_does_not_reach_its_finally_blocks(a: remote.Context, b: remote.Context, to_home: bool) -> None:
    said: roamlet.channel[str] = roamlet.channel()
    goes: roamlet.channel[None] = roamlet.channel()
    call = a.move(roamlet.tasklet(move_to_functions.ends_slowly)(roamlet.home if to_home else b, said, goes))
    assert said.receive() == "begun"
    call.kill()
    assert said.receive() == "ending"
    call.kill()
    b.call(move_to_functions.can_guests)  # after the second one
    goes.send(None)
    assert said.receive() == "ended"
    with pytest.raises(roamlet.TaskletKilled):
        call.join()


def test_an_order_that_is_answered_with_nonsense_may_have_been_followed(
    mortals: tuple[remote.Context, remote.Context],
) -> None:
    a, _ = mortals
    channel: roamlet.channel[Any] = roamlet.channel()
    a.move(roamlet.tasklet(move_to_functions.left)()).join()  # which brings what restores them
    a.call(move_to_functions.commits_and_says, (threading.Lock,))
    moving = waiting(channel, False)
    error = error_of(a.move, moving)
    assert isinstance(error, remote.MoveInDoubt)
    assert "what it returned cannot travel" in str(error)
    assert moving.blocked
    assert move_to_functions.left() == []
    until(lambda: a.closed)  # with what went on there
    error.take_back()
    channel.send("value")
    until(lambda: not moving.alive)
    assert move_to_functions.left() == [True]


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt()])
def test_what_has_no_text_is_no_arrival(
    a: remote.Context, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """It goes on where it was, and Ctrl-C is not swallowed."""

    def refuses(*_: object) -> None:
        raise error

    monkeypatch.setattr(handles, "ReturnUnpickler", refuses)
    call = a.move(roamlet.tasklet(move_to_functions.tries)(a, roamlet.home))
    if isinstance(error, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            until(lambda: call.done)
    said, stays = call.join()
    assert type(error).__name__ in said
    assert stays
    until(lambda: a.call(move_to_functions.guests) == 0)


def test_who_uses_the_tasklet_again_is_not_killed_by_one_that_cannot_come_home(a: remote.Context) -> None:
    channel: roamlet.channel[Any] = roamlet.channel()
    moving = roamlet.tasklet(move_to_functions.sends_what_it_is_told)(a, roamlet.home, forged())
    call = a.move(moving)
    moving.bind(move_to_functions.waits, (channel,))
    moving.insert()
    until(lambda: channel.balance < 0)
    with pytest.raises(remote.RemoteError, match="the tasklet cannot be read here"):
        call.join()
    assert moving.blocked
    channel.send(None)
    until(lambda: not moving.alive)


def test_a_module_that_is_named_a_thousand_times_is_looked_at_once(
    a: remote.Context, b: remote.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought: list[str] = []
    replace_method(monkeypatch, calls_of(b).shipping, "send_module", brought.append)
    error = error_of(
        roamlet.spawn(
            move_to_functions.sends_what_it_is_told, (a, b, forged(place=1, modules=("os", "roamlet") * 1000))
        ).join
    )
    assert "cannot be read here" in str(error)
    assert brought == ["os", "roamlet"]
