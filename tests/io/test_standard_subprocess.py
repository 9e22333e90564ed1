"""CPython's own tests of subprocess pass on roamlet.io.subprocess."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import standard_tests

pytestmark = pytest.mark.once(reason="CPython's own tests of what stands above the switching")


def test_cpythons_own_tests_pass():
    script = Path(__file__).with_name("_cpython_subprocess.py")
    done = subprocess.run(
        [sys.executable, str(script)],
        env=standard_tests.environment(),
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    count = re.search(r"Ran (\d+) tests", done.stdout)
    assert count is not None and int(count[1]) > 100
