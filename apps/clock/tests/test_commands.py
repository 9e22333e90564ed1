"""`roamlet clock` from the words to the exit code, with hosts that are not real."""

import io
import json
import sys

import pytest

from apps.clock.tests.hosts import NOW, FakeHost
from roamlet import remote
from roamlet.cli import main
from roamlet.remote import HostUnreachable


@pytest.fixture
def hosts(monkeypatch):
    """Adds hosts by their names; ssh reaches them and no other host."""
    known = {}

    class Open:
        def __init__(self, host):
            self.host = host
            self.name = host.name
            self.call, self.put, self.close = host.call, host.put, host.close

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.close()

    def ssh(host, **options):
        if host not in known:
            raise HostUnreachable(f"ssh to {host!r} failed: no route\x1b[2J")
        return Open(known[host])

    monkeypatch.setattr(remote, "ssh", ssh)

    def add(name, **settings):
        known[name] = FakeHost(name, **settings)
        return known[name]

    return add


def roamlet(capsys, *words):
    code = main(["clock", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_dry_run_shows_what_would_be_done_and_does_nothing(hosts, capsys):
    alpha = hosts("alpha")
    code, out, _ = roamlet(capsys, "install", "alpha", "--dry-run")
    assert code == 2 and "alpha\n  * write /usr/local/sbin/roamlet-clock (755)\n" in out
    assert alpha.done == [] and alpha.files == {}


def test_install_twice_and_remove_twice(hosts, capsys):
    some = [hosts("pi-1"), hosts("pi-2", systemd=219, time_set=False)]
    code, out, _ = roamlet(capsys, "install", "pi-[1-2]", "--yes")
    assert code == 0 and "pi-1: done\n    said by pi-1\npi-2: done\n" in out
    done = [list(host.done) for host in some]
    assert done[0][-4:] == [
        "daemon-reload",
        "enable roamlet-clock.service roamlet-clock-tick.timer",
        "start roamlet-clock.service roamlet-clock-tick.timer",
        "begin",
    ]
    code, out, _ = roamlet(capsys, "install", "pi-[1-2]")
    assert code == 0 and out == "pi-1  as it should be\npi-2  as it should be\n"
    assert roamlet(capsys, "install", "pi-1,pi-2", "--dry-run")[0] == 0
    assert [host.done for host in some] == done
    assert roamlet(capsys, "remove", "pi-1", "pi-2", "--dry-run")[0] == 2
    assert roamlet(capsys, "remove", "pi-1", "pi-2", "--yes")[0] == 0
    assert all(not (host.files or host.enabled or host.active or host.state) for host in some)
    code, out, _ = roamlet(capsys, "remove", "pi-1", "pi-2", "--yes")
    assert code == 0 and out == "pi-1  nothing of it is there\npi-2  nothing of it is there\n"


def test_what_fails_on_one_host_is_that_hosts(hosts, capsys):
    alpha, beta = hosts("alpha", fails="enable"), hosts("beta")
    code, out, _ = roamlet(capsys, "install", "alpha", "beta", "gamma", "--yes")
    assert code == 1
    assert "gamma  out of reach\n    ssh to 'gamma' failed: no route\\x1b[2J" in out
    assert (
        "alpha: FAILED: 5 of 8 done; could not enable roamlet-clock.service, roamlet-clock-tick.timer: "
        "enable roamlet-clock.service roamlet-clock-tick.timer: it cannot be\n" in out
    )
    assert "beta: done" in out and beta.state == {"installed": NOW, "stamp": NOW}
    alpha.fails = ""
    assert roamlet(capsys, "install", "alpha", "--yes")[0] == 0
    assert alpha.state == beta.state


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"done": 99, "error": None, "said": []}, "the answer of alpha, done: 99 is no whole number from 0 to 4"),
        ({"done": 4, "error": None, "said": "all"}, "the answer of alpha, said: 'all' is no list"),
        (
            {"done": 0, "error": "\x1b[2J", "said": []},
            "4 of 8 done; could not have systemd read its units again: \\x1b[2J",
        ),
        ("done", "the answer of alpha: there is no 'done'"),
    ],
)
def test_what_a_host_says_of_its_work_is_checked(hosts, capsys, answer, message):
    hosts("alpha").answer = answer
    code, out, _ = roamlet(capsys, "install", "alpha", "--yes")
    assert code == 1 and f"alpha: FAILED: {message}" in out


def test_a_disk_that_is_full_is_told_with_what_was_to_be_written(hosts, capsys, monkeypatch):
    alpha = hosts("alpha")

    def full(local, path, **options):
        raise OSError(28, "No space left on device", path)

    monkeypatch.setattr(alpha, "put", full)
    code, out, _ = roamlet(capsys, "install", "alpha", "--yes")
    assert (
        code == 1
        and "0 of 8 done; could not write /usr/local/sbin/roamlet-clock (755): [Errno 28] No space left" in out
    )


