"""CPython's own tests of futures on roamlet.sync.futures. Collected where the interpreter came with them, see tests/conftest.py."""

import subprocess
import sys
from pathlib import Path


def test_cpythons_own_tests_pass():
    script = Path(__file__).with_name("_cpython_futures.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "Ran 4" in done.stdout
