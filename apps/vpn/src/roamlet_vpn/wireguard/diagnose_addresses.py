"""Whether what is sent to a site's endpoint arrives at its server, and whether its name or address is still right. Pure."""

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from roamlet_vpn.model.diagnosis import Diagnosis, error, listed, warning, with_and
from roamlet_vpn.model.facts import Interface
from roamlet_vpn.model.measured import Datagrams, Measurements
from roamlet_vpn.model.network import Address, Site

FRESH = 180  # seconds: the age of a handshake that a tunnel which works has


@dataclass
class Reach:
    """The rules. `running` are the interfaces of the servers that could be asked, `broken` the pairs with a silent tunnel."""

    running: Mapping[str, Interface]
    measurements: Measurements
    broken: frozenset[frozenset[str]]

    def of(self, site: Site) -> Iterator[Diagnosis]:
        """What keeps others from reaching this site, which has an endpoint, and what keeps it from reaching others."""
        assert site.endpoint is not None
        measured = self.measurements.sites.get(site.name)
        sent = [one for one in self.measurements.datagrams if one.peer == site.name and (one.sent or one.error)]
        if measured is None or "watch" in measured.missing or not sent:
            yield from self._blocked(site)
            return
        if site.endpoint.address is None:
            stale = list(self._stale(site, sent))
            if stale:
                yield self._named(site, sent, stale)
                return
        if any(one.arrived for one in sent):
            yield from self._blocked(site)
            return
        moved = self._moved(site) if site.endpoint.address is not None else None
        if moved is not None:
            yield moved
            return
        if all(self._sends_nothing(one.site) for one in sent) and len(sent) > 1:
            return  # told of them, not of this one
        yield self._not_forwarded(site, sent)

    # ---- where a site is

    def _seen_at(self, site: Site) -> tuple[Address, ...]:
        """The addresses by which the others hear from it now."""
        from_there = [one.came_from for one in self.measurements.datagrams if one.site == site.name]
        key = self.running[site.name].public_key
        for running in self.running.values():
            from_there += [
                None if live.endpoint is None else live.endpoint.address
                for live in running.peers
                if live.public_key == key and live.handshake_age is not None and live.handshake_age < FRESH
            ]
        reached = [one.address for one in self.measurements.datagrams if one.peer == site.name and one.arrived]
        return tuple(dict.fromkeys(one for one in (*reached, *from_there) if one is not None))

    # ---- names

    def _stale(self, site: Site, sent: list[Datagrams]) -> Iterator[Datagrams]:
        """Those that looked its name up and were told another address than the one that it has, or none."""
        there = self._seen_at(site)
        for one in sent:
            if one.arrived:
                continue
            known = [address for address in there if one.address is None or address.version == one.address.version]
            nowhere = one.address is None and (one.error or "").startswith("name:")
            if nowhere or (one.address is not None and known and one.address not in known):
                yield one

    def _named(self, site: Site, sent: list[Datagrams], stale: list[Datagrams]) -> Diagnosis:
        assert site.endpoint is not None
        name, port = site.endpoint.host, site.endpoint.port
        there = listed(self._seen_at(site)[:1])
        cut = any(frozenset((site.name, one.site)) in self.broken for one in stale)
        told = "; ".join(
            f"{one.site} takes it for {one.address}"
            if one.address is not None
            else f"{one.site} finds no address for it"
            for one in stale
        )
        elsewhere = [one.site for one in sent if one not in stale]
        hears = f", and {site.name} is at {there}" if there else ""
        wanted = there or f"the address of {site.name}"
        fix = [f"let {name} lead to {wanted}: correct its record in the DNS, or see why its dynamic DNS client did not"]
        if elsewhere and there:
            others = with_and(one.site for one in stale)
            right = f"{with_and(elsewhere)} found the right address"
            fix = [f"{right}: look at the resolver and /etc/hosts of {others} (`getent ahosts {name}`)"]
        fix.append(
            "`roamlet vpn apply` then takes the new address at once; the timer that follows names does it within minutes"
        )
        if there:
            fix.append(f'or set `endpoint = "{_host(there)}:{port}"` for {site.name}, and `roamlet vpn apply`')
        return (error if cut else warning)(
            "stale-name",
            site.name,
            f"the name {name} does not lead to {site.name}"
            + ("" if cut else ": its tunnels work as long as the others know where it is, and cannot be set up again"),
            f"{told}; what is sent there does not arrive{hears}",
            *fix,
        )

    # ---- port forwards

    def _not_forwarded(self, site: Site, sent: list[Datagrams]) -> Diagnosis:
        assert site.endpoint is not None
        broken = any(site.name in pair for pair in self.broken)
        refused = any(one.error == "ECONNREFUSED" for one in sent)
        number = sum(len(one.sent) for one in sent)
        leads = dict.fromkeys(one.address for one in sent if one.address is not None)
        is_name = site.endpoint.address is None and bool(leads)
        return (error if broken else warning)(
            "port-forward-missing",
            site.name,
            f"UDP to {site.endpoint} does not arrive at the server of {site.name}"
            + ("" if broken else "; its tunnels work only as long as it calls the others"),
            f"none of {number} datagrams from {with_and(one.site for one in sent)} came in there"
            + (f"; the name leads to {listed(leads)}" if is_name else "")
            + (", and something answered that no program listens at that port" if refused else ""),
            f"on the gateway of {site.name}, forward UDP port {site.endpoint.port} to "
            f"{site.lan_address or 'the server'}:{self.running[site.name].listen_port}; "
            f"`roamlet vpn gateway {site.name}` prints the exact lines",
            f"if {listed(leads) if is_name else site.endpoint.host} is no longer its address, "
            + (f"correct {site.endpoint.host} in the DNS" if is_name else "change `endpoint` in the file")
            + ", and `roamlet vpn apply`",
        )

    def _sends_nothing(self, name: str) -> bool:
        own = [one for one in self.measurements.datagrams if one.site == name]
        return len(own) > 1 and not any(one.arrived for one in own)

    def _blocked(self, site: Site) -> Iterator[Diagnosis]:
        """Whether no packet of a site arrives, although each receiver hears from other sites."""
        own = [one for one in self.measurements.datagrams if one.site == site.name]
        heard = {one.peer for one in self.measurements.datagrams if one.arrived and one.site != site.name}
        if len(own) > 1 and not any(one.arrived for one in own) and all(one.peer in heard for one in own):
            yield error(
                "udp-blocked",
                site.name,
                f"no UDP from {site.name} arrives anywhere",
                f"its datagrams to {with_and(one.peer for one in own)} did not come in, others' did",
                f"let the gateway of {site.name} and the server's own firewall pass UDP out to the endpoints",
            )

    def _moved(self, site: Site) -> Diagnosis | None:
        assert site.endpoint is not None
        own = site.endpoint.address
        there = [one for one in self._seen_at(site) if own is not None and one.version == own.version]
        if not there or own in there:
            return None
        cut = any(site.name in pair for pair in self.broken)
        return (error if cut else warning)(
            "endpoint-changed",
            site.name,
            f"{site.name} is at {there[0]} now, and its endpoint says {site.endpoint.host}",
            f"the others hear it from {there[0]}, and what is sent to {site.endpoint} does not arrive",
            f'set `endpoint = "{_host(str(there[0]))}:{site.endpoint.port}"` for {site.name}, and `roamlet vpn apply`',
            "an address that changes is best given by a name that follows it, such as dynamic DNS",
        )


def _host(text: str) -> str:
    return f"[{text}]" if ipaddress.ip_address(text).version == 6 else text
