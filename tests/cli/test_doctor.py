"""`roamlet doctor`: what is found of this machine and of hosts, in words, as JSON, and in the exit code."""

import io
import json
import os
import resource
import stat
import sys
from types import SimpleNamespace

import pytest

from roamlet import cli
from roamlet.cli.examining import doctor, hosts, machine, packages
from roamlet.cli.examining.finding import Finding
from roamlet.remote.modules.native.platforms import here


def printed(words, findings=None):
    """Its exit code and its lines."""
    options = SimpleNamespace(
        **{"hosts": None, "inventory": None, "json": False, "at_once": 50, "timeout": None, **words}
    )
    out = io.StringIO()
    return doctor.doctor(options, out, findings), out.getvalue().splitlines()


def test_nothing_is_wrong_with_this_machine(capsys):
    assert cli.main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    about = [line[7:23].rstrip() for line in lines if line[:5].rstrip() in ("ok", "note")]
    assert about[:8] == ["Python", "roamlet", "tables", "ssh", "descriptors", "roamlet ps", "shared memory", "cache"]
    assert sys.executable in lines[0]
    assert lines[-1].startswith("nothing is wrong")


def test_what_is_wrong_is_counted_and_has_the_line_to_type_below():
    found = [
        Finding("a", "ok", "fine"),
        Finding("b", "note", "slow", "faster b"),
        Finding("c", "wrong", "broken\x1b[31m", "mend c"),
    ]
    assert printed({}, found) == (
        1,
        [
            "ok     a                 fine",
            "note   b                 slow",
            "                         type: faster b",
            "WRONG  c                 broken\x1b[31m",
            "                         type: mend c",
            "1 wrong, 1 could be better",
        ],
    )
    assert printed({}, found[:2])[0] == 0
    status, lines = printed({"json": True}, found)
    assert status == 1
    assert [json.loads(line) for line in lines][1] == {
        "about": "b",
        "state": "note",
        "said": "slow",
        "mend": "faster b",
    }


def test_a_core_that_cannot_be_loaded_is_wrong_and_one_on_the_fallback_a_note(monkeypatch):
    monkeypatch.setattr("roamlet.core.backend", "greenlet")
    monkeypatch.delenv("ROAMLET_SWITCH", raising=False)

    def fails(name):
        raise ImportError(f"no {name}")

    found = machine.core(fails)
    if sys.platform == "linux":
        assert found.state == "note"
        assert found.mend == f"{sys.executable} -m pip install --force-reinstall roamlet"
        assert "cannot be loaded: no roamlet.core._native" in found.said
        monkeypatch.setenv("ROAMLET_SWITCH", "greenlet")
        assert machine.core(fails)[1::2] == ("note", "unset ROAMLET_SWITCH")
    monkeypatch.delattr("roamlet.core.backend")
    assert machine.core().state == "wrong"


def test_a_machine_without_ssh_or_with_another_one_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.ssh()[1::2] == ("wrong", "sudo apt install openssh-client")
    program = tmp_path / "ssh"
    program.write_text("#!/bin/sh\necho 'Dropbear v2022.83' >&2\n")
    program.chmod(0o755)
    found = machine.ssh()
    assert (found.state, found.said) == ("wrong", f"{program} is not OpenSSH's client: Dropbear v2022.83")
    program.write_text("#!/bin/sh\necho 'OpenSSH_9.2p1 Debian-2, OpenSSL 3' >&2\n")
    assert machine.ssh() == ("ssh", "ok", f"OpenSSH_9.2p1 Debian-2, {program}", "")


@pytest.mark.parametrize(
    ("limits", "state", "mend"),
    [((256, 4096), "note", "ulimit -n 1024"), ((256, 512), "note", "ulimit -n 512"), ((1024, 4096), "ok", "")],
)
def test_a_low_limit_of_descriptors_is_a_note(monkeypatch, limits, state, mend):
    monkeypatch.setattr(resource, "getrlimit", lambda what: limits)
    assert machine.descriptors()[1::2] == (state, mend)


@pytest.mark.parametrize(
    ("scope", "user", "state", "said"),
    [
        ("0", 1000, "ok", "reads the processes of this account"),
        ("1", 0, "ok", "reads all processes"),
        ("1", 1000, "note", "needs sudo"),
        ("2", 1000, "note", "needs sudo"),
        ("3", 1000, "note", "reads nothing"),
    ],
)
def test_what_ps_may_read_is_said(tmp_path, monkeypatch, scope, user, state, said):
    (tmp_path / "scope").write_text(scope + "\n")
    monkeypatch.setattr(machine, "PTRACE", tmp_path / "scope")
    monkeypatch.setattr(os, "geteuid", lambda: user)
    found = machine.reading_of_processes()
    assert found.state == state
    assert found.said.startswith(said)
    assert found.mend == ("sudo sysctl kernel.yama.ptrace_scope=0" if (scope, user) == ("1", 1000) else "")


