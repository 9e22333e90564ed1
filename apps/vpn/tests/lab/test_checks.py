"""What status and check report about two joined offices in which one thing at a time is broken, and that what they advise helps."""

import ipaddress
import json
import subprocess
from contextlib import contextmanager
from dataclasses import replace

import pytest

from roamlet.cli import main
from roamlet_lab import Lab
from roamlet_vpn.commands import checking
from roamlet_vpn.commands.apply import apply
from roamlet_vpn.model.edit import new_text
from roamlet_vpn.model.network import Endpoint, Network, Site, allowed_ips
from roamlet_vpn.servers import Servers

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


def network_of(lab, **changes):
    """The offices as sites, each with its IPv4 LAN."""
    sites = []
    for number, office in enumerate(lab.offices, 1):
        site = Site(
            office.name,
            office.name,
            address=ipaddress.ip_address(f"10.8.1.{number}"),
            lan_address=ipaddress.ip_address(office.server.address),
            lans=(ipaddress.ip_network(f"{office.server.address}/24", strict=False),),
            endpoint=Endpoint(str(office.place.wan), 51820),
        )
        sites.append(replace(site, **changes))
    return Network(sites=tuple(sites))


@contextmanager
def servers_of(lab, network):
    with Servers(network, ssh_config=lab.ssh_config) as servers:
        yield servers


def applied(lab, network):
    with servers_of(lab, network) as servers:
        report = apply(network, servers)
    assert report.exit_code == 0, report.lines()


@pytest.fixture(scope="module")
def lab():
    """Two offices, 20 ms apart, joined."""
    with Lab(2, rtt=0.020) as made:
        applied(made, network_of(made))
        settled(made)
        yield made


def settled(lab):
    """Wait for the tunnel: WireGuard tries a handshake that was lost again after five seconds."""
    assert any(lab.offices[0].server.ping("10.8.1.2", timeout=2) for _ in range(15))


def checked(lab, network=None, **options):
    network = network or network_of(lab)
    with servers_of(lab, network) as servers:
        asked = {office.name: (ipaddress.ip_address(office.client.address),) for office in lab.offices}
        return checking.run_check(network, servers, asked, **options)


def told(found):
    return {(one.severity, one.name, one.site) for one in found.diagnoses}


def the_only(found):
    (one,) = found.diagnoses
    return one


def reaches(lab, size=200_000, patience=40):
    """Whether so many bytes come over TCP from the client of alpha to that of beta, with no silence as long as `patience`."""
    alpha, beta = (office.client for office in lab.offices)
    listening = beta.popen(
        ["python3", "-c", RECEIVE, str(patience)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    assert listening.stdout.readline() == "ready\n"
    alpha.run(["timeout", str(patience), "python3", "-c", SEND, beta.address, str(size), str(patience)], check=False)
    return listening.communicate(timeout=3 * patience)[0] == f"{size}\n"


RECEIVE = """
import socket, sys
listening = socket.create_server(("", 7777))
print("ready", flush=True)
listening.settimeout(float(sys.argv[1]))
try:
    taken = listening.accept()[0]
    taken.settimeout(float(sys.argv[1]))
    count = 0
    while True:
        data = taken.recv(65536)
        if not data:
            break
        count += len(data)
except OSError:
    count = -1
print(count)
"""
SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], 7777), float(sys.argv[3])) as made:
    made.sendall(b"x" * int(sys.argv[2]))
