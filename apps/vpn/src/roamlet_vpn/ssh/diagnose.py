"""Why a tunnel of ssh carries nothing, from what its two servers have of it and the last words of ssh. Pure."""

import re
from collections.abc import Iterator, Mapping

from roamlet_vpn.model.diagnosis import Diagnosis, error, warning
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.measured import Measurements
from roamlet_vpn.model.network import Network, Site
from roamlet_vpn.ssh.links import Link, links
from roamlet_vpn.ssh.plan import RUNNING

SENT_AGAIN = 0.002  # of what an ssh connection sends: less is noise
ENOUGH = 100_000  # bytes; a share of less than that says nothing

APPLY = "`roamlet vpn plan` shows what is missing there, `roamlet vpn apply` sets it up"
NOT_REACHED = (
    r"timed out|[Nn]o route to host|refused|unreachable|resolve hostname|kex_exchange|Connection (closed|reset) by"
)


def silent_tunnels(network: Network, facts: Mapping[str, Facts], measurements: Measurements) -> Iterator[Diagnosis]:
    """One for each tunnel through which nothing came, of servers that could both be asked."""
    for link in links(network):
        one, other = link.caller.name, link.callee.name
        asked = all(name in facts and name in measurements.sites for name in (one, other))
        echoes = [
            echo for way in ((one, other), (other, one)) for echo in measurements.echoes_of(way[0], way[1], "tunnel")
        ]
        if asked and echoes and not any(echo.answered for echo in echoes):
            yield _why(link, facts[one], facts[other])


def _why(link: Link, caller: Facts, callee: Facts) -> Diagnosis:
    one, other = link.caller.name, link.callee.name
    calling = caller.ssh.ends.get(f"call-{other}") if caller.ssh is not None else None
    if calling is None or calling.active not in RUNNING:
        state = "not there" if calling is None else calling.active
        return _down(one, other, f"nothing on the server of {one} calls {other}", f"call-{other} is {state}", APPLY)
    for site, peer, facts, name in ((other, one, callee, link.callee_device), (one, other, caller, link.caller_device)):
        device = facts.devices.get(name)
        if device is None or not device.up:
            state = "is not there" if device is None else "is down"
            return _down(site, peer, f"{site} has no device for the tunnel with {peer}", f"{name} {state}", APPLY)
    said = calling.said or "nothing"
    evidence = f"the last words of ssh on {caller.hostname}: {said}"
    host = link.callee.endpoint.host if link.callee.endpoint is not None else ""
    if "Permission denied" in said:
        return _down(other, one, f"{other} does not let {one} in", evidence, APPLY)
    if re.search("Host key verification failed|IDENTIFICATION HAS CHANGED", said):
        return _down(
            one,
            other,
            f"the machine that answers at {host} has another key than the server of {other}",
            evidence,
            f"if `roamlet vpn plan` shows nothing, it is another machine: look where port 22 of {host} is forwarded to",
        )
    if re.search(NOT_REACHED, said):
        return _down(
            other,
            one,
            f"{one} does not reach the sshd of {other} at {host}, port 22",
            evidence,
            f"on the gateway of {other}, forward TCP port 22 to {link.callee.lan_address or 'the server'}, port 22",
            f"if {host} is no longer its address, change `endpoint` in the file and `roamlet vpn apply`",
        )
    if re.search("[Tt]unnel", said):
        return _down(other, one, f"{other} does not let {one} have {link.callee_device}", evidence, APPLY)
    return _down(
        one,
        other,
        f"no packet gets through the ssh tunnel between {one} and {other}",
        evidence,
        f"on {link.caller.server}: `sh -x /etc/roamlet-vpn/call-{other}` shows how far it comes",
    )


def _down(site: str, peer: str, what: str, evidence: str, *fix: str) -> Diagnosis:
    return error("ssh-tunnel-down", site, what, evidence, *fix, peer=peer)


def sent_again(site: Site, measurements: Measurements) -> Iterator[Diagnosis]:
    """Whether an ssh tunnel's own TCP has to repeat: each time, all connections inside it stand still."""
    ssh = measurements.sites[site.name].after.ssh
    if ssh is None or ssh[0] < ENOUGH or ssh[1] < SENT_AGAIN * ssh[0]:
        return
    yield warning(
        "tcp-over-tcp",
        site.name,
        f"the ssh tunnel of {site.name} runs over a line that loses packets: TCP inside of TCP waits twice for each",
        f"{100 * ssh[1] / ssh[0]:.1f} % of {ssh[0] / 1e6:.1f} MB was sent again",
        'go over to WireGuard, which does not repeat: `backend = "wireguard"` in the file, then `roamlet vpn apply`',
    )
