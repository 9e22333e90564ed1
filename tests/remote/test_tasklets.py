"""Calls as tasklets: weft's own core in the memory of a bare interpreter of the same version."""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import weft_sent

import weft
from tests.remote import interpreters
from tests.remote.modules.conftest import Make, make  # noqa: F401
from weft import core, remote
from weft.wire import protocol

BARE = getattr(sys, "_base_executable", sys.executable)
MANY = 200  # calls that wait at once: three times the threads that a context has

WORK = """
import threading
import weft
from weft import remote
from weft.sync import Event

gate = Event()
ended = Event()
seen = []

def real():
    numbers, out, done = weft.channel(), [], []
    def count():
        for number in range(3):
            numbers.send(number)
        numbers.close()
    weft.tasklet(count)()
    out += numbers
    weft.tasklet(done.append)("run")
    weft.run()
    return out, done, weft.core.backend, weft.channel.__module__

def waits():
    seen.append(1)
    gate.wait()
    return len([one for one in threading.enumerate() if one.name.startswith("weft-call")])

def waiting():
    return len(seen)

def opens():
    gate.set()

def killed():
    try:
        seen.append(1)
        weft.channel().receive()
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
        pytest.skip("the core that travels is the one with the backend sliced, which is not built here")
    with remote.local(python=BARE, tasklets=True, output=lambda _, __, line: lines.append(line)) as context:
        yield context


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        weft.schedule()


def test_weft_over_there_is_weft(context: remote.Context, work: ModuleType) -> None:
    assert context.call(work.real) == ([0, 1, 2], ["run"], "sliced", weft.channel.__module__)
    assert context.stats.round_trips == 0


def test_the_backend_that_is_asked_for_here_is_not_asked_for_there(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, work: ModuleType
) -> None:
    monkeypatch.setenv("WEFT_SWITCH", "stacks")
    context = request.getfixturevalue("context")
    assert context.call(work.real)[2] == "sliced"
    assert context.call(os.environ.get, ("WEFT_SWITCH",)) == "stacks"


def test_calls_that_wait_in_weft_occupy_no_threads(
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
    caller = weft.tasklet(context.call)(work.killed)
    until(lambda: context.call(work.waiting) == 1)
    caller.kill()
    assert context.call(work.until_ended) == "ended"


def test_a_call_that_was_cancelled_before_it_began_does_not_begin(
    context: remote.Context, work: ModuleType, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    first = weft.spawn(context.call, (work.reads, (str(pipe),)))  # holds up the thread over there
    weft.schedule()
    second = weft.tasklet(context.call)(work.killed)
    weft.schedule()
    second.kill()
    heard = context.stats.bytes_up
    link = context._link
    link.send_at_once(protocol.frame(link.identifier, 0, 1, protocol.PING, bytes(5000)))
    until(lambda: context.stats.bytes_up > heard + 5000)  # it has read all that was sent before
    pipe.write_text("go on")
    assert first.join() == "go on"
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
        context.call(weft_sent.exit_with, (5,))
    for function in (weft_sent.a_lock, weft_sent.generator_inside, weft_sent.opened):
        with pytest.raises(remote.CannotTravel, match="what it returned cannot travel"):
            context.call(function)
    assert context.call(weft_sent.add, (2, 2)) == 4


def test_a_fork_uses_the_core_that_it_has(work: ModuleType) -> None:
    with remote.fork(tasklets=True, beside_threads=True) as context:
        assert context.call(work.real)[:3] == ([0, 1, 2], ["run"], core.backend)
        caller = weft.tasklet(context.call)(work.killed)
        until(lambda: context.call(work.waiting) == 1)
        caller.kill()
        assert context.call(work.until_ended) == "ended"
        assert context.stats.modules == 0


@pytest.mark.parametrize("version", [name for name in interpreters.others() if name in ("2.7", "3.13")])
def test_another_python_is_refused_with_what_each_side_is(version: str) -> None:
    if core.backend == "greenlet":
        pytest.skip("the core that travels is the one with the backend sliced, which is not built here")
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    with pytest.raises(
        remote.NoTasklets,
        match=rf"(?s)calls in 'local' cannot be tasklets: weft.core._sliced is .* built for cpython {here} .* over there is "
        rf"cpython {version} .*Without tasklets=True its calls run on threads",
    ):
        remote.local(python=interpreters.found()[version], tasklets=True)


def test_a_core_that_cannot_be_loaded_over_there_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    if core.backend == "greenlet":
        pytest.skip("the core that travels is the one with the backend sliced, which is not built here")
    monkeypatch.setenv("WEFT_SWITCH", "nothing")
    with pytest.raises(remote.NoTasklets, match="(?s)WEFT_SWITCH='nothing' names no switching backend"):
        remote.local(python=BARE, tasklets=True)


def test_tasklets_is_a_yes_or_a_no() -> None:
    with pytest.raises(TypeError, match="tasklets must be True or False, not 'yes'"):
        remote.local(tasklets="yes")  # type: ignore[typeddict-item]
