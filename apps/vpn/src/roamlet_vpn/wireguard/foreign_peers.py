"""Peers of a site's interface that are no sites, such as home workers: they stay as their server has them. Pure."""

from collections.abc import Iterator

from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.network import Lan, Network, Site, is_inside
from roamlet_vpn.wireguard.wgconf import PeerPart, WgConfig, said


def foreign_peers(site: Site, facts: Facts) -> tuple[PeerPart, ...]:
    """Those that the file names for this site, as its server's configuration has them."""
    config = said(facts)
    return tuple(peer for key in site.other_peers if config is not None and (peer := config.peer(key)) is not None)


def ways_to_foreign_peers(network: Network, peer: Site, key: str | None, facts: Facts) -> tuple[Lan, ...]:
    """What a server sends to the site `peer` for the sake of that one's other peers: parts of the tunnel in which no site is."""
    config = said(facts)
    there = config.peer(key) if config is not None and key is not None and peer.other_peers else None
    sites = [address for site in network.sites for address in (site.address, site.second) if address is not None]
    return tuple(
        lan
        for lan in (there.allowed_ips if there is not None else ())
        if lan not in network.tunnels
        and any(is_inside(lan, tunnel) for tunnel in network.tunnels)
        and not any(address in lan for address in sites)
    )


def lost_foreign_peers(network: Network, site: Site, facts: Facts, wanted: WgConfig) -> Iterator[str]:
    """Why a peer that is to stay would not."""
    path = f"/etc/wireguard/{network.interface}.conf"
    kept = {peer.public_key for peer in foreign_peers(site, facts)}
    for live in facts.interface.peers if facts.interface is not None else ():
        if live.public_key in site.other_peers and live.public_key not in kept:
            yield (
                f"the peer {live.public_key} is to stay (other_peers), and is not in {path}, but only runs: "
                f"`wg-quick save {network.interface}` writes it there"
            )
    sites = {lan: peer.name for peer in wanted.peers if peer.public_key not in kept for lan in peer.allowed_ips}
    for peer in wanted.peers:
        for lan in peer.allowed_ips if peer.public_key in kept else ():
            if lan in sites:
                yield (
                    f"{lan} is that of {sites[lan]}, and of {peer.name or peer.public_key}, which is to stay (other_peers): only "
                    f"one of them would get it. Give the site another address, or correct the peer in {path}"
                )
