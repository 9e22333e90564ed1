"""What a check has measured, as plain values that check/diagnose.py reads: built from what the servers sent, each value checked.

Measures nothing and judges nothing.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from roamlet_vpn.model.network import Address
from roamlet_vpn.model.untrusted import Count, Mtu, Untrusted

# IP packets to a peer's endpoint: in steps of four around what providers leave of 1500 bytes, each twice against loss.
SIZES = 2 * (576, 1024, *range(1200, 1504, 4))

Kind = Literal["tunnel", "lan", "client", "gateway", "full", "wan", "own client", "own gateway"]


@dataclass(frozen=True)
class Sight:
    """A packet of the check, seen at one device of one server."""

    site: str
    device: str
    out: bool  # else it came in
    kind: str  # "request", "reply", "udp"; "initiation" and "response" of WireGuard have probe -1
    probe: int
    packet: int
    source: Address
    destination: Address
    length: int
    mac: str  # the sender's, "" where the device has no such thing


@dataclass(frozen=True)
class Echo:
    """Echo requests from one site's server, and what came back."""

    site: str
    peer: str | None  # None: inside the own LAN
    kind: Kind
    source: Address | None
    to: Address
    size: int  # of the whole IP packet
    sent: int
    times: tuple[float, ...]  # seconds
    error: str | None = None
    by: str | None = None  # the sender of that error; None: the own kernel
    trail: tuple[Sight, ...] = ()

    @property
    def lost(self) -> int:
        """How many did not come back."""
        return self.sent - len(self.times)

    @property
    def answered(self) -> bool:
        """Whether any came back."""
        return bool(self.times)

    def seen(self, site: str, device: str, out: bool, kind: str) -> bool:
        """Whether any packet of it passed there."""
        return _seen(self.trail, site, device, out, kind)


@dataclass(frozen=True)
class Datagrams:
    """Datagrams with DF to a peer's endpoint, which no gateway expects: sizes of IP packets that left, and that arrived."""

    site: str
    peer: str
    sent: tuple[int, ...]
    arrived: tuple[int, ...]
    error: str | None = None
    address: Address | None = None  # what the sender took the endpoint's host for; None: its name leads nowhere
    came_from: Address | None = None  # the sender as the peer's server saw it


@dataclass(frozen=True)
class Segments:
    """Connections that a server asked a host for, one a port, and where those and the answers were seen."""

    site: str
    peer: str | None  # None: inside the own LAN
    source: Address
    to: Address
    ports: tuple[int, ...]
    error: str | None = None
    trail: tuple[Sight, ...] = ()

    def answered(self, device: str) -> tuple[int, ...]:
        """The ports of which an answer came back to the site, by this device: that a connection was refused is one too."""
        return tuple(port for port in self.ports if _seen(self.trail, self.site, device, False, "reply", port))

    def seen(self, site: str, device: str, out: bool, kind: str, port: int) -> bool:
        """Whether any packet of it passed there."""
        return _seen(self.trail, site, device, out, kind, port)


@dataclass(frozen=True)
class Passage:
    """Packets in the name of a host of the site's LAN, handed to its gateway, for the far server: as that host would send them."""

    site: str
    peer: str
    source: Address
    to: Address
    tcp: bool  # else echoes
    error: str | None = None
    trail: tuple[Sight, ...] = ()

    def seen(self, site: str, device: str, out: bool, kind: str) -> bool:
        """Whether any packet of it passed there."""
        return _seen(self.trail, site, device, out, kind)


@dataclass(frozen=True)
class Chain:
    """A chain of a server's firewall that packets come by."""

    tool: str  # "nft", "iptables" or "ip6tables"
    family: str
    table: str
    name: str
    hook: str
    drops: bool
    rewrites: bool  # sources


@dataclass(frozen=True)
class Bounce:
    """Packets for a peer's LAN that the server handed to the gateway of its own LAN, as a client there would."""

    site: str
    peer: str
    gateway: Address
    request_back: bool
    reply_back: bool
    error: str | None = None
    source: Address | None = None  # the server's own address in the LAN, of the same family as the packets
    to: Address | None = None  # in the peer's LAN


@dataclass(frozen=True)
class Way:
    """Where a server's kernel sends a packet for an address. dev None: nowhere."""

    dev: str | None
    via: Address | None = None
    mtu: Mtu | None = None


def _pair(untrusted: Untrusted) -> tuple[int, int]:
    both = untrusted.each()
    if len(both) != 2:
        raise untrusted.wrong("pair of numbers")
    return both[0].read(Count), both[1].read(Count)


