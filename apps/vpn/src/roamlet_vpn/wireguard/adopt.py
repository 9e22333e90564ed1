"""`roamlet vpn init --adopt`: from wg-quick configurations that were made by hand to a file whose plan is empty. Pure.

The configurations say everything but which shape the network was meant to have. So each shape is tried, a mesh and a hub at each
site, and the one is taken whose plan changes least: nothing, for careful configurations. What it would change is reported.
"""

import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from roamlet_vpn.errors import VpnError
from roamlet_vpn.model.discover import lan_devices, site_from
from roamlet_vpn.model.edit import Value, new_text
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.file import NetworkFileError, parse
from roamlet_vpn.model.network import INTERFACE, KEEPALIVE, Endpoint, InterfaceAddress, Lan, Site, is_inside
from roamlet_vpn.planning.plan import Plan
from roamlet_vpn.wireguard.plan import make_wireguard_plan
from roamlet_vpn.wireguard.wgconf import PeerPart, WgConfig, WgConfigError, parsed


@dataclass(frozen=True)
class Found:
    """One server with its configuration."""

    site: Site
    facts: Facts
    config: WgConfig
    address: InterfaceAddress
    second: InterfaceAddress | None = None  # of the other family


def adopted(
    found: Mapping[str, tuple[Site, Facts]], interface: str, more: Mapping[str, Value] | None = None
) -> tuple[str, list[str]]:
    """The text of the file, with `more` in its [network], and what to know about it, a line each.

    Raises VpnError when not all of it can be adopted.
    """
    servers = {name: _read(name, site, facts, interface) for name, (site, facts) in found.items()}
    _refuse_strangers(servers)
    servers = _in_one_order(servers)
    tunnels = _tunnels(servers)
    head: dict[str, Value] = {
        "tunnel": str(tunnels[0]) if len(tunnels) == 1 else [str(lan) for lan in tunnels],
        **(more or {}),
    }
    if interface != INTERFACE:
        head["interface"] = interface
    tries = [_tried(servers, head, tunnels, hub) for hub in (None, *servers)]
    plans = [(text, plan) for text, plan in tries if plan is not None]
    if not plans:
        text = tries[0][0]
        parse(text, "what was found")  # raises, and says why
    text, plan = min(plans, key=lambda one: _changes(one[1]))
    kept = [_told(name, peer) for name in servers for peer in _foreign_peers(servers, name)]
    return text, [*(f"{one} is no site, and stays as it is (other_peers)" for one in kept), *_remarks(plan)]


def _read(name: str, site: Site, facts: Facts, interface: str) -> Found:
    path = f"/etc/wireguard/{interface}.conf"
    if not facts.is_root:
        raise VpnError(f"{name}: {site.server} was reached as a user who may not read {path}; take root@..., or --sudo")
    if facts.config is None:
        raise VpnError(f"{name}: there is no {path} on {site.server}; --interface names another one")
    try:
        config = parsed(facts.config.text)
    except WgConfigError as error:
        raise VpnError(f"{name}: {path} cannot be read: {error}. Correct it there first") from None
    if not config.interface.addresses:
        raise VpnError(
            f"{name}: {path} has no Address, so its address in the tunnel is not known; write one there first"
        )
    first = config.interface.addresses[0]
    second = next((one for one in config.interface.addresses if one.version != first.version), None)
    return Found(site, facts, config, first, second)


def _in_one_order(servers: Mapping[str, Found]) -> dict[str, Found]:
    """With the first address of each of the family that the first server names first."""
    family = next(iter(servers.values())).address.version
    return {
        name: one
        if one.address.version == family or one.second is None
        else replace(one, address=one.second, second=one.address)
        for name, one in servers.items()
    }


def _foreign_peers(servers: Mapping[str, Found], name: str) -> list[PeerPart]:
    """The peers of one server that are not among the servers."""
    keys = {one.facts.public_key for one in servers.values()}
    return [peer for peer in servers[name].config.peers if peer.public_key not in keys]


def _is_one_machine(peer: PeerPart) -> bool:
    """Such as that of a home worker: it leads to no network."""
    return all(lan.num_addresses == 1 for lan in peer.allowed_ips)


def _told(name: str, peer: PeerPart) -> str:
    return f"{name}: {peer.name or 'a peer'} {peer.public_key} ({', '.join(map(str, peer.allowed_ips))})"


def _refuse_strangers(servers: Mapping[str, Found]) -> None:
    """The first apply would take away networks behind a peer that is not one of the servers."""
    strangers = [
        f"    {_told(name, peer)}"
        for name in servers
        for peer in _foreign_peers(servers, name)
        if not _is_one_machine(peer)
    ]
    if strangers:
        raise VpnError(
            "these peers are not among the servers that were named, and would be lost:\n"
            + "\n".join(strangers)
            + "\nName their servers too"
        )


def _tunnels(servers: Mapping[str, Found]) -> tuple[Lan, ...]:
    """The range of the interfaces' addresses, and that of their addresses of the other family where all have one."""
    first = _range_of([one.address for one in servers.values()])
    seconds = [one.second for one in servers.values() if one.second is not None]
    return (first, _range_of(seconds)) if len(seconds) == len(servers) else (first,)


