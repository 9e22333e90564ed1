"""Faults injected one after the other into two joined offices: check names each rightly, and what it proposes mends it.

A mend that is a command is taken from what check prints, word for word, and run where it says; one that is a value of the file is
written there and applied. Afterwards check must find nothing.
"""

import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_network

import pytest

from apps.vpn.tests.lab.test_checks import (
    applied,
    checked,
    forget_connections,
    forget_path_mtus,
    network_of,
    reaches,
    rejoined,
    settled,
    the_only,
    told,
    wg,
)
from roamlet_lab import Lab
from roamlet_vpn.model.network import Endpoint, Network

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

COMMAND = re.compile(r"on (\S+): `([^`]+)`")


@pytest.fixture(scope="module")
def lab():
    """Two offices, 20 ms apart, joined."""
    with Lab(2, rtt=0.020) as made:
        applied(made, network_of(made))
        settled(made)
        yield made


@dataclass(frozen=True)
class Fault:
    """What somebody does on a server, what check must report, and what takes it away again whatever became of it."""

    where: str
    inject: str
    severity: str
    name: str
    words: str  # of what check says, or what it has seen
    undo: str


GUARD = """
nft add table ip guard
nft add chain ip guard input '{ type filter hook input priority 0; policy drop; }'
nft add rule ip guard input ct state established,related accept
nft add rule ip guard input iifname '{ lo, eth0 }' accept
"""
FAULTS = {
    "longer-route": Fault(
        *("beta", "ip route add 192.168.10.48/28 via 192.168.20.1", "error", "more-specific-route"),
        *("sends 192.168.10.48/28, a part of the LAN of alpha, elsewhere", "ip route del 192.168.10.48/28"),
    ),
    "half-of-a-lan": Fault(
        *("beta", "ip route add 192.168.10.0/25 via 192.168.20.1", "error", "more-specific-route"),
        *("192.168.10.0/25 via 192.168.20.1 by eth0", "ip route del 192.168.10.0/25"),
    ),
    "blackhole": Fault(
        *("beta", "ip route add blackhole 192.168.10.50/32", "error", "more-specific-route"),
        *("192.168.10.50/32 is blackhole", "ip route del blackhole 192.168.10.50/32"),
    ),
    "policy-routing": Fault(
        "beta",
        "ip route add 192.168.10.0/24 via 192.168.20.1 table 99; ip rule add pref 50 to 192.168.10.0/24 lookup 99",
        *("error", "server-route-missing", "a rule of policy routing on the server of beta"),
        "ip rule del pref 50; ip rule del pref 1; ip route flush table 99",
    ),
    "masquerade-into-the-lan": Fault(
        *("beta", "iptables -t nat -A POSTROUTING -o eth0 -j MASQUERADE", "warning", "masquerade"),
        *("on the way from out of the tunnel into its LAN", "iptables -t nat -F POSTROUTING"),
    ),
    "masquerade-into-the-tunnel": Fault(
        "beta",
        "nft add table inet mine; nft add chain inet mine post '{ type nat hook postrouting priority 100; }'; "
        "nft add rule inet mine post oifname wg0 masquerade",
        *("warning", "masquerade", "with the source 10.8.1.2", "nft delete table inet mine"),
    ),
    "no-tcp-by-iptables": Fault(
        *("beta", "iptables -A FORWARD -p tcp -j DROP", "error", "server-firewall"),
        *("by TCP, while echoes pass", "iptables -F FORWARD"),
    ),
    "no-tcp-by-nft": Fault(
        "beta",
        "nft add table inet mine; nft add chain inet mine out '{ type filter hook forward priority 0; }'; "
        "nft add rule inet mine out iifname wg0 tcp flags syn reject",
        *("error", "server-firewall", "by TCP, while echoes pass", "nft delete table inet mine"),
    ),
    "nothing-to-the-server": Fault(
        *(
            "alpha",
            GUARD,
            "error",
            "server-firewall",
            "drops what comes to it out of the tunnel",
            "nft delete table ip guard",
        ),
    ),
    "nothing-begun-in-the-lan": Fault(
        "alpha",
        "iptables -P FORWARD DROP; iptables -A FORWARD -i wg0 -j ACCEPT; "
        "iptables -A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
        *("error", "server-firewall", "drops what hosts of alpha send into the tunnel"),
        "iptables -P FORWARD ACCEPT; iptables -F FORWARD",
    ),
    "a-device-that-does-not-forward": Fault(
        *("beta", "sysctl -qw net.ipv4.conf.eth0.forwarding=0", "error", "forwarding-off"),
        *("net.ipv4.conf.eth0.forwarding is 0 there", "sysctl -qw net.ipv4.conf.eth0.forwarding=1"),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_server_is_named_and_the_commands_that_are_proposed_mend_it(lab, name):
    fault = FAULTS[name]
    broken = lab.office(fault.where).server
    assert checked(lab).diagnoses == ()
    broken.shell(fault.inject)
    try:
        found = checked(lab)
        one = the_only(found)
        assert (one.severity, one.name, one.site) == (fault.severity, fault.name, fault.where), one
        assert fault.words in f"{one.what}; {one.evidence}", one
        assert found.exit_code == (1 if fault.severity == "error" else 0)
        commands = COMMAND.findall("\n".join(one.fix))
        if name == "policy-routing":
            commands = [(fault.where, re.search("`(ip rule add [^`]+)`", one.fix[1])[1])]
        assert commands, one.fix
        for server, command in commands:
            lab.office(server).server.shell(command)
        assert checked(lab).diagnoses == (), commands
        assert reaches(lab)
    finally:
        broken.shell(fault.undo, check=False)
    assert checked(lab).diagnoses == ()


def test_a_longer_route_of_a_gateway_is_named_with_the_part_that_it_takes_away(lab):
    beta = lab.office("beta")
    beta.gateway.shell("ip route add 192.168.10.48/28 dev wan0")
    try:
        one = the_only(checked(lab))
        assert (one.name, one.site) == ("gateway-route-missing", "beta")
        assert "does not send 192.168.10.50 to the server" in one.what and "a longer route" in one.evidence
        part, to = re.search(r"`ip route replace (\S+) via (\S+)`", one.fix[0]).groups()
        beta.gateway.shell(f"ip route replace {part} via {to}")
        assert checked(lab).diagnoses == ()
    finally:
        beta.gateway.shell("ip route del 192.168.10.48/28; ip route del 192.168.10.50/32", check=False)


# ---- names


def by_name(lab, **changes):
    """The same network, its endpoints names."""
    network = network_of(lab, **changes)
    return Network(
        sites=tuple(replace(site, endpoint=Endpoint(f"{site.name}.example", 51820)) for site in network.sites)
    )


@contextmanager
def leading_to(server, name, address):
    """The resolver of this server takes the name for this address. Its hosts file is that of all machines: one is put over it."""
    server.shell(f"sed 's/^.* {name}$/{address} {name}/' /etc/hosts >/run/hosts; mount --bind /run/hosts /etc/hosts")
    assert server.shell(f"getent hosts {name}").split()[0] == address
    over = []
    try:
        yield lambda: (over.append(True), server.shell("umount /etc/hosts"))
    finally:
        if not over:
            server.shell("umount /etc/hosts")


@pytest.fixture
def named(lab):
    network = by_name(lab)
    applied(lab, network)
    settled(lab)
    yield network
    rejoined(lab)


def test_a_name_that_leads_elsewhere_beside_an_endpoint_that_is_known(lab, named):
    with leading_to(lab.office("alpha").server, "beta.example", "198.51.100.99") as mend:
        one = the_only(checked(lab, named))
        assert (one.severity, one.name, one.site) == ("warning", "stale-name", "beta")
        assert "alpha takes it for 198.51.100.99" in one.evidence and "beta is at 198.51.100.2" in one.evidence
        assert one.fix[0].startswith("let beta.example lead to 198.51.100.2")
        mend()
        assert checked(lab, named).diagnoses == ()


def test_a_name_that_leads_to_a_dead_address_is_told_with_that_address_and_apply_mends_it_once_the_name_is_right(
    lab, named
):
    alpha, beta = lab.offices
    with leading_to(lab.office("alpha").server, "beta.example", "198.51.100.99") as mend:
        of_beta, of_alpha = wg(alpha, "show", "wg0", "peers").strip(), wg(beta, "show", "wg0", "peers").strip()
        allowed = wg(beta, "show", "wg0", "allowed-ips").split("\t")[1].strip().replace(" ", ",")
        wg(beta, "set", "wg0", "peer", of_alpha, "remove")
        wg(alpha, "set", "wg0", "peer", of_beta, "endpoint", "198.51.100.99:51820")
        forget_connections(lab)
        wg(alpha, "set", "wg0", "peer", of_beta, "remove")
        theirs = "10.8.1.2/32,192.168.20.0/24"
        wg(alpha, "set", "wg0", "peer", of_beta, "allowed-ips", theirs, "endpoint", "198.51.100.99:51820")
        wg(beta, "set", "wg0", "peer", of_alpha, "allowed-ips", allowed)
        one = the_only(checked(lab, named))
        assert (one.severity, one.name, one.site) == ("error", "stale-name", "beta")
        assert "alpha takes it for 198.51.100.99; what is sent there does not arrive" in one.evidence
        mend()
        applied(lab, named)
        settled(lab)
        assert checked(lab, named).diagnoses == ()


# ---- an internet that carries little


def with_ipv6(lab, **changes):
    network = network_of(lab, **changes)
    sites = (
        replace(site, lans=(*site.lans, ip_network(f"fd00:{number}0::/64")))
        for number, site in enumerate(network.sites, 1)
    )
    return Network(sites=tuple(sites))


@contextmanager
def carrying(lab, mtu, *, blackhole=False):
    beta = lab.office("beta")
    forget_path_mtus(lab)
    lab.internet.set(mtu=mtu, blackhole=blackhole, office="beta")
    if blackhole:
        beta.gateway.shell(
            "nft add table inet silent; nft add chain inet silent output '{ type filter hook output priority 0; }'; "
            "nft add rule inet silent output icmp type destination-unreachable drop"
        )
    try:
        yield
    finally:
        if blackhole:
            beta.gateway.shell("nft delete table inet silent")
        lab.internet.set(mtu=1500, blackhole=False, office="beta")
        forget_path_mtus(lab)
        applied(lab, network_of(lab))


@pytest.mark.parametrize("mtu", [1280, 1240])
def test_an_internet_of_1280_bytes_and_less_where_there_is_no_ipv6(lab, mtu):
    with carrying(lab, mtu):
        one = the_only(checked(lab))
        assert one.name == "mtu-too-large" and f"`mtu = {mtu - 60}`" in one.fix[0]
        applied(lab, network_of(lab, mtu=mtu - 60))
        assert checked(lab, network_of(lab, mtu=mtu - 60)).diagnoses == ()
        assert reaches(lab)


def test_an_internet_of_1280_bytes_under_ipv6_gets_no_mtu_that_ipv6_does_not_take(lab):
    applied(lab, with_ipv6(lab))
    with carrying(lab, 1280):
        one = the_only(checked(lab, with_ipv6(lab)))
        assert (one.severity, one.name) == ("warning", "mtu-too-large") and "carries too little for IPv6" in one.what
        assert one.fix[0].startswith("set `mtu = 1280`")
        applied(lab, with_ipv6(lab, mtu=1280))
        assert reaches(lab)
        client, far = lab.office("alpha").client, "fd00:20::50"
        assert any(client.ping(far) for _ in range(5))
        rest = the_only(checked(lab, with_ipv6(lab, mtu=1280)))
        assert rest.severity == "warning" and not any(step.startswith("set `mtu") for step in rest.fix)


def test_where_pieces_are_lost_too_the_way_without_ipv6_is_told_and_works(lab):
    applied(lab, with_ipv6(lab))
    with carrying(lab, 1280, blackhole=True):
        one = the_only(checked(lab, with_ipv6(lab)))
        assert (one.severity, one.name) == ("error", "mtu-too-large") and "large ones are lost" in one.what
        assert "take its networks out of `lans` and `tunnel`, set `mtu = 1220`" in one.fix[-1]
        applied(lab, network_of(lab, mtu=1220))
        assert checked(lab, network_of(lab, mtu=1220)).diagnoses == ()
        assert reaches(lab)


def test_all_is_well_again(lab):
    assert told(checked(lab)) == set()
