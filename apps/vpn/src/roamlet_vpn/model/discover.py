"""From a server's facts to what network.toml should say about its site: LANs, addresses, endpoint, a free tunnel. Pure."""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping

from roamlet_vpn.model.edit import Value
from roamlet_vpn.model.facts import Device, Facts
from roamlet_vpn.model.network import LISTEN_PORT, TUNNEL, Address, InterfaceAddress, Lan

# Kinds of devices that are no LAN: `ip -d link` calls them so.
VIRTUAL = ("tun", "wireguard", "dummy", "ipip", "gre", "sit", "vti", "xfrm", "ifb")
# And names that container engines and hypervisors give to the bridges and ends of their own.
OF_ENGINES = re.compile(r"(docker|br-|virbr|lxc|lxd|cni|flannel|cali|veth|vnet|podman|tailscale|zt|wg|tun|tap)")
PRIVATE = [ipaddress.ip_network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")]


def site_name(facts: Facts) -> str:
    """A name for the site, out of the first part of what the server calls itself."""
    name = re.sub(r"[^A-Za-z0-9_-]", "-", facts.hostname.partition(".")[0]).strip("-")
    return name[:63] or "site"


def lan_devices(facts: Facts) -> dict[str, Device]:
    """The devices that lead to a LAN: up, with a private address, and made by no VPN and no engine of containers."""
    return {
        name: device
        for name, device in facts.devices.items()
        if device.up and device.kind not in VIRTUAL and not OF_ENGINES.match(name) and any(_private(device.addresses))
    }


def _private(addresses: Iterable[InterfaceAddress]) -> Iterator[InterfaceAddress]:
    for address in addresses:
        if any(address.version == lan.version and address.ip in lan for lan in PRIVATE):
            yield address


def networks_of(facts: Facts) -> tuple[Lan, ...]:
    """Every range that the server has a device or a route for, the default aside."""
    devices = (address.network for device in facts.devices.values() for address in device.addresses)
    routes = (route.to for route in facts.routes if route.to.prefixlen)
    others = (lan for other in facts.other_interfaces for lan in other.allowed_ips if lan.prefixlen)
    return tuple(dict.fromkeys((*devices, *routes, *others)))


def site_from(facts: Facts, server: str, reached_at: str | None) -> dict[str, Value]:
    """The keys of the site's table. `reached_at` is the host that ssh connects to, None where that says nothing of the internet."""
    values: dict[str, Value] = {"server": server}
    devices = lan_devices(facts)
    default = next((route for route in facts.routes if route.to.version == 4 and route.to.prefixlen == 0), None)
    # The device that leads to the internet first, if it is in a LAN: then the server stands behind a gateway.
    ordered = sorted(devices, key=lambda name: default is None or name != default.dev)
    addresses = [address for name in ordered for address in _private(devices[name].addresses)]
    if addresses:
        # One with a network first: with /32 it has none, and only a route tells its LAN.
        first = min(addresses, key=lambda one: (one.version != 4, one.network.num_addresses == 1))
        values["lan_address"] = str(first.ip)
        if default is not None and default.via is not None and any(default.via in one.network for one in addresses):
            values["gateway"] = str(default.via)
        elif default is not None and default.dev not in devices:
            values["gateway"] = str(first.ip)  # it has an address of the internet itself
        lans = (_lan_of(facts, one, devices) for one in addresses)
        values["lans"] = [str(lan) for lan in dict.fromkeys(lans) if lan.num_addresses > 1]
    port = _free_port(facts)
    if port != LISTEN_PORT:
        values["listen_port"] = port
    if reached_at is not None:
        values["endpoint"] = f"[{reached_at}]:{port}" if ":" in reached_at else f"{reached_at}:{port}"
    return values


def _lan_of(facts: Facts, address: InterfaceAddress, devices: Mapping[str, Device]) -> Lan:
    """The network of an address; of one that has a network to itself, the one that a route by its device has it in."""
    if address.network.num_addresses > 1:
        return address.network
    own = next(name for name, device in devices.items() if address in device.addresses)
    around = [
        route.to for route in facts.routes if route.dev == own and route.to.prefixlen > 0 and address.ip in route.to
    ]
    return max(around, key=lambda lan: lan.num_addresses, default=address.network)


def _free_port(facts: Facts) -> int:
    taken = {one.port for one in facts.listeners} | {one.listen_port for one in facts.other_interfaces}
    if facts.interface is not None:
        return facts.interface.listen_port or LISTEN_PORT
    return next(port for port in range(LISTEN_PORT, 65536) if port not in taken)


def host_of(hostname: str) -> str | None:
    """The host if it may be one that the internet knows: a name with a dot, or an address that is no private one."""
    try:
        address: Address = ipaddress.ip_address(hostname)
    except ValueError:
        return hostname.lower() if "." in hostname and not hostname.endswith((".local", ".lan", ".internal")) else None
    private = any(address.version == lan.version and address in lan for lan in PRIVATE)
    return None if private or address.is_loopback or address.is_link_local else str(address)


def free_tunnel(taken: Iterable[Lan]) -> Lan:
    """10.8.1.0/24, or the next /24 that overlaps none of these."""
    used = [lan for lan in taken if lan.version == 4]
    candidates = [TUNNEL, *(ipaddress.IPv4Network(((10 << 24) + (8 << 16) + (n << 8), 24)) for n in range(2, 62 << 8))]
    return next(lan for lan in candidates if not any(lan.overlaps(other) for other in used))
