"""From what a network should be and what its servers say, to what must be done on each. Pure: reads no file, touches no server.

planning/refusals.py has what no plan may do, wireguard/live.py the comparison of an interface that runs. A plan that
was carried out leaves nothing to do: made again from what the servers say then, it is empty.
"""

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from roamlet_vpn.model.facts import Config, Facts
from roamlet_vpn.model.network import Network, Site, allowed_ips
from roamlet_vpn.model.routes import inside, removal, way
from roamlet_vpn.model.untrusted import FactsError, checked_key
from roamlet_vpn.planning.refusals import WRITTEN, Refusal, refusals, undecidable
from roamlet_vpn.wireguard.actions import (
    Action,
    EnableUnit,
    FollowNames,
    Forward,
    MakeKey,
    ProtectConfig,
    Up,
    WriteConfig,
)
from roamlet_vpn.wireguard.foreign_peers import lost_others, other_peers, ways_to_others
from roamlet_vpn.wireguard.live import first_mtu, held_notes, held_routes, live_actions, live_notes
from roamlet_vpn.wireguard.wgconf import (
    InterfacePart,
    PeerPart,
    WgConfig,
    WgConfigError,
    changed,
    counterpart,
    parsed,
    rendered,
)

__all__ = [
    "FileChange",
    "Note",
    "Plan",
    "Refusal",
    "forwarding_actions",
    "given_addresses",
    "known_keys",
    "make_plan",
    "wanted_config",
]


@dataclass(frozen=True)
class Note:
    """Something about a server that changes nothing, but that whoever reads the plan should know."""

    site: str
    message: str
    wrong: bool = False  # whether it keeps something from working, although it is not apply's to change


@dataclass(frozen=True)
class FileChange:
    """A value that network.toml gets."""

    site: str
    key: str
    value: "str | list[str]"


@dataclass(frozen=True)
class Plan:
    """What is to be done. `sites` has every site whose facts are known, in the file's order, perhaps with nothing to do."""

    sites: Mapping[str, tuple[Action, ...]]
    file_changes: tuple[FileChange, ...] = ()
    refusals: tuple[Refusal, ...] = ()  # while there are any, nothing may be applied
    notes: tuple[Note, ...] = ()
    unreachable: Mapping[str, str] | None = None  # why there are no facts of a site

    @property
    def empty(self) -> bool:
        """Nothing is to be done, and nothing stands in the way. Sites out of reach do not count: nobody knows."""
        return not (any(self.sites.values()) or self.file_changes or self.refusals)

    @property
    def exit_code(self) -> int:
        """0 nothing to do; 1 refused, or not all sites were reached; 2 there is a difference."""
        return 1 if self.refusals or self.unreachable else 0 if self.empty else 2


def make_plan(
    network: Network,
    facts: Mapping[str, Facts],
    keys: Mapping[str, str] | None = None,
    unreachable: Mapping[str, str] | None = None,
) -> Plan:
    """What must be done on each site of which there are facts.

    `keys` says which public key a site is to have, where that is not the one it has (a rotation). A site that has no key yet stands
    with MADE_BY_APPLY in the others' configurations. A site of `unreachable` is known by what the others have of it. Raises
    FactsError for a key that is none: it would stand in the configurations of the others.
    """
    if network.backend == "ssh":
        from roamlet_vpn.ssh.plan import make_ssh_plan  # inside: it makes a Plan too

        return make_ssh_plan(network, facts, keys or {}, unreachable or {})
    for name, key in (keys or {}).items():
        if checked_key(key) is None:
            raise FactsError(f"{name}: {key!r:.80} is no public key: what its server sent is not believed")
    file_changes = given_addresses(network)
    network = network.with_addresses()
    known = {**known_keys(network, facts), **(keys or {})}
    sites: dict[str, tuple[Action, ...]] = {}
    refused: list[Refusal] = []
    notes: list[Note] = []
    for site in network.sites:
        if site.name not in facts:
            refused += _contested(network, site, facts)
            continue
        refused += refusals(network, site, facts, known)
        wanted = wanted_config(network, site, known, facts[site.name], absent=frozenset(unreachable or ()))
        refused += [Refusal(site.name, text) for text in lost_others(network, site, facts[site.name], wanted)]
        sites[site.name] = tuple(_site_actions(network, site, facts[site.name], wanted, known.get(site.name)))
        notes += [Note(site.name, text) for text in _notes(network, site, facts[site.name], wanted)]
        notes += [Note(site.name, text, wrong=True) for text in _longer_routes(network, site, facts[site.name])]
    notes += [
        Note(name, "has never been reached, so its key is not known: the others are planned without it")
        for name in unreachable or ()
        if name not in known
    ]
    return Plan(sites, file_changes, tuple(refused), tuple(notes), dict(unreachable or {}))


