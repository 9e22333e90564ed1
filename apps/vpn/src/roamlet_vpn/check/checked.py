"""All that a check has found, its exit code, and its forms for JSON and for the picture."""

from dataclasses import dataclass
from typing import Any

from roamlet_vpn.check import status as statuses
from roamlet_vpn.check.latency import matrix
from roamlet_vpn.check.picture import Tunnel
from roamlet_vpn.check.throughput import Throughput
from roamlet_vpn.model.diagnosis import ERROR, Diagnosis
from roamlet_vpn.model.measured import Measurements
from roamlet_vpn.model.network import Network
from roamlet_vpn.model.status import SiteStatus

BROKEN, OUT_OF_REACH = 1, 3  # exit codes


@dataclass(frozen=True)
class Checked:
    """All that a check has found."""

    network: Network
    statuses: tuple[SiteStatus, ...]
    measurements: Measurements
    diagnoses: tuple[Diagnosis, ...]
    throughputs: tuple[Throughput, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 nothing is broken (there may be warnings), 1 something is, 3 a server is out of reach and all else is well."""
        names = {one.name for one in self.diagnoses if one.severity == ERROR}
        if not names:
            return 0
        return OUT_OF_REACH if names == {"server-unreachable"} else BROKEN

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "diagnoses": [one.plain() for one in self.diagnoses],
            "latency": matrix(self.network, self.measurements),
            "throughput": [vars(one) for one in self.throughputs],
            **statuses.plain(self.statuses),
            "well": self.exit_code == 0,
        }

    def tunnels(self) -> list[Tunnel]:
        """For the picture."""
        ways = matrix(self.network, self.measurements)["servers"]
        rates = {(one.site, one.peer): one.rate for one in self.throughputs}
        drawn = []
        for one in self.statuses:
            for peer in one.peers:
                if peer.peer is None:
                    continue
                seconds = ways.get(one.site, {}).get(peer.peer)
                there, back = rates.get((one.site, peer.peer)), rates.get((peer.peer, one.site))
                both = None if there is None or back is None else (there, back)
                state = "up" if seconds is not None else "down" if ways else peer.state
                drawn.append(Tunnel(one.site, peer.peer, state, seconds, both))
        return list({frozenset((one.site, one.peer)): one for one in reversed(drawn)}.values())
