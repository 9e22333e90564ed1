"""Faults that look like health or like others: longer routes, firewalls of one direction or protocol, stale names, small MTUs."""

from dataclasses import replace
from io import StringIO
from ipaddress import ip_network
from typing import Any

import pytest

from apps.vpn.tests.measuring import (
    address,
    all_facts,
    changed,
    client,
    echo,
    gateway,
    lan,
    measurements,
    passage,
    segments,
    sight,
    silent,
    site,
    trail,
    well,
)
from apps.vpn.tests.servers import Offices, route
from roamlet_vpn.check.checked import Checked
from roamlet_vpn.check.diagnose import diagnose
from roamlet_vpn.check.latency import matrix, missing
from roamlet_vpn.commands.checking import print_text
from roamlet_vpn.commands.tables import check_report
from roamlet_vpn.model.diagnosis import Diagnosis
from roamlet_vpn.model.facts import Route
from roamlet_vpn.model.measured import SIZES, Bounce, Chain, Datagrams, Way, chains
from roamlet_vpn.model.network import Endpoint
from roamlet_vpn.model.untrusted import Untrusted
from roamlet_vpn.planning.show import print_plan


def only(network: Any, facts: Any, found: Any) -> Diagnosis:
    (one,) = diagnose(network, facts, found)
    return one


def report(network: Any, facts: Any, found: Any) -> str:
    out = StringIO()
    checked = Checked(network, (), found, diagnose(network, facts, found))
    print_text(check_report(network, checked), out)
    return out.getvalue()


class TestRoutes:
    """A longer route wins, whatever the tunnel's own is."""

    def lost(self, network: Any, *routes: Route) -> tuple[Any, Any]:
        facts = all_facts(network)
        facts["beta"] = replace(facts["beta"], routes=(*facts["beta"].routes, *routes))
        return facts, changed(
            measurements(network), [echo(network, "beta", "alpha", "client", times=(), trail=trail("beta", "alpha", 0))]
        )

    def test_a_part_of_a_far_lan_that_goes_elsewhere(self):
        network = well(2)
        facts, found = self.lost(network, Route(lan("192.168.10.48/28"), gateway("beta"), "eth0", None, None))
        one = only(network, facts, found)
        assert (one.severity, one.name, one.site, one.peer) == ("error", "more-specific-route", "beta", "alpha")
        assert one.fix[0] == "on root@beta: `ip route del 192.168.10.48/28 via 192.168.20.1 dev eth0`"
        assert "nothing is wrong" not in report(network, facts, found)

    def test_the_name_of_a_device_is_quoted_for_the_shell(self):
        network = well(2)
        facts, found = self.lost(network, Route(lan("192.168.10.48/28"), None, "$(reboot)", None, None))
        assert "`ip route del 192.168.10.48/28 dev '$(reboot)'`" in only(network, facts, found).fix[0]

    def test_halves_are_one_fault_and_its_mends_are_not_those_of_a_route_that_is_missing(self):
        network = well(2)
        halves = [
            Route(lan(text), None, "tun7", 50, None, protocol="bird")
            for text in ("192.168.10.0/25", "192.168.10.128/25")
        ]
        facts, found = self.lost(network, *halves)
        ways = {address("192.168.10.100"): Way("tun7")}
        one = only(network, facts, changed(found, beta=replace(found.sites["beta"], ways=ways)))
        assert one.name == "more-specific-route" and "ip route del 192.168.10.128/25 dev tun7 metric 50" in one.fix[1]
        assert "of bird" in one.fix[2] and "ip route replace" not in "".join(one.fix)

    def test_a_network_of_the_server_itself_cannot_be_taken_away(self):
        network = well(2)
        facts, found = self.lost(network, Route(lan("192.168.10.48/28"), None, "eth1", None, None, protocol="kernel"))
        one = only(network, facts, found)
        assert one.name == "more-specific-route" and "needs another range" in one.fix[0] and len(one.fix) == 1

    def test_the_tunnels_own_longer_routes_are_right(self):
        network = well(2)
        facts = all_facts(network)
        own = Route(lan("192.168.10.48/28"), None, "wg0", None, None)
        facts["beta"] = replace(facts["beta"], routes=(*facts["beta"].routes, own))
        assert diagnose(network, facts, measurements(network)) == ()

    def test_a_rule_of_policy_routing(self):
        network = well(2)
        facts, found = self.lost(network, Route(lan("192.168.10.0/24"), None, "wg0", None, None))
        ways = {address("192.168.10.100"): Way("eth0", gateway("beta"))}
        one = only(network, facts, changed(found, beta=replace(found.sites["beta"], ways=ways)))
        assert (one.name, one.site) == ("server-route-missing", "beta") and "policy routing" in one.what
        assert "ip rule add pref 1 to 192.168.10.0/24 lookup main" in one.fix[1]

    def test_the_plan_tells_it_and_does_not_call_it_as_it_should_be(self):
        offices = Offices()
        offices.apply()
        offices["beta"].plain["routes"].append(route("192.168.10.48/28", "eth0", via="192.168.20.9"))
        plan = offices.plan()
        assert plan.empty
        out = StringIO()
        print_plan(plan, offices.network, out)
        assert "beta  root@beta  nothing to change, and not well" in out.getvalue()
        assert "`ip route del 192.168.10.48/28 via 192.168.20.9 dev eth0`" in out.getvalue()
        assert out.getvalue().endswith("but 1 line with ! is to be mended by hand.\n")

    def test_a_gateway_that_sends_a_part_elsewhere(self):
        network = well(2)
        found = measurements(network)
        lost = Bounce("beta", "alpha", gateway("beta"), False, False, None, site("beta").lan_address, client("alpha"))
        whole = Bounce(
            "beta", "alpha", gateway("beta"), True, True, None, site("beta").lan_address, address("192.168.10.100")
        )
        silence = [echo(network, "alpha", "beta", "client", times=(), trail=trail("alpha", "beta", 3))]
        one = only(network, all_facts(network), changed(found, silence, bounces=[lost, whole]))
        assert (one.name, one.site) == ("gateway-route-missing", "beta") and "longer route" in one.evidence
        assert "`ip route replace 192.168.10.50 via 192.168.20.100`" in one.fix[0]


