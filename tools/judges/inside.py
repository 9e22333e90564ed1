"""One of CPython's test modules, in a process of its own: a line of JSON for each test that begins and ends. A script.

    python inside.py MODULE TESTS DESCRIPTOR        TESTS: a file of JSON with `skip`, `only` (a list or null) and `ticker`

The lines go to the descriptor of this number. Under `python -m roamlet.patch` a tasklet ticks beside the tests, and each
test's line says for how long at most it was held up.
"""

import importlib
import json
import os
import sys
import tempfile
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# What `python -m test -u` would be told: sockets of this machine; what is slow on purpose stays out.
RESOURCES = ("network", "subprocess")

TICK = 0.02  # seconds


class Ticker:
    """A tasklet beside the tests: how late it was at most, but for the time that the thread computed itself."""

    def __init__(self) -> None:
        import roamlet

        self.longest = 0.0
        self._since = self._computed = 0.0
        self._sleep = roamlet.sleep
        self.tasklet = roamlet.tasklet(self._tick)()

    def _tick(self) -> None:
        while True:
            asked, computed = time.monotonic(), time.thread_time()
            self._sleep(TICK)
            if self._since > asked:  # what the test before did is not this one's
                asked, computed = self._since, self._computed
            late = time.monotonic() - asked - TICK - (time.thread_time() - computed)
            self.longest = max(self.longest, late)

    def begin(self) -> None:
        """Count from now on."""
        self.longest, self._since, self._computed = 0.0, time.monotonic(), time.thread_time()


class Result(unittest.TestResult):
    """Writes down how each test ended; the worst of its parts counts."""

    def __init__(self, out: Any, ticker: Ticker | None) -> None:
        super().__init__()
        self._out = out
        self._ticker = ticker
        self._outcome, self._text, self._process = "", "", os.getpid()

    def _say(self, **line: Any) -> None:
        if os.getpid() == self._process:  # a forked child that went astray has nothing to say
            self._out.write(json.dumps(line) + "\n")
            self._out.flush()

    def startTest(self, test: unittest.TestCase) -> None:
        """Say that it has begun, so that one that hangs is known."""
        super().startTest(test)
        self._outcome, self._text = "", ""
        if self._ticker is not None:
            self._ticker.begin()
        self._say(begins=test.id())

    def stopTest(self, test: unittest.TestCase) -> None:
        """Say how it has ended."""
        super().stopTest(test)
        late = self._ticker.longest if self._ticker is not None else 0.0
        self._say(ends=test.id(), outcome=self._outcome or "passed", text=self._text[-4000:], late=round(late, 3))

    def _note(self, test: Any, outcome: str, text: str) -> None:
        if isinstance(test, unittest.TestCase) or hasattr(test, "test_case"):
            if self._outcome != "failed":
                self._outcome = outcome
            self._text += text
        else:  # setUpClass, setUpModule and their counterparts
            self._say(ends=test.id(), outcome=outcome, text=text[-4000:], late=0.0)

    def addError(self, test: Any, err: Any) -> None:
        """An error is a failure."""
        super().addError(test, err)
        self._note(test, "failed", self.errors[-1][1])

    def addFailure(self, test: Any, err: Any) -> None:
        """A failure."""
        super().addFailure(test, err)
        self._note(test, "failed", self.failures[-1][1])

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        """A part that failed fails its test."""
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._note(test, "failed", "".join(text for _, text in (*self.errors[-1:], *self.failures[-1:])))

    def addSkip(self, test: Any, reason: str) -> None:
        """Skipped, as a whole or in part."""
        super().addSkip(test, reason)
        self._note(test, "skipped", reason)

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        """What is expected is right."""
        super().addExpectedFailure(test, err)

    def addUnexpectedSuccess(self, test: Any) -> None:
        """What is not is wrong."""
        super().addUnexpectedSuccess(test)
        self._note(test, "failed", "unexpected success")


def keep_one_worker() -> None:
    """Have the worker thread that looks up names before the tests begin: they count threads, and wait for those that are new."""
    from roamlet import io

    io.workers.configure(max_threads=1, idle_seconds=86400)
    io.call_async(lambda: None)


def _flat(suite: Any) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _flat(test)
        else:
            yield test


def main(name: str, tests: dict[str, Any], descriptor: int) -> None:
    """Run the module's tests but those to skip, or those to run only."""
    os.set_inheritable(descriptor, False)
    out = os.fdopen(descriptor, "w", encoding="utf-8")
    from test import support  # after sitecustomize

    support.use_resources = list(RESOURCES)
    ticker = Ticker() if tests["ticker"] else None
    if ticker is not None:
        keep_one_worker()
    try:
        module = importlib.import_module(f"test.{name}")
    except unittest.SkipTest as error:
        out.write(json.dumps({"module": "skipped", "text": str(error)}) + "\n")
        return
    except ImportError as error:
        out.write(json.dumps({"module": "absent", "text": repr(error)}) + "\n")
        return
    suite = unittest.TestSuite()
    skip = set(tests["skip"])
    only = None if tests["only"] is None else set(tests["only"])
    for test in _flat(unittest.defaultTestLoader.loadTestsFromModule(module)):
        if test.id() not in skip and (only is None or test.id() in only):
            suite.addTest(test)
    suite.run(Result(out, ticker))
    out.write(json.dumps({"module": "done", "text": ""}) + "\n")
    out.flush()
    os._exit(0)  # threads that a test has left are no matter of the judges


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sys.path[0] = ""
        main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text("utf-8")), int(sys.argv[3]))
