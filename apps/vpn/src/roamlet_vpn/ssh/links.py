"""Which site calls which with the ssh backend, and by which tun devices. Pure."""

from dataclasses import dataclass

from roamlet_vpn.errors import VpnError
from roamlet_vpn.model.network import Address, Lan, Network, Site, allowed_ips, ssh_device

MTU = 1500  # what a tun device has: ssh is a stream, which cuts as it likes


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


def links(network: Network) -> tuple[Link, ...]:
    """All tunnels. A device is called after the far site's place in the tunnel range, so numbers stay when sites come and go.

    The site that stands first in the file calls, unless only it can be called. Raises SshBackendError when neither can.
    """
    found = []
    for site, peer in network.pairs():
        caller, callee = (site, peer) if peer.endpoint is not None else (peer, site)
        if callee.endpoint is None:
            raise SshBackendError(
                f"neither {site.name} nor {peer.name} has an endpoint, so that neither can call the other; give one of them "
                '`endpoint = "ADDRESS:51820"`: its address, with port 22 forwarded to its server'
            )
        found.append(Link(caller, callee, ssh_device(network, caller, callee), ssh_device(network, callee, caller)))
    return tuple(found)


def end_of(network: Network, site: Site, link: Link) -> End:
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
