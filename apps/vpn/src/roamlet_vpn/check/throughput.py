"""How much the tunnels carry: TCP between two servers after the other, each way by itself."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from roamlet import remote
from roamlet_vpn.host.check import stream
from roamlet_vpn.model.network import Network
from roamlet_vpn.model.untrusted import FactsError, Untrusted
from roamlet_vpn.servers import Servers

SECONDS = 5.0
PATIENCE = 90.0  # a buffer full of a slow line's data has to come through as well


@dataclass(frozen=True)
class Throughput:
    """One way between two sites. rate None: see `error`."""

    site: str
    peer: str
    rate: float | None  # bytes a second, counted where they arrive
    error: str | None = None


def throughput(
    network: Network, servers: Servers, seconds: float = SECONDS, say: Callable[[str], None] = lambda line: None
) -> Iterator[Throughput]:
    """Each pair that has a tunnel, one way and then the other, `seconds` each, as they are measured. Loads the lines fully."""
    for pair in network.pairs():
        if {site.name for site in pair} <= set(servers.contexts):
            for one, other in (pair, reversed(pair)):
                say(f"from {one.name} to {other.name}, {seconds:.0f} s")
                yield _one_way(servers, one.name, str(one.address), other.name, str(other.address), seconds)


def _one_way(servers: Servers, site: str, source: str, peer: str, to: str, seconds: float) -> Throughput:
    sending, receiving = servers.contexts[site], servers.contexts[peer]
    try:
        port = Untrusted(receiving.call(stream.listen, (to,)), f"the port at {peer}").whole(1, 65535)
        failed = Untrusted(
            sending.call(stream.send, (source, to, port, seconds), timeout=PATIENCE), f"what {site} sent"
        ).maybe(Untrusted.name)
        count, took, error = Untrusted(
            receiving.call(stream.received, (port,), timeout=PATIENCE), f"what {peer} received"
        ).each()
        reason = failed or error.maybe(Untrusted.name)
        if reason is not None or not took.number():
            return Throughput(site, peer, None, reason or "nothing arrived")
        return Throughput(site, peer, count.number() / took.number())
    except (remote.RemoteError, FactsError, OSError) as error:
        return Throughput(site, peer, None, str(error))
