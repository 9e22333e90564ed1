"""What a backend is: everything in which tunnels of WireGuard and of ssh differ for the rest of the program.

wireguard/backend.py and ssh/backend.py have the two that there are; backends.py chooses the one of a network.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from roamlet_vpn.model.diagnosis import Diagnosis
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.measured import Measurements
from roamlet_vpn.model.network import Network, Site
from roamlet_vpn.model.status import SiteStatus
from roamlet_vpn.planning.actions import Action
from roamlet_vpn.planning.plan import Plan

FactsOf = Mapping[str, Facts]
"""The facts of servers, by the names of their sites."""


@dataclass(frozen=True, kw_only=True)
class Backend:
    """One kind of tunnel."""

    title: str  # for people
    columns: tuple[str, str]  # of the status table: what TunnelStatus.since and TunnelStatus.by show
    udp: bool  # whether packets go to the endpoint by UDP, so that a check measures datagrams there
    foreign_peers: bool  # whether the tunnels of peers that are no sites end with those of the network

    # Plans and changes
    make_plan: Callable[[Network, FactsOf, Mapping[str, str], Mapping[str, str]], Plan]  # as backends.make_plan
    make_key: Callable[..., Any]  # of host/: makes a key on a server, given the interface, and returns the public half
    down: Callable[
        [str, bool], Action
    ]  # takes the network away from a server: why, and whether to keep the configuration
    is_down: Callable[[Facts, bool], bool]  # whether nothing of it is left, except a configuration that is kept

    # Devices and ports
    tunnels: Callable[[Network], str]  # the tunnels of one server, in words
    device: Callable[[Network, Site, Site], str]  # the one by which a site's server sends to a peer
    running_device: Callable[[Network, Site, Site, Facts | None], str | None]  # the same, if it is known to be there
    listen_port: Callable[[Site, Facts], int | None]  # UDP, for packets of the tunnels; None: there is no such port
    forwarded_port: Callable[[Network, Site], tuple[str, int | None, int]]
    """What other sites send to a site: the protocol, the port on the internet (None: no site calls it), the server's port."""

    # Status and diagnoses
    site_status: Callable[[Network, Site, Facts, Facts | None, Mapping[str | None, str]], SiteStatus]
    """From the facts of now and of an earlier moment; the last argument names sites by the public keys of their interfaces."""
    server_diagnoses: Callable[[Network, Site, Facts], Iterable[Diagnosis]]  # from one server alone
    tunnel_diagnoses: Callable[[Network, FactsOf, Measurements, Iterable[Diagnosis]], Iterable[Diagnosis]]
    """Between two servers, except what the last argument explains."""
    loss_diagnoses: Callable[[Site, Measurements], Iterable[Diagnosis]]  # losses that only this kind of tunnel has
