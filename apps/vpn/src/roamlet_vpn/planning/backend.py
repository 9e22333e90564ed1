"""What a backend is: all in which tunnels of WireGuard and of ssh differ for the rest of the program.

wireguard/backend.py and ssh/backend.py have the two that there are; backends.py chooses the one of a network.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from roamlet_vpn.model.diagnosis import Diagnosis
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.measured import Measurements
from roamlet_vpn.model.network import Network, Site
from roamlet_vpn.model.status import SiteStatus
from roamlet_vpn.planning.actions import Action
from roamlet_vpn.planning.plan import Plan

__all__ = ["Backend"]


class Backend(ABC):
    """One kind of tunnel. Has no state."""

    title: str  # for people
    columns: tuple[str, str]  # of the status table: what TunnelStatus.since and TunnelStatus.by show
    udp: bool  # whether packets go to the endpoint by UDP, so that a check measures datagrams there
    foreign_peers: bool  # whether the tunnels of peers that are no sites end with those of the network

    @abstractmethod
    def make_plan(
        self, network: Network, facts: Mapping[str, Facts], keys: Mapping[str, str], unreachable: Mapping[str, str]
    ) -> Plan:
        """What must be done on each site of which there are facts; see backends.make_plan."""

    @abstractmethod
    def key_maker(self) -> Callable[..., Any]:
        """The function of host/ that makes a key on a server, given the interface, and returns the public half."""

    @abstractmethod
    def down_action(self, why: str, keep_config: bool) -> Action:
        """What takes all of the network away from a server."""

    @abstractmethod
    def is_down(self, facts: Facts, keep_config: bool) -> bool:
        """Whether a server has nothing of the network any more, except a configuration that is kept."""

    @abstractmethod
    def tunnels(self, network: Network) -> str:
        """The tunnels of one server, in words."""

    @abstractmethod
    def device(self, network: Network, site: Site, peer: Site) -> str:
        """The device by which the site's server sends to the peer."""

    @abstractmethod
    def running_device(self, network: Network, site: Site, peer: Site, facts: Facts | None) -> str | None:
        """The same; None where no device is known. For the site itself: the one that all its tunnels share."""

    @abstractmethod
    def listen_port(self, site: Site, facts: Facts) -> int | None:
        """The UDP port at which the site's server takes packets of the tunnels; None: there is no such port."""

    @abstractmethod
    def forwarded_port(self, network: Network, site: Site) -> tuple[str, int | None, int]:
        """What others send to the site: the protocol, the port on the internet (None: no site calls it), the server's own port."""

    @abstractmethod
    def site_status(
        self, network: Network, site: Site, now: Facts, before: Facts | None, names: Mapping[str | None, str]
    ) -> SiteStatus:
        """How the site's tunnels are. `names`: the sites by the public keys of their interfaces."""

    @abstractmethod
    def server_diagnoses(self, network: Network, site: Site, facts: Facts) -> Iterator[Diagnosis]:
        """What is wrong with the tunnels according to the site's server alone."""

    @abstractmethod
    def tunnel_diagnoses(
        self,
        network: Network,
        facts: Mapping[str, Facts],
        measurements: Measurements,
        found: Iterable[Diagnosis],
    ) -> list[Diagnosis]:
        """What is wrong between two servers, and is not explained by the diagnoses found before."""

    @abstractmethod
    def loss_diagnoses(self, site: Site, measurements: Measurements) -> Iterator[Diagnosis]:
        """Losses that only this kind of tunnel has."""
