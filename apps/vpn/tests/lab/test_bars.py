"""How long things take over lines of 80 ms: told, not judged, because this machine may have something else to do."""

import time
from dataclasses import replace

import pytest

from roamlet.cli import main
from roamlet_vpn.model.network import Network

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

MANY = 50


def test_three_offices_from_nothing_to_clients_that_reach_each_other(offices, tmp_path, monkeypatch, capsys, told):
    monkeypatch.chdir(tmp_path)
    names = [site.name for site in offices.network.sites]
    assert main(["vpn", "init", "--yes", "--ssh-config", offices.lab.ssh_config, *names]) == 0
    began = time.monotonic()
    assert main(["vpn", "apply", "--yes"]) == 0
    applied = time.monotonic() - began
    assert all(offices.reaches(one, other) for one in names for other in names if one != other)
    told(
        f"apply on {len(names)} fresh servers {applied:.1f} s, all clients reached {time.monotonic() - began:.1f} s after its start"
    )


def test_the_facts_of_many_servers_over_open_contexts(offices, told):
    """As many contexts as there would be servers, on the few that a lab has."""
    sites = offices.network.sites
    many = [replace(sites[number % len(sites)], name=f"s{number}", address=None) for number in range(MANY)]
    with offices.servers(
        Network(sites=tuple(many)), at_once=8
    ) as servers:  # sshd takes ten at a time that are not in yet
        assert servers.connect(timeout=100) == {}
        servers.at_once = MANY
        took = []
        for _ in range(3):
            began = time.monotonic()
            answers = servers.facts()
            took.append(time.monotonic() - began)
            assert [answer.get().hostname for answer in answers.values()] == [site.server for site in many]
    told(f"facts of {MANY} servers over open contexts: {', '.join(f'{one:.1f}' for one in took)} s")
