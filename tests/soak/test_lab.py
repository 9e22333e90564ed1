"""The tests of labs three times in a row: what passes by luck fails here."""

import subprocess
import sys
from pathlib import Path

import pytest

import roamlet_lab

ROOT = Path(__file__).parents[2]
TIMES = 3

# `make test-lab` has 600 seconds for one time, on a machine that does nothing else.
pytestmark = [pytest.mark.soak, pytest.mark.timeout(TIMES * 1500)]


def test_the_tests_of_labs_pass_three_times_in_a_row(told):
    if reason := roamlet_lab.why_not():
        pytest.skip(reason)
    for number in range(1, TIMES + 1):
        done = subprocess.run(
            [sys.executable, "tools/run_lab.py"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        told(f"time {number}: {done.stdout.strip().splitlines()[-1]}")
