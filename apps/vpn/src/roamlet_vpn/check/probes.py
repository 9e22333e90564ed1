"""Lets all servers of a network measure at once, and puts together what came of it.

check/probe_plan.py decides what the servers do, host/check/probe.py does it, check/diagnose.py judges the results.
"""

import ipaddress
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import roamlet
from roamlet import remote
from roamlet_vpn.check.probe_plan import PARTS, Probe, ProbePlan, make_probe_plans
from roamlet_vpn.host.check import probe
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.measured import (
    Bounce,
    Counters,
    Datagrams,
    Echo,
    Measured,
    Measurements,
    Passage,
    Segments,
    Sight,
    Way,
    chains,
    sights,
)
from roamlet_vpn.model.network import Address, Network
from roamlet_vpn.model.untrusted import FactsError, Untrusted
from roamlet_vpn.servers import Servers

T = TypeVar("T")
PATIENCE = 60.0  # seconds for one server's part, however bad its line is


def measure(
    network: Network,
    facts: Mapping[str, Facts],
    servers: Servers,
    clients: Mapping[str, tuple[Address, ...]] | None = None,
) -> Measurements:
    """Measure from every site that has facts, all at once, and wait for it: 3 seconds and round trips, 8 if a tunnel is silent.

    `clients` names hosts of a site's LAN to ask, instead of neighbours that its server knows. Raises nothing because of one
    server: that is then in `unreachable`, with the reason.
    """
    mark = random.SystemRandom().randrange(1 << 16, 1 << 32)
    failed: dict[str, str] = {}

    def ask(
        function: Callable[..., Any], arguments: Mapping[str, tuple[Any, ...]], read: Callable[[Untrusted, str], T]
    ) -> dict[str, T]:
        read_there = {}
        for name, answer in servers.each(function, arguments, timeout=PATIENCE).items():
            if answer.error is not None:  # told, not raised: raised here it would hold this frame, which holds it
                failed[name] = str(answer.error)
                continue
            try:
                read_there[name] = read(Untrusted(answer.value, f"what {name} measured"), name)
            except Exception as error:
                failed[name] = str(error)
        return read_there

    lans = {name: [str(lan) for lan in network.site(name).lans] for name in facts}
    begun = ask(probe.begin, {name: (mark, lans[name]) for name in lans}, _begun)
    clocks = _clocks(begun, servers, failed)
    plans = make_probe_plans(network, facts, {name: begun[name][0] for name in clocks}, clients or {}, mark)
    measured = ask(probe.measure, {name: (plans[name].plain,) for name in clocks}, lambda untrusted, name: untrusted)
    seen = ask(probe.finish, dict.fromkeys(begun, (mark,)), sights)
    found = _Found([sight for sights_there in seen.values() for sight in sights_there])
    for name in measured:
        try:
            found.add(name, plans[name], measured[name], clocks[name], begun[name][1])
        except FactsError as error:
            failed[name] = str(error)
    return found.together(failed)


def _begun(untrusted: Untrusted, name: str) -> tuple[tuple[Address, ...], dict[str, str]]:
    neighbours = tuple(one.address() for _, lan in untrusted["neighbours"].items() for one in lan.each())
    return neighbours, {what: why.name() for what, why in untrusted["missing"].items()}


def _clocks(names: Iterable[str], servers: Servers, failed: dict[str, str]) -> dict[str, tuple[float, float]]:
    """By site: (seconds that its clock is ahead, seconds that this may be wrong by)."""

    def ask(name: str) -> tuple[float, float] | None:
        try:
            return _clock(servers.contexts[name])
        except (remote.RemoteError, FactsError, OSError) as error:
            failed[name] = str(error)
            return None

    asked = {name: roamlet.spawn(ask, (name,)) for name in names}
    return {name: clock for name, one in asked.items() if (clock := one.join()) is not None}


def _clock(context: remote.Context) -> tuple[float, float]:
    """Of the quickest of three round trips."""
    best = (0.0, float("inf"))
    for _ in range(3):
        sent = time.time()
        there = Untrusted(context.call(probe.now, timeout=PATIENCE), f"the clock of {context.name}").number()
        took = (time.time() - sent) / 2
        best = min(best, (there - sent - took, took), key=lambda one: one[1])
    return best


