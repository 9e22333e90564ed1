"""`roamlet top` on a pseudo-terminal: what it draws, what keys and signals do, and how the terminal is left."""

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time

import pytest

import roamlet
from roamlet.cli import main
from roamlet.cli.top.board import Board
from roamlet.cli.top.looking import attend, keep_looking
from roamlet.cli.top.terminal import CAUGHT, Terminal, can_be_drawn_on
from roamlet.diagnose.model import Process, Scheduler, Tasklet, Thread
from roamlet.remote import ConnectError
from tests.cli import terminal as person
from tests.diagnose.outside.conftest import started  # noqa: F401 - a fixture

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are read by way of /proc")

ON, OFF, SHOWN = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"
TOP = [sys.executable, "-W", "error", "-m", "roamlet", "top"]


@pytest.fixture
def at_terminal(tmp_path):
    opened = []

    def start(words, size=(80, 24)):
        opened.append(person.Terminal(words, tmp_path, {**os.environ, "TERM": "xterm-256color"}, size))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


def frame(terminal, text):
    """The lines of the first whole screen from now on that has this text."""
    deadline = time.monotonic() + person.LIMIT
    while time.monotonic() < deadline:
        terminal.see("\x1b[H")
        shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.see("\x1b[H")).split("\n")
        terminal.give_back("\x1b[H")
        if any(text in line for line in shown):
            return [line.rstrip() for line in shown]
    raise AssertionError(f"no screen with {text!r}, the last was {shown}")


def left_as_it_was(terminal):
    return terminal.settings == terminal.before


def test_a_person_looks_into_a_process_and_leaves(started, at_terminal):  # noqa: F811
    running = started("blocked", "1000")
    running.sleeps()
    terminal = at_terminal([*TOP, str(running.pid)])
    terminal.see(ON)
    shown = frame(terminal, "1,000  blocked")
    assert len(shown) == 24 and shown[1].startswith(f"process {running.pid} on Python")
    assert "1,001 tasklets" in shown[2]
    assert not left_as_it_was(terminal)
    terminal.type("/blocked\r")
    terminal.type("\x1b[B\x1b[A\r")
    frame(terminal, "  outer  blocked")
    terminal.type("?")
    frame(terminal, "down, k, j")
    terminal.type("xp")
    frame(terminal, "PAUSED")
    terminal.type("q")
    assert SHOWN in terminal.see(OFF)
    assert terminal.ended() == 0
    assert left_as_it_was(terminal)


def test_another_size(started, at_terminal):  # noqa: F811
    running = started("blocked", "10")
    terminal = at_terminal([*TOP, str(running.pid)])
    frame(terminal, "10  blocked")
    terminal.resize(40, 10)
    while len(shown := frame(terminal, "q quit")) != 10:
        pass
    assert max(map(len, shown)) <= 40 and shown[-1].startswith("q quit")
    terminal.type("q")
    assert terminal.ended() == 0


def test_ctrl_c(started, at_terminal):  # noqa: F811
    terminal = at_terminal([*TOP, str(started("blocked", "10").pid)])
    frame(terminal, "10  blocked")
    terminal.type("\x03")
    assert OFF in terminal.see("roamlet top: interrupted")
    assert terminal.ended() == 130
    assert left_as_it_was(terminal)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_it(started, at_terminal, number):  # noqa: F811
    terminal = at_terminal([*TOP, str(started("blocked", "10").pid)])
    frame(terminal, "10  blocked")
    terminal.process.send_signal(number)
    terminal.see(OFF)
    assert terminal.ended() == -number
    assert left_as_it_was(terminal)


def test_it_is_stopped_and_goes_on(started, at_terminal):  # noqa: F811
    running = started("blocked", "10")
    words = " ".join([*TOP, str(running.pid)])
    # A shell with job control: the kernel stops no process that has nothing in its session to continue it.
    script = f"set -m; {words}; echo STOPPED=$?; stty -a; fg; echo ENDED=$?"
    terminal = at_terminal(["bash", "-c", script])
    frame(terminal, "10  blocked")
    terminal.type("\x1a")
    assert OFF in terminal.see("STOPPED=148")
    assert " icanon " in terminal.see(ON)
    frame(terminal, "10  blocked")
    terminal.type("q")
    terminal.see("ENDED=0")
    assert terminal.ended() == 0


def test_the_process_ends_meanwhile(started, at_terminal):  # noqa: F811
    running = started("blocked", "10")
    terminal = at_terminal([*TOP, str(running.pid)])
    frame(terminal, "10  blocked")
    running.kill()
    running.wait()
    shown = frame(terminal, "no more to see: there is no process")
    assert any("10  blocked" in line for line in shown)
    terminal.type("q")
    assert terminal.ended() == 0


def _fail_in(entered, fd, before):
    with entered as terminal:
        assert termios.tcgetattr(fd) != before
        terminal.draw([("one", "bold"), ("two", "")])
        raise ZeroDivisionError


def test_an_error_leaves_the_terminal_and_the_handlers_as_they_were(monkeypatch):
    ours, theirs = pty.openpty()
    handlers = [signal.getsignal(number) for number in CAUGHT]
    monkeypatch.setenv("TERM", "xterm")
    try:
        before = termios.tcgetattr(theirs)
        with open(theirs, "w", closefd=False) as out, open(theirs, closefd=False) as keyboard:
            monkeypatch.setattr(sys, "stdin", keyboard)
            with pytest.raises(ZeroDivisionError):
                _fail_in(Terminal(out), theirs, before)
            monkeypatch.undo()
        assert termios.tcgetattr(theirs) == before
        assert [signal.getsignal(number) for number in CAUGHT] == handlers
        written = ""
        while OFF not in written or SHOWN not in written:  # it comes in pieces
            written += os.read(ours, 65536).decode()
        assert written.index("one") < written.index(OFF)
    finally:
        os.close(ours)
        os.close(theirs)


