"""`roamlet run --hubs`: which hosts are reached through which, and what is refused; contexts of this machine in place of ssh."""

import json
import os

import pytest

from roamlet import remote
from roamlet.cli import main

INVENTORY = """\
[groups]
a = ["a1", "a2", "a3"]
b = ["b1", "me@b2"]
[hosts.gone]
user = "x"
"""


@pytest.fixture
def ways(monkeypatch):
    """(host, the host that it was reached through, arguments of ssh) of all that was opened in place of ssh."""
    log = []

    def opened(address, *, name, output=None, via=None, ssh_args=(), **rest):
        log.append((name, via and via.name, tuple(ssh_args)))
        if address == "gone":
            raise remote.HostUnreachable("no way to 'gone'")
        return remote.local(via=via, name=name, output=output)

    monkeypatch.setattr(remote, "ssh", opened)
    return log


@pytest.fixture
def inventory(tmp_path):
    path = tmp_path / "hosts.toml"
    path.write_text(INVENTORY)
    return str(path)


def test_the_hosts_of_a_group_are_reached_through_the_first_of_it(ways, inventory, capfd):
    words = ["-i", inventory, "-H", "a,b,c", "--hubs", "a", "--hubs", "b", "--hubs-beyond", "5", "--json"]
    assert main(["run", *words, "os:getppid"]) == 0
    answers = {answer["host"]: answer["value"] for answer in map(json.loads, capfd.readouterr().out.splitlines())}
    assert sorted(answers) == ["a1", "a2", "a3", "b1", "c", "me@b2"]
    assert {host for host, value in answers.items() if value == os.getpid()} == {"a1", "b1", "c"}
    assert {host: via for host, via, _ in ways} == {
        "a1": None,
        "b1": None,
        "c": None,
        "a2": "a1",
        "a3": "a1",
        "me@b2": "b1",
    }


def test_few_hosts_are_reached_directly(ways, inventory, capfd):
    assert main(["run", "-i", inventory, "-H", "a,b", "--hubs", "a,b", "--hubs-beyond", "5", "os:getpid"]) == 0
    assert [via for _, via, _ in ways] == [None] * 5


def test_commands_go_through_hubs_and_each_line_has_its_own_host_in_front(ways, inventory, capfd):
    words = ["-i", inventory, "-H", "a", "--hubs", "a", "--hubs-beyond", "0", "-c", "echo said"]
    assert main(["run", *words]) == 0
    assert sorted(capfd.readouterr().out.splitlines()) == ["a1: said", "a2: said", "a3: said"]
    assert [via for _, via, _ in ways] == [None, "a1", "a1"]


def test_subnets_group_by_address(ways, capfd):
    hosts = "10.0.0.1,10.0.1.1,me@10.0.0.2:22,10.0.1.2"
    assert main(["run", "-H", hosts, "--hubs", "subnets", "--hubs-beyond", "0", "os:getpid"]) == 0
    assert {host: via for host, via, _ in ways} == {
        "10.0.0.1": None,
        "10.0.1.1": None,
        "me@10.0.0.2:22": "10.0.0.1",
        "10.0.1.2": "10.0.1.1",
    }


def test_a_configuration_file_of_this_machine_counts_for_hubs_and_not_behind_them(ways, inventory, tmp_path, capfd):
    config = tmp_path / "config"
    config.write_text("")
    words = [
        "-i",
        inventory,
        "-H",
        "b",
        "--hubs",
        "b",
        "--hubs-beyond",
        "0",
        "--ssh-config",
        str(config),
        "-o",
        "Port=2",
    ]
    assert main(["run", *words, "os:getpid"]) == 0
    assert [args for _, _, args in ways] == [("-F", str(config), "-o", "Port=2"), ("-o", "Port=2")]


def test_a_host_that_is_out_of_reach_is_its_own_failure(ways, inventory, capfd):
    words = ["-i", inventory, "-H", "gone,a", "--hubs", "a", "--hubs-beyond", "0"]
    assert main(["run", *words, "os:getpid"]) == 3
    assert "1 of 4 failed" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-H", "a", "--hubs", "nowhere"], "--hubs 'nowhere' is no group of -i"),
        (["-H", "a", "--hubs", "a,subnets"], "--hubs 'subnets' is no group of -i; give names of groups, or the word"),
        (["-H", "a", "--hubs", "a", "--via", "gate"], "--hubs and --via say two things about the way"),
        (["--local", "2", "--hubs", "a"], "--hubs and --local say two things"),
        (["-H", "a", "--hubs", "a", "--hubs-beyond", "-1"], "--hubs-beyond -1: give a number of hosts"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_opened(ways, inventory, capfd, words, says):
    assert main(["run", "-i", inventory, *words, "os:getpid"]) == 64
    assert says in capfd.readouterr().err
    assert not ways
