"""tools/judges: modules whose tests pass, fail, hang and die, and the list of exceptions."""

import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

from tools import servers
from tools.judges import __main__ as judges
from tools.judges import judging, report, suites
from tools.judges.__main__ import MODULES, version_of

PACKAGE = """\
import os, signal, subprocess, threading, unittest
PATCHED = type(threading.Lock()).__module__ == "roamlet.sync"

class Tests(unittest.TestCase):
    def test_a_passes(self):
        self.assertTrue(True)

    def test_b_skipped(self):
        self.skipTest("of no use")

    def test_c_fails_patched(self):
        self.assertFalse(PATCHED, "as it should")

    def test_d_fails_in_a_part(self):
        with self.subTest():
            self.assertFalse(PATCHED, "in a part")

    def test_e_dies_patched(self):
        if PATCHED:
            os.kill(os.getpid(), signal.SIGKILL)

    def test_f_hangs_patched(self):
        if PATCHED:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            threading.Event().wait()

    def test_g_passes(self):
        pass

    @unittest.expectedFailure
    def test_h_fails_as_expected(self):
        self.fail()
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package `test` of our own, which the judged processes find before CPython's."""
    folder = tmp_path / "test"
    (folder / "support").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "support" / "__init__.py").write_text("")
    (folder / "test_ours.py").write_text(textwrap.dedent(PACKAGE))
    (folder / "test_unfit.py").write_text("import unittest\nraise unittest.SkipTest('not on this machine')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def test_each_outcome_is_found_and_the_tests_after_a_hang_run(package, monkeypatch):
    monkeypatch.setattr(judging, "TEST_LIMIT", 5.0)
    excepted = {f"test.test_ours.Tests.{name}": "a reason" for name in ("test_c_fails_patched", "test_g_passes")}
    verdict = judging.judge(
        partial(judging.run_module, [sys.executable], "test_ours"), "3.x", "test_ours", excepted, retries=0
    )
    assert {name.rpartition(".")[2]: each.outcome for name, each in verdict.patched.outcomes.items()} == {
        "test_a_passes": "passed",
        "test_b_skipped": "skipped",
        "test_c_fails_patched": "failed",
        "test_d_fails_in_a_part": "failed",
        "test_e_dies_patched": "dies",
        "test_f_hangs_patched": "hangs",
        "test_g_passes": "passed",
        "test_h_fails_as_expected": "passed",
    }
    assert len(verdict.stock.passed()) == 7
    assert [name.rpartition(".")[2] for name in verdict.unexpected()] == [
        "test_d_fails_in_a_part",
        "test_e_dies_patched",
        "test_f_hangs_patched",
    ]
    assert list(verdict.excepted) == ["test.test_ours.Tests.test_c_fails_patched"]
    assert verdict.needless == ["test.test_ours.Tests.test_g_passes"]
    assert " test_ours                     7        3   42.9         1           3" in report.table([verdict])
    assert "in a part" in report.details([verdict]) and "its exception is needless" in report.details([verdict])
    assert '"outcome": "dies"' in report.as_json([verdict])


def test_modules_that_cannot_be_imported_are_said_to_be_absent_or_skipped(package):
    skipped = judging.judge(partial(judging.run_module, [sys.executable], "test_unfit"), "3.x", "test_unfit", {})
    absent = judging.judge(partial(judging.run_module, [sys.executable], "test_none"), "3.x", "test_none", {})
    assert (skipped.stock.state, absent.stock.state) == ("skipped", "absent")
    assert "skipped: not on this machine" in report.table([skipped, absent])


def test_the_list_of_exceptions_is_read_for_a_version(tmp_path):
    path = tmp_path / "list.toml"
    path.write_text('[[exception]]\ntests = ["one"]\nreason = "why"\npythons = ["3.12"]\n')
    assert (report.exceptions("3.11", path), report.exceptions("3.12", path)) == ({}, {"one": "why"})
    path.write_text('[[exception]]\ntests = ["one"]\n')
    with pytest.raises(ValueError, match="an exception has tests, a reason"):
        report.exceptions("3.12", path)


def test_the_committed_list_names_tests_of_the_judged_modules():
    for version in ("3.11", "3.12", "3.13"):
        modules = {name.split(".")[1] for name in report.exceptions(version) if "::" not in name}
        assert modules and modules <= set(MODULES)


def test_the_reference_has_every_exception_with_its_reason():
    page = (judges.ROOT / "docs" / "reference" / "patch.md").read_text("utf-8")
    rows = [row for row in page.splitlines() if row.startswith("| `")]
    entries = tomllib.loads(report.EXCEPTIONS.read_text("utf-8"))["exception"]
    for each in entries:
        names = [name.rpartition("/")[2].removeprefix("test.") for name in each["tests"]]
        assert [row for row in rows if each["reason"] in row and all(f"{name}`" in row for name in names)], each
    assert sum(len(each["tests"]) for each in entries) <= 40


def test_an_interpreter_that_is_none_has_no_version():
    assert version_of("false") is None


SUITE = """\
import signal, os, threading, pytest
PATCHED = type(threading.Lock()).__module__ == "roamlet.sync"

def test_a_passes():
    pass

@pytest.mark.parametrize("number", [1, 2])
def test_b_fails_patched(number):
    assert not PATCHED or number == 1

def test_c_skipped():
    pytest.skip("of no use")

def test_d_dies_patched():
    if PATCHED:
        os.kill(os.getpid(), signal.SIGKILL)

@pytest.fixture
def broken():
    yield
    assert not PATCHED, "at its end"

def test_e_fails_at_its_end_patched(broken):
    pass

@pytest.mark.xfail(strict=True)
def test_f_fails_as_expected():
    raise ValueError
"""


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """A suite of our own in the environment that runs this."""
    monkeypatch.setattr(suites, "FOLDER", tmp_path)
    made = suites.Suite("ours", "ours==1", (), ("test_ours.py", "test_broken.py", "-p", "no:roamlet_leaks"))
    monkeypatch.setattr(suites.Suite, "python", sys.executable)
    made.sources.mkdir(parents=True)
    (made.sources / "test_ours.py").write_text(SUITE)
    (made.sources / "test_broken.py").write_text("import nothing_of_this_name\n")
    return made


def test_a_suite_under_pytest_is_judged_as_a_module_is(suite):
    verdict = judging.judge(partial(suites.run_suite, suite), "3.x", "ours", {}, retries=1)
    assert {name: each.outcome for name, each in verdict.patched.outcomes.items()} == {
        "test_broken.py": "failed",
        "test_ours.py::test_a_passes": "passed",
        "test_ours.py::test_b_fails_patched[1]": "passed",
        "test_ours.py::test_b_fails_patched[2]": "failed",
        "test_ours.py::test_c_skipped": "skipped",
        "test_ours.py::test_d_dies_patched": "dies",
        "test_ours.py::test_e_fails_at_its_end_patched": "failed",
        "test_ours.py::test_f_fails_as_expected": "passed",
    }
    assert "at its end" in verdict.patched.outcomes["test_ours.py::test_e_fails_at_its_end_patched"].text
    assert [name.rpartition("::")[2] for name in verdict.unexpected()] == [
        "test_b_fails_patched[2]",
        "test_d_dies_patched",
        "test_e_fails_at_its_end_patched",
    ]
    assert (verdict.stock.state, verdict.patched.state) == ("done", "done")


def test_a_suite_whose_arguments_pytest_refuses_is_unfinished(suite):
    run = suites.run_suite(replace(suite, arguments=("--no-such-option",)), patch=None)
    assert (run.state, run.outcomes) == ("unfinished", {})


def test_a_server_that_ends_at_once_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(servers, "program", lambda name, unpacked: (["/bin/false"], {}))
    with (
        pytest.raises(RuntimeError, match="redis-server ended with status 1"),
        servers.running("redis-server", tmp_path),
    ):
        pass


def test_tests_come_from_the_repository_at_its_tag_where_the_entry_names_one(monkeypatch, suite, tmp_path):
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "tests")
    repository = tmp_path / "with@sign"
    repository.mkdir()
    for text, words in (("1", ["tag", "v1"]), ("2", ["tag", "v2"])):
        (repository / "test_ours.py").write_text(text)
        for each in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", text], words):
            subprocess.run(["git", *each], cwd=repository, check=True)
    shutil.rmtree(suite.sources)
    suites._unpack(replace(suite, repository=f"file://{repository}@v1"))
    assert (suite.sources / "test_ours.py").read_text() == "1"


