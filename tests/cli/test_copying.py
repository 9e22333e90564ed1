"""`roamlet put` and `roamlet get`: what goes where, from and to many hosts, and what is refused before anything is touched."""

import io
import json
import os
import sys

import pytest

from roamlet import remote
from roamlet.cli import main
from roamlet.cli.output.progress import Progress
from roamlet.remote import HostUnreachable


@pytest.fixture
def hosts(tmp_path, monkeypatch):
    """The words that name two hosts, each a folder of this machine: a relative path is in it. `down` is out of reach."""
    monkeypatch.chdir(tmp_path)

    def ssh(address, **settings):
        if address == "down":
            raise HostUnreachable("ssh to 'down' failed: no route")
        (tmp_path / address).mkdir(exist_ok=True)
        context = remote.local(name=settings["name"])
        context.call(os.chdir, (str(tmp_path / address),))
        return context

    monkeypatch.setattr(remote, "ssh", ssh)
    return tmp_path


def test_a_file_goes_to_every_host_and_comes_from_every_host_into_a_folder_of_its_own(hosts, capsys):
    (hosts / "conf").write_text("one\n")
    assert main(["put", "-H", "a,b", "conf", "etc/app.conf", "--parents", "--mode", "600"]) == 0
    assert [(hosts / name / "etc/app.conf").read_text() for name in "ab"] == ["one\n", "one\n"]
    assert (hosts / "a/etc/app.conf").stat().st_mode & 0o777 == 0o600
    assert sorted(line.split()[0] for line in capsys.readouterr().out.splitlines()) == ["a", "b"]
    (hosts / "b/etc/app.conf").write_text("other\n")
    for _ in range(2):  # again, over what is there by then
        assert main(["get", "-H", "a,b", "--json", "etc/app.conf", "found/"]) == 0
        assert (hosts / "found/a/app.conf").read_text() == "one\n"
        assert (hosts / "found/b/app.conf").read_text() == "other\n"
    answers = {one["host"]: one for one in map(json.loads, capsys.readouterr().out.splitlines())}
    assert answers["b"]["path"] == str(hosts / "found/b/app.conf") and answers["b"]["bytes"] == 6


def test_a_folder_goes_and_comes_with_what_is_in_it(hosts, capsys):
    (hosts / "site/sub").mkdir(parents=True)
    (hosts / "site/sub/page").write_text("text")
    for _ in range(2):
        assert main(["put", "-H", "a", "site", "www"]) == 0
        assert main(["get", "-H", "a", "--by-host", "www", "back/"]) == 0
    assert (hosts / "a/www/sub/page").read_text() == (hosts / "back/a/www/sub/page").read_text() == "text"
    assert "4 bytes in 1 file" in capsys.readouterr().out
    assert sorted(path.name for path in (hosts / "back").rglob("*")) == ["a", "page", "sub", "www"]


def test_from_one_host_a_file_goes_to_the_path_or_into_the_folder(hosts):
    (hosts / "a").mkdir()
    (hosts / "a/conf").write_text("one\n")
    for local, path in ((".", "conf"), ("copy", "copy"), ("made/", "made/conf")):
        assert main(["get", "-H", "a", "conf", local, "--parents"]) == 0
        assert (hosts / path).read_text() == "one\n"


def test_what_fails_on_one_host_is_told_and_the_others_go_on(hosts, capsys):
    (hosts / "conf").write_text("one\n")
    assert main(["put", "-H", "a,down", "conf", "conf"]) == 3
    assert "1 of 2 failed:" in capsys.readouterr().out
    (hosts / "b").mkdir()
    (hosts / "b/conf").write_text("mine")
    assert main(["put", "-H", "a,b", "--no-overwrite", "conf", "conf2"]) == 0
    assert main(["put", "-H", "b", "--no-overwrite", "conf", "conf"]) == 1
    assert (hosts / "b/conf").read_text() == "mine"
    assert main(["get", "-H", "a,b", "conf2/none", "got/"]) == 1


@pytest.mark.parametrize("resume", [False, True])
def test_a_transfer_that_takes_longer_than_its_limit_fails_and_leaves_no_half_file(resume, hosts, capsys):
    (hosts / "conf").write_bytes(b"x" * 1_000_000)
    more = ["--resume"] if resume else []
    for words in (["put", "-H", "a,b", "conf", "copy"], ["get", "-H", "a", "../conf", "copy"]):
        assert main([*words, "--timeout", "0.000001", *more]) == 1
        printed = " ".join(capsys.readouterr().out.split())
        assert "FAILED TimeoutError: not done within 1e-06 seconds; no file is half there" in printed
        assert ("The same command goes on with what has arrived" in printed) is resume
        assert ("With --resume, what has arrived is kept" in printed) is not resume
    assert sorted(path.name for path in hosts.rglob("*") if not path.name.endswith("-unfinished")) == ["a", "b", "conf"]
    assert main(["put", "-H", "a,b", "conf", "copy", "--timeout", "100", *more]) == 0
    assert (hosts / "a/copy").read_bytes() == (hosts / "conf").read_bytes()


