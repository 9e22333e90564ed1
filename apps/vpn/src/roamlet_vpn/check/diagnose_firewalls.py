"""What the servers' firewalls drop or rewrite between the tunnel and their LANs, by the direction and the protocol. Pure.

Echoes that end in the middle are check/diagnose_lans.py's. Here is what echoes from server to host do not show: TCP,
what hosts of a LAN begin themselves, what is sent to a server itself, and addresses that are rewritten on the way.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations

from roamlet_vpn.check import firewall_commands
from roamlet_vpn.check.probe_plan import lan_device, tunnel_device
from roamlet_vpn.model.diagnosis import ERROR, Diagnosis, error, listed, warning
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.measured import Echo, Measurements, Passage, Segments, Sight
from roamlet_vpn.model.network import Address, Network, Site

Pair = frozenset[str]


def closed_servers(network: Network, measurements: Measurements, broken: Iterable[Pair]) -> Iterator[Diagnosis]:
    """Pairs of servers between which the tunnel carries packets that one of the two does not let in or out: which one, and how."""
    for pair in sorted(broken, key=sorted):
        told: set[tuple[str, str]] = set()
        for one, other in permutations([site for site in network.sites if site.name in pair], 2):
            echo = measurements.echo(one.name, other.name, "tunnel")
            if echo is None or echo.answered:
                continue
            found = _closed(network, measurements, echo, one, other)
            if found is not None and (found.site, found.name) not in told:
                told.add((found.site, found.name))
                yield found


def _closed(network: Network, measurements: Measurements, echo: Echo, one: Site, other: Site) -> Diagnosis | None:
    here, there = tunnel_device(network, one, other), tunnel_device(network, other, one)
    if echo.error == "EPERM":
        return _shut(network, measurements, one, other, "output", "the kernel of its server says so at each of them")
    left = any((sight.site, sight.out, sight.kind) == (other.name, True, "reply") for sight in echo.trail)
    if echo.seen(other.name, there, False, "request") and not left:
        settings = measurements.sites[other.name].settings if other.name in measurements.sites else {}
        if settings.get("net/ipv4/icmp_echo_ignore_all") == "1":
            return _deaf(other, one)
        why = f"echoes from {one.name} came in by {there}, and no answer left"
        return _shut(network, measurements, other, one, "input", why)
    if echo.seen(one.name, here, False, "reply"):
        why = f"answers of {other.name} came in by {here}, and did not reach what had asked"
        return _shut(network, measurements, one, other, "input", why)
    return None


def _deaf(site: Site, peer: Site) -> Diagnosis:
    return warning(
        "server-firewall",
        site.name,
        f"the server of {site.name} answers no echoes: how the tunnels to it are cannot be told",
        "net.ipv4.icmp_echo_ignore_all is 1 there",
        f"on {site.server}: `sysctl -w net.ipv4.icmp_echo_ignore_all=0`",
        peer=peer.name,
    )


def _shut(network: Network, measurements: Measurements, site: Site, peer: Site, hook: str, evidence: str) -> Diagnosis:
    device = tunnel_device(network, site, peer)
    return error(
        "server-firewall",
        site.name,
        f"the firewall of the server of {site.name} drops what "
        + ("comes to it out of the tunnel" if hook == "input" else "it sends into the tunnel"),
        evidence,
        *firewall_commands.accepting(measurements, site, hook, [device], "let it through, ahead of what drops it"),
        peer=peer.name,
    )


def behind_firewalls(
    network: Network,
    facts: Mapping[str, Facts],
    measurements: Measurements,
    told: Iterable[Diagnosis],
    broken: Iterable[Pair],
) -> list[Diagnosis]:
    """All of it, of servers of which no error was told that explains it. `broken`: pairs of which nothing is said here."""
    rules = _Firewalls(
        network, facts, measurements, {one.site for one in told if one.severity == ERROR}, frozenset(broken)
    )
    return [*rules.outward(), *rules.by_tcp(), *rules.rewritten()]


@dataclass
class _Firewalls:
    network: Network
    facts: Mapping[str, Facts]
    measurements: Measurements
    named: set[str]  # sites of which a fault was told that may explain all the rest
    broken: frozenset[Pair]

    def _well(self, site: str, peer: str) -> bool:
        watched = all(
            name in self.measurements.sites and "watch" not in self.measurements.sites[name].missing
            for name in (site, peer)
        )
        return watched and not {site, peer} & self.named and frozenset((site, peer)) not in self.broken

    def _devices(self, site: Site, peer: Site) -> tuple[str, str | None]:
        there = self.facts.get(site.name)
        return tunnel_device(self.network, site, peer), lan_device(site, there) if there is not None else None

    # ---- what hosts of a LAN begin

    def outward(self) -> Iterator[Diagnosis]:
        """What comes from a host of the LAN, in whose name the check sends, and is not passed on into the tunnel, or not back."""
        for passage in self.measurements.passages:
            if self._well(passage.site, passage.peer):
                lost = self._lost(passage)
                if lost is not None:
                    self.named.add(lost.site)
                    yield lost

    def _lost(self, passage: Passage) -> Diagnosis | None:
        site, peer = self.network.site(passage.site), self.network.site(passage.peer)
        tunnel, lan = self._devices(site, peer)
        there = tunnel_device(self.network, peer, site)
        if lan is None or not passage.seen(site.name, lan, False, "request"):
            return None  # it never came back from the gateway, which has rules of its own
        what = "TCP" if passage.tcp else "echoes"
        if not passage.seen(site.name, tunnel, True, "request"):
            why = f"{what} from {passage.source} for {passage.to} came in by {lan} and did not leave by {tunnel}"
            return self._drops(site, (tunnel,), what, f"what hosts of {site.name} send into the tunnel", why)
        if passage.seen(peer.name, there, False, "request") and not passage.seen(peer.name, there, True, "reply"):
            why = f"{what} from {passage.source} came in by {there}, and no answer left"
            return _shut(self.network, self.measurements, peer, site, "input", why) if not passage.tcp else None
        if passage.seen(site.name, tunnel, False, "reply") and not passage.seen(site.name, lan, True, "reply"):
            why = f"answers of {passage.to} to {passage.source} came in by {tunnel} and did not leave by {lan}"
            return self._drops(site, (tunnel,), what, f"what comes back to hosts of {site.name}", why)
        return None

    def _drops(self, site: Site, tunnels: Iterable[str], what: str, which: str, evidence: str) -> Diagnosis:
        return error(
            "server-firewall",
            site.name,
            f"the server of {site.name} drops {which}"
            + (", by TCP, while echoes pass" if what == "TCP" else "")
            + ", although it forwards",
            evidence,
            *firewall_commands.forwarding(self.measurements, site, tunnels),
        )

    # ---- TCP, where echoes pass

    def by_tcp(self) -> Iterator[Diagnosis]:
        """Hosts that answer by TCP to their own server, and by echoes alone to a far one: where TCP ends."""
        blocked: dict[str, list[Segments]] = {}
        for one in self.measurements.segments:
            if one.peer is None or not self._well(one.site, one.peer):
                continue
            site, peer = self.network.site(one.site), self.network.site(one.peer)
            tunnel, _ = self._devices(site, peer)
            echoed = any(
                echo.to == one.to and echo.answered
                for echo in self.measurements.echoes_of(site.name, peer.name, "client")
            )
            ports = self._open(peer, one.to)
            if echoed and ports and not set(ports) & set(one.answered(tunnel)):
                blocked.setdefault(peer.name, []).append(one)
        for segments in blocked.values():
            yield self._tcp(segments[0], self._open(self.network.site(segments[0].peer or ""), segments[0].to)[0])

    def _open(self, peer: Site, host: Address) -> tuple[int, ...]:
        """The ports at which a host answers its own server."""
        _, lan = self._devices(peer, peer)
        own = (one for one in self.measurements.segments if (one.site, one.peer, one.to) == (peer.name, None, host))
        return tuple(port for one in own if lan is not None for port in one.answered(lan))

    def _tcp(self, one: Segments, port: int) -> Diagnosis:
        site, peer = self.network.site(one.site), self.network.site(one.peer or "")
        tunnel, lan = self._devices(peer, site)
        here = tunnel_device(self.network, site, peer)
        if one.error == "EPERM" or not one.seen(site.name, here, True, "request", port):
            why = f"TCP to {one.to}, port {port}, did not leave by {here}"
            return _shut(self.network, self.measurements, site, peer, "output", why)
        if lan is not None and one.seen(peer.name, tunnel, False, "request", port):
            if not one.seen(peer.name, lan, True, "request", port):
                why = f"TCP from {site.name} for {one.to}, port {port}, came in by {tunnel} and did not leave by {lan}"
                return self._drops(peer, (tunnel,), "TCP", "packets between the tunnel and its LAN", why)
            if one.seen(peer.name, lan, False, "reply", port) and not one.seen(peer.name, tunnel, True, "reply", port):
                why = f"answers by TCP of {one.to}, port {port}, came in by {lan} and did not leave by {tunnel}"
                return self._drops(peer, (tunnel,), "TCP", "packets between the tunnel and its LAN", why)
        return warning(
            "tcp-blocked",
            peer.name,
            f"{one.to} in {peer.name} takes no TCP from {site.name}, though it answers its echoes",
            f"at port {port} it answers its own server, by TCP too; the servers pass on both",
            f"see whether its own firewall lets in TCP from {listed(site.lans)}",
            f"and whether the gateway of {peer.name} drops `ct state invalid`, or only its answers by TCP",
            peer=site.name,
        )

    # ---- addresses that are rewritten

    def rewritten(self) -> Iterator[Diagnosis]:
        """Servers that put their own address in place of the sender's, between the tunnel and the LAN."""
        told: set[tuple[str, bool]] = set()
        for site, peer, inward, was, became in self._changed():
            if (site.name, inward) in told:
                continue
            told.add((site.name, inward))
            yield self._masquerade(site, peer, inward, was, became)

    def _changed(self) -> Iterator[tuple[Site, Site, bool, Address, Address]]:
        """The site that does it, the other one, whether towards its LAN, what the source was, and what it became."""
        for echo in self.measurements.echoes:
            if echo.kind not in ("client", "lan") or echo.peer is None or echo.source is None:
                continue
            site, peer = self.network.site(echo.site), self.network.site(echo.peer)
            tunnel, _ = self._devices(site, peer)
            there, lan = self._devices(peer, site)
            # What one server has rewritten comes to the other like that.
            came = {one.source for one in _requests(echo.trail, peer.name, there, out=False)}
            for sight in _requests(echo.trail, site.name, tunnel, out=True):
                if sight.source != echo.source:
                    yield site, peer, False, echo.source, sight.source
            for sight in _requests(echo.trail, peer.name, lan, out=True):
                if came == {echo.source} and sight.source != echo.source:
                    yield peer, site, True, echo.source, sight.source
        for passage in self.measurements.passages:
            site, peer = self.network.site(passage.site), self.network.site(passage.peer)
            tunnel, _ = self._devices(site, peer)
            for sight in _requests(passage.trail, site.name, tunnel, out=True):
                if sight.source != passage.source:
                    yield site, peer, False, passage.source, sight.source

    def _masquerade(self, site: Site, peer: Site, inward: bool, was: Address, became: Address) -> Diagnosis:
        own = [lan for lan in site.lans if lan.version == 4]
        far = [lan for other in self.network.sites if other.name != site.name for lan in other.lans if lan.version == 4]
        far += [lan for lan in self.network.tunnels if lan.version == 4]
        pairs = [(a, b) if inward else (b, a) for a in far for b in own]
        there = self.facts.get(site.name)
        text = there.config.text if there is not None and there.config is not None else ""
        in_config = "MASQUERADE" in text.upper() or "SNAT" in text.upper()
        path = f"/etc/wireguard/{self.network.interface}.conf"
        hint = (f"the rule is in {path}, as a PostUp line: take it out there, and its PostDown",) if in_config else ()
        ways = ("out of the tunnel", "its LAN") if inward else ("its LAN", "the tunnel")
        return warning(
            "masquerade",
            site.name,
            f"the server of {site.name} puts its own address in place of the sender's on the way from {ways[0]} into {ways[1]}: "
            "hosts see one address for all of a far LAN, and so do their logs and their rules",
            f"what {was} sent left by the server with the source {became}",
            *hint,
            *firewall_commands.not_rewriting(self.measurements, site, pairs, "except the offices' LANs from it"),
            peer=peer.name,
        )


def _requests(trail: Iterable[Sight], site: str, device: str | None, *, out: bool) -> list[Sight]:
    """The requests that were seen at a device, going out or coming in."""
    return [one for one in trail if (one.site, one.device, one.out, one.kind) == (site, device, out, "request")]
