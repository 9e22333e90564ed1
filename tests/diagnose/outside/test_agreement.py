"""What is read from outside beside what the process sees itself at the same time: times of waiting, cycles, contexts, and tasks."""

import os
import re
import sys
import time

import pytest

import roamlet
from roamlet.diagnose import model, render
from roamlet.diagnose.outside import read_process, tasks
from roamlet.diagnose.outside.cycles import PROOF
from roamlet.diagnose.outside.describing import Description

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are read by way of /proc")

SEEN = pytest.mark.backends("native", reason="greenlet's own structs are its own: no frames of suspended tasklets")


def both(running):
    """What the process saw, what is read from outside, and when the latter was, on the monotonic clock."""
    before = time.monotonic()
    outside = read_process(running.pid)
    return model.Process.from_json(running.facts["tree"]), outside, (before, time.monotonic())


@pytest.mark.parametrize("kind", ["joins", "scopes", "channels", "locks"])
def test_how_long_each_tasklet_has_waited(started, kind):
    running = started("cycle", kind)
    running.sleeps()
    inside, outside, (begun, ended) = both(running)
    low, high = running.facts["clock"]
    compared = 0
    for _, tasklet in inside.tasklets():
        wait, seen = tasklet.wait, outside.find(tasklet.id).wait
        if wait is None or wait.kind == model.TIMER:
            continue  # one that ticks has begun another wait since
        # Both say when it began to wait, each within the time that its own look took; the latter in three digits.
        digits = seen.since / 200
        assert low - wait.since <= ended - seen.since + digits
        assert begun - seen.since - digits <= high - wait.since
        compared += 1
    assert compared == (3 if kind == "locks" else 2)
    (main,) = (tasklet for _, tasklet in outside.tasklets() if tasklet.main)
    assert 0 <= main.wait.since <= ended - low


@SEEN
def test_tasklets_with_functions_of_their_own_are_told_as_the_process_tells_them(started, monkeypatch):
    running = started("own_functions", "1200")
    running.sleeps()
    told, tell = [], Description._tasklet
    monkeypatch.setattr(Description, "_tasklet", lambda *words: told.append(words[2]) or tell(*words))
    inside, outside, _ = both(running)
    compared = 0
    for _, tasklet in inside.tasklets():
        if tasklet.main:
            continue
        seen = outside.find(tasklet.id)
        assert (seen.state, seen.frames) == (tasklet.state, tasklet.frames)
        if tasklet.name.startswith("functools.partial("):  # its repr, which is not to be had from outside
            assert seen.name.startswith("<functools.partial at ")
        else:
            assert seen.name == tasklet.name
        assert (seen.wait.kind, seen.wait.address) == (tasklet.wait.kind, tasklet.wait.address)
        compared += 1
    assert compared == 1200
    # Those with methods and closures of their own are told together; partials are not, and the look may have been repeated.
    assert 300 < len(told) / told.count(told[0]) < 350
    assert len(re.findall("^ .* channel.receive ", render.table(outside), re.MULTILINE)) == 1


def steps(process):
    return [[(step.tasklet, step.next, step.name, step.waits, step.where) for step in c.steps] for c in process.cycles]


@SEEN
@pytest.mark.parametrize(
    ("kind", "sure"),
    [("joins", True), ("scopes", True), ("locks", True), ("rlocks", True), ("globals", False)],
)
def test_a_cycle_is_told_in_the_words_of_the_process_itself(started, kind, sure):
    inside, outside, _ = both(started("cycle", kind))
    assert [cycle.sure for cycle in inside.cycles] == [cycle.sure for cycle in outside.cycles] == [sure]
    assert steps(outside) == steps(inside)
    assert len(outside.cycles[0].steps) == (3 if "locks" in kind else 2)
    assert outside.cycles[0].text.replace(f"; {PROOF}", "") == inside.cycles[0].text


@SEEN
def test_roamlets_own_frames_are_known_where_it_is_loaded_through_a_symbolic_link(started, tmp_path, monkeypatch):
    """The system names the file itself, code the path by which it was imported."""
    link = tmp_path / "packages"
    link.symlink_to(os.path.dirname(os.path.dirname(roamlet.__file__)))
    monkeypatch.setenv("PYTHONPATH", str(link))
    inside, outside, _ = both(started("cycle", "joins"))
    assert outside.folder == inside.folder == f"{link}/roamlet/"
    assert steps(outside) == steps(inside)


