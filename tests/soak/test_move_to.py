"""Tasklets that wander between contexts and home while contexts are killed: each ends once, or somebody is told that it is lost."""

import collections
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import move_to_functions
import pytest

import roamlet
from roamlet import remote
from tests.snapshot.conftest import KNOWN

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not KNOWN, reason="tasklets are saved on the backends that see their frames"),
]

BARE = getattr(sys, "_base_executable", sys.executable)
SEEDS = int(os.environ.get("ROAMLET_SOAK_JOURNEYS", "200"))
COUNT, STEPS = 30, 20
HOPS, RUNS, AT_A_TIME = 1000, 20, 5  # programs at a time, so that each waits for the processor again and again
LOST = (remote.ContextDied, remote.MoveInDoubt)


def what_came_of(wandering):
    """Of one: "done", "lost", or "taken back" and what came of it then."""
    try:
        return "done" if wandering.join(60) == STEPS else "less"
    except remote.MoveInDoubt as error:
        error.take_back()
        del error
    except remote.ContextDied:
        return "lost"
    try:
        return "taken back" if wandering.join(60) == STEPS else "less"
    except LOST:
        return "lost"


def test_contexts_are_killed_while_tasklets_wander(told):
    outcomes = collections.Counter()
    for seed in range(SEEDS):
        chance = random.Random(seed)
        there = {"python": BARE, "tasklets": True}
        with remote.local(**there) as a, remote.local(via=a, **there) as b, remote.local(**there) as c:
            contexts = (a, b, c)
            for context in contexts:
                context.allow_moves_to(*contexts, roamlet.home)
            ended = roamlet.channel(COUNT)
            places = [*contexts, roamlet.home]
            all_of_them = [
                roamlet.spawn(move_to_functions.wanders_for, (places, number, STEPS, ended)) for number in range(COUNT)
            ]
            for context in chance.sample([b, c], chance.choice([1, 2])):
                roamlet.sleep(chance.random() * 0.6)
                os.kill(context.facts.pid, signal.SIGKILL)
            came = [what_came_of(one) for one in all_of_them]
            ended.close()
            ends = collections.Counter(ended)
        assert "less" not in came, seed
        assert all(ends[number] == 1 for number, what in enumerate(came) if what != "lost"), seed
        assert all(times == 1 for times in ends.values()), seed
        outcomes.update(came)
    told(f"{SEEDS} times {COUNT} tasklets: {dict(outcomes)}")


@pytest.mark.timeout(1800)
def test_a_thousand_hops_over_three_places_under_load(told):
    command = [sys.executable, str(Path(__file__).with_name("hops.py")), str(HOPS)]
    running, left = [], RUNS
    try:
        while left or running:
            while left and len(running) < AT_A_TIME:
                running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
                left -= 1
            said = running[0].communicate()[0]
            assert (running.pop(0).returncode, said) == (0, f"{HOPS} hops\n")
    finally:
        for program in running:
            program.kill()
            program.communicate()
    told(f"{RUNS} times {HOPS} hops")
