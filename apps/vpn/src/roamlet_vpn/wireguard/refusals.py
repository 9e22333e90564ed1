"""What no plan may do to a server, because it would cut a user off or lose a key: each with its cause and the next step. Pure."""

from collections.abc import Iterator, Mapping

from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.network import Network, Site
from roamlet_vpn.model.routes import removal, way
from roamlet_vpn.planning.plan import Refusal
from roamlet_vpn.planning.refusals import missing_tools, no_root, ranges_in_the_way
from roamlet_vpn.wireguard.wgconf import said

WRITTEN = "written by roamlet vpn"  # in the first comment of each configuration that it makes
NEEDED = ("interface", "config", "waiting_key", "devices", "routes")
TOOLS = {"wg": "wireguard-tools", "wg-quick": "wireguard-tools", "ip": "iproute2"}


def refusals(network: Network, site: Site, facts: Mapping[str, Facts], keys: Mapping[str, str]) -> list[Refusal]:
    """Every reason to change nothing at this site, whose facts are among `facts`."""
    here = facts[site.name]
    if not here.is_root:
        return [Refusal(site.name, no_root(site))]
    if undecidable(here):
        return [Refusal(site.name, message) for message in list(_tools(here)) or _unknown(here)]
    found = [
        *_tools(here),
        *_keys(network, site, here, keys),
        *_owner(network, here, keys),
        *ranges_in_the_way(network, site, here),
        *_routes_in_the_way(network, site, here),
        *_ports(site, here),
    ]
    return [Refusal(site.name, message) for message in found]


def undecidable(facts: Facts) -> bool:
    """Whether so much is unknown that there is nothing to compare with: a plan would be made up."""
    return not facts.is_root or any(what in facts.missing for what in NEEDED)


def _unknown(facts: Facts) -> list[str]:
    """What must be known before anything is decided: a configuration that could not be read is not one that is not there."""
    return [
        f"could not find out {what}: {facts.missing[what]}. Nothing is decided without it; mend that on the server first"
        + (" (the ip of BusyBox tells too little: install iproute2)" if what in ("devices", "routes") else "")
        for what in NEEDED
        if what in facts.missing
    ]


def _tools(facts: Facts) -> Iterator[str]:
    missing = missing_tools(facts, TOOLS)
    yield from missing
    if not missing and facts.wireguard is None:
        yield (
            "nothing there makes a WireGuard interface: the kernel has no such module, and there is no wireguard-go. "
            "Take a kernel from 5.6 on, or install wireguard-go (of 2023-12 or newer: older ones are several times slower)"
        )
    if facts.unit is not None and facts.unit.enabled.startswith("masked"):
        yield f"{facts.unit.name} is masked: it was turned off on purpose. If that is over: systemctl unmask {facts.unit.name}"


def _keys(network: Network, site: Site, facts: Facts, keys: Mapping[str, str]) -> Iterator[str]:
    path = f"/etc/wireguard/{network.interface}.conf"
    if facts.config is not None and facts.config.public_key is None:
        what = "is empty" if not facts.config.text.strip() else "has no PrivateKey that wg takes"
        yield (
            f"{path} {what}: a tunnel that is brought to it would lose its key. If the interface runs, `wg-quick save "
            f"{network.interface}` writes its key there; if the key comes from a PostUp line, write it as PrivateKey; "
            f"if there is nothing to keep: mv {path} {path}.old"
        )
    if facts.config is None and facts.interface is not None and facts.interface.public_key is not None:
        yield (
            f"{network.interface} runs without {path}, so its key is nowhere but in the kernel. Keep it with: "
            f"(umask 077; wg showconf {network.interface} > {path}), or take the interface down: ip link del {network.interface}"
        )
    device = facts.devices.get(network.interface)
    if facts.interface is None and device is not None:
        yield (
            f"there is a {network.interface} that is no WireGuard interface ({device.kind or 'hardware'}). "
            'Give this network another name: interface = "wg1" in [network]'
        )
    same = [
        other.name
        for other in network.sites
        if other.name != site.name and keys.get(other.name) == keys.get(site.name, "")
    ]
    if same:
        yield (
            f"its key is also that of {', '.join(same)}: one of them is a copy of the other's disk, or both names lead to one "
            f"server. On the copy: mv {path} {path}.old; the next apply makes a key of its own"
        )


def _owner(network: Network, facts: Facts, keys: Mapping[str, str]) -> Iterator[str]:
    """An interface of this name that belongs to something else: its peers would be taken away."""
    found = said(facts)
    if facts.config is None or WRITTEN in facts.config.text or found is None:
        return
    ours = any(address.ip in lan for address in found.interface.addresses for lan in network.tunnels)
    if found.peers and not ours and not any(peer.public_key in keys.values() for peer in found.peers):
        has = ", ".join(map(str, found.interface.addresses)) or "no address"
        yield (
            f"there is a {network.interface} with {has} and peers that are not among these sites ({len(found.peers)}): it belongs "
            'to something else. Give this network another name: interface = "wg1" in [network]; or take that one over with '
            "`roamlet vpn init --adopt`"
        )


def _routes_in_the_way(network: Network, site: Site, facts: Facts) -> Iterator[str]:
    """Routes that drop what is for a far LAN, beside which wg-quick can add none. Those that lead somewhere give way instead."""
    if facts.interface is not None:
        return
    for other in network.sites:
        for route in facts.routes if other.name != site.name else ():
            if route.to in other.lans and route.type != "unicast" and route.metric in (None, 0, 1024):
                yield (
                    f"{route.to}, the LAN of {other.name},{way(route)} there, by a route beside which {network.interface} cannot "
                    f"start. If it is not needed: {removal(route)}"
                )


def _ports(site: Site, facts: Facts) -> Iterator[str]:
    port = site.listen_port
    if not port or (facts.interface is not None and facts.interface.listen_port == port):
        return
    for other in facts.other_interfaces:
        if other.listen_port == port:
            yield (
                f"UDP port {port} is taken by its WireGuard interface {other.name}. "
                f"Choose another listen_port in [sites.{site.name}]"
            )
            return
    for listener in facts.listeners:
        if listener.port == port:
            who = listener.process or "a program that ss does not name"
            yield f"UDP port {port} is taken by {who}. Stop it, or choose another listen_port in [sites.{site.name}]"
            return
