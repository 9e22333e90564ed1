"""A diagnosis: what is wrong, where, how that is known, and what to do. The rules are in check/, wireguard/ and ssh/."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["error", "warning"]
ERROR: Severity = "error"
WARNING: Severity = "warning"

# Every name there is, with what it stands for; scripts may rely on them.
NAMES = {
    "server-unreachable": "the server could not be asked",
    "tunnel-down": "the tunnel interface is not there, is down or has no key",
    "peer-missing": "a server does not know a peer at all",
    "wrong-key": "a server has another public key for its peer than the peer's own",
    "wrong-allowed-ips": "a server does not send all of a peer's networks to it, or not to it alone",
    "port-forward-missing": "what is sent to a site's endpoint does not arrive at its server",
    "udp-blocked": "a site cannot send UDP to any other",
    "endpoint-changed": "a site calls from another address than its endpoint",
    "stale-name": "the name of an endpoint leads to another address than the site's, for all or for some of the others",
    "stale-connection": "a gateway goes on treating the tunnel's packets as it did before its port forward was there",
    "no-handshake": "two servers get no handshake done, and none of the reasons above is why",
    "clock-wrong": "a server's clock is wrong",
    "mtu-too-large": "packets of the tunnel's MTU do not fit through the internet between two sites",
    "packet-loss": "packets between two servers get lost on the way",
    "server-route-missing": "a server has no route into the tunnel for a far LAN",
    "more-specific-route": "a server sends a part of a far LAN elsewhere, by a route that is longer than the tunnel's",
    "gateway-route-missing": "a LAN's gateway does not send packets for a far LAN to the server",
    "stateful-gateway": "a LAN's gateway drops answers whose requests it has not seen",
    "client-route-missing": "hosts of a LAN do not answer far ones, although the servers and the gateway do their part",
    "forwarding-off": "a server does not pass packets on",
    "server-firewall": "a server's firewall drops packets between the tunnel and the LAN, or between the tunnel and itself",
    "tcp-blocked": "a host takes no TCP from afar, though it answers echoes",
    "masquerade": "a server puts its own address in place of the sender's between the tunnel and the LAN",
    "path-missing": "nothing comes through between two servers or LANs, and none of the reasons above is why",
    "lan-unreachable": "a far LAN's server does not answer, although the tunnel works",
    "drops-tunnel-device": "the tunnel device drops packets: what reads it is too slow, or its queue too short",
    "drops-queue": "the queue of a network device drops packets",
    "drops-udp-buffer": "UDP packets find no room in the buffer of their socket",
    "tracking-full": "a server tracks as many connections as it can",
    "ssh-tunnel-down": "nothing comes through an ssh tunnel",
    "tcp-over-tcp": "an ssh tunnel loses packets, so that TCP in it waits twice for each of them",
    "cannot-watch": "packets could not be watched on a server, so that less can be diagnosed",
}


@dataclass(frozen=True)
class Diagnosis:
    """One thing that is wrong. An error keeps something from working, a warning does not, or not yet."""

    name: str  # of NAMES
    severity: Severity
    site: str  # where it is to be mended
    peer: str | None  # the other site that it is about, if there is one
    what: str  # a sentence: what is wrong
    evidence: str  # what was seen
    fix: tuple[str, ...]  # what to do, a step each

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"fix": list(self.fix)}


def error(name: str, site: str, what: str, evidence: str, *fix: str, peer: str | None = None) -> Diagnosis:
    """A diagnosis of what keeps something from working."""
    return Diagnosis(name, ERROR, site, peer, what, evidence, fix)


def warning(name: str, site: str, what: str, evidence: str, *fix: str, peer: str | None = None) -> Diagnosis:
    """A diagnosis of what keeps nothing from working, or not yet."""
    return Diagnosis(name, WARNING, site, peer, what, evidence, fix)


def listed(things: Iterable[object]) -> str:
    """Networks or addresses, in a sentence."""
    return ", ".join(map(str, things))


def with_and(names: Iterable[str]) -> str:
    """Sites, in a sentence."""
    return " and ".join(names)
