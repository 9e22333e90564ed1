"""Which tests run where: those that repeat what others show run where ROAMLET_TESTS=all, and a marker gives its reason."""

import os
import subprocess
import sys

import pytest

from tests.conftest import USUAL
from tests.docs.blocks import ROOT

# Where it is the usual one, there is no other.
OTHER = "greenlet"
NATIVE = pytest.mark.skipif(USUAL == OTHER, reason="this Python has no other backend than the usual one")

MARKED = """
import pytest

def test_plain(): pass

@pytest.mark.once(reason="the same")
def test_once(): pass

@pytest.mark.exhaustive(reason="the same")
def test_exhaustive(): pass
"""


@pytest.fixture
def collected(tmp_path):
    """collected(TESTS, VARIABLES): the status of pytest, which only collects unless it is to run them, and what it prints."""

    def collect(tests, *, run=False, **variables):
        (tmp_path / "test_inner.py").write_text(tests)
        words = ["-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-rs" if run else "--collect-only", *words, "test_inner.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "ROAMLET_SWITCH": "", "ROAMLET_TESTS": "", **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return collect


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ({}, ["plain", "once"]),
        pytest.param({"ROAMLET_SWITCH": OTHER}, ["plain"], marks=NATIVE),
        ({"ROAMLET_SWITCH": OTHER, "ROAMLET_TESTS": "all"}, ["plain", "once", "exhaustive"]),
    ],
    ids=["usual", "another-backend", "all"],
)
def test_what_repeats_runs_where_all_do(collected, variables, names):
    status, printed = collected(MARKED, **variables)
    found = [line.partition("::test_")[2] for line in printed.splitlines() if "::test_" in line]
    assert (status, found) == (0, names), printed


@pytest.mark.parametrize("name", ["once", "exhaustive"])
def test_a_marker_without_a_reason_is_refused(collected, name):
    status, printed = collected(f"import pytest\n@pytest.mark.{name}\ndef test_it(): pass\n")
    assert status == 4 and f"{name}() takes reason= alone" in printed


@NATIVE
def test_a_file_of_tests_that_are_all_about_another_backend_says_so(collected):
    reason = "greenlet has no such thing"
    tests = f"import pytest\npytestmark = pytest.mark.backends('native', reason={reason!r})\ndef test_it(): pass\n"
    assert collected(tests, ROAMLET_SWITCH=OTHER)[0] == 0
    status, printed = collected(tests, run=True, ROAMLET_SWITCH=OTHER)
    assert status == 0 and f"about native alone: {reason}" in printed, printed
