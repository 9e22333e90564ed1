"""How tunnels of ssh are: which end calls, what keeps it up, and how much went through the device. Pure;
wireguard/status.py has WireGuard's.
"""

from dataclasses import dataclass
from typing import Any

from roamlet_vpn.errors import shown
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.network import Network, Site
from roamlet_vpn.model.ssh_facts import SshFacts
from roamlet_vpn.model.status import State, age_text, rates
from roamlet_vpn.ssh.setup import Identity, setup

__all__ = ["SshTunnel", "ssh_tunnels"]


@dataclass(frozen=True)
class SshTunnel:
    """A tunnel as one of its ends has it: up while a process holds the device, which ends when it hears nothing for 15 seconds."""

    peer: str
    calls: bool
    state: State
    device: str
    unit: str  # what keeps it, in systemctl's words
    age: float | None  # seconds since the one that calls was started
    rx: int  # bytes
    tx: int
    rx_rate: float | None = None  # bytes a second; None in the first update
    tx_rate: float | None = None
    said: str | None = None  # the last words of an ssh that has no tunnel

    def label(self) -> str:
        """The peer's name."""
        return self.peer

    def since(self) -> str:
        """How long it has been connected: the end that calls knows."""
        if not self.calls:
            return ""
        return age_text(self.age) if self.state == "up" else "no"

    def by(self) -> str:
        """The device, which end calls, and why there is no tunnel."""
        way = f"{self.device}, {'calls' if self.calls else 'is called'}"
        if self.calls and self.state != "up":
            way += f"; it is {self.unit}" + (f": {shown(self.said)}" if self.said else "")
        return way

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return dict(vars(self))


def ssh_tunnels(network: Network, site: Site, now: Facts, before: Facts | None) -> tuple[SshTunnel, ...]:
    """Those that the site should have; `before` are facts of an earlier moment, which rates are taken from."""
    ssh = now.ssh
    if ssh is None:
        return ()
    seconds = 0.0 if before is None else now.time - before.time
    anybody = {other.name: Identity(None) for other in network.sites}
    return tuple(
        _tunnel(ssh, before.ssh if before is not None else None, seconds, end.name, end.device, end.peer, end.calls)
        for end in setup(network, site, anybody, now.systemd).ends
    )


def _tunnel(
    ssh: SshFacts, before: SshFacts | None, seconds: float, name: str, device: str, peer: str, calls: bool
) -> SshTunnel:
    state, about = ssh.ends.get(name), ssh.devices.get(device)
    earlier = before.devices.get(device) if before is not None else None
    carried = (about.rx, about.tx) if about is not None else (0, 0)
    carried_before = (earlier.rx, earlier.tx) if about is not None and earlier is not None else None
    rx_rate, tx_rate = rates(seconds, carried, carried_before)
    return SshTunnel(
        peer=peer,
        calls=calls,
        state="up" if about is not None and about.carrier else "down",
        device=device,
        unit=state.active if state is not None else "not there",
        age=state.age if state is not None else None,
        rx=carried[0],
        tx=carried[1],
        rx_rate=rx_rate,
        tx_rate=tx_rate,
        said=state.said if state is not None else None,
    )
