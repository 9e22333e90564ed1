"""What each server is to send in a check: pure, from the network, the facts and the neighbours that were found.

Each probe has a number that no other probe of the check has, on any server: every packet of the probe carries it.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from roamlet_vpn.backends import backend_of
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.measured import SIZES, Kind
from roamlet_vpn.model.network import Address, Lan, Network, Site

SMALL = 84  # bytes of an ordinary echo request, as ping sends it
PINGS = 10
INTERVAL = 0.1  # seconds between the requests of one probe
WAIT = 1.0  # seconds that the last answers get
PATIENCE = 6.0  # seconds for the first answer through a tunnel: WireGuard repeats a handshake after 5
CLIENTS = 2  # of each LAN, that are asked
SETTINGS = ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "net/ipv4/icmp_echo_ignore_all")
SAFE = re.compile(r"(?!\.)[A-Za-z0-9_@-][A-Za-z0-9_.@-]*")
OF_DEVICE = "net/ipv4/conf/%s/forwarding"  # one of IPv4 passes on what comes in by it, or does not
PARTS = ("echoes", "datagrams", "bounces", "segments", "passages")
PORTS = (22, 80, 445)  # asked for by TCP: a host that is up answers there, be it with a refusal

# IP packets inside the tunnel. WireGuard fills up to multiples of 16.
INNER = (*range(1408, 1279, -16), 1200, 1024, 576)


@dataclass(frozen=True)
class Probe:
    """One probe of a plan: to which site (None: the own LAN), what the server was told of it, and of echoes the kind."""

    peer: str | None
    plain: Mapping[str, Any]
    kind: Kind | None = None


@dataclass(frozen=True)
class ProbePlan:
    """What one server is to send: as it is told (`plain`), and what each number stands for, by the names of PARTS."""

    plain: Mapping[str, Any]
    probes: Mapping[str, Mapping[int, Probe]]


def make_probe_plans(
    network: Network,
    facts: Mapping[str, Facts],
    neighbours: Mapping[str, tuple[Address, ...]],
    clients: Mapping[str, tuple[Address, ...]],
    mark: int,
) -> dict[str, ProbePlan]:
    """A probe plan for each site that has facts and neighbours (there may be none). `clients`: hosts to ask instead of those."""
    asked = {
        name: clients.get(name) or _some_clients(network.site(name), facts[name], found)
        for name, found in neighbours.items()
        if name in facts
    }
    numbers = itertools.count(1)
    return {
        site.name: _Planner(network, site, facts[site.name], asked, numbers).make(mark)
        for site in network.sites
        if site.name in asked
    }


def gateway_of(site: Site, facts: Facts) -> Address | None:
    """The gateway of the site's LAN: the file's, else the server's default one; None where the server is the gateway itself."""
    if site.gateway is not None:
        return site.gateway
    for route in facts.routes:
        if route.to.prefixlen == 0 and route.via is not None and any(route.via in lan for lan in site.lans):
            return route.via
    return None


def gateways_of(site: Site, facts: Facts) -> dict[int, Address]:
    """The gateway of the site's LAN for each family, by 4 and 6; that of IPv6 is mostly known by its link-local address."""
    found: dict[int, Address] = {} if site.gateway is None else {site.gateway.version: site.gateway}
    device = lan_device(site, facts)
    for route in facts.routes:
        via, version = route.via, route.to.version
        if route.to.prefixlen or via is None or version in found:
            continue
        if any(via in lan for lan in site.lans) or (via.is_link_local and route.dev == device):
            found[version] = via
    return found


def lan_device(site: Site, facts: Facts) -> str | None:
    """The device that has the server's address in the LAN."""
    for name, device in facts.devices.items():
        if any(address.ip == site.lan_address for address in device.addresses):
            return name
    return None


def ways_to(peer: Site) -> tuple[Address, ...]:
    """The addresses of a site to which a server must have routes into the tunnel: one for each LAN."""
    own = () if peer.lan_address is None else (peer.lan_address,)
    return own + tuple(_first_host(lan) for lan in peer.lans if peer.lan_address is None or peer.lan_address not in lan)