def test_a_cache_that_others_may_write_to_is_said_to_be_unused(tmp_path, monkeypatch):
    folder = tmp_path / "a cache"
    monkeypatch.setenv("ROAMLET_CACHE", str(folder))
    assert machine.cache() == ("cache", "ok", f"{folder}, made when it is needed", "")
    folder.mkdir()
    folder.chmod(0o777)
    assert machine.cache()[1::2] == ("note", f"chmod 700 '{folder}'")
    folder.chmod(0o700)
    assert machine.cache()[1:3] == ("ok", str(folder))
    folder.rmdir()
    folder.write_text("")
    assert "is no folder" in machine.cache().said
    monkeypatch.setenv("ROAMLET_CACHE", "")
    assert machine.cache().said.startswith("none")
    assert stat.S_ISREG(folder.stat().st_mode)  # it changes nothing


def test_shared_memory_that_cannot_be_written_is_a_note(tmp_path, monkeypatch):
    assert machine.shared_memory().state == "ok"
    monkeypatch.setattr(machine, "SHARED_MEMORY", tmp_path / "absent")
    assert machine.shared_memory().state == "note"


def entry(name, version, load):
    return SimpleNamespace(
        name=name, value=f"{name}.cli", dist=SimpleNamespace(name=f"roamlet-{name}", version=version), load=load
    )


def test_packages_of_other_versions_and_broken_ones_are_wrong_and_say_more_themselves(monkeypatch):
    def broken():
        raise OSError("no such library")

    more = SimpleNamespace(examine=lambda: [("labs", "note", "takes root", "")])
    entries = [entry("a-old", "0.0.1", lambda: more), entry("broken", packages.version("roamlet"), broken)]
    fails = SimpleNamespace(examine=lambda: 1 / 0)
    entries.append(entry("fails", packages.version("roamlet"), lambda: fails))
    entries.append(entry("well", packages.version("roamlet"), lambda: more))
    monkeypatch.setattr(packages, "entry_points", lambda group: entries)
    found = list(packages.findings())
    assert [(each.about, each.state) for each in found] == [
        ("roamlet a-old", "wrong"),
        ("roamlet broken", "wrong"),
        ("roamlet fails", "ok"),
        ("roamlet fails", "wrong"),
        ("roamlet well", "ok"),
        ("labs", "note"),
    ]
    assert "they go together in the same version" in found[0].said
    assert "OSError: no such library" in found[1].said
    assert found[1].mend == f"{sys.executable} -m pip install --force-reinstall roamlet-broken"
    assert "ZeroDivisionError" in found[3].said


def facts(**changes):
    return SimpleNamespace(for_extensions=here()._replace(**changes))


def test_what_a_host_lacks_is_named():
    assert hosts.lacks(facts()) == []
    assert hosts.lacks(facts(python=(3, 6)))[0].startswith("tasklets do not move there")
    assert "another kind of system" in hosts.lacks(facts(machine="riscv64"))[0]
    if here().glibc:
        assert "may not load there" in hosts.lacks(facts(libc="glibc 2.17"))[0]


def test_a_host_is_examined_and_one_that_is_gone_is_told_apart(monkeypatch, tmp_path, capsys):
    from roamlet import remote

    with remote.local() as context:
        found = hosts.examined(context)
    assert found["executable"] and found["lacks"] == [] and 0 < found["round_trip"] < 60
    line = hosts.shown({**found, "lacks": ["a", "b"]})
    assert line.startswith(f"{found['python']}, {found['system']}, ") and line.endswith(" ms; a; b")
    (tmp_path / "ssh").write_text("#!/bin/sh\necho 'ssh: Could not resolve hostname gone' >&2\nexit 255\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(machine, "findings", lambda: [Finding("a", "ok", "fine")])
    monkeypatch.setattr(packages, "findings", list)
    assert cli.main(["doctor", "-H", "gone"]) == 3
    assert "gone" in capsys.readouterr().out
    assert cli.main(["doctor", "-H", "gone", "--json"]) == 3
    machines, gone = map(json.loads, capsys.readouterr().out.splitlines())
    assert (machines["about"], gone["host"], gone["ok"]) == ("a", "gone", False)
    assert cli.main(["doctor", "-H", "gone", "--at-once", "0"]) == 64


def test_lab_and_vpn_say_what_this_machine_can_be():
    lab, vpn = (pytest.importorskip(name) for name in ("roamlet_lab.cli", "roamlet_vpn.cli"))
    [labs], [wireguard] = lab.examine(), vpn.examine()
    assert Finding(*labs).about == "labs" and Finding(*labs).state in ("ok", "note")
    assert Finding(*wireguard).said.startswith("this machine")


def test_a_core_that_cannot_be_loaded_ends_no_doctor(python):
    """All else is looked at, and said."""
    command = ("-c", "import sys, roamlet_command; sys.exit(roamlet_command.main())", "doctor")
    done = python(*command, ROAMLET_SWITCH="sliced")
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[1].startswith("WRONG  roamlet           ROAMLET_SWITCH=sliced names a switching backend")
    assert any(line.startswith("note   cache ") for line in lines)
    assert any(line.startswith("ok     ssh ") for line in lines)
    done = python(*command, "--json", ROAMLET_SWITCH="sliced")
    assert [json.loads(line)["about"] for line in done.stdout.splitlines()][:2] == ["Python", "roamlet"]


def test_what_fails_while_it_looks_is_wrong_and_hides_nothing():
    def shared_memory():
        raise OSError("an unreadable disk")

    found = machine.guarded(shared_memory)
    assert found == ("shared memory", "wrong", "OSError: an unreadable disk", "")