Pair = Annotated[tuple[int, int], _pair]


@dataclass(frozen=True)
class Counters:
    """A server's counters at one moment; what it does not have is not there."""

    devices: Mapping[str, Mapping[str, Count]] = field(default_factory=dict)
    queues: Mapping[str, Count] = field(default_factory=dict)
    udp: Mapping[str, Count] = field(default_factory=dict)
    socket_drops: Count | None = None
    tracked: Pair | None = None  # connections, and the most there can be
    ssh: Pair | None = None  # bytes sent by its ssh connections, and sent again


@dataclass(frozen=True)
class Measured:
    """What one server measured of itself."""

    ways: Mapping[Address, Way] = field(default_factory=dict)
    settings: Mapping[str, str | None] = field(default_factory=dict)
    before: Counters = field(default_factory=Counters)
    after: Counters = field(default_factory=Counters)
    clock: float = 0.0  # seconds that its clock is ahead of the one here
    clock_within: float = 0.0  # seconds that this may be wrong by
    handshakes: tuple[Sight, ...] = ()  # WireGuard's, of all its peers
    missing: Mapping[str, str] = field(default_factory=dict)
    firewall: tuple[Chain, ...] | None = None  # None: not known

    def handshakes_seen(self, kind: str, out: bool) -> int:
        """How many of one kind ("initiation", "response") left the server, or came in."""
        return sum(sight.kind == kind and sight.out is out for sight in self.handshakes)


@dataclass(frozen=True)
class Measurements:
    """All of a check. A site that is in `unreachable` is in no other part."""

    sites: Mapping[str, Measured] = field(default_factory=dict)
    echoes: tuple[Echo, ...] = ()
    datagrams: tuple[Datagrams, ...] = ()
    bounces: tuple[Bounce, ...] = ()
    segments: tuple[Segments, ...] = ()
    passages: tuple[Passage, ...] = ()
    unreachable: Mapping[str, str] = field(default_factory=dict)

    def echo(self, site: str, peer: str | None, kind: Kind) -> Echo | None:
        """The first of this kind."""
        return next(iter(self.echoes_of(site, peer, kind)), None)

    def echoes_of(self, site: str, peer: str | None, kind: Kind) -> tuple[Echo, ...]:
        """All of this kind."""
        return tuple(echo for echo in self.echoes if (echo.site, echo.peer, echo.kind) == (site, peer, kind))

    @property
    def broken_pairs(self) -> frozenset[frozenset[str]]:
        """The pairs of sites whose servers do not reach each other through the tunnel."""
        silent = [echo for echo in self.echoes if echo.kind == "tunnel" and not echo.answered]
        return frozenset(frozenset((echo.site, echo.peer or "")) for echo in silent)


def _seen(trail: Iterable[Sight], site: str, device: str, out: bool, kind: str, packet: int | None = None) -> bool:
    return any(
        (sight.site, sight.device, sight.out, sight.kind) == (site, device, out, kind)
        and packet in (None, sight.packet)
        for sight in trail
    )


_TOOLS = ("nft", "iptables", "ip6tables")
# What a shell takes as it stands: these names become parts of commands that a person may copy.
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")


def chains(untrusted: Untrusted) -> tuple[Chain, ...]:
    """The firewall of a server, out of what host/check/firewall.py sent. Raises FactsError.

    Without chains whose names are no plain words, for which no command could be proposed.
    """
    found = (one.read(Chain) for one in untrusted.each())
    return tuple(
        one
        for one in found
        if one.tool in _TOOLS and all(_PLAIN.fullmatch(word) for word in (one.family, one.table, one.name))
    )


def sights(untrusted: Untrusted, site: str) -> tuple[Sight, ...]:
    """What a server saw, out of what host/check/watch.py sent. Raises FactsError."""
    return tuple(_sight(one, site) for one in untrusted.each())


def _sight(untrusted: Untrusted, site: str) -> Sight:
    parts = untrusted.each()
    if len(parts) != 10:
        raise untrusted.wrong("sight of ten values")
    _, device, direction, kind, probe, packet, source, destination, length, mac = parts
    return Sight(
        site=site,
        device=device.name(),
        out=direction.name() == "out",
        kind=kind.name(),
        probe=probe.whole(-1, 65535),
        packet=packet.whole(0, 65535),
        source=source.address(),
        destination=destination.address(),
        length=length.whole(0, 1 << 20),
        mac=mac.name(),
    )
