"""A file that is wrong is refused by every command before anybody is connected to: an ssh that takes notes is never called."""

import pytest

from apps.vpn.tests.test_file import GOOD, MISTAKES
from roamlet.cli import main

COMMANDS = {
    "plan": (),
    "apply": ("--yes",),
    "status": (),
    "check": (),
    "picture": (),
    "add": ("gamma=root@gamma.example.com", "--yes"),
    "remove": ("beta", "--yes"),
    "rotate": ("alpha", "--yes"),
    "down": ("--yes",),
    "gateway": (),
}


@pytest.fixture
def called(tmp_path, monkeypatch):
    """What ssh was called with: it writes that down, and fails as if no host answered."""
    notes = tmp_path / "notes"
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("ssh", "sudo", "scp", "sftp"):
        (programs / name).write_text(f'#!/bin/sh\necho "$0 $*" >>{notes}\nexit 255\n')
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.chdir(tmp_path)
    return lambda: notes.read_text() if notes.exists() else ""


def roamlet(tmp_path, command, text):
    (tmp_path / "network.toml").write_text(text)
    return main(["vpn", command, *COMMANDS[command]])


@pytest.mark.parametrize(("good", "bad", "line", "said"), MISTAKES)
def test_no_mistake_gets_as_far_as_a_connection(tmp_path, called, capsys, good, bad, line, said):
    assert roamlet(tmp_path, "plan", GOOD.replace(good, bad)) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith(f"roamlet vpn plan: network.toml, line {line}: ") and captured.out == ""
    assert called() == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_connects_before_it_has_read_the_file(tmp_path, called, capsys, command):
    text = GOOD.replace("192.168.21.0/24", "192.168.10.128/25")
    assert roamlet(tmp_path, command, text) == 1
    assert "overlaps 192.168.10.0/24 of alpha" in capsys.readouterr().err
    assert called() == ""
    assert (tmp_path / "network.toml").read_text() == text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["network.toml", "programs"]


def test_with_a_file_that_is_right_the_same_ssh_is_called(tmp_path, called, capsys):
    assert roamlet(tmp_path, "plan", GOOD) == 1
    assert "root@alpha.example.com  out of reach" in capsys.readouterr().out
    assert "alpha.example.com" in called() and "gate.example.com" in called()
