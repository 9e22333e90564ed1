"""Tasklets that move to a context in the middle of their function, and what happens when that fails."""

import contextvars
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import move_functions
import pytest

import roamlet
from roamlet import remote
from roamlet.remote.calls.request import Request
from roamlet.remote.migration import requests
from roamlet.snapshot import CannotSave
from tests.programs import printed
from tests.remote import interpreters
from tests.remote.inside import calls_of
from tests.remote.modules.conftest import Make, make  # noqa: F401
from tests.remote.replacing import replace_method
from tests.snapshot.conftest import KNOWN

pytestmark = pytest.mark.skipif(not KNOWN, reason="tasklets are saved on the backends that see their frames")

BARE = getattr(sys, "_base_executable", sys.executable)


@pytest.fixture
def context() -> Iterator[remote.Context]:
    move_functions.ended.clear()
    with remote.local(python=BARE, tasklets=True) as context:
        yield context


@pytest.fixture
def threads() -> Iterator[remote.Context]:
    with remote.local(python=BARE, name="threads") as context:
        yield context


def begun(function: Callable[..., Any], *args: Any) -> roamlet.tasklet[...]:
    made = roamlet.tasklet(function)(*args)
    made.run()
    return made


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        roamlet.schedule()


def error_of(function: Callable[..., Any], *args: Any) -> Any:
    """What it raises, without the frames that its traceback would keep."""
    try:
        function(*args)
    except Exception as error:
        return error.with_traceback(None)
    raise AssertionError("nothing was raised")


def test_a_loop_over_a_channel_goes_on_there_with_both_ends_of_it(context: remote.Context) -> None:
    numbers: roamlet.channel[int] = roamlet.channel()
    moving = begun(move_functions.total, numbers)
    numbers.send(1)
    numbers.send(2)
    call = context.move(moving)
    assert not moving.alive
    assert repr(call) == "<roamlet.remote.RemoteCall the tasklet of total in 'local', running>"
    numbers.send(3)
    numbers.send(4)
    numbers.close()
    assert call.join() == ([1, 2, 3, 4], 2)
    assert move_functions.left() == []
    assert context.call(move_functions.left) == [True]


def test_values_go_both_ways(context: remote.Context) -> None:
    numbers: roamlet.channel[int] = roamlet.channel()
    totals: roamlet.channel[Any] = roamlet.channel()
    call = context.move(begun(move_functions.counts, numbers, totals))
    for number, total in ((1, 1), (10, 11), (100, 111)):
        numbers.send(number)
        assert totals.receive() == (total, context.facts.pid)
    call.kill()
    with pytest.raises(roamlet.TaskletKilled, match="the tasklet of counts in 'local' was killed"):
        call.join()


@pytest.mark.parametrize(
    "name",
    ["begins", "receives", "paused", "scheduled", "handles", "managed", "generates", "recurses"],
)
def test_it_goes_on_from_wherever_it_is(context: remote.Context, name: str) -> None:
    channel: roamlet.channel[str] = roamlet.channel()
    moving = roamlet.tasklet(getattr(move_functions, name))(channel)
    if name != "begins":
        moving.run()
    call = context.move(moving)
    channel.send("value")
    assert call.join() == ("value", context.facts.pid)
    assert not moving.alive
    assert move_functions.ended == []
    assert all(context.call(move_functions.left))


def test_context_variables_move_with_it(context: remote.Context) -> None:
    channel: roamlet.channel[str] = roamlet.channel()
    variable = move_functions.variable

    def made(begun: bool) -> Any:
        variable.set("of its maker")
        moving = roamlet.tasklet(move_functions.keeps_its_variable if begun else move_functions.has_its_makers_variable)
        return moving(channel)

    begun, new = (contextvars.copy_context().run(made, begun) for begun in (True, False))
    begun.run()
    calls = context.move(begun), context.move(new)
    for _ in calls:
        channel.send("value")
    assert [call.join() for call in calls] == [("value", "its own"), ("value", "of its maker")]
    assert variable.get() == "default"


