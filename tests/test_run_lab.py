"""`make test-lab` counts the tests of a file that failed beside others by their second run, and says that it did."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("passes", "status", "said"),
    [
        (1, 0, "1 passed"),
        (2, 0, "UNSTABLE: failed beside others, and passed alone: "),
        (3, 1, "FAILED: "),
    ],
    ids=["first run", "second run", "no run"],
)
def test_a_test_counts_by_its_second_run(tmp_path, passes, status, said):
    file = tmp_path / "test_numbered.py"
    file.write_text(
        "import pathlib, pytest\n"
        "@pytest.mark.lab\n"
        "def test_which_run_it_is():\n"
        "    runs = pathlib.Path(__file__).with_name('runs')\n"
        "    runs.write_text((runs.read_text() if runs.exists() else '') + '.')\n"
        f"    assert len(runs.read_text()) >= {passes}\n"
    )
    done = subprocess.run(
        [sys.executable, "tools/run_lab.py", str(file)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, said in done.stdout) == (status, True), done.stdout + done.stderr
    assert ("UNSTABLE" in done.stdout) == (passes == 2)
    assert (tmp_path / "runs").read_text() == "." * min(passes, 2)


def test_offices_that_came_up_too_late_fail_all_tests_of_their_file_once(tmp_path):
    file = tmp_path / "test_offices.py"
    file.write_text(
        "import pathlib, pytest\n"
        "@pytest.fixture(scope='module')\n"
        "def offices():\n"
        "    late = pathlib.Path(__file__).with_name('late')\n"
        "    if not late.exists():\n"
        "        late.touch()\n"
        "        raise TimeoutError\n"
        "@pytest.mark.lab\n"
        "@pytest.mark.parametrize('number', range(5))\n"
        "def test_in_an_office(offices, number): pass\n"
        "def test_that_is_not_of_labs(): assert 0\n"
    )
    words = [sys.executable, "tools/run_lab.py", str(file)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("UNSTABLE") == 5
    last = done.stdout.splitlines()[-1]
    assert last.startswith("5 error, ") and ", 5 of the failed passed alone in " in last
