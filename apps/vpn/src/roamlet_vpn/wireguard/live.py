"""An interface that runs, against what its configuration should say: peers, key, port, addresses, MTU, routes. Pure."""

import ipaddress
from collections.abc import Iterable

from roamlet_vpn.model.facts import Facts, Interface, LivePeer
from roamlet_vpn.model.network import Address, Endpoint, InterfaceAddress, Lan, is_inside
from roamlet_vpn.model.routes import way_to
from roamlet_vpn.planning.actions import MADE_BY_APPLY, Action
from roamlet_vpn.wireguard.actions import Addresses, Hold, LinkUp, Mtu, Routes, Sync
from roamlet_vpn.wireguard.wgconf import PeerPart, WgConfig, said

# WireGuard's REJECT_AFTER_TIME, in seconds: a tunnel whose last handshake is older carries nothing.
HANDSHAKE_HOLDS = 180

OVERHEAD = 80  # bytes that wg-quick takes off the MTU of the way: 40 IPv6, 8 UDP, 32 WireGuard
HELD_METRIC = 5182  # what host/live.py gives to routes that the tunnel's own take the place of
SSH_USER = "roamlet-vpn"  # the owner of the devices of the ssh backend
NETWORK_CHOICES = ("kernel", "ra")  # the protocols of routes that were not configured


def live_actions(interface: str, facts: Facts, live: Interface, wanted: WgConfig, key: str | None) -> list[Action]:
    """What brings the running interface to `wanted` and to this public key (None: one that is made by apply), without a restart."""
    actions: list[Action] = []
    if not live.up:
        actions.append(LinkUp(f"{interface} is down"))
    changes, keep = _peer_changes(facts, live, wanted, key)
    if changes:
        actions.append(Sync(f"{interface} runs otherwise than it is configured", tuple(changes), keep))
    now, then = set(_lasting(live.addresses)), set(wanted.interface.addresses)
    if now != then:
        has = ", ".join(sorted(map(str, now))) or "no address"
        actions.append(
            Addresses(f"{interface} has {has}", tuple(sorted(then - now, key=str)), tuple(sorted(now - then, key=str)))
        )
    ends = [peer.endpoint.address for peer in live.peers if peer.endpoint is not None]
    mtu = wanted.interface.mtu or _automatic_mtu(facts, ends, interface)
    if mtu is not None and mtu != live.mtu:
        why = "" if wanted.interface.mtu else f", and {OVERHEAD} less than the way to its peers is {mtu}"
        actions.append(Mtu(f"{interface} has the MTU {live.mtu}{why}", mtu))
    return actions + _route_actions(interface, facts, wanted)


def live_notes(facts: Facts, live: Interface, wanted: WgConfig) -> list[str]:
    """Endpoints that have moved, and that stay as they are."""
    notes = []
    for peer in live.peers:
        then = wanted.peer(peer.public_key)
        if then is None or then.endpoint is None or peer.endpoint is None or not _fresh(peer):
            continue
        if _endpoint_differs(facts, peer.endpoint, then.endpoint):
            notes.append(f"{then.name} answers from {peer.endpoint} rather than {then.endpoint}; that is kept")
    return notes


# ---- peers


def _peer_changes(
    facts: Facts, live: Interface, wanted: WgConfig, key: str | None
) -> tuple[list[str], tuple[str, ...]]:
    """What is to be changed, a line each; and the peers whose endpoints stay as they run."""
    changes: list[str] = []
    if live.public_key != key:
        changes.append(f"~ key {live.public_key or '(none)'} -> {key or MADE_BY_APPLY}")
    if wanted.interface.listen_port and live.listen_port != wanted.interface.listen_port:
        changes.append(f"~ port {live.listen_port} -> {wanted.interface.listen_port}")
    before = _endpoints_before(facts)
    keep: list[str] = []
    running = {peer.public_key: peer for peer in live.peers}
    for peer in wanted.peers:
        now = running.get(peer.public_key or "")
        if now is None:
            changes.append(f"+ peer {peer.name} {peer.public_key or MADE_BY_APPLY}: {_listed(peer.allowed_ips)}")
            continue
        moved = _must_move(facts, now, peer, before.get(now.public_key))
        if not moved:
            keep.append(now.public_key)
        changes += _one_peer(now, peer, moved)
    wanted_keys = {peer.public_key for peer in wanted.peers}
    for now in live.peers:
        if now.public_key not in wanted_keys:
            changes.append(f"- peer {now.public_key}: {_listed(now.allowed_ips)}")
    return changes, tuple(keep)


def _one_peer(now: LivePeer, then: PeerPart, moved: bool) -> list[str]:
    changes = []
    if set(now.allowed_ips) != set(then.allowed_ips):
        changes.append(f"~ peer {then.name} allowed IPs {_listed(now.allowed_ips)} -> {_listed(then.allowed_ips)}")
    if moved:
        changes.append(f"~ peer {then.name} endpoint {now.endpoint or '(none)'} -> {then.endpoint}")
    if now.keepalive != then.keepalive:
        changes.append(f"~ peer {then.name} keepalive {now.keepalive or 'off'} -> {then.keepalive or 'off'}")
    return changes


def _endpoints_before(facts: Facts) -> dict[str, Endpoint | None]:
    """What the configuration file says today, by key."""
    config = said(facts)
    return {peer.public_key: peer.endpoint for peer in (config.peers if config else ()) if peer.public_key}


def _must_move(facts: Facts, now: LivePeer, then: PeerPart, before: Endpoint | None) -> bool:
    """Whether the running endpoint is to be set: where the file changes it or it is dead. One that was learnt and works stays."""
    if then.endpoint is None:
        return False
    if now.endpoint is None:
        return True
    if not _endpoint_differs(facts, now.endpoint, then.endpoint):
        return False
    return before != then.endpoint or not _fresh(now)


