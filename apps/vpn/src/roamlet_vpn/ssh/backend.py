"""Tunnels of ssh as a backend."""

from roamlet_vpn.host import tunnel_act as host_tunnels
from roamlet_vpn.model.network import Network, Site, ssh_device
from roamlet_vpn.planning.backend import Backend
from roamlet_vpn.ssh.actions import TunnelsDown
from roamlet_vpn.ssh.diagnose import sent_again, silent_tunnels
from roamlet_vpn.ssh.links import links
from roamlet_vpn.ssh.plan import make_ssh_plan
from roamlet_vpn.ssh.status import site_status

SSH_PORT = 22  # at which sites call each other


def _forwarded_port(network: Network, site: Site) -> tuple[str, int | None, int]:
    return "tcp", SSH_PORT if any(link.callee == site for link in links(network)) else None, SSH_PORT


SSH = Backend(
    title="ssh",
    columns=("connected", "by"),
    udp=False,
    foreign_peers=False,
    make_plan=make_ssh_plan,
    make_key=host_tunnels.make_identity,
    down=lambda why, keep_config: TunnelsDown(why),
    is_down=lambda facts, keep_config: facts.ssh is not None and not facts.ssh.there,
    tunnels=lambda network: "all ssh tunnels",
    device=ssh_device,
    running_device=lambda network, site, peer, facts: None if site == peer else ssh_device(network, site, peer),
    listen_port=lambda site, facts: None,
    forwarded_port=_forwarded_port,
    site_status=site_status,
    server_diagnoses=lambda network, site, facts: (),
    tunnel_diagnoses=lambda network, facts, measurements, found: silent_tunnels(network, facts, measurements),
    loss_diagnoses=sent_again,
)
