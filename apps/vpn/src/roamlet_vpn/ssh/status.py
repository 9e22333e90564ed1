"""How tunnels of ssh are: which end calls, what keeps it up, and how much went through the device. Pure;
wireguard/status.py has WireGuard's.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from roamlet_vpn.errors import shown
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.network import Network, Site
from roamlet_vpn.model.ssh_facts import SshFacts
from roamlet_vpn.model.status import SiteStatus, TunnelStatus, age_text, rates
from roamlet_vpn.ssh.links import End
from roamlet_vpn.ssh.setup import Identity, setup


@dataclass(frozen=True, kw_only=True)
class SshTunnel(TunnelStatus):
    """Up while a process holds the device; it ends when it hears nothing for 15 seconds."""

    calls: bool
    device: str
    unit: str  # what keeps it, in systemctl's words
    age: float | None  # seconds since the one that calls was started
    said: str | None = None  # the last words of an ssh that has no tunnel

    def since(self) -> str:
        if not self.calls:
            return ""  # the end that calls knows
        return age_text(self.age) if self.state == "up" else "no"

    def by(self) -> str:
        way = f"{self.device}, {'calls' if self.calls else 'is called'}"
        if self.calls and self.state != "up":
            way += f"; it is {self.unit}" + (f": {shown(self.said)}" if self.said else "")
        return way


def site_status(
    network: Network, site: Site, now: Facts, before: Facts | None, names: Mapping[str | None, str]
) -> SiteStatus:
    """The tunnels that the site should have; rates are counted from the facts `before`. ssh needs no `names`."""
    ssh = now.ssh
    if ssh is None or not ssh.there:
        return SiteStatus(site.name, "there are no ssh tunnels: `roamlet vpn apply` makes them")
    seconds = 0.0 if before is None else now.time - before.time
    any_keys = {other.name: Identity(None) for other in network.sites}
    tunnels = tuple(
        _tunnel(ssh, before.ssh if before is not None else None, seconds, end)
        for end in setup(network, site, any_keys, now.systemd).ends
    )
    return SiteStatus(site.name, up=True, peers=tunnels)


def _tunnel(ssh: SshFacts, before: SshFacts | None, seconds: float, end: End) -> SshTunnel:
    state, about = ssh.ends.get(end.name), ssh.devices.get(end.device)
    earlier = before.devices.get(end.device) if before is not None else None
    carried = (about.rx, about.tx) if about is not None else (0, 0)
    carried_before = (earlier.rx, earlier.tx) if about is not None and earlier is not None else None
    rx_rate, tx_rate = rates(seconds, carried, carried_before)
    return SshTunnel(
        peer=end.peer,
        calls=end.calls,
        state="up" if about is not None and about.carrier else "down",
        device=end.device,
        unit=state.active if state is not None else "not there",
        age=state.age if state is not None else None,
        rx=carried[0],
        tx=carried[1],
        rx_rate=rx_rate,
        tx_rate=tx_rate,
        said=state.said if state is not None else None,
    )
