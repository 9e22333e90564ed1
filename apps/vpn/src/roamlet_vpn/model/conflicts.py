"""Values of a network that are right alone and contradict each other: ranges, duplicates, sites that cannot call each
other. Pure.
"""

import ipaddress
from collections.abc import Callable, Iterator
from itertools import combinations

from roamlet_vpn.model.network import Address, Lan, Network, Site, needs_ipv6

Conflict = tuple[tuple[str, ...], str]  # the way to the key in the file, and what is wrong


def conflicts(network: Network, unread: frozenset[str] = frozenset()) -> list[Conflict]:
    """Every conflict, with the key to change. Empty for a network that can be planned.

    `unread` are the keys with a value somewhere that is wrong by itself and not in the network: what needs them is not judged.
    """
    return [conflict for needed, judge in JUDGES if not unread.intersection(needed) for conflict in judge(network)]


def _key(site: Site, key: str) -> tuple[str, ...]:
    return ("sites", site.name, key)


def _topology(network: Network) -> Iterator[Conflict]:
    names = [site.name for site in network.sites]
    if network.topology == "hub" and network.hub is None:
        yield ("network", "topology"), f'topology = "hub" needs to know which site that is: hub = "{names[0]}"'
    elif network.hub is not None and network.topology == "mesh":
        yield (
            ("network", "hub"),
            f'hub = "{network.hub}" means something with topology = "hub" alone; in a mesh all are equal',
        )
    elif network.hub is not None and network.hub not in names:
        yield ("network", "hub"), f'hub = "{network.hub}" is not one of the sites: {", ".join(names)}'


def _servers(network: Network) -> Iterator[Conflict]:
    for one, other in combinations(network.sites, 2):
        if (one.server, one.via) == (other.server, other.via):
            yield (
                _key(other, "server"),
                f"{other.name} has the server of {one.name}, {one.server}: each office has one of its own",
            )


def _addresses(network: Network) -> Iterator[Conflict]:
    yield from _addresses_in(network, network.tunnel, [(site, site.address, site.prefix) for site in network.sites])
    if network.second is not None:
        seconds = [(site, site.second, site.second_prefix) for site in network.sites]
        yield from _addresses_in(network, network.second, seconds)
        if network.backend == "ssh":
            yield ("network", "tunnel"), 'backend = "ssh" has one address for each end of a tunnel: give one range'
    else:
        for site in network.sites:
            if site.second is not None:
                text = f"address {site.address} and {site.second}: the tunnel has one range, {network.tunnel}; give one of that"
                yield _key(site, "address"), text


def _addresses_in(
    network: Network, tunnel: Lan, addresses: "list[tuple[Site, Address | None, int | None]]"
) -> Iterator[Conflict]:
    usable = tunnel.num_addresses - (2 if tunnel.version == 4 else 1)
    if len(network.sites) > usable:
        yield (
            ("network", "tunnel"),
            f"{tunnel} has {usable} addresses, and there are {len(network.sites)} sites: give a larger one",
        )
    for site, address, prefix in addresses:
        if address is None:
            continue
        where = _key(site, "address")
        if address not in tunnel:
            yield where, f"address {address} is not in the tunnel range {tunnel}; without the line it gets a free one"
        elif address in (tunnel.network_address, tunnel.broadcast_address):
            yield where, f"address {address} is the first or last of {tunnel}, which no machine may have"
        if prefix is not None and prefix not in (tunnel.prefixlen, tunnel.max_prefixlen):
            yield where, f"address {address}/{prefix}: the tunnel is {tunnel}; write {address} alone"
    for (one, first, _), (other, second, _) in combinations(addresses, 2):
        if first is not None and first == second:
            yield (
                _key(other, "address"),
                f"address {second} is that of {one.name} too; without the line {other.name} gets a free one",
            )


def _ranges(network: Network) -> Iterator[Conflict]:
    lans = [(site, lan) for site in network.sites for lan in site.lans]
    for site, lan, tunnel in ((site, lan, tunnel) for site, lan in lans for tunnel in network.tunnels):
        if _overlap(lan, tunnel):
            yield (
                _key(site, "lans"),
                f"the LAN {lan} of {site.name} overlaps the tunnel range {tunnel}. "
                f"The tunnel needs a range that no office uses, such as {_free(network)}: tunnel in [network]",
            )
    for (one, lan), (other, another) in combinations(lans, 2):
        if not _overlap(lan, another):
            continue
        if one.name == other.name:
            yield _key(other, "lans"), f"the LANs {lan} and {another} of {one.name} overlap; leave the smaller one out"
        else:
            yield (
                _key(other, "lans"),
                f"the LAN {another} of {other.name} overlaps {lan} of {one.name}: an address could be in either office. "
                "One of the two offices needs another range",
            )


