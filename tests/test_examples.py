"""The scripts in examples/ run."""

import re

import pytest

from tests.docs.blocks import ROOT
from tests.programs import printed
from tests.snapshot.conftest import KNOWN


@pytest.mark.skipif(not KNOWN, reason="tasklets are moved on the backends that see their frames")
def test_a_tasklet_goes_on_counting_where_it_was_moved(python):
    lines = printed(python("-W", "error", str(ROOT / "examples/move_a_tasklet.py"))).splitlines()
    found = [re.match(r" +(\d+)  on \S+, process (\d+)$", line) for line in lines]
    assert [int(one[1]) for one in found if one] == [2, 3, 5, 7, 11, 13] * 2
    processes = [one[2] for one in found if one]
    assert len(set(processes[:3])) == len(set(processes[3:6])) == 1
    assert processes[0] == processes[6] not in (processes[3], processes[9])
    assert lines[6].strip() == lines[13].strip() == "[2, 3, 5, 7, 11, 13]"


@pytest.mark.skipif(not KNOWN, reason="tasklets are moved on the backends that see their frames")
def test_a_search_goes_through_all_places_and_comes_home(python):
    lines = printed(python("-W", "error", str(ROOT / "examples/go_places.py"))).splitlines()
    found = [re.match(r" +(\d+)  found by \S+ on \S+, process (\d+)$", line) for line in lines[:-1]]
    primes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47]
    assert [int(one[1]) for one in found] == primes
    places = [one[2] for one in found]
    assert [places[number] for number in range(0, 15, 3)] == [places[number] for number in range(2, 15, 3)]
    assert len(set(places)) == 4
    assert places[0] == places[-1]
    assert lines[-1] == str(primes)
