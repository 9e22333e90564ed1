"""What holds for the tests of roamlet itself holds for those of the apps: tests/conftest.py, taken over by name.

Tests that build labs are marked so, and are skipped, with the reason, where there can be none.
"""

import pytest

from roamlet_lab import why_not
from tests import conftest as of_roamlet
from tests.conftest import (  # noqa: F401 - hooks and fixtures, found by their names
    hub_of_the_main_thread,
    leaves_nothing_behind,
    pytest_cmdline_main,
    pytest_fixture_setup,
    pytest_runtest_makereport,
    pytest_runtest_protocol,
    pytest_sessionstart,
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    of_roamlet.pytest_collection_modifyitems(config, items)
    in_labs = [item for item in items if item.get_closest_marker("lab")]
    if in_labs and (reason := why_not()):
        for item in in_labs:
            item.add_marker(pytest.mark.skip(reason=reason))
