"""Random programs, saved where they wait, between two instructions, and by themselves: what comes out is what would have come out.

tests/soak/test_random_programs.py tries many more, on every Python that is here.
"""

import pytest

from tests.snapshot._fuzz import checkpoint_points_of, interrupted_points_of, points_of

MANY = pytest.mark.exhaustive(reason="more random programs of the same kinds")


@pytest.mark.parametrize(
    ("points", "wanted"),
    [
        (points_of, 1500),
        (interrupted_points_of, 600),
        (checkpoint_points_of, 300),
        pytest.param(points_of, 5000, marks=MANY),
        pytest.param(interrupted_points_of, 2000, marks=MANY),
        pytest.param(checkpoint_points_of, 1000, marks=MANY),
    ],
)
def test_copies_of_random_programs_end_as_the_programs_do(points, wanted):
    seed, tried = 1_000_000, 0
    while tried < wanted:
        tried += points(seed)
        seed += 1
