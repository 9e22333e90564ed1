"""WireGuard as a backend."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from roamlet_vpn.host import act as host_act
from roamlet_vpn.model.diagnosis import ERROR, Diagnosis
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.measured import Measurements
from roamlet_vpn.model.network import Network, Site
from roamlet_vpn.model.status import SiteStatus
from roamlet_vpn.planning.actions import Action
from roamlet_vpn.planning.backend import Backend
from roamlet_vpn.planning.plan import Plan
from roamlet_vpn.wireguard.actions import Down
from roamlet_vpn.wireguard.diagnose import Tunnels, interface_down
from roamlet_vpn.wireguard.plan import make_wireguard_plan
from roamlet_vpn.wireguard.status import site_status

__all__ = ["WIREGUARD"]


class WireGuard(Backend):
    title = "WireGuard"
    columns = ("handshake", "endpoint")
    udp = True
    foreign_peers = True

    def make_plan(
        self, network: Network, facts: Mapping[str, Facts], keys: Mapping[str, str], unreachable: Mapping[str, str]
    ) -> Plan:
        return make_wireguard_plan(network, facts, keys, unreachable)

    def key_maker(self) -> Callable[..., Any]:
        return host_act.make_key

    def down_action(self, why: str, keep_config: bool) -> Action:
        return Down(why, keep_config=keep_config)

    def is_down(self, facts: Facts, keep_config: bool) -> bool:
        off = facts.unit is None or facts.unit.enabled != "enabled"
        return facts.interface is None and (facts.config is None or keep_config) and off

    def tunnels(self, network: Network) -> str:
        return network.interface

    def device(self, network: Network, site: Site, peer: Site) -> str:
        return network.interface

    def running_device(self, network: Network, site: Site, peer: Site, facts: Facts | None) -> str | None:
        return network.interface if facts is not None and facts.interface is not None else None

    def listen_port(self, site: Site, facts: Facts) -> int | None:
        return site.listen_port if facts.interface is None else facts.interface.listen_port

    def forwarded_port(self, network: Network, site: Site) -> tuple[str, int | None, int]:
        return "udp", None if site.endpoint is None else site.endpoint.port, site.listen_port

    def site_status(
        self, network: Network, site: Site, now: Facts, before: Facts | None, names: Mapping[str | None, str]
    ) -> SiteStatus:
        return site_status(network, site, now, before, names)

    def server_diagnoses(self, network: Network, site: Site, facts: Facts) -> Iterator[Diagnosis]:
        return interface_down(network, site, facts)

    def tunnel_diagnoses(
        self,
        network: Network,
        facts: Mapping[str, Facts],
        measurements: Measurements,
        found: Iterable[Diagnosis],
    ) -> list[Diagnosis]:
        found = list(found)
        down = {one.site for one in found if one.name in ("server-unreachable", "tunnel-down")}
        known = [one for one in found if one.name == "clock-wrong" and one.severity == ERROR]
        known += [one for one in found if one.name == "server-firewall"]
        return Tunnels(network, facts, measurements, down).diagnoses(known)

    def loss_diagnoses(self, site: Site, measurements: Measurements) -> Iterator[Diagnosis]:
        return iter(())


WIREGUARD = WireGuard()
