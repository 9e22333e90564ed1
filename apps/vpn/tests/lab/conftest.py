"""Offices for the tests of roamlet vpn: built once for each module, their servers made bare again before each test."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from ipaddress import ip_network
from typing import Any

import pytest

import roamlet_lab
from roamlet_lab import Lab, Machine
from roamlet_vpn.commands.apply import apply
from roamlet_vpn.commands.transaction import Report
from roamlet_vpn.model.network import Endpoint, Network, Site
from roamlet_vpn.servers import Servers

# What runs on a server as a tunnel and its surroundings; the private key is left to `wg show`, which hides it.
STATE = """
    wg show wg0 dump 2>/dev/null | awk 'NR==1 {print $2, $3, $4} NR>1 {print $1, $4, $8}' | sort
    ip -o address show dev wg0 2>/dev/null | awk '{print $3, $4}' | grep -v fe80
    ip route show dev wg0 2>/dev/null
    ip -o link show dev wg0 2>/dev/null | grep -o 'mtu [0-9]*'
    sha256sum /etc/wireguard/wg0.conf /etc/sysctl.d/99-roamlet-vpn.conf 2>&1
    stat -c '%a %U %n' /etc/wireguard/*.conf 2>/dev/null
    cat /proc/sys/net/ipv4/ip_forward
"""
BARE = """
    for folder in /run/roamlet-vpn/*/; do [ -e $folder/armed ] && mv $folder/armed $folder/disarmed; done 2>/dev/null
    [ -d /run/systemd/system ] && systemctl disable --now wg-quick@wg0
    ip link del dev wg0
    timeout 60 sh -c 'while wg show wg0; do sleep 0.05; done'  # a WireGuard that is a process ends a little later
    rm -rf /etc/wireguard/* /etc/sysctl.d/99-roamlet-vpn.conf /run/roamlet-vpn
    echo 0 > /proc/sys/net/ipv4/ip_forward
    true
"""
SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], 7777), 20) as peer:
    peer.sendall(b"x" * 200_000)
    peer.shutdown(socket.SHUT_WR)
    print(peer.recv(99).decode())
"""
TAKE = """
import socket
with socket.create_server(("", 7777)) as listener:
    print("ready", flush=True)
    listener.settimeout(20)
    peer, _ = listener.accept()
    peer.settimeout(20)
    taken = 0
    while data := peer.recv(65536):
        taken += len(data)
    peer.sendall(str(taken).encode())
"""


class Patient(Servers):
    """Servers that are given time to let somebody in: this machine may have much else to do."""

    def connect(self, names: Any = None, *, timeout: float = 100.0, fresh: bool = False) -> dict[str, Exception]:
        return super().connect(names, timeout=timeout if fresh else max(timeout, 100.0), fresh=fresh)


@dataclass
class Company:
    """A lab, and the network that it is to become."""

    lab: Lab
    network: Network  # all of the offices

    def of(self, *names: str, **changes: Any) -> Network:
        """A network of these sites alone."""
        sites = tuple(site for site in self.network.sites if site.name in names)
        return replace(self.network, sites=sites, **changes)

    def server(self, name: str) -> Machine:
        return self.lab.office(name).server

    def client(self, name: str) -> Machine:
        return self.lab.office(name).client

    def state(self, name: str) -> str:
        """What the tunnel of this site is, on the disk and running."""
        return self.server(name).run(["sh", "-c", STATE], check=False).stdout

    def states(self, *names: str) -> dict[str, str]:
        return {name: self.state(name) for name in names or [site.name for site in self.network.sites]}

    def servers(self, network: Network | None = None, **options: Any) -> Servers:
        network = network or self.network
        return Patient(network, ssh_config=network.ssh_config or self.lab.ssh_config, **options)

    def apply(self, network: Network, **options: Any) -> Report:
        with self.servers(network) as servers:
            return apply(network, servers, **{"rollback_after": 120, **options})

    def reaches(self, office: str, other: str) -> bool:
        """Whether a client of one office gets an answer from one of another; the first may have to wait for a handshake."""
        target = self.client(other).address
        return any(self.client(office).ping(target, timeout=2) for _ in range(15))

    def sends(self, office: str, other: str) -> int:
        """How many of 200,000 bytes arrive over TCP from a client at a client."""
        taking = self.client(other).popen(["python3", "-c", TAKE], stdout=-1, text=True)
        try:
            assert taking.stdout.readline() == "ready\n"
            said = self.client(office).run(["python3", "-c", SEND, self.client(other).address]).stdout
            return int(said)
        finally:
            taking.communicate(timeout=30)

    def dump(self, name: str) -> list[list[str]]:
        """`wg show wg0 dump`, without the line of the interface, in which the private key is."""
        lines = self.server(name).run(["wg", "show", "wg0", "dump"]).stdout.splitlines()
        return sorted(line.split("\t") for line in lines[1:])


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Say what was measured, past pytest's capture; tools/run_lab.py shows these lines."""

    def say(text: str) -> None:
        with capsys.disabled():
            print(f"\nmeasured: {text}", flush=True)

    return say


def company(lab: Lab) -> Company:
    sites = tuple(
        Site(
            place.name,
            server=place.name,
            lan_address=place.server,
            lans=(ip_network(place.lan),),
            endpoint=Endpoint(str(place.wan), 51820),
        )
        for place in lab.places
    )
    return Company(lab, Network(sites=sites).with_addresses())


def built(**options: Any) -> Iterator[Company]:
    if reason := roamlet_lab.why_not():
        pytest.skip(reason)
    with Lab(offices=3, rtt=0.080, **options) as lab:
        yield company(lab)


@pytest.fixture(scope="module")
def plain_offices() -> Iterator[Company]:
    yield from built()


@pytest.fixture(scope="module")
def booted_offices() -> Iterator[Company]:
    yield from built(systemd=True)


def made_bare(offices: Company) -> Company:
    for office in offices.lab.offices:
        office.server.run(["sh", "-c", BARE])
        offices.lab.internet.mend(office.name)
    return offices


@pytest.fixture
def offices(plain_offices: Company) -> Company:
    """Three offices whose servers have no systemd, and nothing of a VPN."""
    return made_bare(plain_offices)


@pytest.fixture
def booted(booted_offices: Company) -> Company:
    """Three offices whose servers run systemd, and nothing of a VPN."""
    if (
        booted_offices.lab.offices[0].server.run(["systemctl", "is-system-running"], check=False).stdout.strip()
        == "offline"
    ):
        pytest.skip("the servers of this machine's labs run no systemd")
    return made_bare(booted_offices)
