"""Where packets get lost inside the servers, read from what their counters gained during a check. Pure."""

from collections.abc import Iterator, Mapping
from shlex import quote

from roamlet_vpn.backends import backend_of
from roamlet_vpn.model.diagnosis import Diagnosis, warning
from roamlet_vpn.model.measured import Counters, Measurements
from roamlet_vpn.model.network import Network, Site

FULL = 0.9  # of what the connection tracking can hold


def lost_packets(network: Network, measurements: Measurements) -> list[Diagnosis]:
    """What each server lost while it was measured, and what ssh tunnels had to send again."""
    found = []
    for site in network.sites:
        measured = measurements.sites.get(site.name)
        if measured is not None:
            found += [*_dropped(network, site, measured.before, measured.after), *_tracked(site, measured.after)]
            found += backend_of(network).loss_diagnoses(site, measurements)
    return found


def _dropped(network: Network, site: Site, before: Counters, after: Counters) -> Iterator[Diagnosis]:
    tunnels = [name for name in after.devices if name == network.interface or name.startswith("tun")]
    for device in tunnels:
        dropped = _gain(before.devices.get(device, {}), after.devices[device], "tx_dropped")
        if dropped:
            yield warning(
                "drops-tunnel-device",
                site.name,
                f"{device} of {site.name} drops packets",
                f"{dropped} of {_gain(before.devices.get(device, {}), after.devices[device], 'tx_packets') + dropped} "
                "that were to leave by it, meanwhile",
                f"a longer queue: `ip link set dev {quote(device)} txqueuelen 2000` on {site.server}",
                "if it goes on, the processor is too slow for this: look at `top` there",
            )
    for device in after.queues:
        dropped = after.queues[device] - before.queues.get(device, after.queues[device])
        if dropped > 0 and device not in tunnels:
            yield warning(
                "drops-queue",
                site.name,
                f"the queue of {device} of {site.name} drops packets",
                f"{dropped} meanwhile, says `tc -s qdisc show dev {quote(device)}`",
                "under full load that is how TCP learns of the line's speed; without, the queue is too short: "
                f"`tc qdisc replace dev {quote(device)} root fq_codel`",
            )
    errors = _gain(before.udp, after.udp, "RcvbufErrors")
    if after.socket_drops is not None and before.socket_drops is not None:
        errors = max(errors, after.socket_drops - before.socket_drops)
    if errors > 0:
        yield warning(
            "drops-udp-buffer",
            site.name,
            f"UDP packets were dropped at {site.name} because no program read them in time",
            f"{errors} meanwhile, say /proc/net/udp and /proc/net/snmp",
            f"room for more: `sysctl -w net.core.rmem_max=7500000` on {site.server}, and restart the tunnel",
            "WireGuard in the kernel needs no such buffer: a newer kernel has it",
        )


def _tracked(site: Site, after: Counters) -> Iterator[Diagnosis]:
    if after.tracked is not None and after.tracked[1] and after.tracked[0] >= FULL * after.tracked[1]:
        yield warning(
            "tracking-full",
            site.name,
            f"the server of {site.name} tracks {after.tracked[0]} of at most {after.tracked[1]} connections: "
            "new ones will be dropped",
            "net.netfilter.nf_conntrack_count and nf_conntrack_max",
            f"`sysctl -w net.netfilter.nf_conntrack_max={2 * after.tracked[1]}` on {site.server}",
        )


def _gain(before: Mapping[str, int], after: Mapping[str, int], name: str) -> int:
    """What a counter grew by; 0 where it is not there, or began anew."""
    return max(0, after.get(name, 0) - before.get(name, after.get(name, 0)))
