"""`make test` and `make test-all` count the few tests that failed beside others by their second run, and say that they did."""

import sys
from pathlib import Path

import pytest

from tools import pytest_run

NUMBERED = """
import pathlib, pytest
@pytest.mark.parametrize("number", range({tests}))
def test_which_run_it_is(number):
    runs = pathlib.Path(__file__).with_name("runs of %d" % number)
    runs.write_text((runs.read_text() if runs.exists() else "") + ".")
    assert len(runs.read_text()) >= {passes}
def test_that_passes():
    runs = pathlib.Path(__file__).with_name("runs of another")
    runs.write_text((runs.read_text() if runs.exists() else "") + ".")
"""


@pytest.mark.parametrize(
    ("tests", "passes", "ran", "status", "said"),
    [
        (1, 1, 1, 0, "some: 2 passed in "),
        (
            1,
            2,
            2,
            0,
            "UNSTABLE: failed beside others, and passed alone: test_numbered.py::test_which_run_it_is[0] (some)",
        ),
        (1, 3, 2, 1, "FAILED: test_numbered.py::test_which_run_it_is[0] (some)"),
        (pytest_run.AGAIN_AT_MOST + 1, 2, 1, 1, "FAILED: test_numbered.py::test_which_run_it_is[3] (some)"),
    ],
    ids=["first run", "second run", "no run", "too many"],
)
def test_what_failed_counts_by_its_second_run(tmp_path, monkeypatch, capsys, tests, passes, ran, status, said):
    (tmp_path / "test_numbered.py").write_text(NUMBERED.format(tests=tests, passes=passes))
    monkeypatch.setattr(pytest_run, "ROOT", tmp_path)
    monkeypatch.setattr(pytest_run, "PYTEST", [sys.executable, "-m", "pytest", "-q", "-rfEs"])
    run = pytest_run.Run("some", ["test_numbered.py"], {}, tmp_path / "cache")
    run.go()
    run.go_again()
    run.print_verdicts()
    print(run.summary())
    assert run.status == status
    printed = capsys.readouterr().out
    assert said in printed
    assert ("UNSTABLE" in printed) == (passes == 2 and status == 0)
    counts = {Path(path).name: len(path.read_text()) for path in tmp_path.glob("runs of *")}
    assert counts == {"runs of another": 1, **{f"runs of {number}": ran for number in range(tests)}}