class _Found:
    """Puts together what the servers measured and what they saw."""

    def __init__(self, seen: Iterable[Sight]) -> None:
        self._trails: dict[int, list[Sight]] = defaultdict(list)
        self._handshakes: list[Sight] = []
        for sight in seen:
            if sight.probe < 0:
                self._handshakes.append(sight)
            else:
                self._trails[sight.probe].append(sight)
        self._sites: dict[str, Measured] = {}
        self._made: dict[str, list[Any]] = {part: [] for part in PARTS}

    def add(
        self, name: str, plan: ProbePlan, untrusted: Untrusted, clock: tuple[float, float], missing: Mapping[str, str]
    ) -> None:
        """Take what the server of this site sent. Raises FactsError."""
        readers = (self._echo, self._datagram, self._bounce, self._segment, self._passage)
        made = {
            part: [read(name, *_known(plan.probes[part], *one.each())) for one in untrusted[part].each()]
            for part, read in zip(PARTS, readers, strict=True)
        }
        self._sites[name] = Measured(
            ways={
                Untrusted(address, f"a route of {name}").address(): _way(way)
                for address, way in untrusted["routes"].items()
            },
            settings={setting: value.maybe(Untrusted.name) for setting, value in untrusted["settings"].items()},
            before=untrusted["before"].read(Counters),
            after=untrusted["after"].read(Counters),
            clock=clock[0],
            clock_within=clock[1],
            handshakes=tuple(sight for sight in self._handshakes if sight.site == name),
            missing=missing,
            firewall=untrusted["firewall"].maybe(chains),
        )
        for part, ones in made.items():
            self._made[part] += ones

    def together(self, unreachable: Mapping[str, str]) -> Measurements:
        """All of it."""
        made = {part: tuple(ones) for part, ones in self._made.items()}
        return Measurements(self._sites, **made, unreachable=dict(unreachable))

    def _trail(self, probe: Probe) -> tuple[Sight, ...]:
        return tuple(self._trails[probe.plain["number"]])

    def _echo(self, site: str, probe: Probe, answer: Untrusted) -> Echo:
        assert probe.kind is not None
        source = probe.plain["source"]
        return Echo(
            site=site,
            peer=probe.peer,
            kind=probe.kind,
            source=None if source is None else ipaddress.ip_address(source),
            to=ipaddress.ip_address(probe.plain["to"]),
            size=probe.plain["size"],
            sent=answer["sent"].whole(0, probe.plain["count"]),
            times=tuple(one.number() for one in answer["times"].each()),
            error=answer["error"].maybe(Untrusted.name),
            by=answer["by"].maybe(Untrusted.name),
            trail=self._trail(probe),
        )

    def _datagram(self, site: str, probe: Probe, answer: Untrusted) -> Datagrams:
        assert probe.peer is not None
        there = [sight for sight in self._trail(probe) if sight.site == probe.peer and not sight.out]
        return Datagrams(
            site,
            probe.peer,
            sent=tuple(one.whole(0, 65535) for one in answer["sent"].each()),
            arrived=tuple(sorted({sight.length for sight in there})),
            error=answer["error"].maybe(Untrusted.name),
            address=answer["address"].maybe(Untrusted.address),
            came_from=there[0].source if there else None,
        )

    def _bounce(self, site: str, probe: Probe, answer: Untrusted) -> Bounce:
        assert probe.peer is not None
        gateway = ipaddress.ip_address(probe.plain["via"])
        back = {sight.kind for sight in self._trail(probe) if sight.site == site and not sight.out}
        error = answer["error"].maybe(Untrusted.name)
        return Bounce(site, probe.peer, gateway, "request" in back, "reply" in back, error, *_ends(probe))

    def _segment(self, site: str, probe: Probe, answer: Untrusted) -> Segments:
        error = answer["error"].maybe(Untrusted.name)
        return Segments(site, probe.peer, *_ends(probe), tuple(probe.plain["ports"]), error, self._trail(probe))

    def _passage(self, site: str, probe: Probe, answer: Untrusted) -> Passage:
        assert probe.peer is not None
        error = answer["error"].maybe(Untrusted.name)
        return Passage(site, probe.peer, *_ends(probe), probe.plain["tcp"], error, self._trail(probe))


def _ends(probe: Probe) -> tuple[Address, Address]:
    return ipaddress.ip_address(probe.plain["source"]), ipaddress.ip_address(probe.plain["to"])


def _known(probes: Mapping[int, Probe], untrusted: Untrusted, answer: Untrusted) -> tuple[Probe, Untrusted]:
    number = untrusted.whole(0, 1 << 16)
    if number not in probes:
        raise untrusted.wrong("number of a probe that it was told to send")
    return probes[number], answer


def _way(untrusted: Untrusted) -> Way:
    if "error" in untrusted:
        return Way(None)
    return untrusted.read(Way)
