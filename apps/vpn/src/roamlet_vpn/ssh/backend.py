"""The ssh backend: tunnels of OpenSSH (`ssh -w`) between servers that run it already, to begin with and to leave for WireGuard.

Which site calls which, by which tun devices, and what each server has for that; pure. ssh/files.py has the texts, ssh/plan.py
compares them with what is there. Slower than WireGuard by far, and slow on a line that loses packets: TCP runs inside of TCP.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from roamlet_vpn.errors import VpnError
from roamlet_vpn.model.network import Address, Lan, Network, Site, allowed_ips, ssh_device
from roamlet_vpn.ssh.files import MTU, SSHD, accept_script, allowed_key, call_script, known_host, unit
from roamlet_vpn.wireguard.actions import MADE_BY_APPLY

__all__ = ["End", "Identity", "Link", "Setup", "SshBackendError", "links", "setup"]


class SshBackendError(VpnError):
    """Tunnels of ssh cannot join this network; the message says why, and what to change."""


@dataclass(frozen=True)
class Link:
    """One tunnel: `caller` runs ssh, `callee` has an sshd that the internet reaches. Each end has a device for it."""

    caller: Site
    callee: Site
    caller_device: str
    callee_device: str


@dataclass(frozen=True)
class Identity:
    """How a server is known to others: the key that it calls with, None when apply makes it, and those that its sshd shows."""

    key: str | None
    host_keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class End:
    """One end of a tunnel, as its server should have it."""

    peer: str
    calls: bool
    device: str
    address: Address
    peer_address: Address
    routes: tuple[Lan, ...]
    mtu: int

    @property
    def name(self) -> str:
        """Of its script, and in its unit's name."""
        return f"{'call' if self.calls else 'accept'}-{self.peer}"


@dataclass(frozen=True)
class Setup:
    """All that one server should have: its ends of tunnels, and the texts of files by the names that host/tunnel.py knows."""

    ends: tuple[End, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)


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


def setup(network: Network, site: Site, identities: Mapping[str, Identity], systemd: bool) -> Setup:
    """What the site's server should have. A tunnel to a peer that is not among `identities` is left out: nobody knows its keys.

    The network's sites must have addresses. Raises SshBackendError as links() does.
    """
    own = [link for link in links(network) if site in (link.caller, link.callee)]
    own = [link for link in own if {link.caller.name, link.callee.name} <= {*identities, site.name}]
    calls = [link for link in own if link.caller == site]
    accepts = [link for link in own if link.callee == site]
    ends = []
    files = {}
    for link in own:
        end = _end(network, site, link)
        ends.append(end)
        files[end.name] = accept_script(end)
        if end.calls:
            assert link.callee.endpoint is not None
            files[end.name] = call_script(end, link.callee_device, link.callee.endpoint.host)
        if systemd:
            files[f"{end.name}.service"] = unit(end)
    if calls:
        files["known_hosts"] = "".join(
            known_host(link.callee.name, key) for link in calls for key in identities[link.callee.name].host_keys
        )
    if accepts:
        files["authorized_keys"] = "".join(
            allowed_key(link.callee_device, identities[link.caller.name].key or MADE_BY_APPLY) for link in accepts
        )
        files["sshd"] = SSHD
    return Setup(tuple(ends), files)


def _end(network: Network, site: Site, link: Link) -> End:
    calls = link.caller == site
    peer = link.callee if calls else link.caller
    assert site.address is not None and peer.address is not None
    return End(
        peer=peer.name,
        calls=calls,
        device=link.caller_device if calls else link.callee_device,
        address=site.address,
        peer_address=peer.address,
        routes=tuple(
            lan
            for lan in allowed_ips(network, site, peer)
            if lan == network.tunnel or lan.version != peer.address.version or peer.address not in lan
        ),
        mtu=site.mtu or MTU,
    )
