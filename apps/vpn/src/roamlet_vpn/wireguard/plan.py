"""From what a network should be and what its servers say, to what must be done on each. Pure: reads no file, touches no server.

wireguard/refusals.py has what no plan may do, wireguard/live.py the comparison of an interface that runs. A plan that
was carried out leaves nothing to do: made again from what the servers say then, it is empty.
"""

import ipaddress
from collections.abc import Iterator, Mapping

from roamlet_vpn.host.system import is_key
from roamlet_vpn.model.facts import Config, Facts
from roamlet_vpn.model.network import Network, Site, allowed_ips
from roamlet_vpn.model.routes import inside, removal, way
from roamlet_vpn.model.untrusted import FactsError
from roamlet_vpn.planning.actions import Action, MakeKey
from roamlet_vpn.planning.plan import Note, Plan, Refusal, forwarding_actions, given_addresses
from roamlet_vpn.wireguard.actions import EnableUnit, FollowNames, ProtectConfig, Up, WriteConfig
from roamlet_vpn.wireguard.foreign_peers import foreign_peers, lost_foreign_peers, ways_to_foreign_peers
from roamlet_vpn.wireguard.live import first_mtu, held_notes, held_routes, live_actions, live_notes
from roamlet_vpn.wireguard.refusals import WRITTEN, refusals, undecidable
from roamlet_vpn.wireguard.wgconf import (
    InterfacePart,
    PeerPart,
    WgConfig,
    WgConfigError,
    changed,
    counterpart,
    parsed,
    rendered,
    said,
)


def make_wireguard_plan(
    network: Network, facts: Mapping[str, Facts], keys: Mapping[str, str], unreachable: Mapping[str, str]
) -> Plan:
    """As backends.make_plan; `keys` are public keys of WireGuard."""
    for name, key in keys.items():
        if not is_key(key):
            raise FactsError(f"{name}: {key!r:.80} is no public key: what its server sent is not believed")
    file_changes = given_addresses(network)
    network = network.with_addresses()
    known = {**known_keys(network, facts), **keys}
    sites: dict[str, tuple[Action, ...]] = {}
    refused: list[Refusal] = []
    notes: list[Note] = []
    for site in network.sites:
        if site.name not in facts:
            refused += _contested(network, site, facts)
            continue
        refused += refusals(network, site, facts, known)
        wanted = wanted_config(network, site, known, facts[site.name], absent=frozenset(unreachable))
        refused += [Refusal(site.name, text) for text in lost_foreign_peers(network, site, facts[site.name], wanted)]
        sites[site.name] = tuple(_site_actions(network, site, facts[site.name], wanted, known.get(site.name)))
        notes += [Note(site.name, text) for text in _notes(network, site, facts[site.name], wanted)]
        notes += [Note(site.name, text, wrong=True) for text in _longer_routes(network, site, facts[site.name])]
    notes += [
        Note(name, "has never been reached, so its key is not known: the others are planned without it")
        for name in unreachable
        if name not in known
    ]
    return Plan(sites, file_changes, tuple(refused), tuple(notes), dict(unreachable))


def known_keys(network: Network, facts: Mapping[str, Facts]) -> dict[str, str]:
    """The public key of each site that has one: as it says itself, else as the others' configurations have it.

    A site without facts is the peer that has its address in the tunnel among its allowed IPs; at a spoke, the peer for the
    whole tunnel is the hub. The network's sites must have addresses.
    """
    keys = {name: key for name in facts if (key := facts[name].public_key) is not None}
    for site in network.sites:
        if site.name not in facts:
            found = [key for key in _keys_elsewhere(network, site, facts).values() if key not in keys.values()]
            if found:
                keys[site.name] = found[0]
    return keys


def _keys_elsewhere(network: Network, site: Site, facts: Mapping[str, Facts]) -> dict[str, str]:
    """The key that each of the others has for this site, by the other's name."""
    if site.address is None:
        return {}
    own = ipaddress.ip_network(site.address)
    marks = {own} if site.name != network.hub else {own, network.tunnel}
    found = {}
    for name, other in facts.items():
        peers = other.interface.peers if other.interface is not None else ()
        key = next((peer.public_key for peer in peers if marks.intersection(peer.allowed_ips)), None)
        if key is not None:
            found[name] = key
    return found


def _contested(network: Network, site: Site, facts: Mapping[str, Facts]) -> list[Refusal]:
    """For a site out of reach: its key is what the others say, and one that says something else is wrong, or lies."""
    keys = _keys_elsewhere(network, site, facts)
    if len(set(keys.values())) < 2:
        return []
    told = ", ".join(f"{name} has {key}" for name, key in keys.items())
    return [
        Refusal(
            site.name,
            f"it cannot be reached, and the others do not agree on its public key: {told}. It is not known which is its own; "
            "apply when it can be reached",
        )
    ]


def wanted_config(
    network: Network, site: Site, keys: Mapping[str, str], facts: Facts, absent: frozenset[str] = frozenset()
) -> WgConfig:
    """What the site's configuration should say. Peers of `absent` whose keys are unknown are left out."""
    peers_of = network.peers_of(site)
    foreign = {one.name: ways_to_foreign_peers(network, one, keys.get(one.name), facts) for one in peers_of}
    interface = InterfacePart(
        addresses=network.interface_addresses(site), listen_port=site.listen_port, mtu=site.mtu, private_key=True
    )
    peers = tuple(
        PeerPart(
            public_key=keys.get(peer.name),
            allowed_ips=tuple(dict.fromkeys((*allowed_ips(network, site, peer), *foreign[peer.name]))),
            endpoint=peer.endpoint,
            keepalive=site.keepalive,
            name=peer.name,
        )
        for peer in peers_of
        if peer.name in keys or peer.name not in absent
    )
    return WgConfig(interface, (*peers, *foreign_peers(site, facts)))