def test_a_suite_has_the_variables_that_its_entry_names(suite):
    (suite.sources / "test_ours.py").write_text("import os\ndef test_it(): assert os.environ['ADDRESS'] == 'a b'\n")
    run = suites.run_suite(replace(suite, environment=("ADDRESS=a b",)), patch=None)
    assert run.outcomes["test_ours.py::test_it"].outcome == "passed"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[a]\nsource = "a==1"\nneeds = []\n', r"\[a\] has source, needs, arguments"),
        ('[a]\nsource = "a==1"\nneeds = []\narguments = []\nother = 1\n', r"\[a\] has source, needs, arguments"),
        (
            '[a]\nsource = "a==1"\nneeds = []\narguments = []\nserver = "b"\n',
            r"server is one of redis-server, postgresql, mariadb, exim, not 'b'",
        ),
    ],
)
def test_an_entry_of_the_list_of_suites_that_cannot_be_right_is_refused(tmp_path, text, said):
    path = tmp_path / "list.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        suites.suites(path)


def test_a_suite_that_was_not_fetched_is_named_with_the_next_step(monkeypatch, capsys, tmp_path):
    unfetched = SimpleNamespace(name="redis", sources=tmp_path / "none")
    monkeypatch.setattr(judges, "chosen", lambda names: [unfetched])
    monkeypatch.setattr(judges, "enter_namespace", lambda words: pytest.fail("nothing is to be run"))
    monkeypatch.setattr(sys, "argv", ["judges", "--python", sys.executable, "--as-is", "redis"])
    with pytest.raises(SystemExit) as caught:
        judges.main()
    assert caught.value.code == 2
    assert capsys.readouterr().err.endswith("redis: not fetched yet. Leave --as-is out once, with a network\n")