class TestNoFalseAllClear:
    def test_a_way_that_is_missing_for_no_known_reason_is_told(self):
        network = well(2)
        found = changed(
            measurements(network), [echo(network, "beta", "alpha", "client", times=(), trail=trail("beta", "alpha", 1))]
        )
        one = only(network, all_facts(network), found)
        assert (one.severity, one.name, one.site, one.peer) == ("error", "path-missing", "beta", "alpha")
        assert "was last seen at wg0 of beta, going out" in one.evidence
        text = report(network, all_facts(network), found)
        assert "none" in text and "nothing is wrong" not in text

    def test_whatever_is_lost_some_error_is_told(self):
        network = well(3)
        pairs = [(one.name, other.name) for one in network.sites for other in network.sites if one is not other]
        for pair in pairs:
            for kinds in (("lan", "client"), ("client",), ("tunnel", "full", "lan", "client")):
                found = changed(
                    measurements(network), [echo(network, *pair, kind, times=(), trail=()) for kind in kinds]
                )
                assert missing(network, found)
                assert any(one.severity == "error" for one in diagnose(network, all_facts(network), found)), (
                    pair,
                    kinds,
                )

    def test_what_was_not_measured_is_not_shown_as_missing(self):
        network = well(2)
        found = replace(measurements(network), echoes=tuple(silent(network, "alpha", "beta", "lan")))
        found = replace(
            found, echoes=tuple(one for one in measurements(network).echoes if one.kind in ("tunnel", "full"))
        )
        found = replace(
            found, echoes=(*found.echoes, echo(network, "alpha", "beta", "lan")), segments=(), passages=(), bounces=()
        )
        assert missing(network, found) == []
        lines = report(network, all_facts(network), found).splitlines()
        assert "none" not in "".join(lines) and "nothing is wrong" in lines

    def test_a_host_that_is_off_says_nothing_of_the_way(self):
        network = well(2)
        off = [echo(network, "alpha", "beta", "client", times=()), echo(network, "beta", None, "own client", times=())]
        found = changed(measurements(network), off)
        assert matrix(network, found)["lans"]["alpha"]["beta"] == 0.08  # of the server at its address there


