"""No call from Python crashes the process or spoils what comes after it: every member of the core with every kind of object in
every state (_fuzz.py), in processes of their own, so that a crash names the case that caused it.
"""

import os
import subprocess
import sys

import pytest

import roamlet
from tests.core._fuzz import CHANNELS, SUBJECTS, TASKLETS, exhaustive, look_around
from tests.core._scripts import ROOT

NAMES = list(TASKLETS)
BATCHES = [("tasklet", NAMES[first : first + 10]) for first in range(0, len(NAMES), 10)]
BATCHES += [(subject, list(states)) for subject, (states, _) in SUBJECTS.items() if subject != "tasklet"]


def fuzz(*words: str, timeout: float = 100) -> int:
    """Run the cases that the words ask for; how many they were. A crash or a spoilt world shows the case to run again."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.core._fuzz", *words],
        capture_output=True,
        timeout=timeout,
        cwd=ROOT,
        env={**os.environ, "PYTHONMALLOC": os.environ.get("PYTHONMALLOC", "debug")},
        check=False,
    )
    lines = done.stdout.decode(errors="replace").splitlines()
    if done.returncode == 0 and lines and lines[-1].startswith("DONE "):
        return int(lines[-1].split()[1])
    last = [line for line in lines if line.count("/") >= 4]
    raise AssertionError(
        f"status {done.returncode}, {lines[-1:]} after {len(last)} cases. To run the last one again:\n"
        f"    python -m tests.core._fuzz {last[-1:]}\n(or, where it takes those before it: {words})\n"
        + done.stderr.decode(errors="replace")[-3000:]
    )


@pytest.mark.parametrize(("subject", "states"), BATCHES)
def test_every_member_in_every_state(subject, states):
    assert fuzz("--exhaustive", "24", subject, *states) > 20 * len(states)


@pytest.mark.parametrize("seed", range(4))
def test_random_steps_in_random_places(seed):
    assert fuzz("--random", str(seed), "2000") == 2000


@pytest.mark.soak
@pytest.mark.parametrize(("subject", "states"), [(subject, [state]) for subject, states in BATCHES for state in states])
def test_every_member_with_every_argument_in_every_state(subject, states):
    assert fuzz("--exhaustive", "1", subject, *states, timeout=600) > 20


@pytest.mark.soak
@pytest.mark.timeout(700)
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_many_more_random_steps(seed):
    assert fuzz("--random", str(seed), "10000", timeout=600) == 10000


def test_the_cases_reach_every_member_and_every_state():
    for subject, (states, members) in SUBJECTS.items():
        for state in states:
            cases = [case.split("/") for case in exhaustive(subject, state, 50)]
            assert {case[2] for case in cases} == set(members)
    assert {"get alive", "kill", "drop", "set tempval"} <= set(SUBJECTS["tasklet"][1])
    assert {"with senders", "closing with receivers"} <= set(CHANNELS)


def test_what_is_wrong_is_shown_with_its_case():
    with pytest.raises(AssertionError, match="(?s)status 1.*no/such/case/at/all"):
        fuzz("no/such/case/at/all")


def test_a_spoilt_world_is_noticed():
    roamlet.tasklet(int)()
    assert look_around() == ["2 tasklets are runnable", "main has neighbours"]
    with roamlet.atomic():
        assert "main is strange" in look_around()[0]
    assert look_around() == []
