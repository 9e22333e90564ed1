"""How the tunnels are: handshakes, endpoints and rates, from the facts of two moments. Pure, but for `Watching`, which asks."""

import ipaddress
import time
from collections.abc import Iterator, Mapping
from typing import Any

from roamlet_vpn.backends import backend_of
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.network import Network
from roamlet_vpn.model.status import SiteStatus
from roamlet_vpn.servers import Servers


def status(
    network: Network,
    facts: Mapping[str, Facts],
    errors: Mapping[str, str],
    before: Mapping[str, Facts] | None = None,
) -> tuple[SiteStatus, ...]:
    """Of every site, in the order of the file. `before` are facts of an earlier moment, which rates are taken from."""
    keys = {one.interface.public_key: name for name, one in facts.items() if one.interface is not None}
    # A server out of reach reports no key: it is the peer to which its peers send packets for its address in the tunnel.
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
        else:
            peers = now.interface.peers if now.interface is not None else ()
            named: dict[str | None, str] = {
                peer.public_key: away[lan] for peer in peers for lan in peer.allowed_ips if lan in away
            }
            earlier = (before or {}).get(site.name)
            made.append(backend_of(network).site_status(network, site, now, earlier, {**named, **keys}))
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
    """Asks the servers again and again; the rates are those since the last update."""

    def __init__(self, network: Network, servers: Servers) -> None:
        self.network = network
        self.servers = servers
        self.facts: dict[str, Facts] = {}

    def update(self) -> tuple[SiteStatus, ...]:
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

    def updates(self, interval: float) -> Iterator[tuple[SiteStatus, ...]]:
        """One update after the other, for ever, begun `interval` seconds apart."""
        while True:
            began = time.monotonic()
            yield self.update()
            time.sleep(max(0.0, began + interval - time.monotonic()))