def test_a_suite_that_cannot_be_fetched_is_left_out_and_fails_the_run(monkeypatch, capsys, suite):
    """The others are judged: a host of one repository that does not answer costs its suite alone."""
    gone = replace(suite, name="gone", repository="file:///nowhere@v1")
    (suite.sources / "test_broken.py").unlink()
    (suite.sources / "test_ours.py").write_text("def test_it(): pass")
    suite = replace(suite, arguments=suite.arguments[:1] + suite.arguments[2:])
    words = []

    def fetch(each, python):
        if each is gone:
            raise subprocess.CalledProcessError(128, ["git", "clone"])

    monkeypatch.setattr(judges, "chosen", lambda names: [gone, suite])
    monkeypatch.setattr(judges, "suites", lambda: {"gone": gone, suite.name: suite})
    monkeypatch.setattr(judges, "prepare", fetch)
    monkeypatch.setattr(judges, "version_of", lambda python: "3.11")  # with or without the tests of CPython
    monkeypatch.setattr(judges, "enter_namespace", words.extend)
    monkeypatch.setattr(sys, "argv", ["judges", "--python", sys.executable, "gone", suite.name])
    assert judges.main() == 1
    said = capsys.readouterr()
    assert "gone is left out" in said.err and "url.MIRROR.insteadOf" in said.err
    assert "gone was not judged" in said.out and re.search(rf"{suite.name} +\d", said.out)
    assert "--without=gone" in words  # what judges inside the namespace fails as well


def test_git_clones_from_the_mirror_that_its_settings_name(monkeypatch, suite, tmp_path):
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "tests")
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "test_ours.py").write_text("1")
    for each in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "1"], ["tag", "v1"]):
        subprocess.run(["git", *each], cwd=mirror, check=True)
    shutil.rmtree(suite.sources)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.{mirror}.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://example.invalid/ours")
    suites._unpack(replace(suite, repository="https://example.invalid/ours@v1"))
    assert (suite.sources / "test_ours.py").read_text() == "1"
