"""What the tests of diagnoses are made of: two or three sites that are well, and measurements that say so, with parts replaced."""

import ipaddress
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from roamlet_vpn.check.probe_plan import ways_to
from roamlet_vpn.model.facts import Device, Facts, Forwarding, Interface, LivePeer, Route
from roamlet_vpn.model.measured import (
    SIZES,
    Bounce,
    Datagrams,
    Echo,
    Measured,
    Measurements,
    Passage,
    Segments,
    Sight,
    Way,
)
from roamlet_vpn.model.network import Endpoint, Network, Site, allowed_ips

NAMES = ("alpha", "beta", "gamma")


def address(text: str) -> Any:
    return ipaddress.ip_address(text)


def lan(text: str) -> Any:
    return ipaddress.ip_network(text)


def site(name: str, **changes: Any) -> Site:
    number = NAMES.index(name) + 1
    made = Site(
        name,
        f"root@{name}",
        address=address(f"10.8.1.{number}"),
        lan_address=address(f"192.168.{10 * number}.100"),
        lans=(lan(f"192.168.{10 * number}.0/24"),),
        endpoint=Endpoint(f"198.51.100.{number}", 51820),
    )
    return replace(made, **changes)


def key(name: str) -> str:
    return f"{name.capitalize():A<43}="


def well(count: int = 2, **changes: Any) -> Network:
    """A mesh of the first sites."""
    return replace(Network(sites=tuple(site(name) for name in NAMES[:count])), **changes)


def client(name: str) -> Any:
    return address(f"192.168.{10 * (NAMES.index(name) + 1)}.50")


def gateway(name: str) -> Any:
    return address(f"192.168.{10 * (NAMES.index(name) + 1)}.1")


def peer(network: Network, one: str, other: str, **changes: Any) -> LivePeer:
    there = network.site(other)
    made = LivePeer(
        key(other), False, there.endpoint, allowed_ips(network, network.site(one), there), 10.0, 1000, 1000, 25
    )
    return replace(made, **changes)


def facts_of(network: Network, name: str, **changes: Any) -> Facts:
    one = network.site(name)
    interface = Interface(
        key(name), 51820, 1420, True, (ipaddress.ip_interface(f"{one.address}/24"),),
        tuple(peer(network, name, other.name) for other in network.peers_of(one)),
    )  # fmt: skip
    made = Facts(
        hostname=name,
        time=0.0,
        kernel="6.1",
        os="Debian",
        python="3.11",
        is_root=True,
        systemd=True,
        tools={},
        wireguard="kernel",
        devices={"eth0": Device(1500, True, "", (ipaddress.ip_interface(f"{one.lan_address}/24"),))},
        routes=(Route(lan("0.0.0.0/0"), gateway(name), "eth0", None, None),),
        forwarding={4: Forwarding(True, True), 6: Forwarding(False, False)},
        interface=interface,
        config=None,
        waiting_key=None,
        other_interfaces=(),
        unit=None,
        listeners=(),
        rollback=None,
    )
    return replace(made, **changes)


def all_facts(network: Network) -> dict[str, Facts]:
    return {one.name: facts_of(network, one.name) for one in network.sites}


def with_peers(facts: Facts, *peers: LivePeer, **changes: Any) -> Facts:
    assert facts.interface is not None
    return replace(facts, interface=replace(facts.interface, peers=peers, **changes))


def sight(where: str, device: str, out: bool, kind: str, source: Any = None, packet: int = 0) -> Sight:
    unknown = address("192.0.2.1")
    return Sight(where, device, out, kind, 1, packet, source or unknown, unknown, 84, "")


def trail(one: str, other: str, steps: int = 6, packet: int = 0) -> tuple[Sight, ...]:
    """The first so many steps of an echo from one site's server to a host of the other's LAN, and back."""
    way = (
        (one, "wg0", True, "request"),
        (other, "wg0", False, "request"),
        (other, "eth0", True, "request"),
        (other, "eth0", False, "reply"),
        (other, "wg0", True, "reply"),
        (one, "wg0", False, "reply"),
    )
    source = site(one).lan_address
    return tuple(sight(*step, source=source, packet=packet) for step in way[:steps])


