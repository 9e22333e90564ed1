"""Where a tasklet that moves is killed, or told to go on, behind the order: it runs in one place, and ends in one."""

from collections.abc import Callable
from functools import partial
from typing import Any

import journeys
import pytest

import weft
from tests.remote.test_journey import error_of, until
from tests.remote.test_journey_faults import breaks_at_commit
from tests.snapshot.conftest import KNOWN
from weft import remote
from weft.remote import _travel
from weft.remote.context import Request

pytestmark = pytest.mark.skipif(not KNOWN, reason="tasklets are saved on the backends that see their frames")


@pytest.fixture
def behind_the_order(monkeypatch: pytest.MonkeyPatch) -> Callable[[remote.Context, Callable[[], object]], None]:
    """Do it when the order to go on there has been sent, and its answer has not come."""

    def behind_the_order(context: remote.Context, do: Callable[[], object]) -> None:
        sent = context._sent

        def orders(request: Request, deadline: float | None) -> Any:
            asked = sent(request, deadline)
            if request.text.endswith("_guests.commit"):
                monkeypatch.setattr(context, "_sent", sent)
                do()
            return asked

        monkeypatch.setattr(context, "_sent", orders)

    return behind_the_order


def waiting(channel: "weft.channel[Any]", spawned: bool) -> Any:
    """A tasklet that waits in this channel."""
    made = weft.spawn(journeys.waits, (channel,)) if spawned else weft.tasklet(journeys.waits)(channel)
    until(lambda: channel.balance < 0)
    return made


@pytest.fixture(autouse=True)
def nobody_has_ended(a: remote.Context) -> None:
    journeys.forget()
    a.call(journeys.forget)


@pytest.mark.parametrize("pending", [True, False])
@pytest.mark.parametrize("spawned", [True, False])
def test_who_is_killed_behind_the_order_to_go_on_ends_there_alone(
    a: remote.Context, behind_the_order: Callable[..., None], spawned: bool, pending: bool
) -> None:
    channel: weft.channel[Any] = weft.channel()
    moving = waiting(channel, spawned)
    behind_the_order(a, lambda: weft.tasklet.kill(moving, pending))
    call = a.move(moving)
    assert journeys.left() == []
    for handle in (call, moving) if spawned else (call,):
        with pytest.raises(weft.TaskletKilled):
            handle.join()
    assert (a.call(journeys.left), journeys.left()) == ([True], [])
    assert (a.call(journeys.guests), channel.balance) == (0, 0)


def test_behind_that_order_nothing_else_can_be_done_with_it(
    a: remote.Context, behind_the_order: Callable[..., None]
) -> None:
    channels: list[weft.channel[Any]] = [weft.channel(), weft.channel()]
    new = weft.tasklet(journeys.waits)(channels[0])
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
    channel: weft.channel[Any] = weft.channel()
    new = weft.spawn(journeys.waits, (channel,))
    behind_the_order(a, new.kill)
    a.move(new)
    with pytest.raises(weft.TaskletKilled):
        new.join()
    assert (a.call(journeys.guests), channel.balance) == (0, 0)
    assert journeys.left() == []


@pytest.mark.parametrize("when", ["before", "behind"])
def test_a_kill_in_doubt_ends_what_is_suspended_here(
    mortals: tuple[remote.Context, remote.Context], when: str, behind_the_order: Callable[..., None]
) -> None:
    a, _ = mortals
    channel: weft.channel[Any] = weft.channel()
    moving = waiting(channel, False)
    if when == "before":
        behind_the_order(a, moving.kill)
    patched = breaks_at_commit(_travel, a)
    error = error_of(a.move, moving)
    patched.undo()
    assert isinstance(error, remote.MoveInDoubt)
    if when == "behind":
        moving.kill()
    until(lambda: not moving.alive)
    assert journeys.left() == [True]
    error.take_back()  # too late: nothing happens
    assert channel.balance == 0
    assert journeys.left() == [True]
