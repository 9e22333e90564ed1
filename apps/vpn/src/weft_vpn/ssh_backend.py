"""The ssh backend: tunnels of OpenSSH (`ssh -w`) between servers that run it already, to begin with and to leave for WireGuard.

Which site calls which, by which tun devices, and the scripts for that are pure; `up` and `down` have the servers do it. Slower than
WireGuard by far, and slow on a line that loses packets: TCP runs inside of TCP.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weft_vpn.claim import Claim
from weft_vpn.errors import VpnError
from weft_vpn.host import tunnel
from weft_vpn.network import Network, Site, allowed_ips, ssh_device
from weft_vpn.servers import Answer, Servers

__all__ = ["Link", "SshBackendError", "accept_script", "call_script", "down", "links", "up"]

FOLDER, USER = tunnel.FOLDER, tunnel.USER
QUEUE = 2000  # packets: the 500 of a tun device overflow while ssh waits for an answer at 80 ms
METRIC = 512  # of the routes: those of WireGuard come before them, so that a network goes over while both are there
ALIVE = 5  # seconds between signs of life; three that are missing end the connection, and it is made anew


class SshBackendError(VpnError):
    """The tunnels could not be made; the message says where and why."""


@dataclass(frozen=True)
class Link:
    """One tunnel: `caller` runs ssh, `callee` has an sshd that the internet reaches. Each end has a device for it."""

    caller: Site
    callee: Site
    caller_device: str
    callee_device: str


def links(network: Network) -> tuple[Link, ...]:
    """All tunnels. A device is called after the far site's place in the tunnel range, so numbers stay when sites come and go.

    The site that stands first in the file calls, unless only it can be called. Raises SshBackendError when neither can.
    """
    found = []
    for number, site in enumerate(network.sites):
        for peer in network.sites[number + 1 :]:
            if peer not in network.peers_of(site):
                continue
            caller, callee = (site, peer) if peer.endpoint is not None else (peer, site)
            if callee.endpoint is None:
                raise SshBackendError(
                    f"neither {site.name} nor {peer.name} has an endpoint, so that neither can call the other; give one of them "
                    '`endpoint = "ADDRESS:51820"`: its address, with port 22 forwarded to its server'
                )
            found.append(Link(caller, callee, ssh_device(network, caller, callee), ssh_device(network, callee, caller)))
    return tuple(found)


def call_script(network: Network, link: Link) -> str:
    """What the caller's server runs for as long as the tunnel is to be there: its end of the device, then ssh in the foreground."""
    assert link.callee.endpoint is not None
    settings = {
        "BatchMode": "yes",
        "ConnectTimeout": "15",
        "ExitOnForwardFailure": "yes",  # a tunnel that could not be made is no tunnel: ssh ends, and is started again
        "HostKeyAlias": link.callee.name,
        "IdentitiesOnly": "yes",
        "IdentityFile": f"{FOLDER}/id_ed25519",
        "IPQoS": "throughput",
        "ServerAliveCountMax": "3",
        "ServerAliveInterval": str(ALIVE),
        "StrictHostKeyChecking": "yes",
        "Tunnel": "point-to-point",
        "UserKnownHostsFile": f"{FOLDER}/known_hosts",
    }
    words = ["ssh", "-F", "/dev/null", "-N", "-w", f"{link.caller_device[3:]}:{link.callee_device[3:]}"]
    words += [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    words.append(f"{USER}@{link.callee.endpoint.host}")
    return _device_script(network, link.caller, link.callee, link.caller_device) + f"exec {shlex.join(words)}\n"


def accept_script(network: Network, link: Link) -> str:
    """What the callee's server runs once: a device that belongs to the user as whom the caller logs in, who so needs no root."""
    return _device_script(network, link.callee, link.caller, link.callee_device)


def up(network: Network, servers: Servers) -> None:
    """Make all tunnels, and have them come back by themselves. Doing it again changes nothing that is right.

    Private keys stay where they are made. Blocks for some round trips. Raises SshBackendError; what was made until then stays.
    """
    network = network.with_addresses()
    made = links(network)
    servers.connect()
    names = [site.name for site in network.sites]
    identities = {
        name: (claim["key"].name(), tuple(one.name() for one in claim["host_keys"].each()))
        for name, claim in _each(servers, tunnel.identity, dict.fromkeys(names, ())).items()
    }
    orders = {name: _order(network, name, made, identities) for name in names}
    _each(servers, tunnel.accept, {name: (order,) for name, order in orders.items()})
    _each(servers, tunnel.call, {name: (order,) for name, order in orders.items()})


def down(network: Network, servers: Servers) -> None:
    """Take all of it away: units, devices, keys, the user. Routes that another device has by then stay. Raises SshBackendError."""
    servers.connect()
    _each(servers, tunnel.remove, {site.name: () for site in network.sites})


def _order(
    network: Network, name: str, made: tuple[Link, ...], identities: Mapping[str, tuple[str, tuple[str, ...]]]
) -> dict[str, Any]:
    """What one server is to do, as plain values."""
    calls = [link for link in made if link.caller.name == name]
    accepts = [link for link in made if link.callee.name == name]
    return {
        "calls": {link.callee.name: call_script(network, link) for link in calls},
        "accepts": {link.caller.name: accept_script(network, link) for link in accepts},
        "known": "".join(f"{link.callee.name} {key}\n" for link in calls for key in identities[link.callee.name][1]),
        "allowed": "".join(
            f'restrict,tunnel="{link.callee_device[3:]}" {identities[link.caller.name][0]}\n' for link in accepts
        ),
    }


def _device_script(network: Network, site: Site, peer: Site, device: str) -> str:
    lines = [
        f"[ -e /sys/class/net/{device} ] || ip tuntap add dev {device} mode tun user {USER}",
        f"ip address replace {site.address} peer {peer.address} dev {device}",
        f"ip link set dev {device} txqueuelen {QUEUE} up",
    ]
    wanted = allowed_ips(network, site, peer)
    lines += [
        f"ip route replace {lan} dev {device} metric {METRIC}"
        for lan in wanted
        if peer.address not in lan or lan == network.tunnel
    ]
    lines += ["sysctl -qw net.ipv4.ip_forward=1"]
    if any(lan.version == 6 for lan in wanted):
        lines.append("sysctl -qw net.ipv6.conf.all.forwarding=1")
    return "set -e\n" + "\n".join(lines) + "\n"


def _each(servers: Servers, function: Any, arguments: Mapping[str, tuple[Any, ...]]) -> dict[str, Claim]:
    answers: dict[str, Answer[Any]] = servers.each(function, arguments)
    failed = {name: answer.error for name, answer in answers.items() if answer.error is not None}
    if failed:
        raise SshBackendError("\n".join(f"{name}: {error}" for name, error in failed.items()))
    return {name: Claim(answer.value, f"what {name} answered") for name, answer in answers.items()}
