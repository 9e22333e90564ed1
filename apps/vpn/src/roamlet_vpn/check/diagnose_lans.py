"""Faults of the LANs: routes of servers, gateways and hosts, forwarding and firewalls. Pure.

Each echo for a host of a far LAN carries a mark and is seen wherever it passes a server, so that the place where it ends is known.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from shlex import quote

from roamlet_vpn.backends import backend_of
from roamlet_vpn.check import firewall_commands
from roamlet_vpn.check.probe_plan import OF_DEVICE, gateway_of, lan_device, tunnel_device
from roamlet_vpn.model.diagnosis import Diagnosis, error, listed, warning, with_and
from roamlet_vpn.model.facts import Facts, Route
from roamlet_vpn.model.measured import Bounce, Echo, Measurements
from roamlet_vpn.model.network import Address, Lan, Network, Site
from roamlet_vpn.model.routes import inside, removal, way, way_to


def behind_servers(
    network: Network, facts: Mapping[str, Facts], measurements: Measurements, broken: Iterable[frozenset[str]]
) -> list[Diagnosis]:
    """What is wrong there. `broken` are the pairs of sites whose servers do not reach each other: nothing is said of those."""
    rules = _Lans(network, facts, measurements, frozenset(broken))
    return [*rules.servers(), *rules.gateways(), *rules.hosts()]


@dataclass
class _Lans:
    network: Network
    facts: Mapping[str, Facts]
    measurements: Measurements
    broken: frozenset[frozenset[str]]
    # Sites of which a fault of the server was told: it explains its LAN's silence.
    named: set[str] = field(default_factory=set)

    def servers(self) -> Iterator[Diagnosis]:
        """Routes and forwarding of each server."""
        for site in self.network.sites:
            measured = self.measurements.sites.get(site.name)
            if measured is None:
                continue
            for version, setting in ((4, "net/ipv4/ip_forward"), (6, "net/ipv6/conf/all/forwarding")):
                if measured.settings.get(setting) == "0" and any(lan.version == version for lan in site.lans):
                    self.named.add(site.name)
                    yield error(
                        "forwarding-off",
                        site.name,
                        f"the server of {site.name} does not pass IPv{version} packets on between the tunnel and its LAN",
                        f"{setting.replace('/', '.')} is 0 there",
                        "`roamlet vpn apply` sets it, and keeps it over a restart",
                        f"at once, by hand, on {site.server}: `sysctl -w {setting.replace('/', '.')}=1`",
                    )
            if site.name not in self.named:
                yield from self._devices_off(site)
            yield from self._routes(site)

    def _devices_off(self, site: Site) -> Iterator[Diagnosis]:
        """Devices that do not pass on what comes in by them, although the server does."""
        there = self.facts.get(site.name)
        if there is None or not any(lan.version == 4 for lan in site.lans):
            return
        tunnels = (tunnel_device(self.network, site, peer) for peer in self.network.sites if peer.name != site.name)
        for device in dict.fromkeys((lan_device(site, there), *tunnels)):
            setting = OF_DEVICE % device
            if device is None or self.measurements.sites[site.name].settings.get(setting) != "0":
                continue
            self.named.add(site.name)
            name = setting.replace("/", ".")
            yield error(
                "forwarding-off",
                site.name,
                f"the server of {site.name} does not pass on what comes in by {device}, although net.ipv4.ip_forward is on",
                f"{name} is 0 there",
                f"on {site.server}: `sysctl -w {quote(name)}=1`",
                f"and take out the line that sets it: `grep -rs {quote(device)}.forwarding /etc/sysctl* /usr/lib/sysctl.d`",
            )

    def _routes(self, site: Site) -> Iterator[Diagnosis]:
        ways = self.measurements.sites[site.name].ways
        routes = self.facts[site.name].routes if site.name in self.facts else ()
        for peer in self.network.sites:
            device = self._device(site, peer)
            if peer.name == site.name or device is None:
                continue
            longer = [route for lan in peer.lans for route in inside(lan, routes, device)]
            if longer:
                self.named.add(site.name)
                yield self._longer(site, peer, longer)
            wrong = [
                address
                for address, way in ways.items()
                if way.dev != device
                and any(address in lan for lan in peer.lans)
                and not any(address in route.to for route in longer)
            ]
            if not wrong:
                continue
            self.named.add(site.name)
            ruled = [
                address for address in wrong if (route := way_to(address, routes)) is not None and route.dev == device
            ]
            if ruled:
                yield self._ruled(site, peer, ruled[0])
                continue
            lans = [lan for lan in peer.lans if any(address in lan for address in wrong)]
            taken = ways[wrong[0]]
            yield error(
                "server-route-missing",
                site.name,
                f"the server of {site.name} does not send {listed(lans)} of {peer.name} into the tunnel",
                f"a packet for {wrong[0]} would leave by {taken.dev or 'no device at all'}"
                + (f" to {taken.via}" if taken.via else ""),
                "`roamlet vpn apply` adds the route; `wg syncconf` and a reload do not",
                *(f"at once, by hand, on {site.server}: `ip route replace {lan} dev {quote(device)}`" for lan in lans),
                peer=peer.name,
            )

    def _longer(self, site: Site, peer: Site, routes: list[Route]) -> Diagnosis:
        parts = listed(dict.fromkeys(route.to for route in routes))
        own = [route for route in routes if route.protocol == "kernel"]
        made = sorted({route.protocol for route in routes if route.protocol not in ("", "boot", "static", "kernel")})
        fix = [f"on {site.server}: `{removal(route)}`" for route in routes if route not in own]
        if fix:
            whose = (
                f"of {with_and(made)}"
                if made
                else "such as /etc/network/interfaces, a .network file or a script of another VPN"
            )
            fix.append(
                f"and take it out of what sets it, {whose}, or it comes back; `roamlet vpn apply` leaves routes of others alone"
            )
        if own:
            fix.append(
                f"{listed(route.to for route in own)} is on a device of the server itself: one of the offices needs another range"
            )
        return error(
            "more-specific-route",
            site.name,
            f"the server of {site.name} sends {parts}, a part of the LAN of {peer.name}, elsewhere than into the tunnel",
            f"it has {'a route' if len(routes) == 1 else 'routes'} longer than the tunnel's, which win: "
            + "; ".join(f"{route.to}{way(route)}" for route in routes),
            *fix,
            peer=peer.name,
        )

    def _ruled(self, site: Site, peer: Site, address: Address) -> Diagnosis:
        taken = self.measurements.sites[site.name].ways[address]
        lan = next(lan for lan in peer.lans if address in lan)
        return error(
            "server-route-missing",
            site.name,
            f"a rule of policy routing on the server of {site.name} takes packets for {peer.name} out of the tunnel",
            "table main has the route into the tunnel, and "
            f"a packet for {address} would leave by {taken.dev or 'no device at all'}",
            f"on {site.server}: `ip rule show` lists the rules; the one that matches {address} and comes before "
            "`lookup main` is it",
            f"or have the tunnel's route count first: `ip rule add pref 1 to {lan} lookup main`",
            peer=peer.name,
        )

    def _device(self, site: Site, peer: Site) -> str | None:
        """The device of the tunnel; None where that is not known."""
        return backend_of(self.network).running_device(self.network, site, peer, self.facts.get(site.name))

    def gateways(self) -> Iterator[Diagnosis]:
        """What each LAN's gateway does with packets for the other LANs."""
        for site in self.network.sites:
            there = [one for one in self.measurements.bounces if one.site == site.name and one.error is None]
            measured = self.measurements.sites.get(site.name)
            if measured is None or "watch" in measured.missing:
                continue
            for version in (4, 6):
                family = [one for one in there if one.gateway.version == version]
                # Hosts that answer from afar have routes of their own, and do not need the gateway. Those of IPv6 are not asked.
                silent = [one for one in family if version == 6 or not self._needless(one, family)]
                unrouted = [one for one in silent if not one.request_back]
                if unrouted:
                    yield self._unrouted(site, unrouted, version)
                stateful = [one for one in family if one.request_back and not one.reply_back]
                if stateful:
                    yield self._stateful(site, stateful, version)

    def _unrouted(self, site: Site, bounces: list[Bounce], version: int) -> Diagnosis:
        peers = dict.fromkeys(one.peer for one in bounces)
        lans = [lan for peer in peers for lan in self.network.site(peer).lans if lan.version == version]
        some = self._some_came_back(site, bounces)
        parts = listed(dict.fromkeys(one.to for one in bounces))
        server = bounces[0].source or site.lan_address
        routed = f"route {listed(lans)} to {server}; `roamlet vpn gateway {site.name}` prints the exact lines"
        if some:
            command = f"ip route replace {bounces[0].to} via {server}"
            routed = f"send {parts} to {server} too, such as by `{command}`, or take its longer route away"
        return self._weight(site, bounces)(
            "gateway-route-missing",
            site.name,
            f"the gateway of {site.name}, {bounces[0].gateway}, does not send {parts if some else listed(lans)} to the server",
            f"packets for {parts if some else with_and(peers)} that the server handed to it did not come back"
            + (
                f", those for other addresses of {with_and(peers)} did: it has a longer route for a part of {listed(lans)}"
                if some
                else ""
            ),
            f"on that gateway, {routed}",
            f"or give the hosts of the LAN these routes themselves, by {_handed_out(version)}",
        )

    def _needless(self, one: Bounce, family: list[Bounce]) -> bool:
        """Whether hosts do without this part of the gateway: they answer from afar, and it does not send that LAN on at all."""
        if not self._hosts_answer(one.peer, one.site):
            return False
        far = self.network.site(one.peer).lan_address
        whole = [other for other in family if other.peer == one.peer and other.to in (None, far)]
        return one in whole or not any(other.request_back for other in whole)

    def _some_came_back(self, site: Site, bounces: list[Bounce]) -> bool:
        """Whether the gateway sends other packets for the same LANs to the server."""
        there = [one for one in self.measurements.bounces if one.site == site.name and one.request_back]
        back = {(one.peer, one.gateway.version) for one in there}
        return {(one.peer, one.gateway.version) for one in bounces} <= back

    def _stateful(self, site: Site, bounces: list[Bounce], version: int) -> Diagnosis:
        peers = dict.fromkeys(one.peer for one in bounces)
        lans = [lan for peer in peers for lan in self.network.site(peer).lans if lan.version == version]
        own = listed(lan for lan in site.lans if lan.version == version)
        ip = "ip" if version == 4 else "ip6"
        to = bounces[0].source or site.lan_address
        far = listed(lans)
        return self._weight(site, bounces)(
            "stateful-gateway",
            site.name,
            f"the gateway of {site.name}, {bounces[0].gateway}, drops answers of its LAN to far ones: it is stateful, and sees "
            "only one direction of each connection, because the server hands packets to hosts of the LAN directly",
            "a request for a far LAN that the server handed to it came back, an answer that belongs to no connection did not"
            + (
                "; hosts that answer all the same have a route of their own, maybe only for minutes, by an ICMP redirect"
                if version == 4 and any(self._hosts_answer(one.peer, site.name) for one in bounces)
                else ""
            ),
            f"on that gateway, accept what goes from {own} to {far} before whatever drops `ct state invalid`, such as: "
            f"`nft insert rule {ip} filter forward {ip} saddr {_nft(site.lans, version)} "
            f"{ip} daddr {_nft(lans, version)} accept`",
            f"or let the hosts send to {to} directly, by {_handed_out(version)}: {far} via {to}",
            f"`roamlet vpn gateway {site.name}` prints the exact lines for both",
        )

    def _weight(self, site: Site, bounces: list[Bounce]) -> Callable[..., Diagnosis]:
        """error() where a host was seen that is up and does not answer, else warning(): there may be no host that needs it."""
        four = [one for one in bounces if one.gateway.version == 4]
        return error if any(self._silent_hosts(one.peer, site) for one in four) else warning

    def _hosts_answer(self, site: str, peer: str) -> bool:
        return any(echo.answered for echo in self.measurements.echoes_of(site, peer, "client"))

    def _silent_hosts(self, site: str, peer: Site) -> list[Echo]:
        """Echoes from `site` to hosts of `peer` that were lost, although its own server reaches those hosts."""
        if frozenset((site, peer.name)) in self.broken or self._hosts_answer(site, peer.name):
            return []
        up = {echo.to for echo in self.measurements.echoes_of(peer.name, None, "own client") if echo.answered}
        return [echo for echo in self.measurements.echoes_of(site, peer.name, "client") if echo.to in up]

    def hosts(self) -> Iterator[Diagnosis]:
        """Where echoes for far servers and hosts end, unless what was told already explains it."""
        for peer in self.network.sites:
            unanswering: dict[Address, list[str]] = {}
            for site in self.network.sites:
                if site.name == peer.name or {site.name, peer.name} & self.named:
                    continue
                if frozenset((site.name, peer.name)) in self.broken:
                    continue
                yield from self._server_of(site, peer)
                for echo in self._silent_hosts(site.name, peer)[:1]:
                    yield from self._host(echo, site, peer, unanswering)
            for address, sites in unanswering.items():
                yield self._client(peer, address, sites)

    def _server_of(self, site: Site, peer: Site) -> Iterator[Diagnosis]:
        """Whether the far server answers at its address in the LAN."""
        lan, tunnel = (self.measurements.echo(site.name, peer.name, kind) for kind in ("lan", "tunnel"))
        if lan is None or lan.answered or tunnel is None or not tunnel.answered or not lan.sent:
            return
        came_in = any(sight.site == peer.name and not sight.out and sight.kind == "request" for sight in lan.trail)
        came_back = any(sight.site == site.name and not sight.out and sight.kind == "reply" for sight in lan.trail)
        where, other = (peer, site) if came_in and not came_back else (site, peer)
        device = tunnel_device(self.network, where, other)
        hook = "input" if came_in or came_back else "output"
        mend = "and so does a firewall: let it through, ahead of what drops it"
        seen = "came in there" if came_in else "did not come in there"
        if came_in and came_back:
            seen += ", and the answers came back"
        yield error(
            "lan-unreachable",
            where.name,
            f"the server of {peer.name} does not answer {site.name} at its LAN address {lan.to}",
            f"echoes from {lan.source} {seen}, while {tunnel.to} answers",
            "strict reverse path filtering does that: `sysctl net.ipv4.conf.all.rp_filter` should be 0 or 2",
            *firewall_commands.accepting(self.measurements, where, hook, [device], mend),
            peer=other.name,
        )

    def _host(self, echo: Echo, site: Site, peer: Site, unanswering: dict[Address, list[str]]) -> Iterator[Diagnosis]:
        """Where an echo for a host ends that is up; `unanswering` collects hosts with which it ends there."""
        there = self.facts[peer.name]
        tunnel, lan = self._device(peer, site), lan_device(peer, there)
        if tunnel is None or lan is None or not echo.seen(peer.name, tunnel, False, "request"):
            return
        if not echo.seen(peer.name, lan, True, "request"):
            yield self._firewall(
                peer, f"echoes from {site.name} for {echo.to} came in by {tunnel} and did not leave by {lan}"
            )
        elif echo.seen(peer.name, lan, False, "reply"):
            if not echo.seen(peer.name, tunnel, True, "reply"):
                yield self._firewall(
                    peer, f"answers of {echo.to} to {site.name} came in by {lan} and did not leave by {tunnel}"
                )
        elif not self._gateway_explains(site, peer):
            unanswering.setdefault(echo.to, []).append(site.name)

    def _gateway_explains(self, site: Site, peer: Site) -> bool:
        return any(
            one.error is None and not (one.request_back and one.reply_back)
            for one in self.measurements.bounces
            if (one.site, one.peer, one.gateway.version) == (peer.name, site.name, 4)
        )

    def _firewall(self, peer: Site, evidence: str) -> Diagnosis:
        tunnels = (tunnel_device(self.network, peer, site) for site in self.network.sites if site.name != peer.name)
        return error(
            "server-firewall",
            peer.name,
            f"the server of {peer.name} drops packets between the tunnel and its LAN, although it forwards",
            evidence,
            *firewall_commands.forwarding(self.measurements, peer, tunnels),
        )

    def _client(self, peer: Site, address: Address, sites: list[str]) -> Diagnosis:
        far = listed(lan for name in sites for lan in self.network.site(name).lans)
        gateway = gateway_of(peer, self.facts[peer.name])
        its = "the gateway" if gateway is None else f"the gateway {gateway}"
        first = self.network.site(sites[0])
        some = first.lan_address or first.lans[0].network_address + 1
        return error(
            "client-route-missing",
            peer.name,
            f"{address} in {peer.name} does not answer {with_and(sites)}, though it answers its own server",
            f"echoes left the server for it, no answer came in, and {its} does its part",
            f"see whether it sends {far} to the gateway or to {peer.lan_address}: `ip route get {some}` there",
            "see whether its own firewall answers strangers: that of Windows drops echoes from other networks",
        )


def _handed_out(version: int) -> str:
    return "DHCP option 121" if version == 4 else "router advertisements (their route information option)"


def _nft(lans: Iterable[Lan], version: int) -> str:
    some = [str(lan) for lan in lans if lan.version == version]
    return some[0] if len(some) == 1 else "{ " + ", ".join(some) + " }"
