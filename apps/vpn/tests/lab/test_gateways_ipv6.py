"""What a check reports about gateways that do their part for IPv4 and not for IPv6, and that what it advises helps."""

import ipaddress
from dataclasses import replace

import pytest

from apps.vpn.tests.lab.test_checks import applied, checked, network_of, settled
from roamlet_lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]


def both_families(lab):
    network = network_of(lab)
    pairs = zip(network.sites, lab.offices, strict=True)
    sites = [replace(site, lans=(*site.lans, ipaddress.ip_network(office.place.lan6))) for site, office in pairs]
    return replace(network, sites=tuple(sites))


def test_gateways_are_judged_for_ipv6_too():
    with Lab(2, rtt=0.020) as lab:
        network, gateway = both_families(lab), lab.offices[1].gateway
        applied(lab, network)
        settled(lab)
        assert checked(lab, network).diagnoses == ()

        gateway.run(["ip", "-6", "route", "del", "fd00:10::/64"])
        (one,) = checked(lab, network).diagnoses
        assert (one.severity, one.name, one.site) == ("warning", "gateway-route-missing", "beta")
        assert "does not send fd00:10::/64 to the server" in one.what
        assert one.fix[0].startswith("on that gateway, route fd00:10::/64 to fd00:20::100; ")
        gateway.run(["ip", "-6", "route", "add", "fd00:10::/64", "via", "fd00:20::100"])

        gateway.shell("nft insert rule inet filter forward meta nfproto ipv6 ct state invalid drop")
        (one,) = checked(lab, network).diagnoses
        assert (one.severity, one.name, one.site) == ("warning", "stateful-gateway", "beta")
        rule = one.fix[0].split("`")[3]
        assert rule.endswith("ip6 saddr fd00:20::/64 ip6 daddr fd00:10::/64 accept")
        gateway.shell(rule.replace("rule ip6 filter", "rule inet filter"))
        assert checked(lab, network).diagnoses == ()
