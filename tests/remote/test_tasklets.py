"""Calls as tasklets: roamlet's own core in the memory of a bare interpreter of the same version."""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import roamlet_sent

import roamlet
from roamlet import core, remote
from roamlet.wire import protocol
from tests.remote import interpreters
from tests.remote.inside import link_of
from tests.remote.modules.conftest import Make, make  # noqa: F401

BARE = getattr(sys, "_base_executable", sys.executable)
MANY = 200  # calls that wait at once: three times the threads that a context has

WORK = """
import threading
import roamlet
from roamlet import remote
from roamlet.sync import Event

gate = Event()
ended = Event()
seen = []

def real():
    numbers, out, done = roamlet.channel(), [], []
    def count():
        for number in range(3):
            numbers.send(number)
        numbers.close()
    roamlet.tasklet(count)()
    out += numbers
    roamlet.tasklet(done.append)("run")
    roamlet.run()
    return out, done, roamlet.core.backend, roamlet.channel.__module__

def waits():
    seen.append(1)
    gate.wait()
    return len([one for one in threading.enumerate() if one.name.startswith("roamlet-call")])

def waiting():
    return len(seen)

def opens():
    gate.set()

def killed():
    try:
        seen.append(1)
        roamlet.channel().receive()
    finally:
        ended.set()

def until_ended():
    ended.wait()
    return "ended"

def prints():
    print("printed")
    raise LookupError("no such thing")

def opens_a_context():
    remote.local()

def reads(path):
    with open(path) as file:
        return file.read()
"""


@pytest.fixture
def work(make: Make) -> ModuleType:  # noqa: F811
    make({"tasklet_work.py": WORK})
    return importlib.import_module("tasklet_work")


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def context(lines: list[str]) -> Iterator[remote.Context]:
    if core.backend == "greenlet":
        pytest.skip("the core that travels is the one with the backend native, which is not built here")
    with remote.local(python=BARE, tasklets=True, output=lambda _, __, line: lines.append(line)) as context:
        yield context


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        roamlet.schedule()


def test_roamlet_on_the_target_is_roamlet(context: remote.Context, work: ModuleType) -> None:
    assert context.call(work.real) == ([0, 1, 2], ["run"], "native", roamlet.channel.__module__)
    assert context.stats.round_trips == 0


def test_the_backend_that_is_asked_for_here_is_not_asked_for_there(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, work: ModuleType
) -> None:
    monkeypatch.setenv("ROAMLET_SWITCH", "greenlet")
    context = request.getfixturevalue("context")
    assert context.call(work.real)[2] == "native"
    assert context.call(os.environ.get, ("ROAMLET_SWITCH",)) == "greenlet"


def test_calls_that_wait_in_roamlet_occupy_no_threads(
    context: remote.Context, work: ModuleType, in_tasklets: Callable[..., list[object]]
) -> None:
    def one(number: int) -> object:
        if number:
            return context.call(work.waits)
        until(lambda: context.call(work.waiting) == MANY)
        return context.call(work.opens)

    assert in_tasklets(one, list(range(MANY + 1))) == [None, *[0] * MANY]


def test_a_call_that_is_killed_here_is_killed_there_with_its_finally_blocks(
    context: remote.Context, work: ModuleType
) -> None:
    caller = roamlet.tasklet(context.call)(work.killed)
    until(lambda: context.call(work.waiting) == 1)
    caller.kill()
    assert context.call(work.until_ended) == "ended"


def wait_until_read(context: remote.Context) -> None:
    """Until the context has read all that was sent before."""
    heard = context.stats.bytes_up
    link = link_of(context)
    link.send_at_once(protocol.frame(link.identifier, 0, 1, protocol.PING, bytes(5000)))
    until(lambda: context.stats.bytes_up > heard + 5000)


@pytest.mark.parametrize("order", ["queued", "taken"])
def test_a_call_that_was_cancelled_before_it_began_does_not_begin(
    context: remote.Context, work: ModuleType, tmp_path: Path, order: str
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    os.mkfifo(first)
    os.mkfifo(second)
    # Each holds up the target's thread. While the first one does, what follows waits in a queue; after it, as a tasklet.
    holding = [roamlet.spawn(context.call, (work.reads, (str(pipe),))) for pipe in (first, second)]
    roamlet.schedule()
    cancelled = roamlet.tasklet(context.call)(work.killed)
    roamlet.schedule()
    if order == "taken":
        wait_until_read(context)
        first.write_text("go on")
        assert holding[0].join() == "go on"
    cancelled.kill()
    wait_until_read(context)
    if order == "queued":
        first.write_text("go on")
    second.write_text("go on")
    assert [call.join() for call in holding] == ["go on", "go on"]
    assert context.call(work.waiting) == 0


def test_errors_and_output_come_as_from_threads(context: remote.Context, work: ModuleType, lines: list[str]) -> None:
    with pytest.raises(LookupError, match="no such thing"):
        context.call(work.prints)
    until(lambda: bool(lines))
    assert lines == ["printed"]
    with pytest.raises(remote.RemoteError, match="remote.local.. was called in a context"):
        context.call(work.opens_a_context)


def test_sys_exit_and_what_cannot_travel_are_errors_of_their_call_alone(context: remote.Context) -> None:
    with pytest.raises(remote.FunctionExited, match="The context lives on"):
        context.call(roamlet_sent.exit_with, (5,))
    for function in (roamlet_sent.a_lock, roamlet_sent.generator_inside, roamlet_sent.opened):
        with pytest.raises(remote.CannotTravel, match="what it returned cannot travel"):
            context.call(function)
    assert context.call(roamlet_sent.add, (2, 2)) == 4


def test_a_fork_uses_the_core_that_it_has(work: ModuleType) -> None:
    with remote.fork(tasklets=True, beside_threads=True) as context:
        assert context.call(work.real)[:3] == ([0, 1, 2], ["run"], core.backend)
        caller = roamlet.tasklet(context.call)(work.killed)
        until(lambda: context.call(work.waiting) == 1)
        caller.kill()
        assert context.call(work.until_ended) == "ended"
        assert context.stats.modules == 0


@pytest.mark.parametrize("version", [name for name in interpreters.others() if name in ("2.7", "3.13")])
def test_another_python_is_refused_with_what_each_side_is(version: str) -> None:
    if core.backend == "greenlet":
        pytest.skip("the core that travels is the one with the backend native, which is not built here")
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    with pytest.raises(
        remote.NoTasklets,
        match=rf"(?s)calls in 'local' cannot be tasklets: roamlet.core._native is .* built for cpython {here} .* the target is "
        rf"cpython {version} .*Without tasklets=True its calls run on threads",
    ):
        remote.local(python=interpreters.found()[version], tasklets=True)


def test_a_core_that_the_target_cannot_load_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    if core.backend == "greenlet":
        pytest.skip("the core that travels is the one with the backend native, which is not built here")
    monkeypatch.setenv("ROAMLET_SWITCH", "nothing")
    with pytest.raises(remote.NoTasklets, match="(?s)ROAMLET_SWITCH='nothing' names no switching backend"):
        remote.local(python=BARE, tasklets=True)


def test_tasklets_is_a_yes_or_a_no() -> None:
    with pytest.raises(TypeError, match="tasklets must be True or False, not 'yes'"):
        remote.local(tasklets="yes")  # type: ignore[typeddict-item]