class TestFirewalls:
    CHAINS = (
        Chain("nft", "inet", "guard", "in", "input", True, False),
        Chain("nft", "inet", "guard", "fwd", "forward", True, False),
        Chain("iptables", "ip", "filter", "FORWARD", "forward", True, False),
        Chain("iptables", "ip", "nat", "POSTROUTING", "postrouting", False, True),
        Chain("nft", "ip", "mine", "post", "postrouting", False, True),
    )

    def known(self, found: Any) -> Any:
        sites = {name: replace(one, firewall=self.CHAINS) for name, one in found.sites.items()}
        return replace(found, sites=sites)

    def tunnel(self, network: Any, steps: Any, **changes: Any) -> Any:
        lost = echo(
            network, "alpha", "beta", "tunnel", times=(), trail=tuple(sight(*step) for step in steps), **changes
        )
        return self.known(changed(measurements(network), [lost]))

    def test_a_server_that_lets_nothing_in_out_of_the_tunnel(self):
        network = well(2)
        steps = [("alpha", "wg0", True, "request"), ("beta", "wg0", False, "request")]
        one = only(network, all_facts(network), self.tunnel(network, steps))
        assert (one.severity, one.name, one.site) == ("error", "server-firewall", "beta")
        assert "comes to it out of the tunnel" in one.what
        assert "on root@beta: `nft insert rule inet guard in iifname wg0 accept`" in one.fix[0]

    def test_a_server_that_lets_no_answers_in(self):
        network = well(2)
        steps = [("beta", "wg0", False, "request"), ("beta", "wg0", True, "reply"), ("alpha", "wg0", False, "reply")]
        one = only(network, all_facts(network), self.tunnel(network, steps))
        assert (one.name, one.site) == ("server-firewall", "alpha") and "answers of beta came in by wg0" in one.evidence

    def test_a_server_that_lets_nothing_out(self):
        network = well(2)
        one = only(network, all_facts(network), self.tunnel(network, [], error="EPERM"))
        assert (one.name, one.site) == ("server-firewall", "alpha") and "it sends into the tunnel" in one.what
        assert "`iptables -I OUTPUT -o wg0 -j ACCEPT`" in one.fix[0]  # no chain of that kind is known

    def test_a_server_that_answers_no_echoes_at_all(self):
        network = well(2)
        found = self.tunnel(network, [("beta", "wg0", False, "request")])
        settings = {**found.sites["beta"].settings, "net/ipv4/icmp_echo_ignore_all": "1"}
        one = only(network, all_facts(network), changed(found, beta=replace(found.sites["beta"], settings=settings)))
        assert (one.severity, one.name, one.site) == ("warning", "server-firewall", "beta")
        assert "sysctl -w net.ipv4.icmp_echo_ignore_all=0" in one.fix[0]

    def test_a_device_that_does_not_forward(self):
        network = well(2)
        found = changed(measurements(network), [echo(network, "beta", "alpha", "client", times=(), trail=())])
        off = replace(found.sites["beta"], settings={"net/ipv4/ip_forward": "1", "net/ipv4/conf/eth0/forwarding": "0"})
        one = only(network, all_facts(network), changed(found, beta=off))
        assert (one.name, one.site) == ("forwarding-off", "beta") and "what comes in by eth0" in one.what
        assert one.fix[0] == "on root@beta: `sysctl -w net.ipv4.conf.eth0.forwarding=1`"

    @pytest.mark.parametrize(("steps", "words"), [(2, "did not leave by eth0"), (4, "did not leave by wg0")])
    def test_tcp_alone_ends_in_a_server(self, steps, words):
        network = well(2)
        found = self.known(changed(measurements(network), segments=[segments("alpha", "beta", steps)]))
        one = only(network, all_facts(network), found)
        assert (one.severity, one.name, one.site) == ("error", "server-firewall", "beta") and words in one.evidence
        assert "by TCP, while echoes pass" in one.what
        assert [step.partition(": ")[2] for step in one.fix if "FORWARD -i" in step or "fwd oif" in step]

    def test_tcp_alone_ends_behind_the_server(self):
        network = well(2)
        one = only(network, all_facts(network), changed(measurements(network), segments=[segments("alpha", "beta", 3)]))
        assert (one.severity, one.name, one.site) == ("warning", "tcp-blocked", "beta")

    def test_a_host_that_takes_no_tcp_from_its_own_server_says_nothing(self):
        network = well(2)
        found = changed(measurements(network), segments=[segments("alpha", "beta", 3), segments("beta", None, 1)])
        assert diagnose(network, all_facts(network), found) == ()

    @pytest.mark.parametrize(
        ("tcp", "steps", "words"),
        [(False, 1, "send into the tunnel"), (True, 1, "by TCP"), (False, 5, "comes back to hosts of alpha")],
    )
    def test_what_hosts_begin_does_not_get_out_or_back(self, tcp, steps, words):
        network = well(2)
        found = self.known(changed(measurements(network), passages=[passage("alpha", "beta", tcp, steps)]))
        one = only(network, all_facts(network), found)
        assert (one.severity, one.name, one.site) == ("error", "server-firewall", "alpha") and words in one.what
        assert "nft insert rule inet guard fwd iifname wg0 accept" in one.fix[0]
        assert "on root@alpha: `iptables -I FORWARD -o wg0 -j ACCEPT`" in one.fix

    def test_what_never_came_back_from_the_gateway_says_nothing_of_the_server(self):
        network = well(2)
        found = changed(measurements(network), passages=[passage("alpha", "beta", False, 0)])
        assert diagnose(network, all_facts(network), found) == ()

    @pytest.mark.parametrize("first", ["10.8.1.0/24", "fd00:8::/64"])
    def test_a_server_that_masquerades_into_its_lan(self, first):
        network = well(2)
        if network.tunnel != ip_network(first):
            network = replace(network, tunnel=ip_network(first), second=network.tunnel)
        seen = list(trail("alpha", "beta"))
        seen[2] = replace(seen[2], source=site("beta").lan_address)
        found = self.known(
            changed(measurements(network), [echo(network, "alpha", "beta", "client", trail=tuple(seen))])
        )
        one = only(network, all_facts(network), found)
        assert (one.severity, one.name, one.site) == ("warning", "masquerade", "beta")
        assert "source 192.168.20.100" in one.evidence
        assert "`iptables -t nat -I POSTROUTING -s 192.168.10.0/24 -d 192.168.20.0/24 -j ACCEPT`" in one.fix[0]
        assert (
            "on root@beta: `nft insert rule ip mine post ip saddr 10.8.1.0/24 ip daddr 192.168.20.0/24 accept`"
            in one.fix
        )

    def test_a_server_that_masquerades_into_the_tunnel(self):
        network = well(2)
        found = measurements(network)
        sent = passage("alpha", "beta")
        seen = tuple(replace(one, source=site("alpha").address) if one.device == "wg0" else one for one in sent.trail)
        one = only(network, all_facts(network), changed(found, passages=[replace(sent, trail=seen)]))
        assert (one.name, one.site) == ("masquerade", "alpha")
        assert "`iptables -t nat -I POSTROUTING -s 192.168.10.0/24 -d 192.168.20.0/24 -j ACCEPT`" in one.fix[0]


