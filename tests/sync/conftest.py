"""What the tests of sync share: the clock that moves only when nobody can run."""

from collections.abc import Callable

import pytest

import roamlet
from tests.core.conftest import clock  # noqa: F401 - a fixture


@pytest.fixture
def run_until_blocked() -> Callable[[], None]:
    """Run the tasklets of this thread until all of them wait."""

    def run() -> None:
        while roamlet.getruncount() > 1:
            roamlet.schedule()

    return run
