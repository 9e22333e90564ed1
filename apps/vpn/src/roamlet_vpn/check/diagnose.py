"""From measurements to named diagnoses, each with what to do: pure. What explains a fault keeps its consequences unnamed.

Here are the rules about one server; the backend has those about tunnels, check/diagnose_lans.py those about the LANs,
check/diagnose_counters.py those about lost packets.
"""

from collections.abc import Iterable, Iterator, Mapping
from statistics import median

from roamlet_vpn.backends import backend_of
from roamlet_vpn.check.diagnose_counters import lost_packets
from roamlet_vpn.check.diagnose_firewalls import behind_firewalls, closed_servers
from roamlet_vpn.check.diagnose_lans import behind_servers
from roamlet_vpn.check.latency import KINDS, missing
from roamlet_vpn.model.diagnosis import ERROR, Diagnosis, error, warning
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.measured import Measurements
from roamlet_vpn.model.network import Network

CLOCK = 5.0  # seconds: more than any clock that is kept by NTP is off


def diagnose(network: Network, facts: Mapping[str, Facts], measurements: Measurements) -> tuple[Diagnosis, ...]:
    """All that is wrong, errors first, then in the order of the sites. Nothing wrong: an empty tuple."""
    found = list(_each_server(network, facts, measurements))
    found += closed_servers(network, measurements, measurements.broken_pairs)
    found += backend_of(network).tunnel_diagnoses(network, facts, measurements, found)
    told = {frozenset((one.site, one.peer)) for one in found if one.peer and one.severity == ERROR}
    broken = told | measurements.broken_pairs
    found += behind_servers(network, facts, measurements, broken)
    found += behind_firewalls(network, facts, measurements, found, broken)
    found += _missing_paths(network, measurements, found)
    found += lost_packets(network, measurements)
    order = {site.name: number for number, site in enumerate(network.sites)}
    return tuple(sorted(found, key=lambda one: (one.severity != ERROR, order[one.site], one.name)))


def _missing_paths(network: Network, measurements: Measurements, found: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
    """What nothing came through, where no error of either site says why, so that a check never calls all well beside it."""
    explained = {one.site for one in found if one.severity == ERROR or one.name == "server-firewall"}
    told: set[frozenset[str]] = set()
    for kind, one, other in missing(network, measurements):
        if {one, other} & explained or frozenset((one, other)) in told:
            continue
        told.add(frozenset((one, other)))
        echoes = [echo for name in KINDS[kind] for echo in measurements.echoes_of(one, other, name)]
        echo = next(echo for echo in echoes if not echo.answered)
        last = echo.trail[-1] if echo.trail else None
        seen = (
            "was seen nowhere"
            if last is None
            else f"was last seen at {last.device} of {last.site}, {'going out' if last.out else 'coming in'}"
        )
        yield error(
            "path-missing",
            one,
            f"nothing comes through from {one} to {echo.to} in {other}, although the servers, their routes and gateways look right",
            f"of {echo.sent} echoes from {echo.source} none was answered"
            + (f" ({echo.error})" if echo.error else "")
            + f"; one {seen}",
            f"on the server of {one}: `ip route get {echo.to} from {echo.source}`, and `ip rule show` for rules before it",
            f"on both servers, while `ping -I {echo.source} {echo.to}` runs: `tcpdump -ni any host {echo.to}` shows how far",
            peer=other,
        )


def _each_server(network: Network, facts: Mapping[str, Facts], measurements: Measurements) -> Iterator[Diagnosis]:
    for site in network.sites:
        there = facts.get(site.name)
        if site.name in measurements.unreachable or there is None:
            yield error(
                "server-unreachable",
                site.name,
                f"the server of {site.name} could not be asked",
                measurements.unreachable.get(site.name, "there are no facts of it"),
                f"see whether `ssh {site.server}` works, and run this again",
            )
        else:
            yield from backend_of(network).server_diagnoses(network, site, there)
        measured = measurements.sites.get(site.name)
        if measured is not None and "watch" in measured.missing:
            yield warning(
                "cannot-watch",
                site.name,
                f"packets could not be watched on the server of {site.name}: what depends on that is not told",
                measured.missing["watch"],
                f"let roamlet be root there: `sudo = true` for {site.name}",
            )
    yield from _clocks(network, measurements)


def _clocks(network: Network, measurements: Measurements) -> Iterator[Diagnosis]:
    """Clocks that differ from what most of them say, this machine's among them."""
    offsets = {name: measured.clock for name, measured in measurements.sites.items()}
    usual = median([0.0, *offsets.values()]) if len(offsets) != 1 else 0.0
    for site in network.sites:
        measured = measurements.sites.get(site.name)
        if measured is None or abs(measured.clock - usual) <= CLOCK + measured.clock_within:
            continue
        off = measured.clock - usual
        tunnels = [echo for echo in measurements.echoes if echo.site == site.name and echo.kind == "tunnel"]
        broken = bool(tunnels) and not any(echo.answered for echo in tunnels)
        yield (error if broken and off < 0 else warning)(
            "clock-wrong",
            site.name,
            f"the clock of {site.name} is {abs(off):.0f} s {'behind' if off < 0 else 'ahead of'} the others",
            "asked at the same moment as the others' clocks; WireGuard refuses a handshake whose time lies before the last one's",
            f"on {site.server}: `timedatectl` shows whether it is kept, `systemctl enable --now systemd-timesyncd` keeps it",
            "a machine without a battery for its clock needs one that is saved: fake-hwclock, or `roamlet clock`",
        )