def _fresh(peer: LivePeer) -> bool:
    return peer.handshake_age is not None and peer.handshake_age <= HANDSHAKE_HOLDS


def _endpoint_differs(facts: Facts, now: Endpoint, then: Endpoint) -> bool:
    """A name is the same as what the server resolves it to; where that is not known, it is taken for the same."""
    if now.port != then.port:
        return True
    if then.address is not None:
        return now.address != then.address
    resolved = facts.resolved.get(then.host)
    return resolved is not None and len(resolved) > 0 and now.address not in resolved


# ---- addresses, MTU, routes


def _lasting(addresses: Iterable[InterfaceAddress]) -> list[InterfaceAddress]:
    """Without the link-local ones that the kernel gives to any device."""
    return [address for address in addresses if not address.ip.is_link_local]


def first_mtu(facts: Facts, wanted: WgConfig, interface: str) -> int | None:
    """Of an interface that is not there yet. A name that was not resolved there is taken to be reached by the default route."""
    ends: list[Address | None] = []
    for peer in wanted.peers:
        if peer.endpoint is not None:
            ends += facts.resolved.get(peer.endpoint.host, ()) or (peer.endpoint.address,)
    return wanted.interface.mtu or _automatic_mtu(facts, ends, interface)


def _automatic_mtu(facts: Facts, ends: Iterable[Address | None], interface: str) -> int | None:
    """The largest MTU on the way to these addresses of peers, less the overhead: what wg-quick chooses where it has learnt nothing
    else of these ways. None when no way is known.
    """
    found = [mtu for address in ends if (mtu := _way(facts, interface, address)) is not None]
    if not found:
        default = _way(facts, interface, ipaddress.IPv4Address(0)) or _way(facts, interface, ipaddress.IPv6Address(0))
        return None if default is None else default - OVERHEAD
    return max(found) - OVERHEAD


def _way(facts: Facts, interface: str, address: Address | None) -> int | None:
    """The MTU of the route by which the address is reached."""
    best = way_to(address, (route for route in facts.routes if route.dev != interface)) if address is not None else None
    if best is None:
        return None
    if best.mtu:
        return best.mtu
    device = facts.devices.get(best.dev or "")
    return device.mtu if device is not None and device.mtu > OVERHEAD else None


def wanted_routes(wanted: WgConfig) -> tuple[Lan, ...]:
    """The routes that wg-quick sets: every allowed IP that no address of the interface covers already."""
    connected = [address.network for address in wanted.interface.addresses]
    allowed = dict.fromkeys(lan for peer in wanted.peers for lan in peer.allowed_ips)
    return tuple(lan for lan in allowed if not any(is_inside(lan, network) for network in connected))


def held_routes(interface: str, facts: Facts, wanted: WgConfig) -> list[Hold]:
    """What keeps packets on the way that they go today, through another device, until the tunnel can take them."""
    working = {
        peer.public_key for peer in (facts.interface.peers if facts.interface is not None else ()) if _fresh(peer)
    }
    coming = {lan for peer in wanted.peers if peer.public_key not in working for lan in peer.allowed_ips}
    there = {route.to for route in facts.routes if route.dev == interface}
    then = coming.intersection(wanted_routes(wanted)) - there
    ways: dict[Lan, tuple[Lan, str, Address | None]] = {}
    preferred_last = sorted(facts.routes, key=lambda route: -(route.metric or 0))
    for route in preferred_last:
        if route.to in then and route.dev is not None and route.type == "unicast":
            ways[route.to] = (route.to, route.dev, route.via)
    if not ways:
        return []
    return [Hold("networks of other sites are reached another way today", tuple(ways.values()))]


def held_notes(interface: str, facts: Facts, wanted: WgConfig) -> list[str]:
    """What becomes of the routes in use that the tunnel takes over, where something else than roamlet vpn has made them."""
    ours = {name for name, one in (facts.ssh.devices if facts.ssh is not None else {}).items() if one.user == SSH_USER}
    held = [route for hold in held_routes(interface, facts, wanted) for route in hold.routes if route[1] not in ours]
    return [
        f"{to} goes through {device} today, by a route that something else has made: it stays as a second way, with metric "
        f"{HELD_METRIC}. Turn off what makes it (the unit of an ssh tunnel, for example) once the tunnel works: after a restart of "
        f"the server, {interface} cannot start where that route is there first"
        for to, device, _ in held
    ]


def _route_actions(interface: str, facts: Facts, wanted: WgConfig) -> list[Action]:
    then = wanted_routes(wanted)
    own = [
        route.to
        for route in facts.routes
        if route.dev == interface and route.protocol not in NETWORK_CHOICES and not route.to.is_multicast
    ]
    connected = [address.network for address in wanted.interface.addresses]
    missing = tuple(lan for lan in then if lan not in own)
    extra = tuple(
        dict.fromkeys(lan for lan in own if lan not in then and lan not in connected and not lan.is_link_local)
    )
    if not missing and not extra:
        return []
    why = []
    if missing:
        elsewhere = {route.to: route.dev for route in facts.routes if route.dev != interface and route.dev is not None}
        named = [f"{lan} (it goes through {elsewhere[lan]})" if lan in elsewhere else str(lan) for lan in missing]
        why.append(f"there is no route through {interface} to {', '.join(named)}")
    if extra:
        why.append(f"{interface} has a route to {_listed(extra)}, which is no LAN of this network")
    return [Routes("; ".join(why), missing, extra)]


def _listed(lans: Iterable[Lan]) -> str:
    return ", ".join(map(str, lans)) or "nothing"