def test_a_host_out_of_reach_alone_is_3_and_a_refusal_is_1(hosts, capsys):
    hosts("alpha")
    hosts("old", systemd=None)
    assert roamlet(capsys, "install", "gamma", "--yes")[0] == 3
    assert roamlet(capsys, "status", "gamma")[0] == 3
    code, out, _ = roamlet(capsys, "install", "old", "alpha", "--yes")
    assert code == 1 and "! systemd does not run this host" in out and "alpha: done" in out


def test_nobody_who_can_say_yes_changes_nothing(hosts, capsys, monkeypatch):
    alpha = hosts("alpha")
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    code, _, err = roamlet(capsys, "install", "alpha")
    assert code == 1 and "there is no terminal to ask on, and nothing was changed" in err
    terminal = io.StringIO("no\n")
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    code, _, err = roamlet(capsys, "install", "alpha")
    assert code == 1 and err == "roamlet clock install: nothing was changed\n"
    assert alpha.done == []
    terminal = io.StringIO("yes\n")
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    assert roamlet(capsys, "install", "alpha")[0] == 0


def test_status_of_good_bad_and_bare_hosts(hosts, capsys):
    alpha = hosts("alpha", rtc={"device": "rtc0", "name": "ds1307", "epoch": NOW})
    hosts("bare")
    assert roamlet(capsys, "install", "alpha", "--yes")[0] == 0
    code, out, _ = roamlet(capsys, "status", "alpha")
    assert code == 0
    for word in ("rtc0 (ds1307)", "2027-01-15 08:00:00 UTC", "0 s ago", "enabled, active", "i there is a hardware"):
        assert word in out
    code, out, _ = roamlet(capsys, "status", "alpha", "bare", "gone")
    assert code == 1 and "! not installed" in out and "no route" in out
    alpha.active.clear()
    code, out, _ = roamlet(capsys, "status", "alpha", "--json")
    (one,) = json.loads(out)["hosts"]
    assert code == 1 and one["well"] is False and one["stamp"] == NOW and one["age"] == 0
    assert one["wrong"] == ["roamlet-clock.service is not active", "roamlet-clock-tick.timer is not active"]


def test_tick_runs_the_script_on_all(hosts, capsys):
    alpha = hosts("alpha")
    assert roamlet(capsys, "install", "alpha", "--yes")[0] == 0
    alpha.done.clear()
    assert roamlet(capsys, "tick", "alpha")[:2] == (0, "alpha: ticked\n")
    assert alpha.done == ["tick"]
    code, out, _ = roamlet(capsys, "tick", "alpha", "gone")
    assert code == 3 and out.startswith("alpha: ticked\ngone  out of reach\n    ssh to 'gone' failed")


def test_tick_says_what_is_missing_before_it_runs_anything(hosts, capsys):
    bare, user = hosts("bare"), hosts("user", is_root=False)
    assert roamlet(capsys, "tick", "bare", "user")[:2] == (
        1,
        "bare: FAILED: roamlet clock is not installed there; `roamlet clock install` does it\n"
        "user: FAILED: root is needed there: name it as root@HOST, or give --sudo\n",
    )
    assert bare.done == user.done == []


def test_no_line_of_the_table_ends_in_blanks(hosts, capsys):
    hosts("alpha")
    lines = roamlet(capsys, "status", "alpha", "gone")[1].splitlines()
    assert lines[2].startswith("gone ") and not any(line.endswith(" ") for line in lines)


def test_facts_that_are_none_are_that_hosts_failure(hosts, capsys, monkeypatch):
    alpha = hosts("alpha")
    hosts("beta")
    monkeypatch.setattr(alpha, "facts", lambda *words: {"version": 99})
    code, out, _ = roamlet(capsys, "install", "alpha", "beta", "--yes")
    assert code == 1 and "alpha  FAILED\n    the facts of alpha have version 99" in out and "beta: done" in out
    code, out, _ = roamlet(capsys, "status", "alpha")
    assert code == 1 and "not known" in out and "version 99" in out


def test_the_script_is_printed_for_hosts_without_systemd(capsys):
    code, out, _ = roamlet(capsys, "script")
    assert code == 0 and out.startswith("#!/bin/sh\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["status"], "name a HOST, or this machine with --local"),
        (["install", "a b"], "'a b' is no host name"),
        (["install", "alpha", "--ask-password"], "give --sudo too"),
        (["status", "local", "--local"], "a host is called 'local', as this machine is with --local"),
    ],
)
def test_a_wrong_command_line_touches_nothing(hosts, capsys, words, message):
    code, _, err = roamlet(capsys, *words)
    assert code == 64 and message in err


def test_no_host_can_speak_for_another(hosts, capsys):
    hosts("alpha").answer = {"done": 4, "error": None, "said": ["saved\nbeta: done"]}
    hosts("beta").answer = {"done": 0, "error": "no\nalpha: done", "said": []}
    _, out, _ = roamlet(capsys, "install", "alpha", "beta", "--yes")
    assert "    beta: done" in out and "    alpha: done" in out
    assert [line for line in out.splitlines() if line.endswith(": done") and line[0] != " "] == ["alpha: done"]