@dataclass(frozen=True)
class _Planner:
    network: Network
    site: Site
    facts: Facts
    clients: Mapping[str, tuple[Address, ...]]
    numbers: Iterator[int]
    probes: Mapping[str, dict[int, Probe]] = field(default_factory=lambda: {part: {} for part in PARTS})

    def make(self, mark: int) -> ProbePlan:
        peers = [peer for peer in self.network.sites if peer.name != self.site.name]
        for peer in peers:
            self._echoes_to(peer)
        for peer in self.network.peers_of(self.site):
            self._wan(peer)
        self._inside()
        self._bounces(peers)
        self._passages(peers)
        plain = {
            "mark": mark,
            "interval": INTERVAL,
            "wait": WAIT,
            "patience": PATIENCE,
            "port": backend_of(self.network).listen_port(self.site, self.facts),
            "settings": [*SETTINGS, *self._of_devices(peers)],
            "routes": sorted({str(address) for peer in peers for address in self._far(peer)}),
        }
        parts = {part: [probe.plain for probe in probes.values()] for part, probes in self.probes.items()}
        return ProbePlan({**plain, **parts}, self.probes)

    def _add(self, part: str, peer: str | None, kind: Kind | None = None, /, **plain: Any) -> None:
        number = next(self.numbers)
        self.probes[part][number] = Probe(peer, {"number": number, **plain}, kind)

    def _far(self, peer: Site) -> tuple[Address, ...]:
        """The addresses of a far site that a host of this one may want, of which something is known."""
        return (*ways_to(peer), *self.clients.get(peer.name, ()))

    def _of_devices(self, peers: Iterable[Site]) -> Iterator[str]:
        """The settings of the devices between which packets are passed on."""
        tunnels = {tunnel_device(self.network, self.site, peer) for peer in peers}
        for device in (lan_device(self.site, self.facts), *sorted(tunnels)):
            if device is not None and device in self.facts.devices and SAFE.fullmatch(device):
                yield OF_DEVICE % device

    def _echoes_to(self, peer: Site) -> None:
        site = self.site
        if site.address is not None and peer.address is not None:
            self._echo(peer.name, "tunnel", site.address, peer.address)
            if self.facts.interface is not None and peer in self.network.peers_of(site):
                for size in (self.facts.interface.mtu, *(size for size in INNER if size < self.facts.interface.mtu)):
                    self._echo(peer.name, "full", site.address, peer.address, count=2, size=size, df=True)
        if site.lan_address is not None and peer.lan_address is not None:
            self._echo(peer.name, "lan", site.lan_address, peer.lan_address)
        for client in self.clients.get(peer.name, ()):
            if site.lan_address is not None:
                self._echo(peer.name, "client", site.lan_address, client, count=5)
                self._segments(peer.name, client)

    def _wan(self, peer: Site) -> None:
        if peer.endpoint is None:
            return
        if peer.endpoint.address is not None:
            self._echo(peer.name, "wan", None, peer.endpoint.address)
        if backend_of(self.network).udp:
            self._add("datagrams", peer.name, to=peer.endpoint.host, port=peer.endpoint.port, sizes=list(SIZES))

    def _inside(self) -> None:
        if self.site.lan_address is not None:
            for client in self.clients.get(self.site.name, ()):
                self._echo(None, "own client", self.site.lan_address, client, count=3)
                self._segments(None, client)

    def _segments(self, peer: str | None, client: Address) -> None:
        source = self.site.lan_address
        if source is not None and (source.version, client.version) == (4, 4):
            self._add("segments", peer, source=str(source), to=str(client), ports=list(PORTS))

    def _passages(self, peers: Iterable[Site]) -> None:
        device, gateway = lan_device(self.site, self.facts), gateways_of(self.site, self.facts).get(4)
        client = next((one for one in self.clients.get(self.site.name, ()) if one.version == 4), None)
        if device is None or gateway is None or client is None:
            return
        for peer in peers:
            if peer.lan_address is None or peer.lan_address.version != 4:
                continue
            ways = {"source": str(client), "to": str(peer.lan_address), "via": str(gateway), "device": device}
            for tcp in (False, True):
                self._add("passages", peer.name, **ways, tcp=tcp)

    def _bounces(self, peers: Iterable[Site]) -> None:
        device = lan_device(self.site, self.facts)
        for version, gateway in gateways_of(self.site, self.facts).items():
            own = self._own(device, version)
            if own is None or device is None:
                continue
            ways = {"source": str(own), "via": str(gateway), "device": device}
            for peer in peers:
                for far in (address for address in self._far(peer) if address.version == version):
                    self._add("bounces", peer.name, to=str(far), **ways)

    def _own(self, device: str | None, version: int) -> Address | None:
        """The server's address in its LAN, of this family."""
        if self.site.lan_address is not None and self.site.lan_address.version == version:
            return self.site.lan_address
        there = self.facts.devices[device].addresses if device is not None else ()
        own = (address.ip for address in there if address.version == version)
        return next((address for address in own if any(address in lan for lan in self.site.lans)), None)

    def _echo(
        self,
        peer: str | None,
        kind: Kind,
        source: Address | None,
        to: Address,
        count: int = PINGS,
        size: int = SMALL,
        df: bool = False,
    ) -> None:
        if source is None or source.version == to.version:
            ends = {"source": None if source is None else str(source), "to": str(to)}
            self._add("echoes", peer, kind, **ends, count=count, size=size, df=df, patient=kind == "tunnel")


def _some_clients(site: Site, facts: Facts, neighbours: tuple[Address, ...]) -> tuple[Address, ...]:
    not_clients = {gateway_of(site, facts), site.lan_address}
    return tuple(address for address in neighbours if address not in not_clients)[:CLIENTS]


def _first_host(lan: Lan) -> Address:
    return lan.network_address + (1 if lan.num_addresses > 1 else 0)


def tunnel_device(network: Network, site: Site, peer: Site) -> str:
    """The device by which the site's server sends to the peer."""
    return backend_of(network).device(network, site, peer)