"""


def wg(office, *words):
    return office.server.run(["wg", *words]).stdout


def forget_connections(lab):
    for office in lab.offices:
        office.gateway.run(["conntrack", "-F"])


def rejoined(lab):
    """The tunnels as apply makes them, with handshakes of their own and no gateway that remembers."""
    forget_connections(lab)
    network = network_of(lab)
    for office in lab.offices:
        for line in wg(office, "show", "wg0", "peers").split():
            wg(office, "set", "wg0", "peer", line, "remove")
    applied(lab, network)
    settled(lab)


def test_joined_offices_are_well(lab):
    found = checked(lab)
    assert found.diagnoses == () and found.exit_code == 0
    ways = found.plain()["latency"]
    for kind in ("servers", "lans"):
        assert ways[kind]["alpha"]["beta"] >= 0.020 and ways[kind]["beta"]["alpha"] >= 0.020


def written(path, network):
    """The network as a file, for the commands that a person types."""
    keys = ("server", "address", "lan_address", "endpoint")
    sites = {
        site.name: {**{key: str(getattr(site, key)) for key in keys}, "lans": [str(lan) for lan in site.lans]}
        for site in network.sites
    }
    path.write_text(new_text({"tunnel": str(network.tunnel)}, sites))
    return str(path)


def dumps(lab):
    """What `wg show wg0 dump` says on each server, by words."""
    return {
        office.name: [line.split("\t") for line in wg(office, "show", "wg0", "dump").splitlines()]
        for office in lab.offices
    }


def test_status_agrees_with_what_wg_says(lab, tmp_path, capsys):
    file = written(tmp_path / "network.toml", network_of(lab))
    while True:
        before = dumps(lab)
        assert main(["vpn", "status", "--json", "-f", file, "--ssh-config", lab.ssh_config]) == 0
        told = json.loads(capsys.readouterr().out)
        after = dumps(lab)
        if all(one[1:] and one[1][4] == after[name][1][4] for name, one in before.items()):
            break  # and no handshake has come in between
    assert told["well"] and list(told["sites"]) == list(before)
    for office in lab.offices:
        there = told["sites"][office.name]
        own, *peers = before[office.name]
        assert (there["public_key"], str(there["listen_port"])) == (own[1], own[2])
        assert len(there["peers"]) == len(peers)
        for peer, then, later in zip(there["peers"], peers, after[office.name][1:], strict=True):
            key, _, endpoint, allowed, handshake, rx, tx, keepalive = then
            assert (peer["public_key"], peer["endpoint"]) == (key, endpoint)
            assert ",".join(peer["allowed_ips"]) == allowed and str(peer["keepalive"]) == keepalive
            assert int(rx) <= peer["rx"] <= int(later[5]) and int(tx) <= peer["tx"] <= int(later[6])
            now = float(office.server.run(["date", "+%s.%N"]).stdout)
            assert 0 <= peer["handshake_age"] <= now - int(handshake)


def test_a_stateful_gateway_is_named_and_either_advice_helps(lab):
    beta = lab.offices[1]
    for office in lab.offices:
        # A host that follows redirects finds another way for some minutes: not every one does.
        office.client.shell(
            "sysctl -qw net.ipv4.conf.all.accept_redirects=0 net.ipv4.conf.eth0.accept_redirects=0; ip route flush cache"
        )
    beta.set(stateful=True)
    try:
        one = the_only(checked(lab))
        assert (one.severity, one.name, one.site) == ("error", "stateful-gateway", "beta")
        assert not reaches(lab, patience=6)
        rule = one.fix[0].split("`")[3]
        assert rule.startswith("nft insert rule ip filter forward ip saddr 192.168.20.0/24")
        beta.set(routes="clients")  # the other advice: routes by DHCP
        assert reaches(lab)
        assert checked(lab).exit_code == 0
    finally:
        beta.set(stateful=False, routes="gateway")
    assert reaches(lab)


SILENT = """
    nft add table inet silent
    nft add chain inet silent output '{ type filter hook output priority 0; }'
    nft add rule inet silent output icmp type destination-unreachable drop