def given_addresses(network: Network) -> tuple[FileChange, ...]:
    """The addresses that sites without one get, for the file, in which they stay."""
    pairs = zip(network.sites, network.with_addresses().sites, strict=True)
    return tuple(
        FileChange(new.name, "address", str(new.address) if new.second is None else [str(new.address), str(new.second)])
        for old, new in pairs
        if (old.address, old.second) != (new.address, new.second)
    )


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
            f"it cannot be reached, and the others do not agree on its public key: {told}. Nobody here can say which is its own; "
            "apply when it can be reached",
        )
    ]


def wanted_config(
    network: Network, site: Site, keys: Mapping[str, str], facts: Facts, absent: frozenset[str] = frozenset()
) -> WgConfig:
    """What the site's configuration should say. Peers of `absent` whose keys are unknown are left out."""
    interface = InterfacePart(
        addresses=network.interface_addresses(site), listen_port=site.listen_port, mtu=site.mtu, private_key=True
    )
    peers = tuple(
        PeerPart(
            public_key=keys.get(peer.name),
            allowed_ips=tuple(
                dict.fromkeys(
                    (*allowed_ips(network, site, peer), *ways_to_others(network, peer, keys.get(peer.name), facts))
                )
            ),
            endpoint=peer.endpoint,
            keepalive=site.keepalive,
            name=peer.name,
        )
        for peer in network.peers_of(site)
        if peer.name in keys or peer.name not in absent
    )
    return WgConfig(interface, (*peers, *other_peers(site, facts)))


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


def forwarding_actions(network: Network, facts: Facts) -> list[Action]:
    """What turns forwarding on, now and after a restart, where it is not."""
    families = sorted(
        {lan.version for site in network.sites for lan in site.lans} | {lan.version for lan in network.tunnels}
    )
    actions: list[Action] = []
    for family in families:
        now = facts.forwarding[family]
        if now.live is None or (now.live and now.persistent):
            continue
        why = "off" if not now.live else "on, but off again after a restart"
        # With forwarding on, the kernel ignores router advertisements unless accept_ra is 2: a default route by one would end.
        advertised = (
            () if family == 4 else tuple(name for name, device in facts.devices.items() if device.accept_ra == 1)
        )
        actions.append(
            Forward(
                f"forwarding of IPv{family} is {why}",
                family,
                not now.live,
                not now.persistent,
                _routed(facts, advertised),
            )
        )
    return actions


def _routed(facts: Facts, devices: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the devices that have a route by router advertisement."""
    by_advertisement = {route.dev for route in facts.routes if route.protocol == "ra"}
    return tuple(name for name in devices if name in by_advertisement)


def _config(network: Network, site: Site, facts: Facts, wanted: WgConfig, key: str | None) -> list[Action]:
    title = f"{site.name}, {WRITTEN}: change network.toml, not this file, and run `roamlet vpn apply`"
    path = f"/etc/wireguard/{network.interface}.conf"
    config = facts.config
    if config is None:
        return [WriteConfig(f"there is no {path}", rendered(wanted, title), key, None, None)]
    text = changed(config.text, wanted, title)
    if text != config.text or key != config.public_key:
        why = f"{path} says something else"
        if text == config.text:
            why = f"{path} has another key"
        rotated = _rotated(config, wanted)
        return [WriteConfig(why, text, key, config.text, config.sha256, rotated)]
    if config.mode & 0o077 or config.uid != 0:
        return [ProtectConfig(f"{path} has mode {config.mode:04o} and owner {config.uid}: others may read the key")]
    return []


def _rotated(config: Config, wanted: WgConfig) -> tuple[tuple[str, str], ...]:
    """Peers that have another key now, as (new, old)."""
    try:
        old = parsed(config.text)
    except WgConfigError:
        return ()
    pairs = ((counterpart(peer, wanted, list(old.peers)), peer) for peer in old.peers)
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
    """wg looks a name up once: when both ends have got new addresses, somebody must look again."""
    names = [str(peer.endpoint.host) for peer in wanted.peers if peer.endpoint and peer.endpoint.address is None]
    if facts.follows_names is None or facts.follows_names == bool(names):
        return []
    if names:
        return [FollowNames(f"nobody looks up {', '.join(names)} again when an address changes")]
    return [FollowNames("a timer looks up names of endpoints, and there are none", wanted=False)]


def _notes(network: Network, site: Site, facts: Facts, wanted: WgConfig) -> list[str]:
    notes: list[str] = []
    if facts.rollback is not None:
        notes.append(
            f"a rollback is armed there and comes in {facts.rollback.seconds_left:.0f} s: somebody is applying, or was cut off"
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
        notes.append("has neither endpoint nor keepalive: nobody can reach it until it has sent something itself")
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
        said = parsed(config.text)
    except WgConfigError as error:
        return [f"the configuration has a line that wg-quick does not take, which goes: {error}"]
    notes = []
    if said.interface.save_config:
        notes.append(
            "SaveConfig = true: wg-quick overwrites the configuration whenever the interface goes down, comments and "
            "names of endpoints with it. Take the line out when you can"
        )
    table = next((value for name, value in said.interface.other if name == "Table"), "auto")
    if table.lower() != "auto":
        notes.append(f"Table = {table}: after a restart wg-quick sets no routes in the table main; take the line out")
    return notes
