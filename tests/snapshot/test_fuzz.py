"""Random programs, saved at their points and resumed: what comes out is what would have come out."""

import pytest

from tests.snapshot._fuzz import points_of


def run(first, wanted):
    points, seed = 0, first
    while points < wanted:
        points += points_of(seed)
        seed += 1
    return points


def test_copies_of_random_programs_end_as_the_programs_do():
    assert run(1_000_000, 5000) >= 5000


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(10))
def test_half_a_million_points_of_random_programs(part):
    assert run(part * 10_000_000, 50_000) >= 50_000
