"""What a network is meant to be: its sites, and which of them send what to which. Reads no file and touches no server.

Every value here has been checked (model/file.py does it, with lines and advice); the functions at the end only derive.
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
InterfaceAddress = ipaddress.IPv4Interface | ipaddress.IPv6Interface
Lan = ipaddress.IPv4Network | ipaddress.IPv6Network
Topology = Literal["mesh", "hub"]
BackendName = Literal["wireguard", "ssh"]

LISTEN_PORT = 51820
KEEPALIVE = 25  # seconds; what most NAT gateways keep a UDP mapping for, and what wg(8) proposes
INTERFACE = "wg0"
TUNNEL = ipaddress.IPv4Network("10.8.1.0/24")
# A server as ssh takes it, of letters that mean nothing to a shell: ssh itself gives the host on the way to one.
SERVER = re.compile(
    r"(?:(?P<user>[\w.+~$\\][\w.+~$\\-]*)@)?"
    r"(?:\[(?P<ip>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<host>[\w.+~][\w.+~%-]*))"
    r"(?::(?P<port>\d{1,5}))?"
)


@dataclass(frozen=True)
class Endpoint:
    """Where a site's server is reached from the internet: a name or an address, and a UDP port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def address(self) -> Address | None:
        """The host as an address; None when it is a name, which each server resolves by itself."""
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None


@dataclass(frozen=True)
class Site:
    """One office. `address` is None only until one has been given out (Network.with_addresses)."""

    name: str
    server: str  # as ssh takes it: [USER@]HOST[:PORT]
    sudo: bool = False
    via: str | None = None  # the ssh host on the way to it
    python: str | None = None  # the server's interpreter, instead of the one that is found
    address: Address | None = None  # inside the tunnel
    lan_address: Address | None = None  # of the server, in one of `lans`
    lans: tuple[Lan, ...] = ()
    gateway: Address | None = None  # of that LAN; what `roamlet vpn gateway` speaks of
    endpoint: Endpoint | None = None  # None: no site can call it, it calls the others
    listen_port: int = LISTEN_PORT
    keepalive: int | None = KEEPALIVE  # seconds, towards all of its peers
    mtu: int | None = None  # None: what wg-quick finds by the route to the peers
    other_peers: tuple[str, ...] = ()  # public keys of peers of its interface that are no sites, and stay as they are
    prefix: int | None = None  # of `address` on the interface; None: the tunnel's
    second: Address | None = None  # inside the tunnel's second range, where it has one
    second_prefix: int | None = None


@dataclass(frozen=True)
class Network:
    """All of it. Sites are in the order of the file."""

    tunnel: Lan = TUNNEL
    second: Lan | None = None  # a range of the other family, from which each site has an address too
    topology: Topology = "mesh"
    hub: str | None = None  # a site's name; set if and only if the topology is "hub"
    backend: BackendName = "wireguard"
    interface: str = INTERFACE
    ssh_config: str | None = None  # a file for ssh -F, for all sites
    sites: tuple[Site, ...] = ()

    def site(self, name: str) -> Site:
        """The site of this name. Raises KeyError."""
        for site in self.sites:
            if site.name == name:
                return site
        raise KeyError(name)

    def peers_of(self, site: Site) -> tuple[Site, ...]:
        """The sites that this one has a tunnel to: all others, or in a hub the hub alone, unless it is the hub."""
        others = tuple(other for other in self.sites if other.name != site.name)
        if self.topology == "mesh" or site.name == self.hub:
            return others
        return tuple(other for other in others if other.name == self.hub)

    def pairs(self) -> list[tuple[Site, Site]]:
        """The sites that have a tunnel to each other, each pair once, in the order of the file."""
        return [(one, other) for one, other in combinations(self.sites, 2) if other in self.peers_of(one)]

    def lans_behind(self, site: Site) -> tuple[Lan, ...]:
        """The LANs of all other sites, which this one's server must have routes to."""
        return tuple(lan for other in self.sites if other.name != site.name for lan in other.lans)

    def with_addresses(self) -> "Network":
        """The same with an address for each site, and one of the second range: the lowest free one for those that have none.

        Raises ValueError when the tunnel is too small; model/file.py has refused that before.
        """
        firsts = _given([site.address for site in self.sites], self.tunnel)
        seconds = [site.second for site in self.sites]
        if self.second is not None:
            seconds = list(_given(seconds, self.second))
        return replace(
            self,
            sites=tuple(
                replace(site, address=first, second=second)
                for site, first, second in zip(self.sites, firsts, seconds, strict=True)
            ),
        )

    @property
    def tunnels(self) -> tuple[Lan, ...]:
        """The ranges of the tunnel's own addresses, one or one of each family."""
        return (self.tunnel,) if self.second is None else (self.tunnel, self.second)

    def interface_addresses(self, site: Site) -> tuple[InterfaceAddress, ...]:
        """What the site's interface has, for example 10.8.1.1/24, and one of the second range. The site must have an address."""
        pairs = [(site.address, site.prefix, self.tunnel)]
        if self.second is not None and site.second is not None:
            pairs.append((site.second, site.second_prefix, self.second))
        return tuple(
            ipaddress.ip_interface(f"{address}/{lan.prefixlen if prefix is None else prefix}")
            for address, prefix, lan in pairs
        )


