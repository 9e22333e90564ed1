"""CPython's own tests, run unchanged by `python -m roamlet.threads`; _standard.py lists those that are left out."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import standard_tests

ROOT = Path(__file__).resolve().parents[2]


def passed(*names: str, timeout: float) -> int:
    """Run the tests of these names, none of which may fail; return how many there are."""
    script = "tests.threads._standard"
    done = subprocess.run(
        [sys.executable, "-m", "roamlet.threads", "-m", script, *names],
        cwd=ROOT,
        env=standard_tests.environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    ran = re.search(r"^Ran (\d+) tests? in", done.stdout, re.MULTILINE)
    assert ran is not None
    return int(ran[1])


LOCKS = ("Lock", "ConditionAsRLock", "Condition", "Event", "Semaphore", "BoundedSemaphore", "Barrier")


def test_the_lock_tests_pass() -> None:
    locks = [f"test.test_threading.{name}Tests" for name in LOCKS]
    assert passed(*locks, "test.test_threadsignals", timeout=110) > 50


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "module",
    [
        "test.test_threading",
        "test.test_thread",
        "test.test_queue",
        "test.test_threading_local",
        "test.test_logging",
        "test.test_socketserver",
        "test.test_concurrent_futures",
        "test.test_importlib.test_threaded_import",
        "test.test_sched",
    ],
)
def test_modules_that_stand_on_threads_pass(module: str) -> None:
    assert passed(module, timeout=590) > 0
