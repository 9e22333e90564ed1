"""Tunnels of ssh as a backend."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from roamlet_vpn.host import tunnel_act as host_tunnels
from roamlet_vpn.model.diagnosis import Diagnosis
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.measured import Measurements
from roamlet_vpn.model.network import Network, Site, ssh_device
from roamlet_vpn.model.status import SiteStatus
from roamlet_vpn.planning.actions import Action
from roamlet_vpn.planning.backend import Backend
from roamlet_vpn.planning.plan import Plan
from roamlet_vpn.ssh.actions import TunnelsDown
from roamlet_vpn.ssh.diagnose import sent_again, silent_tunnels
from roamlet_vpn.ssh.links import links
from roamlet_vpn.ssh.plan import make_ssh_plan
from roamlet_vpn.ssh.status import ssh_tunnels

__all__ = ["SSH"]

SSH_PORT = 22  # at which sites call each other


class Ssh(Backend):
    title = "ssh"
    columns = ("connected", "by")
    udp = False
    foreign_peers = False

    def make_plan(
        self, network: Network, facts: Mapping[str, Facts], keys: Mapping[str, str], unreachable: Mapping[str, str]
    ) -> Plan:
        return make_ssh_plan(network, facts, keys, unreachable)

    def key_maker(self) -> Callable[..., Any]:
        return host_tunnels.make_identity

    def down_action(self, why: str, keep_config: bool) -> Action:
        return TunnelsDown(why)

    def is_down(self, facts: Facts, keep_config: bool) -> bool:
        return facts.ssh is not None and not facts.ssh.there

    def tunnels(self, network: Network) -> str:
        return "all ssh tunnels"

    def device(self, network: Network, site: Site, peer: Site) -> str:
        return ssh_device(network, site, peer)

    def running_device(self, network: Network, site: Site, peer: Site, facts: Facts | None) -> str | None:
        return None if site.name == peer.name else ssh_device(network, site, peer)

    def listen_port(self, site: Site, facts: Facts) -> int | None:
        return None

    def forwarded_port(self, network: Network, site: Site) -> tuple[str, int | None, int]:
        return "tcp", SSH_PORT if any(link.callee == site for link in links(network)) else None, SSH_PORT

    def site_status(
        self, network: Network, site: Site, now: Facts, before: Facts | None, names: Mapping[str | None, str]
    ) -> SiteStatus:
        if now.ssh is None or not now.ssh.there:
            return SiteStatus(site.name, "there are no ssh tunnels: `roamlet vpn apply` makes them")
        return SiteStatus(site.name, up=True, peers=ssh_tunnels(network, site, now, before))

    def server_diagnoses(self, network: Network, site: Site, facts: Facts) -> Iterator[Diagnosis]:
        return iter(())

    def tunnel_diagnoses(
        self,
        network: Network,
        facts: Mapping[str, Facts],
        measurements: Measurements,
        found: Iterable[Diagnosis],
    ) -> list[Diagnosis]:
        return list(silent_tunnels(network, facts, measurements))

    def loss_diagnoses(self, site: Site, measurements: Measurements) -> Iterator[Diagnosis]:
        return sent_again(site, measurements)


SSH = Ssh()
