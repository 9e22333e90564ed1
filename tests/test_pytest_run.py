"""`make test`, `make test-all` and `make test-lab` count the few tests that failed beside others by their second run, and say
that they did. What has not passed for certain counts as failed.
"""

import os
import signal
import subprocess
import sys
import textwrap
import time
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


@pytest.fixture
def ran(tmp_path, monkeypatch, capsys):
    """Run these tests as `make test` does, the second time too: the run and what was printed."""

    def go(tests, *words):
        (tmp_path / "test_numbered.py").write_text(textwrap.dedent(tests))
        monkeypatch.setattr(pytest_run, "ROOT", tmp_path)
        monkeypatch.setattr(pytest_run, "PYTEST", [sys.executable, "-X", "faulthandler", "-m", "pytest", "-q", "-rfEs"])
        run = pytest_run.Run("some", [*words, "test_numbered.py"], {}, tmp_path / "cache")
        run.go()
        run.go_again()
        run.print_verdicts()
        print(run.summary())
        return run, capsys.readouterr().out

    return go


@pytest.mark.parametrize(
    ("tests", "passes", "ran_times", "status", "said"),
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
def test_what_failed_counts_by_its_second_run(tmp_path, ran, tests, passes, ran_times, status, said):
    run, printed = ran(NUMBERED.format(tests=tests, passes=passes))
    assert run.status == status
    assert said in printed
    assert ("UNSTABLE" in printed) == (passes == 2 and status == 0)
    counts = {Path(path).name: len(path.read_text()) for path in tmp_path.glob("runs of *")}
    assert counts == {"runs of another": 1, **{f"runs of {number}": ran_times for number in range(tests)}}


FIRST = """
import os, pathlib, pytest, signal
first = not os.path.exists("was here")
pathlib.Path("was here").touch()
def test_that_passes():
    pass
"""


@pytest.mark.parametrize(
    ("tests", "status", "said"),
    [
        (
            "def test_that_crashes(): os.kill(os.getpid(), signal.SIGSEGV)",
            -signal.SIGSEGV,
            "the run ended with status -11",
        ),
        (
            "def test_that_crashes_once(): assert not first or os.abort()",
            -signal.SIGABRT,
            "the run ended with status -6",
        ),
        ("def test_that_ends_the_run(): os._exit(0)", 3, "the run ended with status 3"),
        ("def test_that_its_limit_ends(): os._exit(1)", 1, "the run ended with status 1"),
        ("assert not first", 2, "test_numbered.py (some)"),
        (
            """
            @pytest.fixture
            def broken():
                raise OSError
            def test_with_a_fixture(broken): pass
            """,
            1,
            "test_numbered.py::test_with_a_fixture (some)",
        ),
        (
            """
            @pytest.fixture
            def broken():
                yield
                raise OSError
            def test_with_a_fixture(broken): pass
            """,
            1,
            "test_numbered.py::test_with_a_fixture (some)",
        ),
        (
            """
            def test_that_is_skipped_then():
                if not first:
                    pytest.skip("it cannot run any more")
                assert 0
            """,
            1,
            "the run ended with status 1 (some)",
        ),
        (
            """
            @pytest.mark.parametrize("name", ["first" if first else "second"])
            def test_whose_name_changes(name): assert not first
            """,
            1,
            "test_numbered.py::test_whose_name_changes[first] (some)",
        ),
        (
            """
            def test_that_crashes_in_its_second_run():
                if not first:
                    os._exit(0)
                assert 0
            """,
            3,
            "test_numbered.py::test_that_crashes_in_its_second_run (some)",
        ),
    ],
    ids=[
        "crash",
        "crash once",
        "status 0",
        "status 1",
        "not imported",
        "set-up",
        "teardown",
        "skipped then",
        "another name",
        "second run",
    ],
)
def test_what_has_not_passed_for_certain_counts_as_failed(ran, tests, status, said):
    run, printed = ran(FIRST + textwrap.dedent(tests))
    assert (run.status, run.failed, run.unstable) == (status, True, []), printed
    assert f"FAILED: {said}" in printed
    assert pytest_run.status_of([run]) == status


def test_a_run_that_stops_at_its_first_failure_is_not_tried_again(ran):
    """The others have not run, in neither run."""
    run, printed = ran(FIRST + "def test_1(): assert not first\ndef test_2(): assert 0\n", "-x")
    assert (run.status, run.unstable) == (1, []), printed


def test_a_collection_error_is_not_tried_again(ran):
    run, printed = ran(FIRST + "assert not first\n", "--continue-on-collection-errors")
    assert (run.failed, run.unstable) == (True, []), printed


def test_what_holds_the_output_open_does_not_hold_up_the_run(ran, tmp_path):
    started = time.monotonic()
    tests = """
    import subprocess, sys
    def test_that_leaves_a_process(capfd):
        with capfd.disabled():
            other = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
        open("pid", "w").write(str(other.pid))
    """
    run, printed = ran(tests)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert run.status == 0, printed
    assert time.monotonic() - started < 60


def test_a_run_that_does_not_end_behind_its_last_test_is_ended_and_says_where_it_is(ran, monkeypatch):
    monkeypatch.setattr(pytest_run, "SILENT_SECONDS", 2.0)
    tests = """
    import threading
    def stays():
        threading.Event().wait()
    def test_that_leaves_a_thread():
        threading.Thread(target=stays).start()
    """
    run, printed = ran(tests)
    assert (run.status, run.failed) == (-signal.SIGABRT, True), printed
    assert run.last_line.startswith("1 passed in ")
    assert "ended, as nothing was printed for 2 s" in run.output
    assert ", line 4 in stays" in run.output
    assert "FAILED: the run ended with status -6 (some)" in printed


def test_what_is_printed_at_the_very_end_hides_no_counts(ran):
    run, _ = ran("import atexit, os\ndef test_it(): atexit.register(os.write, 2, b'Exception ignored in: ...\\n')\n")
    assert run.output.endswith("ignored in: ...\n")
    assert run.last_line.startswith("1 passed in ")


def test_a_run_that_is_ended_leaves_nothing_that_runs(tmp_path):
    (tmp_path / "test_slow.py").write_text(
        "import os, pathlib, signal\ndef test_it():\n"
        f"    pathlib.Path({str(tmp_path / 'pid')!r}).write_text(f'{{os.getpid()}} ')\n    signal.pause()\n"
    )
    words = [sys.executable, "tools/pytest_run.py", "slow", str(tmp_path)]
    with subprocess.Popen(words, cwd=Path(__file__).parents[1], stdout=subprocess.DEVNULL) as process:
        while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith(" ")):
            assert process.poll() is None
            time.sleep(0.01)
        process.terminate()
        assert process.wait(60) == -signal.SIGTERM
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()
