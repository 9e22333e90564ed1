"""One lab of two offices for each file of tests that wants one."""

import pytest

from roamlet_lab import Lab


@pytest.fixture(scope="module")
def lab():
    """Offices alpha and beta, 20 ms apart. A test that changes what the internet does changes it back."""
    with Lab(2, rtt=0.020) as made:
        yield made
