"""roamlet_via: hosts that are reached through other hosts of the inventory, over an sshd of the tests' own and stand-ins."""

import json
import os
import sys
from dataclasses import replace

import pytest

from tests.remote.sshd import running_sshd
from tests.remote.transports import standin

pytestmark = pytest.mark.playbook

WEB = """
- hosts: web
  gather_facts: false
  tasks:
  - {name: ping, ping: }
  - {name: raw, raw: "echo out; echo err >&2; exit 4", ignore_errors: true}
  - {name: command, command: "sh -c 'echo $PPID'"}
  - {name: copy, copy: {src: big, dest: "{{ place }}/big"}}
  - {name: fetch, fetch: {src: "{{ place }}/big", dest: "{{ place }}/fetched/", flat: true}}
  - {name: connection, shell: 'echo "$SSH_CONNECTION"'}
"""
PING = "- hosts: web\n  gather_facts: false\n  tasks: [{name: ping, ping: }]\n"


@pytest.fixture(scope="module")
def commands_of_the_server(tmp_path_factory):
    return tmp_path_factory.mktemp("commands")


@pytest.fixture(scope="module")
def server(tmp_path_factory, commands_of_the_server):
    """Its sessions find the commands of the tests."""
    path = f"SetEnv PATH={commands_of_the_server}:/usr/local/bin:/usr/bin:/bin"
    with running_sshd(tmp_path_factory.mktemp("sshd"), options=[path]) as server:
        yield server


@pytest.fixture
def commands(commands_of_the_server, monkeypatch):
    for file in commands_of_the_server.iterdir():
        file.unlink()
    monkeypatch.setenv("PATH", f"{commands_of_the_server}{os.pathsep}{os.environ['PATH']}")
    return commands_of_the_server


@pytest.fixture
def play(playing):
    """`play(text, {host: variables}, *options)`; "ssh" in the variables adds those that reach the sshd of the tests."""
    (playing.folder / "big").write_bytes(bytes(range(256)) * 10_000)
    (playing.folder / "place").mkdir()

    def play(text, hosts, *options, **environment):
        inventory = playing.folder / "through.json"
        known = {
            name: {
                **(playing.variables if "ssh" in variables else {}),
                **{k: v for k, v in variables.items() if k != "ssh"},
            }
            for name, variables in hosts.items()
        }
        inventory.write_text(json.dumps({"all": {"hosts": known}}))
        place = ("-e", f"place={playing.folder}/place")
        return playing.play(text, "roamlet.remote.ssh", "-i", str(inventory), *place, *options, **environment)

    return play


def host(kind, **variables):
    return {"ansible_connection": f"roamlet.remote.{kind}", "ansible_python_interpreter": sys.executable, **variables}


def test_a_container_on_a_host_that_ssh_reaches(play, commands, server, playing):
    docker = standin.DOCKER.install(commands)
    # The name of the connection does not matter for the host that is gone through: its options are the same.
    played = play(
        WEB,
        {"web": host("docker", roamlet_via="bastion"), "bastion": {"ssh": True, "ansible_connection": "ssh"}},
        "-vvv",
        ROAMLET_ANSIBLE_LOG=str(playing.folder / "log"),
    )
    assert played.code == 0, played.text + (playing.folder / "log").read_text()
    assert len(docker.calls) == 1
    assert "MODULE ansible.modules.ping BY ROAMLET" in played.text
    assert played["connection"]["stdout"] != ""  # docker was started by the session of that ssh
    assert (played["raw"]["rc"], played["raw"]["stdout"], played["raw"]["stderr"]) == (4, "out\n", "err\n")
    assert (playing.folder / "place/fetched/big").read_bytes() == (playing.folder / "big").read_bytes()


def test_a_host_behind_two_others(play, commands):
    docker, lxc = standin.DOCKER.install(commands), standin.LXC.install(commands)
    played = play(
        WEB,
        {
            "web": host("docker", roamlet_via="inner"),
            "inner": host("lxc", roamlet_via="{{ gateway }}", gateway="bastion"),
            "bastion": {"ssh": True},
        },
    )
    assert played.code == 0, played.text
    assert len(docker.calls) == len(lxc.calls) == 1


def test_an_ssh_host_behind_another_one(play):
    played = play(WEB, {"web": {"ssh": True, "roamlet_via": "bastion"}, "bastion": {"ssh": True}}, "-vvv")
    assert played.code == 0, played.text
    assert "NO PYTHON" not in played.text


def test_local_through_another_host_is_that_host(play):
    played = play(WEB, {"web": host("local", roamlet_via="bastion"), "bastion": {"ssh": True}}, "-vvv")
    assert played.code == 0, played.text
    assert played["connection"]["stdout"] != ""
    assert "ESTABLISH LOCAL CONNECTION" not in played.text


