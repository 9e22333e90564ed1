"""What is read from outside beside what the process sees itself at the same time: times of waiting, and cycles."""

import sys
import time

import pytest

from roamlet.diagnose import model
from roamlet.diagnose.outside import read_process
from roamlet.diagnose.outside.cycles import PROOF

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are read by way of /proc")

SEEN = pytest.mark.backends(
    "sliced", "stacks", reason="greenlet's own structs are its own: no frames of suspended tasklets"
)


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
        # Both say when it began to wait, each within the time that its own look took.
        assert low - wait.since <= ended - seen.since
        assert begun - seen.since <= high - wait.since
        compared += 1
    assert compared == (3 if kind == "locks" else 2)
    (main,) = (tasklet for _, tasklet in outside.tasklets() if tasklet.main)
    assert 0 <= main.wait.since <= ended - low


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
