"""Each diagnosis by its name, from measurements that show it and nothing else."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apps.vpn.tests.measuring import (
    address,
    all_facts,
    changed,
    client,
    echo,
    facts_of,
    key,
    lan,
    measurements,
    peer,
    sight,
    silent,
    site,
    trail,
    well,
    with_peers,
)  # fmt: skip
from roamlet_vpn.check.diagnose import diagnose
from roamlet_vpn.check.probe_plan import gateways_of
from roamlet_vpn.model.diagnosis import NAMES, Diagnosis
from roamlet_vpn.model.facts import Route
from roamlet_vpn.model.measured import SIZES, Bounce, Counters, Datagrams, Way
from roamlet_vpn.model.network import Endpoint


def told(network: Any, facts: Any, found: Any) -> list[tuple[str, str, str]]:
    diagnoses = diagnose(network, facts, found)
    for one in diagnoses:
        assert one.name in NAMES and one.what and one.evidence and one.fix
    return [(one.severity, one.name, one.site) for one in diagnoses]


def only(network: Any, facts: Any, found: Any) -> Diagnosis:
    (one,) = diagnose(network, facts, found)
    return one


def nothing_arrives(one: str, other: str, error: str | None = None) -> Datagrams:
    return Datagrams(one, other, SIZES, (), error)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_network_that_is_well_has_no_diagnosis(count):
    network = well(count)
    assert diagnose(network, all_facts(network), measurements(network)) == ()


def test_a_server_out_of_reach_is_named_with_the_reason():
    network = well(2)
    facts = {"alpha": facts_of(network, "alpha")}
    found = replace(measurements(network), unreachable={"beta": "ssh: no route"}, echoes=(), datagrams=(), bounces=())
    del found.sites["beta"]  # type: ignore[attr-defined]
    one = only(network, facts, found)
    assert (one.name, one.site, one.evidence) == ("server-unreachable", "beta", "ssh: no route")
    assert "ssh root@beta" in one.fix[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (None, "wg0 of beta is not there"),
        ({"up": False}, "wg0 of beta is down"),
        ({"public_key": None}, "has no private key"),
    ],
)
def test_a_tunnel_that_is_down_explains_the_silence_of_its_peers(change, words):
    network = well(2)
    facts = all_facts(network)
    interface = facts["beta"].interface
    facts["beta"] = replace(facts["beta"], interface=None if change is None else replace(interface, **change))
    one = only(network, facts, changed(measurements(network), silent(network, "alpha", "beta")))
    assert (one.name, one.site) == ("tunnel-down", "beta") and words in one.what


class TestTheThreeThatLookAlike:
    """No packet gets through: the port forward, the key, or the allowed IPs."""

    def test_no_port_forward(self):
        network = well(2)
        found = changed(measurements(network), silent(network, "alpha", "beta"), [nothing_arrives("alpha", "beta")])
        one = only(network, all_facts(network), found)
        assert (one.severity, one.name, one.site) == ("error", "port-forward-missing", "beta")
        assert "forward UDP port 51820 to 192.168.20.100:51820" in one.fix[0]

    def test_a_wrong_key(self):
        network = well(2)
        facts = all_facts(network)
        wrong = peer(network, "alpha", "beta", public_key=key("other"), handshake_age=None)
        facts["alpha"] = with_peers(facts["alpha"], wrong)
        one = only(network, facts, changed(measurements(network), silent(network, "alpha", "beta")))
        assert (one.severity, one.name, one.site, one.peer) == ("error", "wrong-key", "alpha", "beta")
        assert key("other") in one.evidence and key("beta") in one.evidence

    def test_wrong_allowed_ips(self):
        network = well(2)
        facts = all_facts(network)
        facts["beta"] = with_peers(facts["beta"], peer(network, "beta", "alpha", allowed_ips=(lan("10.8.1.1/32"),)))
        found = changed(measurements(network), silent(network, "alpha", "beta", "lan", "client"))
        one = only(network, facts, found)
        assert (one.severity, one.name, one.site, one.peer) == ("error", "wrong-allowed-ips", "beta", "alpha")
        assert "192.168.10.0/24" in one.what
        assert f"wg set wg0 peer {key('alpha')} allowed-ips 10.8.1.1/32,192.168.10.0/24" in one.fix[1]

    def test_all_three_at_once_are_told_apart(self):
        network = well(3)
        facts = all_facts(network)
        facts["alpha"] = with_peers(
            facts["alpha"],
            peer(network, "alpha", "beta", public_key=key("other")),
            peer(network, "alpha", "gamma", allowed_ips=()),
        )
        found = changed(
            measurements(network),
            [*silent(network, "alpha", "beta"), *silent(network, "alpha", "gamma"), *silent(network, "beta", "gamma")],
            [nothing_arrives("alpha", "gamma"), nothing_arrives("beta", "gamma")],
        )
        assert told(network, facts, found) == [
            ("error", "wrong-allowed-ips", "alpha"),
            ("error", "wrong-key", "alpha"),
            ("error", "port-forward-missing", "gamma"),
        ]


def test_allowed_ips_that_another_peer_has_taken_are_told_with_that_peer():
    network = well(3)
    facts = all_facts(network)
    thief = peer(
        network, "alpha", "gamma", allowed_ips=(*peer(network, "alpha", "gamma").allowed_ips, lan("192.168.20.0/24"))
    )
    facts["alpha"] = with_peers(
        facts["alpha"], peer(network, "alpha", "beta", allowed_ips=(lan("10.8.1.2/32"),)), thief
    )
    one = only(network, facts, measurements(network))
    assert one.name == "wrong-allowed-ips" and f"{key('gamma')[:8]}... has taken it" in one.evidence


def test_wider_allowed_ips_that_cover_the_lan_are_right():
    network = well(2)
    facts = all_facts(network)
    wide = (lan("10.8.1.0/24"), lan("192.168.0.0/16"))
    facts["alpha"] = with_peers(facts["alpha"], peer(network, "alpha", "beta", allowed_ips=wide))
    assert diagnose(network, facts, measurements(network)) == ()


def test_a_peer_that_is_not_there_at_all():
    network = well(2)
    facts = all_facts(network)
    facts["alpha"] = with_peers(facts["alpha"])
    one = only(network, facts, changed(measurements(network), silent(network, "alpha", "beta")))
    assert (one.name, one.site, one.peer) == ("peer-missing", "alpha", "beta") and key("beta") in one.evidence


def test_a_missing_forward_is_a_warning_while_the_site_calls_out():
    network = well(2)
    one = only(
        network, all_facts(network), changed(measurements(network), datagrams=[nothing_arrives("alpha", "beta")])
    )
    assert (one.severity, one.name) == (
        "warning",
        "port-forward-missing",
    ) and "as long as it calls the others" in one.what


def test_a_forward_to_a_host_where_nobody_listens_says_so():
    network = well(2)
    found = changed(measurements(network), datagrams=[nothing_arrives("alpha", "beta", "ECONNREFUSED")])
    assert "no program listens" in only(network, all_facts(network), found).evidence


def test_without_a_watch_nothing_is_said_of_forwards_and_gateways():
    network = well(2)
    found = measurements(network)
    found = changed(
        found,
        datagrams=[nothing_arrives("alpha", "beta")],
        bounces=[Bounce("beta", "alpha", address("192.168.20.1"), False, False)],
        beta=replace(found.sites["beta"], missing={"watch": "Operation not permitted"}),
    )
    one = only(network, all_facts(network), found)
    assert (one.name, one.evidence) == ("cannot-watch", "Operation not permitted") and "sudo = true" in one.fix[0]


def test_a_site_that_reaches_nobody_is_told_of_and_its_peers_are_not():
    network = well(3)
    found = changed(
        measurements(network),
        [*silent(network, "alpha", "beta"), *silent(network, "alpha", "gamma")],
        [nothing_arrives("alpha", "beta"), nothing_arrives("alpha", "gamma")],
    )
    assert told(network, all_facts(network), found) == [("error", "udp-blocked", "alpha")]


def test_a_site_that_has_moved():
    network = well(2)
    facts = all_facts(network)
    facts["alpha"] = with_peers(facts["alpha"], peer(network, "alpha", "beta", endpoint=Endpoint("203.0.113.9", 51820)))
    one = only(network, facts, changed(measurements(network), datagrams=[nothing_arrives("alpha", "beta")]))
    assert (one.severity, one.name, one.site) == ("warning", "endpoint-changed", "beta")
    assert 'endpoint = "203.0.113.9:51820"' in one.fix[0]


class TestSilence:
    """No packet gets through although keys, allowed IPs and forwards are right."""

    def test_handshakes_that_are_not_answered(self):
        network = well(2)
        found = changed(measurements(network), silent(network, "alpha", "beta"))
        found = changed(
            found, beta=replace(found.sites["beta"], handshakes=(sight("beta", "eth0", False, "initiation"),) * 2)
        )
        one = only(network, all_facts(network), found)
        assert (one.name, one.site, one.peer) == ("no-handshake", "beta", "alpha")
        assert "2 came in" in one.evidence and "clock" in one.fix[0]

    def test_a_gateway_that_remembers(self):
        network = well(2)
        found = changed(measurements(network), silent(network, "alpha", "beta"))
        found = changed(
            found, alpha=replace(found.sites["alpha"], handshakes=(sight("alpha", "eth0", True, "initiation"),))
        )
        one = only(network, all_facts(network), found)
        assert (one.name, one.site) == ("stale-connection", "beta") and "conntrack -D" in one.fix[0]

    def test_nothing_to_go_by(self):
        network = well(2)
        one = only(network, all_facts(network), changed(measurements(network), silent(network, "alpha", "beta")))
        assert one.name == "no-handshake" and "0 at alpha, 0 at beta" in one.evidence


@pytest.mark.parametrize(
    ("off", "broken", "severity"), [(-3600.0, True, "error"), (-3600.0, False, "warning"), (3600.0, True, "warning")]
)
def test_a_clock_that_is_wrong(off, broken, severity):
    network = well(3)
    found = measurements(network)
    found = changed(found, beta=replace(found.sites["beta"], clock=off, clock_within=0.1))
    if broken:
        lost = [*silent(network, "alpha", "beta"), *silent(network, "beta", "gamma")]
        found = changed(found, lost)
    assert (severity, "clock-wrong", "beta") in told(network, all_facts(network), found)
    if severity == "error":  # and that is why: nothing else is said of its tunnels
        assert len(told(network, all_facts(network), found)) == 1


def test_a_clock_that_is_wrong_here_is_no_fault_of_theirs():
    network = well(3)
    found = measurements(network)
    found = changed(found, **{name: replace(one, clock=60.0) for name, one in found.sites.items()})
    assert told(network, all_facts(network), found) == []


class TestTheMtu:
    def path(self, network: Any, *, inside: bool, arrived: int = 1400) -> Any:
        through = tuple(size for size in sorted(set(SIZES)) if size <= arrived)
        echoes = [
            echo(network, "alpha", "beta", "full", size=size, times=() if size > 1328 else (0.1,))
            for size in (1420, 1328)
        ]
        return changed(
            measurements(network),
            echoes if inside else (),
            [Datagrams("alpha", "beta", SIZES, through), Datagrams("beta", "alpha", SIZES, through)],
        )

    def test_large_packets_lost(self):
        network = well(2)
        one = only(network, all_facts(network), self.path(network, inside=True))
        assert (one.severity, one.name) == ("error", "mtu-too-large") and "mtu = 1340" in one.fix[0]

    def test_large_packets_in_pieces(self):
        network = well(2)
        one = only(network, all_facts(network), self.path(network, inside=False))
        assert (one.severity, one.name) == ("warning", "mtu-too-large") and "mtu = 1340" in one.fix[0]

    def test_without_datagrams_what_came_through_the_tunnel_counts(self):
        network = well(2)
        found = replace(self.path(network, inside=True), datagrams=())
        assert "mtu = 1328" in only(network, all_facts(network), found).fix[0]

    def test_ipv6_endpoints_take_twenty_bytes_more(self):
        network = well(2)
        network = replace(
            network, sites=tuple(replace(one, endpoint=Endpoint("2001:db8::1", 51820)) for one in network.sites)
        )
        found = self.path(well(2), inside=True)
        assert "mtu = 1320" in only(network, all_facts(network), found).fix[0]

    def test_an_mtu_that_was_set_right_is_right(self):
        network = well(2)
        facts = all_facts(network)
        for name, one in facts.items():
            facts[name] = replace(one, interface=replace(one.interface, mtu=1340))  # type: ignore[type-var]
        found = changed(self.path(network, inside=False), [echo(network, "alpha", "beta", "full", size=1340)])
        assert diagnose(network, facts, found) == ()


def test_lost_packets():
    network = well(2)
    found = changed(
        measurements(network),
        [
            echo(network, "alpha", "beta", "tunnel", times=(0.1,) * 7),
            echo(network, "alpha", "beta", "wan", times=(0.1,) * 8),
        ],
    )
    one = only(network, all_facts(network), found)
    assert one.name == "packet-loss" and "3 of 10" in one.evidence and "2 of 10 beside it" in one.evidence


class TestBehindTheServers:
    def test_a_route_that_the_server_lacks(self):
        network = well(2)
        found = changed(measurements(network), silent(network, "alpha", "beta", "lan", "client"))
        ways = {address("192.168.10.100"): Way("eth0", address("192.168.20.1"))}
        one = only(network, all_facts(network), changed(found, beta=replace(found.sites["beta"], ways=ways)))
        assert (one.name, one.site, one.peer) == ("server-route-missing", "beta", "alpha")
        assert "would leave by eth0 to 192.168.20.1" in one.evidence
        assert "ip route replace 192.168.10.0/24 dev wg0" in one.fix[1]

    def test_a_server_that_does_not_forward(self):
        network = well(2)
        found = changed(measurements(network), silent(network, "alpha", "beta", "client"))
        off = replace(found.sites["beta"], settings={"net/ipv4/ip_forward": "0"})
        one = only(network, all_facts(network), changed(found, beta=off))
        assert (one.name, one.site) == ("forwarding-off", "beta") and "sysctl -w net.ipv4.ip_forward=1" in one.fix[1]

    def test_forwarding_of_ipv6_matters_where_there_is_a_lan_of_it(self):
        network = well(2)
        six = replace(network.site("beta"), lans=(*network.site("beta").lans, lan("fd00:20::/64")))
        network = replace(network, sites=(network.site("alpha"), six))
        one = only(network, all_facts(network), measurements(network))
        assert (one.name, one.site) == ("forwarding-off", "beta") and "IPv6" in one.what

    def lost_at(self, network: Any, steps: int) -> Any:
        return changed(
            measurements(network),
            [echo(network, "alpha", "beta", "client", times=(), trail=trail("alpha", "beta", steps))],
        )

    @pytest.mark.parametrize(("steps", "words"), [(2, "did not leave by eth0"), (4, "did not leave by wg0")])
    def test_a_firewall_of_the_server(self, steps, words):
        network = well(2)
        one = only(network, all_facts(network), self.lost_at(network, steps))
        assert (one.name, one.site) == ("server-firewall", "beta") and words in one.evidence

    def test_a_route_that_the_gateway_lacks(self):
        network = well(2)
        found = changed(
            self.lost_at(network, 3), bounces=[Bounce("beta", "alpha", address("192.168.20.1"), False, False)]
        )
        one = only(network, all_facts(network), found)
        assert (one.severity, one.name, one.site) == ("error", "gateway-route-missing", "beta")
        assert "route 192.168.10.0/24 to 192.168.20.100" in one.fix[0] and "option 121" in one.fix[1]

    def test_a_stateful_gateway(self):
        network = well(2)
        found = changed(
            self.lost_at(network, 3), bounces=[Bounce("beta", "alpha", address("192.168.20.1"), True, False)]
        )
        one = only(network, all_facts(network), found)
        assert (one.severity, one.name, one.site) == ("error", "stateful-gateway", "beta")
        assert "ip saddr 192.168.20.0/24 ip daddr 192.168.10.0/24 accept" in one.fix[0] and "option 121" in one.fix[1]

    def test_a_host_that_answers_nobody_from_afar(self):
        network = well(2)
        one = only(network, all_facts(network), self.lost_at(network, 3))
        assert (one.name, one.site) == ("client-route-missing", "beta") and str(client("beta")) in one.what

    def test_a_host_that_its_own_server_does_not_reach_says_nothing(self):
        network = well(2)
        found = changed(self.lost_at(network, 3), [echo(network, "beta", None, "own client", times=())])
        assert diagnose(network, all_facts(network), found) == ()

    def test_hosts_with_routes_of_their_own_need_no_gateway(self):
        network = well(2)
        found = changed(measurements(network), bounces=[Bounce("beta", "alpha", address("192.168.20.1"), False, False)])
        assert diagnose(network, all_facts(network), found) == ()

    def test_a_stateful_gateway_is_a_warning_while_hosts_answer(self):
        network = well(2)
        found = changed(measurements(network), bounces=[Bounce("beta", "alpha", address("192.168.20.1"), True, False)])
        one = only(network, all_facts(network), found)
        assert (one.severity, one.name) == ("warning", "stateful-gateway") and "ICMP redirect" in one.evidence

    @pytest.mark.parametrize(("back", "name"), [(False, "gateway-route-missing"), (True, "stateful-gateway")])
    def test_a_gateway_that_does_its_part_for_ipv4_alone_is_told_with_the_networks_of_ipv6(self, back, name):
        network = well(2)
        sites = [
            replace(one, lans=(*one.lans, lan(f"fd00:{number}0::/64"))) for number, one in enumerate(network.sites, 1)
        ]
        network = replace(network, sites=tuple(sites))
        facts, found = all_facts(network), measurements(network)
        found = replace(
            found,
            sites={
                one: replace(there, settings=dict.fromkeys(there.settings, "1")) for one, there in found.sites.items()
            },
            bounces=(
                *found.bounces,
                Bounce("beta", "alpha", address("fe80::1"), back, False, source=address("fd00:20::100")),
            ),
        )
        one = only(network, facts, found)
        assert (one.severity, one.name, one.site) == ("warning", name, "beta")
        said = " ".join((one.what, one.evidence, *one.fix))
        assert "fd00:10::/64" in said and "fd00:20::100" in said and "192.168.10" not in said and "DHCP" not in said
        assert "redirect" not in said and ("ip6 saddr fd00:20::/64" in said) is back

    def test_the_gateways_of_a_lan_are_those_of_its_device(self):
        one, facts = site("alpha"), facts_of(well(2), "alpha")
        six = [
            Route(lan("::/0"), address("fe80::9"), "eth1", None, None),  # leads to the internet, past the LAN
            Route(lan("::/0"), address("fe80::1"), "eth0", None, None),
            Route(lan("2001:db8::/32"), address("fe80::2"), "eth0", None, None),
        ]
        facts = replace(facts, routes=(*facts.routes, *six))
        assert gateways_of(one, facts) == {4: address("192.168.10.1"), 6: address("fe80::1")}
        assert gateways_of(replace(one, gateway=address("192.168.10.7")), facts)[4] == address("192.168.10.7")

    def test_a_gateway_of_which_no_host_is_known_gets_a_warning(self):
        network = well(2)
        found = changed(measurements(network), bounces=[Bounce("beta", "alpha", address("192.168.20.1"), False, False)])
        found = replace(found, echoes=tuple(one for one in found.echoes if "client" not in one.kind))
        assert told(network, all_facts(network), found) == [("warning", "gateway-route-missing", "beta")]

    @pytest.mark.parametrize(("came_in", "site"), [(True, "beta"), (False, "alpha")])
    def test_a_server_that_does_not_answer_at_its_lan_address(self, came_in, site):
        network = well(2)
        seen = (sight("beta", "wg0", False, "request"),) if came_in else ()
        found = changed(measurements(network), [echo(network, "alpha", "beta", "lan", times=(), trail=seen)])
        one = only(network, all_facts(network), found)
        assert (
            (one.name, one.site) == ("lan-unreachable", site)
            and "rp_filter" in one.fix[0]
            and f"on root@{site}: `iptables -I" in one.fix[1]
        )


class TestCounters:
    def of(self, network: Any, before: Counters, after: Counters, backend: str = "wireguard") -> Any:
        found = measurements(network)
        return changed(found, alpha=replace(found.sites["alpha"], before=before, after=after))

    def test_names_of_devices_are_quoted_for_the_shell(self):
        network = well(2)
        found = self.of(network, Counters(queues={"a;reboot": 3}), Counters(queues={"a;reboot": 5}))
        one = only(network, all_facts(network), found)
        assert "tc qdisc replace dev 'a;reboot' root" in one.fix[0] and "show dev 'a;reboot'" in one.evidence

    @pytest.mark.parametrize(
        ("before", "after", "name", "words"),
        [
            (
                Counters(devices={"wg0": {"tx_dropped": 5, "tx_packets": 100}}),
                Counters(devices={"wg0": {"tx_dropped": 12, "tx_packets": 193}}),
                "drops-tunnel-device",
                "7 of 100",
            ),
            (Counters(queues={"eth0": 3}), Counters(queues={"eth0": 5}), "drops-queue", "2 meanwhile"),
            (Counters(udp={"RcvbufErrors": 3}), Counters(udp={"RcvbufErrors": 5}), "drops-udp-buffer", "2 meanwhile"),
            (Counters(socket_drops=1), Counters(socket_drops=4), "drops-udp-buffer", "3 meanwhile"),
            (Counters(), Counters(tracked=(950, 1000)), "tracking-full", "nf_conntrack"),
        ],
    )
    def test_what_grew_is_told(self, before, after, name, words):
        network = well(2)
        one = only(network, all_facts(network), self.of(network, before, after))
        assert (one.severity, one.name, one.site) == ("warning", name, "alpha") and words in one.evidence

    def test_what_was_lost_earlier_is_not(self):
        network = well(2)
        same = Counters(
            devices={"wg0": {"tx_dropped": 5}},
            queues={"eth0": 3},
            udp={"RcvbufErrors": 9},
            socket_drops=2,
            tracked=(1, 100),
        )
        assert diagnose(network, all_facts(network), self.of(network, same, same)) == ()

    @pytest.mark.parametrize(("again", "names"), [(30_000, ["tcp-over-tcp"]), (100, [])])
    def test_an_ssh_tunnel_on_a_line_that_loses(self, again, names):
        network = well(2, backend="ssh")
        facts = {name: replace(one, interface=None) for name, one in all_facts(network).items()}
        found = self.of(network, Counters(), Counters(ssh=(1_000_000, again)))
        devices = {"alpha": "tun2", "beta": "tun1"}
        sites = {
            name: replace(one, ways={to: Way(devices[name]) for to in one.ways}) for name, one in found.sites.items()
        }
        assert [one.name for one in diagnose(network, facts, changed(found, **sites))] == names


def test_every_name_stands_in_the_reference_and_no_other():
    page = (Path(__file__).parents[3] / "docs/reference/vpn-check.md").read_text("utf-8")
    assert set(re.findall(r"^\| `([a-z-]+)` \|", page.partition("## Diagnoses")[2], re.MULTILINE)) == set(NAMES)
