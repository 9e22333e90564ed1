"""`roamlet demo`: what it tells, and what it says where it cannot run."""

import io
import re
import subprocess
import sys

import pytest

from roamlet import RoamletError
from roamlet.cli import _parser, main
from roamlet.cli.commands import demo
from roamlet.cli.programs.interpreters import Interpreter
from roamlet.remote import NoTasklets
from tests.cli.fakes import FakeContext
from tests.snapshot.conftest import KNOWN

BARE = Interpreter("/usr/bin/python3.12", (99, 1, 0), frozenset())


@pytest.fixture
def one_bare_interpreter(monkeypatch):
    monkeypatch.setattr(demo, "interpreters", lambda packages: [BARE])


@pytest.fixture(scope="module", autouse=True)
def _django_is_imported_already():
    """So that what its first import leaves in this process is no leftover of a test."""
    pytest.importorskip("django.db.models")


def at_home():
    return "It stayed at home."


def test_where_tasklets_cannot_move_it_says_so(one_bare_interpreter):
    def stays():
        raise NoTasklets("calls cannot be tasklets: why\n    A hint")

    out = io.StringIO()
    assert demo.demo(_parser().parse_args(["demo"]), lambda found: FakeContext(found.path), out, stays) == 0
    assert "Tasklets that move are not shown: calls cannot be tasklets: why\n" in out.getvalue()


def test_it_tells_the_story_with_a_table_and_four_sentences(one_bare_interpreter):
    log = []
    out = io.StringIO()
    code = demo.demo(_parser().parse_args(["demo"]), lambda found: FakeContext(found.path, log=log), out, at_home)
    told = out.getvalue()
    assert code == 0
    assert told.startswith("Three contexts without Django: python99.1 (/usr/bin/python3.12).")
    assert re.search(r"A \(python99\.1\).*41.*1.*123\.5.*0\.8", told)
    assert len(re.findall(r"(?m)\.$|platform:platform$", told.split("┘")[-1])) == 4
    assert [entry[0] for entry in log].count("open") == [entry[0] for entry in log].count("close") == 3


def test_every_context_takes_part_in_the_pipeline(one_bare_interpreter):
    log = []
    demo.demo(_parser().parse_args(["demo"]), lambda found: FakeContext(found.path, log=log), io.StringIO(), at_home)
    asked = [entry[2][0] for entry in log if entry[0] == "call" and entry[2]]
    assert "CharField" in asked
    assert len(asked) == len(set(asked))


def test_a_context_that_fails_ends_it_with_1_and_the_reason(one_bare_interpreter):
    out = io.StringIO()
    error = RoamletError("the interpreter died")
    assert demo.demo(_parser().parse_args(["demo"]), lambda found: FakeContext(found.path, error), out) == 1
    assert "roamlet demo failed: the interpreter died" in out.getvalue()


def test_without_a_bare_interpreter_it_is_refused_and_says_what_would_help(monkeypatch, capsys):
    full = Interpreter(BARE.path, BARE.version, frozenset({"django"}))
    monkeypatch.setattr(demo, "interpreters", lambda packages: [full])
    assert main(["demo"]) == 64
    assert "no interpreter without Django was found" in capsys.readouterr().err


def test_without_django_here_it_says_which_extra_brings_it(one_bare_interpreter, monkeypatch, capsys):
    def none(name):
        raise demo.PackageNotFoundError(name)

    monkeypatch.setattr(demo, "metadata", none)
    assert main(["demo"]) == 64
    assert "pip install 'roamlet[demo]'" in capsys.readouterr().err


def test_interpreters_too_old_for_django_are_left_out(monkeypatch):
    old = Interpreter("/old", (3, 6, 0), frozenset())
    monkeypatch.setattr(demo, "interpreters", lambda packages: [old, BARE])
    assert demo._bare_interpreters() == [BARE]


def test_the_real_thing_runs_and_shows_no_progress_where_the_output_is_no_terminal():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "roamlet", "demo"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "Three interpreters that have no Django imported it" in done.stdout
    told = " ".join(done.stdout.split())
    moved = r"7, 11, 13 are from process (\d+), 17, 19, 23 from process (\d+) one hop further, and 2, 3, 5, 29, 31, 37 from here"
    assert re.search(moved, told) or (not KNOWN and "Tasklets that move are not shown: " in told)
