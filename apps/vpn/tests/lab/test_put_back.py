"""What roamlet vpn has taken over on a server is given back, and what it must keep is kept, with real devices and routes."""

from ipaddress import ip_network

import pytest

from roamlet_vpn.commands.lifecycle import down
from roamlet_vpn.commands.transaction import Transaction
from roamlet_vpn.wireguard.actions import EnableUnit, Routes

pytestmark = pytest.mark.lab

FORWARDING = "cat /proc/sys/net/ipv4/ip_forward; ls /etc/sysctl.d/99-roamlet-vpn.conf 2>/dev/null || :"


def test_forwarding_is_off_again_when_the_network_is_down_unless_somebody_needs_it(offices):
    network = offices.of("alpha", "beta")
    assert offices.apply(network).exit_code == 0
    assert offices.server("alpha").shell(FORWARDING) == "1\n/etc/sysctl.d/99-roamlet-vpn.conf\n"
    offices.server("beta").shell("ip link add br9 type bridge; ip link set br9 up")
    with offices.servers(network) as servers:
        assert down(network, servers).exit_code == 0
    assert offices.server("alpha").shell(FORWARDING) == "0\n"
    assert offices.server("beta").shell(FORWARDING) == "1\n"
    offices.server("beta").shell("ip link del br9")


def test_a_route_that_was_taken_over_comes_back_with_the_rollback(offices):
    network = offices.of("alpha", "beta")
    assert offices.apply(network).exit_code == 0
    server = offices.server("alpha")
    server.shell("ip route add 192.168.77.0/24 via 192.168.10.1 proto static")
    before = server.shell("ip route show 192.168.77.0/24")
    lan = ip_network("192.168.77.0/24")
    wanted = {"alpha": [Routes("", (lan,)), EnableUnit("", "wg-quick@other.service")]}
    with offices.servers(network) as servers:
        servers.connect()
        report = Transaction(servers, wanted, check=lambda facts: {}, rollback_after=60).run()
    assert "is not the unit of wg0" in str(report.failure)
    assert server.shell("ip route show 192.168.77.0/24") == before
    server.shell("ip route del 192.168.77.0/24")
