"""What is wrong with WireGuard's tunnels: keys, allowed IPs, endpoints, handshakes, MTUs and losses. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from roamlet_vpn.model.diagnosis import Diagnosis, error, listed, warning
from roamlet_vpn.model.facts import Facts, Interface, LivePeer
from roamlet_vpn.model.measured import SIZES, Measurements
from roamlet_vpn.model.network import Lan, Network, Site, allowed_ips, is_inside, needs_ipv6
from roamlet_vpn.wireguard.diagnose_addresses import Reach

SMALLEST_IPV6 = 1280  # bytes: a device with a smaller MTU has no IPv6
LOSS = 0.2  # of ten echoes: two lost ones are no accident


class Tunnels:
    """The tunnels between servers that have one to each other."""

    def __init__(
        self, network: Network, facts: Mapping[str, Facts], measurements: Measurements, down: set[str]
    ) -> None:
        self.network = network
        self.facts = facts
        self.measurements = measurements
        self.running: dict[str, Interface] = {
            name: one.interface for name, one in facts.items() if one.interface is not None and name not in down
        }
        self.broken = measurements.broken_pairs

    def diagnoses(self, known: Iterable[Diagnosis]) -> list[Diagnosis]:
        """What is wrong with them, and is not explained by what is known already."""
        found: list[Diagnosis] = []
        reach = Reach(self.running, self.measurements, self.broken)
        pairs = [
            (site, peer)
            for site in self.network.sites
            for peer in self.network.peers_of(site)
            if site.name in self.running and peer.name in self.running
        ]
        for site, peer in pairs:
            found += self._configured(site, peer)
        for site in self.network.sites:
            if site.name in self.running and site.endpoint is not None:
                found += reach.of(site)
        told = [*found, *known]
        explained = {frozenset((one.site, one.peer or one.site)) for one in told}
        explained |= {frozenset((one.site, other.name)) for one in told if not one.peer for other in self.network.sites}
        for site, peer in pairs:
            pair = frozenset((site.name, peer.name))
            if pair in self.broken and pair not in explained:
                explained.add(pair)
                found += self._silent(site, peer)
        for site, peer in pairs:
            if _before(self.network, site, peer):
                found += self._large(site, peer)
            found += self._lossy(site, peer)
        return found

    def _is_broken(self, site: Site, peer: Site) -> bool:
        return frozenset((site.name, peer.name)) in self.broken

    def _configured(self, site: Site, peer: Site) -> Iterator[Diagnosis]:
        """Whether the one has the other's key, and sends it what it should."""
        peers = self.running[site.name].peers
        key = self.running[peer.name].public_key
        live = next((one for one in peers if one.public_key == key), None)
        wanted = allowed_ips(self.network, site, peer)
        if live is None:
            meant = next((one for one in peers if self._is_meant(one, peer, wanted)), None)
            yield self._unknown(site, peer, meant, key)
            return
        lacking = [lan for lan in wanted if not any(is_inside(lan, allowed) for allowed in live.allowed_ips)]
        if lacking:
            holders = [one for one in peers if one is not live and any(lan in one.allowed_ips for lan in lacking)]
            stolen = f"; the peer {_short(holders[0].public_key)} has taken it" if holders else ""
            yield error(
                "wrong-allowed-ips",
                site.name,
                f"{site.name} does not send {listed(lacking)} to {peer.name}, and drops what comes from there",
                f"its allowed IPs for {peer.name} are {listed(live.allowed_ips) or 'none'}{stolen}",
                f"`roamlet vpn apply` sets them to {listed(wanted)}",
                f"at once, by hand, on {site.server}: `wg set {self.network.interface} peer {live.public_key} "
                f"allowed-ips {','.join(map(str, wanted))}`",
                peer=peer.name,
            )

    def _is_meant(self, live: LivePeer, peer: Site, wanted: tuple[Lan, ...]) -> bool:
        known = {one.public_key for name, one in self.running.items() if name != peer.name}
        if live.public_key in known:
            return False
        return (live.endpoint is not None and live.endpoint == peer.endpoint) or any(
            lan in wanted for lan in live.allowed_ips
        )

    def _unknown(self, site: Site, peer: Site, meant: LivePeer | None, key: str | None) -> Diagnosis:
        if meant is None:
            return error(
                "peer-missing",
                site.name,
                f"{site.name} does not have {peer.name} among its peers",
                f"the public key of {peer.name}, {key}, stands nowhere in `wg show {self.network.interface}` there",
                "`roamlet vpn plan` shows the difference, `roamlet vpn apply` adds it",
                peer=peer.name,
            )
        return error(
            "wrong-key",
            site.name,
            f"{site.name} has a wrong public key for {peer.name}",
            f"it has {meant.public_key}; the own one of {peer.name} is {key}",
            f"`roamlet vpn apply` puts {_short(key or '')} in its place, with all that belongs to the peer",
            peer=peer.name,
        )

    def _silent(self, site: Site, peer: Site) -> Iterator[Diagnosis]:
        """No packet gets through, and nothing that was looked at says why."""
        there, here = self.measurements.sites.get(peer.name), self.measurements.sites.get(site.name)
        if there is None or here is None:
            return
        for one, other in ((site, peer), (peer, site)):
            sends, hears = self.measurements.sites[one.name], self.measurements.sites[other.name]
            out, came = sends.handshakes_seen("initiation", True), hears.handshakes_seen("initiation", False)
            if came and not hears.handshakes_seen("response", True):
                yield self._unanswered(one, other, came)
                return
            if out and not came and self._arrives(one, other):
                yield self._stale(one, other, out)
                return
        yield error(
            "no-handshake",
            site.name,
            f"no packet gets through between {site.name} and {peer.name}",
            f"their keys, allowed IPs and endpoints are right; handshakes that came in: "
            f"{here.handshakes_seen('initiation', False)} at {site.name}, "
            f"{there.handshakes_seen('initiation', False)} at {peer.name}",
            "look whether a firewall of either server, or on the way, drops UDP of 148 or 92 bytes",
            f"on both: `wg set {self.network.interface} peer KEY persistent-keepalive 25` keeps them trying",
            peer=peer.name,
        )

    def _arrives(self, site: Site, peer: Site) -> bool:
        return any(one.arrived for one in self.measurements.datagrams if (one.site, one.peer) == (site.name, peer.name))

    def _unanswered(self, site: Site, peer: Site, came: int) -> Diagnosis:
        return error(
            "no-handshake",
            peer.name,
            f"{peer.name} does not answer the handshakes of {site.name}",
            f"{came} came in at its server, and no answer left it, although both have the right keys",
            f"a clock that was set back on {site.name} does that: see `date` on {site.server}",
            f"on {peer.server}: its firewall, for UDP port {self.running[peer.name].listen_port}",
            peer=site.name,
        )

    def _stale(self, site: Site, peer: Site, out: int) -> Diagnosis:
        return error(
            "stale-connection",
            peer.name,
            f"the gateway of {peer.name} or {site.name} sends the tunnel's packets where they belonged before: it remembers "
            "them from a time when the port forward was not there or an address was another",
            f"{out} handshakes that {site.name} sent did not come in at {peer.name}, while datagrams from another port did",
            f"on both gateways: `conntrack -D -p udp --dport {peer.endpoint.port if peer.endpoint else peer.listen_port}`, or "
            "restart them",
            f"or take another `listen_port` for {site.name} and {peer.name}",
            peer=site.name,
        )

    def _large(self, site: Site, peer: Site) -> Iterator[Diagnosis]:
        """Whether packets of the MTU fit through, in both directions."""
        if self._is_broken(site, peer):
            return
        ends = ((site, peer), (peer, site))
        mtu = max(self.running[one.name].mtu for one, _ in ends)
        lost, fits = False, mtu
        for one, other in ends:
            full = self.measurements.echoes_of(one.name, other.name, "full")
            own = self.running[one.name].mtu
            answered = [echo.size for echo in full if echo.answered]
            if answered and max(answered) < own and any(echo.size == own and echo.sent for echo in full):
                lost, fits = True, min(fits, max(answered))
        paths = [path for one, other in ends if (path := self._path(one, other)) is not None]
        overhead = 80 if any(end.endpoint and ":" in end.endpoint.host for end in (site, peer)) else 60
        room = min(paths) - overhead if paths else None
        if room is not None and room < mtu:
            fits = room  # exact, while inside the tunnel packets are filled up to multiples of 16
        elif not lost:
            return
        evidence = f"the largest packet that came through the tunnel has {fits} bytes"
        if room is not None and room < mtu:
            evidence = f"the largest packet that came through the internet has {min(paths)} bytes, "
            evidence += f"{overhead} of them WireGuard's own"
        if fits < SMALLEST_IPV6 and needs_ipv6(self.network):
            whole = all(self._passes(one, other) for one, other in ends)
            yield _too_small((site, peer), mtu, (fits, overhead), evidence, whole)
            return
        yield (error if lost else warning)(
            "mtu-too-large",
            site.name,
            f"the MTU of {mtu} is too large between {site.name} and {peer.name}: "
            + ("small packets pass, large ones are lost" if lost else "large packets go in two pieces, which is slow"),
            evidence,
            f"set `mtu = {fits}` for {site.name} and for {peer.name}, and `roamlet vpn apply`",
            f"at once, by hand, on both servers: `ip link set dev {self.network.interface} mtu {fits}`",
            peer=peer.name,
        )

    def _passes(self, site: Site, peer: Site) -> bool:
        """Whether the smallest packet that IPv6 must be able to send comes through, be it in pieces."""
        full = self.measurements.echoes_of(site.name, peer.name, "full")
        return any(echo.size >= SMALLEST_IPV6 and echo.answered for echo in full)

    def _path(self, site: Site, peer: Site) -> int | None:
        """The largest packet that arrived; None when none did, or the largest that was tried, which says too little."""
        for one in self.measurements.datagrams:
            if (one.site, one.peer) == (site.name, peer.name) and one.arrived and max(one.arrived) < max(SIZES):
                return max(one.arrived)
        return None

    def _lossy(self, site: Site, peer: Site) -> Iterator[Diagnosis]:
        echo = self.measurements.echo(site.name, peer.name, "tunnel")
        if echo is None or not echo.answered or echo.lost < 2 or echo.lost < LOSS * echo.sent:
            return
        outside = self.measurements.echo(site.name, peer.name, "wan")
        also = outside is not None and outside.answered and outside.lost
        yield warning(
            "packet-loss",
            site.name,
            f"packets between {site.name} and {peer.name} get lost",
            f"{echo.lost} of {echo.sent} echoes through the tunnel did not come back"
            + (f", and {outside.lost} of {outside.sent} beside it" if also and outside is not None else ""),
            "if it stays so, it is the line: ask the provider of either site, and look for a full uplink",
            peer=peer.name,
        )