"""


@pytest.mark.parametrize("told", [True, False], ids=["told", "black-hole"])
def test_a_small_mtu_of_the_internet_is_named_and_the_advice_helps(lab, told):
    """With and without anybody who says that a packet was too large: neither the internet nor the gateway does then."""
    beta = lab.offices[1]
    forget_path_mtus(lab)
    lab.internet.set(mtu=1400, blackhole=not told, office="beta")
    if not told:
        beta.gateway.shell(SILENT)
    try:
        one = the_only(checked(lab))
        # Where somebody says that a packet was too large, they go in pieces from then on; else they are lost.
        assert (one.name, one.severity) == ("mtu-too-large", "warning" if told else "error")
        assert "`mtu = 1340`" in one.fix[0]
        assert reaches(lab, patience=40 if told else 6) is told
        applied(lab, network_of(lab, mtu=1340))
        assert reaches(lab)
        assert checked(lab, network_of(lab, mtu=1340)).diagnoses == ()
        applied(lab, network_of(lab, mtu=1344))  # and not because anything smaller would do
        assert the_only(checked(lab, network_of(lab, mtu=1344))).name == "mtu-too-large"
    finally:
        if not told:
            beta.gateway.shell("nft delete table inet silent")
        lab.internet.set(mtu=1500, blackhole=False, office="beta")
        forget_path_mtus(lab)
        applied(lab, network_of(lab))


def forget_path_mtus(lab):
    for office in lab.offices:
        for machine in (office.server, office.client, office.gateway):
            machine.run(["ip", "route", "flush", "cache"])


class TestNothingComesThrough:
    """Three faults that look alike from the outside."""

    def test_a_port_forward_that_is_missing(self, lab):
        """Where beta waits to be called: two that call each other open their gateways by that."""
        beta = lab.offices[1]
        network = network_of(lab)
        silent = Network(sites=(replace(network.site("alpha"), endpoint=None), network.site("beta")))
        key = wg(beta, "show", "wg0", "peers").strip()
        allowed = ",".join(map(str, allowed_ips(network, network.site("beta"), network.site("alpha"))))
        beta.set(forward=())
        try:
            wg(beta, "set", "wg0", "peer", key, "remove")
            forget_connections(lab)
            wg(beta, "set", "wg0", "peer", key, "allowed-ips", allowed)
            assert told(checked(lab, silent)) == {("error", "port-forward-missing", "beta")}
        finally:
            beta.set(forward=[51820])
            rejoined(lab)

    def test_a_port_forward_that_is_missing_at_one_side_is_a_warning(self, lab):
        beta = lab.offices[1]
        beta.set(forward=())
        try:
            assert told(checked(lab)) == {("warning", "port-forward-missing", "beta")}
        finally:
            beta.set(forward=[51820])

    def test_a_wrong_key(self, lab):
        alpha = lab.offices[0]
        network = network_of(lab)
        right = wg(alpha, "show", "wg0", "peers").strip()
        wrong = alpha.server.shell("wg genkey | wg pubkey").strip()
        allowed = ",".join(map(str, allowed_ips(network, *network.sites)))
        wg(
            alpha,
            "set",
            "wg0",
            "peer",
            right,
            "remove",
            "peer",
            wrong,
            "allowed-ips",
            allowed,
            "endpoint",
            "198.51.100.2:51820",
        )
        try:
            assert told(checked(lab)) == {("error", "wrong-key", "alpha")}
        finally:
            wg(alpha, "set", "wg0", "peer", wrong, "remove")
            rejoined(lab)

    def test_wrong_allowed_ips(self, lab):
        beta = lab.offices[1]
        wg(beta, "set", "wg0", "peer", wg(beta, "show", "wg0", "peers").strip(), "allowed-ips", "10.8.1.99/32")
        try:
            assert told(checked(lab)) == {("error", "wrong-allowed-ips", "beta")}
        finally:
            rejoined(lab)


@pytest.mark.parametrize(
    ("broken", "mended", "name"),
    [
        ("ip route del 192.168.10.0/24", "ip route add 192.168.10.0/24 dev wg0", "server-route-missing"),
        ("sysctl -qw net.ipv4.ip_forward=0", "sysctl -qw net.ipv4.ip_forward=1", "forwarding-off"),
        (
            "nft add table ip f; nft add chain ip f forward '{ type filter hook forward priority 0; policy drop; }'",
            "nft delete table ip f",
            "server-firewall",
        ),
    ],
)
def test_what_is_wrong_on_a_server(lab, broken, mended, name):
    beta = lab.offices[1]
    beta.server.shell(broken)
    try:
        assert told(checked(lab)) == {("error", name, "beta")}
    finally:
        beta.server.shell(mended)


def test_a_gateway_without_routes_and_a_host_without_one(lab):
    beta = lab.offices[1]
    beta.set(routes="none")
    try:
        assert told(checked(lab)) == {("error", "gateway-route-missing", "beta")}
    finally:
        beta.set(routes="gateway")
    beta.client.shell("ip route del default")
    try:
        assert told(checked(lab)) == {("error", "client-route-missing", "beta")}
    finally:
        beta.set(routes="gateway")
    assert checked(lab).diagnoses == ()
