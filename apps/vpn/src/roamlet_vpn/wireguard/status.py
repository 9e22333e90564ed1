"""How WireGuard's tunnels are, from the facts of one server at two moments. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roamlet_vpn.model.facts import Facts, LivePeer
from roamlet_vpn.model.network import Network, Site
from roamlet_vpn.model.status import SiteStatus, TunnelStatus, age_text, rates
from roamlet_vpn.wireguard.live import HANDSHAKE_HOLDS


@dataclass(frozen=True, kw_only=True)
class PeerStatus(TunnelStatus):
    """Its state is idle after three minutes without a handshake, where nothing asks for one."""

    public_key: str
    endpoint: str | None
    handshake_age: float | None  # seconds
    allowed_ips: tuple[str, ...] = ()
    keepalive: int | None = None

    def label(self) -> str:
        return self.peer or f"unknown key {self.public_key[:8]}..."

    def since(self) -> str:
        return age_text(self.handshake_age)

    def by(self) -> str:
        return self.endpoint or "none"

    def plain(self) -> dict[str, Any]:
        return {**vars(self), "allowed_ips": list(self.allowed_ips)}


def site_status(
    network: Network, site: Site, now: Facts, before: Facts | None, names: Mapping[str | None, str]
) -> SiteStatus:
    """`names`: the sites by the public keys of their interfaces."""
    running = now.interface
    if running is None:
        return SiteStatus(site.name, f"there is no {network.interface}: `roamlet vpn apply` sets it up")
    earlier = (
        {} if before is None or before.interface is None else {one.public_key: one for one in before.interface.peers}
    )
    seconds = 0.0 if before is None else now.time - before.time
    peers = [
        _of_peer(peer, names.get(peer.public_key), earlier.get(peer.public_key), seconds, site)
        for peer in running.peers
    ]
    order = {other.name: number for number, other in enumerate(network.sites)}
    peers.sort(key=lambda one: order.get(one.peer or "", len(order)))
    return SiteStatus(
        site.name, None, running.public_key, running.listen_port, running.mtu, running.up, peers=tuple(peers)
    )


def _of_peer(peer: LivePeer, name: str | None, before: LivePeer | None, seconds: float, site: Site) -> PeerStatus:
    may_be_away = peer.public_key in site.other_peers  # a home worker's machine is off at night
    fresh = peer.handshake_age is not None and peer.handshake_age <= HANDSHAKE_HOLDS
    earlier = (before.rx, before.tx) if before is not None else None
    rx_rate, tx_rate = rates(seconds, (peer.rx, peer.tx), earlier)
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
        rx_rate=rx_rate,
        tx_rate=tx_rate,
        allowed_ips=tuple(str(lan) for lan in peer.allowed_ips),
        keepalive=peer.keepalive,
    )
