"""CPython's own tests of futures on roamlet.sync.futures."""

import re
import subprocess
import sys
from pathlib import Path

from tests import standard_tests


def test_cpythons_own_tests_pass():
    script = Path(__file__).with_name("_cpython_futures.py")
    done = subprocess.run(
        [sys.executable, str(script)],
        env=standard_tests.environment("test_concurrent_futures"),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert re.search(r"Ran [45]\d tests", done.stdout)
