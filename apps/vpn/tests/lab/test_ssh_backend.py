"""Two offices joined by ssh tunnels, slower than WireGuard by far, and taken over to it without a gap."""

from dataclasses import replace

import pytest

from apps.vpn.tests.lab.test_checks import network_of, servers_of
from roamlet_lab import Lab
from roamlet_vpn.check.throughput import throughput
from roamlet_vpn.commands import lifecycle
from roamlet_vpn.commands.apply import apply

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]
SECONDS = 3.0


@pytest.fixture(scope="module")
def lab():
    """Two offices, 80 ms apart."""
    with Lab(2, rtt=0.080) as made:
        yield made


def answers(one, other):
    """Whether it does before long: ssh takes its time to connect, and to notice that it must do so again."""
    return any(one.ping(other.address, timeout=2) for _ in range(30))


def test_from_ssh_to_wireguard_without_a_gap_and_more_than_twice_as_fast(lab):
    alpha, beta = lab.offices
    network = replace(network_of(lab), backend="ssh")
    with servers_of(lab, network) as servers:
        assert apply(network, servers).exit_code == 0
        assert answers(alpha.client, beta.client)
        slow = next(throughput(network, servers, SECONDS))
        assert slow.rate, slow.error
        with alpha.client.pings(beta.client.address) as pings:
            said = []
            report = apply(replace(network, backend="wireguard"), servers, say=said.append)
            assert report.exit_code == 0, report.lines()
            assert not [line for line in said if "handshake" in line]
            for office in lab.offices:  # nothing is left of what held the routes until then
                assert "5182" not in office.server.run(["ip", "rule"]).stdout
            assert lifecycle.down(network, servers).exit_code == 0
            assert alpha.client.ping(beta.client.address, timeout=5)
        assert pings.lost == 0
        fast = next(throughput(network, servers, SECONDS))
        assert fast.rate, fast.error
        assert fast.rate > 2 * slow.rate
    for office in lab.offices:
        assert "tun" not in office.server.run(["ip", "-o", "link"]).stdout
        assert (
            office.server.run(
                ["sh", "-c", "ls -d /etc/roamlet-vpn /etc/ssh/sshd_config.d/roamlet-vpn.conf"], check=False
            ).stdout
            == ""
        )
