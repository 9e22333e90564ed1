"""Random programs, saved where they wait, between two instructions, and by themselves: what comes out is what would have come out.

tests/soak/test_random_programs.py tries many more, on every Python that is here.
"""

import pytest

from tests.snapshot._fuzz import checkpoint_points_of, interrupted_points_of, points_of


@pytest.mark.parametrize(
    ("points", "wanted"), [(points_of, 5000), (interrupted_points_of, 2000), (checkpoint_points_of, 1000)]
)
def test_copies_of_random_programs_end_as_the_programs_do(points, wanted):
    seed, tried = 1_000_000, 0
    while tried < wanted:
        tried += points(seed)
        seed += 1
