"""WireGuard as a backend."""

from collections.abc import Iterable

from roamlet_vpn.host import act as host_act
from roamlet_vpn.model.diagnosis import ERROR, Diagnosis
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.measured import Measurements
from roamlet_vpn.model.network import Network
from roamlet_vpn.planning.backend import Backend, FactsOf
from roamlet_vpn.wireguard.actions import Down
from roamlet_vpn.wireguard.diagnose import Tunnels, interface_down
from roamlet_vpn.wireguard.plan import make_wireguard_plan
from roamlet_vpn.wireguard.status import site_status


def _is_down(facts: Facts, keep_config: bool) -> bool:
    off = facts.unit is None or facts.unit.enabled != "enabled"
    return facts.interface is None and (facts.config is None or keep_config) and off


def _tunnel_diagnoses(
    network: Network, facts: FactsOf, measurements: Measurements, found: Iterable[Diagnosis]
) -> list[Diagnosis]:
    found = list(found)
    down = {one.site for one in found if one.name in ("server-unreachable", "tunnel-down")}
    known = [one for one in found if one.name == "clock-wrong" and one.severity == ERROR]
    known += [one for one in found if one.name == "server-firewall"]
    return Tunnels(network, facts, measurements, down).diagnoses(known)


WIREGUARD = Backend(
    title="WireGuard",
    columns=("handshake", "endpoint"),
    udp=True,
    foreign_peers=True,
    make_plan=make_wireguard_plan,
    make_key=host_act.make_key,
    down=Down,
    is_down=_is_down,
    tunnels=lambda network: network.interface,
    device=lambda network, site, peer: network.interface,
    running_device=lambda network, site, peer, facts: network.interface if facts and facts.interface else None,
    listen_port=lambda site, facts: site.listen_port if facts.interface is None else facts.interface.listen_port,
    forwarded_port=lambda network, site: ("udp", site.endpoint.port if site.endpoint else None, site.listen_port),
    site_status=site_status,
    server_diagnoses=interface_down,
    tunnel_diagnoses=_tunnel_diagnoses,
    loss_diagnoses=lambda site, measurements: (),
)
