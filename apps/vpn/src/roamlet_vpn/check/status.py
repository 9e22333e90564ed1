"""How the tunnels are: handshakes, endpoints and rates, from the facts of two moments. Pure, but for `Watching`, which asks."""

import ipaddress
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from roamlet_vpn.model.facts import Facts, LivePeer
from roamlet_vpn.model.network import Network, Site
from roamlet_vpn.servers import Servers
from roamlet_vpn.ssh.status import SshTunnel, ssh_tunnels
from roamlet_vpn.wireguard.live import HANDSHAKE_HOLDS

__all__ = ["PeerStatus", "SiteStatus", "Watching", "is_well", "plain", "status"]

State = Literal["up", "idle", "down"]


@dataclass(frozen=True)
class PeerStatus:
    """A tunnel as one of its ends has it."""

    peer: str | None  # the site; None: a key that is no site's
    public_key: str
    state: State  # idle: no handshake for three minutes, and nothing that asks for one
    endpoint: str | None
    handshake_age: float | None  # seconds
    rx: int  # bytes
    tx: int
    rx_rate: float | None = None  # bytes a second; None at the first look
    tx_rate: float | None = None
    allowed_ips: tuple[str, ...] = ()
    keepalive: int | None = None

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "allowed_ips": list(self.allowed_ips)}


@dataclass(frozen=True)
class SiteStatus:
    """One server. `error` says why nothing else is known."""

    site: str
    error: str | None = None
    public_key: str | None = None
    listen_port: int | None = None
    mtu: int | None = None
    up: bool = False
    reached: bool = True
    peers: tuple[PeerStatus | SshTunnel, ...] = ()


def status(
    network: Network,
    facts: Mapping[str, Facts],
    errors: Mapping[str, str],
    before: Mapping[str, Facts] | None = None,
) -> tuple[SiteStatus, ...]:
    """Of every site, in the order of the file. `before` are facts of an earlier moment, which rates are taken from."""
    keys = {one.interface.public_key: name for name, one in facts.items() if one.interface is not None}
    # A server that cannot be asked tells no key: what its peers send to its address in the tunnel says which of theirs it is.
    away = {
        ipaddress.ip_network(site.address): site.name
        for site in network.sites
        if site.name not in facts and site.address is not None
    }
    made = []
    for site in network.sites:
        now = facts.get(site.name)
        if now is None:
            made.append(SiteStatus(site.name, errors.get(site.name, "there are no facts of it"), reached=False))
        elif network.backend == "ssh":
            made.append(_of_ssh(network, site, now, (before or {}).get(site.name)))
        elif now.interface is None:
            made.append(SiteStatus(site.name, f"there is no {network.interface}: `roamlet vpn apply` sets it up"))
        else:
            earlier = (before or {}).get(site.name)
            named: dict[str | None, str] = {
                peer.public_key: away[lan] for peer in now.interface.peers for lan in peer.allowed_ips if lan in away
            }
            made.append(_of_site(network, site, now, earlier, {**named, **keys}))
    return tuple(made)


def is_well(sites: tuple[SiteStatus, ...]) -> bool:
    """Whether every server was reached and has its tunnels."""
    return all(one.error is None and one.up and all(peer.state != "down" for peer in one.peers) for one in sites)


def plain(sites: tuple[SiteStatus, ...]) -> dict[str, Any]:
    """For JSON; numbers and texts are those of `wg show dump`."""
    return {
        "sites": {
            one.site: {
                "error": one.error,
                "public_key": one.public_key,
                "listen_port": one.listen_port,
                "mtu": one.mtu,
                "up": one.up,
                "peers": [peer.plain() for peer in one.peers],
            }
            for one in sites
        },
        "well": is_well(sites),
    }


class Watching:
    """Looks at the servers again and again; the rates are those since the last look."""

    def __init__(self, network: Network, servers: Servers) -> None:
        self.network = network
        self.servers = servers
        self.facts: dict[str, Facts] = {}

    def look(self) -> tuple[SiteStatus, ...]:
        """Connects where there is no connection, and asks all. Blocks for a round trip where there is."""
        self.servers.connect()
        before, errors = self.facts, {}
        self.facts = {}
        for name, answer in self.servers.facts().items():
            if answer.value is not None:
                self.facts[name] = answer.value
            else:
                errors[name] = str(answer.error)
        return status(self.network, self.facts, errors, before)

    def looks(self, interval: float) -> Iterator[tuple[SiteStatus, ...]]:
        """One look after the other, for ever, begun `interval` seconds apart."""
        while True:
            began = time.monotonic()
            yield self.look()
            time.sleep(max(0.0, began + interval - time.monotonic()))


def _of_ssh(network: Network, site: Site, now: Facts, before: Facts | None) -> SiteStatus:
    tunnels = ssh_tunnels(network, site, now, before)
    if now.ssh is None or not now.ssh.there:
        return SiteStatus(site.name, "there are no ssh tunnels: `roamlet vpn apply` makes them")
    return SiteStatus(site.name, up=True, peers=tunnels)


def _of_site(
    network: Network, site: Site, now: Facts, before: Facts | None, keys: Mapping[str | None, str]
) -> SiteStatus:
    running = now.interface
    assert running is not None
    earlier = (
        {} if before is None or before.interface is None else {one.public_key: one for one in before.interface.peers}
    )
    seconds = 0.0 if before is None else now.time - before.time
    peers = [
        _of_peer(peer, keys.get(peer.public_key), earlier.get(peer.public_key), seconds, site) for peer in running.peers
    ]
    order = {other.name: number for number, other in enumerate(network.sites)}
    peers.sort(key=lambda one: order.get(one.peer or "", len(order)))
    return SiteStatus(
        site.name, None, running.public_key, running.listen_port, running.mtu, running.up, peers=tuple(peers)
    )


def _of_peer(peer: LivePeer, name: str | None, before: LivePeer | None, seconds: float, site: Site) -> PeerStatus:
    may_be_away = peer.public_key in site.other_peers  # a home worker's machine is off at night
    fresh = peer.handshake_age is not None and peer.handshake_age <= HANDSHAKE_HOLDS
    rates: tuple[float | None, float | None] = (None, None)
    if before is not None and seconds > 0 and peer.rx >= before.rx and peer.tx >= before.tx:
        rates = ((peer.rx - before.rx) / seconds, (peer.tx - before.tx) / seconds)
    return PeerStatus(
        peer=name,
        public_key=peer.public_key,
        state="up"
        if fresh
        else "down"
        if not may_be_away and (peer.keepalive or peer.handshake_age is None)
        else "idle",
        endpoint=None if peer.endpoint is None else str(peer.endpoint),
        handshake_age=peer.handshake_age,
        rx=peer.rx,
        tx=peer.tx,
        rx_rate=rates[0],
        tx_rate=rates[1],
        allowed_ips=tuple(str(lan) for lan in peer.allowed_ips),
        keepalive=peer.keepalive,
    )