def echo(network: Network, one: str, other: str | None, kind: Any, **changes: Any) -> Echo:
    here = network.site(one)
    there = network.site(other or one)
    source, to = {
        "tunnel": (here.address, there.address),
        "full": (here.address, there.address),
        "lan": (here.lan_address, there.lan_address),
        "client": (here.lan_address, client(there.name)),
        "own client": (here.lan_address, client(there.name)),
        "wan": (None, there.endpoint and there.endpoint.address),
    }[kind]
    assert to is not None
    made = Echo(one, other, kind, source, to, 1420 if kind == "full" else 84, 10, (0.08,) * 10)
    if kind == "client" and other is not None:
        made = replace(made, trail=trail(one, other))
    return replace(made, **changes)


def segments(one: str, other: str | None, steps: int = 6, **changes: Any) -> Segments:
    """Connections to a host, of which port 22 is asked for; the first so many steps of it are seen."""
    asked, to = address(f"192.168.{10 * (NAMES.index(one) + 1)}.100"), client(other or one)
    own = (sight(one, "eth0", True, "request", packet=22), sight(one, "eth0", False, "reply", packet=22))
    seen = own[:steps] if other is None else trail(one, other, steps, packet=22)
    return replace(Segments(one, other, asked, to, (22, 80), None, seen), **changes)


def passage(one: str, other: str, tcp: bool = False, steps: int = 6, **changes: Any) -> Passage:
    """Packets in the name of a host of the one LAN for the other's server; the first so many steps of them are seen."""
    way = (
        (one, "eth0", False, "request"),
        (one, "wg0", True, "request"),
        (other, "wg0", False, "request"),
        (other, "wg0", True, "reply"),
        (one, "wg0", False, "reply"),
        (one, "eth0", True, "reply"),
    )
    seen = tuple(sight(*step, source=client(one)) for step in way[:steps])
    return replace(Passage(one, other, client(one), site(other).lan_address, tcp, None, seen), **changes)


def measurements(network: Network) -> Measurements:
    """All is well."""
    pairs = [(one.name, other.name) for one in network.sites for other in network.sites if one is not other]
    return Measurements(
        sites={
            one.name: Measured(
                ways={to: Way("wg0") for other in network.sites if other is not one for to in ways_to(other)},
                settings={"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "0"},
            )
            for one in network.sites
        },
        echoes=tuple(
            [echo(network, *pair, kind) for pair in pairs for kind in ("tunnel", "full", "lan", "client", "wan")]
            + [echo(network, one.name, None, "own client") for one in network.sites]
        ),
        datagrams=tuple(Datagrams(*pair, SIZES, tuple(sorted(set(SIZES)))) for pair in pairs),
        bounces=tuple(Bounce(*pair, gateway(pair[0]), True, True) for pair in pairs),
        segments=()
        if network.backend == "ssh"
        else tuple([segments(*pair) for pair in pairs] + [segments(one.name, None) for one in network.sites]),
        passages=()
        if network.backend == "ssh"
        else tuple(passage(*pair, tcp) for pair in pairs for tcp in (False, True)),
    )


def changed(
    all_of_it: Measurements,
    echoes: Iterable[Echo] = (),
    datagrams: Iterable[Datagrams] = (),
    bounces: Iterable[Bounce] = (),
    segments: Iterable[Segments] = (),
    passages: Iterable[Passage] = (),
    **sites: Measured,
) -> Measurements:
    """The same with these in place of those of the same pair (and kind)."""

    def put(old: Iterable[Any], new: Iterable[Any], *names: str) -> tuple[Any, ...]:
        def name(one: Any) -> tuple[Any, ...]:
            return tuple(getattr(one, part) for part in names)

        replaced = {name(one) for one in new}
        return tuple(one for one in old if name(one) not in replaced) + tuple(new)

    return replace(
        all_of_it,
        echoes=put(all_of_it.echoes, list(echoes), "site", "peer", "kind"),
        datagrams=put(all_of_it.datagrams, list(datagrams), "site", "peer"),
        bounces=put(all_of_it.bounces, list(bounces), "site", "peer"),
        segments=put(all_of_it.segments, list(segments), "site", "peer"),
        passages=put(all_of_it.passages, list(passages), "site", "peer", "tcp"),
        sites={**all_of_it.sites, **sites},
    )


def silent(network: Network, one: str, other: str, *kinds: str) -> list[Echo]:
    """Echoes of these kinds that were lost, both ways."""
    return [
        echo(network, *pair, kind, times=(), trail=())
        for pair in ((one, other), (other, one))
        for kind in kinds or ("tunnel", "full", "lan", "client")
    ]
