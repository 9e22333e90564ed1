"""Blocks of `with roamlet.at(context):`, and what comes of those that fail."""

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import at_functions
import move_functions
import pytest

import roamlet
from roamlet import remote
from roamlet.remote.migration import move, requests
from roamlet.remote.migration.handle import ArrivalHandle
from roamlet.snapshot import BadSnapshot, CannotSave
from roamlet.snapshot.migration.block import ends_of
from tests.programs import printed
from tests.remote.inside import link_of
from tests.remote.raising import raises
from tests.snapshot.conftest import KNOWN
from tests.witnesses import Witnesses

pytestmark = pytest.mark.skipif(not KNOWN, reason="tasklets are saved on the backends that see their frames")

BARE = getattr(sys, "_base_executable", sys.executable)


@pytest.fixture
def context() -> Iterator[remote.Context]:
    at_functions.ended.clear()
    with remote.local(python=BARE, tasklets=True) as context:
        yield context


def joined(function: Callable[..., Any], *args: Any) -> Any:
    return roamlet.spawn(function, args).join()


def test_the_block_runs_there_and_what_it_has_changed_comes_back(context: remote.Context) -> None:
    assert joined(at_functions.changes, context) == (True, False, [1, 2], True, True)


@pytest.mark.parametrize(
    ("function", "result"),
    [
        (at_functions.in_a_loop, [0, (10, True), 2, (30, True), 4]),
        (at_functions.returns, (1, True)),
        (at_functions.breaks_and_continues, 4),
        (at_functions.nests, (True, True, True)),
        (at_functions.shares_a_variable, (3, 4)),
        (at_functions.in_a_handler, (1, "LookupError('handled')")),
        (at_functions.deletes, (["context", "two"], 3)),
        (at_functions.below, (True, False, [1, 2], True, True)),
        (at_functions.raises, ("there", 1)),
    ],
)
def test_it_goes_on_here_however_the_block_ends(
    context: remote.Context, function: Callable[..., Any], result: object
) -> None:
    assert joined(function, context) == result
    assert all(at_functions.left())
    assert context.call(at_functions.left) == []


def test_a_tasklet_without_a_handle_comes_back_as_itself(context: remote.Context) -> None:
    done: list[Any] = []

    def visits() -> None:
        current = roamlet.getcurrent()
        del current
        done.append(at_functions.in_a_loop(context))

    tasklet = roamlet.tasklet(visits)()
    while tasklet.alive:
        roamlet.schedule()
    assert done == [[0, (10, True), 2, (30, True), 4]]


def test_channels_are_joined_in_the_block(context: remote.Context) -> None:
    channel: roamlet.channel[int] = roamlet.channel()
    calling = roamlet.spawn(at_functions.calls, (context, channel))
    channel.send(4)
    assert channel.receive() == 8
    assert calling.join() == 8


def test_many_visit_at_once(context: remote.Context) -> None:
    visits = [roamlet.spawn(at_functions.in_a_loop, (context,)) for _ in range(20)]
    assert [visit.join() for visit in visits] == [[0, (10, True), 2, (30, True), 4]] * 20


def test_a_script_has_blocks(program: Callable[..., str], python: Callable[..., Any]) -> None:
    script = program(
        f"""
        import os, roamlet
        from roamlet import remote

        def work(context):
            here = os.getpid()
            with roamlet.at(context):
                there = os.getpid()
            return here == os.getpid(), here != there

        if __name__ == "__main__":
            with remote.local(python={BARE!r}, tasklets=True) as context:
                print(roamlet.spawn(work, (context,)).join())
        """
    )
    assert printed(python(script)) == "(True, True)\n"


# ---- what fails is raised at the `with`


def test_the_main_tasklet_is_refused(context: remote.Context) -> None:
    with pytest.raises(remote.NotMoved, match=r"this is the main one of its thread: roamlet.spawn\(function\).join"):
        at_functions.changes(context)
    with pytest.raises(TypeError, match=r"at\(\) takes a context, such as .* not 3"):
        roamlet.at(3)


def test_a_context_without_tasklets_is_refused() -> None:
    with (
        remote.local(python=BARE, name="threads") as context,
        pytest.raises(roamlet.NoCore, match="calls run as threads there, not as tasklets. Open it with tasklets=True"),
    ):
        joined(at_functions.changes, context)


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (
            at_functions.in_a_time_out,
            r"it is inside a scope or a time-out, .* Put them around its join\(\), or inside of the block of roamlet.at\(\)",
        ),
        (
            at_functions.in_a_generator,
            "is used in a generator or coroutine. Let it call a function that has|before CPython 3.12, running a generator",
        ),
        (at_functions.by_hand, "is used in another way than `with roamlet.at"),
    ],
)
def test_where_no_block_can_be_is_refused(context: remote.Context, function: Callable[..., Any], match: str) -> None:
    with pytest.raises(CannotSave, match=match):
        joined(function, context)


