"""Playbooks over docker, podman, kubectl, lxc and jail, by stand-ins of their clients; the same by literal command lines."""

import json
import os
import shutil
import sys
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.remote.transports import standin

from ..playing import Playing

pytestmark = pytest.mark.playbook

# As in the tests of the transports, and with what the literal command lines have.
CLIENTS = {
    "docker": replace(
        standin.DOCKER,
        spec=("exec", "--?", "NAME"),
        flags=("--interactive", "-i", "--privileged"),
        values=("--user", "--context", "-u", "-e", "-w"),
    ),
    "podman": replace(
        standin.PODMAN,
        spec=("exec", "--?", "NAME"),
        flags=("--interactive", "-i", "--remote"),
        values=("--user", "--url", "--env", "--workdir"),
    ),
    "kubectl": replace(
        standin.KUBECTL,
        flags=("--stdin", "-i", "--insecure-skip-tls-verify=true"),
        spec=("exec", "NAME", "--"),
        values=(
            "--namespace",
            "--container",
            "--context",
            "-n",
            "-c",
            "--kubeconfig",
            "--server",
            "--insecure-skip-tls-verify",
        ),
    ),
    "lxc": standin.LXC,
    "jail": standin.JAIL,
}
OPENED = {
    "docker": ["exec", "--interactive", "--", "web"],
    "podman": ["exec", "--interactive", "--", "web"],
    "kubectl": ["exec", "--stdin", "web", "--"],
    "lxc": ["--clear-env", "--name", "web", "--"],
    "jail": ["web"],
}
TASKS = """
- hosts: web
  gather_facts: false
  tasks:
  - {name: ping, ping: {data: "ä 'q' $x"}}
  - {name: raw, raw: "echo out; echo err >&2; pwd; exit 4", ignore_errors: true}
  - {name: reads nothing, raw: "cat"}
  - {name: command, command: "sh -c 'pwd; umask; echo $HOME; echo err >&2; exit 3'", ignore_errors: true}
  - {name: environment, shell: 'echo "$COLOUR"', environment: {COLOUR: "a 'b' $c"}}
  - {name: script, script: "s.sh one 'two three'"}
  - {name: copy, copy: {src: big, dest: "{{ place }}/big"}}
  - {name: empty, copy: {content: "", dest: "{{ place }}/empty"}}
  - {name: stat, stat: {path: "{{ place }}/big"}}
  - {name: fetch, fetch: {src: "{{ place }}/big", dest: "{{ place }}/fetched/", flat: true}}
  - {name: fetch nothing, fetch: {src: "{{ place }}/nothing", dest: "{{ place }}/fetched/", flat: true}, ignore_errors: true}
"""
RAW = """
- hosts: web
  gather_facts: false
  tasks:
  - {name: raw, raw: "echo out; echo err >&2; exit 4", ignore_errors: true}
  - {name: script, script: "s.sh one 'two three'"}
  - {name: module, command: "true", ignore_errors: true}
"""


@dataclass
class Containers:
    """Stand-ins in front of PATH, and playbooks for the hosts of an inventory of one's own."""

    playing: Playing
    commands: Any

    def install(self, kind, **changes):
        return replace(CLIENTS[kind], **changes).install(self.commands)

    def play(self, text, hosts, *options, connection="roamlet.remote.ssh", **environment):
        inventory = self.playing.folder / "containers.json"
        inventory.write_text(json.dumps({"all": {"hosts": hosts}}))
        place = ("-e", f"place={self.playing.folder}/place")
        (self.playing.folder / "place").mkdir(exist_ok=True)
        return self.playing.play(text, connection, "-i", str(inventory), *place, *options, **environment)


@pytest.fixture
def containers(playing, monkeypatch):
    commands = playing.folder / "commands"
    commands.mkdir()
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    (playing.folder / "s.sh").write_text('#!/bin/sh\necho "$# $1 $2"\n')
    (playing.folder / "big").write_bytes(bytes(range(256)) * 10_000)
    return Containers(playing, commands)


def host(kind, **variables):
    return {"ansible_connection": f"roamlet.remote.{kind}", "ansible_python_interpreter": sys.executable, **variables}


@pytest.mark.parametrize("kind", CLIENTS)
def test_modules_run_in_a_warm_python_that_one_call_of_the_client_starts(kind, containers):
    client = containers.install(kind)
    played = containers.play(TASKS, {"web": host(kind)}, "-vvv")
    assert played.code == 0, played.text
    assert "MODULE ansible.modules.ping BY ROAMLET" in played.text
    (words,) = client.calls
    assert words[: len(OPENED[kind])] == OPENED[kind]
    assert played["ping"]["ping"] == "ä 'q' $x"
    assert (played["raw"]["rc"], played["raw"]["stderr"]) == (4, "err\n")
    assert played["raw"]["stdout"].split() == ["out", os.path.realpath(containers.playing.folder)]
    assert played["script"]["stdout"] == "2 one two three\n"
    assert played["environment"]["stdout"] == "a 'b' $c"
    assert played["stat"]["stat"]["size"] == 2_560_000
    assert (containers.playing.folder / "place/fetched/big").read_bytes() == (
        containers.playing.folder / "big"
    ).read_bytes()


def shown(played):
    """What a user sees of each task, without what is new in each run."""
    keys = ("rc", "stdout", "stderr", "ping", "changed", "failed", "checksum", "size", "mode")
    return [(name, status, {key: result.get(key) for key in keys}) for name, status, result in played.tasks]


