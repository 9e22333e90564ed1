"""Servers that systemd runs: the unit brings the tunnel back, and the rollback is a unit of its own."""

import time
from dataclasses import replace

import pytest

from roamlet_vpn.commands import lifecycle
from roamlet_vpn.commands.apply import take_survey
from roamlet_vpn.host import act as host_act
from roamlet_vpn.host import rollback as host_rollback
from roamlet_vpn.model.network import Endpoint

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]
TOKEN = "0123456789abcdef"


def test_two_offices_on_fresh_systems_are_joined(booted):
    network = booted.of("alpha", "beta")
    report = booted.apply(network)
    assert report.exit_code == 0, report.lines()
    for name in ("alpha", "beta"):
        units = booted.server(name).shell("systemctl is-enabled wg-quick@wg0; systemctl is-active wg-quick@wg0")
        assert units.split() == ["enabled", "active"]
    assert booted.reaches("alpha", "beta")
    assert booted.sends("alpha", "beta") == 200_000
    before = booted.states("alpha", "beta")
    assert not booted.apply(network).changed
    # What the unit makes is what runs.
    booted.server("alpha").shell("systemctl restart wg-quick@wg0")
    assert booted.states("alpha", "beta") == before
    assert booted.reaches("beta", "alpha")


def test_a_unit_that_was_disabled_and_an_interface_that_was_taken_away_come_back(booted):
    network = booted.of("alpha", "beta")
    assert booted.apply(network).exit_code == 0
    before = booted.states("alpha", "beta")
    booted.server("alpha").shell("systemctl disable wg-quick@wg0; ip link del wg0")  # active still, says systemd
    booted.server("beta").shell("systemctl disable wg-quick@wg0")
    with booted.servers(network) as servers:
        plan = take_survey(network, servers).plan
    found = {name: [action.repairs for action in actions] for name, actions in plan.sites.items()}
    disabled = "wg-quick@wg0.service is disabled: after a restart of the server there would be no tunnel"
    assert found == {"alpha": ["wg0 is not there", disabled], "beta": [disabled]}
    report = booted.apply(network)
    assert report.exit_code == 0, report.lines()
    for name in ("alpha", "beta"):
        assert booted.server(name).shell("systemctl is-enabled wg-quick@wg0").strip() == "enabled"
    assert booted.states("alpha", "beta") == before


def test_the_rollback_is_a_unit_that_needs_no_session(booted):
    network = booted.of("alpha", "beta")
    assert booted.apply(network).exit_code == 0
    before = booted.state("alpha")
    with booted.servers() as servers:
        servers.connect(["alpha"])
        actions = [{"do": "mtu", "mtu": 1300}, {"do": "down", "keep_config": False}]
        ended = servers.contexts["alpha"].call(host_act.act, ("wg0", actions, TOKEN, 4))
        assert ended["error"] is None
    # The connection is closed, and every session with it.
    alpha = booted.server("alpha")
    assert "wg0" not in alpha.run(["ip", "link"]).stdout
    assert f"roamlet-vpn-rollback-{TOKEN}" in alpha.shell("systemctl list-units --plain --no-legend 'roamlet-vpn-*'")
    until(lambda: booted.state("alpha") == before)
    assert alpha.shell("systemctl is-enabled wg-quick@wg0").strip() == "enabled"
    with booted.servers() as servers:
        servers.connect(["alpha"])
        outcome = servers.contexts["alpha"].call(host_rollback.roll_back, (TOKEN,))
    assert outcome == {"outcome": host_rollback.ROLLED_BACK, "errors": []}
    assert booted.reaches("alpha", "beta")


def test_the_network_is_taken_down(booted):
    assert booted.apply(booted.network).exit_code == 0
    with booted.servers() as servers:
        report = lifecycle.down(booted.network, servers, rollback_after=120)
    assert report.exit_code == 0, report.lines()
    for site in booted.network.sites:
        server = booted.server(site.name)
        assert "wg0" not in server.run(["ip", "link"]).stdout
        assert server.run(["systemctl", "is-enabled", "wg-quick@wg0"], check=False).stdout.strip() == "disabled"
        assert server.shell("ls /etc/wireguard").split() == ["wg0.conf.removed"]
    with booted.servers() as servers:
        assert not lifecycle.down(booted.network, servers, rollback_after=120).changed


@pytest.mark.parametrize("abrupt", [False, True], ids=["rebooted", "without-power"])
def test_after_a_restart_of_a_server_everything_is_back(booted, abrupt):
    """A site that was added while it ran is too."""
    assert booted.apply(booted.of("alpha", "beta")).exit_code == 0
    assert booted.apply(booted.network).exit_code == 0
    before = booted.state("alpha")
    assert "192.168.30.0/24" in before
    booted.lab.office("alpha").restart_server(abrupt=abrupt)
    until(lambda: booted.state("alpha") == before)
    for name in ("beta", "gamma"):
        assert booted.reaches("alpha", name) and booted.reaches(name, "alpha")
    assert not booted.apply(booted.network).changed


def until(true):
    """Wait for it, far longer than it takes."""
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_both_addresses_change_and_the_names_are_followed(booted):
    sites = tuple(
        replace(site, endpoint=Endpoint(f"{site.name}.example", 51820)) for site in booted.of("alpha", "beta").sites
    )
    network = replace(booted.network, sites=sites)
    report = booted.apply(network)
    assert report.exit_code == 0, report.lines()
    assert booted.reaches("alpha", "beta") and not booted.apply(network).changed
    timer = "systemctl is-enabled roamlet-vpn-names@wg0.timer; systemctl is-active roamlet-vpn-names@wg0.timer"
    for name in ("alpha", "beta"):
        assert booted.server(name).shell(timer).split() == ["enabled", "active"]
    for name in ("alpha", "beta"):  # a restart of the gateways, and with it everything that anybody has learnt
        booted.lab.internet.renumber(name)
    # The script as the timer runs it, but to it all peers have been silent for long: a real silence takes minutes.
    late = "PATH=/tmp/late:$PATH sh /etc/wireguard/roamlet-vpn-names wg0"
    for name in ("alpha", "beta"):
        server = booted.server(name)
        server.shell(
            "mkdir -p /tmp/late; printf '#!/bin/sh\\necho 99999999999\\n' > /tmp/late/date; chmod 755 /tmp/late/date"
        )
        if name == "alpha":  # its peer has not been silent yet, so what was learnt stays
            before = booted.dump(name)[0][2]
            server.shell("systemctl start roamlet-vpn-names@wg0.service")
            assert booted.dump(name)[0][2] == before
        server.shell(late)
        server.shell("rm -r /tmp/late")
    assert booted.dump("alpha")[0][2] == f"{booted.lab.office('beta').place.wan}:51820"
    assert booted.reaches("alpha", "beta") and booted.reaches("beta", "alpha")
    plain = replace(
        network,
        sites=tuple(
            replace(site, endpoint=Endpoint(str(booted.lab.office(site.name).place.wan), 51820)) for site in sites
        ),
    )
    assert booted.apply(plain).exit_code == 0
    assert "roamlet-vpn" not in booted.server("alpha").shell("ls /etc/wireguard /etc/systemd/system")
