"""Servers that systemd runs: the unit brings the tunnel back, and the rollback is a unit of its own."""

import time

import pytest

from weft_vpn import lifecycle
from weft_vpn.host import act as host_act
from weft_vpn.host import rollback as host_rollback

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
    report = booted.apply(network)
    assert report.exit_code == 0, report.lines()
    assert booted.server("alpha").shell("systemctl is-enabled wg-quick@wg0").strip() == "enabled"
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
    assert f"weft-vpn-rollback-{TOKEN}" in alpha.shell("systemctl list-units --plain --no-legend 'weft-vpn-*'")
    deadline = time.monotonic() + 60
    while booted.state("alpha") != before:
        assert time.monotonic() < deadline, booted.state("alpha")
        time.sleep(0.2)
    assert alpha.shell("systemctl is-enabled wg-quick@wg0").strip() == "enabled"
    with booted.servers() as servers:
        servers.connect(["alpha"])
        outcome = servers.contexts["alpha"].call(host_rollback.roll_back, (TOKEN,))
    assert outcome == {"outcome": host_rollback.ROLLED_BACK, "errors": []}
    assert booted.reaches("alpha", "beta")


def test_the_network_is_taken_down(booted):
    assert booted.apply(booted.network).exit_code == 0
    with booted.servers() as servers:
        report = lifecycle.down(booted.network, servers, rollback_after=30)
    assert report.exit_code == 0, report.lines()
    for site in booted.network.sites:
        server = booted.server(site.name)
        assert "wg0" not in server.run(["ip", "link"]).stdout
        assert server.run(["systemctl", "is-enabled", "wg-quick@wg0"], check=False).stdout.strip() == "disabled"
        assert server.shell("ls /etc/wireguard").split() == ["wg0.conf.removed"]
    with booted.servers() as servers:
        assert not lifecycle.down(booted.network, servers, rollback_after=30).changed
