"""What holds for the tests of weft itself holds for those of the apps: tests/conftest.py, taken over by name."""

from tests.conftest import (  # noqa: F401 - hooks and fixtures, found by their names
    hub_of_the_main_thread,
    leaves_nothing_behind,
    pytest_collection_modifyitems,
    pytest_runtest_makereport,
    pytest_sessionstart,
)
