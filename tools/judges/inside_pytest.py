"""One suite under pytest, in a process of its own: a line of JSON for each test that begins and ends, as inside.py's. A script.

python inside_pytest.py PYTEST'S ARGUMENT... TESTS DESCRIPTOR
"""

import gc
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

PLACE = os.path.dirname(os.path.abspath(__file__))


class Noting:
    """Writes down how each test ended; the worst of its phases counts."""

    def __init__(self, out: Any, tests: dict[str, Any], ticker: Any) -> None:
        self._out, self._ticker, self._process = out, ticker, os.getpid()
        self._skip = set(tests["skip"])
        self._only = None if tests["only"] is None else set(tests["only"])
        self._outcome, self._text = "", ""

    def say(self, **line: Any) -> None:
        """Write a line, unless this is a child that went astray."""
        if os.getpid() == self._process:
            self._out.write(json.dumps(line) + "\n")
            self._out.flush()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave what is not to be run."""
        items[:] = [
            item
            for item in items
            if item.nodeid not in self._skip and (self._only is None or item.nodeid in self._only)
        ]

    def pytest_collection_finish(self) -> None:
        """What was imported and collected stays: a suite that calls gc.collect() for each test would go through all of it."""
        gc.collect()
        gc.freeze()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported is a test that fails."""
        if report.failed:
            self.say(ends=report.nodeid, outcome="failed", text=str(report.longrepr)[-4000:], late=0.0)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Say that it has begun, so that one that hangs is known."""
        self._outcome, self._text = "", ""
        if self._ticker is not None:
            self._ticker.begin()
        self.say(begins=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note one phase: what fails in any has failed; what is expected to fail and does has passed."""
        if report.failed:
            self._outcome = "failed"
            self._text += report.longreprtext
        elif report.skipped and not hasattr(report, "wasxfail") and self._outcome != "failed":
            self._outcome = "skipped"

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Say how it has ended."""
        late = self._ticker.longest if self._ticker is not None else 0.0
        self.say(ends=nodeid, outcome=self._outcome or "passed", text=self._text[-4000:], late=round(late, 3))


def main(arguments: list[str], tests: dict[str, Any], descriptor: int) -> None:
    """Run what pytest finds, but what is to be left out."""
    os.set_inheritable(descriptor, False)
    out = os.fdopen(descriptor, "w", encoding="utf-8")
    ticker = None
    if tests["ticker"]:
        from inside import Ticker

        ticker = Ticker()
    noting = Noting(out, tests, ticker)
    # There is a cache, as psycopg's conftest.py looks into it, of this run's own.
    cache = f"cache_dir={tempfile.gettempdir()}/cache"
    status = pytest.main([*arguments, "-q", "-o", cache, "--continue-on-collection-errors"], plugins=[noting])
    done = status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
    # Files that could not be imported interrupt nothing here, and count as tests that fail.
    done = done or status == pytest.ExitCode.INTERRUPTED
    noting.say(module="done" if done else "unfinished", text="" if done else f"pytest has ended with {status!r}")
    os._exit(0)  # threads that a test has left are no matter of the judges


if __name__ == "__main__":
    if PLACE not in sys.path:
        sys.path.insert(0, PLACE)
    *words, chosen, number = sys.argv[1:]
    main(words, json.loads(Path(chosen).read_text("utf-8")), int(number))
