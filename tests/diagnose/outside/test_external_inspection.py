"""The situations of CPython's own test_external_inspection, with tasklets in the place of threads, coroutines and tasks."""

import os
import sys

import pytest

from roamlet.diagnose import model
from roamlet.diagnose.outside import CannotRead, read_process

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are read by way of /proc"),
    pytest.mark.backends("native", reason="greenlet's own structs are its own: no frames of suspended tasklets"),
]

INNER = "inspected.<locals>."


@pytest.fixture
def inspected(started):
    """(tasklets by name, their stacks as the process sees them, all tasklets)"""
    running = started("inspected")
    running.sleeps()
    process = read_process(running.pid)
    assert process.problems == []
    found = {tasklet.id: tasklet for _, tasklet in process.tasklets()}
    facts = running.facts["stacks"]
    return (
        {name: found[number] for name, (number, _) in facts.items()},
        {name: stack for name, (_, stack) in facts.items()},
        found,
    )


def functions(tasklet):
    return [frame.function.replace(INNER, "") for frame in tasklet.frames]


def test_every_stack_is_the_one_that_the_process_sees(inspected):
    tasklets, stacks, _ = inspected
    assert len(stacks) == 9
    for name, stack in stacks.items():
        assert [[frame.function, frame.file, frame.line] for frame in tasklets[name].frames] == stack, name


def test_calls_of_calls(inspected):
    assert functions(inspected[0]["foo"]) == ["bar", "baz", "foo"]


def test_generators_are_on_the_stack_of_the_tasklet_that_runs_them(inspected):
    assert functions(inspected[0]["consumer"]) == ["generator", "consumer"]
    assert functions(inspected[0]["through_two_generators"]) == ["generator", "delegating", "through_two_generators"]


def test_a_deep_recursion_is_whole(inspected):
    assert functions(inspected[0]["deep"]) == [*["deep"] * 301, "<lambda>"]


def test_a_call_of_several_lines_has_the_line_that_runs(inspected):
    tasklets, stacks, _ = inspected
    first = tasklets["in_pieces"].frames[0]
    assert [first.function, first.file, first.line] == stacks["in_pieces"][0]


def test_code_that_no_file_has(inspected):
    (frame,) = inspected[0]["f"].frames
    assert (frame.function, frame.file, frame.line) == ("f", "a file\nof another name", 4)


def test_tasklets_of_a_scope_are_below_the_one_that_waits_for_them(inspected):
    tasklets, _, found = inspected
    children = [each for each in found.values() if each.parent == tasklets["gather"].id]
    assert [each.name for each in children] == [INNER + "worker"] * 2
    assert all(each.wait.kind == model.TIMER for each in children)
    assert tasklets["gather"].state == model.BLOCKED


def test_scopes_within_scopes(inspected):
    tasklets, _, found = inspected
    (gather,) = (each for each in found.values() if each.parent == tasklets["race"].id)
    assert gather.name == INNER + "gather"
    assert [each.name for each in found.values() if each.parent == gather.id] == [INNER + "worker"] * 2


def test_a_tasklet_that_handles_an_exception(inspected):
    assert functions(inspected[0]["handling"]) == ["handling"]


def test_a_process_does_not_read_itself():
    with pytest.raises(CannotRead, match="a process cannot stop itself to be read"):
        read_process(os.getpid())