@SEEN
@pytest.mark.parametrize("kind", ["channels", "channel_and_lock"])
def test_a_cycle_that_only_the_process_can_prove_says_so(started, kind):
    inside, outside, _ = both(started("cycle", kind))
    assert [cycle.sure for cycle in inside.cycles] == [True]
    assert [cycle.sure for cycle in outside.cycles] == [False]
    assert steps(outside) == steps(inside)
    head = outside.cycles[0].text.splitlines()[0]
    assert head.endswith(f"go on only if other code wakes one of them; {PROOF}:")


def test_what_an_object_of_another_tasklet_leads_to_is_in_no_cycle(started):
    inside, outside, _ = both(started("cycle", "none"))
    assert inside.cycles == outside.cycles == []


@SEEN
def test_joins_are_told_in_the_words_of_the_process_itself(started):
    inside, outside, _ = both(started("cycle", "scopes"))
    waits = {tasklet.id: tasklet.wait.text for _, tasklet in inside.tasklets() if tasklet.wait is not None}
    joins = {number: text for number, text in waits.items() if text.startswith("join of ")}
    assert sorted(joins.values()) == [
        "join of 1 tasklets of a scope",
        "join of cycle_of_scopes.<locals>.parent",
    ]
    assert {number: outside.find(number).wait.text for number in joins} == joins


@SEEN
def test_contexts_and_calls_in_flight(started):
    running = started("contexts")
    inside, outside, _ = both(running)
    near, far = outside.contexts
    assert (near.name, far.name, far.via, near.state) == ("local", "local/local", "local", "open")
    assert [len(near.calls), len(far.calls)] == [2, 1]
    assert near.calls[0].function == "time.sleep"
    for read, seen in zip(outside.contexts, inside.contexts, strict=True):
        for name in ("bytes_down", "bytes_up"):  # what shows that a context is alive may have been sent since
            assert getattr(read, name) >= getattr(seen, name) > 0
            setattr(read, name, getattr(seen, name))
        assert read == seen
    waits = [outside.find(number).wait for number in running.facts["made"]]
    assert [wait.text for wait in waits] == [*["call of time.sleep on local"] * 2, "call of time.sleep on local/local"]
    assert [wait.text for wait in waits] == [inside.find(number).wait.text for number in running.facts["made"]]
    assert {call.tasklet for context in outside.contexts for call in context.calls} == set(running.facts["made"])


def test_a_process_without_contexts_has_none(started):
    assert read_process(started("unused").pid).contexts == []


@SEEN
def test_tasks_of_event_loops_are_below_the_tasklets_that_run_those(started):
    running = started("loops")
    running.sleeps()
    inside, outside, _ = both(running)
    compared = 0
    for _, tasklet in inside.tasklets():
        seen = sorted(tasklet.tasks, key=lambda task: task.name)
        assert sorted(outside.find(tasklet.id).tasks, key=lambda task: task.name) == seen
        compared += len(seen)
    assert compared == 9
    everything = [task for _, tasklet in outside.tasklets() for task in tasklet.tasks]
    assert {task.state for task in everything} == {model.RUNNING, model.BLOCKED, model.RUNNABLE}
    first = next(task for task in everything if task.name == "first")
    assert [frame.function for frame in first.frames] == ["loops.<locals>.innermost", "loops.<locals>.between"]
    assert {task.awaits for task in everything} >= {"task first", "Future", None}
    assert outside.problems == []


@SEEN
def test_tasks_that_do_not_look_like_tasks_are_counted(started, monkeypatch):
    running = started("loops")
    running.sleeps()
    monkeypatch.setattr(tasks, "LOOP", 800)  # beyond the end of a task
    monkeypatch.setattr(tasks, "_size", lambda *_: 816)
    (problem,) = read_process(running.pid).problems
    assert int(problem.removesuffix(" of asyncio's tasks could not be read")) in (
        9,
        11,
    )  # with those that are done, up to 3.11