def test_a_time_out_of_a_file_system_is_told_as_what_it_is(hosts, monkeypatch, capsys):
    def put(*_, **__):
        raise TimeoutError("the server of this file system does not answer")

    (hosts / "conf").write_text("one\n")
    monkeypatch.setattr(remote.Context, "put", put)
    assert main(["put", "-H", "a", "conf", "copy", "--timeout", "100"]) == 1
    printed = capsys.readouterr().out
    assert "the server of this file system" in printed and "--timeout" not in printed


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def lines(self):
        """What was to be seen, one state after the other."""
        return [line for line in self.getvalue().split("\r\x1b[K") if line]


def test_a_terminal_shows_how_many_bytes_have_gone_or_come(hosts, monkeypatch):
    (hosts / "conf").write_bytes(os.urandom(300_000))
    for words, amount in (
        (["put", "-H", "a,b", "conf", "copy"], " of 600.0 kB"),
        (["get", "-H", "a,b", "copy", "./"], ""),
    ):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        assert main(words) == 0
        assert any("running" in line and line.endswith(f" kB{amount}") for line in terminal.lines())


def test_bytes_are_shown_some_times_a_second_and_states_at_once():
    now = [0.0]
    terminal = Terminal()
    progress = Progress(2, terminal, size=1_000_000, clock=lambda: now[0])
    progress.move("a", "running")
    progress.count("a", 0)
    for step in range(100):
        now[0] = step / 100
        progress.count("a", step * 1000)
    assert len(terminal.lines()) == 11
    assert terminal.lines()[-1].startswith("1 waiting, 1 running; 9") and terminal.lines()[-1].endswith(" kB of 2.0 MB")
    progress.move("b", "running")
    progress.count("b", 1_000_000)
    assert terminal.lines()[-1] == "2 running; 99.0 kB of 2.0 MB"
    progress.move("a", "done")
    assert terminal.lines()[-1] == "1 running, 1 done; 1.1 MB of 2.0 MB"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["put", "conf", "."],
            "IsADirectoryError: {a}: is a folder; give the name that the file is to have in it, or end it with a slash",
        ),
        (
            ["put", "conf", "new/x"],
            "FileNotFoundError: {a}/new: there is no such folder to put a file into; make it first, or say --parents",
        ),
        (
            ["put", "--no-overwrite", "conf", "there"],
            "FileExistsError: {a}/there: is there already, and --no-overwrite was said",
        ),
        (["get", "none", "x"], "FileNotFoundError: {a}/none: No such file or directory"),
    ],
)
def test_what_fails_is_said_in_one_line_without_a_traceback_of_our_own(words, message, hosts, capsys):
    (hosts / "conf").write_text("one\n")
    (hosts / "a").mkdir()
    (hosts / "a/there").write_text("mine")
    assert main([words[0], "-H", "a", *words[1:]]) == 1
    said = capsys.readouterr().out
    assert message.format(a=hosts / "a") in said.splitlines()[0]
    assert "Traceback" not in said and "roamlet.wire" not in said
    assert main([words[0], "-H", "a", "--json", *words[1:]]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert f"{answer['error']}: {answer['message']}" == message.format(a=hosts / "a") and answer["traceback"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["put", "-H", "a", "nothing", "x"], "LOCAL 'nothing': there is no such file or folder on this machine"),
        (["put", "-H", "a", "conf", ""], "REMOTE is empty"),
        (["put", "-H", "a", "--mode", "9", "conf", "x"], "--mode 9: give octal permissions"),
        (["put", "-H", "a", "--mode", "640", ".", "x"], "--mode is for one file"),
        (["put", "-H", "a", "/dev/null", "x"], "is neither a file nor a folder"),
        (["put", "-H", "a", "--at-once", "0", "conf", "x"], "--at-once 0"),
        (["put", "-H", "a", "--timeout", "0", "conf", "x"], "--timeout 0: give a number of seconds above 0"),
        (["get", "-H", "a", "--timeout", "nan", "x", "y"], "--timeout nan: give a number of seconds above 0"),
        (
            ["get", "-H", "a,b", "etc/app", "app"],
            "2 hosts would write the one file 'app'; if that is to be a folder, say 'app/'",
        ),
        (["get", "-H", "a,b", "etc/app", "conf"], "'conf' is a file, and 2 hosts cannot all be written to it"),
        (["get", "-H", "a,b", "/", "."], "REMOTE '/' has no name that its copy could have"),
        (["get", "-H", "a", "etc/app", "no/such/place"], "there is no folder 'no/such'; --parents makes it"),
        (["get", "-H", "a", "etc/app", "conf/x"], "'conf' is no folder"),
        (["get", "-H", "a", "", "x"], "REMOTE is empty"),
        (["get", "-H", "a", "x", ""], "LOCAL is empty"),
        (["get", "-H", "a,x/y", "etc/app", "."], "the host 'x/y' cannot have a folder of its name"),
        (["get", "x", "y"], "required: -H/--hosts"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_wrong_command_line_is_refused_before_anything_is_touched(words, message, hosts, capsys):
    (hosts / "conf").write_text("one\n")
    assert main(words) == 64
    assert message in capsys.readouterr().err
    assert [path.name for path in hosts.iterdir()] == ["conf"]
