"""Tasklets that move, and blocks of roamlet.at(), leave nothing in the source or the destination, however many there were."""

from collections.abc import Callable
from pathlib import Path

import at_functions
import move_functions
import pytest

import roamlet
from roamlet import remote
from tests.remote.test_move import BARE, begun
from tests.snapshot.conftest import KNOWN
from tests.snapshot.test_leaks import check_nothing_grows

pytestmark = pytest.mark.skipif(not KNOWN, reason="tasklets are saved on the backends that see their frames")

WARM_UP = 100


def moves(context: remote.Context) -> None:
    """One tasklet there, with a channel of here in use, to its end."""
    channel: roamlet.channel[str] = roamlet.channel()
    call = context.move(begun(move_functions.receives, channel))
    channel.send("value")
    assert call.join() == ("value", context.facts.pid)


def visits(context: remote.Context) -> None:
    """One block there."""
    assert roamlet.spawn(at_functions.changes, (context,)).join()[0] is True


def check_travel(work: Callable[[remote.Context], None], times: int) -> None:
    with remote.local(python=BARE, tasklets=True) as context:
        for _ in range(WARM_UP):
            work(context)
        statm = Path(f"/proc/{context.facts.pid}/statm")
        objects, pages = context.call(move_functions.objects), int(statm.read_text().split()[1])
        check_nothing_grows(lambda: work(context), times)
        assert context.call(move_functions.objects) - objects < 50
        assert int(statm.read_text().split()[1]) - pages < 500
        assert context.call(move_functions.there) == 0


@pytest.mark.timeout(400)  # beside other work it took longer than 120 s
@pytest.mark.parametrize(
    "times", [500, pytest.param(1000, marks=pytest.mark.exhaustive(reason="what leaks, leaks each time"))]
)
@pytest.mark.parametrize("work", [moves, visits])
def test_however_many_there_were_they_leave_nothing(work: Callable[[remote.Context], None], times: int) -> None:
    check_travel(work, times)