def test_a_variable_that_cannot_go_is_named_and_the_block_has_not_begun(context: remote.Context) -> None:
    error, free = joined(at_functions.holds_a_lock, context)
    assert "the variable 'lock' of holds_a_lock" in error
    assert free


def test_a_variable_that_cannot_come_back_is_named(context: remote.Context) -> None:
    why = r"the block of brings_a_function ran in .*, but its variable made cannot come back: it is .*\n    .*with  del made$"
    with raises(remote.CannotTravel, match=why) as caught:
        joined(at_functions.brings_a_function, context)
    assert caught.value.path == "made"


def test_what_the_block_raises_is_raised_here(context: remote.Context) -> None:
    with pytest.raises(remote.FunctionExited, match=r"the block of always_raises called sys.exit\(3\)"):
        joined(at_functions.always_raises, context)


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (at_functions.always_raises, remote.FunctionExited),
        (at_functions.brings_a_function, remote.CannotTravel),
        (at_functions.dies, remote.ContextDied),
    ],
)
def test_what_the_frames_had_dies_when_the_error_of_the_block_was_handled(
    context: remote.Context, function: Callable[..., Any], kind: type[Exception]
) -> None:
    witnesses = Witnesses()
    joined(witnesses.handles, lambda: function(context), kind)
    witnesses.judge()


def test_a_context_that_dies_in_the_block_is_an_error_there(context: remote.Context) -> None:
    with pytest.raises(remote.ContextDied, match="died while it ran the block of dies: .*exit code 3"):
        joined(at_functions.dies, context)
    assert at_functions.left() == [True]


def test_a_context_that_has_died_before_it_is_asked_for_the_end_of_the_block_is_no_less_an_error(
    context: remote.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = ArrivalHandle

    def too_late(*args: Any) -> ArrivalHandle:
        link_of(context).ended.wait(10)
        return handle(*args)

    monkeypatch.setattr(move, "ArrivalHandle", too_late)
    with raises(remote.ContextDied, match="died while it ran the block of dies: .*exit code 3") as caught:
        joined(at_functions.dies, context)
    assert caught.value.sent is True


def test_who_is_killed_ends_the_block_there_and_goes_on_to_end_here(context: remote.Context) -> None:
    channel: roamlet.channel[str] = roamlet.channel()
    visit = roamlet.spawn(at_functions.waits, (context, channel))
    assert channel.receive() == "there"
    visit.kill()
    with pytest.raises(roamlet.TaskletKilled):
        visit.join()
    assert at_functions.left() == [True]
    while context.call(at_functions.left) != [True]:
        roamlet.schedule()


def test_a_link_that_breaks_before_it_is_known_whether_the_block_has_begun(
    context: remote.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = requests.commit

    def dies_with_it(*args: Any) -> Any:
        os.kill(context.facts.pid, 19)
        waiter = commit(*args)
        os.kill(context.facts.pid, 9)
        return waiter

    monkeypatch.setattr(requests, "commit", dies_with_it)
    with pytest.raises(remote.MoveInDoubt, match="when the block of changes was to begin there, and it is not known"):
        joined(at_functions.changes, context)


@pytest.mark.parametrize(
    "forged",
    [
        None,
        {},
        {"end": 0, "variables": {}, "deleted": (), "returned": ()},
        {"end": True, "variables": {}, "deleted": (), "returned": ()},
        {"end": "own", "variables": {"context": 1, "no": 2}, "deleted": (), "returned": ()},
        {"end": "own", "variables": {}, "deleted": ("no",), "returned": ()},
        {"end": "own", "variables": {}, "deleted": (), "returned": (1, 2)},
        {"end": "own", "variables": {}, "deleted": (), "returned": (1,)},
        {"end": "other", "variables": {}, "deleted": (), "returned": ()},
    ],
)
def test_a_context_that_lies_makes_nothing_run(
    context: remote.Context, monkeypatch: pytest.MonkeyPatch, forged: dict[str, Any] | None
) -> None:
    """`own` is the right end of the block, `other` one of another block of the function."""
    join = ArrivalHandle.join
    said: list[Any] = []

    def lies(self: Any, timeout: float | None = None) -> Any:
        said.append(join(self, timeout))
        if not forged or forged["end"] not in ("own", "other"):
            return forged
        code = at_functions.nests.__code__
        ends = [end for unit in range(len(code.co_code) // 2) for end in ends_of(code, unit) or {}]
        return {
            **forged,
            "end": said[0]["end"] if forged["end"] == "own" else next(end for end in ends if end != said[0]["end"]),
        }

    monkeypatch.setattr(ArrivalHandle, "join", lies)
    with pytest.raises(BadSnapshot, match="a block of roamlet.at"):
        joined(at_functions.nests, context)


def test_blocks_leave_nothing_there(context: remote.Context) -> None:
    def visits(count: int) -> Any:
        for _ in range(count):
            joined(at_functions.in_a_loop, context)
            joined(at_functions.raises, context)
        return context.call(move_functions.objects)

    visits(20)
    first = visits(10)
    assert visits(50) - first < 50