def _too_small(ends: tuple[Site, Site], mtu: int, sizes: tuple[int, int], evidence: str, whole: bool) -> Diagnosis:
    """Where the internet carries less than IPv6 in the tunnel needs: no MTU mends that. `whole`: packets come through in pieces."""
    site, peer = ends
    fits, overhead = sizes
    least = f"mtu = {SMALLEST_IPV6}"
    line = (
        f"have the line carry {SMALLEST_IPV6 + overhead} bytes: look at the MTU of the WAN devices of both gateways, of PPPoE "
        "or another tunnel on the way, and ask the provider"
    )
    without = (
        f"or do without IPv6 between the offices: take its networks out of `lans` and `tunnel`, set `mtu = {fits}` for {site.name} "
        f"and for {peer.name}, and `roamlet vpn apply`"
    )
    pieces: tuple[str, ...] = ()
    if whole and mtu > SMALLEST_IPV6:
        pieces = (
            f"set `{least}` for {site.name} and for {peer.name}, and `roamlet vpn apply`: packets then go in two pieces, which is "
            "slow and loses nothing",
        )
    return (warning if whole else error)(
        "mtu-too-large",
        site.name,
        f"the internet between {site.name} and {peer.name} carries too little for IPv6 in the tunnel, which needs an MTU of "
        f"{SMALLEST_IPV6}: "
        + ("large packets go in two pieces, which is slow" if whole else "small packets pass, large ones are lost"),
        evidence,
        *pieces,
        line if not pieces else f"or {line}",
        without,
        peer=peer.name,
    )


def _before(network: Network, site: Site, peer: Site) -> bool:
    names = [one.name for one in network.sites]
    return names.index(site.name) < names.index(peer.name)


def _short(key: str) -> str:
    return f"{key[:8]}..."


def interface_down(network: Network, site: Site, facts: Facts) -> Iterator[Diagnosis]:
    running = facts.interface
    if running is None or not running.up or running.public_key is None:
        state = "is not there" if running is None else "has no private key" if running.public_key is None else "is down"
        yield error(
            "tunnel-down",
            site.name,
            f"{network.interface} of {site.name} {state}",
            f"wg show on {facts.hostname}",
            "`roamlet vpn plan` shows what is missing there, `roamlet vpn apply` sets it up",
        )