def test_modules_of_its_context_variables_go_ahead_of_it(
    context: remote.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "roamlet_variable.py").write_text("import contextvars\nvariable = contextvars.ContextVar('variable')\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("roamlet_variable")
    channel: roamlet.channel[str] = roamlet.channel()

    def made() -> Any:
        module.variable.set("of another module")
        return roamlet.tasklet(move_functions.begins)(channel)

    before = context.stats.round_trips
    call = context.move(contextvars.copy_context().run(made))
    channel.send("value")
    assert call.join()[0] == "value"
    assert context.stats.round_trips == before
    monkeypatch.delitem(sys.modules, "roamlet_variable")


def test_what_it_was_sending_is_sent_from_there(context: remote.Context) -> None:
    channel: roamlet.channel[Any] = roamlet.channel()
    call = context.move(begun(move_functions.sends, channel))
    assert channel.receive() == [channel, 1]
    channel.send(2)
    assert call.join() == (2, context.facts.pid)
    call = context.move(begun(move_functions.sends_an_error, channel))
    with pytest.raises(ValueError, match="^sent$"):
        channel.receive()
    channel.send(3)
    assert call.join() == (3, context.facts.pid)


def test_a_channel_that_is_closed_meanwhile_ends_the_loop_or_raises(context: remote.Context) -> None:
    numbers: roamlet.channel[int] = roamlet.channel()
    loop, call = begun(move_functions.total, numbers), begun(move_functions.receives, numbers)
    moved = [context.move(loop), context.move(call)]
    numbers.close()
    assert moved[0].join() == ([], 1)
    error = error_of(moved[1].join)
    assert (type(error), error.type_name) == (remote.RemoteError, "roamlet.ChannelClosed")


def test_a_channel_with_a_window_goes_along(context: remote.Context) -> None:
    numbers: roamlet.channel[int] = roamlet.channel()
    totals: roamlet.channel[Any] = roamlet.channel(4)
    call = context.move(begun(move_functions.counts, numbers, totals))
    numbers.send(1)
    numbers.send(2)
    assert [totals.receive()[0], totals.receive()[0]] == [1, 3]
    call.kill()
    with pytest.raises(roamlet.TaskletKilled):
        call.join()


@pytest.mark.parametrize("make_other", [roamlet.channel, lambda: roamlet.channel(2)])
def test_what_an_expression_is_about_to_call_of_a_channel_is_called_there(
    context: remote.Context, make_other: Callable[[], Any]
) -> None:
    channel, other = roamlet.channel(), make_other()
    call = context.move(begun(move_functions.echoes, channel, other))
    channel.send("value")
    assert other.receive() == "value"
    assert call.join() == context.facts.pid


def test_an_exception_on_its_way_to_it_is_raised_there(context: remote.Context) -> None:
    channel: roamlet.channel[str] = roamlet.channel()
    moving = begun(move_functions.managed, channel)
    moving.throw(LookupError("on its way"), pending=True)
    call = context.move(moving)
    with pytest.raises(LookupError, match="on its way"):
        call.join()
    assert move_functions.ended == []
    assert context.call(move_functions.left) == [True]


def test_closures_made_before_and_after_work(context: remote.Context) -> None:
    channel: roamlet.channel[int] = roamlet.channel()
    moving = begun(move_functions.calls_a_closure, channel)
    channel.send(10)
    call = context.move(moving)
    channel.send(5)
    assert call.join() == (5, [11, 12])


def test_errors_come_to_who_joins(context: remote.Context) -> None:
    channel: roamlet.channel[None] = roamlet.channel()
    calls = [context.move(begun(function, channel)) for function in (move_functions.fails, move_functions.exits)]
    channel.send(None)
    channel.send(None)
    error = error_of(calls[0].join)
    assert (type(error), error.args) == (LookupError, ("no such thing",))
    assert "in fails" in error.__notes__[0]
    with pytest.raises(remote.FunctionExited, match=r"the tasklet of exits called sys.exit\(3\) in 'local'"):
        calls[1].join()
    assert context.call(move_functions.pid) == context.facts.pid


def test_who_joins_a_spawned_tasklet_gets_what_came_of_it_there(context: remote.Context) -> None:
    def spawned(function: Callable[..., Any]) -> tuple[Any, roamlet.channel[str]]:
        channel: roamlet.channel[str] = roamlet.channel()
        return roamlet.spawn(function, (channel,)), channel

    started, failing = spawned(move_functions.receives), spawned(move_functions.fails)
    roamlet.schedule()
    new = spawned(move_functions.begins)
    for moving, channel in (new, started, failing):
        context.move(moving)
        channel.send("value")
    assert started[0].join() == new[0].join() == ("value", context.facts.pid)
    failing = failing[0]
    with pytest.raises(LookupError, match="no such thing"):
        failing.join()


def test_it_is_killed_there_with_its_finally_blocks(context: remote.Context) -> None:
    for wakes in (False, True):
        channel: roamlet.channel[None] = roamlet.channel()
        call = context.move(begun(move_functions.forever, channel))
        if wakes:
            channel.send(None)
            channel.receive()  # it has taken that
        call.kill()
        with pytest.raises(roamlet.TaskletKilled, match="the tasklet of forever in 'local' was killed"):
            call.join()
    until(lambda: context.call(move_functions.left) == [True, True])
    assert move_functions.ended == []


def test_a_generator_that_others_hold_stays_as_it_is(context: remote.Context) -> None:
    channel: roamlet.channel[None] = roamlet.channel()
    generator = move_functions.numbers()
    call = context.move(begun(move_functions.shares, channel, generator))
    assert next(generator) == 1
    channel.send(None)
    assert call.join() == 1
    generator.close()
    assert move_functions.left() == [True]


def test_the_environment_that_a_variable_has_is_that_of_the_process_where_the_tasklet_is(
    context: remote.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: roamlet.channel[str] = roamlet.channel()
    monkeypatch.setenv("ROAMLET_MARK", "set here, when the context had started")
    moving = begun(move_functions.environment, names)
    names.send("ROAMLET_MARK")
    call = context.move(moving)
    names.send("ROAMLET_MARK")
    names.close()
    is_its_own, found, pid = call.join()
    assert is_its_own
    assert found == ["set here, when the context had started", None]
    assert pid != os.getpid()
    assert "ROAMLET_LEFT" not in os.environ
    assert context.call(os.getenv, ("ROAMLET_LEFT",)) == "by the tasklet"


def test_it_goes_to_a_second_hop(context: remote.Context) -> None:
    numbers: roamlet.channel[int] = roamlet.channel()
    with remote.local(python=BARE, tasklets=True, via=context, name="behind") as behind:
        call = behind.move(begun(move_functions.total, numbers))
        numbers.send(1)
        numbers.close()
        assert call.join() == ([1], 2)
        assert behind.call(move_functions.left) == [True]


def test_a_fork_takes_it(context: remote.Context) -> None:
    channel: roamlet.channel[str] = roamlet.channel()
    with remote.fork(tasklets=True, beside_threads=True) as fork:
        call = fork.move(begun(move_functions.receives, channel))
        channel.send("value")
        assert call.join() == ("value", fork.facts.pid)


def test_the_functions_of_a_script_are_found_over_there(
    program: Callable[..., str], python: Callable[..., Any]
) -> None:
    script = program(
        f"""
        import contextvars, os, sys, roamlet
        from roamlet import remote

        FACTOR = 10
        VARIABLE = contextvars.ContextVar("VARIABLE")

        class Number:
            def __init__(self, value):
                self.value = value

        def work(numbers):
            VARIABLE.set("its own")
            number = Number(numbers.receive())
            add = lambda other: (number.value + other) * FACTOR
            return add(numbers.receive()), type(number) is Number, os.getpid() == {os.getpid()}, VARIABLE.get()

        if __name__ == "__main__":
            numbers = roamlet.channel()
            moving = roamlet.tasklet(work)(numbers)
            moving.run()
            numbers.send(1)
            with remote.local(python={BARE!r}, tasklets=True) as context:
                call = context.move(moving)
                numbers.send(2)
                print(call.join())
        """
    )
    assert printed(python(script)) == "(30, True, False, 'its own')\n"


# ---- what is refused, and goes on here


def goes_on_here(moving: roamlet.tasklet[...], channel: roamlet.channel[Any]) -> None:
    """It waits where it did, and ends when it has got what it waits for."""
    assert (moving.blocked, channel.queue) == (True, moving)
    channel.send("here")
    assert not moving.alive


def test_a_context_without_tasklets_is_refused_with_what_to_do(threads: remote.Context) -> None:
    channel: roamlet.channel[str] = roamlet.channel()
    moving = begun(move_functions.receives, channel)
    with pytest.raises(
        roamlet.NoCore,
        match="cannot move to 'threads': calls run as threads there, not as tasklets. Open it with tasklets=True$",
    ):
        threads.move(moving)
    goes_on_here(moving, channel)


@pytest.mark.parametrize("version", [name for name in interpreters.others() if name in ("2.7", "3.13")])
def test_another_version_is_named(version: str) -> None:
    channel: roamlet.channel[str] = roamlet.channel()
    moving = begun(move_functions.receives, channel)
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    with (
        remote.local(python=interpreters.found()[version]) as context,
        pytest.raises(
            roamlet.NoCore, match=f"with python{here}: the target has {version}, and frames fit their own version"
        ),
    ):
        context.move(moving)
    goes_on_here(moving, channel)


@pytest.mark.parametrize(
    ("function", "more", "error", "match"),
    [
        (move_functions.holds_a_lock, (), CannotSave, "(?s)the variable 'lock' of holds_a_lock .*_thread.lock"),
        (
            move_functions.holds_a_tasklet,
            (roamlet.getmain(),),
            CannotSave,
            "(?s)the variable 'other' of holds_a_tasklet .*another tasklet, and a tasklet travels alone. Let them share a channel",
        ),
        (move_functions.holds, (threading.Lock(),), CannotSave, "the variable 'thing' of holds"),
    ],
)
def test_what_cannot_travel_is_named_and_it_goes_on_here(
    context: remote.Context, function: Callable[..., Any], more: tuple[Any, ...], error: type[Exception], match: str
) -> None:
    channel: roamlet.channel[str] = roamlet.channel()
    moving = begun(function, channel, *more)
    with pytest.raises(error, match=match):
        context.move(moving)
    goes_on_here(moving, channel)


def test_an_object_on_its_way_into_a_channel_is_refused(context: remote.Context) -> None:
    channel: roamlet.channel[Any] = roamlet.channel()
    moving = begun(move_functions.sends_an_object, channel)
    with pytest.raises(remote.CannotTravel, match="(?s)it waits to send what could not be sent there: value .*Thing"):
        context.move(moving)
    assert type(channel.receive()) is move_functions.Thing
    until(lambda: not moving.alive)


def test_what_is_no_tasklet_that_could_move_is_refused(context: remote.Context) -> None:
    channel: roamlet.channel[str] = roamlet.channel()
    with pytest.raises(TypeError, match=r"move\(\) takes a tasklet, not 3"):
        context.move(3)  # type: ignore[arg-type]
    with pytest.raises(remote.NotMoved, match="it has ended, or has no arguments"):
        context.move(roamlet.tasklet(move_functions.pid))
    with pytest.raises(CannotSave, match="it is the main tasklet of its thread"):
        context.move(roamlet.getmain())
    moving = begun(move_functions.receives, channel)
    caught: list[BaseException] = []

    def elsewhere() -> None:
        try:
            context.move(moving)
        except remote.NotMoved as error:
            caught.append(error.with_traceback(None))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "it belongs to another thread. Move it there" in str(caught[0])
    goes_on_here(moving, channel)


def test_other_code_over_there_is_refused_and_it_goes_on_here(context: remote.Context, make: Make) -> None:  # noqa: F811
    text = "def work(channel):\n    return channel.receive(), {}\n"
    folder = make({"travel_changes.py": text.format(1)})
    work: ModuleType = importlib.import_module("travel_changes")
    (folder / "travel_changes.py").write_text(text.format(22))
    channel: roamlet.channel[str] = roamlet.channel()
    moving = begun(work.work, channel)
    with pytest.raises(
        remote.NotMoved,
        match="(?s)was not moved to 'local': BadSnapshot there: .*travel_changes.work is another version here",
    ):
        context.move(moving)
    goes_on_here(moving, channel)


# ---- between here and there


def test_while_it_is_under_way_it_can_be_killed_but_not_go_on(context: remote.Context) -> None:
    channel: roamlet.channel[str] = roamlet.channel()
    opens: roamlet.channel[None] = roamlet.channel()
    moving = begun(move_functions.holds, channel, move_functions.Gate(opens))
    move = roamlet.spawn(context.move, (moving,))
    until(lambda: context.call(move_functions.is_being_made))
    with pytest.raises(remote.NotMoved, match="is on its way to a context already"):
        context.move(moving)
    with pytest.raises(RuntimeError, match="blocked"):
        moving.insert()
    assert channel.balance == 0
    moving.kill()
    opens.send(None)
    with pytest.raises(remote.NotMoved, match="it was killed, or begun, meanwhile"):
        move.join()
    until(lambda: context.call(move_functions.there) == 0)


def test_when_who_moves_it_is_killed_it_stays_here(context: remote.Context) -> None:
    channel: roamlet.channel[str] = roamlet.channel()
    opens: roamlet.channel[None] = roamlet.channel()
    moving = begun(move_functions.holds, channel, move_functions.Gate(opens))
    move = roamlet.spawn(context.move, (moving,))
    until(lambda: context.call(move_functions.is_being_made))
    move.kill()
    with pytest.raises(roamlet.TaskletKilled):
        move.join()
    goes_on_here(moving, channel)
    until(lambda: context.call(move_functions.there) == 0)


def test_a_context_that_dies_while_it_is_prepared_leaves_it_here(context: remote.Context) -> None:
    channel: roamlet.channel[str] = roamlet.channel()
    moving = begun(move_functions.holds, channel, move_functions.Killer())
    with pytest.raises(remote.ContextDied, match="exit code 7|code 7"):
        context.move(moving)
    goes_on_here(moving, channel)
    with pytest.raises(remote.ContextClosed if not context.closed else remote.RemoteError):
        context.move(begun_new(channel))
    channel.close()


def begun_new(channel: roamlet.channel[str]) -> roamlet.tasklet[...]:
    moving = roamlet.tasklet(move_functions.begins)(channel)
    moving.remove()
    return moving


@pytest.mark.parametrize("scheduled", [True, False])
def test_a_new_tasklet_that_was_not_moved_is_where_it_was(
    context: remote.Context, monkeypatch: pytest.MonkeyPatch, scheduled: bool
) -> None:
    def fails(*_: Any) -> None:
        raise LookupError("on the way")

    channel: roamlet.channel[str] = roamlet.channel()
    moving = roamlet.tasklet(move_functions.begins)(channel) if scheduled else begun_new(channel)
    monkeypatch.setattr(requests, "commit", fails)
    with pytest.raises(LookupError, match="on the way"):
        context.move(moving)
    assert (moving.scheduled, moving.paused) == (scheduled, not scheduled)
    moving.run()
    goes_on_here(moving, channel)


def test_a_link_that_breaks_behind_the_order_to_go_on_leaves_it_in_doubt(
    context: remote.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel: roamlet.channel[str] = roamlet.channel()
    moving = begun(move_functions.receives, channel)
    requests: list[Request] = []
    sent = calls_of(context).send

    def stops_before_it_goes(request: Request, deadline: float | None) -> Any:
        requests.append(request)
        if not request.text.endswith("commit"):
            return sent(request, deadline)
        os.kill(context.facts.pid, signal.SIGSTOP)
        asked = sent(request, deadline)
        os.kill(context.facts.pid, signal.SIGKILL)
        return asked

    replace_method(monkeypatch, calls_of(context), "send", stops_before_it_goes)
    error = error_of(context.move, moving)
    assert isinstance(error, remote.MoveInDoubt)
    assert str(error).startswith("the tasklet of receives was on its way to 'local' when the link broke")
    assert [request.text.rpartition(".")[2] for request in requests] == ["prepare", "commit"]
    assert (error.tasklet, channel.balance) == (moving, 0)
    with pytest.raises(RuntimeError, match="blocked"):
        moving.insert()
    error.take_back()
    goes_on_here(moving, channel)
    with pytest.raises(RuntimeError, match="taken back already"):
        error.take_back()


def test_a_context_that_dies_later_ends_it_with_an_error(context: remote.Context) -> None:
    channel: roamlet.channel[str] = roamlet.channel()
    call = context.move(begun(move_functions.forever, channel))
    os.kill(context.facts.pid, signal.SIGKILL)
    with pytest.raises(remote.ContextDied):
        call.join()
    assert move_functions.ended == []


def test_a_closed_context_is_refused(context: remote.Context) -> None:
    context.close()
    channel: roamlet.channel[str] = roamlet.channel()
    moving = begun(move_functions.receives, channel)
    with pytest.raises(remote.ContextClosed):
        context.move(moving)
    goes_on_here(moving, channel)


# ---- what is left behind


def test_what_it_held_here_is_let_go_at_once(context: remote.Context) -> None:
    channel: roamlet.channel[str] = roamlet.channel()
    noted: list[Any] = []
    call = context.move(begun(move_functions.notes, channel, noted))
    assert noted[0]() is None
    channel.send("value")
    assert call.join() == "Thing"


def test_hundreds_of_moves_leave_nothing_there(context: remote.Context) -> None:
    def moves(count: int) -> int:
        for _ in range(count):
            channel: roamlet.channel[str] = roamlet.channel()
            for function in (move_functions.handles, move_functions.managed, move_functions.generates):
                call = context.move(begun(function, channel))
                channel.send("value")
                assert call.join()[0] == "value"
        return context.call(move_functions.objects)

    moves(20)
    assert context.call(move_functions.there) == 0
    first = moves(20)
    assert moves(60) - first < 60


def test_moving_imports_what_saves_only_when_it_is_used(python: Callable[..., Any]) -> None:
    done = python("-c", "import sys; from roamlet import remote; print('roamlet.snapshot' in sys.modules)")
    assert printed(done) == "False\n"
