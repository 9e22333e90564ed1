"""`roamlet ansible doctor`."""

import json
import os
import socket
import sys

import pytest

from roamlet.cli import main

pytestmark = pytest.mark.playbook


@pytest.fixture
def inventory(playing, monkeypatch):
    """Writes an inventory of (host, variables) and returns its path."""
    for name in [name for name in os.environ if name.startswith("ANSIBLE")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("ANSIBLE_HOME", str(playing.folder / "ansible"))
    monkeypatch.setenv("ANSIBLE_SSH_ARGS", "-o ControlMaster=no -o ControlPath=none")  # no ssh stays after the test
    monkeypatch.chdir(playing.folder)

    def write(**hosts):
        path = playing.folder / "hosts.json"
        path.write_text(json.dumps({"all": {"hosts": {name: playing.variables | own for name, own in hosts.items()}}}))
        return str(path)

    return write


def doctor(*words):
    return main(["ansible", "doctor", *words])


def test_without_hosts_it_looks_at_core_and_the_collection(inventory, capsys):
    assert doctor() == 0
    text = capsys.readouterr().out
    assert "ansible_collections/roamlet/remote" in text
    assert f"warm Python by {sys.executable}, as " in text
    assert "No host was looked at: name them" in text


def test_each_host_says_its_connection_python_account_and_times(inventory, playing, capsys):
    other = playing.folder / "other-ssh"
    other.write_text('#!/bin/sh\nexec ssh "$@"\n')
    other.chmod(0o755)
    path = inventory(
        warm={"ansible_connection": "roamlet.remote.ssh"},
        stock={"ansible_connection": "ssh"},
        copied={"ansible_connection": "roamlet.remote.ssh", "ansible_pipelining": False},
        other_ssh={"ansible_connection": "roamlet.remote.ssh", "ansible_ssh_executable": str(other)},
    )
    assert doctor("-i", path, "--json") == 1
    report = json.loads(capsys.readouterr().out)
    found = {one["host"]: one for one in report["hosts"]}
    assert found["warm"]["connection"] == "roamlet.remote.ssh"
    assert found["warm"]["modules"]["way"] == "module"
    assert found["warm"]["modules"]["interpreter"] == sys.executable
    assert 0 < found["warm"]["context"]["round_trip"] < found["warm"]["context"]["opened_in"]
    assert found["stock"] == {"host": "stock", "connection": "ansible.builtin.ssh", "roamlet": False}
    assert found["copied"]["modules"]["way"] == "command"
    assert "pipelining is off" in found["copied"]["modules"]["why"]
    assert found["other_ssh"].get("error") is None
    assert found["other_ssh"]["modules"]["way"] == "core"
    assert "ssh_executable" in found["other_ssh"]["modules"]["why"]


def test_a_host_that_does_not_go_over_roamlet_says_how_it_would(inventory, capsys):
    assert doctor("-i", inventory(plain={})) == 1
    assert "-e ansible_connection=roamlet.remote.ssh" in capsys.readouterr().out


def test_a_host_out_of_reach_gives_3_and_says_why(inventory, capsys):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    own = {"ansible_connection": "roamlet.remote.ssh", "ansible_host": "127.0.0.1", "ansible_port": port}
    path = inventory(away=own | {"ansible_ssh_common_args": ""})
    assert doctor("-i", path) == 3
    text = capsys.readouterr().out
    assert "out of reach: ssh to '127.0.0.1' failed" in text
    assert "is the port right (ansible_port)" in text


def test_what_ansible_refuses_is_shown(inventory, capsys):
    path = inventory(warm={"ansible_connection": "roamlet.remote.ssh"})
    assert doctor("-i", path, "unknown") == 1
    assert "Could not match supplied host pattern" in capsys.readouterr().out


def test_a_record_is_read(tmp_path, capsys):
    record = tmp_path / "record"
    line = {"task": "u", "host": "a", "way": "core", "why": "roamlet finds no Python", "module": "", "interpreter": ""}
    named = [json.dumps({"task": uuid, "name": uuid, "begins": 1}) for uuid in ("u", "on the controller")]
    record.write_text("\n".join([*named, json.dumps(line)]) + "\n")
    assert doctor("--log", str(record)) == 0
    text = capsys.readouterr().out
    assert "core's plugin: roamlet finds no Python" in text
    assert "all 1 tasks" in text  # as the recap counts them


def test_what_was_printed_in_place_of_a_modules_answer_is_said(inventory, playing, capsys):
    python = playing.folder / "python"
    python.write_text("#!/bin/sh\necho 'shim: python3.13: command not found' >&2\nexit 127\n")
    python.chmod(0o755)
    path = inventory(odd={"ansible_connection": "roamlet.remote.ssh", "ansible_python_interpreter": str(python)})
    assert doctor("-i", path) == 1
    assert "failed: " in (text := capsys.readouterr().out)
    assert "shim: python3.13: command not found" in text


def test_a_record_that_is_not_there_is_a_wrong_command_line(tmp_path, capsys):
    assert doctor("--log", str(tmp_path / "none")) == 64
    assert "run the playbook with ROAMLET_ANSIBLE_LOG=" in capsys.readouterr().err