CLAIMED = {
    "tool": "nft", "family": "inet", "table": "guard", "name": "fwd-in.2", "hook": "forward", "drops": True, "rewrites": False,
}  # fmt: skip


@pytest.mark.parametrize("key", ["tool", "family", "table", "name"])
@pytest.mark.parametrize("word", ["x;reboot", "$(reboot)", "a b", "-x", "`reboot`", "x|sh"])
def test_a_server_cannot_write_the_commands_that_a_check_proposes(key, word):
    untrusted = Untrusted([CLAIMED, {**CLAIMED, key: word}], "chains")
    assert chains(untrusted) == (Chain("nft", "inet", "guard", "fwd-in.2", "forward", drops=True, rewrites=False),)


class TestNames:
    WRONG = address("198.51.100.99")

    def named(self) -> Any:
        network = well(3)
        beta = replace(network.site("beta"), endpoint=Endpoint("beta.example", 51820))
        return replace(network, sites=(network.site("alpha"), beta, network.site("gamma")))

    def lost(self, network: Any, *resolvers: str, cut: bool = False, to: Any = WRONG) -> Any:
        error = None if to is not None else "name: Name or service not known"
        stale = [Datagrams(one, "beta", SIZES if to else (), (), error, to) for one in resolvers]
        fine = [
            Datagrams(one, "beta", SIZES, SIZES, None, address("198.51.100.2"))
            for one in {"alpha", "gamma"} - {*resolvers}
        ]
        out = [
            Datagrams("beta", one, SIZES, SIZES, None, address("198.51.100.1"), address("198.51.100.2"))
            for one in ("alpha", "gamma")
        ]
        echoes = [one for name in resolvers for one in silent(well(3), "beta", name)] if cut else []
        found = changed(measurements(well(3)), echoes, [*stale, *fine, *out])
        return replace(found, echoes=tuple(one for one in found.echoes if one.kind != "wan"))

    def test_a_stale_name_beside_endpoints_that_are_known(self):
        network = self.named()
        one = only(network, all_facts(network), self.lost(network, "alpha", "gamma"))
        assert (one.severity, one.name, one.site) == ("warning", "stale-name", "beta")
        assert one.evidence.startswith("alpha takes it for 198.51.100.99; gamma takes it for 198.51.100.99")
        assert one.fix[0].startswith("let beta.example lead to 198.51.100.2")
        assert 'endpoint = "198.51.100.2:51820"' in one.fix[2]

    def test_one_resolver_alone_that_is_stale(self):
        network = self.named()
        one = only(network, all_facts(network), self.lost(network, "alpha"))
        assert one.name == "stale-name" and one.fix[0].startswith("gamma found the right address: look at the resolver")
        assert "getent ahosts beta.example" in one.fix[0]

    def test_a_name_that_leads_nowhere_cuts_a_site_off(self):
        network = self.named()
        one = only(network, all_facts(network), self.lost(network, "alpha", "gamma", cut=True, to=None))
        assert (one.severity, one.name) == ("error", "stale-name") and "alpha finds no address for it" in one.evidence

    def test_where_nobody_knows_a_better_address_the_name_is_shown_with_its_own(self):
        network = self.named()
        facts = all_facts(network)
        found = self.lost(network, "alpha", "gamma")
        found = replace(found, datagrams=tuple(one for one in found.datagrams if one.peer == "beta"))
        for name, one in facts.items():
            peers = tuple(replace(peer, handshake_age=None) for peer in one.interface.peers)  # type: ignore[union-attr]
            facts[name] = replace(one, interface=replace(one.interface, peers=peers))  # type: ignore[type-var]
        one = only(network, facts, found)
        assert one.name == "port-forward-missing" and "the name leads to 198.51.100.99" in one.evidence
        assert "if 198.51.100.99 is no longer its address, correct beta.example in the DNS" in one.fix[1]