def _site_actions(network: Network, site: Site, facts: Facts, wanted: WgConfig, key: str | None) -> list[Action]:
    if undecidable(facts):  # and refused
        return []
    actions: list[Action] = []
    if key is None:
        actions.append(MakeKey("there is no private key"))
    actions += forwarding_actions(network, facts)
    actions += _config(network, site, facts, wanted, key)
    actions += held_routes(network.interface, facts, wanted)
    if facts.interface is None:
        actions.append(Up(f"{network.interface} is not there", first_mtu(facts, wanted, network.interface)))
    else:
        actions += live_actions(network.interface, facts, facts.interface, wanted, key)
    actions += _unit(network, facts)
    actions += _names(facts, wanted)
    return actions


def _config(network: Network, site: Site, facts: Facts, wanted: WgConfig, key: str | None) -> list[Action]:
    title = f"{site.name}, {WRITTEN}: change network.toml, not this file, and run `roamlet vpn apply`"
    path = f"/etc/wireguard/{network.interface}.conf"
    config = facts.config
    if config is None:
        return [WriteConfig(f"there is no {path}", rendered(wanted, title), key, None, None)]
    text = changed(config.text, wanted, title)
    if text != config.text or key != config.public_key:
        why = f"{path} has another key" if text == config.text else f"{path} says something else"
        return [WriteConfig(why, text, key, config.text, config.sha256, _rotated(facts, wanted))]
    if config.mode & 0o077 or config.uid != 0:
        return [ProtectConfig(f"{path} has mode {config.mode:04o} and owner {config.uid}: others may read the key")]
    return []


def _rotated(facts: Facts, wanted: WgConfig) -> tuple[tuple[str, str], ...]:
    """Peers that have another key now, as (new, old)."""
    config = said(facts)
    peers = list(config.peers) if config is not None else []
    pairs = ((counterpart(peer, wanted, peers), peer) for peer in peers)
    return tuple(
        (new.public_key, peer.public_key)
        for new, peer in pairs
        if new is not None and new.public_key and peer.public_key and new.public_key != peer.public_key
    )


def _unit(network: Network, facts: Facts) -> list[Action]:
    if not facts.systemd:
        return []
    name = f"wg-quick@{network.interface}.service"
    if facts.unit is not None and facts.unit.enabled == "enabled":
        return []
    state = facts.unit.enabled if facts.unit is not None else "not there"
    return [EnableUnit(f"{name} is {state}: after a restart of the server there would be no tunnel", name)]


def _names(facts: Facts, wanted: WgConfig) -> list[Action]:
    """wg looks a name up once: when both ends have got new addresses, it must be looked up again."""
    names = [str(peer.endpoint.host) for peer in wanted.peers if peer.endpoint and peer.endpoint.address is None]
    if facts.follows_names is None or facts.follows_names == bool(names):
        return []
    if names:
        return [FollowNames(f"nothing looks up {', '.join(names)} again when an address changes")]
    return [FollowNames("a timer looks up names of endpoints, and no endpoint is a name", wanted=False)]


def _notes(network: Network, site: Site, facts: Facts, wanted: WgConfig) -> list[str]:
    notes: list[str] = []
    if facts.rollback is not None:
        notes.append(
            f"a rollback is armed there and comes in {facts.rollback.seconds_left:.0f} s: another apply is running, or was cut off"
        )
    if not facts.systemd:
        notes.append("there is no systemd: nothing brings the interface up after a restart of the server")
    if facts.config is not None:
        notes += _config_notes(facts.config)
    if facts.interface is not None:
        notes += live_notes(facts, facts.interface, wanted)
    notes += held_notes(network.interface, facts, wanted)
    there = {peer.public_key for peer in wanted.peers}
    notes += [f"other_peers names {key}, which is no peer there" for key in site.other_peers if key not in there]
    if facts.ssh is not None and facts.ssh.ends:
        notes.append(
            "tunnels of ssh are there still: `roamlet vpn down --backend ssh` takes them away when they are needed no longer"
        )
    if site.endpoint is None and site.keepalive is None:
        notes.append("has neither endpoint nor keepalive: no site can reach it until it has sent something itself")
    notes += [f"could not find out {what}: {why}" for what, why in facts.missing.items()]
    return notes


def _longer_routes(network: Network, site: Site, facts: Facts) -> Iterator[str]:
    """Routes of others that keep a part of a far LAN out of the tunnel."""
    for peer in network.sites:
        for lan in peer.lans if peer.name != site.name else ():
            for route in inside(lan, facts.routes, network.interface):
                yield (
                    f"{route.to}, a part of {lan} of {peer.name}, does not go into the tunnel (its route{way(route)}): that "
                    "route wins over the tunnel's, and routes of others are left alone. If it is not meant: "
                    f"`{removal(route)}`, and take it out of what sets it"
                )


def _config_notes(config: Config) -> list[str]:
    try:
        found = parsed(config.text)
    except WgConfigError as error:
        return [f"the configuration has a line that wg-quick does not take, which goes: {error}"]
    notes = []
    if found.interface.save_config:
        notes.append(
            "SaveConfig = true: wg-quick overwrites the configuration whenever the interface goes down, comments and "
            "names of endpoints with it. Take the line out when you can"
        )
    table = next((value for name, value in found.interface.other if name == "Table"), "auto")
    if table.lower() != "auto":
        notes.append(f"Table = {table}: after a restart wg-quick sets no routes in the table main; take the line out")
    return notes