def _overlap(one: Lan, other: Lan) -> bool:
    return one.version == other.version and one.overlaps(other)


def _free(network: Network) -> Lan:
    """A /24 that no LAN touches."""
    taken = [lan for site in network.sites for lan in site.lans]
    candidates = (ipaddress.ip_network(f"10.{second}.{third}.0/24") for second in range(8, 256) for third in range(256))
    return next(lan for lan in candidates if not any(_overlap(lan, other) for other in taken))


def _lan_addresses(network: Network) -> Iterator[Conflict]:
    both = ((site, key, value) for site in network.sites for key, value in _in_the_lan(site) if value is not None)
    for site, key, address in both:
        around = [lan for lan in site.lans if address in lan]
        if not around and not (key == "gateway" and address.version == 6 and address.is_link_local):
            lans = ", ".join(map(str, site.lans)) or "none"
            yield _key(site, key), f"{key} {address} is in none of its lans ({lans})"
        elif (
            around and around[0].version == 4 and around[0].prefixlen < 31 and address in (around[0][0], around[0][-1])
        ):
            yield _key(site, key), f"{key} {address} is the first or last of {around[0]}, which no machine may have"


def _in_the_lan(site: Site) -> tuple[tuple[str, Address | None], ...]:
    return (("lan_address", site.lan_address), ("gateway", site.gateway))


def _endpoints(network: Network) -> Iterator[Conflict]:
    ranges = [(lan, f"the LAN {lan} of {site.name}") for site in network.sites for lan in site.lans]
    ranges += [(lan, f"the tunnel range {lan}") for lan in network.tunnels]
    for site in network.sites:
        if site.endpoint is None:
            continue
        address = site.endpoint.address
        inside = next((whose for lan, whose in ranges if address is not None and address in lan), None)
        if inside is not None:
            yield (
                _key(site, "endpoint"),
                f"endpoint {site.endpoint} lies in {inside}: the tunnel would be sent into itself. "
                "Give the address that the internet sees, mostly the gateway's",
            )
        if site.endpoint.port == 0:
            yield (
                _key(site, "endpoint"),
                f"endpoint {site.endpoint.host}: with listen_port = 0 the port is not known; give HOST:PORT",
            )
        elif site.listen_port == 0:
            yield (
                _key(site, "listen_port"),
                f"listen_port = 0 (any): {site.endpoint} would lead nowhere; give one, such as 51820",
            )
    for one, other in combinations(network.sites, 2):
        if one.endpoint is not None and one.endpoint == other.endpoint:
            yield (
                _key(other, "endpoint"),
                f"endpoint {other.endpoint} is that of {one.name} too. Behind one gateway each needs a port of its own there",
            )


def _callers(network: Network) -> Iterator[Conflict]:
    for one, other in network.pairs():
        if one.endpoint is None and other.endpoint is None:
            yield (
                ("sites", other.name),
                f"neither {one.name} nor {other.name} has an endpoint, so neither can call the other. "
                'Give one of them what the internet reaches it by: endpoint = "HOST:PORT"; or take a hub',
            )


def _mtus(network: Network) -> Iterator[Conflict]:
    if needs_ipv6(network):
        for site in network.sites:
            if site.mtu is not None and site.mtu < 1280:
                yield _key(site, "mtu"), f"mtu = {site.mtu}: IPv6 needs 1280 at least, and there are networks of IPv6"


JUDGES: tuple[tuple[tuple[str, ...], Callable[[Network], Iterator[Conflict]]], ...] = (
    (("topology", "hub"), _topology),
    (("server",), _servers),
    (("tunnel",), _addresses),
    (("tunnel",), _ranges),
    (("lans",), _lan_addresses),
    (("listen_port",), _endpoints),
    (("topology", "hub", "endpoint"), _callers),
    ((), _mtus),
)
