"""Which office has which addresses, and the files that follow from that: rules of a gateway, hosts, ssh. Pure.

Office number N (from 1) has the LAN 192.168.<10 N>.0/24 and fd00:<10 N>::/64, with .1 the gateway, .50 the client and .100 the
server, and the WAN address 198.51.100.<N>. The internet's own machine, where whoever manages the servers sits, is 198.51.100.200.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from roamlet_lab.errors import LabError

NAMES = (
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"),
    *("nu", "xi", "omicron", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
)
MOST_OFFICES = 25  # 192.168.<10 N>.0/24

WAN = IPv4Network("198.51.100.0/24")
ADMIN = "admin"
ADMIN_ADDRESS = IPv4Address("198.51.100.200")
ROUTER = IPv4Address("198.51.100.254")  # who says that a packet is too large

NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
TUNNEL = IPv4Network("10.8.1.0/24")
ROUTES = ("gateway", "clients", "none")


@dataclass(frozen=True)
class Office:
    """What somebody wants an office to be like."""

    name: str
    stateful: bool = False
    """The gateway drops what belongs to no connection that it knows, as a strict firewall does."""
    forward: tuple[int, ...] = (51820,)
    """UDP ports of the WAN address that lead to the server. TCP port 22 always does."""
    routes: str = "gateway"
    """Which machines have routes to the other LANs: the "gateway", the "clients" (as by DHCP option 121), or "none"."""
    tunnel: IPv4Network = TUNNEL
    """Addresses that are routed to the server as the other LANs are."""

    def __post_init__(self) -> None:
        if (
            not NAME.fullmatch(self.name)
            or self.name == ADMIN
            or self.name.endswith(("-client", "-gateway", "-server"))
        ):
            raise LabError(
                f"{self.name!r} is no name for an office: small letters, digits and dashes, a letter first, "
                f"not {ADMIN!r}, not ending in -client, -gateway or -server; for example 'alpha'"
            )
        if self.routes not in ROUTES:
            raise LabError(f"routes={self.routes!r}: office {self.name} takes one of {', '.join(ROUTES)}")
        if any(not 1 <= port <= 65535 for port in self.forward):
            raise LabError(f"forward={self.forward!r}: office {self.name} takes UDP ports from 1 to 65535")


@dataclass(frozen=True)
class Place:
    """An office with its addresses."""

    office: Office
    number: int
    wan: IPv4Address

    @property
    def name(self) -> str:
        return self.office.name

    @property
    def lan(self) -> IPv4Network:
        return IPv4Network(f"192.168.{10 * self.number}.0/24")

    @property
    def lan6(self) -> IPv6Network:
        return IPv6Network(f"fd00:{10 * self.number}::/64")

    def address(self, host: int) -> IPv4Address:
        return self.lan[host]

    def address6(self, host: int) -> IPv6Address:
        return IPv6Address(f"fd00:{10 * self.number}::{host}")

    @property
    def gateway(self) -> IPv4Address:
        return self.address(1)

    @property
    def client(self) -> IPv4Address:
        return self.address(50)

    @property
    def server(self) -> IPv4Address:
        return self.address(100)

    @property
    def dns(self) -> str:
        """The name that always leads to the WAN address, as a dynamic DNS name would."""
        return f"{self.name}.example"


def places(offices: int | Iterable[str | Office]) -> tuple[Place, ...]:
    """Give addresses to offices: that many, or these. Raises LabError for none, too many or two of a name."""
    if isinstance(offices, int):
        if not 1 <= offices <= len(NAMES):
            raise LabError(f"{offices} offices: a lab has 1 to {len(NAMES)}, or up to {MOST_OFFICES} with names given")
        offices = NAMES[:offices]
    made = [office if isinstance(office, Office) else Office(office) for office in offices]
    if not 1 <= len(made) <= MOST_OFFICES:
        raise LabError(f"{len(made)} offices: a lab has 1 to {MOST_OFFICES}")
    names = [office.name for office in made]
    for name in names:
        if names.count(name) > 1:
            raise LabError(f"two offices are called {name!r}; give each a name of its own")
    return tuple(Place(office, number, WAN[number]) for number, office in enumerate(made, 1))


def gateway_rules(place: Place) -> str:
    """The nftables rules of the office's gateway: NAT, what is forwarded, and what is dropped."""
    ports = ", ".join(map(str, place.office.forward))
    udp = f"iifname wan0 udp dport {{ {ports} }} dnat to {place.server}" if ports else ""
    invalid = "ct state invalid drop" if place.office.stateful else ""
    return f"""\
flush ruleset
table ip nat {{
  chain prerouting {{ type nat hook prerouting priority -100;
    {udp}
    iifname wan0 tcp dport 22 dnat to {place.server}
  }}
  chain postrouting {{ type nat hook postrouting priority 100;
    oifname wan0 masquerade
  }}
}}
table inet filter {{
  chain forward {{ type filter hook forward priority 0; policy drop;
    {invalid}
    ct state established,related accept
    iifname br0 accept
    ct status dnat accept
  }}
  chain input {{ type filter hook input priority 0; policy drop;
    iifname {{ lo, br0 }} accept
    ct state established,related accept
    icmp type echo-request accept
    meta l4proto ipv6-icmp accept
  }}
}}
"""


def hosts_file(all_places: Sequence[Place]) -> str:
    """/etc/hosts of every machine: the one DNS of the lab."""
    lines = ["127.0.0.1 localhost", "::1 localhost", f"{ADMIN_ADDRESS} {ADMIN}"]
    for place in all_places:
        lines += [f"{place.wan} {place.dns}", f"{place.server} {place.name}", f"{place.client} {place.name}-client"]
    return "\n".join(lines) + "\n"


def known_hosts(all_places: Sequence[Place], keys: dict[str, str]) -> str:
    """The servers' public keys under each address and name that leads to them; a WAN address may become anybody's."""
    lines = [
        f"{place.name},{place.dns},{place.server},{place.address6(100)} {keys[place.name]}" for place in all_places
    ]
    # A server may get another WAN address, and any of them has one of these keys.
    lines += [f"198.51.100.* {key}" for key in keys.values()]
    return "\n".join(lines) + "\n"


def ssh_config(all_places: Sequence[Place], folder: str, proxy: str) -> str:
    """For ssh on this machine: an office's name leads to its server, over the internet, as root; NAME-admin as a user with sudo."""
    blocks = []
    for place in all_places:
        for alias, user in ((place.name, "root"), (f"{place.name}-admin", "admin")):
            blocks.append(f"Host {alias}\n    HostName {place.dns}\n    HostKeyAlias {place.name}\n    User {user}\n")
    # Whatever else is named, an address for one, is reached from there too.
    blocks.append(
        "Host *\n    User root\n    Port 22\n"
        f"    IdentityFile {folder}/id_ed25519\n    IdentitiesOnly yes\n    IdentityAgent none\n"
        f"    UserKnownHostsFile {folder}/known_hosts\n    GlobalKnownHostsFile none\n    StrictHostKeyChecking yes\n"
        f"    ConnectTimeout 20\n    ProxyCommand {proxy} nc %h %p\n"
    )
    return "\n".join(blocks)