def test_what_is_no_terminal_gets_one_table(started, capsys):  # noqa: F811
    running = started("blocked", "10")
    assert main(["top", "--interval", "0.1", str(running.pid)]) == 0
    said, problems = capsys.readouterr()
    assert problems == ""
    assert said.startswith(f"process {running.pid} on Python ")
    assert re.search(r"^   10  blocked +[\d.]+ m?s  receive on channel ", said, re.MULTILINE)
    assert re.search(r"^MainThread  sleeping +0\.0 +0 +11 +0 +0 +1 +0$", said, re.MULTILINE)
    assert "\x1b" not in said
    assert not can_be_drawn_on(io.StringIO())


def test_json_once_and_a_line_for_each_look(started, capsys):  # noqa: F811
    running = started("busy", "100")
    assert main(["top", "--once", "--json", "--interval", "0.2", "--name", "program.py busy 100"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert found["pid"] == running.pid and found["messages"] > 1000 and found["seconds"] > 0.1
    assert found["places"][0]["count"] >= 100
    words = [*TOP, "--json", "--interval", "0.1", str(running.pid)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        first, second = (json.loads(process.stdout.readline()) for _ in range(2))
        assert (first["seconds"], first["messages"]) == (None, None)
        assert second["messages"] > 1000 and second["ended"] is None
        running.kill()
        running.wait()
        *_, last = process.stdout
        assert "there is no process" in json.loads(last)["ended"]
        assert process.wait(person.LIMIT) == 0
        assert process.stderr.read() == ""


def test_a_reader_that_ends_ends_json_without_a_word(started):  # noqa: F811
    running = started("blocked", "10")
    words = [*TOP, "--json", "--interval", "0.1", str(running.pid)]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}  # what is left in a buffer would be written at the end
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=buffered) as process:
        process.stdout.readline()
        process.stdout.close()
        assert (process.wait(person.LIMIT), process.stderr.read()) == (1, "")


def test_processes_that_are_not_there(capsys):
    with subprocess.Popen(["sleep", "0"]) as gone:
        gone.wait()
    assert main(["top", str(gone.pid)]) == 1
    said = f"roamlet top: process {gone.pid}: there is no process {gone.pid}, or it has ended meanwhile\n"
    assert capsys.readouterr() == ("", said.replace(f"process {gone.pid}: ", "", 1))
    assert main(["top", "--interval", "0.1", "--name", "no such program, surely"]) == 1
    assert "uses roamlet with 'no such program, surely' in its command line" in capsys.readouterr().err


def test_on_a_host(started, tmp_path, capsys):  # noqa: F811
    running = started("busy", "50")
    hosts = tmp_path / "hosts.ini"
    hosts.write_text(f"here ansible_connection=local ansible_python_interpreter={sys.executable}\n")
    for words in ([f"here:{running.pid}"], ["-H", "here", "--name", "program.py busy 50"]):
        assert main(["top", "-i", str(hosts), "--once", "--interval", "0.2", *words]) == 0
        said = capsys.readouterr().out
        assert said.startswith(f"here: process {running.pid} on Python ")
        assert re.search(
            r"^ +[\d,.]+[kM]? switches/s, [\d,.]+[kM]? messages/s", said.replace("\n", "\n "), re.MULTILINE
        )
        assert " inner() at " in said or "outer" in said
    assert main(["top", "-i", str(hosts), "--once", "--interval", "0.1", "here:1"]) == 1
    assert "here:1" in capsys.readouterr().err


def look(pid, moment):
    scheduler = Scheduler([Tasklet(1, "main", "running")], switches=0)
    return Process(pid, moment=moment, threads=[Thread(1, main=True, scheduler=scheduler)])


class Fake:
    """Looks that were made before; the last one fails."""

    def __init__(self, host=None, looks=()):
        self.host, self.pid, self.looks = host, 7, list(looks)

    def look(self):
        return [self.looks.pop(0)]


def test_looking_ends_with_the_process_and_waits_while_told():
    found = [{"pid": 7, "counters": look(7, n), "full": look(7, n), "pause": 0.0} for n in (1.0, 2.0)]
    board, told = Board(), []
    keep_looking(board, Fake(looks=[*found, {"pid": 7, "error": "there is no process 7"}]), 0.0, told.append)
    assert told == [[(None, 7)]] * 3
    assert board.seen[None, 7].ended == "there is no process 7"
    told.clear()
    keep_looking(board, Fake(looks=found), 0.0, told.append, 1)
    assert len(told) == 1


def test_what_a_host_says_wrong_is_its_error():
    board = Board()
    wrong = {"pid": 7, "counters": look(8, 1.0), "full": None, "pause": 0.0}
    keep_looking(board, Fake("web", [wrong]), 0.0, lambda _: None)
    assert board.refused == {("web", 7): "a look at process 7 was asked for, and 8 was found"}


class Refused:
    """A context that cannot be opened."""

    def __init__(self, board):
        self.board = board

    def __enter__(self):
        assert self.board.connecting == {"web"}
        raise ConnectError("no route")

    def __exit__(self, *error):
        pass


def test_a_host_out_of_reach_is_noted_and_no_more():
    board = Board()
    attend(board, "web", Refused(board), str, lambda context: None)
    assert (board.hosts, board.unreachable, board.connecting) == ({"web": "no route"}, {"web"}, set())
    assert roamlet.getruncount() == 1
