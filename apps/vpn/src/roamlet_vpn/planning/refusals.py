"""The refusals that every backend has: no root, tools that are missing, ranges that the server uses already. Pure."""

from collections.abc import Iterator, Mapping

from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.network import Network, Site


def no_root(site: Site) -> str:
    """The refusal for a server that was reached without root."""
    return (
        f"{site.server} was reached as a user without root, which can neither read nor change tunnels there. "
        f"Say sudo = true in [sites.{site.name}], or name root in its server"
    )


def missing_tools(facts: Facts, packages: Mapping[str, str]) -> list[str]:
    """The refusal, if there is one, for tools that the server lacks; `packages` has all that it needs, with the package of each."""
    lacking = [tool for tool in packages if facts.tools.get(tool) is None]
    names = " ".join(sorted({packages[tool] for tool in lacking}))
    text = f"there is no {' and no '.join(lacking)}. Install it there: apt-get install {names} (or dnf, apk)"
    return [text] if lacking else []


def ranges_in_the_way(network: Network, site: Site, facts: Facts) -> Iterator[str]:
    """Ranges that are on this server's own devices already, so that packets for the other office would never leave it."""
    others = [
        (lan, f"the LAN of {other.name}") for other in network.sites if other.name != site.name for lan in other.lans
    ]
    ranges = [*others, *((lan, "this network's tunnel range") for lan in network.tunnels)]
    for name, device in facts.devices.items():
        if name in (network.interface, "lo") or _of_our_tunnel(site, facts, name):
            continue
        for address in device.addresses:
            for lan, whose in ranges:
                if address.network.overlaps(lan):
                    yield (
                        f"{address} is on its device {name}, and {lan} is {whose}: one of the two could not be reached from there. "
                        + _what_to_do(device.kind)
                    )
    for other in facts.other_interfaces:
        for taken in other.allowed_ips:
            for lan, whose in ranges:
                if taken.prefixlen and taken.overlaps(lan):
                    yield (
                        f"{taken} belongs to a peer of its other WireGuard interface {other.name}, and {lan} is {whose}: "
                        "one of the two could not be reached from there. " + _what_to_do("wireguard")
                    )
    own = {address.ip for device in facts.devices.values() for address in device.addresses}
    if site.lan_address is not None and own and site.lan_address not in own:
        has = ", ".join(str(one) for one in sorted(own, key=str) if not one.is_loopback and not one.is_link_local)
        yield (
            f"{site.lan_address} is no address of {site.server}, which has {has}. "
            f"Correct lan_address in [sites.{site.name}], or its server"
        )


def _of_our_tunnel(site: Site, facts: Facts, device: str) -> bool:
    """The tun device of the ssh backend, from which a network migrates: it has the site's own address in the tunnel."""
    addresses = facts.devices[device].addresses
    return facts.devices[device].kind == "tun" and any(address.ip == site.address for address in addresses)


def _what_to_do(kind: str) -> str:
    if kind in ("tun", "wireguard"):
        return "Is it a VPN for home workers? Give that one, or the office, another range"
    return "Renumber one of them, or correct the range in network.toml"
