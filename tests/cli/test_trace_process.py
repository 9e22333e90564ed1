"""`roamlet trace PID` and `HOST:PID`: a process that runs is asked, and what it has recorded is written."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from roamlet.cli import main
from roamlet.diagnose.attaching import newest
from tests.diagnose.attaching.conftest import folder, started  # noqa: F401 - fixtures

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are asked by way of /proc")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_options_may_follow_the_process(started, tmp_path, capsys):  # noqa: F811
    pid = started("works").pid
    assert main(["trace", str(pid), "--seconds", "0.1", "-o", "a.html", "-o", "a.json.gz"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"tracing process {pid} for 0.1 s; Ctrl-C ends it early\nprocess {pid}: 0.1")
    assert " x receive at exchange.<locals>.receives (" in said.err
    assert said.err.endswith(
        f"\n  what did nothing but wait meanwhile is not in it: see `roamlet ps {pid}`\n"
        "written: a.html\nwritten: a.json.gz\n"
    )
    assert {path.name for path in tmp_path.iterdir()} == {"a.html", "a.json.gz"}


def test_options_may_precede_it_and_nothing_is_said_when_quiet(started, tmp_path, capsys):  # noqa: F811
    pid = started("works").pid
    assert main(["trace", "-q", "--seconds", "0.1", str(pid)]) == 0
    assert capsys.readouterr() == ("", "")
    written = json.loads((tmp_path / "trace.json").read_text())
    assert written["otherData"]["messages"] > 1


def test_what_is_not_prepared_is_told_how_and_lives_on(started, tmp_path, capsys, monkeypatch):  # noqa: F811
    monkeypatch.setattr(newest, "remote_exec", None)
    running = started("works", "unprepared")
    assert main(["trace", str(running.pid)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(
        f"roamlet trace: process {running.pid} is not prepared for it: start it with ROAMLET_DUMP=1 in its "
    )
    assert running.poll() is None
    assert list(tmp_path.iterdir()) == []
    assert main(["trace", str(os.getpid())]) == 64
    assert "is this command itself" in capsys.readouterr().err


def asks(pid):
    words = ["-c", "import sys; from roamlet.cli import main; sys.exit(main())", "trace", str(pid), "--seconds", "3000"]
    asker = subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, text=True)
    assert asker.stderr.readline().startswith("tracing process")
    return asker


def test_ctrl_c_ends_it_early_and_the_trace_is_written(started, tmp_path):  # noqa: F811
    running = started("works")
    with asks(running.pid) as asker:
        asker.send_signal(signal.SIGINT)
        said = asker.stderr.read()
    assert (asker.returncode, said.splitlines()[-1]) == (0, "written: trace.json")
    assert running.poll() is None


def test_forks_are_named(started, capsys):  # noqa: F811
    running = started("forks")
    with asks(running.pid) as asker:
        running.is_told("x")
        for _ in range(4):
            running.says()
        asker.send_signal(signal.SIGINT)
        said = asker.stderr.read()
    assert "it has forked twice meanwhile: its children are not in the trace\n" in said


def test_on_a_host(started, tmp_path, capsys):  # noqa: F811
    running = started("works")
    hosts = tmp_path / "hosts.ini"
    hosts.write_text(f"here ansible_connection=local ansible_python_interpreter={sys.executable}\n")
    assert main(["trace", "-i", str(hosts), f"here:{running.pid}", "--seconds", "0.1"]) == 0
    said = capsys.readouterr().err
    assert re.match(rf"process here:{running.pid}: 0\.\d+ s, ", said)
    assert json.loads((tmp_path / "trace.json").read_text())["otherData"]["messages"] > 1
    with subprocess.Popen(["sleep", "100"]) as other:
        assert main(["trace", "-i", str(hosts), f"here:{other.pid}"]) == 1
        other.kill()
    assert f"process {other.pid} is not prepared for it" in capsys.readouterr().err
    hosts.write_text("here ansible_connection=local ansible_python_interpreter=/no/python\n")
    assert main(["trace", "-i", str(hosts), f"here:{running.pid}"]) == 3