def endpoint_from(text: str) -> Endpoint | None:
    """HOST:PORT or [IPV6]:PORT as an endpoint; None for anything else."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9][A-Za-z0-9._-]*)):(\d{1,5})", text)
    if match is None or not 1 <= int(match[3]) <= 65535:
        return None
    if match[1] is not None:
        try:
            return Endpoint(str(ipaddress.IPv6Address(match[1])), int(match[3]))
        except ValueError:
            return None
    return Endpoint(match[2].lower(), int(match[3]))


def allowed_ips(network: Network, site: Site, peer: Site) -> tuple[Lan, ...]:
    """What `site` sends to `peer` and accepts from it, in the order of the configuration.

    In a mesh, and at the hub: the peer's tunnel address and its LANs. At a spoke: the whole tunnel range and every LAN but its own,
    because the hub passes them on. A peer without an address yet has its LANs alone.
    """
    if network.topology == "hub" and site.name != network.hub:
        return (*network.tunnels, *network.lans_behind(site))
    own = (ipaddress.ip_network(address) for address in (peer.address, peer.second) if address is not None)
    return (*own, *peer.lans)


def _given(addresses: Iterable[Address | None], lan: Lan) -> Iterator[Address]:
    """Each of these addresses, and a free one of the range in place of each that is None. Raises ValueError when it is full."""
    wanted = list(addresses)
    free = (address for address in lan.hosts() if address not in wanted)
    for number, address in enumerate(wanted, 1):
        found = address or next(free, None)
        if found is None:
            raise ValueError(f"{lan} has no free address left for site {number}")
        yield found


def needs_ipv6(network: Network) -> bool:
    """Whether anything of IPv6 goes through the tunnels, for which their MTU must be 1280 or more."""
    return any(lan.version == 6 for site in network.sites for lan in (*site.lans, *network.tunnels))


def is_inside(lan: Lan, network: Lan) -> bool:
    """Whether all of `lan` is in `network`, which one of the other family never is."""
    return lan.version == network.version and lan.subnet_of(network)  # type: ignore[arg-type]  # the versions are equal


def ssh_device(network: Network, site: Site, far: Site) -> str:
    """The tun device by which `site` sends to `far` with the ssh backend.

    It is called after the place in the tunnel of the next site on the way, so that numbers stay when others come and go. All need
    an address (Network.with_addresses).
    """
    others = network.peers_of(site)
    towards = far if far in others else others[0]
    assert towards.address is not None
    return f"tun{int(towards.address) - int(network.tunnel.network_address)}"