class TestSmallMtu:
    """The internet carries 1280 bytes, and IPv6 in the tunnel needs 1340."""

    def six(self) -> Any:
        network = well(2)
        sites = [replace(one, lans=(*one.lans, lan(f"fd00:{n}0::/64"))) for n, one in enumerate(network.sites, 1)]
        return replace(network, sites=tuple(sites))

    def found(self, network: Any, *, pieces: bool) -> Any:
        carried = tuple(sorted({size for size in SIZES if size <= 1280}))
        datagrams = [Datagrams(*pair, SIZES, carried) for pair in (("alpha", "beta"), ("beta", "alpha"))]
        found = changed(measurements(network), datagrams=datagrams)
        sizes = {1420: pieces, 1280: pieces, 1200: True}
        full = [
            echo(network, *pair, "full", size=size, times=(0.1,) if passes else ())
            for pair in (("alpha", "beta"), ("beta", "alpha"))
            for size, passes in sizes.items()
        ]
        echoes = tuple(one for one in found.echoes if one.kind != "full")
        on = {
            name: replace(one, settings={**one.settings, "net/ipv6/conf/all/forwarding": "1"})
            for name, one in found.sites.items()
        }
        return replace(found, echoes=(*echoes, *full), sites=on)

    def test_without_ipv6_the_mtu_is_proposed(self):
        network = well(2)
        one = only(network, all_facts(network), self.found(network, pieces=False))
        assert (one.severity, one.name) == ("error", "mtu-too-large") and "`mtu = 1220`" in one.fix[0]

    def test_with_ipv6_no_mtu_is_proposed_that_the_file_refuses(self):
        network = self.six()
        one = only(network, all_facts(network), self.found(network, pieces=True))
        assert (one.severity, one.name) == ("warning", "mtu-too-large") and one.fix[0].startswith("set `mtu = 1280`")
        assert "carry 1340 bytes" in one.fix[1]

    def test_with_ipv6_where_pieces_are_lost_too(self):
        network = self.six()
        one = only(network, all_facts(network), self.found(network, pieces=False))
        assert one.severity == "error" and one.fix[0].startswith("have the line carry 1340 bytes")
        assert one.fix[1].startswith("or do without IPv6") and len(one.fix) == 2