# Options for which each command is the client's own: what users of the literal plugins have.
LITERAL = {
    "docker": {"ansible_docker_privileged": True},
    "podman": {"ansible_podman_executable": "{folder}/podman-4"},
    "kubectl": {"ansible_kubectl_local_env_vars": {"COLOUR": "red"}},
}


@pytest.mark.parametrize("kind", LITERAL)
def test_each_task_gives_what_the_literal_command_gives(kind, containers):
    client = containers.install(kind)
    ours = containers.play(TASKS, {"web": host(kind)})
    assert len(client.calls) == 1
    shutil.rmtree(containers.playing.folder / "place")
    shutil.copy(client.path, containers.commands / "podman-4")
    variables = json.loads(json.dumps(LITERAL[kind]).replace("{folder}", str(containers.commands)))
    literal = containers.play(TASKS, {"web": host(kind, **variables)})
    assert len(client.calls) > 12
    assert shown(ours) == shown(literal)


@pytest.mark.parametrize("kind", CLIENTS)
def test_without_a_python_commands_and_files_still_work_and_modules_say_what_is_missing(kind, containers):
    client = containers.install(kind, no_python=True)
    played = containers.play(RAW, {"web": host(kind, ansible_python_interpreter="/no/python")}, "-vvv")
    assert (played["raw"]["rc"], played["raw"]["stdout"], played["raw"]["stderr"]) == (4, "out\n", "err\n")
    assert "ROAMLET FINDS NO PYTHON" in played.text, played.text
    assert played["module"]["rc"] == 127
    assert "/no/python" in played["module"]["module_stdout"] + played["module"]["module_stderr"]
    assert client.calls
    assert played["script"]["stdout"] == "2 one two three\n"


@pytest.mark.parametrize(
    ("kind", "variables", "words"),
    [
        ("docker", {"ansible_docker_host": "app", "ansible_user": "alice", "ansible_docker_extra_args": "--context lab"},
         ["--context", "lab", "exec", "--interactive", "--user", "alice", "--", "app"]),
        ("podman", {"ansible_podman_host": "app", "ansible_user": "1000", "ansible_podman_extra_args": "--remote"},
         ["--remote", "exec", "--interactive", "--user", "1000", "--", "app"]),
        ("kubectl", {"ansible_kubectl_pod": "app", "ansible_kubectl_namespace": "shop", "ansible_kubectl_container": "db",
                     "ansible_kubectl_context": "lab", "ansible_kubectl_config": "/etc/k", "ansible_kubectl_verify_ssl": False},
         ["--kubeconfig", "/etc/k", "--context", "lab", "--insecure-skip-tls-verify=true", "--namespace=shop", "exec", "--stdin",
          "--container=db", "app", "--"]),
        ("lxc", {"ansible_lxc_host": "app"}, ["--clear-env", "--name", "app", "--"]),
        ("jail", {"ansible_jail_host": "app", "ansible_jail_user": "root"}, ["-U", "root", "app"]),
    ],
)  # fmt: skip
def test_variables_are_those_that_inventories_have(kind, variables, words, containers):
    client = containers.install(kind)
    played = containers.play(
        "- hosts: web\n  gather_facts: false\n  tasks: [{ping: }]\n", {"web": host(kind, **variables)}
    )
    assert played.code == 0, played.text
    assert client.calls[0][: len(words)] == words
    assert len(client.calls) == 1


@pytest.mark.parametrize(
    ("kind", "environment", "folder"),
    [
        ("docker", "ansible_docker_extra_env", "ansible_docker_working_dir"),
        ("podman", "ansible_podman_extra_env", "ansible_podman_working_directory"),
    ],
)
def test_environment_and_folder_are_those_that_were_asked_for(kind, environment, folder, containers):
    containers.install(kind)
    tasks = "[{name: raw, raw: 'echo $COLOUR; pwd'}, {name: shell, shell: 'echo $COLOUR; pwd'}]"
    variables = {environment: {"COLOUR": "red"}, folder: "/usr"}
    played = containers.play(
        f"- hosts: web\n  gather_facts: false\n  tasks: {tasks}\n", {"web": host(kind, **variables)}
    )
    assert played.code == 0, played.text
    assert played["raw"]["stdout"].split() == ["red", "/usr"]
    assert played["shell"]["stdout"].split() == ["red", "/usr"]
    refused = containers.play(
        f"- hosts: web\n  gather_facts: false\n  tasks: {tasks}\n",
        {"web": host(kind, **{environment: {"COLOUR": True}})},
    )
    assert f"{environment} of web must be text: put quotes around COLOUR: True" in refused.text


def test_a_client_that_fails_says_why(containers):
    client = containers.install("docker")
    client.fails("Error response from daemon: No such container: web\n")
    played = containers.play(RAW, {"web": host("docker")})
    assert [status for _, status, _ in played.tasks] == ["unreachable"]
    assert "there is no container web" in played["raw"]["msg"]


def test_a_task_delegated_to_a_container_runs_there(containers):
    client = containers.install("docker")
    hosts = {"web": host("docker"), "other": host("docker")}
    tasks = "[{name: there, command: 'true', delegate_to: other}, {name: 'on it', command: 'true'}]"
    played = containers.play(f"- hosts: web\n  gather_facts: false\n  tasks: {tasks}\n", hosts)
    assert played.code == 0, played.text
    assert [words[3] for words in client.calls] == ["other", "web"]


def test_reset_connection_opens_the_container_again(containers):
    client = containers.install("docker")
    tasks = "[{ping: }, {meta: reset_connection}, {ping: }]"
    played = containers.play(f"- hosts: web\n  gather_facts: false\n  tasks: {tasks}\n", {"web": host("docker")})
    assert played.code == 0, played.text
    assert len(client.calls) == 2
