"""The pytest plugin: `pytest --roamlet-leaks` fails each test that leaves an exception behind, and names the line that stored it.

A test is examined when its fixtures have been torn down, those of a wider scope excepted, and only if it passed: pytest itself
keeps the exception that a test has failed with. What `with pytest.raises(...) as caught` keeps is accepted, and so is a
line that says `# roamlet: keep`, and a test marked `@pytest.mark.roamlet_keeps(reason="...")`.
"""

import gc
from collections.abc import Generator
from typing import Any

import pytest

MARKER = "roamlet_keeps(reason): this test may leave exceptions behind; the reason is required"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare --roamlet-leaks."""
    parser.getgroup("roamlet").addoption(
        "--roamlet-leaks",
        action="store_true",
        help="fail tests that leave an exception behind, in a cycle or held by an object that lives on",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the examination of tests if it was asked for."""
    config.addinivalue_line("markers", MARKER)
    if config.getoption("--roamlet-leaks"):
        config.pluginmanager.register(_Looking(), "roamlet-leaks")


class _Looking:
    """Costs two collections a test, and more where something is found. The collector is off from set-up to tear-down."""

    def __init__(self) -> None:
        # Inside: every run of pytest where roamlet-leaks is installed loads this file.
        from roamlet_leaks.running.marks import marks
        from roamlet_leaks.running.watch import find, report

        self._find, self._report, self._marks = find, report, marks
        self._before: Any = frozenset()
        self._passed = True
        self._automatic = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        gc.collect()
        self._before = self._marks()
        self._passed = True
        self._automatic = gc.isenabled()
        gc.disable()
        yield
        for marker in item.iter_markers("roamlet_keeps"):
            if not str(marker.kwargs.get("reason", "")).strip():
                # After the set-up of the other plugins: their tear-down runs in any case, and relies on it.
                pytest.fail(f"{item.nodeid}: roamlet_keeps needs reason='why the exception is kept'", pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        made = yield
        self._passed = self._passed and made.passed
        return made

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        try:
            yield
        finally:
            if self._automatic:
                gc.enable()
        if not self._passed or item.get_closest_marker("roamlet_keeps"):
            return
        findings = self._find(self._before)
        if findings:
            pytest.fail(f"the test left exceptions behind:\n{self._report(findings)}", pytrace=False)