def _range_of(addresses: Sequence[InterfaceAddress]) -> Lan:
    """The network of these addresses; where they have none, the smallest that has them all, a /24 or /64 at least."""
    networks = {one.network for one in addresses if one.network.num_addresses > 1}
    if len(networks) == 1:
        return networks.pop()
    first = addresses[0].ip
    longest = 24 if first.version == 4 else 64
    for prefix in range(longest, 0, -1):
        network = ipaddress.ip_network((first, prefix), strict=False)
        if all(one.ip in network for one in addresses):
            return network
    raise VpnError("the servers' addresses in the tunnel have nothing in common; are they of one network?")


def _tried(
    servers: Mapping[str, Found], head: Mapping[str, Value], tunnels: tuple[Lan, ...], hub: str | None
) -> tuple[str, Plan | None]:
    """The text for one shape, and its plan; None where the shape is no network."""
    shape: dict[str, Value] = {} if hub is None else {"topology": "hub", "hub": hub}
    lans = _lans(servers, tunnels, hub)
    text = new_text({**head, **shape}, {name: _values(servers, name, tunnels, lans[name]) for name in servers})
    try:
        network = parse(text)
    except NetworkFileError:
        return text, None
    return text, make_wireguard_plan(network, {name: one.facts for name, one in servers.items()}, {}, {})


def _changes(plan: Plan) -> tuple[int, int]:
    return len(plan.refusals), sum(len(actions) for actions in plan.sites.values())


def _remarks(plan: Plan) -> list[str]:
    lines = [f"{note.site}: {note.message}" for note in plan.notes]
    lines += [f"{refusal.site}: in the way: {refusal.message}" for refusal in plan.refusals]
    todo = [f"    {name}: {action.repairs}" for name, actions in plan.sites.items() for action in actions]
    if todo:
        return [
            *lines,
            "The configurations do not agree with each other, or with what runs. `roamlet vpn apply` would mend:",
            *todo,
        ]
    return [*lines, "Nothing would change: the plan of this file is empty."]


# ---- one site


def _peers_for(servers: Mapping[str, Found], name: str) -> list[PeerPart]:
    """What the other servers have of this one."""
    key = servers[name].facts.public_key
    found = (one.config.peer(key) for other, one in servers.items() if other != name and key is not None)
    return [peer for peer in found if peer is not None]


def _lans(servers: Mapping[str, Found], tunnels: tuple[Lan, ...], hub: str | None) -> dict[str, list[Lan]]:
    """The LANs of each site: what others send to it, the tunnel aside, and for a hub the LANs of the spokes."""
    found = {
        name: _unique(
            lan
            for peer in _peers_for(servers, name)
            for lan in peer.allowed_ips
            if not any(is_inside(lan, tunnel) for tunnel in tunnels)
        )
        for name in servers
    }
    if hub is not None:
        spokes = [lan for name, lans in found.items() if name != hub for lan in lans]
        found[hub] = [lan for lan in found[hub] if lan not in spokes]
    return found


def _unique(lans: Iterable[Lan]) -> list[Lan]:
    return list(dict.fromkeys(lans))


def _values(servers: Mapping[str, Found], name: str, tunnels: tuple[Lan, ...], lans: Sequence[Lan]) -> dict[str, Value]:
    one = servers[name]
    values: dict[str, Value] = {"server": one.site.server}
    if one.site.sudo:
        values["sudo"] = True
    if one.site.via:
        values["via"] = one.site.via
    own_addresses = [
        str(address.ip) if address.network.prefixlen == tunnel.prefixlen else str(address)
        for address, tunnel in zip((one.address, one.second), tunnels, strict=False)
        if address is not None
    ]
    values["address"] = own_addresses[0] if len(own_addresses) == 1 else own_addresses
    own = [address.ip for device in lan_devices(one.facts).values() for address in device.addresses]
    inside = next((address for address in own if any(address in lan for lan in lans)), None)
    if inside is not None:
        values["lan_address"] = str(inside)
        gateway = site_from(one.facts, "", None).get("gateway")
        if isinstance(gateway, str) and any(ipaddress.ip_address(gateway) in lan for lan in lans):
            values["gateway"] = gateway
    values["lans"] = [str(lan) for lan in lans]
    endpoints = Counter(peer.endpoint for peer in _peers_for(servers, name) if peer.endpoint is not None)
    if endpoints:
        endpoint: Endpoint = endpoints.most_common(1)[0][0]
        values["endpoint"] = str(endpoint)
    port = one.config.interface.listen_port
    if port == 0 and endpoints and one.facts.interface is not None:
        port = one.facts.interface.listen_port
    values["listen_port"] = port
    others = _foreign_peers(servers, name)
    keepalives = Counter(peer.keepalive for peer in one.config.peers if peer not in others)
    keepalive = keepalives.most_common(1)[0][0] if keepalives else KEEPALIVE
    if keepalive != KEEPALIVE:
        values["keepalive"] = keepalive or 0
    if one.config.interface.mtu is not None:
        values["mtu"] = one.config.interface.mtu
    if others:
        values["other_peers"] = [peer.public_key for peer in others if peer.public_key is not None]
    return values