def test_hosts_that_share_a_way_share_its_contexts(play, commands):
    standin.DOCKER.install(commands)
    (commands / "ssh").write_text(f'#!/bin/sh\necho "$@" >> {commands}/ssh.calls\nexec /usr/bin/ssh "$@"\n')
    (commands / "ssh").chmod(0o755)
    hosts = {f"web{number}": host("docker", roamlet_via="bastion") for number in range(3)}
    text = "- hosts: all:!t0\n  gather_facts: false\n  tasks: [{ping: }, {command: 'true'}]\n"
    played = play(text, {**hosts, "bastion": {"ssh": True}})
    assert played.code == 0, played.text
    calls = (commands / "ssh.calls").read_text().splitlines()
    assert len([call for call in calls if " -G " not in f" {call} "]) == 1


def test_become_of_the_host_that_is_gone_through_begins_the_rest_of_the_way(play, commands):
    lxc = standin.LXC.install(commands)
    (commands / "sudo").write_text(
        f'#!/bin/sh\necho "$@" >> {commands}/sudo.calls\nwhile [ "$1" != -- ]; do shift; done; shift\nexec "$@"\n'
    )
    (commands / "sudo").chmod(0o755)
    bastion = host("local", ansible_become=True, ansible_become_user="operator")
    played = play(PING, {"web": host("lxc", roamlet_via="bastion"), "bastion": bastion})
    assert played.code == 0, played.text
    assert "operator" in (commands / "sudo.calls").read_text()
    assert len(lxc.calls) == 1
    refused = play(
        PING, {"web": host("lxc", roamlet_via="bastion"), "bastion": {**bastion, "ansible_become_method": "runas"}}
    )
    assert (
        "by the become method 'runas'. Set ansible_become_method of 'bastion' to one of: sudo, su, doas" in refused.text
    )


def test_without_a_python_in_the_container_the_client_runs_on_the_other_host(play, commands, playing):
    docker = replace(standin.DOCKER, spec=("exec", "--?", "NAME"), flags=("--interactive", "-i"), no_python=True)
    docker = docker.install(commands)
    web = host("docker", roamlet_via="bastion", ansible_python_interpreter="/no/python")
    text = "- hosts: web\n  gather_facts: false\n  tasks: [{name: raw, raw: 'echo $SSH_CONNECTION; exit 4', ignore_errors: true}]\n"
    played = play(text, {"web": web, "bastion": {"ssh": True}}, "-vvv")
    assert played["raw"].get("rc") == 4, played.text
    assert played["raw"]["stdout"].strip()
    assert docker.calls[-1][:3] == ["exec", "-i", "web"]


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        (
            {"web": {"roamlet_via": "nowhere"}},
            "web is to be reached through 'nowhere', and the inventory has no such host",
        ),
        ({"web": {"roamlet_via": "web"}}, "cannot be reached: roamlet_via goes in a circle: web -> web"),
        (
            {"web": {"roamlet_via": "a"}, "a": {"roamlet_via": "b"}, "b": {"roamlet_via": "a"}},
            "roamlet_via goes in a circle: a -> b -> a. Take it out of one of them.",
        ),
        (
            {"web": {"roamlet_via": "a"}, "a": {"ansible_connection": "winrm"}},
            "cannot be reached through 'a', whose connection is 'winrm'. Set ansible_connection of 'a' to one of",
        ),
        (
            {"web": {"roamlet_via": "a"}, "a": {"ansible_connection": "docker", "ansible_docker_privileged": True}},
            "roamlet does not follow all options that 'a' has",
        ),
    ],
)
def test_a_way_that_cannot_be_gone_is_named_with_the_next_step(hosts, said, play):
    played = play(
        PING, {name: host("ssh", **variables) if name == "web" else variables for name, variables in hosts.items()}
    )
    assert played.code != 0
    assert said in " ".join(played.text.split())


def test_a_failure_on_the_way_names_both_hosts(play, commands):
    standin.DOCKER.install(commands).fails("Error response from daemon: No such container: inner\n")
    standin.LXC.install(commands)
    played = play(PING, {"web": host("lxc", roamlet_via="inner"), "inner": host("docker")})
    assert [status for _, status, _ in played.tasks] == ["unreachable"]
    assert "web is reached through inner (roamlet_via), and there is no way to that one" in played.text


def test_reset_connection_closes_what_is_behind_another_host(play, commands):
    docker = standin.DOCKER.install(commands)
    tasks = "[{ping: }, {meta: reset_connection}, {ping: }]"
    text = f"- hosts: web\n  gather_facts: false\n  tasks: {tasks}\n"
    played = play(text, {"web": host("docker", roamlet_via="bastion"), "bastion": {"ssh": True}})
    assert played.code == 0, played.text
    assert len(docker.calls) == 2
